/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "survey-largest.h"

#include <string.h>

#include "base/macros.h"

bool top_wants(const struct top *t, uint64_t amount)
{
	return amount > 0 && (t->n < TOP_MOST || amount > t->v[TOP_MOST - 1].amount);
}

static size_t find(const struct top *t, uint64_t dev, uint64_t ino)
{
	size_t i = 0;

	while (i < t->n && (t->v[i].dev != dev || t->v[i].ino != ino))
		i++;
	return i;
}

void top_put(struct top *t, const struct top_entry *e)
{
	size_t i = find(t, e->dev, e->ino);
	struct top_entry own = *e;

	if (i == t->n) {
		if (!top_wants(t, e->amount))
			return;
		own.path = strdup(e->path);
		if (!own.path)
			return;
		if (t->n == TOP_MOST)
			free(t->v[--t->n].path);
		i = t->n++;
	} else {
		own.path = t->v[i].path;
		own.amount = MAX(own.amount, t->v[i].amount);
	}
	for (; i > 0 && t->v[i - 1].amount < own.amount; i--)
		t->v[i] = t->v[i - 1];
	t->v[i] = own;
}

void top_done(struct top *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].path);
	*t = (struct top){ 0 };
}
