/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl top is a program of its own: loading what it draws with would make every other verb
 * start a tenth of a millisecond later. It lies beside this one, as in a build tree, or where it is
 * installed. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "ctl/common/options.h"
#include "ctl/output/messages.h"
#include "ctl/common/verbs.h"
#include "base/program.h"

#define PROGRAM "reclaim-top"

int verb_top(const struct options *o, struct client *c)
{
	char path[PATH_MAX];
	int r = program_find(PROGRAM, path, sizeof(path));

	(void)c;
	if (r >= 0)
		(void)execv(path, o->words);
	complain(PROGRAM, "cannot be run: %s", strerror(r < 0 ? -r : errno));
	return EXIT_FAILED;
}
