/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl list --fleet: the jobs that hosts of a fleet share. */
#pragma once

#include "ctl/common/client.h"
#include "ctl/common/options.h"

/* Prints them. Returns an exit status, after saying what is wrong. */
int fleet_list(const struct options *o, struct client *c);
