/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"

/* So many jobs a call: some two megabytes. */
#define PAGE 10000U

/* An answer that is shorter than this has had room for more. */
#define ANSWER_SHORT MiB(2)

/* Of each job, in an answer. */
#define NUMBERS_SIZE offsetof(struct job_line, state)
_Static_assert(NUMBERS_SIZE == 15 * sizeof(uint64_t), "ListJobsPacked has fifteen numbers");

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
	for (size_t i = 0; i < l->n_answers; i++)
		sd_bus_message_unref(l->answers[i]);
	free(l->answers);
	free(l->v);
	*l = (struct job_list){ 0 };
}

/* Appends the jobs of an answer: the numbers of them all, then the texts of them all, each ended by
 * a NUL, which stay where they are. Tells how many jobs they are, and how long the answer was. */
static int answer_read(sd_bus_message *m, struct job_list *l, size_t *ret_n, size_t *ret_bytes)
{
	const void *numbers = NULL, *bytes = NULL;
	const char *text, *end;
	struct job_line *v;
	size_t size, len, n;
	int r = sd_bus_message_read_array(m, 't', &numbers, &size);

	if (r >= 0)
		r = sd_bus_message_read_array(m, 'y', &bytes, &len);
	if (r < 0)
		return r;
	n = size / NUMBERS_SIZE;
	text = bytes;
	end = text + len;
	v = reallocarray(l->v, l->n + n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	l->v = v;
	v += l->n;
	for (size_t i = 0; i < n; i++) {
		const char **const texts[] = { &v[i].state, &v[i].origin, &v[i].priority,
					       &v[i].path,  &v[i].kind,   &v[i].message };

		v[i].settling = false;
		v[i].host = NULL;
		memcpy(&v[i], (const char *)numbers + i * NUMBERS_SIZE, NUMBERS_SIZE);
		for (size_t k = 0; k < ELEMENTSOF(texts); k++) {
			const char *nul = memchr(text, 0, (size_t)(end - text));

			if (!nul)
				return -EBADMSG;
			*texts[k] = text;
			text = nul + 1;
		}
	}
	l->n += n;
	*ret_n = n;
	*ret_bytes = size + len;
	return 0;
}

void job_line_settling(struct client *c, struct job_line *j)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	bool hushed = c->hushed;
	char path[64];
	int settling = 0;

	(void)snprintf(path, sizeof(path), MANAGER_PATH "/job/%" PRIu64, j->id);
	/* One that has ended meanwhile is seen the next time. */
	c->hushed = true;
	if (client_call(c, path, "org.freedesktop.DBus.Properties", "Get", &reply, "ss",
			JOB_INTERFACE, "Settling") == 0 &&
	    sd_bus_message_read(reply, "v", "b", &settling) < 0)
		settling = 0;
	c->hushed = hushed;
	j->settling = settling;
}

/* The daemon knows which states there are. */
static int states_append(sd_bus_message *m, const char *states)
{
	int r = option_open(m, "states", "as");

	if (r >= 0)
		r = sd_bus_message_open_container(m, 'a', "s");
	for (const char *s = states; r >= 0 && *s;) {
		size_t len = strcspn(s, ",");
		char state[32];

		(void)snprintf(state, sizeof(state), "%.*s", (int)len, s);
		r = sd_bus_message_append(m, "s", state);
		s += len + (s[len] == ',');
	}
	if (r >= 0)
		r = sd_bus_message_close_container(m);
	return option_close(m, r);
}

static int filter_append(sd_bus_message *m, const struct job_wish *wish, uint64_t since)
{
	int r = sd_bus_message_open_container(m, 'a', "{sv}");

	if (r >= 0)
		r = sd_bus_message_append(m, "{sv}{sv}{sv}", "finished", "b",
					  (int)(wish->finished || wish->n_ids > 0), "since-id", "t",
					  since, "limit", "u",
					  wish->limit ? MIN(wish->limit, PAGE) : PAGE);
	if (r >= 0 && wish->states)
		r = states_append(m, wish->states);
	if (r >= 0 && wish->one_user)
		r = sd_bus_message_append(m, "{sv}", "uid", "u", (uint32_t)wish->uid);
	if (r >= 0 && wish->n_ids > 0) {
		r = option_open(m, "ids", "at");
		if (r >= 0)
			r = sd_bus_message_append_array(m, 't', wish->ids,
							wish->n_ids * sizeof(wish->ids[0]));
		r = option_close(m, r);
	}
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
		sd_bus_message **reply = array_add(&ret->answers, &ret->n_answers, sizeof(void *));
		int r;

		if (!reply)
			return client_broken(-ENOMEM);
		r = page_get(c, wish, ret->n > 0 ? ret->v[ret->n - 1].id + 1 : 0, reply);
		if (r)
			return r;
		r = answer_read(*reply, ret, &n, &bytes);
		if (r < 0)
			return client_broken(r);
		/* A page may be short of what was asked for because it had become long. */
	} while ((n >= PAGE || bytes >= ANSWER_SHORT) &&
		 (wish->n_ids == 0 || ret->n < wish->n_ids) &&
		 (wish->limit == 0 || ret->n < wish->limit));
	return 0;
}
