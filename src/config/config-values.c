/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config-values.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/zone.h"
#include "policy/name-time.h"
#include "policy/selection.h"
#include "base/macros.h"
#include "base/units.h"

/* systemd takes 255. */
#define UNIT_NAME_MOST 200
#define OWNER_SIZE 256

/* Each of these changes *ret only if it returns 0. */

/* "8MiB/s", or a size alone. */
static int rate_parse(const char *text, uint64_t *ret)
{
	size_t len = strlen(text);
	char size[64];

	if (len > 2 && strcmp(text + len - 2, "/s") == 0)
		len -= 2;
	if (len >= sizeof(size))
		return -EINVAL;
	memcpy(size, text, len);
	size[len] = '\0';
	return size_parse(size, ret);
}

static int count_parse(const char *text, uint64_t *ret)
{
	if (text[0] == '\0' || text[strspn(text, "0123456789")] != '\0')
		return text[0] == '-' ? -ERANGE : -EINVAL;
	errno = 0;
	*ret = strtoull(text, NULL, 10);
	return errno != 0 ? -ERANGE : 0;
}

static int number_read(enum value_type type, struct value_limits l, const char *text, uint64_t *ret)
{
	uint64_t n = 0;
	int r;

	if (type == VALUE_RATE && l.most == UINT64_MAX && strcmp(text, "unlimited") == 0) {
		*ret = UINT64_MAX;
		return 0;
	}
	r = type == VALUE_RATE    ? rate_parse(text, &n)
	    : type == VALUE_COUNT ? count_parse(text, &n)
	    : type == VALUE_SIZE  ? size_parse(text, &n)
				  : timespan_parse(text, &n);
	if (r < 0)
		return r;
	if ((l.least > 0 || l.most > 0) && (n < l.least || n > l.most))
		return -ERANGE;
	*ret = n;
	return 0;
}

static int latency_read(struct value_limits l, const char *text, struct config_pacing *ret)
{
	bool is_auto = strcmp(text, "auto") == 0;
	uint64_t usec = 0;
	int r = 0;

	if (is_auto || strcmp(text, "off") == 0) {
		ret->latency = is_auto ? LATENCY_AUTO : LATENCY_OFF;
	} else {
		r = number_read(VALUE_TIME, l, text, &usec);
		if (r < 0)
			return r;
		ret->latency = LATENCY_BOUND;
	}
	ret->latency_usec = usec;
	return 0;
}

static int space_read(enum value_type type, const char *text, struct policy_space *ret)
{
	struct policy_space s = { .is_share = strchr(text, '%') != NULL };
	int r = s.is_share             ? share_parse(text, &s.share)
		: type == VALUE_INODES ? count_parse(text, &s.bytes)
				       : size_parse(text, &s.bytes);

	if (r < 0)
		return r;
	/* Nothing at all would be no floor. */
	if (type != VALUE_SPACE && !policy_space_is_set(&s))
		return -ERANGE;
	*ret = s;
	return 0;
}

/* Which of at most three words it is, from 0 on, or -EINVAL. */
static int which(const char *const words[static 3], const char *text)
{
	for (int i = 0; i < 3 && words[i]; i++)
		if (strcmp(text, words[i]) == 0)
			return i;
	return -EINVAL;
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

static int clock_read(const char *text, struct policy_time *ret)
{
	const char *format = strncmp(text, "name:", 5) == 0 ? text + 5 : NULL;
	int r, birth = format ? 0 : which((const char *const[3]){ "mtime", "birth" }, text);

	if (birth < 0 || (format && !name_time_check(format)))
		return -EINVAL;
	r = replace(&ret->format, format);
	if (r < 0)
		return r;
	ret->clock = format ? CLOCK_NAME : birth ? CLOCK_BIRTH : CLOCK_AGE;
	ret->ages = ret->clock == CLOCK_AGE ? AGE_MTIME : 0;
	return 0;
}

static int base_read(const char *text, char **ret)
{
	_cleanup_free_ char *path = strdup(text);

	if (!path)
		return -ENOMEM;
	return path_tidy(path) || strcmp(path, "/") == 0 ? -EINVAL : replace(ret, path);
}

/* With a backslash it might go on in the next line. */
static bool is_line(const char *text)
{
	for (const char *s = text; *s; s++)
		if (!isprint((unsigned char)*s) || *s == '\\')
			return false;
	return text[0];
}

/* With room for the number of a job in it. */
static bool is_unit(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789:-_.\\@";
	const char *suffix = strrchr(text, '.'), *at = strchr(text, '@');

	return strlen(text) <= UNIT_NAME_MOST && text[strspn(text, letters)] == '\0' &&
	       !strchr("-.@", text[0]) && suffix &&
	       (!at || (at < suffix && !strchr(at + 1, '@'))) &&
	       (strcmp(suffix, ".service") == 0 || strcmp(suffix, ".target") == 0);
}

int value_read(enum value_type type, struct value_limits l, const char *text, void *target)
{
	bool none = l.words[0] && strcmp(text, l.words[0]) == 0;
	int r;

	if (none && type == VALUE_LINE)
		return replace(target, NULL);
	if (none && (type == VALUE_SIZE || type == VALUE_RATE)) {
		*(uint64_t *)target = 0;
		return 0;
	}
	/* Nothing is nothing in any unit; but not where files would depend on it. */
	if ((type == VALUE_AGE || type == VALUE_SIZE || type == VALUE_FLOOR) &&
	    strcmp(text, "0") == 0)
		return -EINVAL;
	switch (type) {
	case VALUE_TIME:
	case VALUE_RATE:
	case VALUE_COUNT:
	case VALUE_AGE:
	case VALUE_SIZE:
		return number_read(type, l, text, target);
	case VALUE_LATENCY:
		return latency_read(l, text, target);
	case VALUE_SPACE:
	case VALUE_FLOOR:
	case VALUE_INODES:
		return space_read(type, text, target);
	case VALUE_SHARE:
		return share_parse(text, target);
	case VALUE_SWITCH:
	case VALUE_CHOICE:
		assert(l.words[0] && l.words[1]);
		r = which(l.words, text);
		if (r >= 0 && type == VALUE_SWITCH)
			*(bool *)target = r;
		else if (r >= 0)
			*(unsigned *)target = (unsigned)r;
		return r < 0 ? r : 0;
	case VALUE_CLOCK:
		return clock_read(text, target);
	case VALUE_BASE:
		return base_read(text, target);
	case VALUE_REGEX:
		return series_check(text) ? -EINVAL : replace(target, text);
	case VALUE_ZONE:
		return zone_is_known(text) ? replace(target, text) : -EINVAL;
	case VALUE_LINE:
		return is_line(text) ? replace(target, text) : -EINVAL;
	case VALUE_NAME:
		return fleet_name_is_valid(text) ? replace(target, text) : -EINVAL;
	case VALUE_UNIT:
		return is_unit(text) ? replace(target, text) : -EINVAL;
	}
	return -EINVAL;
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

unsigned age_parse(const char *text)
{
	static const char *const words[] = { "mtime", "ctime", "atime", "birth" };
	static const enum age ages[] = { AGE_MTIME, AGE_CTIME, AGE_ATIME, AGE_BIRTH };

	for (size_t i = 0; i < ELEMENTSOF(words); i++)
		if (strcmp(text, words[i]) == 0)
			return ages[i];
	return 0;
}

const char *owner_check(const char *owner)
{
	uint64_t uid = 0;
	size_t len = strlen(owner);

	for (const char *s = owner; *s; s++)
		if (!isgraph((unsigned char)*s) || *s == ':' || *s == '/')
			len = 0;
	if (len == 0 || len >= OWNER_SIZE || strchr("-+", owner[0]))
		return "the name or number of a user, such as backup";
	/* The last one is none. */
	if (isdigit((unsigned char)owner[0]) && owner[strspn(owner, "0123456789")] == '\0' &&
	    (count_parse(owner, &uid) < 0 || uid >= UINT32_MAX))
		return "the number of a user, up to 4294967294";
	return NULL;
}
