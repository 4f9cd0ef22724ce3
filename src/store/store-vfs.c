/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "store-vfs.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/macros.h"

/* The database as one connection has it open. */
struct vfs_file {
	sqlite3_io_methods methods; /* the system's, except those that concern locks */
	const sqlite3_io_methods *system;
	struct store_vfs *vfs;
	unsigned shared, exclusive; /* locks of the index: 1 << number */
};

struct store_vfs {
	sqlite3_vfs base;
	const sqlite3_vfs *system;
	char name[32];
	struct vfs_file writer, reader;
	pthread_mutex_t lock; /* for the index and its locks */
	void **regions;       /* the index */
	size_t n_regions;
};

static struct vfs_file *file_of(sqlite3_file *f)
{
	return (struct vfs_file *)((char *)(uintptr_t)f->pMethods -
				   offsetof(struct vfs_file, methods));
}

/* ---- the lock of the database -----------------------------------------------------------------
 */

/* Takes the exclusive lock, whatever lock SQLite asks for, and keeps it. */
static int writer_lock(sqlite3_file *f, int level)
{
	const sqlite3_io_methods *system = file_of(f)->system;
	int rc = level == SQLITE_LOCK_NONE ? SQLITE_OK : system->xLock(f, SQLITE_LOCK_SHARED);

	if (rc == SQLITE_OK && level != SQLITE_LOCK_NONE) {
		rc = system->xLock(f, SQLITE_LOCK_EXCLUSIVE);
		if (rc != SQLITE_OK)
			(void)system->xUnlock(f, SQLITE_LOCK_NONE);
	}
	return rc;
}

/* The writer has the lock for both of them, until it is closed. */
static int no_lock(sqlite3_file *f, int level)
{
	(void)f;
	(void)level;
	return SQLITE_OK;
}

static int no_other_writer(sqlite3_file *f, int *ret)
{
	(void)f;
	*ret = 0;
	return SQLITE_OK;
}

/* ---- the index of the log ---------------------------------------------------------------------
 */

static int index_map(sqlite3_file *f, int region, int size, int extend, void volatile **ret)
{
	struct store_vfs *v = file_of(f)->vfs;
	int rc = SQLITE_OK;

	*ret = NULL;
	pthread_mutex_lock(&v->lock);
	while (extend && rc == SQLITE_OK && v->n_regions <= (size_t)region) {
		void **p = array_add(&v->regions, &v->n_regions, sizeof(*p));

		if (p && !(*p = calloc(1, (size_t)size)))
			v->n_regions--;
		rc = p && *p ? SQLITE_OK : SQLITE_IOERR_NOMEM;
	}
	if ((size_t)region < v->n_regions)
		*ret = v->regions[region];
	pthread_mutex_unlock(&v->lock);
	return rc;
}

static int index_lock(sqlite3_file *f, int first, int n, int flags)
{
	struct vfs_file *file = file_of(f);
	struct store_vfs *v = file->vfs;
	const struct vfs_file *other = file == &v->writer ? &v->reader : &v->writer;
	unsigned mask = ((1U << n) - 1) << first;
	int rc = SQLITE_OK;

	pthread_mutex_lock(&v->lock);
	if (flags & SQLITE_SHM_UNLOCK) {
		file->shared &= ~mask;
		file->exclusive &= ~mask;
	} else if (other->exclusive & mask ||
		   (flags & SQLITE_SHM_EXCLUSIVE && other->shared & mask)) {
		rc = SQLITE_BUSY;
	} else if (flags & SQLITE_SHM_EXCLUSIVE) {
		file->exclusive |= mask;
	} else {
		file->shared |= mask;
	}
	pthread_mutex_unlock(&v->lock);
	return rc;
}

static void index_barrier(sqlite3_file *f)
{
	(void)f;
	atomic_thread_fence(memory_order_seq_cst);
}

static void index_free(struct store_vfs *v)
{
	while (v->n_regions > 0)
		free(v->regions[--v->n_regions]);
}

static int index_unmap(sqlite3_file *f, int delete)
{
	struct vfs_file *file = file_of(f);
	struct store_vfs *v = file->vfs;

	(void)delete;
	pthread_mutex_lock(&v->lock);
	file->shared = file->exclusive = 0;
	if (file == &v->writer)
		index_free(v);
	pthread_mutex_unlock(&v->lock);
	return SQLITE_OK;
}

/* ---- opening ----------------------------------------------------------------------------------
 */

static int open_file(sqlite3_vfs *base, sqlite3_filename name, sqlite3_file *f, int flags,
		     int *ret_flags)
{
	struct store_vfs *v = (struct store_vfs *)base;
	bool reads = flags & SQLITE_OPEN_READONLY;
	struct vfs_file *file = reads ? &v->reader : &v->writer;
	int rc = v->system->xOpen(base, name, f, flags, ret_flags);

	if (rc != SQLITE_OK || !(flags & SQLITE_OPEN_MAIN_DB))
		return rc;
	*file = (struct vfs_file){ .methods = *f->pMethods, .system = f->pMethods, .vfs = v };
	file->methods.iVersion = 2; /* the first with an index, the last without mappings */
	file->methods.xLock = reads ? no_lock : writer_lock;
	file->methods.xUnlock = no_lock;
	file->methods.xCheckReservedLock = no_other_writer;
	file->methods.xShmMap = index_map;
	file->methods.xShmLock = index_lock;
	file->methods.xShmBarrier = index_barrier;
	file->methods.xShmUnmap = index_unmap;
	f->pMethods = &file->methods;
	return SQLITE_OK;
}

static int keep_path(sqlite3_vfs *base, const char *name, int size, char *ret)
{
	(void)base;
	(void)sqlite3_snprintf(size, ret, "%s", name);
	return SQLITE_OK;
}

int store_vfs_new(struct store_vfs **ret)
{
	const sqlite3_vfs *system = sqlite3_vfs_find(NULL);
	struct store_vfs *v = system ? calloc(1, sizeof(*v)) : NULL;

	if (!v)
		return system ? -ENOMEM : -ENOSYS;
	(void)snprintf(v->name, sizeof(v->name), "reclaimd-%p", (void *)v);
	v->system = system;
	v->base = *system;
	v->base.pNext = NULL;
	v->base.zName = v->name;
	v->base.xFullPathname = keep_path;
	v->base.xOpen = open_file;
	(void)pthread_mutex_init(&v->lock, NULL);
	if (sqlite3_vfs_register(&v->base, 0) != SQLITE_OK) {
		(void)pthread_mutex_destroy(&v->lock);
		free(v);
		return -ENOMEM;
	}
	*ret = v;
	return 0;
}

struct store_vfs *store_vfs_free(struct store_vfs *v)
{
	if (!v)
		return NULL;
	(void)sqlite3_vfs_unregister(&v->base);
	(void)pthread_mutex_destroy(&v->lock);
	/* The index of a database that only the reader has used is still there. */
	index_free(v);
	free(v->regions);
	free(v);
	return NULL;
}

int store_vfs_open(struct store_vfs *v, sqlite3 **ret, const char *path, bool read_only)
{
	/* Without a mutex: one thread at a time has the connection. */
	return sqlite3_open_v2(path, ret,
			       (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
				       SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX,
			       v->name);
}
