/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "output.h"
#include "util/macros.h"
#include "util/units.h"

/* To look for longer than an hour is surely a slip. */
#define INTERVAL_MOST (3600 * USEC_PER_SEC)
/* A bound on a device's latency outside of this is surely a slip. */
#define LATENCY_LEAST 50ULL
#define LATENCY_MOST (60 * USEC_PER_SEC)

enum {
	OPT_LATENCY = 256,
	OPT_BACKEND,
	OPT_FILES_FROM,
	OPT_PROGRESS,
	OPT_DRY_RUN,
	OPT_JSON,
	OPT_NO_PAGER,
	OPT_INTERVAL,
	OPT_TRACE,
	OPT_CONFIGURATION_DIRECTORY,
	OPT_VERSION
};

static const struct option run_options[] = {
	{ "latency", required_argument, NULL, OPT_LATENCY },
	{ "backend", required_argument, NULL, OPT_BACKEND },
	{ "files-from", required_argument, NULL, OPT_FILES_FROM },
	{ "null", no_argument, NULL, '0' },
	{ "progress", required_argument, NULL, OPT_PROGRESS },
	{ "dry-run", no_argument, NULL, OPT_DRY_RUN },
	{ "trace", required_argument, NULL, OPT_TRACE },
	{ "verbose", no_argument, NULL, 'v' },
	{ "json", optional_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	{ "no-pager", no_argument, NULL, OPT_NO_PAGER },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ 0 },
};

static const struct option common_options[] = {
	{ "json", optional_argument, NULL, OPT_JSON },   { "quiet", no_argument, NULL, 'q' },
	{ "no-pager", no_argument, NULL, OPT_NO_PAGER }, { "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },   { 0 },
};

static const struct option devices_options[] = {
	{ "interval", required_argument, NULL, OPT_INTERVAL },
	{ "json", optional_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	{ "no-pager", no_argument, NULL, OPT_NO_PAGER },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ 0 },
};

static const struct option policy_options[] = {
	{ "configuration-directory", required_argument, NULL, OPT_CONFIGURATION_DIRECTORY },
	{ "json", optional_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	{ "no-pager", no_argument, NULL, OPT_NO_PAGER },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ 0 },
};

struct choice {
	const char *word;
	int value;
};

/* Finds a word among choices, or says which are accepted. */
static int choose(const char *option, const char *word, const struct choice *c, size_t n,
		  const char *accepted, int *ret)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(word, c[i].word) == 0) {
			*ret = c[i].value;
			return 0;
		}
	complain(word, "is not accepted by %s: give %s", option, accepted);
	return EXIT_USAGE;
}

static int backend_parse(struct options *o, const char *word)
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

static int json_parse(struct options *o, const char *word)
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

static int progress_parse(struct options *o, const char *word)
{
	static const struct choice choices[] = { { "auto", SWITCH_AUTO },
						 { "on", SWITCH_ON },
						 { "off", SWITCH_OFF } };
	int value = SWITCH_AUTO;
	int r = choose("--progress", word, choices, ELEMENTSOF(choices), "auto, on or off", &value);

	o->progress = (enum switch_mode)value;
	return r;
}

static int latency_parse(struct options *o, const char *word)
{
	o->latency_off = strcmp(word, "off") == 0;
	o->latency_usec = 0;
	if (o->latency_off || strcmp(word, "auto") == 0)
		return 0;
	if (timespan_parse(word, &o->latency_usec) >= 0 && o->latency_usec >= LATENCY_LEAST &&
	    o->latency_usec <= LATENCY_MOST)
		return 0;
	complain(word[0] ? word : "''",
		 "is not accepted by --latency: give auto, off, or a time from 50us to 1min "
		 "such as 5ms");
	return EXIT_USAGE;
}

static int interval_parse(struct options *o, const char *word)
{
	if (timespan_parse(word, &o->interval_usec) >= 0 && o->interval_usec <= INTERVAL_MOST)
		return 0;
	complain(word, "is not accepted by --interval: give a time up to 1h, such as 500ms");
	return EXIT_USAGE;
}

static int option_take(struct options *o, int c, const char *arg)
{
	switch (c) {
	case OPT_LATENCY:
		return latency_parse(o, arg);
	case OPT_BACKEND:
		return backend_parse(o, arg);
	case OPT_PROGRESS:
		return progress_parse(o, arg);
	case OPT_JSON:
		return json_parse(o, arg);
	case OPT_INTERVAL:
		return interval_parse(o, arg);
	case OPT_FILES_FROM:
		o->files_from = arg;
		return 0;
	case '0':
		o->separator = '\0';
		return 0;
	case OPT_DRY_RUN:
		o->dry_run = true;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case OPT_TRACE:
		o->trace = arg;
		return 0;
	case OPT_CONFIGURATION_DIRECTORY:
		o->configuration_directory = arg;
		return 0;
	case OPT_NO_PAGER:
		return 0; /* nothing here is long enough for one */
	case 'h':
		o->help = true;
		return 0;
	case OPT_VERSION:
		o->version = true;
		return 0;
	default:
		return EXIT_USAGE; /* getopt has said why */
	}
}

static const struct option *options_of(enum verb_flags verb)
{
	switch (verb) {
	case VERB_RUN:
		return run_options;
	case VERB_PLAN:
	case VERB_CHECK_CONFIG:
		return common_options;
	case VERB_POLICY:
		return policy_options;
	case VERB_DEVICES:
		break;
	}
	return devices_options;
}

int options_parse(struct options *o, enum verb_flags verb, int argc, char **argv)
{
	const struct option *known = options_of(verb);
	int c;

	*o = (struct options){ .separator = '\n', .interval_usec = USEC_PER_SEC };
	/* getopt speaks in the name of argv[0], which here is the verb. */
	argv[0] = (char *)"reclaimctl";
	optind = 1;
	while ((c = getopt_long(argc, argv, verb == VERB_RUN ? "0qvh" : "qh", known, NULL)) != -1) {
		int r = option_take(o, c, optarg);
		if (r)
			return r;
	}
	o->paths = argv + optind;
	o->n_paths = (size_t)(argc - optind);
	if (o->help || o->version || o->n_paths > 0 || o->files_from ||
	    (verb & (VERB_DEVICES | VERB_CHECK_CONFIG | VERB_POLICY)))
		return 0;
	complain(verb == VERB_RUN ? "run" : "plan", "no PATH given: see reclaimctl --help");
	return EXIT_USAGE;
}
