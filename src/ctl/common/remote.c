/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "remote.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/output/modes.h"
#include "ctl/output/messages.h"
#include "base/escape.h"
#include "base/macros.h"

#define HOST_SIZE 512

/* Takes the option that gave the host (the very string that getopt has found) out of the words.
 * Returns how many are left, or -EINVAL if it is mixed up with others, or given twice. */
static int host_remove(char **argv, int argc, const char *host)
{
	int kept = 0;
	bool found = false;

	for (int i = 0; i < argc; i++) {
		bool separate = i + 1 < argc && argv[i + 1] == host;
		bool within = host >= argv[i] && host <= argv[i] + strlen(argv[i]);

		if (strcmp(argv[i], "--") == 0 && !found)
			return -EINVAL;
		if (separate && strcmp(argv[i], "-H") != 0 && strcmp(argv[i], "--host") != 0)
			return -EINVAL;
		if (within && strncmp(argv[i], "-H", 2) != 0 &&
		    strncmp(argv[i], "--host=", strlen("--host=")) != 0)
			return -EINVAL;
		if (separate || within) {
			found = true;
			i += separate;
			continue;
		}
		argv[kept++] = argv[i];
	}
	argv[kept] = NULL;
	return kept;
}

/* The command line for the shell there, each word quoted; malloc'ed. NULL if out of memory. */
static char *command_make(int argc, char *const *argv)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	(void)fputs("reclaimctl", f);
	for (int i = 0; i < argc; i++) {
		(void)fputs(" '", f);
		for (const char *c = argv[i]; *c; c++)
			if (*c == '\'')
				(void)fputs("'\\''", f);
			else
				(void)fputc(*c, f);
		(void)fputc('\'', f);
	}
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

/* Splits the port off "host:22" or "[::1]:22", in place; an address with several colons and no
 * brackets has none. Returns the port, or NULL. */
static char *port_split(char *host)
{
	char *colon = strrchr(host, ':');

	if (!colon || (strchr(host, ':') != colon && colon > host && colon[-1] != ']'))
		return NULL;
	*colon = '\0';
	return colon + 1;
}

static bool is_port(const char *s)
{
	size_t n = strspn(s, "0123456789");

	return n > 0 && n <= 5 && s[n] == '\0';
}

/* ssh knows addresses without brackets. */
static char *brackets_strip(char *host)
{
	char *open = strchr(host, '['), *close = open ? strchr(open, ']') : NULL;

	if (!close || close[1] != '\0')
		return host;
	memmove(open, open + 1, (size_t)(close - open) - 1);
	close[-1] = '\0';
	return host;
}

int remote_become(const char *host, int argc, char **argv)
{
	_cleanup_free_ char *command = NULL;
	/* With a terminal at both ends there is one over there, too, for bars, pagers and top. */
	bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	const char *words[8] = { "ssh", terminal ? "-t" : "-T" }, *port;
	char to[HOST_SIZE];
	size_t n = 2;

	argc = host_remove(argv, argc, host);
	if (argc < 0) {
		complain("-H", "must stand by itself: -H HOST");
		return EXIT_USAGE;
	}
	command = command_make(argc, argv);
	if (!command) {
		complain("reclaimctl", "out of memory");
		return EXIT_FAILED;
	}
	(void)snprintf(to, sizeof(to), "%s", host);
	port = port_split(to);
	/* ssh shows it as it is, carriage returns and all. */
	if (host[escape_span(host)] != '\0' || strlen(host) >= sizeof(to) || to[0] == '\0' ||
	    to[0] == '-' || (port && !is_port(port))) {
		complain(host[0] ? host : "''",
			 "is not accepted by --host: give [USER@]HOST[:PORT]");
		return EXIT_USAGE;
	}
	if (port) {
		words[n++] = "-p";
		words[n++] = port;
	}
	words[n++] = "--";
	words[n++] = brackets_strip(to);
	words[n++] = command;
	(void)execvp(words[0], (char *const *)words);
	complain("ssh", "cannot be run: %s", strerror(errno));
	return EXIT_FAILED;
}
