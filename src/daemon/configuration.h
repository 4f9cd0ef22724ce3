/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the daemon's configuration is: the files, and what is protected besides what they say. */
#pragma once

struct config;
struct manager;

/* Reads it into *ret, which is the caller's to free. What is wrong with it is logged, and its first
 * error is kept in m->configuration_error. Returns 0 or a negative errno. */
int configuration_load(struct manager *m, struct config **ret);
