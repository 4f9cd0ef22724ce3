/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Moving what was looked at out of the way: each name becomes a number in the job's own directory
 * in staging. All of it, or none. */
#pragma once

struct serving;

/* Answers a request. Returns a negative errno only if it could not be answered. */
int stage(struct serving *s);
