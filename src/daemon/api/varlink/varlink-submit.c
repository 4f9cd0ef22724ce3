/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Submit, by absolute paths. Descriptors, which bus-submit.c has for all else, never get this far:
 * what JSON cannot say of a name is said in Base64. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "varlink-state.h"

/* Longer than anything is held, and far from where times overflow. */
#define UNDO_USEC_MOST (10ULL * 365 * 24 * 3600 * USEC_PER_SEC)

struct varlink_submission {
	struct submit_options o;
	uint64_t undo_usec;
	sd_json_variant *texts, *base64; /* the parameters' */
	char **paths;
	struct intake_group *groups;
	size_t n, bytes;
};

static const sd_json_dispatch_field fields[] = {
	{ "paths", SD_JSON_VARIANT_ARRAY, sd_json_dispatch_variant_noref,
	  offsetof(struct varlink_submission, texts), SD_JSON_NULLABLE },
	{ "pathsBase64", SD_JSON_VARIANT_ARRAY, sd_json_dispatch_variant_noref,
	  offsetof(struct varlink_submission, base64), SD_JSON_NULLABLE },
	{ "undoUSec", SD_JSON_VARIANT_NUMBER, read_number,
	  offsetof(struct varlink_submission, undo_usec), SD_JSON_NULLABLE },
	{ "deadlineUSec", SD_JSON_VARIANT_NUMBER, read_number,
	  offsetof(struct varlink_submission, o.by_usec), SD_JSON_NULLABLE },
	{ "priority", SD_JSON_VARIANT_STRING, read_priority,
	  offsetof(struct varlink_submission, o.priority), SD_JSON_NULLABLE },
	{ "bytes", SD_JSON_VARIANT_NUMBER, read_number,
	  offsetof(struct varlink_submission, o.bytes), SD_JSON_NULLABLE },
	{ "dryRun", SD_JSON_VARIANT_BOOLEAN, read_bool,
	  offsetof(struct varlink_submission, o.dry_run), SD_JSON_NULLABLE },
	{ 0 },
};

static void submit_done(struct varlink_submission *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->paths[i]);
	free(s->paths);
	free(s->groups);
}

/* Takes over the path, which is NUL-terminated. */
static int add_path(struct varlink_call *q, struct varlink_submission *s, char *path, size_t len)
{
	_cleanup_free_ char *shown = NULL;

	s->groups[s->n] = (struct intake_group){ .dirfd = -1, .names_fd = -1, .path = path };
	s->paths[s->n++] = path;
	s->bytes += len + 1;
	if (memchr(path, '\0', len))
		return call_refuse(q, ERROR_INVALID_ARGUMENT, "The path %zu has a NUL in it.",
				   s->n - 1);
	if (len == 0 || len >= PATH_MAX)
		return call_refuse(q, ERROR_INVALID_ARGUMENT,
				   "The path %zu has %zu bytes: 1 to %d can be.", s->n - 1, len,
				   PATH_MAX - 1);
	if (path[0] == '/')
		return 0;
	shown = escape_name(path);
	return call_refuse(q, ERROR_INVALID_ARGUMENT,
			   "The path \"%.800s\" is relative: give an absolute one.",
			   shown ? shown : "");
}

static int add_text(struct varlink_call *q, struct varlink_submission *s, sd_json_variant *v)
{
	char *path = strdup(sd_json_variant_string(v));

	return path ? add_path(q, s, path, strlen(path)) : -ENOMEM;
}

static int add_base64(struct varlink_call *q, struct varlink_submission *s, sd_json_variant *v)
{
	void *bytes = NULL;
	size_t len = 0;
	char *path;
	int r = sd_json_variant_unbase64(v, &bytes, &len);

	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		q->bad = "pathsBase64";
		return r;
	}
	path = realloc(bytes, len + 1);
	if (!path) {
		free(bytes);
		return -ENOMEM;
	}
	path[len] = '\0';
	return add_path(q, s, path, len);
}

static int read_paths(struct varlink_call *q, struct varlink_submission *s)
{
	size_t texts = sd_json_variant_elements(s->texts);
	size_t base64 = sd_json_variant_elements(s->base64);
	int r = 0;

	if (texts + base64 == 0)
		return call_refuse(q, ERROR_INVALID_ARGUMENT, "No paths are given.");
	s->paths = calloc(texts + base64, sizeof(*s->paths));
	s->groups = calloc(texts + base64, sizeof(*s->groups));
	if (!s->paths || !s->groups)
		return -ENOMEM;
	for (size_t i = 0; i < texts && r >= 0; i++)
		r = add_text(q, s, sd_json_variant_by_index(s->texts, i));
	for (size_t i = 0; i < base64 && r >= 0; i++)
		r = add_base64(q, s, sd_json_variant_by_index(s->base64, i));
	return r;
}

static int read_options(struct varlink_call *q, struct varlink_submission *s)
{
	int r = call_read(q, fields, s);

	if (r < 0)
		return r;
	s->o.has_undo = s->undo_usec != UINT64_MAX;
	if (!s->o.has_undo)
		return 0;
	s->o.undo_usec = s->undo_usec;
	if (s->undo_usec > UNDO_USEC_MOST)
		return call_refuse(q, ERROR_INVALID_ARGUMENT,
				   "undoUSec is more than ten years: give microseconds.");
	return 0;
}

static bool is_awaited(void *userdata)
{
	const struct varlink_call *q = userdata;

	return call_is_awaited(q);
}

static void on_submitted(const struct failure *f, const struct submitted *done, void *userdata)
{
	struct varlink_call *q = userdata;

	/* The worker died, which may not be the caller's fault: once more, and then it is an error.
	 */
	if (done->interrupted && !q->tried && q->varlink) {
		q->tried = true;
		call_again(q);
		return;
	}
	if (!f || !f->cause)
		q->error = sd_json_buildo(&q->reply, SD_JSON_BUILD_PAIR_UNSIGNED("id", done->id));
	call_answer(f, q);
}

static int begin(struct varlink_call *q, struct varlink_submission *s)
{
	int r;

	s->bytes += s->n * QUOTA_GROUP_BYTES;
	r = quota_take(q->varlink->bus->quota, q->client->account, QUOTA_NAMES, s->bytes);
	if (r < 0)
		return call_refuse(q, ERROR_LIMIT_EXCEEDED,
				   "Too many names wait to be taken in: go on when some calls "
				   "have been answered.");
	q->names_bytes = s->bytes;
	s->o.is_awaited = is_awaited;
	operation_submit(q->varlink->bus->operations, &q->client->c, s->groups, s->n, &s->o,
			 on_submitted, q);
	return 0;
}

static int submit(struct varlink_call *q)
{
	struct varlink_submission s = { .o.priority = PRIORITY_NORMAL, .undo_usec = UINT64_MAX };
	int r = read_options(q, &s);

	if (r >= 0)
		r = read_paths(q, &s);
	if (r >= 0)
		r = begin(q, &s);
	submit_done(&s);
	return r;
}

VARLINK_METHOD(on_submit, submit)

int call_bind_submit(sd_varlink_server *s)
{
	return sd_varlink_server_bind_method(s, VARLINK_INTERFACE ".Submit", on_submit);
}
