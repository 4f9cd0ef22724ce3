/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim-process.h"

#include <endian.h>
#include <errno.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/side-process.h"
#include "ext-marks.h"
#include "ext-runs.h"
#include "fsmap-runs.h"
#include "sandbox/credentials.h"
#include "sandbox/seccomp.h"
#include "trim-ranges.h"

/* A step that has trimmed little in so long ends: its owner may want to stop. */
#define STEP_MOST (20 * USEC_PER_MSEC)

/* Address space for as many chunks as a petabyte has; used as far as there are chunks. */
#define CHUNKS_MOST ((size_t)1 << 20)

/* fs/xfs/libxfs/xfs_fs.h; the oldest form, which all kernels have. */
struct xfs_geometry {
	uint32_t block, rt_extent, ag_blocks, ag_count, log_blocks, sector, inode, inode_share;
	uint64_t data_blocks, rt_blocks, rt_extents, log_start;
	uint8_t uuid[16];
	uint32_t stripe_unit, stripe_width, version, flags, log_sector, rt_sector, dir_block, pad;
};
#define XFS_GEOMETRY _IOR('X', 100, struct xfs_geometry)

struct request {
	uint64_t most_bytes;
};

struct report {
	uint64_t trimmed, calls, took_usec, at, end;
	int error; /* negative errno, or 0 */
	uint8_t bound;
	bool done;
};

/* ---- the process -------------------------------------------------------------------------- */

/* The filesystem is its standard output (base/side-process.h). */
#define FILESYSTEM STDOUT_FILENO

struct trimmer {
	struct trim_target target;
	enum trim_bound bound;
	uint64_t min_bytes;
	struct trim_ranges ranges;
	struct ext_runs runs;
	struct ext_marks marks;
	struct fsmap_runs fsmap;
};

/* By block groups, as far as their addresses are known. */
static void ext_groups(struct trimmer *t, const struct ext_metadata *m)
{
	struct trim_ranges *r = &t->ranges;
	uint64_t block = t->target.block;

	t->bound = TRIM_BY_GROUP;
	r->whole_units = true;
	if (m) {
		r->base = m->first;
		r->unit = m->group_bytes;
		r->end = m->end;
		return;
	}
	/* A bitmap is a block; blocks of 1 KiB are counted from the second on. */
	r->base = block == 1024 ? 1024 : 0;
	r->unit = 8 * block * block;
	r->end = UINT64_MAX;
}

static int ext_begin(struct trimmer *t)
{
	struct trim_ranges *r = &t->ranges;
	uint64_t size = 0;
	int fd = block_node_open(&t->target.node, &size);
	int error = fd < 0 ? fd : ext_runs_open(&t->runs, fd, size);

	if (error < 0) {
		ext_groups(t, error == -EOPNOTSUPP && fd >= 0 ? &t->runs.metadata : NULL);
		return 0;
	}
	r->base = t->runs.metadata.first;
	r->unit = t->runs.metadata.group_bytes;
	r->end = t->runs.metadata.end;
	r->next_run = ext_runs_next;
	r->userdata = &t->runs;
	return 0;
}

/* Its addresses go through all allocation groups, and then through the real-time device, of which
 * it is not known here what is free. */
static int xfs_begin(struct trimmer *t)
{
	struct trim_ranges *r = &t->ranges;
	struct xfs_geometry g = { 0 };

	if (ioctl(FILESYSTEM, XFS_GEOMETRY, &g) < 0)
		return -errno;
	r->counts = false;
	r->end = (g.data_blocks + g.rt_blocks) * g.block;
	fsmap_runs_begin(&t->fsmap, FILESYSTEM, t->target.node.number, r->end);
	if (g.rt_blocks == 0 && fsmap_runs_work(&t->fsmap)) {
		r->next_run = fsmap_runs_next;
		r->userdata = &t->fsmap;
	}
	return 0;
}

/* What is in front of each item, at whatever address. */
static struct btrfs_ioctl_search_header header_at(const char *at)
{
	struct btrfs_ioctl_search_header h;

	memcpy(&h, at, sizeof(h));
	return h;
}

/* Appends the chunks from `key->min_offset` on, as far as one call tells. Returns how many there
 * were, or a negative errno. */
static int chunks_read(struct btrfs_ioctl_search_args *a, struct trim_area *areas, size_t *n)
{
	const char *at = a->buf;
	struct btrfs_chunk chunk;

	if (ioctl(FILESYSTEM, BTRFS_IOC_TREE_SEARCH, a) < 0)
		return -errno;
	for (uint32_t i = 0; i < a->key.nr_items; i++) {
		struct btrfs_ioctl_search_header h = header_at(at);

		if (*n == CHUNKS_MOST || h.len < offsetof(struct btrfs_chunk, stripe))
			return -EFBIG;
		memcpy(&chunk, at + sizeof(h), offsetof(struct btrfs_chunk, stripe));
		areas[(*n)++] = (struct trim_area){ h.offset, h.offset + le64toh(chunk.length) };
		a->key.min_offset = h.offset + 1;
		at += sizeof(h) + h.len;
	}
	return (int)a->key.nr_items;
}

/* Its addresses are logical ones: those of chunks, with nothing in between. A range that begins
 * within a chunk trims nothing of it (btrfs_lookup_first_block_group() finds the first one that
 * begins behind): each is asked for as a whole. */
static int btrfs_begin(struct trimmer *t)
{
	struct trim_ranges *r = &t->ranges;
	struct btrfs_ioctl_search_args a = { 0 };
	struct trim_area *areas = mmap(NULL, CHUNKS_MOST * sizeof(*areas), PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t n = 0;
	int found;

	if (areas == MAP_FAILED)
		return -errno;
	a.key = (struct btrfs_ioctl_search_key){
		.tree_id = BTRFS_CHUNK_TREE_OBJECTID,
		.min_objectid = BTRFS_FIRST_CHUNK_TREE_OBJECTID,
		.max_objectid = BTRFS_FIRST_CHUNK_TREE_OBJECTID,
		.min_type = BTRFS_CHUNK_ITEM_KEY,
		.max_type = BTRFS_CHUNK_ITEM_KEY,
		.max_offset = UINT64_MAX,
		.max_transid = UINT64_MAX,
	};
	do {
		a.key.nr_items = UINT32_MAX;
		found = chunks_read(&a, areas, &n);
	} while (found > 0);
	if (found < 0)
		return found;
	r->areas = areas;
	r->n_areas = n;
	r->end = n > 0 ? areas[n - 1].end : 0;
	r->whole_units = true;
	return 0;
}

static int ranges_begin(struct trimmer *t)
{
	struct trim_ranges *r = &t->ranges;

	t->bound = trim_target_bound(&t->target, t->min_bytes);
	*r = (struct trim_ranges){ .end = UINT64_MAX, .least = t->min_bytes, .counts = true };
	switch (t->target.family) {
	case TRIM_EXT:
		return ext_begin(t);
	case TRIM_XFS:
		return xfs_begin(t);
	case TRIM_BTRFS:
		return btrfs_begin(t);
	case TRIM_EXACT:
		r->end = t->target.size_bytes;
		r->open = true;
		break;
	case TRIM_WHOLE:
	case TRIM_NONE:
		break;
	}
	r->whole_units = t->bound == TRIM_UNBOUNDED;
	return 0;
}

/* A group was trimmed in several ranges: has ext4 know. It is no error if that fails. */
static void mark(struct trimmer *t)
{
	struct ext_marks_call c;
	struct fstrim_range call;

	if (!ext_marks_begin(&t->marks, &t->runs, &c))
		return;
	call = (struct fstrim_range){ c.start, c.bytes, c.min_bytes };
	(void)ioctl(FILESYSTEM, FITRIM, &call);
	ext_marks_end(&t->marks, &t->runs, t->min_bytes, &c);
	call = (struct fstrim_range){ c.start, c.bytes, c.min_bytes };
	(void)ioctl(FILESYSTEM, FITRIM, &call);
}

/* Trims one range. Returns false if there is no more, or it failed. */
static bool range_trim(struct trimmer *t, uint64_t most, struct report *r)
{
	struct fstrim_range call;
	struct trim_range range;
	uint64_t began;

	r->done = !trim_ranges_next(&t->ranges, most, &range);
	if (r->done)
		return false;
	call = (struct fstrim_range){ range.start, range.bytes, t->min_bytes };
	if (range.free > 0) {
		began = now_usec();
		if (ioctl(FILESYSTEM, FITRIM, &call) < 0)
			r->error = -errno;
		r->took_usec += now_usec() - began;
		r->calls++;
	} else {
		call.len = 0;
	}
	/* Behind the end, where that was not known. */
	r->done = r->error == -EINVAL && range.start > 0 &&
		  (t->ranges.open || t->ranges.end == UINT64_MAX);
	if (r->done)
		r->error = 0;
	if (r->done || r->error < 0)
		return false;
	r->trimmed += trim_ranges_done(&t->ranges, &range, call.len);
	if (t->ranges.next_run == ext_runs_next &&
	    ext_marks_trimmed(&t->marks, &t->runs, range.start, t->ranges.at))
		mark(t);
	return true;
}

/* Ranges with little in them are one step together. */
static void step(struct trimmer *t, uint64_t most, struct report *r)
{
	uint64_t began = now_usec();

	while (range_trim(t, most - MIN(most, r->trimmed), r) && r->trimmed < most / 2 &&
	       now_usec() < began + STEP_MOST)
		;
	/* Otherwise the owner would learn it from one more step, after the rest for this one. */
	r->done = r->done || (r->error == 0 && t->ranges.at >= t->ranges.end);
}

/* With all open that it takes, it can do nothing but trim. */
static int restrict_self(void)
{
	int r = credentials_keep_for_trim();

	return r < 0 ? r : seccomp_restrict_trim();
}

static void serve(struct trimmer *t)
{
	struct report r = { 0 };
	struct request q;

	r.error = ranges_begin(t);
	if (r.error >= 0)
		r.error = MIN(restrict_self(), 0);
	do {
		r.bound = (uint8_t)t->bound;
		r.at = MIN(t->ranges.at, t->ranges.end);
		r.end = t->ranges.end == UINT64_MAX ? 0 : t->ranges.end;
		if (send(STDIN_FILENO, &r, sizeof(r), MSG_NOSIGNAL) < 0 || r.error < 0)
			return;
		if (recv(STDIN_FILENO, &q, sizeof(q), 0) != (ssize_t)sizeof(q))
			return;
		r = (struct report){ 0 };
		step(t, q.most_bytes, &r);
	} while (true);
}

/* After a fork from among threads: nothing but system calls. */
static void serve_owner(void *userdata)
{
	/* A call that takes minutes is not to go on without its owner. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	serve(userdata);
}

/* ---- its owner ---------------------------------------------------------------------------- */

struct trim_process {
	struct side_process process;
	struct trim_process_sample sample;
};

int trim_process_new(struct trim_process **ret, int fd, const struct trim_target *target,
		     uint64_t min_bytes)
{
	struct trim_process *p = calloc(1, sizeof(*p));
	struct trimmer *t = calloc(1, sizeof(*t));
	int r = p && t ? 0 : -ENOMEM;

	if (r >= 0) {
		t->target = *target;
		t->min_bytes = min_bytes;
		r = side_process_start(&p->process, "reclaim-trim", fd, serve_owner, t);
	}
	free(t);
	if (r < 0) {
		free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void trim_process_ask(struct trim_process *p, uint64_t most_bytes)
{
	struct request q = { most_bytes };

	if (!p->sample.ready || p->sample.busy || p->sample.gone)
		return;
	p->sample.busy = send(p->process.sock, &q, sizeof(q), MSG_NOSIGNAL | MSG_DONTWAIT) ==
			 (ssize_t)sizeof(q);
	/* There is room for one request: it has ended. */
	p->sample.gone = !p->sample.busy;
	if (p->sample.gone)
		side_process_reap(&p->process);
}

void trim_process_sample(struct trim_process *p, struct trim_process_sample *ret)
{
	struct trim_process_sample *s = &p->sample;
	struct report r;
	ssize_t n = s->gone ? -1 : recv(p->process.sock, &r, sizeof(r), MSG_DONTWAIT);

	if (n == (ssize_t)sizeof(r)) {
		s->ready = true;
		s->busy = false;
		s->trimmed = r.trimmed;
		s->calls = r.calls;
		s->took_usec = r.took_usec;
		s->at = r.at;
		s->end = r.end;
		s->bound = r.bound < TRIM_BOUNDS ? (enum trim_bound)r.bound : TRIM_UNBOUNDED;
		s->error = r.error;
		s->done = r.done;
	} else if (!s->gone && (n >= 0 || (errno != EAGAIN && errno != EINTR))) {
		s->gone = true;
		s->busy = false;
		side_process_reap(&p->process);
	}
	*ret = *s;
}

void trim_process_wait(struct trim_process *p, int msec)
{
	if (!p->sample.gone && (p->sample.busy || !p->sample.ready))
		(void)poll(&(struct pollfd){ p->process.sock, POLLIN, 0 }, 1, msec);
}

struct trim_process *trim_process_free(struct trim_process *p)
{
	struct trim_process_sample s;

	if (!p)
		return NULL;
	trim_process_sample(p, &s);
	if (!s.gone && p->process.pid > 0)
		(void)kill(p->process.pid, SIGKILL);
	side_process_end(&p->process, /* idle= */ true);
	free(p);
	return NULL;
}
