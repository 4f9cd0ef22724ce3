/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "overlap.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "globs.h"
#include "base/macros.h"
#include "base/mounts.h"

/* ---- patterns ---------------------------------------------------------------------------------
 */

static unsigned deepest(const struct policy *p)
{
	unsigned depth = 0;

	for (char **g = p->match; g && *g; g++)
		depth = MAX(depth, glob_depth(*g));
	return depth;
}

/* The length of what stands behind the last place in a pattern where anything may be. */
static size_t tail_length(const char *pattern)
{
	size_t len = strlen(pattern), n = 0;

	while (n < len && !strchr("*?]\\/", pattern[len - 1 - n]))
		n++;
	return n;
}

static size_t head_length(const char *pattern)
{
	return strcspn(pattern, "*?[\\/");
}

/* Could both patterns match one name, by how they begin and end? Trees may be in each other, and
 * then only the beginnings are the same. */
static bool may_meet(const char *a, const char *b, bool trees)
{
	size_t head = MIN(head_length(a), head_length(b));
	size_t tail = trees ? 0 : MIN(tail_length(a), tail_length(b));

	return strncmp(a, b, head) == 0 && strcmp(a + strlen(a) - tail, b + strlen(b) - tail) == 0;
}

static bool any_meet(const struct policy *a, const struct policy *b)
{
	bool trees = a->kind == POLICY_TREES || b->kind == POLICY_TREES;

	if (a->match_ignores_case || b->match_ignores_case)
		return a->match && b->match;
	for (char **x = a->match; x && *x; x++)
		for (char **y = b->match; y && *y; y++)
			if (may_meet(*x, *y, trees))
				return true;
	return false;
}

/* Does `outer` reach, from one of its directories, what `inner` is about in one of its own? */
static bool reaches(const struct policy *outer, const char *from, const struct policy *inner,
		    const char *to)
{
	unsigned down = 1;

	if (strcmp(from, to) == 0)
		return any_meet(outer, inner);
	if (!path_beneath(to, from))
		return false;
	for (const char *s = to + strlen(from) + 1; *s; s++)
		down += *s == '/';
	return outer->kind == POLICY_TREES || deepest(outer) > down;
}

/* Could one thing be an entry of both, or in a tree that is? */
static bool kinds_meet(const struct policy *a, const struct policy *b)
{
	return a->kind == b->kind || a->kind == POLICY_TREES || b->kind == POLICY_TREES;
}

/* Could one file be of a size for both? A tree has files of any size in it. */
static bool sizes_meet(const struct policy *a, const struct policy *b)
{
	if (a->kind == POLICY_TREES || b->kind == POLICY_TREES)
		return true;
	return (a->size_below_bytes == 0 || a->size_below_bytes > b->size_least_bytes) &&
	       (b->size_below_bytes == 0 || b->size_below_bytes > a->size_least_bytes);
}

bool policies_meet(const struct policy *a, const struct policy *b)
{
	char *one[2], *other[2];

	for (char *const *x = policy_paths(a, one); *x; x++)
		for (char *const *y = policy_paths(b, other); *y; y++)
			if (reaches(a, *x, b, *y) || reaches(b, *y, a, *x))
				return kinds_meet(a, b) && sizes_meet(a, b);
	return false;
}

/* ---- entries ----------------------------------------------------------------------------------
 */

static int rank(unsigned char c)
{
	return c == '\0' ? 0 : c == '/' ? 1 : c + 1;
}

/* Such that what is beneath a name follows it at once. */
static int path_compare(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return rank((unsigned char)*a) - rank((unsigned char)*b);
}

static int by_path(const void *a, const void *b)
{
	return path_compare(*(const char *const *)a, *(const char *const *)b);
}

/* Finds a name, or anything that is beneath it. */
static int by_beginning(const void *key, const void *element)
{
	const char *name = *(const char *const *)key, *kept = *(const char *const *)element;

	return path_beneath(kept, name) ? 0 : path_compare(name, kept);
}

/* Names that are kept, sorted. */
struct kept_names {
	const char **names;
	size_t n;
};

/* Is a name kept, or anything beneath it, or what it is in? It is changed on the way. */
static bool is_held(const struct kept_names *h, char *name)
{
	if (bsearch(&name, h->names, h->n, sizeof(*h->names), by_beginning))
		return true;
	for (char *end = strrchr(name, '/'); end; end = strrchr(name, '/')) {
		*end = '\0';
		if (bsearch(&name, h->names, h->n, sizeof(*h->names), by_path))
			return true;
	}
	return false;
}

/* What an entry with this name is called where the other policy is. Returns false if it is not in
 * there, and then *ret_around says whether the other policy's directory is in it. */
static bool name_there(char *buf, size_t len, const char *inner, const char *outer,
		       const char *name, bool *ret_around)
{
	size_t n = strlen(outer);

	*ret_around = false;
	if (inner[0]) {
		(void)snprintf(buf, len, "%s/%s", inner, name);
		return true;
	}
	if (n > 0) {
		*ret_around = path_beneath(outer, name);
		if (!path_beneath(name, outer) || name[n] == '\0')
			return false;
		name += n + 1;
	}
	(void)snprintf(buf, len, "%s", name);
	return true;
}

/* The way from dir to path, which is or lies in it; "" where it does not. */
static const char *way(const char *path, const char *dir)
{
	const char *s = path_beneath(path, dir) ? path + strlen(dir) : "";

	return s + strspn(s, "/");
}

int overlap_hold(struct policy_entries *l, const char *base, const struct policy_entries *other,
		 const char *other_base)
{
	const char *inner = way(base, other_base), *outer = way(other_base, base);
	char name[2 * PATH_MAX];
	struct kept_names h = { .names = malloc((other->n + 1) * sizeof(*h.names)) };

	if (!h.names)
		return -ENOMEM;
	for (size_t i = 0; i < other->n; i++)
		if (other->v[i].kept_by || other->v[i].disposition == DISPOSITION_UNIT)
			h.names[h.n++] = other->v[i].name;
	qsort(h.names, h.n, sizeof(*h.names), by_path);
	for (size_t i = 0; i < l->n && h.n > 0; i++) {
		struct policy_entry *e = &l->v[i];
		bool around;

		if (e->disposition != DISPOSITION_UNDECIDED &&
		    !disposition_refuses((enum disposition)e->disposition))
			continue;
		if (name_there(name, sizeof(name), inner, outer, e->name, &around)
			    ? is_held(&h, name)
			    : around)
			e->disposition = DISPOSITION_OTHER_KEEPS;
	}
	free(h.names);
	return 0;
}
