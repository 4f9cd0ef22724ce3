/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* "Did you mean": whether one word may be a slip for another, and how near it is. Pure. */
#pragma once

#include <stddef.h>

/* How many letters are wrong, missing, too many or exchanged with their neighbour; SIZE_MAX if that
 * is more than two, or half of them. Words of more than 31 bytes are like no other. */
size_t slips_between(const char *word, const char *known);
