/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "verbs.h"

#include <stdio.h>
#include <string.h>

#include "output.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} verbs[] = {
	{ "run", verb_run },         { "plan", verb_plan },
	{ "devices", verb_devices }, { "submit", verb_submit },
	{ "list", verb_list },       { "show", verb_show },
	{ "wait", verb_wait },       { "cancel", verb_cancel },
	{ "pause", verb_pause },     { "resume", verb_resume },
	{ "restore", verb_restore }, { "spools", verb_spools },
	{ "status", verb_status },   { "check-config", verb_check_config },
	{ "policy", verb_policy },   { "metrics", verb_metrics },
	{ "top", verb_top },
};

static const char help_text[] =
	"reclaimctl submit [OPTIONS] PATH...  hand over to the daemon; gone at once\n"
	"reclaimctl list [--all]              the daemon's jobs; --all: finished, too\n"
	"reclaimctl show JOB...               all there is to know of a job\n"
	"reclaimctl wait JOB...               until they have finished\n"
	"reclaimctl wait --free=SIZE PATH     until so much is free on its filesystem\n"
	"reclaimctl cancel JOB...             put back what has not begun; stop what has\n"
	"reclaimctl pause JOB...|--all        leave it for now\n"
	"reclaimctl resume JOB...|--all       go on\n"
	"reclaimctl restore JOB... [--to=PATH]\n"
	"                                     have it back, while it is held or queued\n"
	"reclaimctl spools                    directories whose content is deleted\n"
	"reclaimctl status                    the daemon, and what it does now\n"
	"reclaimctl top                       the same on the whole screen, with keys\n"
	"reclaimctl metrics [--output=FILE]   what it counts, to be collected\n"
	"\n"
	"reclaimctl run [OPTIONS] PATH...     delete, in this process, without a daemon\n"
	"reclaimctl plan [OPTIONS] PATH...    what would be done to it, how, and why\n"
	"reclaimctl devices [OPTIONS] [PATH...]\n"
	"                                     which devices it is on, and their latency\n"
	"reclaimctl check-config [FILE|DIR]   what is wrong with its configuration\n"
	"reclaimctl policy list|plan [OPTIONS] [NAME...]\n"
	"                                     what policies there are, and would delete\n"
	"reclaimctl policy run [OPTIONS] NAME hand what it would delete to the daemon\n"
	"\n"
	"Options of submit:\n"
	"  --undo=TIME               hold it for so long, so that it can be taken back\n"
	"  --by=TIME|CLOCK           be done in 2h, or at 06:00, whatever it costs\n"
	"  --priority=low|normal|high\n"
	"  --wait[=done|free:SIZE]   wait until it is done, or so much is free\n"
	"\n"
	"Options of submit and run:\n"
	"  --files-from=FILE|-       the names listed in FILE, one a line\n"
	"  -0, --null                names in FILE end with NUL, not with a newline\n"
	"  --dry-run                 check (run: walk and count, too), change nothing\n"
	"\n"
	"Options of run:\n"
	"  --latency=auto|off|TIME   auto (default): spare others' I/O on the device;\n"
	"                            off: nothing but speed; TIME: what it may take\n"
	"  --backend=auto|uring|threads\n"
	"                            how names are unlinked; auto finds the better way\n"
	"  --progress=auto|on|off    a bar on a terminal, elsewhere a line now and then\n"
	"  -v, --verbose             the device, its latency and the rate, once a second\n"
	"  --trace=FILE              write down what the sensors said\n"
	"  --strategy=moosefs-snapshot[:TIME]\n"
	"                            have MooseFS remove whole subtrees, past its trash,\n"
	"                            holding it up TIME (20ms) at a time\n"
	"\n"
	"Options of cancel, pause, resume and restore:\n"
	"  --no-ask-password         nobody is asked for a password for others' jobs\n"
	"\n"
	"Options of devices and top:\n"
	"  --interval=TIME           how long to look for what happens now; 1s\n"
	"\n"
	"Options of metrics:\n"
	"  --output=FILE             write to FILE, replacing it as a whole\n"
	"  --format=openmetrics|prometheus\n"
	"                            OpenMetrics 1.0 (default), or for node_exporter\n"
	"\n"
	"Options of policy:\n"
	"  --latency=auto|off|TIME   plan, run: spare others' I/O while it looks\n"
	"  --configuration-directory=DIR\n"
	"                            in place of /etc/reclaimd and /usr/lib/reclaimd\n"
	"  --state-directory=DIR     run: the daemon's, where the clock's course is kept\n"
	"  --force                   run: even if it is more than max-delete\n"
	"  --clock-is-right          run: even if the clock was set; and remember that\n"
	"\n"
	"Options of what speaks to the daemon:\n"
	"  --runtime-directory=DIR   where the daemon's socket is\n"
	"\n"
	"Options of all verbs:\n"
	"  --json[=short|pretty]     the result as JSON (all but metrics and top)\n"
	"  -H, --host=[USER@]HOST[:PORT]\n"
	"                            on that machine, over ssh; all paths are its own\n"
	"  -q, --quiet               nothing but errors\n"
	"  --no-pager                long results straight to the terminal\n"
	"  -h, --help                this text\n"
	"  --version                 the version\n"
	"\n"
	"Exit status: 0 done, 1 failed (nothing done), 2 wrong usage, 3 partly done,\n"
	"4 not authorised, 5 no daemon to talk to.\n";

static int help(void)
{
	(void)fputs(help_text, stdout);
	return EXIT_DONE;
}

static int version(void)
{
	(void)printf("reclaimctl %s\n", RECLAIM_VERSION);
	return EXIT_DONE;
}

/* Looks for --help and --version behind a verb too, as every tool does. */
static bool has_word(int argc, char **argv, const char *a, const char *b)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], a) == 0 || strcmp(argv[i], b) == 0)
			return true;
	return false;
}

/* As with systemctl, the machine may come before the verb: then it is moved behind it. */
static void host_move(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	int n = strcmp(word, "-H") == 0 || strcmp(word, "--host") == 0 ? 2 : 1;
	char *verb;

	if (argc < n + 2 || (strncmp(word, "-H", 2) != 0 && strncmp(word, "--host", 6) != 0))
		return;
	verb = argv[1 + n];
	memmove(&argv[2], &argv[1], (size_t)n * sizeof(*argv));
	argv[1] = verb;
}

int verbs_dispatch(int argc, char **argv)
{
	if (has_word(argc, argv, "-h", "--help"))
		return help();
	if (has_word(argc, argv, "--version", "--version"))
		return version();
	if (argc < 2) {
		(void)fputs("reclaimctl: no command given: see reclaimctl --help\n", stderr);
		return EXIT_USAGE;
	}
	host_move(argc, argv);
	for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	complain(argv[1], "no such command: see reclaimctl --help");
	return EXIT_USAGE;
}
