/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The directory of a unit (wire/protocol.h): found beneath that of its job, as the submitter. */
#pragma once

#include "base/lasting-identity.h"

/* Opens (O_PATH) what the components of `path` lead to beneath job_fd, one after the other: no
 * symbolic link is followed, no mount crossed. "" is job_fd itself. Returns the descriptor, or a
 * negative errno: -ESTALE if it is not the directory `id`, -EXDEV at a mount, -ELOOP or -ENOTDIR at
 * what is no directory. */
int unit_dir_open(int job_fd, const char *path, const struct lasting_identity *id);
