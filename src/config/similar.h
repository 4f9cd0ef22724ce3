/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* "Did you mean": whether one word may be a slip for another. Pure. */
#pragma once

#include <stdbool.h>

/* True if at most two letters are wrong, missing, too many or exchanged with their neighbour, and
 * less than half of them. Words of more than 31 bytes are like no other. */
bool is_similar(const char *word, const char *known);
