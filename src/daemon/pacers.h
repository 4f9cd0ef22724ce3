/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One pacer for each set of devices on which something is being deleted, shared by all workers
 * there; made when the first begins and freed when the last has ended, so that an idle daemon
 * samples nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "pacing/pacer.h"

struct config;
struct pacers;

int pacers_new(struct pacers **ret);
struct pacers *pacers_free(struct pacers *p);

/* What applies to pacers made from now on, and, as far as it can be changed, to those that are. The
 * configuration must live until the next call. */
void pacers_configure(struct pacers *p, const struct config *c);

/* Speed wins over latency on the devices of fd (free space is low), or not any more. */
void pacers_urgent(struct pacers *p, int fd, bool on);

/* All that are in use, for the device objects of the API. Returns how many views were filled. */
size_t pacers_look(struct pacers *p, struct pacer_view *views, size_t n);
