/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Validates what is submitted: resolves it, once, as the submitter; records its identity; and tells
 * whether it may be deleted at all. Nothing is changed. */
#pragma once

#include "serving.h"

/* Takes the groups of a request into the session, which is made if there is none. Returns 0,
 * -ENOMEM or -EBADMSG. */
int validate_groups_add(struct serving *s);

/* Validates all groups of a session, and answers. Returns 0, or a negative errno only if it could
 * not be answered. */
int validate(struct serving *s);
