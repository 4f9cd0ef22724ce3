/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spool-authority.h"

#include <stddef.h>
#include <sys/stat.h>

/* Who may write some directories: root, and besides... */
struct writers {
	bool several;
	uid_t one; /* 0: no other user */
};

static bool is_shared(mode_t mode)
{
	return (mode & (S_IWGRP | S_IWOTH)) != 0;
}

static void writers_add(struct writers *w, const struct spool_step *d)
{
	if (is_shared(d->mode) || (d->uid != 0 && w->one != 0 && d->uid != w->one))
		w->several = true;
	if (d->uid != 0)
		w->one = d->uid;
}

struct spool_authority spool_authority(const struct spool_step *steps, size_t n)
{
	struct spool_authority a = { .rule = RULE_NONE };
	struct writers above = { 0 }, all;

	for (size_t i = 0; i + 1 < n; i++)
		writers_add(&above, &steps[i]);
	all = above;
	writers_add(&all, &steps[n - 1]);
	if (!all.several && all.one == 0)
		a.rule = RULE_ROOT;
	else if (!all.several)
		a = (struct spool_authority){ .rule = RULE_ONE, .uid = all.one };
	else if (!above.several && above.one == 0)
		a.rule = RULE_OWNERS;
	return a;
}

const char *spool_authority_entry(const struct spool_authority *a, uid_t uid, mode_t mode,
				  uid_t *ret_uid)
{
	switch (a->rule) {
	case RULE_ROOT:
		*ret_uid = 0;
		return NULL;
	case RULE_ONE:
		*ret_uid = a->uid;
		return NULL;
	case RULE_NONE:
		return "lies in a spool that is not served";
	case RULE_OWNERS:
		break;
	}
	if (uid == 0)
		return "is root's, in a spool that others may write, where root's authority is "
		       "not used: submit it with reclaimctl";
	if (S_ISDIR(mode) && is_shared(mode))
		return "is a directory that others than its owner may write, who may have moved "
		       "it here: chmod go-w it, or submit it with reclaimctl";
	*ret_uid = uid;
	return NULL;
}
