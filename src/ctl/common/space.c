/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "space.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

static int share_parse(const char *s, double *ret)
{
	char *end;
	double v;

	/* No sign, blank, hexadecimal number or "inf", all of which strtod() would take. */
	if (!isdigit((unsigned char)s[0]) || strspn(s, "0123456789.") != strlen(s) - 1)
		return -EINVAL;
	v = strtod(s, &end);
	if (strcmp(end, "%") != 0)
		return -EINVAL;
	if (v > 100)
		return -ERANGE;
	*ret = v / 100;
	return 0;
}

int space_parse(const char *s, struct space_goal *ret)
{
	struct space_goal v = { .is_share = strchr(s, '%') != NULL };
	int r = v.is_share ? share_parse(s, &v.share) : size_parse(s, &v.bytes);

	if (r >= 0)
		*ret = v;
	return r;
}

uint64_t space_bytes(const struct space_goal *s, const struct statvfs *fs)
{
	if (!s->is_share)
		return s->bytes;
	return (uint64_t)(s->share * (double)fs->f_blocks * (double)fs->f_frsize);
}

uint64_t space_free(const struct statvfs *fs)
{
	return (uint64_t)fs->f_bavail * fs->f_frsize;
}
