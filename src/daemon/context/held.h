/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How many names are on their way from a message into jobs: until their submit has been answered,
 * a worker holds them. They are counted as the worker tells of them, for each submit, for each user
 * (an account with its subordinate ids) and for all users but root together, and each of these sums
 * has a bound, which is what bounds the memory of the workers: for a name 24 bytes, as many again
 * where names take different ways, and its text. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct held {
	uint64_t names, bytes;
};

/* Bytes of names and paths that go with each name that is allowed. */
#define HELD_NAME_BYTES 64

/* A directory with its path, its identity and its descriptor is as much as this many names. */
#define HELD_DIR_NAMES 10

/* What a user may have, however much others have: one name with a path of any length at least. */
#define HELD_LEAST 100

/* Returns how much a user may have of something of which all users together have `all`: half of
 * what the others leave of twice `most`, but at least HELD_LEAST and at most `most`. */
uint64_t held_part(uint64_t user, uint64_t all, uint64_t most);

/* What a user may have as long as others have what they have: half of what these leave of twice
 * `most`, so that as much is left for the next one; `most`, if no other user has any. */
uint64_t held_share(const struct held *user, const struct held *all, uint64_t most);

/* Adds to all three, also if that is too much: what was added is given back in any case. `most` is
 * what one user may have, and all users twice. Returns 0, -E2BIG if this submit alone has more,
 * -EDQUOT if the user has with others, or -ENFILE if that is more than the user's share. root has
 * no more than `most` in each. */
int held_add(struct held *submit, struct held *user, struct held *all, uid_t uid, uint64_t names,
	     uint64_t bytes, uint64_t most);

/* Gives back all of a submit. */
void held_give(struct held *submit, struct held *user, struct held *all, uid_t uid);
