/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The walker's state, shared by walker.c (the state machine), trail.c (levels, names and
 * descriptors), share.c (subtrees for idle lanes) and give.c (subtrees for other hosts).
 *
 * The stack (spill.h) holds, from the bottom: the base frame, its pending names, the frame of the
 * directory being visited, which is the last of those names, its pending names, and so on:
 *
 *   frame 0 | name name name | frame 1 | name name | frame 2 | ...
 *            ^pend_lo       ^pend_hi = where frame 1 stands
 *
 * A name's record is its length, its pin's number, the name, and the length again, so that it can
 * be read from either end. */
#pragma once

#include "anchors.h"
#include "engine/core/batch.h"
#include "engine/core/dirlist.h"
#include "engine/core/engine-job.h"
#include "engine/core/tasks.h"
#include "node.h"
#include "places.h"
#include "spill.h"

struct frame {
	uint64_t ino;   /* known once its descriptor has been dropped: whom to find again */
	int64_t cookie; /* where listing goes on */
	uint64_t prev;  /* the parent's frame */
	uint64_t pend_lo, pend_hi;
	uint64_t bytes;     /* what the directory itself occupies, if that is asked for */
	int64_t began_nsec; /* real time when its listing began */
	uint64_t pending;   /* names between them, the one being visited included */
	uint8_t eof;        /* listed to its end */
	uint8_t failed;     /* something in it stays, so it stays */
	uint8_t shared;     /* another host works in it: likewise */
	uint8_t base;       /* the node's own directory: goes with the node */
	uint8_t relists;
	uint8_t marked;          /* files in it may be pinned by a person */
	uint8_t refilled;        /* entries appear faster than they go: not listed again */
	uint8_t chosen;          /* the last pending name is the one to visit */
	uint8_t reopened;        /* its descriptor is new: listing must be put where it was */
	struct name_slice slice; /* which of its names are ours */
};

enum walk_state {
	WALK_LIST,     /* read the next chunk of the current directory */
	WALK_UNLINKED, /* the chunk's batch has been performed */
	WALK_DESCEND,  /* visit the next pending directory, or go up */
	WALK_REMOVED,  /* the rmdir of the current directory has been performed */
};

struct walker {
	struct engine_job *job;
	struct node *node; /* the deepest node above; holds a reference */
	struct spill *stack;
	struct frame cur;
	uint64_t cur_off, base_off;
	uint64_t level, base_level;
	struct anchors anchors;
	enum walk_state state;

	struct dirlist own, one; /* entries of a directory; the single name of an rmdir */
	struct dirlist *roots;   /* of the task, or NULL */
	const struct identity *pins;
	struct places places; /* of the files that were listed */
	uint8_t *results;
	size_t results_cap;
	struct batch batch;
	size_t n_unlinked; /* of the list that the batch is a piece of: so many are to be */

	char tree[256]; /* the tree's name when it is not one of the node's ancestors */
	_Atomic uint64_t checked_usec; /* UINT64_MAX: found to have been moved */
	uint64_t check_pause_usec;     /* how long not to look again, after a look that took long */
	unsigned relists;              /* what the task's directories have had */
	unsigned share_pause;          /* attempts to share that are not made */
	uint64_t share_paused_usec;
	uint64_t entered_usec; /* when a directory was last entered */
	uint64_t dir_usec;     /* what a directory takes, smoothed */
	struct walker *next;   /* see walker_push */
};

/* trail.c: levels, names, descriptors. All return 0 or a negative errno. */
int trail_begin(struct walker *w, struct node *n);
void trail_end(struct walker *w);
/* pin is the number of its pin, counted from 1, or 0. */
int trail_pend(struct walker *w, const char *name, uint64_t pin);
/* Reads the last pending name of the current frame into buf (256 bytes), and its pin. */
int trail_next(struct walker *w, char *buf, uint64_t *ret_pin);
/* Moves the first pending name to the end, where the next one to be visited stands: directories are
 * visited in the order in which they became pending, by this walker and by those it shares with. */
int trail_choose(struct walker *w);
void trail_drop_next(struct walker *w);
int trail_down(struct walker *w, int fd);
void trail_up(struct walker *w);
/* The current directory's descriptor, opened again if it had to be closed. */
int trail_fd(struct walker *w);
/* The descriptor of the level above. */
int trail_parent_fd(struct walker *w);
/* The name of the current directory, into buf (256 bytes). */
int trail_name(struct walker *w, char *buf);
/* The path of `name` (may be NULL) in the current directory, for messages. */
void trail_path(struct walker *w, const char *name, char *buf, size_t len);
/* The bytes of a record with a name of this length. */
static inline size_t trail_record(size_t name_len)
{
	return name_len + 2 + sizeof(uint64_t);
}
/* Reads the record that starts at offset off of the stack, or ends there. */
int trail_read(struct walker *w, uint64_t off, bool end, char *buf, uint64_t *ret_pin);
/* Looks whether the current directory is still in its tree, when that has not been done for a
 * while. If it is not, checked_usec says so to every batch. */
void trail_check(struct walker *w);
int trail_frame_read(struct walker *w, uint64_t off, struct frame *ret);
int trail_frame_write(struct walker *w, uint64_t off, const struct frame *f);

/* walker.c, for the others: reports a failure of `name` in the current directory (or of that itself
 * if NULL), which then stays; drops what is still to be visited in it. */
void walker_failed(struct walker *w, const char *name, const char *what, int error);
void walker_give_up(struct walker *w);

/* give.c: gives pending directories to other hosts. */

/* Is it wanted at all? Without demand this is one relaxed load. */
bool give_wanted(const struct walker *w);
/* How many of the frame's names, of which so many can be spared, make a unit; 0: none is worth a
 * host's round trips. The frame is that of the level. */
size_t give_size(struct walker *w, uint64_t level, const struct frame *f, uint64_t names);
/* Gives away units of the base frame f, which can spare so many names, as long as they are wanted.
 */
void give_names(struct walker *w, struct frame *f, uint64_t names);
/* Gives away slices of the current directory, open as fd, if they are wanted and so many names that
 * are no directories, of a chunk or of what is left of one, show that it is worth it. Directories
 * are in no slice: they stay this walker's. True: some of the frame's own slice are another host's
 * now. */
bool give_slices(struct walker *w, int fd, size_t names);

/* share.c: gives pending directories to idle lanes, and those that can be spared then to other
 * hosts. */
void share(struct walker *w);
/* Where lanes have to keep to one sequence: if a directory that comes before the one to be visited
 * next was given away and no lane has taken it yet, visits that one and gives the other away. */
void share_in_order(struct walker *w);
