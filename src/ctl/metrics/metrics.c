/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl metrics: what the daemon counts, for programs that collect metrics.
 *
 * Never starts a daemon: one that is not there is what monitoring shall report. To standard
 * output that is an error, in a file it is reclaimd_up 0, because a file that stays as it was tells
 * of a daemon that is well. */
#include "metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/output/messages.h"
#include "ctl/output/replace-file.h"
#include "ctl/policy/policy-state.h"
#include "ctl/trim/trim-state.h"
#include "base/fd.h"
#include "ctl/common/verbs.h"

/* Collectors run as other users. */
#define FILE_MODE 0644

struct publication {
	const struct metrics *m;
	bool openmetrics;
};

static void publication_write(FILE *f, const void *userdata)
{
	const struct publication *p = userdata;

	metrics_write(f, p->m, p->openmetrics);
}

static int publish(const struct options *o, const struct metrics *m)
{
	const struct publication p = { m, o->format == FORMAT_OPENMETRICS };
	int r = 0;

	if (o->output)
		r = file_replace(o->output, FILE_MODE, /* durable= */ false, publication_write, &p);
	else
		publication_write(stdout, &p);
	if (r < 0)
		complain(o->output, "cannot be written: %s", strerror(-r));
	return r < 0 ? EXIT_FAILED : 0;
}

static int absent(const struct options *o)
{
	int r = o->output ? publish(o, NULL) : 0;

	if (r == 0 && !o->quiet)
		complain("reclaimd", "no daemon to talk to: start it (systemctl start reclaimd)");
	return r == 0 ? EXIT_NO_DAEMON : r;
}

/* Adds the results of policies and trims, which are in the state directory. */
static void results_add(const struct options *o, struct client *c, struct metrics *m)
{
	bool wrong;

	m->trims = trim_state_read(options_state_dir(o));
	m->policies = policy_states_of_daemon(o, c, &wrong);
	if (wrong)
		(void)json_object_set_new(m->manager, "ConfigurationError",
					  json_string(CONFIGURATION_WRONG));
}

int verb_metrics(const struct options *o, struct client *c)
{
	struct metrics m = { 0 };
	int r;

	if (!c)
		return absent(o);
	r = metrics_get(c, &m);
	if (r == 0)
		results_add(o, c, &m);
	if (r == 0)
		r = publish(o, &m);
	metrics_done(&m);
	return r;
}
