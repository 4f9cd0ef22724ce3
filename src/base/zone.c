/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "zone.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fd.h"
#include "macros.h"

#define SYSTEM_ZONE "/etc/localtime"
#define ZONES "/usr/share/zoneinfo/"

static struct {
	bool entered;
	char *tz; /* of the environment; NULL if it has none */
} caller;

/* Returns true if the file has the beginning of a time zone, tzfile(5). */
static bool is_zone_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	char magic[4];

	return fd >= 0 && fstat(fd, &st) >= 0 && S_ISREG(st.st_mode) &&
	       read(fd, magic, sizeof(magic)) == sizeof(magic) && memcmp(magic, "TZif", 4) == 0;
}

static bool zone_path(const char *name, char buf[static PATH_MAX])
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_+-/";

	return name[0] != '/' && name[strspn(name, letters)] == '\0' &&
	       snprintf(buf, PATH_MAX, "%s%s", ZONES, name) < PATH_MAX;
}

bool zone_is_known(const char *name)
{
	char path[PATH_MAX];

	return strcmp(name, "UTC") == 0 || (zone_path(name, path) && is_zone_file(path));
}

int zone_enter(const char *name)
{
	char path[PATH_MAX] = "UTC0";
	const char *tz = getenv("TZ");
	int r;

	assert(!caller.entered);
	if (name ? !zone_is_known(name)
		 : !is_zone_file(SYSTEM_ZONE) &&
			    faccessat(AT_FDCWD, SYSTEM_ZONE, F_OK, AT_SYMLINK_NOFOLLOW) >= 0)
		return -ENOENT;
	caller.tz = tz ? strdup(tz) : NULL;
	if (tz && !caller.tz)
		return -ENOMEM;
	if (name && strcmp(name, "UTC") != 0)
		(void)zone_path(name, path);
	r = name ? setenv("TZ", path, 1) : unsetenv("TZ");
	if (r < 0) {
		free(caller.tz);
		caller.tz = NULL;
		return -ENOMEM;
	}
	caller.entered = true;
	tzset();
	return 0;
}

void zone_leave(void)
{
	if (!caller.entered)
		return;
	/* The variable was there as large before, so there is room for it. */
	if (caller.tz)
		(void)setenv("TZ", caller.tz, 1);
	else
		(void)unsetenv("TZ");
	free(caller.tz);
	caller.tz = NULL;
	caller.entered = false;
	tzset();
}

const char *zone_name(const char *name, char *buf, size_t len)
{
	char target[PATH_MAX];
	ssize_t n = name ? -1 : readlink(SYSTEM_ZONE, target, sizeof(target) - 1);
	const char *at;

	if (n >= 0)
		target[n] = '\0';
	at = n >= 0 ? strstr(target, "zoneinfo/") : NULL;
	if (!name && at)
		name = at + strlen("zoneinfo/");
	else if (!name)
		name = faccessat(AT_FDCWD, SYSTEM_ZONE, F_OK, AT_SYMLINK_NOFOLLOW) < 0
			       ? "UTC"
			       : SYSTEM_ZONE;
	(void)snprintf(buf, len, "%s", name);
	return buf;
}
