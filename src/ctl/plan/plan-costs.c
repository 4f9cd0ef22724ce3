/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What about the layout makes deletion expensive: facts in, sentences out. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/filesystem/profile.h"
#include "engine/remove/shrink.h"
#include "plan.h"
#include "base/macros.h"
#include "base/units.h"

/* From here on the time for one directory is worth a word: some ten seconds. */
#define DIRECTORY_LARGE 1000000

/* Trees that people make are some ten levels deep. */
#define DEPTH_LARGE 1000

/* Inodes on a turning disk that cost half a minute of seeks. */
#define INODES_MANY 100000

/* The sum of blocks from which ext3's pointers are worth a word. */
#define POINTERS_LARGE MiB(1024)

static void say(struct plan *p, const char *format, ...) _printf_(2, 3);

static void say(struct plan *p, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)json_array_append_new(p->costs, json_vsprintf(format, ap));
	va_end(ap);
}

static bool family(const struct plan *p, const char *name)
{
	return strcmp(p->profile.family, name) == 0;
}

/* The shape of the tree. */
static void shape(struct plan *p)
{
	const struct findings *f = &p->f;
	double gain = plan_spread_gain(p);
	char n[28], all[28];

	if (f->most_entries >= DIRECTORY_LARGE && gain > 1.2)
		say(p,
		    "one directory holds %s of the %s entries, and deletions in one directory "
		    "hold each other up: in two levels they would go about %.1f times as fast "
		    "on two processors",
		    count_format(n, sizeof(n), f->most_entries),
		    count_format(all, sizeof(all), f->entries), gain);
	else if (f->most_entries >= DIRECTORY_LARGE)
		say(p, "one directory holds %s of the %s entries, which go one after the other",
		    count_format(n, sizeof(n), f->most_entries),
		    count_format(all, sizeof(all), f->entries));
	if (f->depth >= DEPTH_LARGE)
		say(p,
		    "it is %s levels deep: each is a directory of its own to be opened, "
		    "emptied and removed, and nothing can be done at the same time",
		    count_format(n, sizeof(n), f->depth));
}

bool plan_discards(const struct plan *p)
{
	return p->around.mounted_with_discard &&
	       (p->around.devices.n == 0 || blockdevs_discard(&p->around.devices));
}

bool plan_discards_rest(const struct plan *p)
{
	return plan_discards(p) && p->profile.ascending;
}

/* A bitmap of one block says which blocks of a group are free. */
static uint64_t group_bytes(const struct plan *p)
{
	return 8 * p->around.block_bytes * p->around.block_bytes;
}

static void discard(struct plan *p)
{
	char size[16], rest[16];

	if (!p->around.mounted_with_discard || p->f.bytes == 0)
		return;
	size_format(size, sizeof(size), p->f.bytes);
	size_format(rest, sizeof(rest), group_bytes(p));
	if (!plan_discards(p))
		say(p, "mounted with discard, which the device does not support: no effect");
	else if (plan_discards_rest(p)) {
		say(p,
		    "mounted with discard: about %s is discarded as it is freed, and the order "
		    "matters, as each free run is trimmed again when its neighbour goes; it is "
		    "done in ascending order, in which most of it is trimmed once",
		    size);
		say(p,
		    "with each run of blocks that is freed, the kernel also trims the free blocks "
		    "behind it in its block group, up to %s at a time; no program that deletes "
		    "can avoid that, but the mount option nodiscard does: have reclaimd trim "
		    "once a week instead (`trim: {schedule: weekly}`, reclaimd.yaml(5))",
		    rest);
	} else
		say(p,
		    "mounted with discard: about %s is discarded%s, which keeps the device busy "
		    "for other processes",
		    size, family(p, "btrfs") ? " soon after it is freed" : " as it is freed");
}

/* What else refers to the space. */
static void shared(struct plan *p)
{
	const struct findings *f = &p->f;
	char n[28], size[16];

	if (f->snapshots_elsewhere > 0)
		say(p,
		    "snapshots of its subvolume elsewhere: %" PRIi64
		    "; what they share stays occupied until they go, too",
		    f->snapshots_elsewhere);
	if (f->subvolumes > 0)
		say(p,
		    "subvolumes in it: %s, of which snapshots: %" PRIu64
		    "; where that is allowed each is destroyed as a whole, and the kernel "
		    "frees it later at its own pace",
		    count_format(n, sizeof(n), f->subvolumes), f->snapshots);
	if (f->linked_bytes > 0)
		say(p,
		    "%s in files with names outside of it, or more names than were seen, is "
		    "not freed: only names go",
		    size_format(size, sizeof(size), f->linked_bytes));
	if (f->open_entries > 0)
		say(p, "what is open is freed only when the processes that have it open close it");
}

/* When a cluster gives the space back. */
static void kept(struct plan *p)
{
	const struct keeping *k = &p->keeping;
	char span[32], trash[16], open[16], n[28];

	if (family(p, "moosefs") && !k->has_trash)
		say(p, "MooseFS keeps deleted files in its trash: their space comes back once "
		       "their trash time is over (mfsgettrashtime -r shows it; how much is in the "
		       "trash cannot be read here)");
	else if (family(p, "moosefs") && k->trash_seconds == 0)
		say(p, "MooseFS gives the space back at once: the trash time here is 0 "
		       "(mfsgettrashtime -r shows whether some files in it have another)");
	else if (family(p, "moosefs"))
		say(p,
		    "MooseFS keeps deleted files in its trash: their space comes back after a "
		    "trash time of %s (mfsgettrashtime -r shows whether some have another); now "
		    "%s are in the trash, and %s in files that are deleted but open",
		    timespan_format(span, sizeof(span), k->trash_seconds * USEC_PER_SEC),
		    size_format(trash, sizeof(trash), k->trash_bytes),
		    size_format(open, sizeof(open), k->open_bytes));
	else if (family(p, "cephfs") && k->has_snapshots && k->snapshots > 0)
		say(p,
		    "CephFS frees space some time after the names are gone, and nothing that %s "
		    "snapshot%s (ls .snap) still hold%s",
		    count_format(n, sizeof(n), k->snapshots), k->snapshots == 1 ? "" : "s",
		    k->snapshots == 1 ? "s" : "");
	else if (family(p, "cephfs"))
		say(p,
		    "CephFS frees space some time after the names are gone%s; how much is still to "
		    "be purged only its servers know (ceph tell mds.NAME perf dump)",
		    k->has_snapshots ? "; no snapshot (.snap) holds it"
				     : ", and nothing that a snapshot (.snap) still holds");
}

/* What its filesystem and its devices do to it. */
static void medium(struct plan *p)
{
	const struct findings *f = &p->f;
	char n[28], size[16];

	if (p->around.quota_groups)
		say(p, "the filesystem keeps quota groups, which are brought up to date for "
		       "each extent that is freed");
	if ((plan_is_on(p, "ext3") || plan_is_on(p, "ext2")) && f->bytes >= POINTERS_LARGE)
		say(p,
		    "%s keeps a pointer for each block: %s of data means some %s of them to "
		    "be read and journalled",
		    p->around.type, size_format(size, sizeof(size), f->bytes),
		    count_format(n, sizeof(n), f->bytes / KiB(4)));
	if (blockdevs_rotating(&p->around.devices) && f->entries >= INODES_MANY)
		say(p,
		    "the disk rotates: unless they are in memory, the inodes of %s entries "
		    "are fetched with a seek for each few dozen",
		    count_format(n, sizeof(n), f->entries));
	if (family(p, "overlay"))
		say(p, "on an overlay, what comes from a lower layer is only covered by a "
		       "whiteout: that frees nothing, and takes an inode");
	if (p->profile.server)
		say(p, "each entry costs a round trip to the server, and those of one "
		       "directory cannot overlap");
	if (p->profile.server)
		kept(p);
}

void plan_costs(struct plan *p)
{
	p->costs = json_array();
	shape(p);
	discard(p);
	shared(p);
	medium(p);
}

const char *plan_large_files(const struct plan *p)
{
	if (!p->profile.lease_truthful)
		return family(p, "overlay")
			       ? "unlinked whole: overlayfs grants leases on files that other "
				 "processes use, so nothing may be truncated"
			       : "unlinked whole: whether another process uses a file cannot be "
				 "told "
				 "here, so nothing may be truncated";
	if (shrink_unit() > SHRINK_UNIT_MOST)
		return "unlinked whole: with memory pages as large as here steps would be too "
		       "large";
	if (p->profile.shrink == SHRINK_NEVER)
		return "unlinked whole: steps gain nothing here";
	if (p->last_reference == -EOPNOTSUPP)
		return "unlinked whole: without Landlock (Linux 5.13) the kernel does not tell "
		       "whether something else refers to a file, so nothing may be truncated";
	/* reclaimd asks as root. */
	if (p->last_reference < 0 && geteuid() != 0)
		return "freed in steps by submit, but unlinked whole by run: only root can tell "
		       "whether something else refers to a file";
	if (p->last_reference < 0)
		return "unlinked whole: here even root cannot tell whether something else refers "
		       "to a file (CAP_DAC_READ_SEARCH of the host is missing), so nothing may be "
		       "truncated";
	return p->profile.shrink == SHRINK_TAIL
		       ? "freed in steps from the end, so that no journal commit is long; "
			 "unlinked whole where another process has it open or anything else "
			 "refers to it"
		       : "freed in steps from the start, in which direction each block is "
			 "discarded once; unlinked whole where another process has it open or "
			 "anything else refers to it";
}
