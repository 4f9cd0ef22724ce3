/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An amount of free space that is wished for: so many bytes, or a share of the filesystem. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/statvfs.h>

struct space_goal {
	bool is_share;
	double share; /* 0 to 1 */
	uint64_t bytes;
};

/* Parses "120G" or "10%". Returns 0, -EINVAL or -ERANGE. */
int space_parse(const char *s, struct space_goal *ret);

/* How many bytes that is on a filesystem. */
uint64_t space_bytes(const struct space_goal *s, const struct statvfs *fs);

/* How many bytes an ordinary user still finds room for: what df(1) calls available. */
uint64_t space_free(const struct statvfs *fs);
