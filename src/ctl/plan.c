/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "verbs.h"
#include "options.h"
int verb_plan(int argc, char **argv)
{
	struct options o;
	return options_parse(&o, VERB_PLAN, argc, argv);
}
