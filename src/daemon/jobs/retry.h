/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What could not be done for the moment (a worker was killed, memory was short) is never given up:
 * it is done again, at once at first, then less and less often. A job that gets any further in
 * between begins to count anew: a death that costs no more than the way back is worth no waiting.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether time alone may help: what is asked for is not to blame, and no mount has to come. */
bool retry_helps(int error);

/* How long to wait after so many failures in a row; 0: not at all. */
uint64_t retry_after_usec(unsigned failures);
