/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A directory whose subdirectories are being deleted by more than one lane: it stays open, and goes
 * when the last of them is gone. Everything a single lane does alone needs no node. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine_job;
struct identity;
struct root_group;

/* A directory that another process keeps filling is listed again so often and no more (negative
 * test 36). Eight are also enough for filesystems whose listing skips entries while names go. */
#define RELISTS_MAX 8

struct node {
	struct node *parent; /* holds a reference; NULL for the directory that holds a root */
	_Atomic unsigned refs;
	_Atomic bool failed; /* something beneath could not be removed, so this stays */
	_Atomic bool shared; /* something beneath was given to another host: likewise */
	int fd;              /* a parentless node's is opened when a walker begins with it */
	uint64_t bytes;      /* what the directory itself occupied when it was entered */
	unsigned relists;    /* how often it was listed again because rmdir said ENOTEMPTY */
	const struct root_group
		*group; /* of a parentless node: what it was made for; the engine's */
	uint64_t pin;   /* number of its pin in pins, counted from 1; 0: none */
	const struct identity *pins;
	char name[];
};

/* Makes a node with one reference. Takes over fd, and the caller's reference to the parent, when it
 * succeeds. Returns NULL if memory is out. */
struct node *node_new(struct node *parent, int fd, const char *name, unsigned relists);

/* Makes sure that a parentless node is open. One walker begins with it before any other can know
 * it. Returns 0 or a negative errno; -ESTALE if its directory is another one now. */
int node_open(struct node *n);
struct node *node_ref(struct node *n);

/* Drops a reference. Dropping the last one removes the directory and drops the parent's. */
void node_put(struct engine_job *j, struct node *n);

/* Where the tree of this node must be found: the name of its root in the directory of the
 * parentless node; of a unit, that of the tree in which it lies. *ret_name is NULL for a parentless
 * node itself that is of no unit. Returns the directory's descriptor. */
int node_tree(const struct node *n, const char **ret_name);

/* Is it still where it was entered, up to the parentless node? Followed up, level by level, to the
 * first whose path the kernel can spell, which settles the rest. */
bool node_in_place(const struct engine_job *j, const struct node *n);

/* Writes the node's path for messages into buf (truncated in the middle if need be). Returns its
 * length. */
size_t node_path(const struct node *n, char *buf, size_t len);

/* Appends "/name" to a path in buf, cutting what does not fit. Returns the new length. */
size_t path_append(char *buf, size_t len, size_t at, const char *name);

/* What is said of a directory with snapshots of its own. */
#define SNAPDIR_HOLDS "has snapshots in its .snap, and stays until they are removed (rmdir)"

/* True if the open directory has snapshots of its own in its subdirectory `name`, which its listing
 * does not name (NULL: there is no such thing on its filesystem). It lists empty, and cannot be
 * removed while it has. */
bool snapdir_holds(int fd, const char *name);
