/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* "Did you mean": whether one word may be a slip for another, and how near it is. Pure. */
#pragma once

#include <stddef.h>

/* How many letters are wrong, missing, too many or exchanged with their neighbour; SIZE_MAX if that
 * is more than two, or half of them. Words of more than 31 bytes are like no other. */
size_t slips_between(const char *word, const char *known);

/* The most similar of the words that are offered one after the other. */
struct similar {
	const char *word; /* the caller's */
	const char *near; /* NULL: none may be meant */
	size_t slips;
};

void similar_offer(struct similar *s, const char *known);
