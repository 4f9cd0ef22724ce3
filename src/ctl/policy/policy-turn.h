/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies run one after the other, and only while the clock can be trusted. What the clocks said
 * when the last one ran is kept in the state directory; the file is locked while one runs. */
#pragma once

#include "ctl/common/options.h"

/* Waits for its turn. Returns a descriptor that holds it, or -1 with *ret_status and after having
 * said why: the clock was set since the last time, or the directory cannot be used. With
 * --clock-is-right, the clock is right as it is. A dry run does not wait, and records nothing. */
int policy_turn(const struct options *o, int *ret_status);
