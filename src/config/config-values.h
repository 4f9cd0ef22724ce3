/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a single value of the configuration may be: words to numbers and paths. Pure. */
#pragma once

#include <stdint.h>

#include "config.h"

/* Times, rates and sizes have a unit; 0 needs none. */
enum value_type {
	VALUE_TIME,    /* uint64_t, microseconds */
	VALUE_RATE,    /* uint64_t, bytes per second */
	VALUE_COUNT,   /* uint64_t */
	VALUE_LATENCY, /* struct config_pacing: latency and latency_usec */
	VALUE_SPACE,   /* struct policy_space */
	VALUE_SHARE,   /* double, 0 to 1 */
	VALUE_SWITCH,  /* bool: which of two words */
	VALUE_CHOICE,  /* an enum: which of two or three */
	VALUE_CLOCK,   /* struct policy_time */
	/* Here 0 is not meant, and needs one, too. */
	VALUE_AGE,    /* uint64_t, microseconds */
	VALUE_SIZE,   /* uint64_t, bytes */
	VALUE_FLOOR,  /* struct policy_space, not nothing */
	VALUE_INODES, /* the same, of a number of inodes */
	/* char *, malloc'ed; what was there before is freed. */
	VALUE_BASE,  /* a path, not the root directory */
	VALUE_REGEX, /* for group-by and unit-by: selection.h */
	VALUE_ZONE,  /* the name of a time zone that this system has */
	VALUE_LINE,  /* of printable text, as a unit of systemd can have it */
	VALUE_NAME,  /* of a host or a filesystem in a fleet */
	VALUE_UNIT,  /* the name of a unit that can be started and has an end */
};

struct value_limits {
	uint64_t least, most; /* of a number; both 0: any */
	/* VALUE_SWITCH, VALUE_CHOICE: for 0, 1 and 2. VALUE_SIZE, VALUE_RATE, VALUE_LINE: the
	 * first, or NULL, is for 0, and for NULL. */
	const char *words[3];
};

/* Reads `text` into *target, whose type is as above. UINT64_MAX is "unlimited" and only a rate
 * whose limit reaches that far. Returns 0, -EINVAL (not such a value), -ERANGE or -ENOMEM; *target
 * is then untouched. */
int value_read(enum value_type type, struct value_limits limits, const char *text, void *target);

/* Takes double and trailing slashes out of a path, in place. Returns NULL, or what was expected in
 * its stead, in words. */
const char *path_tidy(char *path);

/* The same for what may name a device: a path, or a number such as 8:0. */
const char *device_tidy(char *name);

/* Which enum age a word means; 0: none. */
unsigned age_parse(const char *text);

/* Can this be a user's name or number? Returns NULL, or what was expected in its stead, in words.
 * Whether there is such a user is not looked up: that may take long, and change. */
const char *owner_check(const char *owner);
