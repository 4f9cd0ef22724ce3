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
#include "ctl/output/screen.h"
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
		r = sd_bus_message_append(m, "{sv}", "deadline-usec", "t", o->by_usec);
	if (r >= 0 && o->priority)
		r = sd_bus_message_append(m, "{sv}", "priority", "s", options_priority(o));
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

		for (size_t k = 0; r >= 0 && k < l->n; k++) {
			const char *name = dirlist_name(l, &l->v[k]);

			r = sd_bus_message_open_container(m, 'r', "uay");
			if (r >= 0)
				r = sd_bus_message_append(m, "u", (uint32_t)i);
			if (r >= 0)
				r = sd_bus_message_append_array(m, 'y', name, strlen(name));
			if (r >= 0)
				r = sd_bus_message_close_container(m);
		}
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
	if (r)
		return r;
	*ret = (struct answer){ .accepted = b->names };
	r = sd_bus_message_read(reply, "to", &ret->id, NULL);
	if (r >= 0 && b->lists)
		r = sd_bus_message_read(reply, "tt", &ret->accepted, &ret->missing);
	return r < 0 ? client_broken(r) : 0;
}

/* "/backups/old.tar.gz", or how many names where. */
static void names_print(FILE *out, const struct call_batch *b, uint64_t names)
{
	const struct root_group *g = b->groups[0];
	_cleanup_free_ char *dir = screen_name(b->names == 1 ? g->dir : dir_shown(g));
	char n[28], dirs[28];

	if (b->names == 1) {
		_cleanup_free_ char *name = screen_name(dirlist_name(&g->names, &g->names.v[0]));
		bool slash = g->dir[0] && g->dir[strlen(g->dir) - 1] != '/';

		(void)fprintf(out, "%s%s%s", dir ? dir : "?", slash ? "/" : "", name ? name : "?");
	} else if (b->n > 1) {
		(void)fprintf(out, "%s names in %s directories", count_format(n, sizeof(n), names),
			      count_format(dirs, sizeof(dirs), b->n));
	} else {
		(void)fprintf(out, "%s names in %s", count_format(n, sizeof(n), names),
			      dir ? dir : "?");
	}
}

/* "Job 12: /backups/old.tar.gz, to be had back until 12:30:00 (in 1h 0min)". */
static void answer_print(const struct submission *s, const struct call_batch *b,
			 const struct answer *a)
{
	uint64_t now = realtime_usec();
	char missing[28], moment[TIMESTAMP_SIZE];
	struct sentence line;
	FILE *out;

	if (s->o->quiet || s->o->json != JSON_OFF)
		return;
	out = sentence_begin(&line, stdout);
	if (s->o->dry_run)
		(void)fputs("Would submit ", out);
	else if (a->id == 0)
		(void)fputs("Nothing to do", out);
	else
		(void)fprintf(out, "Job %" PRIu64 ": ", a->id);
	if (s->o->dry_run || a->id > 0)
		names_print(out, b, a->accepted);
	if (a->missing > 0)
		(void)fprintf(out, "; %s %s not exist",
			      count_format(missing, sizeof(missing), a->missing),
			      a->missing == 1 ? "does" : "do");
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
			interrupt_says_jobs(s->ids, s->n_ids, /* answered= */ false);
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
			interrupt_says_jobs(s->ids, s->n_ids, /* answered= */ true);
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

static int submit(struct submission *s)
{
	const struct options *o = s->o;
	size_t bad;
	int r;

	interrupt_says("nothing was submitted");
	/* One bad path refuses all. */
	r = arguments_take(&s->in, o, "nothing was submitted");
	bad = s->in.refused + s->in.absent;
	if (bad > 0 && (o->n_paths > 1 || o->files_from))
		complain("submit", "nothing was submitted, because of what was refused above");
	if (r || bad > 0)
		return r ? r : EXIT_FAILED;
	r = client_open(&s->client, o, /* socket_first= */ true);
	if (r)
		return r;
	r = batches_make(&s->batches, &s->in.roots, SOCKET_FDS_MOST);
	s->ids = calloc(s->batches.n + 1, sizeof(s->ids[0]));
	if (r < 0 || !s->ids)
		return client_broken(-ENOMEM);
	r = all_check(s);
	if (r == 0)
		r = all_send(s);
	if (o->json != JSON_OFF && (r == 0 || r == EXIT_PARTLY))
		print_json(s);
	if (r || o->dry_run || s->n_ids == 0 || o->wait == WAIT_NOT)
		return r;
	return o->wait == WAIT_DONE ? wait_jobs(s->client, o, s->ids, s->n_ids)
				    : wait_free_all(s->client, o, &s->batches);
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
