/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Scans a target of `plan` and counts its entries. Changes nothing.
 *
 * Reads directories with the engine in dry mode and one lane, and examines each entry with statx().
 * A large tree is read at half speed, to leave time for other programs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ctl/output/messages.h"
#include "ctl/output/progress.h"
#include "engine/engine.h"
#include "engine/guard/path-intake.h"
#include "policy/scan/holders.h"

#define LARGEST_MOST 5

/* The largest files by bytes, or the largest directories by entries; the largest comes first. */
struct largest {
	struct largest_entry {
		char *path;
		uint64_t dev, ino;
		uint64_t amount; /* bytes in use, or number of entries */
		uint64_t size_bytes;
	} v[LARGEST_MOST];
	size_t n;
};

/* The results of a survey. */
struct findings {
	bool complete;    /* false if the user interrupted it */
	uint32_t mode;    /* file mode of the target */
	uint64_t entries; /* number of entries, the target included */
	uint64_t files, directories, symlinks, others;
	uint64_t unknown; /* entries whose type the filesystem does not report */
	uint64_t unread;  /* directories that could not be read */
	uint64_t left;    /* entries that are skipped, such as pinned ones; `bytes` includes them */
	uint64_t depth;   /* number of levels below the target */
	double mean_entries; /* mean number of entries of a directory */
	uint64_t most_entries;
	uint64_t subvolumes; /* btrfs subvolumes, snapshots included */

	uint64_t bytes;          /* space that the deletion frees */
	uint64_t large_files;    /* files of ENGINE_LARGE_FILE or more with one name */
	uint64_t linked_entries; /* names of files with several names */
	uint64_t linked_bytes;   /* space of files that have, or may have, a name elsewhere */
	uint64_t undeletable;

	json_t *reasons; /* [{path, reason}]: examples of entries that cannot be deleted */
	struct largest largest_files, largest_directories;
	uint64_t open_entries; /* entries that a process or the kernel uses */
	json_t *holders;       /* [{path, how, pid, command}]: examples of them */
};

/* Surveys the target `t`. If *interrupted becomes true, ends early with the results until then. `h`
 * lists the open files; `bar` may be NULL. On success the caller releases *ret with
 * findings_done(). Returns 0 or a negative errno. */
int survey(struct findings *ret, const struct target *t, const struct holders *h,
	   struct progress *bar, const _Atomic bool *interrupted);

void findings_done(struct findings *f);
