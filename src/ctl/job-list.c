/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-list.h"

#include <errno.h>
#include <string.h>

/* So many jobs a call: some two megabytes. */
#define PAGE 10000U

bool job_is_finished(const char *state)
{
	static const char *const finished[] = { "done", "partial", "failed", "cancelled",
						"restored" };

	for (size_t i = 0; i < ELEMENTSOF(finished); i++)
		if (strcmp(state, finished[i]) == 0)
			return true;
	return false;
}

void job_list_done(struct job_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	while (l->answers) {
		struct job_answer *a = l->answers;

		l->answers = a->next;
		sd_bus_message_unref(a->m);
		free(a);
	}
	free(l->v);
	*l = (struct job_list){ 0 };
}

static int list_append(struct job_list *l, struct job_line *j)
{
	if (l->n == l->cap) {
		size_t cap = MAX(l->cap * 2, (size_t)16);
		struct job_line *v = reallocarray(l->v, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n++] = *j;
	return 0;
}

/* Reads one job, whose texts but the path stay in the message. Returns 1, 0 at the end, or a
 * negative errno. */
static int line_read(sd_bus_message *m, struct job_line *ret)
{
	struct job_line j = { 0 };
	const void *path;
	size_t len;
	int r;

	r = sd_bus_message_enter_container(m, 'r', "tsussayttttttttt");
	if (r <= 0)
		return r;
	r = sd_bus_message_read(m, "tsuss", &j.id, &j.state, &j.uid, &j.origin, &j.priority);
	if (r >= 0)
		r = sd_bus_message_read_array(m, 'y', &path, &len);
	if (r >= 0)
		r = sd_bus_message_read(m, "ttttttttt", &j.entries, &j.entries_done, &j.bytes,
					&j.bytes_freed, &j.errors, &j.created_usec,
					&j.held_until_usec, &j.finished_usec, &j.started_usec);
	if (r >= 0)
		r = sd_bus_message_exit_container(m);
	if (r < 0)
		return r;
	j.path = strndup(len > 0 ? path : "", len);
	if (!j.path)
		return -ENOMEM;
	*ret = j;
	return 1;
}

static int answer_keep(struct job_list *l, sd_bus_message *m)
{
	struct job_answer *a = malloc(sizeof(*a));

	if (!a)
		return -ENOMEM;
	*a = (struct job_answer){ .next = l->answers, .m = sd_bus_message_ref(m) };
	l->answers = a;
	return 0;
}

static int lines_read(sd_bus_message *m, struct job_list *l)
{
	int r = answer_keep(l, m);

	if (r >= 0)
		r = sd_bus_message_enter_container(m, 'a', "(tsussayttttttttt)");

	while (r >= 0) {
		struct job_line j;

		r = line_read(m, &j);
		if (r <= 0)
			break;
		r = list_append(l, &j);
		if (r < 0)
			free(j.path);
	}
	return r;
}

static int ids_append(sd_bus_message *m, const struct job_wish *wish)
{
	int r;

	if (wish->n_ids == 0)
		return 0;
	r = sd_bus_message_open_container(m, 'e', "sv");
	if (r >= 0)
		r = sd_bus_message_append(m, "s", "ids");
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'v', "at");
	if (r >= 0)
		r = sd_bus_message_append_array(m, 't', wish->ids,
						wish->n_ids * sizeof(wish->ids[0]));
	if (r >= 0)
		r = sd_bus_message_close_container(m);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int state_append(sd_bus_message *m, const struct job_wish *wish)
{
	if (!wish->state)
		return 0;
	return sd_bus_message_append(m, "{sv}", "states", "as", 1, wish->state);
}

static int filter_append(sd_bus_message *m, const struct job_wish *wish, uint64_t since)
{
	int r = sd_bus_message_open_container(m, 'a', "{sv}");

	if (r >= 0)
		r = sd_bus_message_append(m, "{sv}{sv}{sv}", "finished", "b",
					  (int)(wish->finished || wish->n_ids > 0), "since-id", "t",
					  since, "limit", "u",
					  wish->limit ? MIN(wish->limit, PAGE) : PAGE);
	if (r >= 0)
		r = state_append(m, wish);
	if (r >= 0)
		r = ids_append(m, wish);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

/* Asks for one page of jobs with ids from `since` on, and appends it. */
static int page_get(struct client *c, const struct job_wish *wish, uint64_t since,
		    struct job_list *l)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	sd_bus_message *m = client_message(c, MANAGER_PATH, MANAGER_INTERFACE, "ListJobs");
	int r;

	if (!m)
		return EXIT_FAILED;
	r = filter_append(m, wish, since);
	if (r < 0) {
		sd_bus_message_unref(m);
		return client_broken(r);
	}
	r = client_send(c, m, 0, &reply);
	if (r)
		return r;
	r = lines_read(reply, l);
	return r < 0 ? client_broken(r) : 0;
}

int job_list_get(struct client *c, const struct job_wish *wish, struct job_list *ret)
{
	uint64_t since = 0;
	size_t before;
	int r;

	job_list_done(ret);
	do {
		before = ret->n;
		r = page_get(c, wish, since, ret);
		if (r == 0 && ret->n > before)
			since = ret->v[ret->n - 1].id + 1;
		/* A page may be short of what was asked for; only an empty one is the last. */
	} while (r == 0 && ret->n > before && (wish->n_ids == 0 || ret->n < wish->n_ids) &&
		 (wish->limit == 0 || ret->n < wish->limit));
	return r;
}
