/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shrinking.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/units.h"
#include "daemon/context/descriptor-store.h"
#include "daemon/context/log.h"

/* With the table, what the unit has as FileDescriptorStoreMax=. A user leaves others half of them.
 */
#define FILES_MOST 256U
#define FILES_USER 128U

#define TABLE "files"
#define TABLE_VERSION 1

struct slot {
	_Atomic uint64_t job; /* written last; 0: free */
	uint8_t uuid[16];
	uint64_t dev, ino;
	int64_t btime_nsec;
	/* What it took on the disk when the job's record was brought up to date last; and whether
	 * that counts its name among what is deleted. */
	uint64_t uncounted_bytes, counted_name;
};

/* Its file is as long as this, and sealed at that. */
struct table {
	uint64_t version;
	struct slot slots[FILES_MOST];
};

struct shrinking {
	struct descriptor_store *store;
	struct table *table; /* NULL: nothing is kept */
	unsigned room, n;    /* for files; how many are kept */
	bool full;           /* that has been told */
	/* At the start: what has come back. */
	int table_fd, fds[FILES_MOST];
};

/* ---- one file ---------------------------------------------------------------------------------
 */

/* Asks no filesystem. */
static bool has_lease(int fd)
{
	return fcntl(fd, F_GETLEASE) == F_WRLCK;
}

static uint64_t bytes_left(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_blocks * 512;
}

/* The kernel tells us when the lease is to be broken: a process that opens the file waits until it
 * is given up. (A worker looks at it before each step.) The signal was set with the lease. */
static void own_breaks(int fd)
{
	(void)fcntl(fd, F_SETOWN, getpid());
}

/* The part of I5 that can be seen from here. A worker says what it wants: it is asked first whether
 * asking the filesystem could keep us waiting. */
static bool may_be_freed(struct jobs *jobs, int fd, struct identity *ret)
{
	const struct mounts *mounts = context_mounts(jobs->context);
	int flags = fcntl(fd, F_GETFL);
	const struct mount *m;

	if (!mounts || flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_RDONLY ||
	    !has_lease(fd) || fd_whereabouts(fd, "", 0, ret) < 0 || !S_ISREG(ret->mode))
		return false;
	m = mounts_by_id(mounts, ret->mnt_id);
	m = m ? m : mounts_by_dev(mounts, (dev_t)ret->dev);
	return m && !mount_may_hang(m) && fd_identity(fd, "", ret) >= 0 && ret->nlink == 0;
}

static const char *slot_name(unsigned slot, char buf[16])
{
	(void)snprintf(buf, 16, "file-%u", slot);
	return buf;
}

static void table_drop(struct shrinking *s)
{
	(void)munmap(s->table, sizeof(*s->table));
	s->table = NULL;
	descriptor_store_drop(s->store, TABLE);
}

/* It is in no list any more. Ours first: the store's is the last, and it may take long to close
 * that. */
static void let_go(struct job *j, struct shrinking_file *f, bool drop)
{
	struct shrinking *s = j->jobs->shrinking;
	char name[16];

	fd_closep(&f->fd);
	if (drop) {
		atomic_store(&s->table->slots[f->slot].job, 0);
		descriptor_store_drop(s->store, slot_name(f->slot, name));
		if (--s->n == 0)
			table_drop(s);
	}
	free(f);
}

static void let_go_of_all(struct job *j, bool drop)
{
	struct shrinking_file *f;

	while ((f = SLIST_FIRST(&j->shrinking))) {
		SLIST_REMOVE_HEAD(&j->shrinking, link);
		let_go(j, f, drop);
	}
}

void shrinking_drop(struct job *j)
{
	let_go_of_all(j, /* drop= */ true);
}

bool shrinking_is_left(struct job *j)
{
	struct shrinking_files all = j->shrinking;
	struct shrinking_file *f;

	SLIST_INIT(&j->shrinking);
	while ((f = SLIST_FIRST(&all))) {
		SLIST_REMOVE_HEAD(&all, link);
		if (has_lease(f->fd))
			SLIST_INSERT_HEAD(&j->shrinking, f, link);
		else
			let_go(j, f, /* drop= */ true);
	}
	return !SLIST_EMPTY(&j->shrinking);
}

uint64_t shrinking_bytes(const struct job *j)
{
	const struct shrinking_file *f;
	uint64_t bytes = 0;

	SLIST_FOREACH(f, &j->shrinking, link)
		bytes += bytes_left(f->fd);
	return bytes;
}

/* Its name was the first to go. */
static void count_name(struct job *j, struct slot *slot)
{
	j->r.entries_done += !slot->counted_name;
	j->jobs->entries_freed += !slot->counted_name;
	slot->counted_name = true;
}

void shrinking_counted(struct job *j, bool names)
{
	const struct shrinking_file *f;

	if (!shrinking_is_left(j))
		return;
	assert(j->jobs->shrinking->table);
	SLIST_FOREACH(f, &j->shrinking, link) {
		struct slot *slot = &j->jobs->shrinking->table->slots[f->slot];

		slot->uncounted_bytes = bytes_left(f->fd);
		if (names)
			slot->counted_name = true;
		else
			count_name(j, slot);
	}
}

/* ---- a further one ----------------------------------------------------------------------------
 */

static struct table *table_map(int fd)
{
	void *p = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* With the first file: nothing is held, and no keeper runs, where there is none. */
static bool table_make(struct shrinking *s)
{
	_cleanup_close_ int fd = -1;

	s->room = MIN(FILES_MOST, descriptor_store_room(s->store));
	/* One of them is the table's. */
	if (s->room < 2)
		return false;
	s->room--;
	fd = memfd_create("reclaim-files", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, sizeof(struct table)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return false;
	s->table = table_map(fd);
	if (!s->table)
		return false;
	s->table->version = TABLE_VERSION;
	if (!descriptor_store_put(s->store, TABLE, fd))
		table_drop(s);
	return s->table;
}

/* A free slot; FILES_MOST: there is none for this job. */
static unsigned slot_find(const struct job *j)
{
	const struct table *t = j->jobs->shrinking->table;
	unsigned room = j->jobs->shrinking->room, slot = FILES_MOST, user = 0;

	for (unsigned i = 0; i < room; i++) {
		uint64_t id = atomic_load(&t->slots[i].job);
		const struct job_stub *other = id ? job_table_find(&j->jobs->table, id) : NULL;

		if (id == 0 && slot == FILES_MOST)
			slot = i;
		user += other && other->submitter->id.uid == j->r.uid;
	}
	return user < MIN(FILES_USER, (room + 1) / 2) ? slot : FILES_MOST;
}

static void log_full(struct shrinking *s, const struct job *j)
{
	/* Where there is no store, it has told why. */
	if (s->full || !s->table)
		return;
	s->full = true;
	log_user(LOG_WARNING, j->r.uid, SD_ID128_NULL,
		 "More large files are being freed than are kept over a restart (%u, and half of "
		 "them for one user): if reclaimd ends, the kernel frees at once what is left of "
		 "the others",
		 s->room);
}

void shrinking_add(struct job *j, int fd, uint64_t bytes)
{
	struct shrinking *s = j->jobs->shrinking;
	_cleanup_close_ int own = fd;
	struct shrinking_file *f;
	struct identity id;
	struct slot *slot;
	char name[16];
	unsigned i;

	f = s && may_be_freed(j->jobs, fd, &id) ? malloc(sizeof(*f)) : NULL;
	if (!f)
		return;
	i = s->table || table_make(s) ? slot_find(j) : FILES_MOST;
	if (i == FILES_MOST) {
		log_full(s, j);
		free(f);
		return;
	}
	own_breaks(fd);
	slot = &s->table->slots[i];
	memcpy(slot->uuid, j->r.uuid, sizeof(slot->uuid));
	slot->dev = id.dev;
	slot->ino = id.ino;
	slot->btime_nsec = id.btime_nsec;
	slot->uncounted_bytes = MAX(bytes, id.blocks_bytes);
	slot->counted_name = false;
	atomic_store(&slot->job, j->r.id);
	*f = (struct shrinking_file){ .slot = i, .fd = fd_take(&own) };
	SLIST_INSERT_HEAD(&j->shrinking, f, link);
	s->n++;
	if (!descriptor_store_put(s->store, slot_name(i, name), fd)) {
		SLIST_REMOVE_HEAD(&j->shrinking, link);
		let_go(j, f, /* drop= */ true);
	}
	/* What has been freed since makes room for the next. */
	(void)shrinking_is_left(j);
}

/* ---- those of the daemon before ---------------------------------------------------------------
 */

static void on_kept(const char *name, int fd, void *userdata)
{
	struct shrinking *s = userdata;
	int *at = strcmp(name, TABLE) == 0 ? &s->table_fd : NULL;
	unsigned slot;
	char more;

	assert(s);
	if (!at && sscanf(name, "file-%u%c", &slot, &more) == 1 && slot < FILES_MOST)
		at = &s->fds[slot];
	if (at && *at < 0) {
		*at = fd;
		return;
	}
	fd_closep(&fd);
	if (!at)
		descriptor_store_drop(s->store, name);
}

/* Of another version, or of none, it says nothing. */
static bool table_take(struct shrinking *s)
{
	int seals = fcntl(s->table_fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(s->table_fd, &st) < 0 ||
	    st.st_size != sizeof(struct table))
		return false;
	s->table = table_map(s->table_fd);
	if (!s->table || s->table->version == TABLE_VERSION)
		return s->table;
	(void)munmap(s->table, sizeof(*s->table));
	s->table = NULL;
	return false;
}

/* Is it what the table says, and whose job is it? NULL: it is not, or the job is no more. */
static struct job *job_of(struct jobs *jobs, unsigned i)
{
	const struct slot *slot = &jobs->shrinking->table->slots[i];
	struct job *j = job_table_find_awake(&jobs->table, atomic_load(&slot->job));
	int fd = jobs->shrinking->fds[i];
	struct identity id;

	/* First what the kernel knows by itself: it is then on a filesystem that may be asked. */
	if (!j || memcmp(j->r.uuid, slot->uuid, sizeof(slot->uuid)) != 0 ||
	    fd_whereabouts(fd, "", 0, &id) < 0 || id.dev != slot->dev || id.ino != slot->ino ||
	    !S_ISREG(id.mode))
		return NULL;
	if (!has_lease(fd) || fd_identity(fd, "", &id) < 0 || id.btime_nsec != slot->btime_nsec ||
	    id.nlink != 0)
		return NULL;
	return j;
}

/* What was freed after the job's record was written last. */
static void count_freed(struct job *j, struct slot *slot, int fd)
{
	uint64_t left = bytes_left(fd);

	if (slot->uncounted_bytes > left)
		j->r.bytes_freed += slot->uncounted_bytes - left;
	slot->uncounted_bytes = left;
	count_name(j, slot);
	job_save(j, NULL, NULL);
}

static bool take_up(struct jobs *jobs, unsigned i, uint64_t *bytes)
{
	struct shrinking *s = jobs->shrinking;
	struct job *j = s->table ? job_of(jobs, i) : NULL;
	struct shrinking_file *f = j ? malloc(sizeof(*f)) : NULL;
	char name[16];

	if (!f) {
		fd_closep(&s->fds[i]);
		if (s->table)
			atomic_store(&s->table->slots[i].job, 0);
		descriptor_store_drop(s->store, slot_name(i, name));
		return false;
	}
	*f = (struct shrinking_file){ .slot = i, .fd = fd_take(&s->fds[i]) };
	SLIST_INSERT_HEAD(&j->shrinking, f, link);
	s->n++;
	own_breaks(f->fd);
	*bytes += bytes_left(f->fd);
	count_freed(j, &s->table->slots[i], f->fd);
	return true;
}

static void log_taken_up(unsigned taken, unsigned left_out, uint64_t bytes)
{
	char files[COUNTED_SIZE], size[16];

	if (taken > 0)
		log_line(LOG_INFO,
			 "The remainder of %s, %s, was kept since reclaimd ended: jobs go on with "
			 "it",
			 counted_format(files, sizeof(files), taken, "large file", "large files"),
			 size_format(size, sizeof(size), bytes));
	if (left_out > 0)
		log_line(
			LOG_NOTICE,
			"%s without a name %s kept that no unfinished job has, or that another "
			"process has opened: left to the kernel, as after rm",
			counted_format(files, sizeof(files), left_out, "large file", "large files"),
			left_out == 1 ? "was" : "were");
}

int shrinking_open(struct jobs *jobs)
{
	const struct context *c = jobs->context;
	struct shrinking *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	*s = (struct shrinking){ .table_fd = -1 };
	for (unsigned i = 0; i < FILES_MOST; i++)
		s->fds[i] = -1;
	r = descriptor_store_new(&s->store, c->o.state_dir, c->worker_program);
	if (r < 0) {
		free(s);
		return r;
	}
	jobs->shrinking = s;
	descriptor_store_take(s->store, on_kept, s);
	if (s->table_fd >= 0 && table_take(s))
		s->room = MIN(FILES_MOST, descriptor_store_room(s->store) - 1U);
	else if (s->table_fd >= 0)
		descriptor_store_drop(s->store, TABLE);
	return 0;
}

bool shrinking_has(const struct jobs *jobs, uint64_t job)
{
	const struct shrinking *s = jobs->shrinking;

	for (unsigned i = 0; s && s->table && i < FILES_MOST; i++)
		if (s->fds[i] >= 0 && atomic_load(&s->table->slots[i].job) == job)
			return true;
	return false;
}

void shrinking_begin(struct jobs *jobs)
{
	struct shrinking *s = jobs->shrinking;
	unsigned taken = 0, left_out = 0;
	uint64_t bytes = 0;

	for (unsigned i = 0; i < FILES_MOST; i++) {
		bool came = s->fds[i] >= 0;
		bool up = came && take_up(jobs, i, &bytes);

		taken += up;
		left_out += came && !up;
		/* It was freed before it could be taken out of the table. */
		if (!came && s->table)
			atomic_store(&s->table->slots[i].job, 0);
	}
	fd_closep(&s->table_fd);
	if (s->table && s->n == 0)
		table_drop(s);
	log_taken_up(taken, left_out, bytes);
}

static void log_left(const struct shrinking *s, uint64_t bytes)
{
	char files[COUNTED_SIZE], size[16], by[160];

	descriptor_store_describe(s->store, by, sizeof(by));
	log_line(LOG_NOTICE,
		 "%s of %s without a name are not freed yet. Until the next start, which goes on "
		 "with that, %s",
		 size_format(size, sizeof(size), bytes),
		 counted_format(files, sizeof(files), s->n, "large file", "large files"), by);
}

void shrinking_end(struct jobs *jobs)
{
	struct shrinking *s = jobs->shrinking;
	uint64_t bytes = 0;
	struct job *j;

	if (!s)
		return;
	TAILQ_FOREACH(j, &jobs->table.awake, awake) {
		(void)shrinking_is_left(j);
		bytes += shrinking_bytes(j);
		let_go_of_all(j, /* drop= */ false);
	}
	if (s->n > 0)
		log_left(s, bytes);
	if (s->table)
		(void)munmap(s->table, sizeof(*s->table));
	descriptor_store_free(s->store);
	free(s);
	jobs->shrinking = NULL;
}
