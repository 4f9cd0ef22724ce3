/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The three ways to hand names over. What can be seen from the message alone is checked here; what
 * a filesystem must be asked for is not: that may hang, and is the intake worker's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bus-state.h"
#include "base/escape.h"

#define NAMES_MOST 100000
#define NAMES_BYTES_MOST MiB(8)
/* The kernel passes 253 at most. */
#define GROUPS_MOST 256
/* A job that a policy began has this before the policy's name as its origin. */
#define ORIGIN_POLICY "policy:"
#define POLICY_NAME_MOST 64
/* Longer than anything is held, and far from where times overflow. */
#define UNDO_USEC_MOST (10ULL * 365 * 24 * 3600 * USEC_PER_SEC)

struct names {
	char *v;
	size_t len, size;
};

struct strings {
	char **v;
	size_t n, size;
};

struct bus_submission {
	struct submit_options o;
	struct intake_group *groups;
	size_t n_groups, groups_size;
	struct names names[GROUPS_MOST]; /* of SubmitFiles, for each group */
	size_t n_names, names_bytes;
	uint64_t lists_bytes;   /* of SubmitLists */
	struct strings paths;   /* of Submit */
	struct strings display; /* an option of the others */
};

static void strings_done(struct strings *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
}

static void submit_free(struct bus_submission *s)
{
	for (size_t i = 0; i < GROUPS_MOST; i++)
		free(s->names[i].v);
	strings_done(&s->paths);
	strings_done(&s->display);
	free(s->groups);
	free(s);
}

/* Makes room for one more of `size` bytes. */
static int grow(void *array, size_t n, size_t *room, size_t size)
{
	size_t more = *room > 0 ? *room * 2 : 16;
	void *v;

	if (n < *room)
		return 0;
	v = reallocarray(*(void **)array, more, size);
	if (!v)
		return -ENOMEM;
	*(void **)array = v;
	*room = more;
	return 0;
}

/* Reads a byte string and appends it. */
static int strings_read(struct bus_request *q, struct strings *s, const char *what)
{
	int r = grow(&s->v, s->n, &s->size, sizeof(*s->v));

	if (r >= 0)
		r = arguments_bytes(q, q->m, what, &s->v[s->n]);
	if (r >= 0)
		s->n++;
	return r;
}

static int group_add(struct bus_submission *s, const struct intake_group *g)
{
	int r = grow(&s->groups, s->n_groups, &s->groups_size, sizeof(*s->groups));

	if (r >= 0)
		s->groups[s->n_groups++] = *g;
	return r;
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

static int set_by(struct bus_request *q, sd_bus_message *m, void *target)
{
	(void)q;
	return sd_bus_message_read(m, "t", &((struct bus_submission *)target)->o.by_usec);
}

static int set_priority(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct bus_submission *s = target;
	const char *name;
	int r = sd_bus_message_read(m, "s", &name);

	if (r < 0)
		return r;
	for (enum job_priority p = PRIORITY_LOW; p <= PRIORITY_HIGH; p++) {
		if (strcmp(name, job_priority_name(p)) != 0)
			continue;
		s->o.priority = p;
		return 0;
	}
	return request_refuse(q, ERROR_INVALID_ARGUMENT, "priority is low, normal or high.");
}

static int set_dry_run(struct bus_request *q, sd_bus_message *m, void *target)
{
	int on, r = sd_bus_message_read(m, "b", &on);

	(void)q;
	if (r >= 0)
		((struct bus_submission *)target)->o.dry_run = on != 0;
	return r;
}

static int set_display(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct bus_submission *s = target;
	int r = sd_bus_message_enter_container(m, 'a', "ay");

	if (strcmp(q->call->member, "Submit") == 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "display does not go with Submit.");
	while (r >= 0 && (r = sd_bus_message_at_end(m, false)) == 0) {
		if (s->display.n == GROUPS_MOST)
			return request_refuse(q, ERROR_INVALID_ARGUMENT,
					      "display has more than %d paths.", GROUPS_MOST);
		r = strings_read(q, &s->display, "path in display");
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* Whose idea it is: only root may say, and only that it is a policy's. */
static int set_origin(struct bus_request *q, sd_bus_message *m, void *target)
{
	struct bus_submission *s = target;
	int r = sd_bus_message_read(m, "s", &s->o.origin);

	if (r < 0)
		return r;
	if (q->client->c.id.uid != 0)
		return request_refuse(q, ERROR_NOT_AUTHORIZED, "Only root may name an origin.");
	if (strncmp(s->o.origin, ORIGIN_POLICY, strlen(ORIGIN_POLICY)) != 0 ||
	    strlen(s->o.origin) > strlen(ORIGIN_POLICY) + POLICY_NAME_MOST)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "origin is " ORIGIN_POLICY "NAME, with no more than %d bytes "
				      "of name.",
				      POLICY_NAME_MOST);
	return 0;
}

static int set_keep_moved(struct bus_request *q, sd_bus_message *m, void *target)
{
	int on, r = sd_bus_message_read(m, "b", &on);

	(void)q;
	if (r >= 0)
		((struct bus_submission *)target)->o.keep_moved = on != 0;
	return r;
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

static const struct option submit_options[] = {
	{ "undo-usec", "t", set_undo },    { "by-usec", "t", set_by },
	{ "priority", "s", set_priority }, { "dry-run", "b", set_dry_run },
	{ "display", "aay", set_display }, { "origin", "s", set_origin },
	{ "records", "b", set_records },   { "keep-moved", "b", set_keep_moved },
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
	if (s->display.n > 0 && s->display.n != s->n_groups)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "display has %zu paths for %zu directories.", s->display.n,
				      s->n_groups);
	for (size_t i = 0; i < s->display.n; i++)
		s->groups[i].display = s->display.v[i];
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

static int names_add(struct names *n, const void *name, size_t len)
{
	if (!n->v || n->len + len + 1 > n->size) {
		size_t size = MAX(n->size * 2, n->len + len + 1);
		char *v = realloc(n->v, MAX(size, 64U));

		if (!v)
			return -ENOMEM;
		n->v = v;
		n->size = MAX(size, 64U);
	}
	memcpy(n->v + n->len, name, len);
	n->v[n->len + len] = '\0';
	n->len += len + 1;
	return 0;
}

static int refuse_name(struct bus_request *q, size_t i, const char *name, size_t len,
		       const char *why)
{
	_cleanup_free_ char *shown = escape_bytes(name, MIN(len, 255U));

	return request_refuse(q, ERROR_INVALID_ARGUMENT, "Name %zu, \"%s\", %s.", i,
			      shown ? shown : "", why);
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
			r = group_add(s, &g);
	}
	return r < 0 ? r : sd_bus_message_exit_container(q->m);
}

static int read_entry(struct bus_request *q, struct bus_submission *s)
{
	const char *wrong;
	const void *name;
	uint32_t parent;
	size_t len;
	int r = sd_bus_message_read(q->m, "u", &parent);

	if (r >= 0)
		r = sd_bus_message_read_array(q->m, 'y', &name, &len);
	if (r < 0)
		return r;
	if (parent >= s->n_groups)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "Entry %zu is in parent %u, but there are only %zu.",
				      s->n_names, parent, s->n_groups);
	wrong = arguments_name_wrong(len > 0 ? name : "", len);
	if (wrong)
		return refuse_name(q, s->n_names, len > 0 ? name : "", len, wrong);
	r = count_name(q, s, len);
	return r < 0 ? r : names_add(&s->names[parent], name, len);
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
		s->groups[i].names = s->names[i].v;
		s->groups[i].names_len = s->names[i].len;
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
		r = arguments_list_file(q, g.names_fd, s->n_groups, &s->lists_bytes);
	return r < 0 ? r : group_add(s, &g);
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
	const char *path;
	int r = strings_read(q, &s->paths, "path");

	if (r < 0)
		return r;
	path = s->paths.v[s->paths.n - 1];
	if (path[0] != '/') {
		_cleanup_free_ char *shown = escape_name(path);

		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "The path \"%.800s\" is relative: give an absolute one.",
				      shown ? shown : "");
	}
	return count_name(q, s, strlen(path));
}

static int read_paths(struct bus_request *q, struct bus_submission *s)
{
	int r = sd_bus_message_enter_container(q->m, 'a', "ay");

	while (r >= 0 && (r = sd_bus_message_at_end(q->m, false)) == 0)
		r = read_path(q, s);
	if (r >= 0)
		r = sd_bus_message_exit_container(q->m);
	for (size_t i = 0; r >= 0 && i < s->paths.n; i++)
		r = group_add(s, &(struct intake_group){
					 .dirfd = -1, .names_fd = -1, .path = s->paths.v[i] });
	if (r >= 0 && s->n_groups == 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT, "No paths are given.");
	return r;
}

static int submit(struct bus_request *q,
		  int (*read)(struct bus_request *q, struct bus_submission *s))
{
	struct bus_submission *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->o.priority = PRIORITY_NORMAL;
	r = read(q, s);
	if (r >= 0)
		r = begin(q, s);
	submit_free(s);
	return r;
}

static int call_submit_files(struct bus_request *q)
{
	return submit(q, read_files);
}

static int call_submit_lists(struct bus_request *q)
{
	return submit(q, read_lists);
}

static int call_submit(struct bus_request *q)
{
	return submit(q, read_paths);
}

const struct call submit_calls[] = {
	{ MANAGER_INTERFACE, "SubmitFiles", call_submit_files },
	{ MANAGER_INTERFACE, "SubmitLists", call_submit_lists },
	{ MANAGER_INTERFACE, "Submit", call_submit },
	{ 0 },
};
