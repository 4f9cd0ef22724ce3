/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a run works at a moment: the backend, and how many lanes. */
#pragma once

#include <stdatomic.h>

#include "engine/filesystem/profile.h"

struct setting {
	enum backend backend;
	unsigned lanes;
};

/* Both in one word, so that they change at once. */
static inline unsigned setting_pack(struct setting s)
{
	return s.lanes << 1 | (s.backend == BACKEND_URING);
}

static inline const char *backend_name(enum backend b)
{
	return b == BACKEND_URING ? "uring" : "threads";
}

static inline struct setting setting_unpack(unsigned packed)
{
	return (struct setting){ .backend = packed & 1 ? BACKEND_URING : BACKEND_THREADS,
				 .lanes = packed >> 1 };
}
