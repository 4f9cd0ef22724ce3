/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fsmap-runs.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include "base/macros.h"

static_assert(offsetof(struct fsmap_runs, records) ==
		      offsetof(struct fsmap_runs, head) + sizeof(struct fsmap_head),
	      "records follow their head");

void fsmap_runs_begin(struct fsmap_runs *r, int fd, dev_t device, uint64_t end)
{
	r->fd = fd;
	r->device = device;
	r->end = end;
	r->from = r->upto = 0;
}

/* As the kernel encodes it for this call (new_encode_dev()). */
static uint32_t kernel_number(dev_t device)
{
	uint32_t high = major(device), low = minor(device);

	return (low & 0xff) | high << 8 | (low & ~0xffU) << 12;
}

/* Reads what there is from that address on. Returns 0 or a negative errno. */
static int load(struct fsmap_runs *r, uint64_t from)
{
	struct fsmap_head *h = &r->head;
	const struct fsmap *last;

	r->from = r->upto = from;
	*h = (struct fsmap_head){ .fmh_count = FSMAP_RECORDS };
	h->fmh_keys[0] =
		(struct fsmap){ .fmr_device = kernel_number(r->device), .fmr_physical = from };
	h->fmh_keys[1] = (struct fsmap){ .fmr_device = kernel_number(r->device),
					 .fmr_physical = UINT64_MAX,
					 .fmr_owner = UINT64_MAX,
					 .fmr_offset = UINT64_MAX,
					 .fmr_flags = UINT32_MAX };
	if (ioctl(r->fd, FS_IOC_GETFSMAP, h) < 0)
		return -errno;
	if (h->fmh_entries > FSMAP_RECORDS)
		return -EBADMSG;
	last = &r->records[MAX(h->fmh_entries, 1U) - 1];
	r->upto = h->fmh_entries == 0 || last->fmr_flags & FMR_OF_LAST
			  ? r->end
			  : MIN((uint64_t)(last->fmr_physical + last->fmr_length), r->end);
	return r->upto > from ? 0 : -EBADMSG;
}

bool fsmap_runs_work(struct fsmap_runs *r)
{
	return load(r, 0) >= 0;
}

static bool is_free(const struct fsmap *m)
{
	return m->fmr_flags & FMR_OF_SPECIAL_OWNER && m->fmr_owner == FMR_OWN_FREE;
}

bool fsmap_runs_next(void *runs, uint64_t from, uint64_t *ret_start, uint64_t *ret_end)
{
	struct fsmap_runs *r = runs;

	if (from >= r->end)
		return false;
	if ((from < r->from || from >= r->upto) && load(r, from) < 0) {
		*ret_start = from;
		*ret_end = r->end;
		return true;
	}
	for (uint32_t i = 0; i < r->head.fmh_entries; i++) {
		const struct fsmap *m = &r->records[i];
		uint64_t start = MAX(from, (uint64_t)m->fmr_physical);
		uint64_t end = MIN((uint64_t)(m->fmr_physical + m->fmr_length), r->end);

		if (!is_free(m) || start >= end)
			continue;
		*ret_start = start;
		*ret_end = end;
		return true;
	}
	*ret_start = *ret_end = r->upto;
	return r->upto < r->end;
}
