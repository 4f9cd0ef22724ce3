/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Walks what is to be deleted, changes nothing, and collects what can be said about it.
 *
 * Reads directories as a deletion would (the engine, dry, one lane) and examines a bounded share of
 * the entries (sampler.h). A large tree is read at half speed, so that other processes get at the
 * disk, too. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ctl/output/messages.h"
#include "ctl/output/progress.h"
#include "engine/engine.h"
#include "engine/guard/path-intake.h"
#include "policy/scan/holders.h"

#define LARGEST_MOST 5

/* The largest of many, the largest first: files by bytes, directories by entries. */
struct largest {
	struct largest_entry {
		char *path;
		uint64_t dev, ino;
		uint64_t amount; /* what they are ordered by */
		uint64_t size_bytes;
	} v[LARGEST_MOST];
	size_t n;
};

/* What was found. */
struct findings {
	bool complete;    /* read to the end */
	uint32_t mode;    /* of the thing itself */
	uint64_t entries; /* itself and all beneath */
	uint64_t files, directories, symlinks, others;
	uint64_t unknown;    /* entries whose filesystem does not say what they are */
	uint64_t unread;     /* directories that could not be read */
	uint64_t left;       /* on purpose, as what is pinned; of a file the bytes are counted */
	uint64_t depth;      /* levels beneath it */
	double mean_entries; /* in one of its directories */
	uint64_t most_entries;
	uint64_t examined;

	uint64_t bytes, bytes_margin; /* that deleting it frees, and how far off that may be */
	bool sampled;            /* this and what is below is inferred from some of the entries */
	uint64_t large_files;    /* of ENGINE_LARGE_FILE or more, with one name */
	uint64_t linked_entries; /* names of files that have more names */
	uint64_t linked_bytes;   /* in those that have a name outside, or may have */
	uint64_t undeletable;

	json_t *reasons; /* [{path, reason}]: examples of what is undeletable, and why */
	struct largest largest_files, largest_directories;
	uint64_t open_entries; /* that a process or the kernel holds */
	json_t *holders;       /* [{path, how, pid, command}]: some of these */

	uint64_t subvolumes, snapshots; /* btrfs; snapshots are subvolumes as well */
	int64_t snapshots_elsewhere;    /* that keep what is deleted here; negative: not known */
};

/* Does it. What was interrupted ends with what is known by then. Fills *ret, the caller's, for
 * findings_done. The bar may be NULL. Returns 0 or a negative errno: -ENOMEM, or why the walk could
 * not be begun. */
int survey(struct findings *ret, const struct target *t, const struct holders *h,
	   struct progress *bar, const _Atomic bool *interrupted);

void findings_done(struct findings *f);
