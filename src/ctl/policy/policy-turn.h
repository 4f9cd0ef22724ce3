/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies run one after the other, and check the clock. The state directory has a file with what
 * the clocks said when the last policy ran; the file is locked while a policy runs. */
#pragma once

#include "ctl/common/options.h"

/* Waits for its turn. Returns a descriptor that holds it, or -1 and *ret_status, after having
 * reported that the directory cannot be used. If the clock was set since the last time, and neither
 * NTP nor --clock-is-right confirms it, reports that and sets *ret_jump_usec to the step; else to
 * 0. A dry run does not wait, and records nothing. */
int policy_turn(const struct options *o, int64_t *ret_jump_usec, int *ret_status);
