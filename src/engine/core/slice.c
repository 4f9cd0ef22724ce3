/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "slice.h"

#include <assert.h>
#include <errno.h>

#include "base/btrfs.h"
#include "base/fd.h"

void slice_init(struct slice *s, const struct pace *pace, const _Atomic bool *cancelled, int fd)
{
	*s = (struct slice){ .pace = pace, .cancelled = cancelled, .fd = fd };
}

/* An error is no loss: the names are gone as far as any process can see, and a filesystem that
 * cannot write says so to the next unlink. */
static void sync_made(struct slice *s)
{
	uint64_t began = now_usec();

	(void)(s->commit ? btrfs_commit(s->fd) : fd_sync_dir(s->fd));
	s->commit = false;
	s->pace->synced(s->pace->userdata, now_usec() - began);
}

void slice_close(struct slice *s)
{
	if (!s->open)
		return;
	assert(s->pace);
	s->open = false;
	if (s->pace->spent(s->pace->userdata, s->entries, s->bytes, now_usec() - s->began_usec))
		sync_made(s);
}

void slice_finish(struct slice *s)
{
	slice_close(s);
	if (!s->commit || !s->pace || slice_renew(s) < 0)
		return;
	s->open = false;
	sync_made(s);
}

int slice_open(struct slice *s)
{
	if (!s->pace)
		return 0;
	if (s->open && s->entries < s->budget.entries && s->bytes < s->budget.bytes)
		return 0;
	return slice_renew(s) < 0 ? -ECANCELED : 1;
}

int slice_renew(struct slice *s)
{
	slice_close(s);
	assert(s->pace && !s->open);
	if (!s->pace->begin(s->pace->userdata, s->cancelled, &s->budget))
		return -ECANCELED;
	s->open = true;
	s->entries = s->bytes = 0;
	s->began_usec = now_usec();
	return 0;
}
