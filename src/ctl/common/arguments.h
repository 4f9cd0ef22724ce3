/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What `run` and `submit` are given, on the command line and in a list: taken in and checked as a
 * whole before anything is done with any of it. And what is protected where reclaimctl deletes, or
 * says what would be deleted, in its own process. */
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

/* Resolves the built-in list of protected paths and `protect:` of the configuration (that of
 * --configuration-directory, if it is given). The list is the caller's. Returns 0, or EXIT_FAILED
 * after having said why what is protected cannot be known; `nothing` is what has happened then:
 * "nothing was deleted". */
int protected_load(struct protect **ret, const struct options *o, const char *nothing);
