/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void job_view_done(struct job_view *j)
{
	for (size_t i = 0; i < j->n_problems; i++)
		free(j->problems[i].path);
	for (size_t i = 0; i < j->n_entry_names; i++)
		free(j->entry_names[i].path);
	free(j->problems);
	free(j->entry_names);
	free(j->path);
	free(j->staging);
	free(j->mount);
	for (size_t i = 0; i < ELEMENTSOF(j->answers); i++)
		sd_bus_message_unref(j->answers[i]);
	*j = (struct job_view){ 0 };
}

#define FIELD(name) offsetof(struct job_view, name)

static const struct property table[] = {
	{ "Id", "t", FIELD(line.id), NULL },
	{ "Uuid", "s", FIELD(uuid), NULL },
	{ "State", "s", FIELD(line.state), NULL },
	{ "Uid", "u", FIELD(line.uid), NULL },
	{ "Origin", "s", FIELD(line.origin), NULL },
	{ "Priority", "s", FIELD(line.priority), NULL },
	{ "Path", "ay", FIELD(path), property_bytes },
	{ "Staging", "ay", FIELD(staging), property_bytes },
	{ "Inplace", "s", FIELD(inplace), NULL },
	{ "Mount", "ay", FIELD(mount), property_bytes },
	{ "Names", "t", FIELD(names), NULL },
	{ "Entries", "t", FIELD(line.entries), NULL },
	{ "EntriesDone", "t", FIELD(line.entries_done), NULL },
	{ "Bytes", "t", FIELD(line.bytes), NULL },
	{ "BytesFreed", "t", FIELD(line.bytes_freed), NULL },
	{ "Errors", "t", FIELD(line.errors), NULL },
	{ "Skipped", "t", FIELD(skipped), NULL },
	{ "Created", "t", FIELD(line.created_usec), NULL },
	{ "HeldUntil", "t", FIELD(line.held_until_usec), NULL },
	{ "By", "t", FIELD(by_usec), NULL },
	{ "Started", "t", FIELD(line.started_usec), NULL },
	{ "Finished", "t", FIELD(line.finished_usec), NULL },
	{ "Message", "s", FIELD(message), NULL },
	{ "Strategy", "s", FIELD(strategy), NULL },
};

/* Each of these reads one into the next place. Returns 1, 0 at the end, or a negative errno. */
static int problem_read(sd_bus_message *m, struct job_view *j)
{
	struct job_problem *p = &j->problems[j->n_problems];
	int is_error = 0, r = sd_bus_message_enter_container(m, 'r', "aysib");

	if (r <= 0)
		return r;
	j->n_problems++;
	r = property_bytes(m, &p->path);
	if (r >= 0)
		r = sd_bus_message_read(m, "sib", &p->what, &p->error, &is_error);
	p->error = abs(p->error);
	p->is_error = is_error != 0;
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int name_read(sd_bus_message *m, struct job_view *j)
{
	struct job_name *n = &j->entry_names[j->n_entry_names];
	int r = sd_bus_message_enter_container(m, 'r', "ays");

	if (r <= 0)
		return r;
	j->n_entry_names++;
	r = property_bytes(m, &n->path);
	if (r >= 0)
		r = sd_bus_message_read(m, "s", &n->state);
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* Calls one of the methods of a job that list something, and reads so many of the answer. */
static int list_get(struct client *c, const char *path, const char *member, const char *type,
		    uint32_t limit, struct job_view *j, sd_bus_message **ret_reply,
		    int (*read)(sd_bus_message *m, struct job_view *j))
{
	int r = client_call(c, path, JOB_INTERFACE, member, ret_reply, "tu", (uint64_t)0, limit);

	if (r)
		return r;
	r = sd_bus_message_enter_container(*ret_reply, 'a', type);
	for (uint32_t i = 0; r > 0 && i < limit; i++)
		r = read(*ret_reply, j);
	return r < 0 ? client_broken(r) : 0;
}

static int view_get(struct client *c, uint64_t id, uint32_t limit, struct job_view *j)
{
	char path[64], **const paths[] = { &j->path, &j->staging, &j->mount };
	/* Asked first, as the manager's answer for a job that is not there is the clearer one. */
	int r = client_call(c, MANAGER_PATH, MANAGER_INTERFACE, "GetJob", NULL, "t", id);

	(void)snprintf(path, sizeof(path), MANAGER_PATH "/job/%" PRIu64, id);
	if (r == 0)
		r = properties_get(c, path, JOB_INTERFACE, &j->answers[0]);
	if (r)
		return r;
	r = properties_read(j->answers[0], table, ELEMENTSOF(table), j);
	/* What was not told is empty. */
	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(paths); i++) {
		*paths[i] = *paths[i] ? *paths[i] : strdup("");
		r = *paths[i] ? 0 : -ENOMEM;
	}
	if (r < 0)
		return client_broken(r);
	j->line.path = j->path;
	if (limit == 0)
		return 0;
	j->problems = calloc(limit, sizeof(j->problems[0]));
	j->entry_names = calloc(limit, sizeof(j->entry_names[0]));
	if (!j->problems || !j->entry_names)
		return client_broken(-ENOMEM);
	r = list_get(c, path, "GetProblems", "(aysib)", limit, j, &j->answers[1], problem_read);
	return r ? r
		 : list_get(c, path, "GetEntries", "(ays)", limit, j, &j->answers[2], name_read);
}

int job_view_get(struct client *c, uint64_t id, uint32_t limit, struct job_view *ret)
{
	struct job_view j = { .line = { .id = id, .state = "", .origin = "", .priority = "" },
			      .uuid = "",
			      .inplace = "",
			      .message = "",
			      .strategy = "" };
	int r = view_get(c, id, limit, &j);

	if (r) {
		job_view_done(&j);
		return r;
	}
	*ret = j;
	return 0;
}
