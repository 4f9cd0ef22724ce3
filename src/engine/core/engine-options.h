/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a run of the engine is told, and what it tells: the types of engine.h that all its parts
 * share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/fd.h"
#include "base/macros.h"
#include "dirlist.h"
#include "engine/filesystem/profile.h"
#include "name-slice.h"
#include "pace.h"

struct last_reference;
struct moosefs;
struct tuner;
struct mounts;
struct shrink_remainder;

/* From this size on a file is worth freeing in steps: some hundred ms of journal on a slow disk. */
#define ENGINE_LARGE_FILE MiB(256)

/* Why an entry was left without an error of the filesystem. */
enum skip_reason {
	SKIP_MISSING,   /* another process was faster, or a listed name never existed */
	SKIP_MOUNT,     /* a mount point: never crossed (I4) */
	SKIP_CHANGED,   /* not what it was when it was looked at (I3) */
	SKIP_PINNED,    /* pinned by a person (user-pin.h) */
	SKIP_MOVED,     /* moved out of the tree while it was being deleted */
	SKIP_KEPT,      /* a directory kept because something in it was */
	SKIP_CANCELLED, /* not reached before the job was stopped */
	SKIP_REASONS
};

/* The words of the --json output: "missing", "mount", ... */
const char *skip_reason_name(enum skip_reason why);

struct stats {
	uint64_t entries; /* removed, directories included */
	uint64_t dirs;    /* of those, directories */
	uint64_t bytes;   /* st_blocks * 512 of what was weighed and whose last link went */
	uint64_t errors;  /* entries that could not be removed */
	uint64_t skipped[SKIP_REASONS];
	uint64_t subvolumes; /* of dirs, destroyed as a whole */
	uint64_t sliced;     /* of entries, removed by a server, many at once */
	uint64_t shrunk;     /* large files made smaller in steps */
	uint64_t whole;      /* large files unlinked whole where others are shrunk */
	uint64_t unlink_calls;
	uint64_t getdents_calls;
	uint64_t stat_calls;
	uint64_t relists; /* directories read again */
	uint64_t given;   /* units that were given away, see `give` below */
	int first_error;  /* negative errno, 0 if none */
};

static inline uint64_t stats_skipped(const struct stats *s)
{
	uint64_t n = 0;

	for (int i = 0; i < SKIP_REASONS; i++)
		n += i == SKIP_KEPT ? 0 : s->skipped[i];
	return n;
}

struct engine_problem {
	const char
		*path; /* as the user named the root, then the way down; raw bytes, not escaped */
	const char *what; /* "cannot unlink", "is a mount point, not crossed", ... */
	int error;        /* negative errno, or 0 where `what` says it all */
	bool is_error;    /* false: left on purpose (a skip) */
};

struct engine_progress {
	struct stats stats;
	uint64_t elapsed_usec;
	enum backend backend;
	unsigned lanes;
	/* How much more is free on the filesystem than when the run began: what other
	 * programs do there is in it. 0 until the end of the run, and if it became less. */
	uint64_t space_bytes;
	bool weighed; /* at the end: the bytes of the statistics were counted, see `weigh` below */
};

/* A chunk of a directory as it was read. */
struct engine_listing {
	int fd;
	uint64_t depth; /* of its entries, 1 for those of the tree's own directory */
	bool first;     /* chunk of this directory */
	const struct dirlist *list;
	/* Writes the path of an entry (NULL: of the directory) into buf. */
	void (*path)(const struct engine_listing *l, const char *name, char *buf, size_t len);
	const void *walker;
};

/* Subdirectories of one directory that another host is to empty and to remove; or a slice of all
 * that the directory has. The directory is named by its way from the group's own, or from what that
 * lies within: components with a slash between them, "" for that itself. */
struct engine_unit_name {
	const char *name;
	struct identity id;
};

struct engine_unit {
	const char *path;
	struct identity id; /* of the directory */
	const struct engine_unit_name *names;
	size_t n_names;
	struct name_slice slice; /* without names: 2 slices at least */
};

/* What a unit may have. A deeper directory is not given, and a person's names all fit. */
#define ENGINE_UNIT_NAMES 256
#define ENGINE_UNIT_BYTES KiB(8) /* of names, with their NULs */
#define ENGINE_UNIT_PATH KiB(3)  /* with its NUL */

/* Half more than what it takes alone. */
#define ENGINE_LATENCY_AUTO PACE_OP_AUTO

struct engine_options {
	bool fixed_backend; /* use `backend` and nothing else; otherwise find the better one */
	enum backend backend;
	unsigned lanes; /* fixed number of lanes; 0: by measurement */
	/* Look at each entry before it goes: exact bytes, and large files are shrunk in steps.
	 * Costs a system call per entry; without it, entries are unlinked by d_type alone. Where
	 * that would be a round trip to a server, only a dry run does so. */
	bool weigh;
	/* Change nothing: walk, count and (with weigh) weigh what a run would delete. */
	bool dry;
	/* All names are directories, which go if nothing is in them, as by rmdir(1): none is looked
	 * into. Not with dry. */
	bool rmdir;
	/* Where a server answers: what an operation may take while we work, so that foreign ones
	 * do not take longer either. 0: whatever it takes. */
	uint64_t op_latency_usec;
	/* MooseFS, as root: whole subtrees are removed by its master, which may do nothing else for
	 * stall_usec each time. The conversation is the caller's; NULL or 0: all is unlinked. */
	struct moosefs *moosefs;
	uint64_t stall_usec;
	uint64_t shrink_min_bytes; /* files from this size on are shrunk in steps; 0: never */
	/* Tells whether something else refers to a file. NULL: that is not known, and no file is
	 * shrunk. Outlives the engine. */
	const struct last_reference *last_reference;
	const struct mounts *mounts; /* of this process, if they are known; else NULL */
	/* Keeps what is found out about lanes for the next engine on that filesystem (tuner_new).
	 * The caller's; of one engine at a time. NULL: each finds out by itself. */
	struct tuner *tuner;
	size_t memory_bytes; /* for directory chunks beyond the lanes' own; 0: 12 MiB */
	/* Called on any lane, one call at a time. May be NULL. */
	void (*problem)(const struct engine_problem *p, void *userdata);
	/* Called on any lane, one call at a time, for each chunk of a directory that is read,
	 * before anything in it is deleted. May be NULL. */
	void (*listed)(const struct engine_listing *l, void *userdata);
	/* Called on any lane, any number at a time, for a large file that has lost its name and is
	 * about to be freed in steps (shrink.h). May be NULL. */
	void (*shrinks)(int fd, uint64_t weight, void *userdata);
	/* Called on any lane, any number at a time, for a large file in whose midst it was
	 * cancelled: true if the rest is taken over, its descriptor included, and what is left is
	 * not counted here. NULL, or false: the kernel frees it at once. */
	bool (*remainder)(const struct shrink_remainder *remainder, void *userdata);
	/* Called on any lane, any number at a time, while there is demand (engine_demand): true if
	 * the unit is given away. Nothing of it is touched any more then, and the directories that
	 * it lies in stay: they are neither errors nor kept. An engine that gives has one group.
	 * NULL: it does not give. Not with dry or rmdir. */
	bool (*give)(const struct engine_unit *u, void *userdata);
	/* Called from engine_run's thread about ten times a second, with the statistics and the
	 * time. May be NULL. */
	void (*progress)(const struct engine_progress *p, void *userdata);
	void *userdata;
};
