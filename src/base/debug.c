/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "debug.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "escape.h"

bool debug_enabled;

/* Returns a level of syslog(3), or -EINVAL. */
static int level_parse(const char *s)
{
	static const char *const names[] = { "emerg",   "alert",  "crit", "err",
					     "warning", "notice", "info", "debug" };

	if (s[0] >= '0' && s[0] <= '7' && s[1] == '\0')
		return s[0] - '0';
	for (int i = 0; i < (int)ELEMENTSOF(names); i++)
		if (strcmp(s, names[i]) == 0)
			return i;
	return -EINVAL;
}

void debug_begin(void)
{
	const char *level = getenv("SYSTEMD_LOG_LEVEL");

	debug_enabled = level && level_parse(level) == LOG_DEBUG;
}

int debug_set_level(const char *level)
{
	int r = level_parse(level);

	if (r < 0)
		return r;
	if (setenv("SYSTEMD_LOG_LEVEL", level, /* overwrite= */ 1) < 0)
		return -errno;
	debug_enabled = r == LOG_DEBUG;
	return 0;
}

void debug_environment(char *env[DEBUG_ENVIRONMENT])
{
	static const char *const names[] = { "SYSTEMD_LOG_LEVEL=", "JOURNAL_STREAM=" };
	size_t n = 0;

	for (char **e = environ; debug_enabled && e && *e && n < ELEMENTSOF(names); e++)
		for (size_t i = 0; i < ELEMENTSOF(names); i++)
			if (strncmp(*e, names[i], strlen(names[i])) == 0)
				env[n++] = *e;
	env[n] = NULL;
}

bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

void debug_write(const char *format, ...)
{
	struct safe_text t;
	/* The name of a program, its number and a level are shorter than that. */
	char line[sizeof(t.line) + 64];
	va_list ap;
	int n;

	va_start(ap, format);
	safe_text_formatv(&t, format, ap);
	va_end(ap);
	n = snprintf(line, sizeof(line), "%s%.32s[%d]: %s\n", stderr_is_journal() ? "<7>" : "",
		     program_invocation_short_name, (int)getpid(), t.line);
	/* There is nothing to be done about a log that cannot be written. */
	if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}
