/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long a deletion will take, unpaced: a range, from measured costs. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct estimate_input {
	const char *family;  /* of struct fs_profile */
	bool server;         /* likewise */
	bool block_pointers; /* ext2, ext3: a pointer per block instead of extents */
	bool device;         /* there is a block device to read from */
	bool rotating;       /* and it turns */
	bool discard;        /* freed blocks are discarded at once */
	bool spread;         /* more than one directory in flight */
	uint64_t entries;    /* directories included */
	uint64_t files;
	uint64_t directories;
	uint64_t most_entries; /* in one directory */
	uint64_t bytes;
};

struct estimate {
	uint64_t warm_usec; /* everything needed is in memory */
	uint64_t cold_usec; /* nothing is */
};

void estimate(const struct estimate_input *in, struct estimate *ret);

/* How many times as fast entries go when they are spread over directories, on two lanes. */
double estimate_spread_gain(const char *family, bool server);
