/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* <mount>/.reclaim and <mount>/.reclaim/UID: made by root, and believed only if they are exactly
 * what root would have made. */
#pragma once

#include "wire/protocol.h"

/* Returns a descriptor of the submitter's own directory, open for listing, or a negative errno:
 * -EXDEV if that path is no root of that mount, -EPERM if something there is not as it should be,
 * -EBUSY if another daemon has the mount. */
int staging_get(const struct make_staging_message *w);
