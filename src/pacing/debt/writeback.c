/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "writeback.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/block-node.h"
#include "base/fd.h"
#include "base/gate.h"
#include "base/macros.h"
#include "base/side-process.h"
#include "ext-metadata.h"

/* Since Linux 6.5; the same number on all architectures with the generic table and on x86. */
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* A window in which dirty pages are looked for; it grows where there are none. */
#define WINDOW_FIRST MiB(64)
#define PAGE KiB(4)

/* Where the kernel does not tell what is dirty, the time that a range takes does: a clean one takes
 * a microsecond or two. What is written in less than this hurts no foreign request. */
#define NOTICED_USEC 30
/* So many ranges of a large device are visited in a second or two. */
#define SWEEP_RANGES ((uint64_t)1 << 20)
/* A step that finds nothing in so long ends without: its owner may want to stop. */
#define SEARCH_MOST (200 * USEC_PER_MSEC)

/* include/uapi/linux/mman.h */
struct cache_range {
	uint64_t off, len; /* len 0: to the end */
};

struct cache_counts {
	uint64_t cached, dirty, writeback, evicted, recently_evicted; /* pages */
};

struct request {
	uint64_t most_bytes;
};

struct report {
	uint64_t dirty_bytes, written, took_usec, searched_usec;
	int error; /* negative errno, or 0 */
	bool pass_done, blind;
};

/* ---- the process -------------------------------------------------------------------------- */

struct device {
	struct block_node node;
	int fd;
	uint64_t size, cursor, window; /* bytes */
	uint64_t dirty;                /* as of the last look, less what was written since */
	/* The kernel does not tell: all metadata is visited, and as much is taken to be dirty as
	 * the last pass wrote. */
	bool blind;
	struct ext_metadata metadata;
	bool metadata_done;
	uint64_t pass_written;
};

/* Returns how many bytes are dirty, or a negative errno. */
static int64_t dirty_in(const struct device *d, uint64_t off, uint64_t len)
{
	struct cache_range range = { off, len };
	struct cache_counts n;

	if (syscall(SYS_cachestat, d->fd, &range, &n, 0) < 0)
		return -errno;
	return (int64_t)(n.dirty * (uint64_t)sysconf(_SC_PAGESIZE));
}

/* Moves the cursor to the next range of at most `most` bytes in which there are dirty pages.
 * Returns how many bytes of them are dirty; 0: there are none up to the end. */
static uint64_t seek_dirty(struct device *d, uint64_t most)
{
	while (d->cursor < d->size) {
		int64_t dirty = dirty_in(d, d->cursor, d->window);

		if (dirty > 0 && d->window <= most)
			return (uint64_t)dirty;
		if (dirty > 0) {
			d->window = MAX(d->window / 2, most);
			continue;
		}
		d->cursor += d->window;
		d->window *= 2;
	}
	return 0;
}

static void write_back(const struct device *d, uint64_t off, uint64_t len, struct report *r)
{
	uint64_t began = now_usec();

	if (sync_file_range(d->fd, (off_t)off, (off_t)len,
			    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
				    SYNC_FILE_RANGE_WAIT_AFTER) < 0)
		r->error = -errno;
	r->took_usec = now_usec() - began;
}

/* The next range to visit: all that is known to be metadata in ranges of that size, then the whole
 * device for the rest, such as blocks of directories. Returns false after the last one. */
static bool range_next(struct device *d, uint64_t most, uint64_t *ret_off, uint64_t *ret_len)
{
	if (!d->metadata_done && ext_metadata_next(&d->metadata, most, ret_off, ret_len))
		return true;
	d->metadata_done = d->cursor < d->size;
	*ret_off = d->cursor;
	*ret_len = MAX(most, d->size / SWEEP_RANGES / PAGE * PAGE);
	d->cursor += *ret_len;
	if (d->metadata_done)
		return true;
	d->cursor = 0;
	return false;
}

static void step_blind(struct device *d, uint64_t most, struct report *r)
{
	uint64_t began = now_usec(), off, len;

	while (r->error == 0 && r->written == 0 && now_usec() < began + SEARCH_MOST) {
		r->pass_done = !range_next(d, most, &off, &len);
		if (r->pass_done)
			break;
		write_back(d, off, len, r);
		if (r->took_usec >= NOTICED_USEC)
			r->written = MIN(len, most);
	}
	r->searched_usec = now_usec() - began - MIN(r->took_usec, now_usec() - began);
	d->pass_written += r->written;
	if (r->pass_done) {
		d->dirty = d->pass_written;
		d->pass_written = 0;
	}
}

static void step(struct device *d, uint64_t most, struct report *r)
{
	most = MAX(most / PAGE * PAGE, PAGE);
	if (d->blind) {
		step_blind(d, most, r);
		return;
	}
	d->window = MAX(d->window, most);
	r->written = seek_dirty(d, most);
	if (r->written > 0) {
		write_back(d, d->cursor, d->window, r);
		d->cursor += d->window;
		d->dirty -= MIN(r->written, d->dirty);
	}
	r->pass_done = d->cursor >= d->size;
	if (r->pass_done) {
		d->cursor = 0;
		d->window = WINDOW_FIRST;
	}
}

/* With the device open it needs no right any more. */
static bool rights_drop(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capset, &header, none) == 0;
}

/* Takes as long as there are pages in the cache of the device. */
static void count(struct device *d)
{
	if (!d->blind)
		d->dirty = (uint64_t)MAX(dirty_in(d, 0, 0), (int64_t)0);
}

/* Returns false if it cannot be known what to write back. */
static bool look_first(struct device *d)
{
	d->blind = dirty_in(d, 0, PAGE) < 0;
	if (d->blind && ext_metadata_open(&d->metadata, d->fd, d->size) < 0)
		return false;
	d->dirty = d->blind ? ext_metadata_bytes(&d->metadata) : 0;
	d->window = WINDOW_FIRST;
	count(d);
	return true;
}

/* After a fork from among threads: nothing but system calls. */
static void serve(void *userdata)
{
	struct device *d = userdata;
	struct report r = { 0 };
	struct request q;

	d->fd = block_node_open(&d->node, &d->size);
	if (d->fd < 0 || !rights_drop() || !look_first(d))
		return;
	do {
		r.dirty_bytes = d->dirty;
		r.blind = d->blind;
		if (send(STDIN_FILENO, &r, sizeof(r), MSG_NOSIGNAL) < 0)
			return;
		if (recv(STDIN_FILENO, &q, sizeof(q), 0) != (ssize_t)sizeof(q))
			return;
		r = (struct report){ 0 };
		gate("debt", "pay");
		if (q.most_bytes > 0)
			step(d, q.most_bytes, &r);
		else
			count(d);
	} while (true);
}

/* ---- its owner ---------------------------------------------------------------------------- */

struct writeback {
	struct side_process process;
	struct writeback_sample sample;
};

int writeback_new(struct writeback **ret, dev_t device)
{
	struct writeback *w = calloc(1, sizeof(*w));
	struct device d = { .node = block_node_find(device), .fd = -1 };
	int r;

	if (!w)
		return -ENOMEM;
	r = side_process_start(&w->process, "reclaim-settle", -1, serve, &d);
	if (r < 0) {
		free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void writeback_ask(struct writeback *w, uint64_t most_bytes)
{
	struct request q = { most_bytes };

	if (w->sample.ready && !w->sample.busy)
		w->sample.busy = send(w->process.sock, &q, sizeof(q),
				      MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(q);
}

void writeback_sample(struct writeback *w, struct writeback_sample *ret)
{
	struct writeback_sample *s = &w->sample;
	struct report r;
	ssize_t n = s->gone ? -1 : recv(w->process.sock, &r, sizeof(r), MSG_DONTWAIT);

	if (n == (ssize_t)sizeof(r)) {
		s->ready = true;
		s->busy = false;
		s->dirty_bytes = r.dirty_bytes;
		s->written = r.written;
		s->last_usec = r.took_usec;
		s->searched_usec = r.searched_usec;
		s->pass_done = r.pass_done;
		s->estimated = r.blind;
		s->error = r.error;
	} else if (!s->gone && (n >= 0 || (errno != EAGAIN && errno != EINTR))) {
		s->gone = true;
		s->busy = false;
		side_process_reap(&w->process);
	}
	*ret = *s;
}

void writeback_wait(struct writeback *w, int msec)
{
	if (!w->sample.gone && (w->sample.busy || !w->sample.ready))
		(void)poll(&(struct pollfd){ w->process.sock, POLLIN, 0 }, 1, msec);
}

struct writeback *writeback_free(struct writeback *w)
{
	struct writeback_sample s;

	if (!w)
		return NULL;
	writeback_sample(w, &s);
	side_process_end(&w->process, s.ready && !s.busy);
	free(w);
	return NULL;
}
