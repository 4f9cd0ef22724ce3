/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config-rules.h"

#include <string.h>

#include "policy/overlap.h"
#include "base/units.h"

/* The value of a key beneath a map; NULL if either is missing. */
static const struct node *beneath(const struct node *map, const char *key)
{
	return map && map->kind == NODE_MAP ? node_get(map, key, NULL) : NULL;
}

static void check_rates(const struct config_pacing *pacing, const struct node *map,
			const struct crumb *in, struct problems *p)
{
	const struct node *least = beneath(map, "min-rate"), *most = beneath(map, "max-rate");
	char a[16], b[16];

	/* A device that says neither has what all have, and that is told once. */
	if ((!least && !most) || pacing->rate_min <= pacing->rate_max)
		return;
	problems_add(p, (most ? most : least)->place, in,
		     "found a max-rate of %s/s, expected one that is not under the min-rate of "
		     "%s/s",
		     size_format(a, sizeof(a), pacing->rate_max),
		     size_format(b, sizeof(b), pacing->rate_min));
}

static void check_pacing(const struct config *c, const struct node *root, struct problems *p)
{
	const struct node *pacing = beneath(root, "pacing"), *devices = beneath(pacing, "devices");
	struct crumb in = { .key = "pacing" }, in_devices = { .up = &in, .key = "devices" };

	check_rates(&c->pacing, pacing, &in, p);
	for (size_t i = 0; i < c->n_devices; i++) {
		struct crumb at = { .up = &in_devices, .key = c->devices[i].name };

		check_rates(&c->devices[i].pacing, beneath(devices, c->devices[i].name), &at, p);
	}
}

static void check_urgent(const struct config *c, const struct node *root, struct problems *p)
{
	struct crumb in = { .key = "urgent" };

	rules_check_band(&c->urgent_below, &c->urgent_until, beneath(root, "urgent"), &in, p);
}

void rules_check_band(const struct policy_space *below, const struct policy_space *until,
		      const struct node *map, const struct crumb *in, struct problems *p)
{
	const struct node *b = beneath(map, "below"), *u = beneath(map, "until"), *n = u ? u : b;

	if (!n)
		return;
	if (below->is_share != until->is_share)
		problems_add(p, n->place, in,
			     "found a share and a size, expected below and until to be both shares "
			     "or both sizes%s",
			     b && u ? "" : " (the defaults are 5% and 10%)");
	else if (below->is_share ? below->share > until->share : below->bytes > until->bytes)
		problems_add(p, n->place, in,
			     "found an until that is less than below, expected "
			     "it to be the same or more");
}

/* The outer one would take the inner one for an entry, and delete it. */
static void check_spools(const struct config *c, struct problems *p)
{
	struct crumb in = { .key = "spools" };

	for (size_t i = 0; i < c->n_spools; i++) {
		const struct config_spool *a = &c->spools[i];
		struct crumb at = { .up = &in, .key = a->path };

		if (strcmp(a->path, "/") == 0)
			problems_add(p, a->place, &at,
				     "is the root directory, expected one that is only for what "
				     "is to be deleted");
		for (size_t j = 0; j < c->n_spools; j++)
			if (i != j && path_lies_in(a->path, c->spools[j].path))
				problems_add(p, a->place, &at,
					     "lies in the spool %s, expected spools outside of "
					     "each other",
					     c->spools[j].path);
		for (char **k = c->protect; *k; k++)
			if (strcmp(a->path, *k) == 0)
				problems_add(p, a->place, &at,
					     "is protected too, expected one or the other");
	}
}

void rules_check(const struct config *c, const struct node *root, struct problems *p)
{
	check_pacing(c, root, p);
	check_urgent(c, root, p);
	check_spools(c, p);
}
