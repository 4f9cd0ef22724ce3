/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The command line of slowdisk. */
#include <stdbool.h>

#include "slowdisk-model.h"

struct options {
	struct model_config model;
	unsigned depth;
	bool start_off;
	bool die_with_parent;
	const char *mountpoint;
};

#define OPTIONS_HELP 1

/*
 * Returns 0, OPTIONS_HELP when help was asked for and given, or -EINVAL with the usage on stderr.
 * The strings in ret are those of argv.
 */
int options_parse(int argc, char **argv, struct options *ret);
