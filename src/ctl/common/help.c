/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "help.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "base/macros.h"

static const struct part {
	unsigned verbs;
	/* Whose options these are. NULL and "": usage, with and without the daemon. */
	const char *of;
	const char *text;
} parts[] = {
	{ VERB_SUBMIT, NULL,
	  "reclaimctl submit [OPTIONS] PATH...  hand over to the daemon; gone at once\n" },
	{ VERB_LIST, NULL,
	  "reclaimctl list [--all]              the daemon's jobs; --all: finished, too\n" },
	{ VERB_SHOW, NULL, "reclaimctl show JOB...               all there is to know of a job\n" },
	{ VERB_WAIT, NULL, "reclaimctl wait JOB...               until they have finished\n" },
	{ VERB_WAIT, NULL,
	  "reclaimctl wait --free=SIZE PATH     until so much is free on its filesystem\n" },
	{ VERB_CANCEL, NULL,
	  "reclaimctl cancel JOB...             put back what has not begun; stop what has\n" },
	{ VERB_PAUSE, NULL, "reclaimctl pause JOB...|--all        leave it for now\n" },
	{ VERB_RESUME, NULL, "reclaimctl resume JOB...|--all       go on\n" },
	{ VERB_RESTORE, NULL,
	  "reclaimctl restore JOB... [--to=PATH]\n"
	  "                                     have it back, while it is held or queued\n" },
	{ VERB_SPOOLS, NULL,
	  "reclaimctl spools                    directories whose content is deleted\n" },
	{ VERB_STATUS, NULL,
	  "reclaimctl status                    the daemon, and what it does now\n" },
	{ VERB_TOP, NULL,
	  "reclaimctl top                       the same on the whole screen, with keys\n" },
	{ VERB_METRICS, NULL,
	  "reclaimctl metrics [--output=FILE]   what it counts, to be collected\n" },
	{ VERB_RUN, "",
	  "reclaimctl run [OPTIONS] PATH...     delete, in this process, without a daemon\n" },
	{ VERB_PLAN, "",
	  "reclaimctl plan [OPTIONS] PATH...    what would be done to it, how, and why\n" },
	{ VERB_DEVICES, "",
	  "reclaimctl devices [OPTIONS] [PATH...]\n"
	  "                                     which devices it is on, and their latency\n" },
	{ VERB_CHECK_CONFIG, "",
	  "reclaimctl check-config [FILE|DIR]   what is wrong with its configuration\n" },
	{ VERB_POLICY, "",
	  "reclaimctl policy list|plan [OPTIONS] [NAME...]\n"
	  "                                     what policies there are, and would delete\n" },
	{ VERB_POLICY, "",
	  "reclaimctl policy run [OPTIONS] NAME hand what it would delete to the daemon\n" },
	{ VERB_SUBMIT, "submit",
	  "  --undo=TIME               hold it for so long, so that it can be taken back\n"
	  "  --by=TIME|CLOCK           be done in 2h, or at 06:00, whatever it costs\n"
	  "  --priority=low|normal|high\n"
	  "  --wait[=done|free:SIZE]   wait until it is done, or so much is free\n" },
	{ VERB_SUBMIT | VERB_RUN, "submit and run",
	  "  --files-from=FILE|-       the names listed in FILE, one a line\n"
	  "  -0, --null                names in FILE end with NUL, not with a newline\n"
	  "  --dry-run                 check (run: walk and count, too), change nothing\n" },
	{ VERB_RUN, "run",
	  "  --latency=auto|off|TIME   auto (default): spare others' I/O on the device;\n"
	  "                            off: nothing but speed; TIME: what it may take\n"
	  "  --backend=auto|uring|threads\n"
	  "                            how names are unlinked; auto finds the better way\n"
	  "  --progress=auto|on|off    a bar on a terminal, elsewhere a line now and then\n"
	  "  -v, --verbose             the device, its latency and the rate, once a second\n"
	  "  --trace=FILE              write down what the sensors said\n"
	  "  --strategy=moosefs-snapshot[:TIME]\n"
	  "                            have MooseFS remove whole subtrees, past its trash,\n"
	  "                            holding it up TIME (20ms) at a time\n" },
	{ VERB_CANCEL | VERB_PAUSE | VERB_RESUME | VERB_RESTORE,
	  "cancel, pause, resume and restore",
	  "  --no-ask-password         nobody is asked for a password for others' jobs\n" },
	{ VERB_DEVICES | VERB_TOP, "devices and top",
	  "  --interval=TIME           how long to look for what happens now; 1s\n" },
	{ VERB_METRICS, "metrics",
	  "  --output=FILE             write to FILE, replacing it as a whole\n"
	  "  --format=openmetrics|prometheus\n"
	  "                            OpenMetrics 1.0 (default), or for node_exporter\n" },
	{ VERB_RUN | VERB_PLAN | VERB_POLICY, "run, plan and policy",
	  "  --configuration-directory=DIR\n"
	  "                            in place of /etc/reclaimd and /usr/lib/reclaimd\n" },
	{ VERB_POLICY, "policy",
	  "  --latency=auto|off|TIME   plan, run: spare others' I/O while it looks\n"
	  "  --state-directory=DIR     run: the daemon's, where the clock's course is kept\n"
	  "  --force                   run: even if it is more than max-delete\n"
	  "  --clock-is-right          run: even if the clock was set; and remember that\n" },
	{ VERBS_DAEMON, "what speaks to the daemon",
	  "  --runtime-directory=DIR   where the daemon's socket is\n" },
	{ VERBS_JSON, "all verbs",
	  "  --json[=short|pretty]     the result as JSON (all but metrics and top)\n" },
	{ VERBS_ALL, "all verbs",
	  "  -H, --host=[USER@]HOST[:PORT]\n"
	  "                            on that machine, over ssh; all paths are its own\n"
	  "  -q, --quiet               nothing but errors\n"
	  "  --no-pager                long results straight to the terminal\n"
	  "  --log-level=LEVEL         debug: tell decisions, too, on standard error\n"
	  "  -h, --help                this text; behind a verb, that of the verb\n"
	  "  --version                 the version\n" },
};

static const char status_text[] =
	"\nExit status: 0 done, 1 failed (nothing done), 2 wrong usage, 3 partly done,\n"
	"4 not authorised, 5 no daemon to talk to.\n";

static bool is_usage(const struct part *p)
{
	return !p->of || p->of[0] == '\0';
}

void help_all(void)
{
	const char *of = NULL;

	for (const struct part *p = parts; p < parts + ELEMENTSOF(parts); p++) {
		bool begins = p->of && (!of || strcmp(p->of, of) != 0);

		if (begins && is_usage(p))
			(void)putchar('\n');
		else if (begins)
			(void)printf("\nOptions of %s:\n", p->of);
		of = p->of;
		(void)fputs(p->text, stdout);
	}
	(void)fputs(status_text, stdout);
}

void help_verb(unsigned verb)
{
	bool options = false;

	for (const struct part *p = parts; p < parts + ELEMENTSOF(parts); p++) {
		if (!(p->verbs & verb))
			continue;
		if (!options && !is_usage(p))
			(void)fputs("\nOptions:\n", stdout);
		options = !is_usage(p);
		(void)fputs(p->text, stdout);
	}
	(void)fputs("\nMore is in reclaimctl(1); reclaimctl --help shows all verbs.\n", stdout);
}
