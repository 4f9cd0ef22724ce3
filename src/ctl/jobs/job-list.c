/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-list.h"

#include <errno.h>
#include <string.h>

/* So many jobs a call: some two megabytes. */
#define PAGE 10000U

/* An answer that is shorter than this has had room for more. */
#define ANSWER_SHORT MiB(2)

/* Of each job, in an answer. */
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
	struct job_line *v = reallocarray(l->v, l->n + n, sizeof(*v));

	if (!v)
		return -ENOMEM;
	l->v = v;
	return 0;
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

/* The texts of an answer that have not been taken yet. */
struct answer_texts {
	const char *at, *end;
};

/* Takes the next text, which is ended by a NUL. */
static int text_take(struct answer_texts *t, const char **ret)
{
	const char *nul = t->at ? memchr(t->at, 0, (size_t)(t->end - t->at)) : NULL;

	if (!nul)
		return -EBADMSG;
	*ret = t->at;
	t->at = nul + 1;
	return 0;
}

/* One job: its numbers, and its texts, which stay where they are. */
static int line_take(const uint64_t *n, struct answer_texts *t, struct job_line *ret)
{
	const char **const texts[] = { &ret->state, &ret->origin, &ret->priority, &ret->path };
	int r = 0;

	*ret = (struct job_line){ .id = n[0],
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
	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(texts); i++)
		r = text_take(t, texts[i]);
	return r;
}

/* Appends the jobs of an answer: the numbers of them all, then the texts of them all. Tells how
 * many they are, and how long the answer was. */
static int answer_read(sd_bus_message *m, struct job_list *l, size_t *ret_n, size_t *ret_bytes)
{
	const void *numbers, *bytes;
	struct answer_texts texts;
	size_t size, len, n;
	int r = answer_keep(l, m);

	if (r >= 0)
		r = sd_bus_message_read_array(m, 't', &numbers, &size);
	if (r >= 0)
		r = sd_bus_message_read_array(m, 'y', &bytes, &len);
	if (r < 0)
		return r;
	n = size / sizeof(uint64_t) / NUMBERS;
	texts = (struct answer_texts){ .at = bytes, .end = (const char *)bytes + len };
	r = n > 0 ? list_reserve(l, n) : 0;
	for (size_t i = 0; i < n && r >= 0; i++)
		r = line_take((const uint64_t *)numbers + i * NUMBERS, &texts, &l->v[l->n + i]);
	if (r < 0)
		return r;
	l->n += n;
	*ret_n = n;
	*ret_bytes = size + len;
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

/* Asks for one page of jobs with ids from `since` on. Returns 0 or an exit status. */
static int page_get(struct client *c, const struct job_wish *wish, uint64_t since,
		    sd_bus_message **ret)
{
	sd_bus_message *m = client_message(c, MANAGER_PATH, MANAGER_INTERFACE, "ListJobsPacked");
	int r = m ? filter_append(m, wish, since) : 0;

	if (r < 0) {
		sd_bus_message_unref(m);
		return client_broken(r);
	}
	return m ? client_send(c, m, 0, ret) : EXIT_FAILED;
}

int job_list_get(struct client *c, const struct job_wish *wish, struct job_list *ret)
{
	size_t n, bytes;

	job_list_done(ret);
	do {
		_cleanup_message_ sd_bus_message *reply = NULL;
		int r = page_get(c, wish, ret->n > 0 ? ret->v[ret->n - 1].id + 1 : 0, &reply);

		if (r)
			return r;
		r = answer_read(reply, ret, &n, &bytes);
		if (r < 0)
			return client_broken(r);
		/* A page may be short of what was asked for because it had become long. */
	} while ((n >= PAGE || bytes >= ANSWER_SHORT) &&
		 (wish->n_ids == 0 || ret->n < wish->n_ids) &&
		 (wish->limit == 0 || ret->n < wish->limit));
	return 0;
}
