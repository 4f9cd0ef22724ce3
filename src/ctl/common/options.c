/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moosefs/moosefs.h"
#include "ctl/output/timestamps.h"
#include "ctl/output/messages.h"
#include "remote.h"
#include "base/debug.h"
#include "base/escape.h"
#include "base/macros.h"
#include "base/units.h"

/* To look for longer than an hour is surely a slip. */
#define INTERVAL_MOST (3600 * USEC_PER_SEC)
/* A bound on a device's latency outside of this is surely a slip. */
#define LATENCY_LEAST 50ULL
#define LATENCY_MOST (60 * USEC_PER_SEC)

/* What takes jobs. */
#define VERBS_JOBS (VERB_SHOW | VERB_WAIT | VERB_CANCEL | VERB_PAUSE | VERB_RESUME | VERB_RESTORE)

struct choice {
	const char *word;
	int value;
};

static int refuse(const char *option, const char *word, const char *accepted)
{
	complain(word[0] ? word : "''", "is not accepted by %s: give %s", option, accepted);
	return EXIT_USAGE;
}

/* Finds a word among choices, or says which are accepted. */
static int choose(const char *option, const char *word, const struct choice *c, size_t n,
		  const char *accepted, int *ret)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(word, c[i].word) == 0) {
			*ret = c[i].value;
			return 0;
		}
	return refuse(option, word, accepted);
}

static int take_backend(struct options *o, const char *word)
{
	static const struct choice choices[] = { { "auto", -1 },
						 { "threads", BACKEND_THREADS },
						 { "uring", BACKEND_URING } };
	int value = 0, r;

	r = choose("--backend", word, choices, ELEMENTSOF(choices), "auto, uring or threads",
		   &value);
	o->fixed_backend = value >= 0;
	o->backend = value >= 0 ? (enum backend)value : BACKEND_THREADS;
	return r;
}

static int take_json(struct options *o, const char *word)
{
	static const struct choice choices[] = { { "short", JSON_SHORT },
						 { "pretty", JSON_PRETTY },
						 { "off", JSON_OFF } };
	int value = JSON_SHORT, r = 0;

	if (word)
		r = choose("--json", word, choices, ELEMENTSOF(choices), "short, pretty or off",
			   &value);
	o->json = (enum json_mode)value;
	return r;
}

static int take_progress(struct options *o, const char *word)
{
	static const struct choice choices[] = { { "auto", SWITCH_AUTO },
						 { "on", SWITCH_ON },
						 { "off", SWITCH_OFF } };
	int value = SWITCH_AUTO;
	int r = choose("--progress", word, choices, ELEMENTSOF(choices), "auto, on or off", &value);

	o->progress = (enum switch_mode)value;
	return r;
}

static int take_latency(struct options *o, const char *word)
{
	o->latency_off = strcmp(word, "off") == 0;
	o->latency_usec = 0;
	if (o->latency_off || strcmp(word, "auto") == 0)
		return 0;
	if (timespan_parse(word, &o->latency_usec) >= 0 && o->latency_usec >= LATENCY_LEAST &&
	    o->latency_usec <= LATENCY_MOST)
		return 0;
	return refuse("--latency", word, "auto, off, or a time from 50us to 1min such as 5ms");
}

static int take_strategy(struct options *o, const char *word)
{
	static const char moosefs[] = "moosefs-snapshot";
	size_t len = strlen(moosefs);

	o->stall_usec = MOOSEFS_STALL_USEC;
	if (strcmp(word, "auto") == 0) {
		o->stall_usec = 0;
		return 0;
	}
	if (strcmp(word, moosefs) == 0)
		return 0;
	if (strncmp(word, moosefs, len) == 0 && word[len] == ':' &&
	    timespan_parse(word + len + 1, &o->stall_usec) >= 0 &&
	    o->stall_usec >= MOOSEFS_STALL_LEAST && o->stall_usec <= MOOSEFS_STALL_MOST)
		return 0;
	return refuse("--strategy", word,
		      "auto, moosefs-snapshot, or with what its master may be held up, from 1ms "
		      "to 10s: moosefs-snapshot:20ms");
}

static int take_interval(struct options *o, const char *word)
{
	if (timespan_parse(word, &o->interval_usec) >= 0 && o->interval_usec <= INTERVAL_MOST)
		return 0;
	return refuse("--interval", word, "a time up to 1h, such as 500ms");
}

static int take_undo(struct options *o, const char *word)
{
	o->has_undo = timespan_parse(word, &o->undo_usec) >= 0;
	if (o->has_undo)
		return 0;
	return refuse("--undo", word, "a time such as 1h, or 0");
}

static int take_by(struct options *o, const char *word)
{
	int r = timestamp_parse(word, realtime_usec(), &o->by_usec);

	if (r >= 0)
		return 0;
	if (r == -ERANGE)
		return refuse("--by", word, "a time that is still to come");
	return refuse("--by", word, "a time of day such as 06:00, or a time from now such as 2h");
}

static int take_priority(struct options *o, const char *word)
{
	static const struct choice choices[] = { { "low", 0 }, { "normal", 0 }, { "high", 0 } };
	int value;

	o->priority = word;
	return choose("--priority", word, choices, ELEMENTSOF(choices), "low, normal or high",
		      &value);
}

static int take_wait(struct options *o, const char *word)
{
	o->wait = WAIT_DONE;
	if (!word || strcmp(word, "done") == 0)
		return 0;
	o->wait = WAIT_FREE;
	if (strncmp(word, "free:", 5) == 0 && space_parse(word + 5, &o->free) >= 0)
		return 0;
	return refuse("--wait", word, "done, or free:SIZE such as free:120G or free:10%");
}

static int take_free(struct options *o, const char *word)
{
	o->wait = WAIT_FREE;
	if (space_parse(word, &o->free) >= 0)
		return 0;
	return refuse("--free", word, "a size such as 120G, or a share such as 10%");
}

static int take_files_from(struct options *o, const char *word)
{
	o->files_from = word;
	return 0;
}

static int take_null(struct options *o, const char *word)
{
	(void)word;
	o->separator = '\0';
	return 0;
}

static int take_trace(struct options *o, const char *word)
{
	o->trace = word;
	return 0;
}

static int take_to(struct options *o, const char *word)
{
	o->to = word;
	return 0;
}

static int take_configuration_dir(struct options *o, const char *word)
{
	o->configuration_dir = word;
	return word[0] ? 0 : refuse("--configuration-directory", word, "a directory");
}

static int take_state_dir(struct options *o, const char *word)
{
	o->state_dir = word;
	return word[0] ? 0 : refuse("--state-directory", word, "a directory");
}

static int take_output(struct options *o, const char *word)
{
	o->output = word;
	return word[0] ? 0 : refuse("--output", word, "a file");
}

static int take_format(struct options *o, const char *word)
{
	static const struct choice choices[] = { { "openmetrics", false }, { "prometheus", true } };
	int value = false, r;

	r = choose("--format", word, choices, ELEMENTSOF(choices), "openmetrics or prometheus",
		   &value);
	o->prometheus = value;
	return r;
}

static int take_host(struct options *o, const char *word)
{
	if (o->host) {
		complain(word, "a second host: give only one");
		return EXIT_USAGE;
	}
	o->host = word;
	return 0;
}

static int take_runtime_dir(struct options *o, const char *word)
{
	o->runtime_dir = word;
	return word[0] ? 0 : refuse("--runtime-directory", word, "a directory");
}

static int take_log_level(struct options *o, const char *word)
{
	(void)o;
	if (debug_set_level(word) >= 0)
		return 0;
	return refuse("--log-level", word, DEBUG_LEVELS);
}

#define SWITCH(field)                                                                              \
	static int take_##field(struct options *o, const char *word)                               \
	{                                                                                          \
		(void)word;                                                                        \
		o->field = true;                                                                   \
		return 0;                                                                          \
	}
SWITCH(all)
SWITCH(clock_is_right)
SWITCH(dry_run)
SWITCH(force)
SWITCH(no_ask_password)
SWITCH(verbose)
SWITCH(quiet)
SWITCH(no_pager)
SWITCH(help)
SWITCH(version)

static const struct rule {
	const char *name;
	char letter; /* 0: none */
	int argument;
	unsigned verbs;
	int (*take)(struct options *o, const char *word);
} rules[] = {
	{ "latency", 0, required_argument, VERB_RUN | VERB_POLICY, take_latency },
	{ "backend", 0, required_argument, VERB_RUN, take_backend },
	{ "progress", 0, required_argument, VERB_RUN, take_progress },
	{ "trace", 0, required_argument, VERB_RUN, take_trace },
	{ "strategy", 0, required_argument, VERB_RUN, take_strategy },
	{ "verbose", 'v', no_argument, VERB_RUN, take_verbose },
	{ "files-from", 0, required_argument, VERB_RUN | VERB_SUBMIT, take_files_from },
	{ "null", '0', no_argument, VERB_RUN | VERB_SUBMIT, take_null },
	{ "dry-run", 0, no_argument, VERB_RUN | VERB_SUBMIT, take_dry_run },
	{ "undo", 0, required_argument, VERB_SUBMIT, take_undo },
	{ "by", 0, required_argument, VERB_SUBMIT, take_by },
	{ "priority", 0, required_argument, VERB_SUBMIT, take_priority },
	{ "wait", 0, optional_argument, VERB_SUBMIT, take_wait },
	{ "free", 0, required_argument, VERB_WAIT, take_free },
	{ "all", 0, no_argument, VERB_LIST | VERB_PAUSE | VERB_RESUME, take_all },
	{ "to", 0, required_argument, VERB_RESTORE, take_to },
	{ "no-ask-password", 0, no_argument, VERB_CANCEL | VERB_PAUSE | VERB_RESUME | VERB_RESTORE,
	  take_no_ask_password },
	{ "interval", 0, required_argument, VERB_DEVICES | VERB_TOP, take_interval },
	{ "configuration-directory", 0, required_argument, VERB_RUN | VERB_PLAN | VERB_POLICY,
	  take_configuration_dir },
	{ "state-directory", 0, required_argument, VERB_POLICY, take_state_dir },
	{ "force", 0, no_argument, VERB_POLICY, take_force },
	{ "clock-is-right", 0, no_argument, VERB_POLICY, take_clock_is_right },
	{ "runtime-directory", 0, required_argument, VERBS_DAEMON, take_runtime_dir },
	{ "output", 0, required_argument, VERB_METRICS, take_output },
	{ "format", 0, required_argument, VERB_METRICS, take_format },
	{ "json", 0, optional_argument, VERBS_JSON, take_json },
	{ "host", 'H', required_argument, VERBS_ALL, take_host },
	{ "quiet", 'q', no_argument, VERBS_ALL, take_quiet },
	{ "no-pager", 0, no_argument, VERBS_ALL, take_no_pager },
	{ "log-level", 0, required_argument, VERBS_ALL, take_log_level },
	{ "help", 'h', no_argument, VERBS_ALL, take_help },
	{ "version", 0, no_argument, VERBS_ALL, take_version },
};

/* What getopt returns for a rule; 0 is left out because it stands for flags there. */
#define RULE_VALUE(i) ((int)(i) + 256)

/* The options of one verb, as getopt wants them. */
struct known {
	struct option names[ELEMENTSOF(rules) + 1];
	char letters[2 * ELEMENTSOF(rules) + 2]; /* a colon where there is an argument */
};

static void known_fill(struct known *k, enum verb_flags verb)
{
	size_t n = 0, letters = 0;

	k->letters[letters++] = ':';
	for (size_t i = 0; i < ELEMENTSOF(rules); i++) {
		if (!(rules[i].verbs & verb))
			continue;
		k->names[n++] = (struct option){
			.name = rules[i].name,
			.has_arg = rules[i].argument,
			.val = RULE_VALUE(i),
		};
		if (rules[i].letter)
			k->letters[letters++] = rules[i].letter;
		if (rules[i].letter && rules[i].argument == required_argument)
			k->letters[letters++] = ':';
	}
	k->names[n] = (struct option){ 0 };
	k->letters[letters] = '\0';
}

/* Takes what getopt has found for a verb. */
static int option_take(struct options *o, int c, char *const *argv, const char *verb)
{
	struct safe_text wrong;

	for (size_t i = 0; i < ELEMENTSOF(rules); i++)
		if (c == RULE_VALUE(i) || (c < 256 && c == rules[i].letter))
			return rules[i].take(o, optarg);
	safe_text_option(&wrong, c, argv);
	complain(NULL, "%s: see reclaimctl %s --help", wrong.line, verb);
	return EXIT_USAGE;
}

int job_id_parse(const char *word, uint64_t *ret_id)
{
	char *end;

	errno = 0;
	*ret_id = strtoull(word, &end, 10);
	if (isdigit((unsigned char)word[0]) && *end == '\0' && errno == 0 && *ret_id > 0)
		return 0;
	complain(word[0] ? word : "''", "is no job: give a number that reclaimctl list shows");
	return EXIT_USAGE;
}

/* Every word must be a job before anything is done with one of them. */
static int jobs_check(const struct options *o)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < o->n_paths; i++) {
		uint64_t id;

		r = job_id_parse(o->paths[i], &id);
	}
	return r;
}

/* Looks whether the verb got what it works on. `what` is its name. */
static int operands_check(const struct options *o, enum verb_flags verb, const char *what)
{
	const char *missing = NULL;

	if (o->help || o->version)
		return 0;
	if (verb & (VERB_RUN | VERB_PLAN | VERB_SUBMIT) && o->n_paths == 0 && !o->files_from)
		missing = "no PATH given";
	if (verb & VERB_WAIT && o->wait == WAIT_FREE && o->n_paths != 1)
		missing = "--free= takes exactly one PATH";
	else if (verb & (VERB_SHOW | VERB_WAIT | VERB_CANCEL) && o->n_paths == 0)
		missing = "no JOB given";
	if (verb & (VERB_PAUSE | VERB_RESUME) && o->all == (o->n_paths > 0))
		missing = o->all ? "give either JOBs or --all" : "no JOB given, nor --all";
	if (verb & VERB_RESTORE && (o->n_paths == 0 || (o->to && o->n_paths > 1)))
		missing = o->to ? "--to= takes exactly one JOB" : "no JOB given";
	if (verb & (VERB_LIST | VERB_SPOOLS | VERB_STATUS | VERB_METRICS | VERB_TOP) &&
	    o->n_paths > 0)
		missing = "takes no arguments";
	if (missing) {
		complain(what, "%s: see reclaimctl %s --help", missing, what);
		return EXIT_USAGE;
	}
	if (verb & VERBS_JOBS && o->wait != WAIT_FREE)
		return jobs_check(o);
	return 0;
}

/* The same words, the verb first, are for the program on another machine. */
static int go_to(const char *host, char **given, int argc)
{
	int n = remote_words(given, argc, host);

	if (n < 0) {
		complain("-H", "must stand by itself: -H HOST");
		return EXIT_USAGE;
	}
	return remote_become(host, n, given);
}

int options_parse(struct options *o, enum verb_flags verb, int argc, char **argv)
{
	const char *what = argv[0];
	struct known known;
	char **given;
	int c, r = 0;

	*o = (struct options){ .separator = '\n', .interval_usec = USEC_PER_SEC };
	known_fill(&known, verb);
	/* getopt sorts the words; what goes to another machine goes as it was. */
	given = calloc((size_t)argc + 1, sizeof(*given));
	if (!given) {
		complain("reclaimctl", "out of memory");
		return EXIT_FAILED;
	}
	memcpy(given, argv, (size_t)argc * sizeof(*given));
	optind = 1;
	opterr = 0; /* it would write what it was given as it is */
	while (r == 0 && (c = getopt_long(argc, argv, known.letters, known.names, NULL)) != -1)
		r = option_take(o, c, argv, what);
	o->paths = argv + optind;
	o->n_paths = (size_t)(argc - optind);
	if (r == 0)
		r = operands_check(o, verb, what);
	if (r == 0 && o->host)
		r = go_to(o->host, given, argc);
	free(given);
	return r;
}
