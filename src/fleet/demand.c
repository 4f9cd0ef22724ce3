/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "demand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

int demand_set(struct demand *d, size_t filesystem, const char *host, uint64_t units)
{
	struct demand_entry *e = NULL;

	for (size_t i = 0; i < d->n && !e; i++)
		if (d->v[i].filesystem == filesystem && strcmp(d->v[i].host, host) == 0)
			e = &d->v[i];
	if (!e && units == 0)
		return 0;
	if (!e && d->n >= DEMAND_HOSTS)
		return -E2BIG;
	if (!e) {
		e = array_add(&d->v, &d->n, sizeof(*e));
		if (!e)
			return -ENOMEM;
		e->filesystem = filesystem;
		fleet_name_copy(e->host, host);
	}
	e->units = units;
	/* The last one takes the place of what is none any more. */
	if (units == 0)
		*e = d->v[--d->n];
	return 0;
}

uint64_t demand_sum(const struct demand *d, size_t filesystem)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].filesystem == filesystem)
			sum += d->v[i].units;
	return sum;
}

void demand_done(struct demand *d)
{
	free(d->v);
	*d = (struct demand){ 0 };
}
