/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "batch-work.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/guard/still-inside.h"
#include "engine/guard/user-pin.h"
#include "engine/core/tasks.h"
#include "engine/core/engine-job.h"
#include "direct-calls.h"
#include "shrink.h"
#include "engine/core/slice.h"
#include "base/gate.h"

/* How long a directory that was moved out of the tree may go unnoticed. A look costs some 3 µs. */
#define CHECK_EVERY (5 * USEC_PER_MSEC)

/* Entries taken at once: enough that lanes do not meet at the counter, few enough that the last
 * ones of a batch end together. */
#define TAKE_MOST 64

size_t batch_take(struct batch *b, size_t max, size_t *ret_first)
{
	size_t first = atomic_load_explicit(&b->next, memory_order_relaxed);

	do {
		if (first >= b->n)
			return 0;
	} while (!atomic_compare_exchange_weak(&b->next, &first, MIN(first + max, b->n)));
	assert(first < b->n && b->n <= b->list->n);
	*ret_first = first;
	return MIN(max, b->n - first);
}

uint8_t batch_check(struct batch *b, size_t first)
{
	uint64_t now, last;

	gate("unlink", dirlist_name(b->list, &b->list->v[first]));
	if (job_cancelled(b->job))
		return BATCH_CANCELLED;
	if (!b->tree_name)
		return 0;
	now = now_usec();
	last = atomic_load_explicit(b->checked_usec, memory_order_relaxed);
	if (last == UINT64_MAX)
		return BATCH_MOVED;
	if (last + CHECK_EVERY > now)
		return 0;
	if (still_inside(b->job->look, b->tree_dirfd, b->tree_name, b->dirfd) == 0) {
		atomic_store(b->checked_usec, UINT64_MAX);
		return BATCH_MOVED;
	}
	atomic_store_explicit(b->checked_usec, now, memory_order_relaxed);
	return 0;
}

/* Unlinks one of several names of a file, and finds out whether it was the last. One at a time, or
 * two lanes with the last two names would both, or neither, count the file. Returns as
 * batch_prepare. */
static int link_remove(struct engine_job *j, int dirfd, const char *name, uint64_t *ret_bytes)
{
	_cleanup_close_ int fd = fd_open_beneath(dirfd, name, O_PATH);
	struct stat st;
	int r = 1;

	if (fd < 0)
		return 0; /* the unlink will say why */
	pthread_mutex_lock(&j->links_lock);
	if (unlinkat(dirfd, name, 0) < 0)
		r = -errno;
	else if (fstat(fd, &st) == 0 && st.st_nlink == 0)
		*ret_bytes = (uint64_t)st.st_blocks * 512;
	pthread_mutex_unlock(&j->links_lock);
	return r;
}

/* From this size on a file is freed in steps: where the pace is slow, smaller ones too. */
static bool is_large(const struct engine_job *j, uint64_t bytes)
{
	const struct pace *p = j->pace;

	if (j->o.shrink_min_bytes == 0 || bytes < SHRINK_LEAST)
		return false;
	return bytes >= j->o.shrink_min_bytes || (p && bytes >= p->step(p->userdata));
}

/* Returns as batch_prepare, with what is left to be counted of the file's bytes. */
static int file_shrink(struct batch *b, const char *name, struct slice *slice, uint64_t *bytes)
{
	struct engine_job *j = b->job;
	struct shrinker by = { .profile = &j->profile,
			       .pace = j->pace,
			       .last_reference = j->o.last_reference,
			       .begun = j->o.shrinks,
			       .userdata = j->o.userdata };
	struct shrink_count count = { .bytes = &j->stats.bytes, .weight = *bytes };
	struct shrink_remainder remainder;
	int r = shrink_file(b->dirfd, name, &by, slice, &j->cancelled, &count, &remainder);

	*bytes -= count.counted;
	/* What became of it is counted where large files are shrunk at all. */
	if (r == SHRINK_DONE)
		stat_add(&j->stats.shrunk, 1);
	else if (r >= 0 && j->profile.lease_truthful && j->profile.shrink != SHRINK_NEVER)
		stat_add(&j->stats.whole, 1);
	remainder.weight = *bytes;
	if (remainder.fd >= 0 && j->o.remainder && j->o.remainder(&remainder, j->o.userdata))
		*bytes = 0;
	else
		fd_closep(&remainder.fd);
	return r > SHRINK_NOT;
}

/* Only files and directories can be, and directories are asked when they are entered. */
static bool is_pinned(const struct batch *b, size_t i)
{
	const struct dentry *d = &b->list->v[i];
	struct user_pin pin;

	if (!b->marked || (d->type != DT_REG && d->type != DT_UNKNOWN))
		return false;
	pin = user_pin_read(b->dirfd, dirlist_name(b->list, d));
	return user_pin_holds(&pin);
}

/* As batch_prepare; within the loop that removes, see direct-calls.h. */
static inline int prepare(struct batch *b, size_t i, struct slice *slice, uint64_t *ret_bytes)
{
	const char *name = dirlist_name(b->list, &b->list->v[i]);
	struct engine_job *j = b->job;
	struct identity id;
	struct statx sx;
	int r;

	*ret_bytes = 0;
	/* A directory's own blocks were counted when it was entered. */
	if (b->flags & AT_REMOVEDIR)
		return j->o.dry;
	if (is_pinned(b, i))
		return -BATCH_PINNED;
	if (!j->o.weigh && !b->pins && !(j->o.dry && b->list->v[i].type == DT_UNKNOWN))
		return j->o.dry;
	stat_add(&j->stats.stat_calls, 1);
	r = statx_call(b->dirfd, name, &sx);
	if (r < 0)
		return j->o.dry ? r : 0; /* the unlink will say why */
	id = identity_of(&sx);
	if (j->o.dry && S_ISDIR(id.mode))
		return -EISDIR;
	if (b->pins && !identity_equal(&id, &b->pins[b->list->v[i].ino - 1]))
		return -BATCH_CHANGED;
	if (id.nlink == 1)
		*ret_bytes = id.blocks_bytes;
	if (j->o.dry)
		return 1;
	if (id.nlink > 1 && j->o.weigh && !S_ISDIR(id.mode))
		return link_remove(j, b->dirfd, name, ret_bytes);
	if (!S_ISREG(id.mode) || !is_large(j, id.blocks_bytes))
		return 0;
	return file_shrink(b, name, slice, ret_bytes);
}

int batch_prepare(struct batch *b, size_t i, struct slice *slice, uint64_t *ret_bytes)
{
	return prepare(b, i, slice, ret_bytes);
}

void batch_tally(struct batch *b, size_t removed, uint64_t bytes, size_t tried)
{
	struct stats *s = &b->job->stats;

	assert(removed <= tried && tried <= b->n);
	stat_add(&s->unlink_calls, tried);
	stat_add(&s->entries, removed);
	stat_add(&s->bytes, bytes);
	if (b->flags & AT_REMOVEDIR)
		stat_add(&s->dirs, removed);
}

static uint8_t entry_remove(struct batch *b, size_t i, struct slice *slice, uint64_t *bytes)
{
	uint64_t freed;
	int r = prepare(b, i, slice, &freed);
	int k = r == 0 ? unlink_call(b->dirfd, dirlist_name(b->list, &b->list->v[i]), b->flags)
		       : MIN(r, 0);

	if (k < 0)
		return (uint8_t)-k;
	*bytes += freed;
	/* What was shrunk has been accounted for, step by step. */
	slice_add(slice, 1, r == 0 ? freed : 0);
	return 0;
}

/* What must hold before the next entry is touched, when the pace may have made us wait. */
static uint8_t slice_check(struct batch *b, struct slice *s, size_t i)
{
	int r = slice_open(s);

	if (job_cancelled(b->job) || r < 0)
		return BATCH_CANCELLED;
	return r > 0 ? batch_check(b, i) : 0;
}

/* Performs the entries [first, first + n). */
static void slice_work(struct batch *b, size_t first, size_t n)
{
	size_t removed = 0, tried = 0;
	uint64_t bytes = 0;
	uint8_t stop = batch_check(b, first);
	struct slice slice;

	slice_init(&slice, b->job->pace, &b->job->cancelled, b->dirfd);
	for (size_t i = first; i < first + n; i++) {
		if (!stop)
			stop = slice_check(b, &slice, i);
		b->results[i] = stop ? stop : entry_remove(b, i, &slice, &bytes);
		tried += !stop;
		removed += b->results[i] == 0;
	}
	slice_close(&slice);
	batch_tally(b, removed, bytes, tried);
}

/* The same where a server answers, to whom no more go at a time than are lanes. What one of them
 * takes is all that tells how busy the server is. */
static void turn_work(struct batch *b, size_t first, size_t n)
{
	bool turn = tasks_turn_begin(b->job->tasks);
	uint64_t began = now_usec();

	slice_work(b, first, n);
	if (!turn)
		return;
	stat_add(&b->job->op_usec, now_usec() - began);
	stat_add(&b->job->ops, n);
	tasks_turn_end(b->job->tasks);
}

void batch_work(struct batch *b)
{
	/* What a server takes for each is told as it happens. */
	size_t max = b->job->profile.server ? 1 : CLAMP(b->n / 16, (size_t)1, (size_t)TAKE_MOST);
	uint64_t began = now_usec();
	size_t first, n, done = 0;
	bool offered = false;

	while ((n = batch_take(b, max, &first)) > 0) {
		if (b->job->profile.server)
			turn_work(b, first, n);
		else
			slice_work(b, first, n);
		done += n;
		if (!offered)
			offered = tasks_offer(b->job->tasks, b, (now_usec() - began) / done);
	}
}
