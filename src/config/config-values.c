/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config-values.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "util/macros.h"
#include "util/units.h"

static int in_range(struct value_range range, uint64_t v)
{
	return (range.least == 0 && range.most == 0) || (v >= range.least && v <= range.most)
		       ? 0
		       : -ERANGE;
}

/* "8MiB/s", or a size alone. */
static int rate_read(struct value_range range, const char *text, uint64_t *ret)
{
	size_t len = strlen(text);
	char size[64];
	int r;

	if (strcmp(text, "unlimited") == 0 && range.most == UINT64_MAX) {
		*ret = UINT64_MAX;
		return 0;
	}
	if (len > 2 && strcmp(text + len - 2, "/s") == 0)
		len -= 2;
	if (len >= sizeof(size))
		return -EINVAL;
	memcpy(size, text, len);
	size[len] = '\0';
	r = size_parse(size, ret);
	return r < 0 ? r : in_range(range, *ret);
}

static int count_read(struct value_range range, const char *text, uint64_t *ret)
{
	if (text[0] == '\0' || text[strspn(text, "0123456789")] != '\0')
		return text[0] == '-' ? -ERANGE : -EINVAL;
	errno = 0;
	*ret = strtoull(text, NULL, 10);
	return errno != 0 ? -ERANGE : in_range(range, *ret);
}

static int latency_read(struct value_range range, const char *text, struct config_pacing *ret)
{
	int r = 0;

	if (strcmp(text, "auto") == 0) {
		ret->latency = LATENCY_AUTO;
		ret->latency_usec = 0;
	} else if (strcmp(text, "off") == 0) {
		ret->latency = LATENCY_OFF;
		ret->latency_usec = 0;
	} else {
		r = timespan_parse(text, &ret->latency_usec);
		if (r >= 0)
			r = in_range(range, ret->latency_usec);
		ret->latency = LATENCY_BOUND;
	}
	return r;
}

/* "5%" or "12.5 %". */
static int share_read(const char *text, double *ret)
{
	size_t digits = strspn(text, "0123456789."), blanks = strspn(text + digits, " ");

	if (!isdigit((unsigned char)text[0]) || strcmp(text + digits + blanks, "%") != 0)
		return text[0] == '-' ? -ERANGE : -EINVAL;
	if (memchr(text, '.', digits) != memrchr(text, '.', digits))
		return -EINVAL;
	*ret = strtod(text, NULL) / 100;
	return *ret > 1 ? -ERANGE : 0;
}

static int space_read(const char *text, struct config_space *ret)
{
	ret->is_share = strchr(text, '%') != NULL;
	return ret->is_share ? share_read(text, &ret->share) : size_parse(text, &ret->bytes);
}

static int staging_read(const char *text, bool *ret)
{
	*ret = strcmp(text, "auto") == 0;
	return *ret || strcmp(text, "off") == 0 ? 0 : -EINVAL;
}

int value_read(enum value_type type, struct value_range range, const char *text, void *target)
{
	union {
		struct config_pacing pacing; /* first, as the largest: all of it is set to zero */
		struct config_space space;
		uint64_t n;
		bool flag;
	} v = { 0 };
	int r = -EINVAL;

	switch (type) {
	case VALUE_TIME:
		r = timespan_parse(text, &v.n);
		if (r >= 0)
			r = in_range(range, v.n);
		if (r >= 0)
			*(uint64_t *)target = v.n;
		break;
	case VALUE_RATE:
		r = rate_read(range, text, &v.n);
		if (r >= 0)
			*(uint64_t *)target = v.n;
		break;
	case VALUE_COUNT:
		r = count_read(range, text, &v.n);
		if (r >= 0)
			*(uint64_t *)target = v.n;
		break;
	case VALUE_LATENCY:
		v.pacing = *(struct config_pacing *)target;
		r = latency_read(range, text, &v.pacing);
		if (r >= 0)
			*(struct config_pacing *)target = v.pacing;
		break;
	case VALUE_SPACE:
		r = space_read(text, &v.space);
		if (r >= 0)
			*(struct config_space *)target = v.space;
		break;
	case VALUE_STAGING:
		r = staging_read(text, &v.flag);
		if (r >= 0)
			*(bool *)target = v.flag;
		break;
	}
	return r;
}

const char *path_tidy(char *path)
{
	char *out = path;

	if (path[0] != '/')
		return "an absolute path, such as /backups/.trash";
	if (strlen(path) >= PATH_MAX)
		return "a path of at most 4095 bytes";
	for (const char *p = path; *p;) {
		size_t len;

		p += strspn(p, "/");
		len = strcspn(p, "/");
		if ((len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
			return "a path without . and ..";
		if (len > NAME_MAX)
			return "a path with names of at most 255 bytes";
		if (len == 0)
			break;
		*out++ = '/';
		memmove(out, p, len);
		out += len;
		p += len;
	}
	if (out == path)
		*out++ = '/';
	*out = '\0';
	return NULL;
}

const char *device_tidy(char *name)
{
	size_t major = strspn(name, "0123456789");

	if (name[0] == '/')
		return path_tidy(name);
	if (major > 0 && name[major] == ':' && name[major + 1] != '\0' &&
	    name[major + 1 + strspn(name + major + 1, "0123456789")] == '\0')
		return NULL;
	return "a mount point, a block device such as /dev/sda, or a device number such as 8:0";
}
