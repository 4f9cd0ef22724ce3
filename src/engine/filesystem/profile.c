/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile.h"

#include <string.h>
#include <sys/vfs.h>

#include "shrink-unit.h"
#include "base/macros.h"

static const struct fs_family *const families[] = {
	&profile_ext,     &profile_xfs,    &profile_btrfs, &profile_memory, &profile_overlay,
	&profile_moosefs, &profile_cephfs, &profile_nfs,   &profile_fuse,   &profile_remote,
};

static bool is_of(const struct fs_family *f, const struct profile_query *of)
{
	for (const uint32_t *m = f->magics; *m; m++)
		if (*m == of->f_type)
			return !f->claims || f->claims(of);
	return false;
}

static const struct fs_family *family_find(const struct profile_query *of)
{
	for (size_t i = 0; i < ELEMENTSOF(families); i++)
		if (is_of(families[i], of))
			return families[i];
	return &profile_other;
}

void profile_find(const struct profile_query *of, struct fs_profile *ret)
{
	const struct fs_family *f = family_find(of);
	struct fs_profile p = {
		.family = f->name,
		.start = BACKEND_THREADS,
		.lanes = 0,
		.lanes_max = 64,
		.dir_lanes = 1,
		.discards = mount_option(of->options, "discard"),
	};

	f->fill(&p, of->options);
	if (shrink_unit() > SHRINK_UNIT_MOST)
		p.shrink = SHRINK_NEVER;
	*ret = p;
}

bool profile_shrinks(int fd)
{
	struct profile_query of = { 0 };
	struct fs_profile profile;
	struct statfs sfs;

	if (fstatfs(fd, &sfs) < 0)
		return false;
	of.f_type = (uint32_t)sfs.f_type;
	profile_find(&of, &profile);
	return profile.lease_truthful && profile.shrink != SHRINK_NEVER;
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
