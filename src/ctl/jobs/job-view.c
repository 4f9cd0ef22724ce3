/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void job_view_done(struct job_view *j)
{
	char *const strings[] = { j->uuid,  j->state,   j->origin,   j->priority, j->inplace,
				  j->mount, j->message, j->strategy, j->path,     j->staging };

	for (size_t i = 0; i < ELEMENTSOF(strings); i++)
		free(strings[i]);
	for (size_t i = 0; i < j->n_problems; i++) {
		free(j->problems[i].path);
		free(j->problems[i].what);
	}
	for (size_t i = 0; i < j->n_entry_names; i++) {
		free(j->entry_names[i].path);
		free(j->entry_names[i].state);
	}
	free(j->problems);
	free(j->entry_names);
	*j = (struct job_view){ 0 };
}

/* Which property goes where. */
static const struct field {
	const char *name;
	const char *type; /* "s", "ay", "t" or "u" */
	size_t offset;
} fields[] = {
	{ "Id", "t", offsetof(struct job_view, id) },
	{ "Uuid", "s", offsetof(struct job_view, uuid) },
	{ "State", "s", offsetof(struct job_view, state) },
	{ "Uid", "u", offsetof(struct job_view, uid) },
	{ "Origin", "s", offsetof(struct job_view, origin) },
	{ "Priority", "s", offsetof(struct job_view, priority) },
	{ "Path", "ay", offsetof(struct job_view, path) },
	{ "Staging", "ay", offsetof(struct job_view, staging) },
	{ "Inplace", "s", offsetof(struct job_view, inplace) },
	{ "Mount", "ay", offsetof(struct job_view, mount) },
	{ "Names", "t", offsetof(struct job_view, names) },
	{ "Entries", "t", offsetof(struct job_view, entries) },
	{ "EntriesDone", "t", offsetof(struct job_view, entries_done) },
	{ "Bytes", "t", offsetof(struct job_view, bytes) },
	{ "BytesFreed", "t", offsetof(struct job_view, bytes_freed) },
	{ "Errors", "t", offsetof(struct job_view, errors) },
	{ "Skipped", "t", offsetof(struct job_view, skipped) },
	{ "Created", "t", offsetof(struct job_view, created_usec) },
	{ "HeldUntil", "t", offsetof(struct job_view, held_until_usec) },
	{ "By", "t", offsetof(struct job_view, by_usec) },
	{ "Started", "t", offsetof(struct job_view, started_usec) },
	{ "Finished", "t", offsetof(struct job_view, finished_usec) },
	{ "Message", "s", offsetof(struct job_view, message) },
	{ "Strategy", "s", offsetof(struct job_view, strategy) },
};

static int string_take(char **to, const char *s, size_t len)
{
	char *copy = strndup(s ? s : "", len);

	if (!copy)
		return -ENOMEM;
	free(*to);
	*to = copy;
	return 0;
}

static int bytes_read(sd_bus_message *m, char **to)
{
	const void *p;
	size_t len;
	int r = sd_bus_message_read_array(m, 'y', &p, &len);

	return r < 0 ? r : string_take(to, p, len);
}

static int string_read(sd_bus_message *m, char **to)
{
	const char *s;
	int r = sd_bus_message_read(m, "s", &s);

	return r < 0 ? r : string_take(to, s, strlen(s));
}

static int value_read(sd_bus_message *m, const struct field *f, struct job_view *j)
{
	void *to = (char *)j + f->offset;
	int r = sd_bus_message_enter_container(m, 'v', f->type);

	if (r < 0)
		return r;
	if (strcmp(f->type, "s") == 0)
		r = string_read(m, to);
	else if (strcmp(f->type, "ay") == 0)
		r = bytes_read(m, to);
	else
		r = sd_bus_message_read(m, f->type, to);
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int property_read(sd_bus_message *m, struct job_view *j)
{
	const char *name;
	int r = sd_bus_message_read(m, "s", &name);

	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(fields); i++)
		if (strcmp(name, fields[i].name) == 0)
			return value_read(m, &fields[i], j);
	/* A newer daemon may tell more. */
	return r < 0 ? r : sd_bus_message_skip(m, "v");
}

static int properties_read(sd_bus_message *m, struct job_view *j)
{
	int r = sd_bus_message_enter_container(m, 'a', "{sv}");

	while (r >= 0) {
		r = sd_bus_message_enter_container(m, 'e', "sv");
		if (r <= 0)
			break;
		r = property_read(m, j);
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
	}
	return r;
}

/* What was not told is empty, not absent. */
static int strings_complete(struct job_view *j)
{
	for (size_t i = 0; i < ELEMENTSOF(fields); i++) {
		char **to = (char **)((char *)j + fields[i].offset);
		int r;

		if (strcmp(fields[i].type, "t") == 0 || strcmp(fields[i].type, "u") == 0 || *to)
			continue;
		r = string_take(to, "", 0);
		if (r < 0)
			return r;
	}
	return 0;
}

static int problems_read(sd_bus_message *m, struct job_view *j, size_t limit)
{
	int r = sd_bus_message_enter_container(m, 'a', "(aysib)");

	j->problems = calloc(MAX(limit, (size_t)1), sizeof(j->problems[0]));
	if (!j->problems)
		return -ENOMEM;
	while (r >= 0 && j->n_problems < limit) {
		struct job_problem *p = &j->problems[j->n_problems];
		int is_error = 0;

		r = sd_bus_message_enter_container(m, 'r', "aysib");
		if (r <= 0)
			break;
		j->n_problems++;
		r = bytes_read(m, &p->path);
		if (r >= 0)
			r = string_read(m, &p->what);
		if (r >= 0)
			r = sd_bus_message_read(m, "ib", &p->error, &is_error);
		p->error = abs(p->error);
		p->is_error = is_error != 0;
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
	}
	return r;
}

static int names_read(sd_bus_message *m, struct job_view *j, size_t limit)
{
	int r = sd_bus_message_enter_container(m, 'a', "(ays)");

	j->entry_names = calloc(MAX(limit, (size_t)1), sizeof(j->entry_names[0]));
	if (!j->entry_names)
		return -ENOMEM;
	while (r >= 0 && j->n_entry_names < limit) {
		struct job_name *n = &j->entry_names[j->n_entry_names];

		r = sd_bus_message_enter_container(m, 'r', "ays");
		if (r <= 0)
			break;
		j->n_entry_names++;
		r = bytes_read(m, &n->path);
		if (r >= 0)
			r = string_read(m, &n->state);
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
	}
	return r;
}

/* Calls one of the methods of a job that list something, and reads the answer. */
static int list_get(struct client *c, const char *path, const char *member, struct job_view *j,
		    uint32_t limit,
		    int (*read)(sd_bus_message *m, struct job_view *j, size_t limit))
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	int r = client_call(c, path, JOB_INTERFACE, member, &reply, "tu", (uint64_t)0, limit);

	if (r)
		return r;
	r = read(reply, j, limit);
	return r < 0 ? client_broken(r) : 0;
}

static int properties_get(struct client *c, const char *path, struct job_view *j)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	int r = client_call(c, path, "org.freedesktop.DBus.Properties", "GetAll", &reply, "s",
			    JOB_INTERFACE);

	if (r)
		return r;
	r = properties_read(reply, j);
	if (r >= 0)
		r = strings_complete(j);
	return r < 0 ? client_broken(r) : 0;
}

/* Asks the manager first, whose answer for a job that is not there is the clearer one. */
static int job_exists(struct client *c, uint64_t id)
{
	return client_call(c, MANAGER_PATH, MANAGER_INTERFACE, "GetJob", NULL, "t", id);
}

int job_view_get(struct client *c, uint64_t id, uint32_t limit, struct job_view *ret)
{
	struct job_view j = { .id = id };
	char path[64];
	int r = job_exists(c, id);

	(void)snprintf(path, sizeof(path), MANAGER_PATH "/job/%" PRIu64, id);
	if (r == 0)
		r = properties_get(c, path, &j);
	if (r == 0 && limit > 0)
		r = list_get(c, path, "GetProblems", &j, limit, problems_read);
	if (r == 0 && limit > 0)
		r = list_get(c, path, "GetEntries", &j, limit, names_read);
	if (r) {
		job_view_done(&j);
		return r;
	}
	*ret = j;
	return 0;
}
