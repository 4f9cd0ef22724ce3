/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-list.h"

#include <errno.h>
#include <string.h>

/* So many jobs a call: some two megabytes; or, where a page is worked on while the daemon makes the
 * next, that part of them. Nothing can be worked on before the first one is there. */
#define PAGE 10000U
#define PAGE_AHEAD 4096U
#define PAGE_FIRST 1024U

/* An answer that is shorter than this has had room for more. */
#define ANSWER_SHORT MiB(2)

/* Of each job. */
#define NUMBERS 11

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
	while (l->answers) {
		struct job_answer *a = l->answers;

		l->answers = a->next;
		sd_bus_message_unref(a->m);
		free(a);
	}
	free(l->v);
	*l = (struct job_list){ 0 };
}

static int list_append(struct job_list *l, const struct job_line *j)
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

/* Takes the next of the texts, each of which is ended by a NUL. */
static int text_take(const char **at, const char *end, const char **ret)
{
	const char *nul = *at ? memchr(*at, 0, (size_t)(end - *at)) : NULL;

	if (!nul)
		return -EBADMSG;
	*ret = *at;
	*at = nul + 1;
	return 0;
}

/* One job: its numbers, and its texts, which stay where they are. */
static int line_take(const uint64_t *n, const char **at, const char *end, struct job_line *ret)
{
	struct job_line j = { .id = n[0],
			      .uid = (uid_t)n[1],
			      .entries = n[2],
			      .entries_done = n[3],
			      .bytes = n[4],
			      .bytes_freed = n[5],
			      .errors = n[6],
			      .created_usec = n[7],
			      .held_until_usec = n[8],
			      .finished_usec = n[9],
			      .started_usec = n[10] };
	const char **const texts[] = { &j.state, &j.origin, &j.priority, &j.path };
	int r = 0;

	for (size_t i = 0; i < ELEMENTSOF(texts) && r >= 0; i++)
		r = text_take(at, end, texts[i]);
	if (r >= 0)
		*ret = j;
	return r;
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
	size_t before = l->n;
	const void *numbers, *texts;
	const uint64_t *n;
	size_t size, len;
	const char *at;
	int r = answer_keep(l, m);

	if (r >= 0)
		r = sd_bus_message_read_array(m, 't', &numbers, &size);
	if (r >= 0)
		r = sd_bus_message_read_array(m, 'y', &texts, &len);
	if (r < 0)
		return r;
	n = numbers;
	at = texts;
	for (size_t left = size / sizeof(*n); left >= NUMBERS && r >= 0;
	     left -= NUMBERS, n += NUMBERS) {
		struct job_line j;

		r = line_take(n, &at, (const char *)texts + len, &j);
		if (r >= 0)
			r = list_append(l, &j);
	}
	if (r >= 0)
		l->page = (struct job_page){ .n = l->n - before, .bytes = size + len };
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

static int filter_append(sd_bus_message *m, const struct job_wish *wish, uint64_t since,
			 uint32_t most)
{
	int r = sd_bus_message_open_container(m, 'a', "{sv}");

	if (r >= 0)
		r = sd_bus_message_append(m, "{sv}{sv}{sv}", "finished", "b",
					  (int)(wish->finished || wish->n_ids > 0), "since-id", "t",
					  since, "limit", "u",
					  wish->limit ? MIN(wish->limit, most) : most);
	if (r >= 0)
		r = state_append(m, wish);
	if (r >= 0)
		r = ids_append(m, wish);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

/* Asks for one page of at most so many jobs with ids from `since` on. NULL: it has been said why
 * not. */
static sd_bus_message *page_message(struct client *c, const struct job_wish *wish, uint64_t since,
				    uint32_t most)
{
	sd_bus_message *m = client_message(c, MANAGER_PATH, MANAGER_INTERFACE, "ListJobsPacked");
	int r = m ? filter_append(m, wish, since, most) : 0;

	if (r >= 0)
		return m;
	(void)client_broken(r);
	return sd_bus_message_unref(m);
}

/* A page may be short of what was asked for because it had become long. */
static bool wants_more(const struct job_list *l, const struct job_wish *wish, uint32_t most)
{
	return (l->page.n >= most || l->page.bytes >= ANSWER_SHORT) &&
	       (wish->n_ids == 0 || l->n < wish->n_ids) && (wish->limit == 0 || l->n < wish->limit);
}

static int page_read(sd_bus_message *reply, struct job_list *l)
{
	int r = lines_read(reply, l);

	return r < 0 ? client_broken(r) : 0;
}

static uint64_t next_id(const struct job_list *l)
{
	return l->n > 0 ? l->v[l->n - 1].id + 1 : 0;
}

int job_list_get(struct client *c, const struct job_wish *wish, struct job_list *ret)
{
	int r;

	job_list_done(ret);
	do {
		_cleanup_message_ sd_bus_message *reply = NULL;
		sd_bus_message *m = page_message(c, wish, next_id(ret), PAGE);

		r = m ? client_send(c, m, 0, &reply) : EXIT_FAILED;
		if (r == 0)
			r = page_read(reply, ret);
	} while (r == 0 && wants_more(ret, wish, PAGE));
	return r;
}

static int page_begin(struct client *c, const struct job_wish *wish, uint64_t since, uint32_t most)
{
	sd_bus_message *m = page_message(c, wish, since, most);

	return m ? client_begin(c, m) : EXIT_FAILED;
}

static int page_finish(struct client *c, struct job_list *l)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	int r = client_finish(c, &reply);

	return r ? r : page_read(reply, l);
}

int job_list_each(struct client *c, const struct job_wish *wish, struct job_list *ret,
		  int (*page)(const struct job_line *v, size_t n, void *userdata), void *userdata)
{
	uint32_t most = PAGE_FIRST;
	bool more = true;
	int r;

	job_list_done(ret);
	r = page_begin(c, wish, 0, most);
	while (r == 0 && more) {
		size_t before = ret->n;

		r = page_finish(c, ret);
		more = r == 0 && wants_more(ret, wish, most);
		most = PAGE_AHEAD;
		/* The daemon has the next one ready when this one is through. */
		if (more)
			r = page_begin(c, wish, next_id(ret), most);
		if (r == 0)
			r = page(ret->v + before, ret->n - before, userdata);
	}
	return r;
}
