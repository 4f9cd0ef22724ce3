/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the daemon's configuration is: the files, and what is protected besides what they say. */
#pragma once

struct config;
struct context;

/* Reads it into *ret, which is the caller's to free. What is wrong with it is logged, and its first
 * error is kept in context->configuration_error. Returns 0 or a negative errno. */
int configuration_load(struct context *context, struct config **ret);
