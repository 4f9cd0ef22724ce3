/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl submit: hands names over to the daemon.
 *
 * The directories are opened here, with the caller's own rights, and go to the daemon as
 * descriptors: what a name means is then the same for both, whatever is mounted or renamed
 * meanwhile. Everything is checked first; with more than one call, the daemon is asked to check
 * each before the first one is made, so that one bad path refuses all.
 *
 * With --json, one object. Keys are only ever added.
 *
 *   jobs      their ids; empty with --dry-run
 *   accepted  how many names
 *   missing   how many names of a list do not exist
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl/common/arguments.h"
#include "batches.h"
#include "ctl/common/client.h"
#include "ctl/output/interrupt.h"
#include "ctl/output/timestamps.h"
#include "ctl/output/messages.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/sealed-file.h"
#include "base/units.h"
#include "ctl/common/verbs.h"
#include "wait.h"

struct submission {
	const struct options *o;
	struct arguments in;
	struct client *client;
	struct batches batches;
	uint64_t *ids; /* of the jobs that were accepted */
	size_t n_ids;
	uint64_t accepted, missing;
};

struct answer {
	uint64_t id, accepted, missing;
};

static const char *dir_shown(const struct root_group *g)
{
	return g->dir[0] ? g->dir : ".";
}

static int options_append(sd_bus_message *m, const struct options *o, const struct call_batch *b,
			  bool dry)
{
	int r = sd_bus_message_open_container(m, 'a', "{sv}");

	if (r >= 0 && o->has_undo)
		r = sd_bus_message_append(m, "{sv}", "undo-usec", "t", o->undo_usec);
	if (r >= 0 && o->by_usec > 0)
		r = sd_bus_message_append(m, "{sv}", "by-usec", "t", o->by_usec);
	if (r >= 0 && o->priority)
		r = sd_bus_message_append(m, "{sv}", "priority", "s", o->priority);
	if (r >= 0 && dry)
		r = sd_bus_message_append(m, "{sv}", "dry-run", "b", 1);
	if (r >= 0)
		r = option_open(m, "display", "aay");
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'a', "ay");
	for (size_t i = 0; r >= 0 && i < b->n; i++) {
		const char *dir = dir_shown(b->groups[i]);

		r = sd_bus_message_append_array(m, 'y', dir, strlen(dir));
	}
	if (r >= 0)
		r = option_close(m, sd_bus_message_close_container(m));
	return r < 0 ? r : sd_bus_message_close_container(m);
}

/* The message holds a descriptor of its own. */
static int directory_append(sd_bus_message *m, const struct root_group *g)
{
	int fd = root_group_open(g), r;

	if (fd < 0) {
		complain(dir_shown(g), "cannot be opened again: %s", strerror(-fd));
		return fd;
	}
	r = sd_bus_message_append(m, "h", fd);
	if (fd != g->dirfd)
		fd_closep(&fd);
	return r;
}

static int entry_append(sd_bus_message *m, uint32_t parent, const char *name)
{
	int r = sd_bus_message_open_container(m, 'r', "uay");

	if (r >= 0)
		r = sd_bus_message_append(m, "u", parent);
	if (r >= 0)
		r = sd_bus_message_append_array(m, 'y', name, strlen(name));
	return r < 0 ? r : sd_bus_message_close_container(m);
}

/* ah a(uay): directories, and names in them. */
static int files_append(sd_bus_message *m, const struct call_batch *b)
{
	int r = sd_bus_message_open_container(m, 'a', "h");

	for (size_t i = 0; r >= 0 && i < b->n; i++)
		r = directory_append(m, b->groups[i]);
	if (r >= 0)
		r = sd_bus_message_close_container(m);
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'a', "(uay)");
	for (size_t i = 0; r >= 0 && i < b->n; i++) {
		const struct dirlist *l = &b->groups[i]->names;

		for (size_t k = 0; r >= 0 && k < l->n; k++)
			r = entry_append(m, (uint32_t)i, dirlist_name(l, &l->v[k]));
	}
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static void names_write(FILE *f, const void *what)
{
	const struct dirlist *l = what;

	for (size_t i = 0; i < l->n; i++) {
		const char *name = dirlist_name(l, &l->v[i]);

		(void)fwrite(name, 1, strlen(name) + 1, f);
	}
}

/* a(hh): directories, and files with the names in them, each ended by a NUL: in memory, and sealed,
 * so that they cannot change. */
static int lists_append(sd_bus_message *m, const struct call_batch *b)
{
	int r = sd_bus_message_open_container(m, 'a', "(hh)");

	for (size_t i = 0; r >= 0 && i < b->n; i++) {
		_cleanup_close_ int names = sealed_file(names_write, &b->groups[i]->names);

		r = names < 0 ? names : sd_bus_message_open_container(m, 'r', "hh");
		if (r >= 0)
			r = directory_append(m, b->groups[i]);
		if (r >= 0)
			r = sd_bus_message_append(m, "h", names);
		if (r >= 0)
			r = sd_bus_message_close_container(m);
	}
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int answer_read(sd_bus_message *reply, const struct call_batch *b, struct answer *ret)
{
	struct answer a = { .accepted = b->names };
	int r = sd_bus_message_read(reply, "to", &a.id, NULL);

	if (r >= 0 && b->lists)
		r = sd_bus_message_read(reply, "tt", &a.accepted, &a.missing);
	if (r < 0)
		return client_broken(r);
	*ret = a;
	return 0;
}

/* Makes one call. Returns 0 or an exit status. */
static int batch_send(struct submission *s, const struct call_batch *b, bool dry,
		      struct answer *ret)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	sd_bus_message *m = client_message(s->client, MANAGER_PATH, MANAGER_INTERFACE,
					   b->lists ? "SubmitLists" : "SubmitFiles");
	int r;

	if (!m)
		return EXIT_FAILED;
	r = b->lists ? lists_append(m, b) : files_append(m, b);
	if (r >= 0)
		r = options_append(m, s->o, b, dry);
	if (r < 0) {
		sd_bus_message_unref(m);
		return r == -ESTALE ? EXIT_FAILED : client_broken(r);
	}
	/* A million names are checked, recorded and renamed before the answer: no time is too
	 * long, and giving up would leave open what has become of them. */
	r = client_send(s->client, m, UINT64_MAX, &reply);
	return r ? r : answer_read(reply, b, ret);
}

/* "/backups/old.tar.gz", or how many names where: malloc'ed, escaped. */
static char *batch_words(const struct call_batch *b, uint64_t names)
{
	const struct root_group *g = b->groups[0];
	_cleanup_free_ char *path = NULL;
	char n[28], *words = NULL;

	if (b->names == 1 && asprintf(&path, "%s%s%s", g->dir,
				      g->dir[0] && g->dir[strlen(g->dir) - 1] != '/' ? "/" : "",
				      dirlist_name(&g->names, &g->names.v[0])) < 0)
		return NULL;
	if (path)
		return escape_name(path);
	if (b->n > 1) {
		char dirs[28];

		return asprintf(&words, "%s names in %s directories",
				count_format(n, sizeof(n), names),
				count_format(dirs, sizeof(dirs), b->n)) < 0
			       ? NULL
			       : words;
	}
	path = escape_name(dir_shown(g));
	return asprintf(&words, "%s names in %s", count_format(n, sizeof(n), names),
			path ? path : "?") < 0
		       ? NULL
		       : words;
}

/* "Job 12: /backups/old.tar.gz, to be had back until 12:30:00 (in 1h 0min)". */
static void answer_print(const struct submission *s, const struct call_batch *b,
			 const struct answer *a)
{
	_cleanup_free_ char *words = batch_words(b, a->accepted);
	uint64_t now = realtime_usec();
	char missing[28], moment[TIMESTAMP_SIZE];
	struct sentence line;
	FILE *out;

	if (s->o->quiet || s->o->json != JSON_OFF)
		return;
	out = sentence_begin(&line, stdout);
	if (s->o->dry_run)
		(void)fprintf(out, "Would submit %s", words ? words : "?");
	else if (a->id == 0)
		(void)fprintf(out, "Nothing to do");
	else
		(void)fprintf(out, "Job %" PRIu64 ": %s", a->id, words ? words : "?");
	if (a->missing > 0)
		(void)fprintf(out, "; %s do not exist",
			      count_format(missing, sizeof(missing), a->missing));
	if (s->o->undo_usec > 0 && a->id > 0)
		(void)fprintf(out, "; reclaimctl restore %" PRIu64 " has it back until %s", a->id,
			      timestamp_format(moment, sizeof(moment), now + s->o->undo_usec, now));
	sentence_end(&line);
	(void)fflush(stdout);
}

/* Asks the daemon about everything, where one call might be accepted and the next one refused. */
static int all_check(struct submission *s)
{
	for (size_t i = 0; s->batches.n > 1 && !s->o->dry_run && i < s->batches.n; i++) {
		struct answer a = { 0 };
		int r = batch_send(s, &s->batches.v[i], /* dry= */ true, &a);

		if (r) {
			complain("submit", "nothing was submitted");
			return r;
		}
	}
	return 0;
}

static int all_send(struct submission *s)
{
	for (size_t i = 0; i < s->batches.n; i++) {
		const struct call_batch *b = &s->batches.v[i];
		struct answer a = { 0 };
		int r;

		if (!s->o->dry_run)
			interrupt_says_unanswered(s->ids, s->n_ids);
		r = batch_send(s, b, s->o->dry_run, &a);

		if (r && s->n_ids > 0) {
			complain("submit", "only what is named above was submitted");
			return EXIT_PARTLY;
		}
		if (r)
			return r;
		if (a.id > 0)
			s->ids[s->n_ids++] = a.id;
		if (s->n_ids > 0)
			interrupt_says_jobs(s->ids, s->n_ids);
		s->accepted += a.accepted;
		s->missing += a.missing;
		answer_print(s, b, &a);
	}
	return 0;
}

static void print_json(const struct submission *s)
{
	uint64_t missing = s->missing + s->in.roots.missing;
	json_t *ids = json_array();

	for (size_t i = 0; i < s->n_ids; i++)
		(void)json_array_append_new(ids, json_integer((json_int_t)s->ids[i]));
	json_print(json_pack("{sosIsI}", "jobs", ids, "accepted", (json_int_t)s->accepted,
			     "missing", (json_int_t)missing),
		   s->o->json);
}

/* One bad path refuses all. */
static int take_in(struct submission *s)
{
	int r = arguments_take(&s->in, s->o, "nothing was submitted");
	size_t bad = s->in.refused + s->in.absent;

	if (bad > 0 && (s->o->n_paths > 1 || s->o->files_from))
		complain("submit", "nothing was submitted, because of what was refused above");
	return r == 0 && bad > 0 ? EXIT_FAILED : r;
}

static int divide(struct submission *s)
{
	int r = batches_make(&s->batches, &s->in.roots, client_fds_most(s->client));

	s->ids = calloc(MAX(s->batches.n, (size_t)1), sizeof(s->ids[0]));
	return r < 0 || !s->ids ? client_broken(-ENOMEM) : 0;
}

static int wait_after(struct submission *s)
{
	if (s->o->dry_run || s->n_ids == 0)
		return EXIT_DONE;
	if (s->o->wait == WAIT_DONE)
		return wait_jobs(s->client, s->o, s->ids, s->n_ids);
	if (s->o->wait == WAIT_FREE)
		return wait_free_all(s->client, s->o, &s->batches);
	return EXIT_DONE;
}

static int submit(struct submission *s)
{
	int r;

	interrupt_says("nothing was submitted");
	r = take_in(s);

	if (r)
		return r;
	r = client_open(&s->client, s->o, batches_fds(&s->in.roots) > BUS_FDS_MOST);
	if (r == 0)
		r = divide(s);
	if (r == 0)
		r = all_check(s);
	if (r == 0)
		r = all_send(s);
	if (s->o->json != JSON_OFF && (r == 0 || r == EXIT_PARTLY))
		print_json(s);
	return r ? r : wait_after(s);
}

int verb_submit(const struct options *o, struct client *c)
{
	struct submission s = { .o = o };
	int r = submit(&s);

	(void)c;
	free(s.ids);
	batches_done(&s.batches);
	client_free(s.client);
	arguments_done(&s.in);
	return r;
}
