/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ctl/common/verbs.h"
#include "ctl/common/options.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/similar.h"
#include "ctl/common/help.h"
#include "ctl/output/messages.h"

static const struct verb {
	const char *name;
	enum verb_flags flag;
	int (*run)(int argc, char **argv);
} verbs[] = {
	{ "run", VERB_RUN, verb_run },
	{ "plan", VERB_PLAN, verb_plan },
	{ "devices", VERB_DEVICES, verb_devices },
	{ "submit", VERB_SUBMIT, verb_submit },
	{ "list", VERB_LIST, verb_list },
	{ "show", VERB_SHOW, verb_show },
	{ "wait", VERB_WAIT, verb_wait },
	{ "cancel", VERB_CANCEL, verb_cancel },
	{ "pause", VERB_PAUSE, verb_pause },
	{ "resume", VERB_RESUME, verb_resume },
	{ "restore", VERB_RESTORE, verb_restore },
	{ "spools", VERB_SPOOLS, verb_spools },
	{ "status", VERB_STATUS, verb_status },
	{ "check-config", VERB_CHECK_CONFIG, verb_check_config },
	{ "policy", VERB_POLICY, verb_policy },
	{ "metrics", VERB_METRICS, verb_metrics },
	{ "top", VERB_TOP, verb_top },
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

static int help(const struct verb *verb)
{
	if (verb)
		help_verb(verb->flag);
	else
		help_all();
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
	return verb ? verb->run(argc - 1, argv + 1) : verb_unknown(argv[1]);
}
