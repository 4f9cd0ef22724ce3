/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl, the command line: the table of verbs, with what --help says of them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/similar.h"
#include "ctl/common/client.h"
#include "ctl/common/options.h"
#include "ctl/common/verbs.h"
#include "ctl/output/messages.h"

/* What a verb is called with. */
enum connection {
	NONE,       /* it needs no daemon, or connects itself */
	DAEMON,     /* there is none: an error */
	SOCKET,     /* the same, by the socket first */
	ASKING,     /* the same, and a person may be asked whether it may be done */
	IF_IT_RUNS, /* NULL if none runs */
};

/* In the order of the help: first the verbs that call the daemon. */
static const struct verb {
	const char *name;
	enum verb_flags flag;
	enum connection connection;
	verb_function *run;
	const char *usage;
} verbs[] = {
	{ "submit", VERB_SUBMIT, NONE, verb_submit,
	  "reclaimctl submit [OPTIONS] PATH...  have the daemon delete it; gone at once\n" },
	{ "list", VERB_LIST, SOCKET, verb_list,
	  "reclaimctl list [--all]              the daemon's jobs; --all: finished, too\n" },
	{ "show", VERB_SHOW, DAEMON, verb_show,
	  "reclaimctl show [--all] JOB...       all that is known of a job\n" },
	{ "wait", VERB_WAIT, DAEMON, verb_wait,
	  "reclaimctl wait JOB...               until they have finished\n"
	  "reclaimctl wait --free=SIZE PATH     until so much is free on its filesystem\n" },
	{ "cancel", VERB_CANCEL, ASKING, verb_cancel,
	  "reclaimctl cancel JOB...             put back what has not begun; stop what has\n" },
	{ "pause", VERB_PAUSE, ASKING, verb_pause,
	  "reclaimctl pause JOB...|--all        stop deleting until it is resumed\n" },
	{ "resume", VERB_RESUME, ASKING, verb_resume,
	  "reclaimctl resume JOB...|--all       go on deleting\n" },
	{ "restore", VERB_RESTORE, ASKING, verb_restore,
	  "reclaimctl restore JOB... [--to=PATH]\n"
	  "                                     move it back, while it is held or queued\n" },
	{ "spools", VERB_SPOOLS, DAEMON, verb_spools,
	  "reclaimctl spools                    directories whose content is deleted\n" },
	{ "status", VERB_STATUS, DAEMON, verb_status,
	  "reclaimctl status                    the daemon, and what it does now\n" },
	{ "top", VERB_TOP, NONE, verb_top,
	  "reclaimctl top                       the same on the whole screen, with keys\n" },
	{ "metrics", VERB_METRICS, IF_IT_RUNS, verb_metrics,
	  "reclaimctl metrics [--output=FILE]   the daemon's counters, for monitoring\n" },
	{ "run", VERB_RUN, NONE, verb_run,
	  "reclaimctl run [OPTIONS] PATH...     delete, in this process, without a daemon\n" },
	{ "trim", VERB_TRIM, NONE, verb_trim,
	  "reclaimctl trim [OPTIONS] PATH...|--all\n"
	  "                                     tell devices what is free, in small steps\n" },
	{ "plan", VERB_PLAN, NONE, verb_plan,
	  "reclaimctl plan [OPTIONS] PATH...    what would be deleted, how, and why\n" },
	{ "devices", VERB_DEVICES, IF_IT_RUNS, verb_devices,
	  "reclaimctl devices [OPTIONS] [PATH...]\n"
	  "                                     which devices it is on, and their latency\n" },
	{ "check-config", VERB_CHECK_CONFIG, NONE, verb_check_config,
	  "reclaimctl check-config [FILE|DIR]   what is wrong with the configuration\n" },
	{ "policy", VERB_POLICY, NONE, verb_policy,
	  "reclaimctl policy list|plan [OPTIONS] [NAME...]\n"
	  "                                     the policies, and what they would delete\n"
	  "reclaimctl policy run [OPTIONS] NAME have the daemon delete what it selects\n" },
};

static const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
		if (strcmp(name, verbs[i].name) == 0)
			return &verbs[i];
	return NULL;
}

static int verb_unknown(const char *name)
{
	const char *near = NULL;
	size_t least = SIZE_MAX;

	for (size_t i = 0; i < ELEMENTSOF(verbs); i++) {
		size_t n = slips_between(name, verbs[i].name);

		if (n < least) {
			least = n;
			near = verbs[i].name;
		}
	}
	if (near)
		complain(name, "no such command: did you mean %s?", near);
	else
		complain(name, "no such command: see reclaimctl --help");
	return EXIT_USAGE;
}

/* All verbs, or one. */
static int help(const struct verb *verb)
{
	if (verb) {
		(void)fputs(verb->usage, stdout);
		options_help(verb->flag);
		(void)fputs("\nMore is in reclaimctl(1); reclaimctl --help shows all verbs.\n",
			    stdout);
		return EXIT_DONE;
	}
	for (const struct verb *v = verbs; v < verbs + ELEMENTSOF(verbs); v++)
		(void)printf("%s%s", v->flag == VERB_RUN ? "\n" : "", v->usage);
	options_help(VERBS_ALL);
	(void)fputs(
		"\nExit status: 0 done, 1 failed (nothing done), 2 wrong usage, 3 partly done,\n"
		"4 not authorised, 5 no daemon to talk to.\n",
		stdout);
	return EXIT_DONE;
}

static int version(void)
{
	(void)printf("reclaimctl %s\n", RECLAIM_VERSION);
	return EXIT_DONE;
}

/* Finds --help and --version behind a verb too, as every tool does. */
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

static int verb_call(const struct verb *verb, int argc, char **argv)
{
	_cleanup_client_ struct client *c = NULL;
	struct options o;
	int r = options_parse(&o, verb->flag, argc, argv);

	/* Also where getopt takes it for that, as of --hel and -vh: nothing is done then. */
	if (r == 0 && o.help)
		return help(verb);
	if (r == 0 && o.version)
		return version();
	json_init(o.json);
	if (r == 0 && verb->connection == IF_IT_RUNS)
		c = client_try(&o);
	else if (r == 0 && verb->connection != NONE)
		r = client_open(&c, &o, verb->connection == SOCKET);
	if (r == 0 && verb->connection == ASKING)
		c->asks = !c->way.direct && geteuid() != 0 && !o.no_ask_password &&
			  isatty(STDIN_FILENO);
	return r ? r : verb->run(&o, c);
}

static int dispatch(int argc, char **argv)
{
	const struct verb *verb;

	host_move(argc, argv);
	verb = argc < 2 ? NULL : verb_find(argv[1]);
	if (has_word(argc, argv, "-h", "--help") && (verb || argv[1][0] == '-'))
		return help(verb);
	if (has_word(argc, argv, "--version", "--version"))
		return version();
	if (argc < 2) {
		(void)fputs("reclaimctl: no command given: see reclaimctl --help\n", stderr);
		return EXIT_USAGE;
	}
	return verb ? verb_call(verb, argc - 1, argv + 1) : verb_unknown(argv[1]);
}

int main(int argc, char **argv)
{
	int r;

	debug_begin();
	r = dispatch(argc, argv);

	/* A result that could not be written is not a success. */
	if (fflush(stdout) != 0 && r == 0)
		r = EXIT_FAILURE;
	return r;
}
