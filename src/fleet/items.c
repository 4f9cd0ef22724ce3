/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "items.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/escape.h"

enum item_kind { ITEM_PUBLISH, ITEM_FINISH, ITEM_RECALL, ITEM_FORGET };

struct item_problem {
	char *path, *what;
	int error;
};

struct item {
	struct item *next;
	enum item_kind kind;
	uint64_t job, token;

	/* ITEM_PUBLISH; owner "": this host */
	uint64_t serial;
	uid_t uid;
	char owner[FLEET_NAME_SIZE], filesystem[FLEET_NAME_SIZE];
	struct unit_columns unit;
	char *identities;

	/* ITEM_FINISH */
	int64_t entries, bytes, errors;
	bool ended;
	struct item_problem *problems;
	size_t n_problems;
};

static struct item *item_free(struct item *i)
{
	if (!i)
		return NULL;
	for (size_t k = 0; k < i->n_problems; k++) {
		free(i->problems[k].path);
		free(i->problems[k].what);
	}
	free(i->problems);
	free(i->identities);
	unit_columns_done(&i->unit);
	free(i);
	return NULL;
}

/* Takes the item over if r says that it is one. */
static int items_add(struct items *q, struct item *i, int r)
{
	if (r < 0) {
		item_free(i);
		return r;
	}
	if (q->last)
		q->last->next = i;
	else
		q->first = i;
	q->last = i;
	q->n++;
	return 0;
}

static struct item *item_new(enum item_kind kind, uint64_t job, uint64_t token)
{
	struct item *i = calloc(1, sizeof(*i));

	if (i) {
		i->kind = kind;
		i->job = job;
		i->token = token;
	}
	return i;
}

static bool number_fits(uint64_t n)
{
	return n <= ITEMS_NUMBER_MOST;
}

static int publish_fill(struct item *i, const struct publish_message *m, struct wire_in *in)
{
	struct unit_name name;
	int r;

	if (!number_fits(m->job) || m->job == 0 || !number_fits(m->token) ||
	    (m->owner && !fleet_name_is_valid(m->owner)) || !fleet_name_is_valid(m->filesystem) ||
	    m->slices > FLEET_SLICES || m->slice > FLEET_SLICES ||
	    strlen(m->directory) >= FLEET_PATH_SIZE)
		return -EBADMSG;
	i->serial = m->serial;
	i->uid = m->uid;
	fleet_name_copy(i->owner, m->owner ? m->owner : "");
	fleet_name_copy(i->filesystem, m->filesystem);
	i->unit.parent = m->parent;
	i->unit.slice = (uint32_t)m->slice;
	i->unit.slices = (uint32_t)m->slices;
	i->unit.directory = strdup(m->directory);
	if (!i->unit.directory)
		return -ENOMEM;
	while ((r = fleet_get_item(in, &name)) > 0) {
		r = unit_columns_add(&i->unit, &name);
		if (r < 0)
			return r == -E2BIG ? -EBADMSG : r;
	}
	if (r < 0)
		return r;
	i->identities = unit_columns_identities(&i->unit);
	return i->identities ? unit_columns_check(&i->unit) : -ENOMEM;
}

int items_add_publish(struct items *q, const struct publish_message *m, struct wire_in *in)
{
	struct item *i = item_new(ITEM_PUBLISH, m->job, m->token);

	return i ? items_add(q, i, publish_fill(i, m, in)) : -ENOMEM;
}

static int problems_fill(struct item *i, struct wire_in *in)
{
	struct unit_problem u;
	int r;

	while ((r = fleet_get_item(in, &u)) > 0) {
		struct item_problem *p;

		if (i->n_problems >= FLEET_PROBLEMS)
			return -EBADMSG;
		p = array_add(&i->problems, &i->n_problems, sizeof(*p));
		if (!p)
			return -ENOMEM;
		p->path = strndup(u.path, FLEET_PATH_SIZE - 1);
		/* A text of the database's. */
		p->what = escape_line(u.what);
		p->error = -u.error;
		if (!p->path || !p->what)
			return -ENOMEM;
		if (strlen(p->what) >= FLEET_TEXT_SIZE)
			return -EBADMSG;
	}
	return r;
}

int items_add_finish(struct items *q, const struct finish_message *m, struct wire_in *in)
{
	struct item *i = item_new(ITEM_FINISH, 0, m->token);

	if (!i)
		return -ENOMEM;
	i->entries = (int64_t)MIN(m->entries, (uint64_t)ITEMS_NUMBER_MOST);
	i->bytes = (int64_t)MIN(m->bytes, (uint64_t)ITEMS_NUMBER_MOST);
	i->errors = (int64_t)MIN(m->errors, (uint64_t)ITEMS_NUMBER_MOST);
	i->ended = m->ended;
	return items_add(q, i, number_fits(m->token) ? problems_fill(i, in) : -EBADMSG);
}

int items_add_ended(struct items *q, uint64_t token)
{
	struct item *i = item_new(ITEM_FINISH, 0, token);

	if (!i)
		return -ENOMEM;
	i->ended = true;
	return items_add(q, i, 0);
}

static int items_add_job(struct items *q, enum item_kind kind, uint64_t job)
{
	struct item *i = item_new(kind, job, 0);

	return i ? items_add(q, i, number_fits(job) && job > 0 ? 0 : -EBADMSG) : -ENOMEM;
}

int items_add_recall(struct items *q, uint64_t job)
{
	return items_add_job(q, ITEM_RECALL, job);
}

int items_add_forget(struct items *q, uint64_t job)
{
	return items_add_job(q, ITEM_FORGET, job);
}

/* ---- one statement of several --------------------------------------------------------------- */

static bool goes_with(const struct item *a, const struct item *b)
{
	if (a == b)
		return true;
	if (a->kind != b->kind)
		return false;
	if (a->kind == ITEM_FINISH)
		return true;
	/* Those of a job are one by one. */
	return a->kind == ITEM_PUBLISH && a->job == b->job && a->token == b->token &&
	       a->uid == b->uid && strcmp(a->owner, b->owner) == 0 &&
	       strcmp(a->filesystem, b->filesystem) == 0;
}

/* What of each item an array has. */
enum column {
	COLUMN_DIRECTORY,
	COLUMN_PARENT,
	COLUMN_SLICE,
	COLUMN_SLICES,
	COLUMN_NAMES,
	COLUMN_IDENTITIES,
	COLUMN_TOKEN,
	COLUMN_ENTRIES,
	COLUMN_BYTES,
	COLUMN_ERRORS,
	COLUMN_ENDED,
	/* Of each of its problems. */
	COLUMN_PROBLEM_TOKEN,
	COLUMN_PROBLEM_PATH,
	COLUMN_PROBLEM_WHAT,
	COLUMN_PROBLEM_ERROR,
};

static void add_problem(struct parameters *p, const struct item *i,
			const struct item_problem *problem, enum column column)
{
	if (column == COLUMN_PROBLEM_TOKEN)
		parameters_add_number(p, (int64_t)i->token);
	else if (column == COLUMN_PROBLEM_PATH)
		parameters_add_bytes(p, problem->path, strlen(problem->path));
	else if (column == COLUMN_PROBLEM_WHAT)
		parameters_add_text(p, problem->what);
	else
		parameters_add_number(p, problem->error);
}

static void add(struct parameters *p, const struct item *i, enum column column)
{
	char text[IDENTITY_TEXT];

	switch (column) {
	case COLUMN_DIRECTORY:
		parameters_add_bytes(p, i->unit.directory, strlen(i->unit.directory));
		break;
	case COLUMN_PARENT:
		identity_text(text, &i->unit.parent);
		parameters_add_text(p, text);
		break;
	case COLUMN_SLICE:
		parameters_add_number(p, i->unit.slice);
		break;
	case COLUMN_SLICES:
		parameters_add_number(p, i->unit.slices);
		break;
	case COLUMN_NAMES:
		parameters_add_bytes(p, i->unit.names, i->unit.names_len);
		break;
	case COLUMN_IDENTITIES:
		parameters_add_text(p, i->identities);
		break;
	case COLUMN_TOKEN:
		parameters_add_number(p, (int64_t)i->token);
		break;
	case COLUMN_ENTRIES:
		parameters_add_number(p, i->entries);
		break;
	case COLUMN_BYTES:
		parameters_add_number(p, i->bytes);
		break;
	case COLUMN_ERRORS:
		parameters_add_number(p, i->errors);
		break;
	case COLUMN_ENDED:
		parameters_add_text(p, i->ended ? "t" : "f");
		break;
	case COLUMN_PROBLEM_TOKEN ... COLUMN_PROBLEM_ERROR:
		for (size_t k = 0; k < i->n_problems; k++)
			add_problem(p, i, &i->problems[k], column);
		break;
	}
}

/* Arrays of the first n items, one for each of the columns from the first to the last. */
static void add_arrays(struct parameters *p, const struct items *q, size_t n, enum column first,
		       enum column last)
{
	for (enum column column = first; column <= last; column++) {
		const struct item *i = q->first;

		parameters_array(p);
		for (size_t k = 0; k < n; k++, i = i->next)
			add(p, i, column);
		parameters_array_end(p);
	}
}

static void publish_parameters(const struct items *q, size_t n, const char *host,
			       struct parameters *p)
{
	const struct item *first = q->first;

	parameters_text(p, first->owner[0] ? first->owner : host);
	parameters_number(p, (int64_t)first->token);
	parameters_number(p, (int64_t)first->job);
	parameters_number(p, first->uid);
	parameters_text(p, first->filesystem);
	add_arrays(p, q, n, COLUMN_DIRECTORY, COLUMN_IDENTITIES);
}

size_t items_batch(const struct items *q, const char *life, const char *host,
		   const char **ret_statement, struct parameters *p)
{
	static const char *const statements[] = {
		[ITEM_PUBLISH] = "SELECT reclaimd.publish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, "
				 "$11, $12)",
		[ITEM_FINISH] = "SELECT reclaimd.finish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
		[ITEM_RECALL] = "SELECT reclaimd.recall($1, $2)",
		[ITEM_FORGET] = "SELECT reclaimd.forget($1, $2)",
	};
	const struct item *last = q->first;
	size_t n = 0;

	for (; last && n < ITEMS_BATCH && goes_with(q->first, last); last = last->next)
		n++;
	if (n == 0)
		return 0;
	*ret_statement = statements[q->first->kind];
	parameters_text(p, life);
	switch (q->first->kind) {
	case ITEM_PUBLISH:
		publish_parameters(q, n, host, p);
		break;
	case ITEM_FINISH:
		add_arrays(p, q, n, COLUMN_TOKEN, COLUMN_PROBLEM_ERROR);
		break;
	case ITEM_RECALL:
	case ITEM_FORGET:
		parameters_number(p, (int64_t)q->first->job);
		break;
	}
	return n;
}

bool items_pop(struct items *q, uint64_t *ret_serial)
{
	struct item *i = q->first;
	bool publish;

	assert(i && q->n > 0);
	publish = i->kind == ITEM_PUBLISH;
	*ret_serial = i->serial;
	q->first = i->next;
	q->n--;
	if (!q->first)
		q->last = NULL;
	item_free(i);
	return publish;
}

static void items_drop(struct items *q, enum item_kind kind)
{
	struct items kept = { 0 };

	for (struct item *i = q->first, *next; i; i = next) {
		next = i->next;
		i->next = NULL;
		if (i->kind == kind)
			item_free(i);
		else
			(void)items_add(&kept, i, 0);
	}
	*q = kept;
}

void items_drop_publishes(struct items *q)
{
	items_drop(q, ITEM_PUBLISH);
}

void items_drop_finishes(struct items *q)
{
	items_drop(q, ITEM_FINISH);
}

void items_done(struct items *q)
{
	uint64_t serial;

	while (q->first)
		(void)items_pop(q, &serial);
}
