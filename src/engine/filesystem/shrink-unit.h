/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* In what units large files are shrunk. */
#pragma once

#include <stdint.h>

#include "base/macros.h"

/* Below this no file is worth the calls that steps take. */
#define SHRINK_LEAST MiB(2)

/* The smallest step, and what all of them begin and end at a multiple of: no folio of the page
 * cache is larger. 2 MiB where pages have 4 KiB. */
uint64_t shrink_unit(void);

/* Where the unit is larger (pages of 64 KiB: 512 MiB), nothing is shrunk: see profile_find(). */
#define SHRINK_UNIT_MOST MiB(64)
