/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What spools offer becomes jobs: with the authority the spool found, as any other submit, so that
 * limits, protection and the record are the same. What was looked at by the spool and is somebody
 * else by the time it is accepted refuses the batch. */
#pragma once

#include "manager.h"

/* After the configuration is there; serves what it says. */
int spooling_begin(struct manager *m);
/* The configuration has changed. */
int spooling_configure(struct manager *m);
