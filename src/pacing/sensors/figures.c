/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "figures.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t figures_read(int fd, char *buf, size_t size)
{
	size_t len = 0;

	while (len < size - 1) {
		ssize_t n = pread(fd, buf + len, size - 1 - len, (off_t)len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	buf[len] = '\0';
	return (ssize_t)len;
}

/* Reads one number and moves *s behind it. */
static bool number_take(const char **s, uint64_t *ret)
{
	char *end;

	if (!isdigit((unsigned char)**s))
		return false;
	errno = 0;
	*ret = strtoull(*s, &end, 10);
	*s = end;
	return errno == 0;
}

bool figures_labelled(const char *text, const char *label, uint64_t *ret)
{
	size_t len = strlen(label);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, label, len) != 0)
			continue;
		line += len;
		if (*line != ' ' && *line != '\t')
			continue;
		line += strspn(line, " \t");
		return number_take(&line, ret);
	}
	return false;
}

ssize_t figures_row(const char *s, uint64_t *ret, size_t n)
{
	size_t found = 0;

	for (;;) {
		uint64_t v;

		s += strspn(s, " \t");
		if (*s == '\0' || *s == '\n')
			return (ssize_t)found;
		if (!number_take(&s, &v))
			return -EBADMSG;
		if (found < n)
			ret[found] = v;
		found++;
	}
}
