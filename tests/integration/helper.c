/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Trees that a script would take too long to make.
 *
 *   helper deep DIR N     N directories, one in the other, each named "d"
 *   helper wide DIR N     N empty files in one directory
 *   helper refill DIR     makes files in DIR as fast as it can, until DIR is gone */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int die(const char *what)
{
	perror(what);
	return 1;
}

static int deep(int fd, long n)
{
	for (long i = 0; i < n; i++) {
		int next;

		if (mkdirat(fd, "d", 0755) < 0)
			return die("mkdirat");
		next = openat(fd, "d", O_PATH | O_DIRECTORY);
		if (next < 0)
			return die("openat");
		close(fd);
		fd = next;
	}
	return 0;
}

static int make(int fd, const char *prefix, long i)
{
	char name[32];
	int f;

	snprintf(name, sizeof(name), "%s%07ld", prefix, i);
	f = openat(fd, name, O_CREAT | O_WRONLY, 0644);
	if (f >= 0)
		close(f);
	return f;
}

int main(int argc, char **argv)
{
	int fd = argc > 2 ? open(argv[2], O_RDONLY | O_DIRECTORY) : -1;
	long n = argc > 3 ? atol(argv[3]) : 0;

	if (fd < 0)
		return die("usage: helper deep|wide|refill DIR [N]");
	if (strcmp(argv[1], "deep") == 0)
		return deep(fd, n);
	if (strcmp(argv[1], "wide") == 0) {
		for (long i = 0; i < n; i++)
			if (make(fd, "entry", i) < 0)
				return die("openat");
		return 0;
	}
	for (long i = 0;; i++)
		if (make(fd, "refilled", i) < 0 && errno == ENOENT)
			return 0;
}
