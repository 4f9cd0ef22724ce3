/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-list.h"

#include <errno.h>
#include <string.h>

/* So many jobs a call: some two megabytes; or, where a page is worked on while the daemon makes the
 * next, a tenth of that: nothing can be worked on before the first one is there, nor while the last
 * one is made. */
#define PAGE 10000U
#define PAGE_AHEAD 1024U

/* An answer that is shorter than this has had room for more. */
#define ANSWER_SHORT MiB(2)

/* So many lines are worked on at once: they stay in the processor's cache. */
#define LINES 256

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

/* Makes room for so many more. */
static int list_reserve(struct job_list *l, size_t n)
{
	size_t cap = MAX(l->n + n, l->cap * 2);
	struct job_line *v;

	if (l->cap - l->n >= n)
		return 0;
	v = reallocarray(l->v, cap, sizeof(*v));
	if (!v)
		return -ENOMEM;
	l->v = v;
	l->cap = cap;
	return 0;
}

/* The texts of a message that have not been taken yet, and those before the path as they were last:
 * in a list most jobs are alike. */
struct texts {
	const char *at, *end;
	const char *like, *state, *origin, *priority;
	size_t like_len;
};

/* Takes the next text, which is ended by a NUL. */
static int text_take(struct texts *t, const char **ret)
{
	const char *nul = t->at ? memchr(t->at, 0, (size_t)(t->end - t->at)) : NULL;

	if (!nul)
		return -EBADMSG;
	*ret = t->at;
	t->at = nul + 1;
	return 0;
}

static int alike_take(struct texts *t)
{
	const char *begin = t->at;
	int r;

	if (t->like && (size_t)(t->end - begin) >= t->like_len &&
	    memcmp(begin, t->like, t->like_len) == 0) {
		t->at += t->like_len;
		return 0;
	}
	r = text_take(t, &t->state);
	if (r >= 0)
		r = text_take(t, &t->origin);
	if (r >= 0)
		r = text_take(t, &t->priority);
	t->like = begin;
	t->like_len = (size_t)(t->at - begin);
	return r;
}

/* One job: its numbers, and its texts, which stay where they are. */
static int line_take(const uint64_t *n, struct texts *t, struct job_line *ret)
{
	int r = alike_take(t);

	*ret = (struct job_line){ .id = n[0],
				  .uid = (uid_t)n[1],
				  .state = t->state,
				  .origin = t->origin,
				  .priority = t->priority,
				  .entries = n[2],
				  .entries_done = n[3],
				  .bytes = n[4],
				  .bytes_freed = n[5],
				  .errors = n[6],
				  .created_usec = n[7],
				  .held_until_usec = n[8],
				  .finished_usec = n[9],
				  .started_usec = n[10] };
	return r < 0 ? r : text_take(t, &ret->path);
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

/* What a message has: the numbers of so many jobs, and their texts. */
struct answer {
	const uint64_t *numbers; /* of the next job */
	size_t jobs, read;       /* how many there are; how many have been read */
	struct texts texts;
	uint64_t next_id; /* the number after that of its last job */
};

/* Reads what is where. Of an empty one next_id stays. */
static int answer_open(sd_bus_message *m, struct job_list *l, struct answer *a)
{
	const void *numbers, *texts;
	size_t size, len;
	int r = answer_keep(l, m);

	if (r >= 0)
		r = sd_bus_message_read_array(m, 't', &numbers, &size);
	if (r >= 0)
		r = sd_bus_message_read_array(m, 'y', &texts, &len);
	if (r < 0)
		return r;
	a->numbers = numbers;
	a->jobs = size / sizeof(*a->numbers) / NUMBERS;
	a->read = 0;
	a->texts = (struct texts){ .at = texts, .end = (const char *)texts + len };
	if (a->jobs > 0)
		a->next_id = a->numbers[(a->jobs - 1) * NUMBERS] + 1;
	l->page = (struct job_page){ .n = a->jobs, .bytes = size + len };
	return 0;
}

/* Appends the next jobs of it, so many at most. */
static int lines_read(struct answer *a, struct job_list *l, size_t most)
{
	size_t n = MIN(most, a->jobs - a->read);
	int r = list_reserve(l, n);

	for (size_t i = 0; i < n && r >= 0; i++, a->numbers += NUMBERS)
		r = line_take(a->numbers, &a->texts, &l->v[l->n + i]);
	if (r < 0)
		return r;
	a->read += n;
	l->n += n;
	return 0;
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
static bool wants_more(const struct job_list *l, size_t n, const struct job_wish *wish,
		       uint32_t most)
{
	return (l->page.n >= most || l->page.bytes >= ANSWER_SHORT) &&
	       (wish->n_ids == 0 || n < wish->n_ids) && (wish->limit == 0 || n < wish->limit);
}

int job_list_get(struct client *c, const struct job_wish *wish, struct job_list *ret)
{
	struct answer a = { 0 };
	int r;

	job_list_done(ret);
	do {
		_cleanup_message_ sd_bus_message *reply = NULL;
		sd_bus_message *m = page_message(c, wish, a.next_id, PAGE);
		int e;

		r = m ? client_send(c, m, 0, &reply) : EXIT_FAILED;
		if (r)
			return r;
		e = answer_open(reply, ret, &a);
		if (e >= 0)
			e = lines_read(&a, ret, a.jobs);
		if (e < 0)
			return client_broken(e);
	} while (wants_more(ret, ret->n, wish, PAGE));
	return 0;
}

static int page_begin(struct client *c, const struct job_wish *wish, uint64_t since, uint32_t most)
{
	sd_bus_message *m = page_message(c, wish, since, most);

	return m ? client_begin(c, m) : EXIT_FAILED;
}

static int page_finish(struct client *c, struct job_list *l, struct answer *a)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	int e, r = client_finish(c, &reply);

	if (r)
		return r;
	e = answer_open(reply, l, a);
	return e < 0 ? client_broken(e) : 0;
}

/* Gives it on in parts. */
static int answer_each(struct answer *a, struct job_list *l,
		       int (*some)(const struct job_line *v, size_t n, void *userdata),
		       void *userdata)
{
	int e, r = 0;

	while (a->read < a->jobs && r == 0) {
		l->n = 0;
		e = lines_read(a, l, LINES);
		r = e < 0 ? client_broken(e) : some(l->v, l->n, userdata);
	}
	l->n = 0;
	return r;
}

int job_list_each(struct client *c, const struct job_wish *wish, struct job_list *ret,
		  size_t *ret_n, int (*some)(const struct job_line *v, size_t n, void *userdata),
		  void *userdata)
{
	const uint32_t most = PAGE_AHEAD;
	struct answer a = { 0 };
	bool more = true;
	int r;

	job_list_done(ret);
	*ret_n = 0;
	r = page_begin(c, wish, 0, most);
	while (r == 0 && more) {
		r = page_finish(c, ret, &a);
		if (r)
			break;
		*ret_n += a.jobs;
		more = wants_more(ret, *ret_n, wish, most);
		/* The daemon has the next one ready when this one is through. */
		if (more)
			r = page_begin(c, wish, a.next_id, most);
		if (r == 0)
			r = answer_each(&a, ret, some, userdata);
	}
	return r;
}
