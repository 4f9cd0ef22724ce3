/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config-values.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "policy/name-time.h"
#include "policy/series.h"
#include "policy/name-time.h"
#include "policy/series.h"
#include "base/macros.h"
#include "base/units.h"

/* Each of these reads into *target, which is the caller's own copy, and may leave anything there
 * when it fails, but frees what it replaces only when it does not. */

static int in_range(struct value_range range, uint64_t v)
{
	return (range.least == 0 && range.most == 0) || (v >= range.least && v <= range.most)
		       ? 0
		       : -ERANGE;
}

static int time_read(struct value_range range, const char *text, void *target)
{
	int r = timespan_parse(text, target);

	return r < 0 ? r : in_range(range, *(uint64_t *)target);
}

static int size_read(struct value_range range, const char *text, void *target)
{
	int r = size_parse(text, target);

	return r < 0 ? r : in_range(range, *(uint64_t *)target);
}

/* "8MiB/s", or a size alone. */
static int rate_read(struct value_range range, const char *text, void *target)
{
	size_t len = strlen(text);
	char size[64];

	if (strcmp(text, "unlimited") == 0 && range.most == UINT64_MAX) {
		*(uint64_t *)target = UINT64_MAX;
		return 0;
	}
	if (len > 2 && strcmp(text + len - 2, "/s") == 0)
		len -= 2;
	if (len >= sizeof(size))
		return -EINVAL;
	memcpy(size, text, len);
	size[len] = '\0';
	return size_read(range, size, target);
}

static int count_read(struct value_range range, const char *text, void *target)
{
	if (text[0] == '\0' || text[strspn(text, "0123456789")] != '\0')
		return text[0] == '-' ? -ERANGE : -EINVAL;
	errno = 0;
	*(uint64_t *)target = strtoull(text, NULL, 10);
	return errno != 0 ? -ERANGE : in_range(range, *(uint64_t *)target);
}

static int latency_read(struct value_range range, const char *text, void *target)
{
	struct config_pacing *ret = target;

	ret->latency_usec = 0;
	if (strcmp(text, "auto") == 0) {
		ret->latency = LATENCY_AUTO;
		return 0;
	}
	if (strcmp(text, "off") == 0) {
		ret->latency = LATENCY_OFF;
		return 0;
	}
	ret->latency = LATENCY_BOUND;
	return time_read(range, text, &ret->latency_usec);
}

/* "5%" or "12.5 %". */
static int share_read(struct value_range range, const char *text, void *target)
{
	size_t digits = strspn(text, "0123456789."), blanks = strspn(text + digits, " ");
	double *ret = target;

	(void)range;
	if (!isdigit((unsigned char)text[0]) || strcmp(text + digits + blanks, "%") != 0)
		return text[0] == '-' ? -ERANGE : -EINVAL;
	if (memchr(text, '.', digits) != memrchr(text, '.', digits))
		return -EINVAL;
	*ret = strtod(text, NULL) / 100;
	return *ret > 1 ? -ERANGE : 0;
}

static int space_read(struct value_range range, const char *text, void *target)
{
	struct policy_space *ret = target;

	*ret = (struct policy_space){ .is_share = strchr(text, '%') != NULL };
	return ret->is_share ? share_read(range, text, &ret->share)
			     : size_read(range, text, &ret->bytes);
}

/* Is there a unit behind each number? "30d" and "1h 30min" say what is meant; "30" alone is a slip
 * wherever somebody's files depend on it. */
static bool has_units(const char *text)
{
	for (const char *s = text; *(s += strcspn(s, "0123456789")); s++) {
		s += strspn(s, "0123456789.");
		s += strspn(s, " ");
		if (!isalpha((unsigned char)*s) && *s != '%')
			return false;
	}
	return true;
}

static int age_read(struct value_range range, const char *text, void *target)
{
	return has_units(text) ? time_read(range, text, target) : -EINVAL;
}

static int volume_read(struct value_range range, const char *text, void *target)
{
	return has_units(text) ? size_read(range, text, target) : -EINVAL;
}

static int floor_read(struct value_range range, const char *text, void *target)
{
	struct policy_space *ret = target;
	int r = has_units(text) ? space_read(range, text, target) : -EINVAL;

	/* Nothing at all would be no floor. */
	return r >= 0 && ret->bytes == 0 && !(ret->share > 0) ? -ERANGE : r;
}

/* One of two words; *ret is which. */
static int either_read(const char *zero, const char *one, const char *text, bool *ret)
{
	*ret = strcmp(text, one) == 0;
	return *ret || strcmp(text, zero) == 0 ? 0 : -EINVAL;
}

static int staging_read(struct value_range range, const char *text, void *target)
{
	(void)range;
	return either_read("off", "auto", text, target);
}

static int moosefs_read(struct value_range range, const char *text, void *target)
{
	(void)range;
	return either_read("unlink", "snapshot", text, target);
}

static int switch_read(struct value_range range, const char *text, void *target)
{
	(void)range;
	return either_read("false", "true", text, target);
}

static int kind_read(struct value_range range, const char *text, void *target)
{
	bool trees;
	int r = either_read("file", "tree", text, &trees);

	(void)range;
	*(enum policy_kind *)target = trees ? POLICY_TREES : POLICY_FILES;
	return r;
}

static int order_read(struct value_range range, const char *text, void *target)
{
	bool largest;
	int r = either_read("oldest", "largest", text, &largest);

	(void)range;
	*(enum policy_order *)target = largest ? ORDER_LARGEST : ORDER_OLDEST;
	return r;
}

static int replace(char **target, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return -ENOMEM;
	free(*target);
	*target = copy;
	return 0;
}

static int clock_read(struct value_range range, const char *text, void *target)
{
	struct policy_time *ret = target;
	const char *format = strncmp(text, "name:", 5) == 0 ? text + 5 : NULL;
	bool birth = false;
	int r = 0;

	(void)range;
	if (!format)
		r = either_read("mtime", "birth", text, &birth);
	else if (!name_time_check(format))
		r = -EINVAL;
	if (r >= 0)
		r = replace(&ret->format, format);
	if (r >= 0)
		ret->clock = format ? CLOCK_NAME : birth ? CLOCK_BIRTH : CLOCK_MTIME;
	return r;
}

static int base_read(struct value_range range, const char *text, void *target)
{
	_cleanup_free_ char *path = strdup(text);

	(void)range;
	if (!path)
		return -ENOMEM;
	return path_tidy(path) || strcmp(path, "/") == 0 ? -EINVAL : replace(target, path);
}

static int regex_read(struct value_range range, const char *text, void *target)
{
	(void)range;
	return series_check(text) ? -EINVAL : replace(target, text);
}

/* With a backslash it might go on in the next line. */
static int line_read(struct value_range range, const char *text, void *target)
{
	(void)range;
	for (const char *s = text; *s; s++)
		if (!isprint((unsigned char)*s) || *s == '\\')
			return -EINVAL;
	return text[0] ? replace(target, text) : -EINVAL;
}

static const struct {
	int (*read)(struct value_range range, const char *text, void *target);
	size_t size;
} types[] = {
	[VALUE_TIME] = { time_read, sizeof(uint64_t) },
	[VALUE_RATE] = { rate_read, sizeof(uint64_t) },
	[VALUE_COUNT] = { count_read, sizeof(uint64_t) },
	[VALUE_LATENCY] = { latency_read, sizeof(struct config_pacing) },
	[VALUE_SPACE] = { space_read, sizeof(struct policy_space) },
	[VALUE_STAGING] = { staging_read, sizeof(bool) },
	[VALUE_MOOSEFS] = { moosefs_read, sizeof(bool) },
	[VALUE_AGE] = { age_read, sizeof(uint64_t) },
	[VALUE_SIZE] = { volume_read, sizeof(uint64_t) },
	[VALUE_FLOOR] = { floor_read, sizeof(struct policy_space) },
	[VALUE_SHARE] = { share_read, sizeof(double) },
	[VALUE_SWITCH] = { switch_read, sizeof(bool) },
	[VALUE_KIND] = { kind_read, sizeof(enum policy_kind) },
	[VALUE_ORDER] = { order_read, sizeof(enum policy_order) },
	[VALUE_CLOCK] = { clock_read, sizeof(struct policy_time) },
	[VALUE_BASE] = { base_read, sizeof(char *) },
	[VALUE_REGEX] = { regex_read, sizeof(char *) },
	[VALUE_LINE] = { line_read, sizeof(char *) },
};

int value_read(enum value_type type, struct value_range range, const char *text, void *target)
{
	union {
		struct config_pacing pacing;
		struct policy_space space;
		struct policy_time time;
		char *text;
		uint64_t n;
		double share;
		bool flag;
	} copy;
	int r;

	memcpy(&copy, target, types[type].size);
	r = types[type].read(range, text, &copy);
	if (r >= 0)
		memcpy(target, &copy, types[type].size);
	return r < 0 ? r : 0;
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
