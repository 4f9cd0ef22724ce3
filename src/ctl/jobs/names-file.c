/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "names-file.h"

#include <stdio.h>
#include <string.h>

#include "base/sealed-file.h"

static void names_write(FILE *f, const void *what)
{
	const struct dirlist *l = what;

	for (size_t i = 0; i < l->n; i++) {
		const char *name = dirlist_name(l, &l->v[i]);

		(void)fwrite(name, 1, strlen(name) + 1, f);
	}
}

int names_file(const struct dirlist *l)
{
	return sealed_file(names_write, l);
}
