/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The three ways to hand names over. What can be seen from the message alone is checked here; what
 * a filesystem must be asked for is not: that may hang, and is the intake worker's. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus-state.h"
#include "base/array.h"
#include "base/escape.h"
#include "policy/policy.h"

#define NAMES_MOST 100000
#define NAMES_BYTES_MOST MiB(8)
/* The kernel passes 253 at most. */
#define GROUPS_MOST 256
#define POLICY_NAME_MOST 64
/* Longer than anything is held, and far from where times overflow. */
#define UNDO_USEC_MOST (10ULL * 365 * 24 * 3600 * USEC_PER_SEC)

struct bus_submission {
	struct submit_options o;
	struct intake_group *groups;
	size_t n_groups;
	struct names {
		char *v;
		size_t len, size;
	} names[GROUPS_MOST]; /* of SubmitFiles, for each group */
	size_t n_names, names_bytes;
	char **paths; /* of Submit */
	size_t n_paths;
	char **display; /* an option of the others */
	size_t n_display;
};

static void submission_free(struct bus_submission *s)
{
	for (size_t i = 0; i < GROUPS_MOST; i++)
		free(s->names[i].v);
	for (size_t i = 0; i < s->n_paths; i++)
		free(s->paths[i]);
	for (size_t i = 0; i < s->n_display; i++)
		free(s->display[i]);
	free(s->paths);
	free(s->display);
	free(s->groups);
	free(s);
}

/* Reads a byte string and appends it. */
static int read_string(struct bus_request *q, char ***list, size_t *n, const char *what)
{
	char *text = NULL;
	int r = arguments_bytes(q, q->m, what, &text);

	return r < 0 ? r : strings_add(list, n, text);
}

static int add_group(struct bus_submission *s, const struct intake_group *g)
{
	struct intake_group *to = array_add(&s->groups, &s->n_groups, sizeof(*to));

	if (!to)
		return -ENOMEM;
	*to = *g;
	return 0;
}

/* ---- options ------------------------------------------------------------------------------ */

static int set_undo(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct bus_submission *s = target;

	s->o.has_undo = true;
	if (sd_bus_message_read(m, "t", &s->o.undo_usec) < 0)
		return -EBADMSG;
	if (s->o.undo_usec > UNDO_USEC_MOST)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "undo-usec is more than ten years: give microseconds.");
	return 0;
}

static int set_display(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct bus_submission *s = target;
	int r = sd_bus_message_enter_container(m, 'a', "ay");

	if (strcmp(q->call->member, "Submit") == 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "display does not go with Submit.");
	while (r >= 0 && (r = sd_bus_message_at_end(m, false)) == 0) {
		if (s->n_display == GROUPS_MOST)
			return request_refuse(q, ERROR_INVALID_ARGUMENT,
					      "display has more than %d paths.", GROUPS_MOST);
		r = read_string(q, &s->display, &s->n_display, "path in display");
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* Whose idea it is: that it is a policy's of the system only root may say, and every user that it
 * is one of their own. It is a word, and changes nothing of what the caller may have deleted. */
static int set_origin(struct bus_request *q, sd_bus_message *m, void *to)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	const char *origin, *name;
	int r = sd_bus_message_read(m, "s", &origin);
	bool own;

	if (r < 0)
		return r;
	own = strncmp(origin, USER_POLICY_ORIGIN, strlen(USER_POLICY_ORIGIN)) == 0;
	if (q->client->c.id.uid != 0 && !own)
		return request_refuse(q, ERROR_NOT_AUTHORIZED,
				      "Only root may name an origin other than " USER_POLICY_ORIGIN
				      "NAME.");
	name = own ? origin + strlen(USER_POLICY_ORIGIN) : policy_of_origin(origin);
	if (!name || strlen(name) > POLICY_NAME_MOST || (own && name[strspn(name, letters)]))
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "origin is " POLICY_ORIGIN "NAME or " USER_POLICY_ORIGIN
				      "NAME, with no more than %d letters of name.",
				      POLICY_NAME_MOST);
	*(const char **)to = origin;
	return 0;
}

static int set_records(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct bus_submission *s = target;
	int on, r = sd_bus_message_read(m, "b", &on);

	if (strcmp(q->call->member, "SubmitLists") != 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "records goes only with SubmitLists.");
	for (size_t i = 0; r >= 0 && i < s->n_groups; i++)
		s->groups[i].records = on != 0;
	return r;
}

#define OPTION(member) offsetof(struct bus_submission, o.member)

static const struct option submit_options[] = {
	{ "undo-usec", "t", 0, set_undo },
	{ "deadline-usec", "t", OPTION(by_usec), NULL },
	{ "priority", "s", OPTION(priority), arguments_priority },
	{ "dry-run", "b", OPTION(dry_run), NULL },
	{ "rmdir", "b", OPTION(rmdir), NULL },
	{ "bytes", "t", OPTION(bytes), NULL },
	{ "display", "aay", 0, set_display },
	{ "origin", "s", OPTION(origin), set_origin },
	{ "records", "b", 0, set_records },
	{ "keep-moved", "b", OPTION(keep_moved), NULL },
};

/* ---- the answer --------------------------------------------------------------------------- */

/* A message that wants no answer is not withdrawn for want of one. */
static bool is_awaited(void *userdata)
{
	const struct bus_request *q = userdata;

	return sd_bus_message_get_expect_reply(q->m) == 0 ||
	       (link_lives(q->link) && !q->client->gone);
}

static void on_submitted(const struct failure *f, const struct submitted *done, void *userdata)
{
	struct bus_request *q = userdata;
	char path[JOB_PATH_MAX] = "/";

	/* The worker died, which may not be the caller's fault: once more, and then it is an error.
	 */
	if (done->interrupted && !q->tried && q->bus) {
		q->tried = true;
		request_again(q);
		return;
	}
	if (f && f->cause) {
		request_answer(f, q);
		return;
	}
	if (done->id > 0)
		job_path(path, done->id);
	q->error = request_reply(q);
	if (q->error >= 0)
		q->error = sd_bus_message_append(q->reply, "to", done->id, path);
	if (q->error >= 0 && strcmp(q->call->member, "SubmitLists") == 0)
		q->error = sd_bus_message_append(q->reply, "tt", done->accepted, done->missing);
	request_answer(NULL, q);
}

static int begin(struct bus_request *q, struct bus_submission *s)
{
	int r = arguments_options(q, submit_options, ELEMENTSOF(submit_options), s);

	if (r < 0)
		return r;
	if (s->n_display > 0 && s->n_display != s->n_groups)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "display has %zu paths for %zu directories.", s->n_display,
				      s->n_groups);
	for (size_t i = 0; i < s->n_display; i++)
		s->groups[i].display = s->display[i];
	/* A policy has looked for what is refused; if something has become so since, it is not what
	 * was planned for, and the rest is all the same. */
	for (size_t i = 0; i < s->n_groups; i++)
		s->groups[i].skip_refused = s->o.origin && s->groups[i].records;
	s->names_bytes += s->n_groups * QUOTA_GROUP_BYTES;
	r = quota_take(q->bus->quota, q->client->account, QUOTA_NAMES, s->names_bytes);
	if (r < 0)
		return request_refuse(q, ERROR_LIMIT_EXCEEDED,
				      "Too many names wait to be taken in: go on when some calls "
				      "have been answered.");
	q->names_bytes = s->names_bytes;
	s->o.is_awaited = is_awaited;
	operation_submit(q->bus->operations, &q->client->c, s->groups, s->n_groups, &s->o,
			 on_submitted, q);
	return 0;
}

/* ---- what is submitted -------------------------------------------------------------------- */

static int count_name(struct bus_request *q, struct bus_submission *s, size_t len)
{
	s->n_names++;
	s->names_bytes += len + 1;
	if (s->n_names > NAMES_MOST)
		return request_refuse(q, ERROR_LIMIT_EXCEEDED,
				      "More than %d names: use SubmitLists, or several calls.",
				      NAMES_MOST);
	if (s->names_bytes > NAMES_BYTES_MOST)
		return request_refuse(q, ERROR_LIMIT_EXCEEDED,
				      "More than 8 MiB of names: use SubmitLists, or several "
				      "calls.");
	return 0;
}

static int read_parents(struct bus_request *q, struct bus_submission *s)
{
	int r = sd_bus_message_enter_container(q->m, 'a', "h");

	while (r >= 0 && (r = sd_bus_message_at_end(q->m, false)) == 0) {
		struct intake_group g = { .names_fd = -1 };

		if (s->n_groups == GROUPS_MOST)
			return request_refuse(q, ERROR_INVALID_ARGUMENT,
					      "More than %d directories.", GROUPS_MOST);
		r = sd_bus_message_read(q->m, "h", &g.dirfd);
		if (r >= 0)
			r = arguments_directory(q, g.dirfd, "parent directory", s->n_groups);
		if (r >= 0)
			r = add_group(s, &g);
	}
	return r < 0 ? r : sd_bus_message_exit_container(q->m);
}

static int read_entry(struct bus_request *q, struct bus_submission *s)
{
	const char *name, *wrong;
	struct names *to;
	uint32_t parent;
	size_t len;
	int r = sd_bus_message_read(q->m, "u", &parent);

	if (r >= 0)
		r = arguments_string(q->m, &name, &len);
	if (r < 0)
		return r;
	if (parent >= s->n_groups)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "Entry %zu is in parent %u, but there are only %zu.",
				      s->n_names, parent, s->n_groups);
	wrong = arguments_name_wrong(name, len);
	if (wrong) {
		_cleanup_free_ char *shown = escape_bytes(name, MIN(len, 255U));

		return request_refuse(q, ERROR_INVALID_ARGUMENT, "Name %zu, \"%s\", %s.",
				      s->n_names, shown ? shown : "", wrong);
	}
	r = count_name(q, s, len);
	if (r < 0)
		return r;
	to = &s->names[parent];
	if (array_reserve(&to->v, &to->size, to->len + len + 1, 1) < 0)
		return -ENOMEM;
	assert(to->v);
	memcpy(to->v + to->len, name, len);
	to->v[to->len + len] = '\0';
	to->len += len + 1;
	return 0;
}

static int read_entries(struct bus_request *q, struct bus_submission *s)
{
	int r = sd_bus_message_enter_container(q->m, 'a', "(uay)");

	while (r >= 0 && (r = sd_bus_message_enter_container(q->m, 'r', "uay")) > 0) {
		r = read_entry(q, s);
		if (r >= 0)
			r = sd_bus_message_exit_container(q->m);
	}
	return r < 0 ? r : sd_bus_message_exit_container(q->m);
}

static int read_files(struct bus_request *q, struct bus_submission *s)
{
	int r = read_parents(q, s);

	if (r >= 0)
		r = read_entries(q, s);
	if (r < 0)
		return r;
	if (s->n_names == 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT, "No names are given.");
	for (size_t i = 0; i < s->n_groups; i++) {
		if (s->names[i].len == 0)
			return request_refuse(q, ERROR_INVALID_ARGUMENT,
					      "No entry is in parent directory %zu.", i);
		s->groups[i].names = (struct wire_bytes){ s->names[i].v, s->names[i].len };
	}
	return 0;
}

static int read_list(struct bus_request *q, struct bus_submission *s)
{
	struct intake_group g = { .list = true };
	int r = sd_bus_message_read(q->m, "hh", &g.dirfd, &g.names_fd);

	if (r < 0)
		return r;
	if (s->n_groups == GROUPS_MOST)
		return request_refuse(q, ERROR_INVALID_ARGUMENT, "More than %d lists.",
				      GROUPS_MOST);
	r = arguments_directory(q, g.dirfd, "directory", s->n_groups);
	if (r >= 0)
		r = arguments_list_file(q, g.names_fd, s->n_groups);
	return r < 0 ? r : add_group(s, &g);
}

static int read_lists(struct bus_request *q, struct bus_submission *s)
{
	int r = sd_bus_message_enter_container(q->m, 'a', "(hh)");

	while (r >= 0 && (r = sd_bus_message_enter_container(q->m, 'r', "hh")) > 0) {
		r = read_list(q, s);
		if (r >= 0)
			r = sd_bus_message_exit_container(q->m);
	}
	if (r >= 0 && s->n_groups == 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT, "No lists are given.");
	return r < 0 ? r : sd_bus_message_exit_container(q->m);
}

static int read_path(struct bus_request *q, struct bus_submission *s)
{
	struct intake_group g = { .dirfd = -1, .names_fd = -1 };
	int r = read_string(q, &s->paths, &s->n_paths, "path");

	if (r < 0)
		return r;
	g.path = s->paths[s->n_paths - 1];
	if (g.path[0] != '/') {
		_cleanup_free_ char *shown = escape_name(g.path);

		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "The path \"%.800s\" is relative: give an absolute one.",
				      shown ? shown : "");
	}
	r = count_name(q, s, strlen(g.path));
	return r < 0 ? r : add_group(s, &g);
}

static int read_paths(struct bus_request *q, struct bus_submission *s)
{
	int r = sd_bus_message_enter_container(q->m, 'a', "ay");

	while (r >= 0 && (r = sd_bus_message_at_end(q->m, false)) == 0)
		r = read_path(q, s);
	if (r >= 0 && s->n_groups == 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT, "No paths are given.");
	return r < 0 ? r : sd_bus_message_exit_container(q->m);
}

static int call_submit(struct bus_request *q)
{
	struct bus_submission *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->o.priority = PRIORITY_NORMAL;
	r = strcmp(q->call->member, "SubmitFiles") == 0   ? read_files(q, s)
	    : strcmp(q->call->member, "SubmitLists") == 0 ? read_lists(q, s)
							  : read_paths(q, s);
	if (r >= 0)
		r = begin(q, s);
	submission_free(s);
	return r;
}

const struct call submit_calls[] = {
	{ MANAGER_INTERFACE, "SubmitFiles", call_submit, 0 },
	{ MANAGER_INTERFACE, "SubmitLists", call_submit, 0 },
	{ MANAGER_INTERFACE, "Submit", call_submit, 0 },
	{ 0 },
};
