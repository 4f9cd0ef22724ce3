/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl top is a program of its own: loading what it draws with would make every other verb
 * start a tenth of a millisecond later. It lies beside this one, as in a build tree, or where it is
 * installed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/common/options.h"
#include "ctl/output/messages.h"
#include "ctl/common/verbs.h"

#define PROGRAM "reclaim-top"

/* The program beside this one. Returns 0 or a negative errno. */
static int beside(char *buf, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", buf, size - sizeof(PROGRAM));
	char *slash;

	if (n < 0)
		return -errno;
	buf[n] = '\0';
	slash = strrchr(buf, '/');
	if (!slash)
		return -ENOENT;
	memcpy(slash + 1, PROGRAM, sizeof(PROGRAM));
	return 0;
}

int verb_top(int argc, char **argv)
{
	struct options o;
	char path[4096];
	int r = options_parse(&o, VERB_TOP, argc, argv);

	if (r)
		return r;
	if (beside(path, sizeof(path)) == 0)
		(void)execv(path, argv);
	(void)execv(RECLAIM_LIBEXECDIR "/" PROGRAM, argv);
	complain(RECLAIM_LIBEXECDIR "/" PROGRAM, "cannot be run: %s", strerror(errno));
	return EXIT_FAILED;
}
