/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The survey's state, shared by survey.c (the walk) and survey-entry.c (single entries). */
#pragma once

#include <stdatomic.h>

#include "engine/guard/roots.h"
#include "snapshots.h"
#include "survey-links.h"
#include "survey-sample.h"
#include "survey.h"

/* A directory on the way down. */
struct survey_level {
	uint64_t dev, ino, entries;
	bool blocked; /* nothing in it can be deleted */
	bool sticky;
	uid_t owner;
};

struct survey {
	const struct target *target;
	const struct holders *holders;
	survey_progress_t progress;
	void *userdata;
	struct engine *engine;
	struct root_group group; /* what the engine is given: the target, and nothing else */
	struct identity pin;
	struct findings f;
	struct caller caller;
	_Atomic bool cancelled;

	struct survey_level *levels; /* [0]: the directory that the target lies in */
	struct survey_level deep;    /* for those below the levels kept */

	struct sampler sampler;
	struct tally bytes, large_files, linked_entries, linked_share, undeletable;
	struct links links;
	uint64_t linked_kept, linked_freed;          /* bytes, by whether all names were seen */
	uint64_t directory_bytes, undeletable_known; /* beside those of the sample */
	uint64_t directories_read;

	struct subvolume container, subvolumes[SUBVOLUMES_MOST];
	size_t n_subvolumes;
	bool contained; /* the target is a part of the container, no subvolume itself */

	uint64_t began_usec, woke_usec;
};

/* Where an entry is: in a directory that is being listed, or the target itself (l is NULL). */
struct spot {
	int fd;
	const struct survey_level *level;
	const struct engine_listing *l;
};

/* survey-entry.c. Writes the path of an entry (NULL: of the directory itself) into buf. */
void spot_path(const struct survey *s, const struct spot *at, const char *name, char *buf,
	       size_t len);

/* Takes note of an entry: of its type, of who has it open; looks at it if it is its turn. */
void survey_take(struct survey *s, const struct spot *at, const char *name, uint64_t ino,
		 uint8_t type);

/* What has been counted becomes what was found. */
void survey_conclude(struct survey *s);
