/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is protected where reclaimctl deletes, or says what would be deleted, in its own process:
 * the built-in list, and `protect:` of the configuration. */
#pragma once

#include "engine/guard/protect.h"
#include "options.h"

/* Returns 0, or EXIT_FAILED after having said why what is protected cannot be known; `nothing` is
 * what has happened then: "nothing was deleted". The list is the caller's. */
int protected_load(struct protect **ret, const struct options *o, const char *nothing);
