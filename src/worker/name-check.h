/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Looking at what is submitted: resolving it, once, as the submitter; who it is; and whether it may
 * be deleted at all. Nothing is changed. */
#pragma once

#include "serving.h"

/* Takes a request's groups into the session. */
int validate_groups_add(struct serving *s);

/* Looks at all of a session and tells. Returns a negative errno only if it could not be told. */
int validate(struct serving *s);
