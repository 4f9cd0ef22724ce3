/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names together with their identities: what SubmitLists takes with the option `records`. A file of
 * them has, for each, this header and then the path beneath its directory, ended by a NUL. */
#pragma once

#include <stdint.h>

/* As statx(2) says, in the byte order of the machine; a file that is not that any more
 * is left alone. */
struct record_header {
	uint64_t ino;
	int64_t btime_nsec; /* 0: the filesystem has none */
	uint64_t type;      /* S_IFMT bits */
};
