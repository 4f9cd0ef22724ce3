/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The few largest of many: files by bytes, directories by entries. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOP_MOST 5

struct top_entry {
	char *path;
	uint64_t dev, ino;
	uint64_t amount; /* what they are ordered by */
	uint64_t size_bytes;
};

/* Embedded by its users; all zero is an empty one. Largest first. */
struct top {
	struct top_entry v[TOP_MOST];
	size_t n;
};

/* True if something with this amount gets a place, so that finding out its path is worth it. */
bool top_wants(const struct top *t, uint64_t amount);

/* Puts it in its place; what is already known under this identity moves up. Does nothing if memory
 * is out: a list of examples is not worth more. */
void top_put(struct top *t, const struct top_entry *e);
void top_done(struct top *t);
