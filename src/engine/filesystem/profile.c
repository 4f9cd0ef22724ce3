/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile.h"

#include <string.h>

#include "shrink-unit.h"
#include "base/macros.h"

static const struct ways_family *const families[] = {
	&ways_ext,     &ways_xfs,    &ways_btrfs, &ways_memory, &ways_overlay,
	&ways_moosefs, &ways_cephfs, &ways_nfs,   &ways_fuse,   &ways_remote,
};

static bool is_of(const struct ways_family *f, const struct ways_of *of)
{
	for (const uint32_t *m = f->magics; *m; m++)
		if (*m == of->f_type)
			return !f->claims || f->claims(of);
	return false;
}

static const struct ways_family *family_find(const struct ways_of *of)
{
	for (size_t i = 0; i < ELEMENTSOF(families); i++)
		if (is_of(families[i], of))
			return families[i];
	return &ways_other;
}

void ways_find(const struct ways_of *of, struct ways *ret)
{
	const struct ways_family *f = family_find(of);
	struct ways w = {
		.family = f->name,
		.start = BACKEND_THREADS,
		.lanes = 0,
		.lanes_max = 64,
		.dir_lanes = 1,
		.discards = mount_option(of->options, "discard"),
	};

	f->fill(&w, of->options);
	if (shrink_unit() > SHRINK_UNIT_MOST)
		w.shrink = SHRINK_NEVER;
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
