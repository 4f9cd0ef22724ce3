/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What `run` and `submit` are given, on the command line and in a list: taken in and checked as a
 * whole before anything is done with any of it. */
#pragma once

#include "engine/guard/protect.h"
#include "engine/guard/roots.h"
#include "options.h"

struct arguments {
	struct roots roots;
	struct protect *protect;
	size_t refused, absent; /* paths refused; paths of the command line that do not exist */
};

void arguments_done(struct arguments *a);

/* Takes in everything and says what is wrong with it. a->protect is the caller's choice, or NULL
 * for the built-in list. `nothing` is what has happened then: "nothing was deleted". Returns 0, or
 * an exit status if anything was refused; what is absent is only counted and said. */
int arguments_take(struct arguments *a, const struct options *o, const char *nothing);
