/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl, the command line: the table of verbs, with what --help says of them. */
#include <errno.h>
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
#include "ctl/output/screen.h"

/* What a verb is called with. */
enum connection {
	NONE,       /* it needs no daemon, or connects itself */
	DAEMON,     /* there is none: an error */
	SOCKET,     /* the same, by the socket first */
	ASKING,     /* the same, and a person may be asked whether it may be done */
	IF_IT_RUNS, /* NULL if none runs */
};

static verb_function verb_help;

/* In the order of the help: first the verbs that call the daemon. */
static const struct verb {
	const char *name;
	enum verb_flags flag;
	enum connection connection;
	verb_function *run;
	struct usage {
		const char *syntax, *words; /* NULL: there is no more */
	} usage[5];
	const char *examples; /* lines, with options of this verb alone */
} verbs[] = {
	{ "submit",
	  VERB_SUBMIT,
	  NONE,
	  verb_submit,
	  { { "submit [OPTIONS] PATH...", "have the daemon delete it; gone at once" } },
	  "reclaimctl submit --undo=1h /backups/old.tar.gz\n"
	  "reclaimctl submit --by=06:00 --priority=low /srv/scratch/build-1234\n"
	  "find /srv/cache -mtime +7 -print0 | reclaimctl submit --files-from=- --null\n" },
	{ "list",
	  VERB_LIST,
	  SOCKET,
	  verb_list,
	  { { "list [OPTIONS]", "the daemon's jobs; --all: finished, too" } },
	  "reclaimctl list --all -n 20\n"
	  "reclaimctl list --state=failed,partial --user=root\n"
	  "reclaimctl list --fleet\n"
	  "reclaimctl list --json=pretty\n" },
	{ "show",
	  VERB_SHOW,
	  DAEMON,
	  verb_show,
	  { { "show [--all] JOB...", "all that is known of a job" } },
	  "reclaimctl show 12\n"
	  "reclaimctl show --json=pretty 12 13\n" },
	{ "wait",
	  VERB_WAIT,
	  DAEMON,
	  verb_wait,
	  { { "wait JOB...", "until they have finished" },
	    { "wait --free=SIZE PATH", "until so much is free on its filesystem" } },
	  "reclaimctl wait 12 13\n"
	  "reclaimctl wait --free=10% /backups\n" },
	{ "cancel",
	  VERB_CANCEL,
	  ASKING,
	  verb_cancel,
	  { { "cancel JOB...", "put back what has not begun; stop what has" } },
	  "reclaimctl cancel 12\n" },
	{ "pause",
	  VERB_PAUSE,
	  ASKING,
	  verb_pause,
	  { { "pause JOB...|--all", "stop deleting until it is resumed" } },
	  "reclaimctl pause 12\n"
	  "reclaimctl pause --all\n" },
	{ "resume",
	  VERB_RESUME,
	  ASKING,
	  verb_resume,
	  { { "resume JOB...|--all", "go on deleting" } },
	  "reclaimctl resume 12\n"
	  "reclaimctl resume --all\n" },
	{ "restore",
	  VERB_RESTORE,
	  ASKING,
	  verb_restore,
	  { { "restore JOB... [--to=PATH]", "move it back, while it is held or queued" } },
	  "reclaimctl restore 12\n"
	  "reclaimctl restore 12 --to=/srv/scratch/build-1234.saved\n" },
	{ "retry",
	  VERB_RETRY,
	  SOCKET,
	  verb_retry,
	  { { "retry JOB...", "submit again what it could not delete" } },
	  "reclaimctl retry 12\n" },
	{ "set",
	  VERB_SET,
	  ASKING,
	  verb_set,
	  { { "set [OPTIONS] JOB...", "another priority, or time to be done by" } },
	  "reclaimctl set --priority=high 12\n"
	  "reclaimctl set --by=06:00 12 13\n"
	  "reclaimctl set --by=none 12\n" },
	{ "spools",
	  VERB_SPOOLS,
	  DAEMON,
	  verb_spools,
	  { { "spools", "directories whose content is deleted" } },
	  "reclaimctl spools\n"
	  "reclaimctl spools --json=pretty\n" },
	{ "status",
	  VERB_STATUS,
	  DAEMON,
	  verb_status,
	  { { "status", "the daemon, and what it does now" } },
	  "reclaimctl status\n"
	  "reclaimctl status --json\n" },
	{ "top",
	  VERB_TOP,
	  NONE,
	  verb_top,
	  { { "top", "the same on the whole screen, with keys" } },
	  "reclaimctl top --interval=250ms\n" },
	{ "metrics",
	  VERB_METRICS,
	  IF_IT_RUNS,
	  verb_metrics,
	  { { "metrics [--output=FILE]", "the daemon's counters, for monitoring" } },
	  "reclaimctl metrics\n"
	  "reclaimctl metrics --output=/srv/metrics/reclaimd.prom --format=prometheus\n" },
	{ "run",
	  VERB_RUN,
	  NONE,
	  verb_run,
	  { { "run [OPTIONS] PATH...", "delete, in this process, without a daemon" } },
	  "reclaimctl run --dry-run /srv/scratch/build-1234\n"
	  "reclaimctl run /srv/scratch/build-1234 /backups/old.tar.gz\n"
	  "reclaimctl run --latency=5ms --files-from=/var/tmp/expired.list\n" },
	{ "trim",
	  VERB_TRIM,
	  NONE,
	  verb_trim,
	  { { "trim [OPTIONS] PATH...|--all", "tell devices what is free, in small steps" } },
	  "reclaimctl trim --dry-run /srv\n"
	  "reclaimctl trim --all\n" },
	{ "plan",
	  VERB_PLAN,
	  NONE,
	  verb_plan,
	  { { "plan [OPTIONS] PATH...", "what would be deleted, how, and why" } },
	  "reclaimctl plan /srv/scratch/build-1234\n"
	  "reclaimctl plan --json=pretty /backups/old.tar.gz\n" },
	{ "pin",
	  VERB_PIN,
	  NONE,
	  verb_pin,
	  { { "pin [--until=DATE|TIME] PATH...", "keep it from being deleted" },
	    { "pin --list PATH...", "whether it is pinned, and until when" } },
	  "reclaimctl pin --until=2027-01-31 /backups/before-migration.tar.gz\n"
	  "reclaimctl pin --until=30d /srv/scratch/build-1234\n"
	  "reclaimctl pin --list /backups\n" },
	{ "unpin",
	  VERB_UNPIN,
	  NONE,
	  verb_unpin,
	  { { "unpin PATH...", "let it be deleted again" } },
	  "reclaimctl unpin /backups/before-migration.tar.gz\n" },
	{ "devices",
	  VERB_DEVICES,
	  IF_IT_RUNS,
	  verb_devices,
	  { { "devices [OPTIONS] [PATH...]", "which devices it is on, and their latency" } },
	  "reclaimctl devices --interval=10s /backups\n"
	  "reclaimctl devices --interval=0 --json\n" },
	{ "check-config",
	  VERB_CHECK_CONFIG,
	  NONE,
	  verb_check_config,
	  { { "check-config [--user] [FILE|DIR]", "what is wrong with the configuration" } },
	  "reclaimctl check-config\n"
	  "reclaimctl check-config --user\n"
	  "reclaimctl check-config /etc/reclaimd/reclaimd.yaml\n" },
	{ "policy",
	  VERB_POLICY,
	  NONE,
	  verb_policy,
	  { { "policy list", "the retention policies" },
	    { "policy plan [OPTIONS] [NAME...]", "what they would delete, and why" },
	    { "policy run [OPTIONS] NAME", "have the daemon delete what it selects" } },
	  "reclaimctl policy list\n"
	  "reclaimctl policy plan pg-backups\n"
	  "reclaimctl policy run --dry-run pg-backups\n" },
	{ "fleet",
	  VERB_FLEET,
	  NONE,
	  verb_fleet,
	  { { "fleet hosts", "the hosts that delete together" },
	    { "fleet units", "what of their jobs is shared, and where" },
	    { "fleet init", "set up or update their database" } },
	  "reclaimctl fleet hosts\n"
	  "reclaimctl fleet init --database=\"host=db dbname=reclaimd user=owner\"\n" },
	{ "help",
	  VERB_HELP,
	  NONE,
	  verb_help,
	  { { "help [VERB]", "this text, or that of a verb" } },
	  "reclaimctl help submit\n" },
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
	struct similar similar = { .word = name };

	for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
		similar_offer(&similar, verbs[i].name);
	if (similar.near)
		complain(name, "no such command: did you mean %s?", similar.near);
	else
		complain(name[0] ? name : "''", "no such command: see reclaimctl --help");
	return EXIT_USAGE;
}

/* Where the words are that say what is done. */
#define WORDS_COLUMN 37

/* "reclaimctl SYNTAX   what is done", for the list of all verbs. */
static void usage_print(const struct usage *u)
{
	int at = printf("reclaimctl %s", u->syntax);

	if (at >= WORDS_COLUMN) {
		(void)putchar('\n');
		at = 0;
	}
	(void)printf("%*s%s\n", WORDS_COLUMN - at, "", u->words);
}

static void help_of(const struct verb *v)
{
	for (const struct usage *u = v->usage; u->syntax; u++)
		(void)printf("%s reclaimctl %s\n         %s\n", u == v->usage ? "Usage:" : "      ",
			     u->syntax, u->words);
	options_help(v->flag);
	(void)fputs("\nExamples:\n", stdout);
	for (const char *line = v->examples; *line; line += strcspn(line, "\n") + 1)
		(void)printf("  %.*s\n", (int)strcspn(line, "\n"), line);
	(void)fputs("\nMore is in reclaimctl(1); reclaimctl --help shows all verbs.\n", stdout);
}

/* All verbs, or one. */
static int help(const struct verb *verb)
{
	if (verb) {
		help_of(verb);
		return EXIT_DONE;
	}
	(void)fputs("Usage: reclaimctl [OPTIONS] VERB ...\n\n", stdout);
	for (const struct verb *v = verbs; v < verbs + ELEMENTSOF(verbs); v++) {
		(void)fputs(v->flag == VERB_RUN ? "\n" : "", stdout);
		for (const struct usage *u = v->usage; u->syntax; u++)
			usage_print(u);
	}
	options_help(VERBS_ALL);
	(void)fputs(
		"\nExit status: 0 done, 1 failed (nothing done), 2 wrong usage, 3 partly done,\n"
		"4 not authorised, 5 no daemon to talk to.\n",
		stdout);
	return EXIT_DONE;
}

static int verb_help(const struct options *o, struct client *c)
{
	const struct verb *verb = o->n_paths > 0 ? verb_find(o->paths[0]) : NULL;

	(void)c;
	return o->n_paths > 0 && !verb ? verb_unknown(o->paths[0]) : help(verb);
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
		c = client_try(&o, /* socket_first= */ false);
	else if (r == 0 && verb->connection != NONE)
		/* The directory of restore --to= goes along as a descriptor. */
		r = client_open(&c, &o, verb->connection == SOCKET || o.to);
	if (r == 0 && verb->connection == ASKING)
		client_asks(c, &o);
	return r ? r : verb->run(&o, c);
}

/* There is no verb: what is wrong may be one of the options. */
static int verb_missing(int argc, char **argv)
{
	struct options o;
	int r = options_parse(&o, VERBS_ALL, argc, argv);

	if (r)
		return r;
	return o.version ? version() : help(NULL);
}

static int dispatch(int argc, char **argv)
{
	bool found = options_verb_first(argc, argv);
	const struct verb *verb = found ? verb_find(argv[1]) : NULL;

	if (has_word(argc, argv, "-h", "--help") && (verb || !found))
		return help(verb);
	if (has_word(argc, argv, "--version", "--version"))
		return version();
	if (!found)
		return verb_missing(argc, argv);
	return verb ? verb_call(verb, argc - 1, argv + 1) : verb_unknown(argv[1]);
}

/* Flushes standard output. A result that could not be written is not a success, but what was
 * changed before stays changed, so the message names it. Returns the exit status. */
static int output_end(int status)
{
	int r = fflush(stdout) != 0 ? errno : 0;
	const char *done = outcome_text();

	if (r == 0 && !ferror(stdout))
		return status;
	complain("standard output", "the result could not be written%s%s%s%s", r ? ": " : "",
		 r ? strerror(r) : "", done ? ". This was done all the same: " : "",
		 done ? done : "");
	if (status)
		return status;
	return done ? EXIT_PARTLY : EXIT_FAILED;
}

int main(int argc, char **argv)
{
	debug_begin();
	screen_locale();
	return output_end(dispatch(argc, argv));
}
