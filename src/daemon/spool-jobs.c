/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spool-jobs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "config/config.h"
#include "daemon/api/operations.h"
#include "daemon/context/log.h"
#include "daemon/spools/spool.h"
#include "base/escape.h"

/* A batch on its way; the names it was made of, and their identities. */
struct spooled {
	struct spool_jobs *to;
	uint64_t id;
	uid_t uid; /* the submitter's */
	char *names, *origin;
	size_t names_len, at; /* where the next name is looked for: they come in their order */
	struct identity *ids;
	size_t n, at_id;
};

struct spool_jobs {
	struct context *context;
	struct operations *operations;
	struct spools *spools; /* NULL: they could not be begun, or have ended */
	unsigned refs;         /* batches that are not answered yet, and the manager's */
};

static void spool_jobs_unref(struct spool_jobs *s)
{
	if (--s->refs == 0)
		free(s);
}

static struct spooled *spooled_free(struct spooled *s)
{
	if (!s)
		return NULL;
	free(s->names);
	free(s->origin);
	free(s->ids);
	free(s);
	return NULL;
}

static struct spooled *spooled_new(struct spool_jobs *to, const struct spool_batch *b)
{
	struct spooled *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	*s = (struct spooled){ .to = to,
			       .id = b->id,
			       .uid = b->submitter->uid,
			       .names_len = b->names_len,
			       .n = b->n };
	s->names = malloc(MAX(b->names_len, (size_t)1));
	s->origin = strdup(b->origin);
	s->ids = calloc(MAX(b->n, (size_t)1), sizeof(*s->ids));
	if (!s->names || !s->origin || !s->ids)
		return spooled_free(s);
	memcpy(s->names, b->names, b->names_len);
	memcpy(s->ids, b->ids, b->n * sizeof(*s->ids));
	return s;
}

/* Is it the file that the spool saw? Names that are missing have been passed over. */
static bool is_expected(const struct entry_record *e, void *userdata)
{
	struct spooled *s = userdata;

	while (s->at < s->names_len && s->at_id < s->n) {
		const char *name = s->names + s->at;
		const struct identity *id = &s->ids[s->at_id++];

		s->at += strlen(name) + 1;
		if (strcmp(name, e->name) == 0)
			return id->ino == e->id.ino && id->btime_nsec == e->id.btime_nsec &&
			       (id->mode & S_IFMT) == e->id.type;
	}
	return false;
}

static enum spool_outcome outcome_of(const struct failure *f)
{
	if (!f->cause)
		return SPOOL_ACCEPTED;
	return error_entry(f->cause)->retry == RETRY_NO ? SPOOL_DENIED : SPOOL_LATER;
}

static void on_submitted(const struct failure *f, const struct submitted *result, void *userdata)
{
	struct spooled *s = userdata;

	(void)result;
	if (f->cause)
		log_user(LOG_NOTICE, s->uid, SD_ID128_NULL, "%s: not accepted: %s", s->origin,
			 f->text.line);
	if (s->to->spools)
		spools_taken(s->to->spools, s->id, outcome_of(f));
	spool_jobs_unref(s->to);
	spooled_free(s);
}

static void submit_batch(const struct spool_batch *b, void *userdata)
{
	struct spool_jobs *to = userdata;
	struct spooled *s = spooled_new(to, b);
	struct caller caller = { .id = *b->submitter, .is_us = true, .pidfd = -1 };
	struct intake_group group = { .dirfd = b->dirfd,
				      .display = b->dir_path,
				      .names = b->names,
				      .names_len = b->names_len,
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
		return;
	}
	to->refs++;
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

int spooling_configure(struct spool_jobs *s)
{
	const struct config *c;

	if (!s || !s->spools)
		return 0;
	c = s->context->config;
	return spools_configure(s->spools, c->spools, c->n_spools, c->protect);
}

void spooling_retry(struct spool_jobs *s)
{
	if (s && s->spools)
		spools_retry(s->spools);
}

size_t spooling_view(const struct spool_jobs *s, struct bus_spool *views, size_t n)
{
	static const char *const states[] = { [SPOOL_UNKNOWN] = "absent",
					      [SPOOL_ABSENT] = "absent",
					      [SPOOL_SERVED] = "watching",
					      [SPOOL_UNSERVED] = "refused" };
	size_t all = s && s->spools ? spools_count(s->spools) : 0;

	for (size_t i = 0; i < MIN(n, all); i++) {
		struct spool_view v;

		spools_snapshot(s->spools, i, &v);
		views[i] = (struct bus_spool){ .path = v.path,
					       .state = states[v.state],
					       .message = v.why,
					       .settle_usec = v.settle_usec,
					       .undo_usec = v.undo_usec,
					       .waiting = v.waiting };
	}
	return all;
}

int spooling_begin(struct spool_jobs **ret, struct context *c, struct operations *operations)
{
	struct spool_jobs *s = malloc(sizeof(*s));
	struct spools_options o = { .take = submit_batch, .tell = log_entry, .userdata = s };
	int r;

	if (!s)
		return -ENOMEM;
	*s = (struct spool_jobs){ .context = c, .operations = operations, .refs = 1 };
	o.state_dir = c->o.state_dir;
	*ret = s;
	r = spools_new(&s->spools, c->event, &o);
	return r < 0 ? r : spooling_configure(s);
}

struct spool_jobs *spooling_end(struct spool_jobs *s)
{
	if (!s)
		return NULL;
	s->spools = spools_free(s->spools);
	spool_jobs_unref(s);
	return NULL;
}
