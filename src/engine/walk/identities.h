/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The identities of many names of one directory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/core/engine-options.h"

/* Fills v[i].id, of the name v[i].name beneath dirfd, and errors[i]: 0 or a negative errno, which
 * is -ECANCELED for what was not asked for any more after *cancelled had become true. Several are
 * asked for at once where the kernel lets that: behind a server each is a round trip, or, while
 * lanes are at work there, a turn in its queue. */
void identities_at(int dirfd, struct engine_unit_name *v, int *errors, size_t n,
		   const _Atomic bool *cancelled);
