/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "owners.h"

#include <errno.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Returns false if there is no such user. What has digits alone is a number, as for systemd. */
static bool user_find(const char *name, uid_t *ret)
{
	const struct passwd *p;
	unsigned long uid;
	char *end;

	if (name[0] != '\0' && name[strspn(name, "0123456789")] == '\0') {
		errno = 0;
		uid = strtoul(name, &end, 10);
		*ret = (uid_t)uid;
		return errno == 0 && uid < UINT32_MAX;
	}
	p = getpwnam(name);
	if (p)
		*ret = p->pw_uid;
	return p != NULL;
}

int owners_find(struct owners *ret, char *const *names, const char **ret_unknown)
{
	struct owners o = { 0 };
	int r = 0;

	for (char *const *name = names; name && *name && r >= 0; name++) {
		uid_t *uid, found = 0;

		if (!user_find(*name, &found)) {
			*ret_unknown = *name;
			r = -ESRCH;
			break;
		}
		uid = array_add(&o.v, &o.n, sizeof(*uid));
		if (uid)
			*uid = found;
		else
			r = -ENOMEM;
	}
	if (r < 0)
		owners_done(&o);
	else
		*ret = o;
	return r;
}

bool owners_have(const struct owners *o, uid_t uid)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->v[i] == uid)
			return true;
	return false;
}

void owners_done(struct owners *o)
{
	free(o->v);
	*o = (struct owners){ 0 };
}
