/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which D-Bus messages may bring descriptors.
 *
 * sd-bus drops a message whose header it refuses, but not the descriptors that came with it (seen
 * with 252), so that any user could leave as many in reclaimd as it may have. Of headers that it
 * takes, those are let through here that our methods need, and no others: less is known to be good
 * than is good. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* len: the fixed 16 bytes and the fields, which are padded to 8. */
bool header_may_carry(const uint8_t *data, size_t len, size_t n_fds);
