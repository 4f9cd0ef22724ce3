/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimd: coordinates deletions; deletes nothing itself.
 *
 *   main.c          options
 *   manager.c       start, end, configuration, the store's troubles (manager.h lists its parts)
 *   worker*.c       reclaim-worker processes             pacers.c   how fast they may go
 *   bus*.c caller.c the API on D-Bus                      log.c      what is told to the journal
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "features.h"
#include "daemon/context/log.h"
#include "manager.h"
#include "base/debug.h"
#include "base/escape.h"

static void help(void)
{
	puts("reclaimd [OPTIONS]\n"
	     "\n"
	     "Deletes what it is handed, unnoticed. Runs in the foreground.\n"
	     "\n"
	     "      --state-directory=DIR          jobs are kept here (default: $STATE_DIRECTORY,\n"
	     "                                     /var/lib/reclaimd)\n"
	     "      --runtime-directory=DIR        the socket is here (default: "
	     "$RUNTIME_DIRECTORY,\n"
	     "                                     /run/reclaimd)\n"
	     "      --configuration-directory=DIR  reclaimd.yaml is here (default:\n"
	     "                                     $CONFIGURATION_DIRECTORY, /etc/reclaimd)\n"
	     "      --worker=PATH                  the program that deletes (default:\n"
	     "                                     " RECLAIM_WORKER ")\n"
	     "      --reclaimctl=PATH              runs policies where systemd does not (default:\n"
	     "                                     " RECLAIMCTL ")\n"
	     "      --no-bus                       only the private socket\n"
	     "      --log-level=LEVEL              debug: tell decisions, too, on standard error\n"
	     "      --version                      version and features\n"
	     "  -h, --help                         this text");
}

static void version(const char *const *features)
{
	printf("reclaimd %s\n", RECLAIM_VERSION);
	for (size_t i = 0; features[i]; i++)
		printf("%s%s", i > 0 ? " " : "", features[i]);
	putchar('\n');
}

static const char *directory(const char *variable, const char *otherwise)
{
	const char *dir = getenv(variable);

	/* systemd gives a list where a unit has several; the first is ours. */
	return dir && *dir == '/' && !strchr(dir, ':') ? dir : otherwise;
}

static int refuse(const struct safe_text *wrong)
{
	safe_text_print("reclaimd", wrong);
	return -EINVAL;
}

/* Returns 1 to go on, 0 if all is done, or a negative errno. */
static int options_parse(struct daemon_options *o, int argc, char **argv)
{
	enum { PATHS = 256, NO_BUS = 512, LOG_LEVEL, VERSION };
	const char **const paths[] = { &o->state_dir, &o->runtime_dir, &o->config_dir,
				       &o->worker_program, &o->reclaimctl };
	static const struct option options[] = {
		{ "state-directory", required_argument, NULL, PATHS },
		{ "runtime-directory", required_argument, NULL, PATHS + 1 },
		{ "configuration-directory", required_argument, NULL, PATHS + 2 },
		{ "worker", required_argument, NULL, PATHS + 3 },
		{ "reclaimctl", required_argument, NULL, PATHS + 4 },
		{ "no-bus", no_argument, NULL, NO_BUS },
		{ "log-level", required_argument, NULL, LOG_LEVEL },
		{ "version", no_argument, NULL, VERSION },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct safe_text wrong;

	opterr = 0;
	for (int c; (c = getopt_long(argc, argv, ":h", options, NULL)) >= 0;) {
		if (c >= PATHS && c < NO_BUS) {
			*paths[c - PATHS] = optarg;
		} else if (c == NO_BUS) {
			o->no_bus = true;
		} else if (c == VERSION) {
			version(o->features);
			return 0;
		} else if (c == 'h') {
			help();
			return 0;
		} else if (c != LOG_LEVEL) {
			safe_text_option(&wrong, c, argv);
			return refuse(&wrong);
		} else if (debug_set_level(optarg) < 0) {
			safe_text_format(
				&wrong, "--log-level= takes " DEBUG_LEVELS ", but was given \"%s\"",
				optarg);
			return refuse(&wrong);
		}
	}
	if (optind == argc)
		return 1;
	safe_text_format(&wrong, "takes no arguments, but was given \"%s\"", argv[optind]);
	return refuse(&wrong);
}

static int run(const struct daemon_options *o)
{
	_cleanup_(manager_freep) struct manager *m = NULL;
	int r = manager_new(&m, o);

	if (r == -EBADMSG)
		return EX_CONFIG;
	if (r == -ECANCELED) /* while it waited for room */
		return EXIT_SUCCESS;
	if (r >= 0)
		r = manager_run(m);
	if (r < 0)
		log_line(LOG_ERR, "cannot run: %s", strerror(-r));
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct features features;
	struct daemon_options o = {
		.state_dir = directory("STATE_DIRECTORY", "/var/lib/reclaimd"),
		.runtime_dir = directory("RUNTIME_DIRECTORY", "/run/reclaimd"),
		.config_dir = directory("CONFIGURATION_DIRECTORY", "/etc/reclaimd"),
		.worker_program = RECLAIM_WORKER,
		.reclaimctl = RECLAIMCTL,
	};
	int r;

	debug_begin();
	features_detect(&features);
	o.features = features.names;
	r = options_parse(&o, argc, argv);
	if (r <= 0)
		return r < 0 ? EX_USAGE : EXIT_SUCCESS;
	(void)umask(077);
	return run(&o);
}
