/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "acceptance.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/guard/path-intake.h"
#include "engine/guard/roots.h"
#include "support.h"

/* Also where memory is out, which check would want for each of its own. */
#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			abort();                                                                   \
	} while (0)

void acceptance_make(struct acceptance *a)
{
	scratch_make(a->dir, sizeof(a->dir));
	tree_make(a->dir, "up/ up/keep/ up/keep/f up/other/ link>up/keep");
	(void)snprintf(a->link, sizeof(a->link), "%s/link", a->dir);
	(void)snprintf(a->kept, sizeof(a->kept), "%s/up/keep", a->dir);
	(void)snprintf(a->inside, sizeof(a->inside), "%s/up/keep/f", a->dir);
	(void)snprintf(a->beside, sizeof(a->beside), "%s/up/other", a->dir);
}

void acceptance_remove(struct acceptance *a)
{
	scratch_remove(a->dir);
}

static int protect_make(const struct acceptance *a, struct protect **ret)
{
	const char *const extra[] = { a->link, NULL };
	char *culprit = NULL;
	int r = protect_new(ret, extra, &culprit);

	free(culprit);
	return r;
}

int acceptance_path(const struct acceptance *a, const char *path)
{
	struct protect *p = NULL;
	const char *why = NULL;
	struct target t;
	int r = protect_make(a, &p);

	if (r < 0)
		return r;
	r = intake(p, path, &t, &why);
	must(r == 0 || why);
	must(r < 0 || path == a->beside);
	if (r >= 0)
		target_done(&t);
	protect_free(p);
	return r;
}

static void on_refused(const char *path, const char *why, int error, void *userdata)
{
	(void)userdata;
	must(path && why && error < 0);
}

/* Of what was accepted, only `other` may be named. */
static void look_at(const struct root_group *g)
{
	for (size_t i = 0; g->accepted && i < g->names.n; i++)
		must(strcmp(dirlist_name(&g->names, &g->names.v[i]), "other") == 0);
}

int acceptance_list(const struct acceptance *a)
{
	struct protect *p = NULL;
	struct roots roots = { 0 };
	const char *why = NULL;
	char list[512], *bad = NULL;
	int n = snprintf(list, sizeof(list), "%s\n%s\n%s\n%s/none/x\n", a->inside, a->kept,
			 a->beside, a->dir);
	int r = protect_make(a, &p);

	if (r >= 0)
		r = roots_add_list(&roots, list, (size_t)n, '\n', &bad, &why);
	if (r >= 0)
		r = roots_add(&roots, a->kept, true, &why);
	if (r >= 0)
		r = roots_add(&roots, a->inside, true, &why);
	if (r >= 0)
		r = roots_resolve(&roots, p, on_refused, NULL);
	must(r < 0 || r >= 3); /* so many paths are refused */
	for (size_t i = 0; r >= 0 && i < roots.n; i++)
		look_at(roots.v[i]);
	free(bad);
	roots_done(&roots);
	protect_free(p);
	return r < 0 ? r : 0;
}
