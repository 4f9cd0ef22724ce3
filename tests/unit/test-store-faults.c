/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every write, flush, truncation and read of the database fails once. What was said to be durable
 * is there when the store is opened again, what failed is there whole or not at all, and no error
 * of a disk is taken for damage. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store-support.h"
#include "support.h"
#include "base/macros.h"

enum operation { OP_WRITE, OP_SYNC, OP_TRUNCATE, OP_READ, OPS };

/* Which operation of a kind fails, and how. */
struct disk {
	sqlite3_vfs vfs;
	sqlite3_vfs *system;
	sqlite3_io_methods methods;
	enum operation op;
	unsigned int countdown; /* 0: none fails */
	int rc;
	bool for_good; /* it and all that come after */
	bool broken, fired;
};

struct file {
	sqlite3_file base;
	struct disk *disk;
	sqlite3_file *real;
};

static sqlite3_file *real(sqlite3_file *f)
{
	return ((struct file *)f)->real;
}

/* Returns what the operation is to fail with, or SQLITE_OK. */
static int fault(sqlite3_file *f, enum operation op)
{
	struct disk *d = ((struct file *)f)->disk;

	if (d->broken)
		return d->rc;
	if (d->op != op || d->countdown == 0 || --d->countdown > 0)
		return SQLITE_OK;
	d->fired = true;
	d->broken = d->for_good;
	return d->rc;
}

static int file_close(sqlite3_file *f)
{
	int rc = real(f)->pMethods->xClose(real(f));

	free(real(f));
	return rc;
}

static int file_read(sqlite3_file *f, void *buf, int n, sqlite3_int64 at)
{
	int rc = fault(f, OP_READ);

	return rc ? rc : real(f)->pMethods->xRead(real(f), buf, n, at);
}

/* A write that fails has been done by half. */
static int file_write(sqlite3_file *f, const void *buf, int n, sqlite3_int64 at)
{
	int rc = fault(f, OP_WRITE);

	if (rc == SQLITE_OK)
		return real(f)->pMethods->xWrite(real(f), buf, n, at);
	(void)real(f)->pMethods->xWrite(real(f), buf, n / 2, at);
	return rc;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	int rc = fault(f, OP_TRUNCATE);

	return rc ? rc : real(f)->pMethods->xTruncate(real(f), size);
}

static int file_sync(sqlite3_file *f, int flags)
{
	int rc = fault(f, OP_SYNC);

	return rc ? rc : real(f)->pMethods->xSync(real(f), flags);
}

static int file_size(sqlite3_file *f, sqlite3_int64 *ret)
{
	return real(f)->pMethods->xFileSize(real(f), ret);
}

static int file_lock(sqlite3_file *f, int level)
{
	return real(f)->pMethods->xLock(real(f), level);
}

static int file_unlock(sqlite3_file *f, int level)
{
	return real(f)->pMethods->xUnlock(real(f), level);
}

static int file_check_lock(sqlite3_file *f, int *ret)
{
	return real(f)->pMethods->xCheckReservedLock(real(f), ret);
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
	return real(f)->pMethods->xFileControl(real(f), op, arg);
}

static int file_sector_size(sqlite3_file *f)
{
	return real(f)->pMethods->xSectorSize(real(f));
}

static int file_device(sqlite3_file *f)
{
	return real(f)->pMethods->xDeviceCharacteristics(real(f));
}

static int file_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f, int flags,
		     int *ret_flags)
{
	struct disk *d = vfs->pAppData;
	struct file *file = (struct file *)f;
	int rc;

	file->base.pMethods = NULL;
	file->disk = d;
	file->real = calloc(1, (size_t)d->system->szOsFile);
	if (!file->real)
		return SQLITE_NOMEM;
	rc = d->system->xOpen(d->system, name, file->real, flags, ret_flags);
	if (rc == SQLITE_OK)
		file->base.pMethods = &d->methods;
	else
		free(file->real);
	return rc;
}

/* Takes the place of the system's files for the whole process. Version 1 of the methods has no
 * shared memory: the store does without. */
static void disk_install(struct disk *d)
{
	memset(d, 0, sizeof(*d));
	d->system = sqlite3_vfs_find(NULL);
	d->vfs = *d->system;
	d->vfs.zName = "faulty";
	d->vfs.pAppData = d;
	d->vfs.szOsFile = sizeof(struct file);
	d->vfs.xOpen = file_open;
	d->methods = (sqlite3_io_methods){
		.iVersion = 1,
		.xClose = file_close,
		.xRead = file_read,
		.xWrite = file_write,
		.xTruncate = file_truncate,
		.xSync = file_sync,
		.xFileSize = file_size,
		.xLock = file_lock,
		.xUnlock = file_unlock,
		.xCheckReservedLock = file_check_lock,
		.xFileControl = file_control,
		.xSectorSize = file_sector_size,
		.xDeviceCharacteristics = file_device,
	};
	ck_assert_int_eq(sqlite3_vfs_register(&d->vfs, 1), SQLITE_OK);
}

static void disk_remove(struct disk *d)
{
	ck_assert_int_eq(sqlite3_vfs_unregister(&d->vfs), SQLITE_OK);
}

static void disk_arm(struct disk *d, enum operation op, unsigned int nth, int rc, bool for_good)
{
	d->op = op;
	d->countdown = nth;
	d->rc = rc;
	d->for_good = for_good;
	d->broken = d->fired = false;
}

static void disk_heal(struct disk *d)
{
	d->countdown = 0;
	d->broken = false;
}

enum { TRANSACTIONS = 12, NAMES = 300 };

/* Jobs in transactions until one fails; enough for the log to be copied back in between. Returns
 * how many were said to be durable. */
static unsigned int submit_until_it_fails(struct store *s, int *ret_r)
{
	unsigned int done;
	uint64_t id;
	int r = 0;

	for (done = 0; done < TRANSACTIONS; done++) {
		r = store_begin(s);
		for (int i = 0; i < 3 && r == 0; i++)
			r = job_make(s, "/a", NAMES, &id);
		if (r == 0)
			r = store_commit(s);
		if (r < 0)
			break;
	}
	store_rollback(s);
	*ret_r = r;
	return done;
}

static void assert_whole(const struct state_dir *d, unsigned int durable)
{
	struct store *s = state_open(d);
	uint64_t n = jobs_count(s), at_least = 3ULL * durable;

	ck_assert_msg(n == at_least || n == at_least + 3, "%d jobs, %d durable", (int)n,
		      (int)at_least);
	for (uint64_t id = 1; id <= n; id++)
		ck_assert_uint_eq(entries_count(s, id), NAMES);
	store_close(s);
}

static void fail_each(enum operation op, int rc, bool for_good, int expected)
{
	struct disk disk;
	bool fired = true;
	unsigned int nth, failed = 0;

	disk_install(&disk);
	/* Every one of the first, then with longer and longer strides. */
	for (nth = 1; fired; nth += 1 + nth / 8) {
		struct state_dir d;
		struct store *s;
		unsigned int durable;
		int r;

		state_make(&d);
		s = state_open(&d);
		disk_arm(&disk, op, nth, rc, for_good);
		durable = submit_until_it_fails(s, &r);
		fired = disk.fired;
		/* What fails while the log is copied back is tried again later. */
		ck_assert_msg(r == 0 || (fired && r == expected), "%d", r);
		failed += r < 0;
		if (!for_good)
			disk_heal(&disk);
		store_close(s);
		disk_heal(&disk);
		assert_whole(&d, durable);
		state_remove(&d);
	}
	disk_remove(&disk);
	ck_assert_uint_gt(failed, 0);
}

START_TEST(test_fault_04_09_each_write_fails)
{
	fail_each(OP_WRITE, SQLITE_IOERR_WRITE, false, -EIO);
	fail_each(OP_WRITE, SQLITE_FULL, false, -ENOSPC);
}
END_TEST

START_TEST(test_fault_01_03_each_write_is_the_last)
{
	fail_each(OP_WRITE, SQLITE_IOERR_WRITE, true, -EIO);
	fail_each(OP_WRITE, SQLITE_FULL, true, -ENOSPC);
}
END_TEST

START_TEST(test_fault_09_each_flush_fails)
{
	fail_each(OP_SYNC, SQLITE_IOERR_FSYNC, false, -EIO);
	fail_each(OP_SYNC, SQLITE_IOERR_FSYNC, true, -EIO);
}
END_TEST

/* Commits that are not flushed are so with the next one that is; and if that cannot be, none of
 * them was said to be durable. */
START_TEST(what_is_not_flushed_is_so_with_the_next)
{
	struct state_dir d;
	struct disk disk;
	struct store *s;
	uint64_t id;

	disk_install(&disk);
	state_make(&d);
	s = state_open(&d);
	/* The head of the log is flushed in any case, once. */
	ck_assert_int_eq(job_make(s, "/a", NAMES / 10, &id), 0);
	ck_assert_int_eq(store_set_durable(s, false), 0);
	disk_arm(&disk, OP_SYNC, 1, SQLITE_IOERR_FSYNC, true);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(store_begin(s), 0);
		ck_assert_int_eq(store_set_durable(s, true), -EBUSY);
		ck_assert_int_eq(job_make(s, "/a", NAMES / 10, &id), 0);
		ck_assert_int_eq(store_commit(s), 0);
	}
	ck_assert(!disk.fired);
	ck_assert_int_eq(store_set_durable(s, true), 0);
	ck_assert_int_eq(store_begin(s), 0);
	ck_assert_int_eq(job_make(s, "/a", NAMES / 10, &id), 0);
	ck_assert_int_eq(store_commit(s), -EIO);
	ck_assert(disk.fired);
	disk_heal(&disk);
	ck_assert_int_eq(store_begin(s), 0);
	ck_assert_int_eq(job_make(s, "/a", NAMES / 10, &id), 0);
	disk_arm(&disk, OP_SYNC, 2, SQLITE_IOERR_FSYNC, false);
	ck_assert_int_eq(store_commit(s), 0);
	ck_assert_uint_eq(disk.countdown, 1);
	disk_heal(&disk);
	store_close(s);
	s = state_open(&d);
	ck_assert_uint_eq(jobs_count(s), 5);
	store_close(s);
	state_remove(&d);
	disk_remove(&disk);
}
END_TEST

START_TEST(an_open_that_fails_puts_nothing_aside)
{
	static const int codes[OPS] = { SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC,
					SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_READ };
	struct disk disk;
	unsigned int failed = 0;

	disk_install(&disk);
	for (unsigned int op = 0; op < OPS; op++) {
		bool fired = true;

		for (unsigned int nth = 1; fired; nth++) {
			struct state_dir d;
			struct store *s = NULL;
			char *aside = NULL;
			const char *why = "";
			uint64_t id;
			int r;

			state_make(&d);
			s = state_open(&d);
			ck_assert_int_eq(job_make(s, "/a", NAMES, &id), 0);
			store_close(s);
			disk_arm(&disk, (enum operation)op, nth, codes[op], false);
			r = store_open(&s, d.path, &aside, &why);
			fired = disk.fired;
			disk_heal(&disk);
			ck_assert_msg(!aside, "%s", aside);
			ck_assert_msg(r == 0 || r == -EIO, "%d %s", r, why);
			failed += r < 0;
			if (r == 0)
				store_close(s);
			s = state_open(&d);
			ck_assert_uint_eq(entries_count(s, 1), NAMES);
			store_close(s);
			state_remove(&d);
		}
	}
	disk_remove(&disk);
	ck_assert_uint_gt(failed, 0);
}
END_TEST

/* The next start finds nothing that it could tell of. */
START_TEST(test_fault_04_05_what_is_put_aside_is_said_though_nothing_new_can_be_made)
{
	struct disk disk;
	bool fired = true;
	unsigned int failed = 0;

	disk_install(&disk);
	for (unsigned int nth = 1; fired; nth++) {
		struct state_dir d;
		struct store *s = NULL;
		char *aside = NULL;
		const char *why = "";
		int r;

		state_make(&d);
		file_make(d.path, "reclaimd.db", "This is not a database.\n");
		disk_arm(&disk, OP_WRITE, nth, SQLITE_FULL, true);
		r = store_open(&s, d.path, &aside, &why);
		fired = disk.fired;
		disk_heal(&disk);
		ck_assert_msg(r == 0 || r == -ENOSPC, "%d %s", r, why);
		ck_assert_msg(aside && strstr(aside, "reclaimd.db.damaged-"), "%u: %d", nth, r);
		ck_assert_uint_eq(state_count(&d, "reclaimd.db.damaged-"), 1);
		failed += r < 0;
		free(aside);
		store_close(s);
		store_close(state_open(&d));
		state_remove(&d);
	}
	disk_remove(&disk);
	ck_assert_uint_gt(failed, 0);
}
END_TEST

START_TEST(a_first_start_that_fails_is_done_by_the_next)
{
	struct disk disk;
	bool fired = true;

	disk_install(&disk);
	for (unsigned int nth = 1; fired; nth++) {
		struct state_dir d;
		struct store *s = NULL;
		char *aside = NULL;
		const char *why = "";

		state_make(&d);
		disk_arm(&disk, OP_WRITE, nth, SQLITE_FULL, true);
		if (store_open(&s, d.path, &aside, &why) == 0)
			store_close(s);
		fired = disk.fired;
		disk_heal(&disk);
		store_close(state_open(&d));
		ck_assert_uint_eq(tree_count(d.path), 3);
		state_remove(&d);
	}
	disk_remove(&disk);
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		test_fault_04_09_each_write_fails,
		test_fault_01_03_each_write_is_the_last,
		test_fault_09_each_flush_fails,
		what_is_not_flushed_is_so_with_the_next,
		an_open_that_fails_puts_nothing_aside,
		test_fault_04_05_what_is_put_aside_is_said_though_nothing_new_can_be_made,
		a_first_start_that_fails_is_done_by_the_next,
	};

	return run_case("store-faults", tests, ELEMENTSOF(tests));
}
