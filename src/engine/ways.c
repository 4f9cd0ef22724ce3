/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ways.h"

#include <string.h>

#include "util/macros.h"

static const struct ways_family *const families[] = {
	&ways_ext, &ways_xfs, &ways_btrfs, &ways_memory, &ways_overlay, &ways_remote,
};

static const struct ways_family *family_find(uint32_t f_type)
{
	for (size_t i = 0; i < ELEMENTSOF(families); i++)
		for (const uint32_t *m = families[i]->magics; *m; m++)
			if (*m == f_type)
				return families[i];
	return &ways_other;
}

void ways_find(uint32_t f_type, const char *mount_options, struct ways *ret)
{
	const struct ways_family *f = family_find(f_type);
	struct ways w = {
		.family = f->name,
		.start = BACKEND_THREADS,
		.lanes = 0,
		.lanes_max = 64,
		.dir_lanes = 1,
		.discards = mount_option(mount_options, "discard"),
	};

	f->fill(&w, mount_options);
	*ret = w;
}

bool mount_option(const char *options, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = options; p && *p;) {
		size_t n = strcspn(p, ",");

		if ((n == len || (n > len && p[len] == '=')) && strncmp(p, word, len) == 0)
			return true;
		p += n;
		p += *p == ',';
	}
	return false;
}
