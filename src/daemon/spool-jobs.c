/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spool-jobs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/config.h"
#include "daemon/api/operations.h"
#include "daemon/context/log.h"
#include "base/array.h"
#include "base/escape.h"

/* A batch on its way. */
struct spooled {
	struct spool_jobs *to;
	struct spool_batch *batch;
	uid_t uid;        /* the submitter's */
	size_t at, at_id; /* where the next name is looked for: they come in their order */
};

/* Is it the file that the spool saw? Names that are missing have been passed over. */
static bool is_expected(const struct entry_record *e, void *userdata)
{
	struct spooled *s = userdata;

	while (s->at_id < s->batch->n) {
		const char *name = s->batch->names + s->at;
		const struct identity *id = &s->batch->ids[s->at_id++];

		s->at += strlen(name) + 1;
		if (strcmp(name, e->name) == 0)
			return id->ino == e->id.ino && id->btime_nsec == e->id.btime_nsec &&
			       (id->mode & S_IFMT) == e->id.type;
	}
	return false;
}

static void on_submitted(const struct failure *f, const struct submitted *result, void *userdata)
{
	struct spooled *s = userdata;
	enum spool_outcome outcome = SPOOL_ACCEPTED;

	(void)result;
	if (f->cause) {
		log_user(LOG_NOTICE, s->uid, SD_ID128_NULL, "%s: not accepted: %s",
			 s->batch->origin, f->text.line);
		outcome = error_entry(f->cause)->retry == RETRY_NO ? SPOOL_DENIED : SPOOL_LATER;
	}
	if (s->to->spools)
		spools_taken(s->to->spools, s->batch->id, outcome);
	(void)spool_batch_free(s->batch);
	free(s);
}

static void submit_batch(struct spool_batch *b, void *userdata)
{
	struct spool_jobs *to = userdata;
	struct spooled *s = malloc(sizeof(*s));
	struct caller caller = { .id = *b->submitter, .is_us = true, .pidfd = -1 };
	struct intake_group group = { .dirfd = b->dirfd,
				      .display = b->dir_path,
				      .names = { b->names, b->names_len },
				      .names_fd = -1,
				      .list = true };
	struct submit_options o = { .has_undo = true,
				    .undo_usec = b->undo_usec,
				    .priority = PRIORITY_NORMAL,
				    .origin = b->origin,
				    .is_expected = is_expected,
				    .expected_userdata = s };

	if (!s) {
		spools_taken(to->spools, b->id, SPOOL_LATER);
		(void)spool_batch_free(b);
		return;
	}
	*s = (struct spooled){ .to = to, .batch = b, .uid = b->submitter->uid };
	operation_submit(to->operations, &caller, &group, 1, &o, on_submitted, s);
}

static void log_entry(const char *path, uid_t uid, const char *name, const char *text,
		      void *userdata)
{
	_cleanup_free_ char *path_text = escape_name(path);
	_cleanup_free_ char *name_text = escape_name(name ? name : "");

	(void)userdata;
	log_user(LOG_WARNING, uid, SD_ID128_NULL, "Spool %s%s%s: %s", path_text ? path_text : "",
		 name ? "/" : "", name_text ? name_text : "", text);
}

/* ---- what was put back ------------------------------------------------------------------------
 */

static void returned_add(struct spool_jobs *s, const struct lasting_identity *id, bool kept,
			 int64_t ctime_nsec)
{
	int r = s->spools ? spools_returned(s->spools, id, kept, ctime_nsec) : 0;

	if (r < 0)
		log_line(LOG_ERR,
			 "Nothing is taken from spools any more: more was put back into them than "
			 "can be remembered (%s). Move it elsewhere, and restart reclaimd",
			 strerror(-r));
}

static void on_name_returns(const struct job_record *r, const struct lasting_identity *id,
			    bool kept, void *userdata)
{
	if (strncmp(r->origin, "spool:", strlen("spool:")) == 0)
		returned_add(userdata, id, kept, INT64_MAX);
}

/* What the store's thread has read, for that of the loop. */
struct returned_list {
	struct spool_jobs *to;
	struct returned {
		struct lasting_identity id;
		uint64_t finished_usec;
	} * v;
	size_t n;
};

static int keep_returned(const struct lasting_identity *id, uint64_t finished_usec, void *userdata)
{
	struct returned_list *l = userdata;
	struct returned *r = array_add(&l->v, &l->n, sizeof(*r));

	if (!r)
		return -ENOMEM;
	*r = (struct returned){ *id, finished_usec };
	return 0;
}

static int read_returned(struct store *store, void *userdata)
{
	return store_returned_each(store, keep_returned, userdata);
}

static void on_returned(int r, void *userdata)
{
	struct returned_list *l = userdata;
	struct spool_jobs *s = l->to;

	s->reads = false;
	s->knows = r >= 0;
	if (r < 0)
		log_line(LOG_ERR,
			 "No spool is served before the next reload: what was put back into them "
			 "cannot be read from the job store: %s",
			 strerror(-r));
	for (size_t i = 0; r >= 0 && i < l->n; i++)
		returned_add(s, &l->v[i].id, /* kept= */ false,
			     l->v[i].finished_usec ? (int64_t)(l->v[i].finished_usec * 1000)
						   : INT64_MAX);
	if (r >= 0)
		spooling_configure(s);
	free(l->v);
	free(l);
}

static void ask_returned(struct spool_jobs *s)
{
	struct returned_list *l = calloc(1, sizeof(*l));
	int r = -ENOMEM;

	s->reads = true;
	if (l) {
		l->to = s;
		r = store_queue_read(s->context->store, STORE_DAEMON, read_returned, on_returned,
				     l);
	}
	if (r >= 0)
		return;
	free(l);
	s->reads = false;
	log_line(LOG_ERR, "No spool is served before the next reload: %s", strerror(-r));
}

/* ---- from outside -------------------------------------------------------------------------- */

void spooling_configure(struct spool_jobs *s)
{
	const struct config *c = s->context->config;
	int r;

	if (!s->spools || s->reads)
		return;
	if (!s->knows) {
		ask_returned(s);
		return;
	}
	r = spools_configure(s->spools, c->spools, c->n_spools, c->protect);
	if (r < 0)
		log_line(LOG_ERR, "Not all spools can be watched: %s", strerror(-r));
}

void spooling_begin(struct spool_jobs *s, struct context *c, struct operations *operations)
{
	const struct spools_options o = { .take = submit_batch, .tell = log_entry, .userdata = s };
	int r;

	*s = (struct spool_jobs){ .context = c,
				  .operations = operations,
				  .listener = { .name_returns = on_name_returns, .userdata = s } };
	listener_add(c, &s->listener);
	r = spools_new(&s->spools, c->event, &o);
	if (r < 0)
		log_line(LOG_ERR, "Not all spools can be watched: %s", strerror(-r));
	spooling_configure(s);
}

void spooling_end(struct spool_jobs *s)
{
	if (s->context)
		listener_remove(s->context, &s->listener);
	s->spools = spools_free(s->spools);
}
