/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "account.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/macros.h"

struct range {
	uint32_t first, n;
	uid_t account;
};

/* The ranges as the file had them when it was of that time and size. Of the loop's thread. */
struct ranges {
	struct range *v;
	size_t n;
	struct timespec changed;
	off_t size;
	ino_t ino;
};

/* Not getpwnam(3): it may ask a server, and take as long as that likes. */
static uid_t owner_of(const char *name, const char *passwd, uid_t otherwise)
{
	FILE *f = fopen(passwd, "re");
	struct passwd *p;
	uid_t found = otherwise;

	while (f && (p = fgetpwent(f)))
		if (strcmp(p->pw_name, name) == 0) {
			found = p->pw_uid != 0 ? p->pw_uid : otherwise;
			break;
		}
	if (f)
		(void)fclose(f);
	return found;
}

/* "NAME-OR-ID:FIRST:COUNT". */
static bool range_parse(const char *line, const char *passwd, struct range *ret)
{
	uint32_t first, n, id;
	char name[257], end;

	if (sscanf(line, "%256[^:]:%" SCNu32 ":%" SCNu32, name, &first, &n) != 3 || n == 0 ||
	    first == 0)
		return false;
	*ret = (struct range){ first, n, first };
	if (sscanf(name, "%" SCNu32 "%c", &id, &end) == 1)
		ret->account = id != 0 ? id : first;
	else
		ret->account = owner_of(name, passwd, first);
	return true;
}

static void ranges_read(struct ranges *r, const char *subuid, const char *passwd)
{
	FILE *f = fopen(subuid, "re");
	char line[512];

	r->n = 0;
	while (f && fgets(line, sizeof(line), f)) {
		struct range one, *v;

		if (!range_parse(line, passwd, &one))
			continue;
		v = reallocarray(r->v, r->n + 1, sizeof(*v));
		if (!v)
			break;
		r->v = v;
		v[r->n++] = one;
	}
	if (f)
		(void)fclose(f);
}

static uid_t ranges_find(const struct ranges *r, uid_t uid)
{
	for (size_t i = 0; i < r->n; i++)
		if (uid >= r->v[i].first && uid - r->v[i].first < r->v[i].n)
			return r->v[i].account;
	return uid;
}

uid_t account_find(uid_t uid, const char *subuid, const char *passwd)
{
	struct ranges r = { 0 };
	uid_t account;

	ranges_read(&r, subuid, passwd);
	account = uid == 0 ? 0 : ranges_find(&r, uid);
	free(r.v);
	return account;
}

uid_t account_of(uid_t uid)
{
	static const char subuid[] = "/etc/subuid", passwd[] = "/etc/passwd";
	static struct ranges known;
	struct stat st;

	if (uid == 0)
		return 0;
	if (stat(subuid, &st) < 0)
		return uid;
	if (st.st_mtim.tv_sec != known.changed.tv_sec ||
	    st.st_mtim.tv_nsec != known.changed.tv_nsec || st.st_size != known.size ||
	    st.st_ino != known.ino) {
		ranges_read(&known, subuid, passwd);
		known.changed = st.st_mtim;
		known.size = st.st_size;
		known.ino = st.st_ino;
	}
	return ranges_find(&known, uid);
}
