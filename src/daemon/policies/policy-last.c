/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "policy-last.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"

static void lines_split(struct policy_last *l)
{
	size_t n = 0;

	for (char *at = l->r.why, *end; *at && n < POLICY_WHY_MOST; at = end) {
		end = at + strcspn(at, "\n");
		if (*end)
			*end++ = '\0';
		l->why[n++] = at;
	}
	l->why[n] = NULL;
}

void policy_last_update(struct policy_last *l, const char *state_dir, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	struct stat st;

	if (strcmp(l->name, name) != 0)
		*l = (struct policy_last){ 0 };
	(void)snprintf(l->name, sizeof(l->name), "%s", name);
	if (snprintf(path, sizeof(path), RESULT_FILE, state_dir, name) >= (int)sizeof(path) ||
	    stat(path, &st) < 0) {
		l->r = (struct policy_result){ 0 };
		l->why[0] = NULL;
		return;
	}
	/* It is replaced as a whole. */
	if (l->changed.tv_sec == st.st_mtim.tv_sec && l->changed.tv_nsec == st.st_mtim.tv_nsec)
		return;
	l->changed = st.st_mtim;
	if (fd_read_file(path, RESULT_TEXT_MOST, &text) < 0 || result_parse(text, &l->r) < 0)
		l->r = (struct policy_result){ 0 };
	lines_split(l);
}
