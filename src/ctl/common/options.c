/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pwd.h>
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
#include "base/similar.h"
#include "base/units.h"

/* To measure for longer than an hour is surely a slip. */
#define INTERVAL_MOST (3600 * USEC_PER_SEC)
/* A bound on a device's latency outside of this is surely a slip. */
#define LATENCY_LEAST 50ULL
#define LATENCY_MOST (60 * USEC_PER_SEC)
#define LATENCY_ACCEPTED "auto, off, or a time from 50us to 1min such as 5ms"

/* Where --help says what an option does. */
#define HELP_COLUMN 28

/* What takes jobs. */
#define VERBS_JOBS                                                                                 \
	(VERB_SHOW | VERB_WAIT | VERB_CANCEL | VERB_PAUSE | VERB_RESUME | VERB_RESTORE |           \
	 VERB_RETRY | VERB_SET)

/* Each of these takes the argument of an option. Returns 0, -1 if it is not accepted, or EXIT_USAGE
 * after having said what is wrong. */
static int take_backend(struct options *o, const char *word)
{
	o->fixed_backend = strcmp(word, "auto") != 0;
	o->backend = strcmp(word, "uring") == 0 ? BACKEND_URING : BACKEND_THREADS;
	return o->fixed_backend && o->backend == BACKEND_THREADS && strcmp(word, "threads") != 0
		       ? -1
		       : 0;
}

static int take_latency(struct options *o, const char *word)
{
	o->latency_off = strcmp(word, "off") == 0;
	o->latency_usec = 0;
	if (o->latency_off || strcmp(word, "auto") == 0)
		return 0;
	return timespan_parse(word, &o->latency_usec) >= 0 && o->latency_usec >= LATENCY_LEAST &&
			       o->latency_usec <= LATENCY_MOST
		       ? 0
		       : -1;
}

static int take_strategy(struct options *o, const char *word)
{
	static const char moosefs[] = "moosefs-snapshot";
	size_t len = strlen(moosefs);

	o->stall_usec = strcmp(word, "auto") == 0 ? 0 : MOOSEFS_STALL_USEC;
	if (o->stall_usec == 0 || strcmp(word, moosefs) == 0)
		return 0;
	return strncmp(word, moosefs, len) == 0 && word[len] == ':' &&
			       timespan_parse(word + len + 1, &o->stall_usec) >= 0 &&
			       o->stall_usec >= MOOSEFS_STALL_LEAST &&
			       o->stall_usec <= MOOSEFS_STALL_MOST
		       ? 0
		       : -1;
}

static int take_min(struct options *o, const char *word)
{
	return size_parse(word, &o->min_bytes) < 0 || o->min_bytes == 0 ? -1 : 0;
}

static int take_interval(struct options *o, const char *word)
{
	return timespan_parse(word, &o->interval_usec) >= 0 && o->interval_usec <= INTERVAL_MOST
		       ? 0
		       : -1;
}

static int take_undo(struct options *o, const char *word)
{
	o->has_undo = true;
	return timespan_parse(word, &o->undo_usec) < 0 ? -1 : 0;
}

static int take_by(struct options *o, const char *word)
{
	o->has_by = true;
	o->by_usec = 0;
	if (strcmp(word, "none") == 0)
		return 0;
	return timestamp_parse(word, realtime_usec(), &o->by_usec) < 0 ? -1 : 0;
}

/* A day is pinned to its end. */
static int take_until(struct options *o, const char *word)
{
	char end_of_day[32];

	if (strlen(word) == strlen("2027-01-31") && word[4] == '-') {
		(void)snprintf(end_of_day, sizeof(end_of_day), "%s 23:59:59", word);
		word = end_of_day;
	}
	return timestamp_parse(word, realtime_usec(), &o->until_usec) < 0 ? -1 : 0;
}

static int take_free(struct options *o, const char *word)
{
	bool is_share = strchr(word, '%') != NULL;
	int r = is_share ? share_parse(word, &o->free.share) : size_parse(word, &o->free.bytes);

	o->wait = WAIT_FREE;
	o->free.is_share = is_share;
	return r < 0 ? -1 : 0;
}

static int take_wait(struct options *o, const char *word)
{
	o->wait = WAIT_DONE;
	if (!word || strcmp(word, "done") == 0)
		return 0;
	return strncmp(word, "free:", 5) == 0 ? take_free(o, word + 5) : -1;
}

static int take_states(struct options *o, const char *word)
{
	static const char *const states[] = { "accepted",  "held",    "queued",  "running",
					      "paused",    "done",    "partial", "failed",
					      "cancelled", "restored" };

	o->states = word;
	for (size_t len;; word += len + 1) {
		size_t i = 0;

		len = strcspn(word, ",");
		while (i < ELEMENTSOF(states) &&
		       (strlen(states[i]) != len || strncmp(states[i], word, len) != 0))
			i++;
		if (i == ELEMENTSOF(states))
			return -1;
		if (word[len] == '\0')
			return 0;
	}
}

/* Parses digits and nothing else. */
static bool number_take(const char *word, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(word, &end, 10);
	return isdigit((unsigned char)word[0]) && *end == '\0' && errno == 0;
}

static int take_user(struct options *o, const char *word)
{
	const struct passwd *p = getpwnam(word);
	uint64_t n = 0;

	if (!p && (!number_take(word, &n) || n >= UINT32_MAX))
		return -1;
	o->one_user = true;
	o->uid = p ? p->pw_uid : (uid_t)n;
	return 0;
}

static int take_lines(struct options *o, const char *word)
{
	return number_take(word, &o->lines) && o->lines > 0 ? 0 : -1;
}

static int take_log_level(struct options *o, const char *word)
{
	(void)o;
	return debug_set_level(word) < 0 ? -1 : 0;
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

#define FIELD(name) .at = offsetof(struct options, name)

/* All options: which verbs have them, what they take, where it goes, and what --help says of them.
 * They are in the order of the help, in which those with the same heading stand together. */
static const struct rule {
	const char *name;
	char letter; /* 0: none */
	unsigned verbs;
	int (*take)(struct options *o, const char *word); /* word: NULL if there is none */
	/* Without take: what has no argument is a bool, and what has choices the number of one, 1
	 * without an argument. Other arguments are texts, not empty where `accepted` says what. */
	size_t at;
	const char *accepted;   /* said of what is refused */
	const char *choices[4]; /* by their numbers */
	const char *of;         /* the heading, where it is another than before */
	const char *syntax;     /* of the argument, in brackets if there need be none, or NULL */
	const char *help;       /* lines */
} rules[] = {
	{ "undo", 0, VERB_SUBMIT, take_undo, .accepted = "a time such as 1h, or 0", .of = "submit",
	  .syntax = "=TIME", .help = "hold it for so long, so that it can be taken back" },
	{ "wait", 0, VERB_SUBMIT, take_wait,
	  .accepted = "done, or free:SIZE such as free:120G or free:10%",
	  .syntax = "[=done|free:SIZE]", .help = "wait until it is done, or so much is free" },
	{ "by", 0, VERB_SUBMIT | VERB_SET, take_by,
	  .accepted = "a time of day such as 06:00, or a time from now such as 2h, that is still "
		      "to come; or none",
	  .of = "submit and set", .syntax = "=TIME|CLOCK|none",
	  .help = "be done in 2h, or at 06:00, whatever it costs" },
	{ "priority", 0, VERB_SUBMIT | VERB_SET, FIELD(priority), .accepted = "low, normal or high",
	  .choices = { [1] = "low", "normal", "high" }, .syntax = "=low|normal|high" },
	{ "free", 0, VERB_WAIT, take_free,
	  .accepted = "a size such as 120G, or a share such as 10%", .of = "wait",
	  .syntax = "=SIZE", .help = "wait until so much is free, such as 120G or 10%" },
	{ "files-from", 0, VERB_SUBMIT | VERB_RUN, FIELD(files_from), .of = "submit and run",
	  .syntax = "=FILE|-", .help = "the names listed in FILE, one a line" },
	{ "null", '0', VERB_SUBMIT | VERB_RUN, FIELD(null),
	  .help = "names in FILE end with NUL, not with a newline" },
	{ "dry-run", 0, VERB_SUBMIT | VERB_RUN | VERB_TRIM | VERB_POLICY, FIELD(dry_run),
	  .help = "check (run: walk and count; trim: say how;\npolicy run: all but the job);\n"
		  "change nothing" },
	{ "latency", 0, VERB_RUN | VERB_TRIM, take_latency, .accepted = LATENCY_ACCEPTED,
	  .of = "run and trim", .syntax = "=auto|off|TIME",
	  .help = "auto (default): spare foreground I/O on the device;\noff: nothing but speed; "
		  "TIME: what it may take" },
	{ "progress", 0, VERB_RUN | VERB_TRIM, FIELD(progress), .accepted = "auto, on or off",
	  .choices = { [SWITCH_AUTO] = "auto", [SWITCH_ON] = "on", [SWITCH_OFF] = "off" },
	  .syntax = "=auto|on|off", .help = "a bar on a terminal, elsewhere a line now and then" },
	{ "verbose", 'v', VERB_RUN | VERB_TRIM, FIELD(verbose),
	  .help = "once a second: the device, its latency, the rate;\ntrim: its last and its "
		  "longest step" },
	{ "backend", 0, VERB_RUN, take_backend, .accepted = "auto, uring or threads", .of = "run",
	  .syntax = "=auto|uring|threads",
	  .help = "how names are unlinked; auto finds the faster way" },
	{ "no-settle", 0, VERB_RUN | VERB_WAIT, FIELD(no_settle),
	  .help = "run: leave it to the kernel to write back the rest;\nwait: do not wait for "
		  "that" },
	{ "trace", 0, VERB_RUN, FIELD(trace), .syntax = "=FILE",
	  .help = "write what the sensors measure to FILE" },
	{ "strategy", 0, VERB_RUN, take_strategy,
	  .accepted = "auto, moosefs-snapshot, or with what its master may be held up, from 1ms "
		      "to 10s: moosefs-snapshot:20ms",
	  .syntax = "=moosefs-snapshot[:TIME]",
	  .help = "have MooseFS remove whole subtrees, past its trash,\nholding it up TIME (20ms) "
		  "at a time" },
	{ "all", 0, VERB_TRIM, FIELD(all), .of = "trim",
	  .help = "all mounted filesystems whose devices discard" },
	{ "configured", 0, VERB_TRIM, FIELD(configured),
	  .help = "as the configuration says; without PATH all\nfilesystems without a schedule of "
		  "their own" },
	{ "min", 0, VERB_TRIM, take_min, .accepted = "a size above 0, such as 1M",
	  .syntax = "=SIZE", .help = "leave what is free in smaller pieces" },
	{ "all", 0, VERB_LIST, FIELD(all), .of = "list", .help = "finished jobs, too" },
	{ "all", 0, VERB_SHOW, FIELD(all), .of = "show", .help = "all names and problems" },
	{ "state", 0, VERB_LIST, take_states,
	  .accepted = "accepted, held, queued, running, paused, done, partial, failed, cancelled "
		      "or restored; or several, with commas between them",
	  .syntax = "=STATE[,STATE...]", .help = "those in these states, such as failed,partial" },
	{ "user", 0, VERB_LIST, take_user, .accepted = "a user's name or number", .syntax = "=USER",
	  .help = "those of this user" },
	{ "lines", 'n', VERB_LIST, take_lines, .accepted = "a number above 0", .syntax = "=NUMBER",
	  .help = "so many, the newest" },
	{ "fleet", 0, VERB_LIST, FIELD(fleet),
	  .help = "those that are shared, of all hosts of the fleet" },
	{ "no-legend", 0, VERB_LIST | VERB_SPOOLS, FIELD(no_legend), .of = "list and spools",
	  .help = "no titles above the table, and no sum below it" },
	{ "all", 0, VERB_PAUSE | VERB_RESUME, FIELD(all), .of = "pause and resume",
	  .help = "all jobs, and those to come" },
	{ "to", 0, VERB_RESTORE, FIELD(to), .of = "restore", .syntax = "=PATH",
	  .help = "move it to PATH, not to where it was" },
	{ "no-ask-password", 0, VERB_CANCEL | VERB_PAUSE | VERB_RESUME | VERB_RESTORE | VERB_SET,
	  FIELD(no_ask_password), .of = "cancel, pause, resume, restore and set",
	  .help = "never ask for a password for what is not yours" },
	{ "until", 0, VERB_PIN, take_until,
	  .accepted =
		  "a date such as 2027-01-31 or \"2027-01-31 12:00\", or a time from now such as "
		  "30d, that is still to come",
	  .of = "pin", .syntax = "=DATE|TIME", .help = "to the end of that day, or for so long" },
	{ "list", 0, VERB_PIN, FIELD(list), .help = "change nothing: say whether they are pinned" },
	{ "interval", 0, VERB_DEVICES | VERB_TOP, take_interval,
	  .accepted = "a time up to 1h, such as 500ms", .of = "devices and top", .syntax = "=TIME",
	  .help = "how long to measure what happens now; 1s" },
	{ "output", 0, VERB_METRICS, FIELD(output), .accepted = "a file", .of = "metrics",
	  .syntax = "=FILE", .help = "write to FILE, replacing it as a whole" },
	{ "format", 0, VERB_METRICS, FIELD(format), .accepted = "openmetrics or prometheus",
	  .choices = { [FORMAT_OPENMETRICS] = "openmetrics", [FORMAT_PROMETHEUS] = "prometheus" },
	  .syntax = "=openmetrics|prometheus",
	  .help = "OpenMetrics 1.0 (default), or for node_exporter" },
	{ "configuration-directory", 0,
	  VERB_RUN | VERB_TRIM | VERB_PLAN | VERB_POLICY | VERB_FLEET | VERB_LIST,
	  FIELD(configuration_dir), .accepted = "a directory",
	  .of = "run, trim, plan, policy, fleet and list --fleet", .syntax = "=DIR",
	  .help = "in place of /etc/reclaimd and /usr/lib/reclaimd" },
	{ "user", 0, VERB_POLICY | VERB_CHECK_CONFIG, FIELD(user), .of = "policy and check-config",
	  .help = "your own policies, with your own rights" },
	{ "latency", 0, VERB_POLICY, take_latency, .accepted = LATENCY_ACCEPTED, .of = "policy",
	  .syntax = "=auto|off|TIME", .help = "plan, run: spare foreground I/O during the scan" },
	{ "state-directory", 0, VERB_POLICY | VERB_TRIM, FIELD(state_dir),
	  .accepted = "a directory", .of = "policy and trim", .syntax = "=DIR",
	  .help = "where results are kept" },
	{ "force", 0, VERB_POLICY, FIELD(force), .of = "policy",
	  .help = "run: all of it, even if it is more than max-delete" },
	{ "wait", 0, VERB_POLICY, FIELD(wait), .accepted = "done",
	  .choices = { [WAIT_DONE] = "done" }, .syntax = "[=done]",
	  .help = "run: wait until its job has ended" },
	{ "clock-is-right", 0, VERB_POLICY, FIELD(clock_is_right),
	  .help = "run: even if the clock was set; and remember that" },
	{ "database", 0, VERB_FLEET | VERB_LIST, FIELD(database), .accepted = "a connection string",
	  .of = "fleet and list --fleet", .syntax = "=CONNECTION",
	  .help = "in place of the one that is configured" },
	{ "runtime-directory", 0, VERBS_DAEMON, FIELD(runtime_dir), .accepted = "a directory",
	  .of = "verbs that call the daemon", .syntax = "=DIR",
	  .help = "where the daemon's socket is" },
	{ "machine", 'M', VERBS_MACHINE, FIELD(machine), .accepted = "a machine's name",
	  .syntax = "=MACHINE", .help = "the daemon in this container" },
	{ "json", 0, VERBS_JSON, FIELD(json), .accepted = "short, pretty or off",
	  .choices = { [JSON_SHORT] = "short", [JSON_PRETTY] = "pretty", [JSON_OFF] = "off" },
	  .of = "all verbs", .syntax = "[=short|pretty]",
	  .help = "the result as JSON (all but help, metrics and top)" },
	{ "host", 'H', VERBS_ALL, take_host, .syntax = "=[USER@]HOST[:PORT]",
	  .help = "on that machine, over ssh; all paths are its own" },
	{ "quiet", 'q', VERBS_ALL, FIELD(quiet), .help = "nothing but errors" },
	{ "no-pager", 0, VERBS_ALL, FIELD(no_pager),
	  .help = "long results straight to the terminal" },
	{ "log-level", 0, VERBS_ALL, take_log_level, .accepted = DEBUG_LEVELS, .syntax = "=LEVEL",
	  .help = "debug: tell decisions, too, on standard error" },
	{ "help", 'h', VERBS_ALL, FIELD(help), .help = "this text; with a verb, that of the verb" },
	{ "version", 0, VERBS_ALL, FIELD(version), .help = "the version" },
};

/* "  -x, --name=ARGUMENT       what it does", and more lines of that below it. */
static void rule_print(const struct rule *r)
{
	char letter[] = "-x, ";
	int at;

	letter[1] = r->letter;
	at = printf("  %s--%s%s", r->letter ? letter : "", r->name, r->syntax ? r->syntax : "");
	if (at >= HELP_COLUMN || !r->help) {
		(void)putchar('\n');
		at = 0;
	}
	for (const char *line = r->help; line; at = 0) {
		int len = (int)strcspn(line, "\n");

		(void)printf("%*s%.*s\n", HELP_COLUMN - at, "", len, line);
		line = line[len] ? line + len + 1 : NULL;
	}
}

void options_help(unsigned verbs)
{
	bool all = verbs == VERBS_ALL;

	if (!all)
		(void)fputs("\nOptions:\n", stdout);
	for (const struct rule *r = rules; r < rules + ELEMENTSOF(rules); r++) {
		if (!(r->verbs & verbs))
			continue;
		if (all && r->of)
			(void)printf("\nOptions of %s:\n", r->of);
		rule_print(r);
	}
}

/* Puts the argument of an option where it belongs. Returns 0, or EXIT_USAGE after having said what
 * is wrong. */
static int rule_take(const struct rule *rule, struct options *o, const char *word)
{
	void *to = (char *)o + rule->at;
	int r = 0;

	if (rule->take) {
		r = rule->take(o, word);
	} else if (!rule->syntax) {
		*(bool *)to = true;
	} else if (rule->choices[1]) {
		size_t i = 0, n = ELEMENTSOF(rule->choices);

		while (word && i < n && (!rule->choices[i] || strcmp(word, rule->choices[i]) != 0))
			i++;
		r = i < n ? 0 : -1;
		*(unsigned *)to = word ? (unsigned)i : 1;
	} else {
		r = rule->accepted && !word[0] ? -1 : 0;
		*(const char **)to = word;
	}
	if (r >= 0)
		return r;
	complain(word[0] ? word : "''", "is not accepted by --%s: give %s", rule->name,
		 rule->accepted);
	return EXIT_USAGE;
}

static int argument_kind(const struct rule *r)
{
	if (!r->syntax)
		return no_argument;
	return r->syntax[0] == '[' ? optional_argument : required_argument;
}

/* What getopt returns for a rule; 0 is left out because it stands for flags there. */
#define RULE_VALUE(i) ((int)(i) + 256)

/* The options of one verb, as getopt wants them. */
struct known {
	struct option names[ELEMENTSOF(rules) + 1];
	/* A colon where there is an argument. The plus has it stop at the first word that is none.
	 */
	char letters[2 * ELEMENTSOF(rules) + 3];
};

static void known_fill(struct known *k, enum verb_flags verb)
{
	size_t n = 0, letters = 0;

	k->letters[letters++] = '+';
	k->letters[letters++] = ':';
	for (size_t i = 0; i < ELEMENTSOF(rules); i++) {
		if (!(rules[i].verbs & verb))
			continue;
		k->names[n++] = (struct option){
			.name = rules[i].name,
			.has_arg = argument_kind(&rules[i]),
			.val = RULE_VALUE(i),
		};
		if (rules[i].letter)
			k->letters[letters++] = rules[i].letter;
		if (rules[i].letter && argument_kind(&rules[i]) == required_argument)
			k->letters[letters++] = ':';
	}
	k->names[n] = (struct option){ 0 };
	k->letters[letters] = '\0';
}

bool options_verb_first(int argc, char **argv)
{
	struct known known;
	char *verb;

	known_fill(&known, VERBS_ALL);
	optind = opterr = 0;
	while (getopt_long(argc, argv, known.letters, known.names, NULL) != -1)
		;
	if (optind >= argc)
		return false;
	verb = argv[optind];
	memmove(&argv[2], &argv[1], (size_t)(optind - 1) * sizeof(*argv));
	argv[1] = verb;
	return true;
}

/* Says what is wrong with the words of a verb (of: its name, or NULL if that need not be said), and
 * where to look. Returns EXIT_USAGE. */
static int refuse(const char *of, enum verb_flags verb, const char *name, const char *why)
{
	bool none = verb == (enum verb_flags)VERBS_ALL;

	complain(none ? NULL : of, "%s: see reclaimctl%s%s --help", why, none ? "" : " ",
		 none ? "" : name);
	return EXIT_USAGE;
}

/* The option of a verb that a word may be a slip for, or NULL. */
static const char *option_near(enum verb_flags verb, const char *word)
{
	char name[40];
	struct similar similar = { .word = name };

	if (strncmp(word, "--", 2) != 0)
		return NULL;
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (const struct rule *r = rules; r < rules + ELEMENTSOF(rules); r++)
		if (r->verbs & verb)
			similar_offer(&similar, r->name);
	return similar.near;
}

/* Takes what getopt has found for a verb. */
static int option_take(struct options *o, int c, char *const *argv, enum verb_flags verb,
		       const char *what)
{
	const char *near = c == '?' && optopt == 0 ? option_near(verb, argv[optind - 1]) : NULL;
	struct safe_text wrong;

	for (size_t i = 0; i < ELEMENTSOF(rules); i++)
		if (c == RULE_VALUE(i) || (c < 256 && c == rules[i].letter))
			return rule_take(&rules[i], o, optarg);
	safe_text_option(&wrong, c, argv);
	if (!near)
		return refuse(NULL, verb, what, wrong.line);
	complain(NULL, "%s: did you mean --%s?", wrong.line, near);
	return EXIT_USAGE;
}

int job_id_parse(const char *word, uint64_t *ret_id)
{
	if (number_take(word, ret_id) && *ret_id > 0)
		return 0;
	complain(word[0] ? word : "''", "invalid job ID: give a number that reclaimctl list shows");
	return EXIT_USAGE;
}

/* Checks that the verb has what it works on. `what` is its name. */
static int operands_check(const struct options *o, enum verb_flags verb, const char *what)
{
	const char *missing = NULL;
	uint64_t id;
	int r = 0;

	if (o->help || o->version)
		return 0;
	if (verb == (enum verb_flags)VERBS_ALL)
		return refuse(what, verb, what, "no command given");
	if (verb & (VERB_RUN | VERB_PLAN | VERB_SUBMIT | VERB_PIN | VERB_UNPIN) &&
	    o->n_paths == 0 && !o->files_from)
		missing = "no PATH given";
	if (verb & VERB_PIN && o->list && o->until_usec > 0)
		missing = "--list and --until= do not go together";
	if (verb & VERB_TRIM && o->configured && o->all)
		missing = "--configured and --all do not go together";
	else if (verb & VERB_TRIM && !o->configured && o->all == (o->n_paths > 0))
		missing = o->all ? "give either PATHs or --all" : "no PATH given, nor --all";
	if (verb & VERB_WAIT && o->wait == WAIT_FREE && o->n_paths != 1)
		missing = "--free= takes exactly one PATH";
	else if (verb & (VERB_SHOW | VERB_WAIT | VERB_CANCEL | VERB_RETRY | VERB_SET) &&
		 o->n_paths == 0)
		missing = "no JOB given";
	if (verb & VERB_LIST && !o->fleet && (o->database || o->configuration_dir))
		missing = "--database= and --configuration-directory= go with --fleet";
	else if (verb & VERB_LIST && o->fleet && (o->all || o->states))
		missing = "--all and --state= do not go with --fleet";
	else if (verb & VERB_LIST && o->fleet && o->machine)
		missing = "--fleet asks the database of this machine, not of that of --machine";
	if (verb & VERB_SET && !o->priority && !o->has_by)
		missing = "neither --priority= nor --by= given";
	if (verb & (VERB_PAUSE | VERB_RESUME) && o->all == (o->n_paths > 0))
		missing = o->all ? "give either JOBs or --all" : "no JOB given, nor --all";
	if (o->machine && o->wait == WAIT_FREE)
		missing = "--free= takes a path of this machine, not of that of --machine";
	if (verb & VERB_RESTORE && (o->n_paths == 0 || (o->to && o->n_paths > 1)))
		missing = o->to ? "--to= takes exactly one JOB" : "no JOB given";
	if (verb & (VERB_LIST | VERB_SPOOLS | VERB_STATUS | VERB_METRICS | VERB_TOP) &&
	    o->n_paths > 0)
		missing = "takes no arguments";
	if (verb & VERB_HELP && o->n_paths > 1)
		missing = "takes one VERB";
	if (missing)
		return refuse(what, verb, what, missing);
	/* Every word must be a job before anything is done with one of them. */
	for (size_t i = 0; r == 0 && verb & VERBS_JOBS && o->wait != WAIT_FREE && i < o->n_paths;
	     i++)
		r = job_id_parse(o->paths[i], &id);
	return r;
}

int options_parse(struct options *o, enum verb_flags verb, int argc, char **argv)
{
	const char *what = argv[0];
	struct known known;
	char **given;
	int c, r = 0;

	*o = (struct options){ .words = argv, .interval_usec = USEC_PER_SEC };
	known_fill(&known, verb);
	/* getopt sorts the words; what goes to another machine goes as it was. */
	given = calloc((size_t)argc + 1, sizeof(*given));
	if (!given) {
		complain("reclaimctl", "out of memory");
		return EXIT_FAILED;
	}
	memcpy(given, argv, (size_t)argc * sizeof(*given));
	optind = 0; /* it begins anew, also with how it sorts */
	opterr = 0; /* it would write what it was given as it is */
	while (r == 0 && (c = getopt_long(argc, argv, known.letters + 1, known.names, NULL)) != -1)
		r = option_take(o, c, argv, verb, what);
	o->paths = argv + optind;
	o->n_paths = (size_t)(argc - optind);
	if (r == 0)
		r = operands_check(o, verb, what);
	if (r == 0 && o->host)
		r = remote_become(o->host, argc, given);
	free(given);
	return r;
}

const char *options_environment_dir(const char *variable)
{
	const char *dir = getenv(variable);

	return dir && dir[0] == '/' && !strchr(dir, ':') ? dir : NULL;
}

const char *options_state_dir(const struct options *o)
{
	const char *dir = options_environment_dir("STATE_DIRECTORY");

	return o->state_dir ? o->state_dir : dir ? dir : "/var/lib/reclaimd";
}
