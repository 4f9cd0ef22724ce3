/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl retry: submits again what jobs could not delete and have left in its place, as new
 * jobs.
 *
 * The daemon has on record which names those are, and who each was when it was submitted: what has
 * another file in its place by now is left alone. All else is checked as at the first submit. What
 * is still in staging, because it could not go back, stays there.
 *
 * With --json, an array with one object for each new job. Keys are only ever added.
 *
 *   id        of the job that was retried
 *   job       the new one
 *   accepted  how many names
 *   missing   how many are gone or replaced
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/output/screen.h"
#include "base/array.h"
#include "base/fd.h"
#include "base/sealed-file.h"
#include "base/units.h"
#include "batches.h"
#include "ctl/common/answer.h"
#include "ctl/common/client.h"
#include "ctl/common/verbs.h"
#include "ctl/output/interrupt.h"
#include "ctl/output/messages.h"
#include "engine/guard/path-intake.h"
#include "job-list.h"
#include "job-print.h"
#include "job-view.h"
#include "wire/records.h"

/* The names that are left in one directory. */
struct kept_dir {
	char *path;
	char *records; /* as records.h has them */
	size_t len, size, n;
	int fd; /* while it is submitted */
};

struct retry {
	const struct options *o;
	struct client *client;
	json_t *array; /* with --json */
	uint64_t id;   /* of the job */
	const char *priority, *kind;
	struct kept_dir *dirs;
	size_t n_dirs, done;
	uint64_t missing; /* names whose directory is gone */
};

static void dirs_done(struct retry *t)
{
	for (size_t i = 0; i < t->n_dirs; i++) {
		free(t->dirs[i].path);
		free(t->dirs[i].records);
		fd_closep(&t->dirs[i].fd);
	}
	free(t->dirs);
	t->dirs = NULL;
	t->n_dirs = 0;
}

/* Names of a directory mostly come together. */
static struct kept_dir *dir_get(struct retry *t, const char *path, size_t len)
{
	struct kept_dir *d;

	for (size_t i = t->n_dirs; i > 0; i--)
		if (strncmp(t->dirs[i - 1].path, path, len) == 0 && !t->dirs[i - 1].path[len])
			return &t->dirs[i - 1];
	d = array_add(&t->dirs, &t->n_dirs, sizeof(*d));
	if (!d)
		return NULL;
	*d = (struct kept_dir){ .path = strndup(path, len), .fd = -1 };
	return d->path ? d : NULL;
}

static int name_add(struct retry *t, const char *path, const struct record_header *who)
{
	const char *slash = strrchr(path, '/');
	struct kept_dir *d;
	size_t len;

	if (!slash || !slash[1])
		return -EBADMSG;
	d = dir_get(t, path, slash == path ? 1 : (size_t)(slash - path));
	len = strlen(slash + 1) + 1;
	if (!d || array_reserve(&d->records, &d->size, d->len + sizeof(*who) + len, 1) < 0)
		return -ENOMEM;
	assert(d->records);
	memcpy(d->records + d->len, who, sizeof(*who));
	memcpy(d->records + d->len + sizeof(*who), slash + 1, len);
	d->len += sizeof(*who) + len;
	d->n++;
	return 0;
}

static int row_read(struct retry *t, sd_bus_message *m, uint64_t *after)
{
	_cleanup_free_ char *path = NULL;
	struct record_header who;
	const void *bytes = NULL;
	uint64_t birth;
	size_t len = 0;
	int r = sd_bus_message_read(m, "t", after);

	if (r >= 0)
		r = sd_bus_message_read_array(m, 'y', &bytes, &len);
	if (r >= 0)
		r = sd_bus_message_read(m, "ttt", &who.ino, &birth, &who.type);
	if (r < 0)
		return r;
	who.btime_nsec = (int64_t)birth;
	if (asprintf(&path, "%.*s", (int)len, len > 0 ? (const char *)bytes : "") < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return name_add(t, path, &who);
}

/* One answer of the daemon. Returns 1 if there were names, 0, or a negative errno. */
static int page_read(struct retry *t, sd_bus_message *m, uint64_t *after)
{
	int r = sd_bus_message_enter_container(m, 'a', "(tayttt)"), any = 0;

	while (r >= 0 && (r = sd_bus_message_enter_container(m, 'r', "tayttt")) > 0) {
		r = row_read(t, m, after);
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
		any = 1;
	}
	return r < 0 ? r : any;
}

/* Reads which names the job has left. Returns 0 or an exit status. */
static int names_get(struct retry *t)
{
	uint64_t after = 0;
	char path[64];
	int r;

	(void)snprintf(path, sizeof(path), MANAGER_PATH "/job/%" PRIu64, t->id);
	do {
		_cleanup_message_ sd_bus_message *reply = NULL;

		r = client_call(t->client, path, JOB_INTERFACE, "GetKept", &reply, "tu", after, 0);
		if (r)
			return r;
		r = page_read(t, reply, &after);
	} while (r > 0);
	return r < 0 ? client_broken(r) : 0;
}

static void records_write(FILE *f, const void *what)
{
	const struct kept_dir *d = what;

	(void)fwrite(d->records, 1, d->len, f);
}

static int lists_append(sd_bus_message *m, struct kept_dir *const *dirs, size_t n)
{
	int r = sd_bus_message_open_container(m, 'a', "(hh)");

	for (size_t i = 0; r >= 0 && i < n; i++) {
		_cleanup_close_ int records = sealed_file(records_write, dirs[i]);

		r = records < 0 ? records : sd_bus_message_append(m, "(hh)", dirs[i]->fd, records);
	}
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int options_append(sd_bus_message *m, const struct retry *t, struct kept_dir *const *dirs,
			  size_t n)
{
	int r = sd_bus_message_open_container(m, 'a', "{sv}");

	if (r >= 0)
		r = sd_bus_message_append(m, "{sv}{sv}", "records", "b", 1, "priority", "s",
					  t->priority);
	if (r >= 0 && strcmp(t->kind, "rmdir") == 0)
		r = sd_bus_message_append(m, "{sv}", "rmdir", "b", 1);
	if (r >= 0)
		r = option_open(m, "display", "aay");
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'a', "ay");
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = sd_bus_message_append_array(m, 'y', dirs[i]->path, strlen(dirs[i]->path));
	if (r >= 0)
		r = option_close(m, sd_bus_message_close_container(m));
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static void answer_tell(struct retry *t, const struct kept_dir *dir, size_t n, uint64_t job,
			uint64_t accepted, uint64_t missing)
{
	_cleanup_free_ char *shown = screen_name(dir->path);
	char names[COUNTED_SIZE], gone[28], dirs[28];
	struct sentence line;
	FILE *out;

	t->done++;
	if (t->array)
		(void)json_array_append_new(
			t->array, json_pack("{sIsIsIsI}", "id", (json_int_t)t->id, "job",
					    (json_int_t)job, "accepted", (json_int_t)accepted,
					    "missing", (json_int_t)missing));
	if (t->array || t->o->quiet)
		return;
	out = sentence_begin(&line, stdout);
	if (n > 1)
		(void)fprintf(out, "Job %" PRIu64 ": %s of job %" PRIu64 " in %s directories", job,
			      counted_format(names, sizeof(names), accepted, "name", "names"),
			      t->id, count_format(dirs, sizeof(dirs), n));
	else
		(void)fprintf(out, "Job %" PRIu64 ": %s of job %" PRIu64 " in %s", job,
			      counted_format(names, sizeof(names), accepted, "name", "names"),
			      t->id, shown ? shown : "?");
	if (missing > 0)
		(void)fprintf(out, "; %s gone, or not any more what was submitted",
			      count_format(gone, sizeof(gone), missing));
	sentence_end(&line);
}

/* Submits the names of these directories. Returns 0 or an exit status. */
static int dirs_send(struct retry *t, struct kept_dir *const *dirs, size_t n)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	sd_bus_message *m =
		client_message(t->client, MANAGER_PATH, MANAGER_INTERFACE, "SubmitLists");
	uint64_t job, accepted, missing;
	int r = m ? lists_append(m, dirs, n) : 0;

	if (!m)
		return EXIT_FAILED;
	if (r >= 0)
		r = options_append(m, t, dirs, n);
	if (r < 0) {
		sd_bus_message_unref(m);
		return client_broken(r);
	}
	/* As with submit, no time is too long. */
	interrupt_says_jobs(NULL, 0, /* answered= */ false);
	r = client_send(t->client, m, UINT64_MAX, &reply);
	if (r)
		return r;
	r = sd_bus_message_read(reply, "tott", &job, NULL, &accepted, &missing);
	if (r < 0)
		return client_broken(r);
	interrupt_says_jobs(&job, 1, /* answered= */ true);
	answer_tell(t, dirs[0], n, job, accepted, missing + t->missing);
	t->missing = 0;
	return 0;
}

/* Opens the directory with the caller's own rights. Returns 1; 0 if it is gone; or an exit status
 * below 0. */
static int dir_open(struct retry *t, struct kept_dir *d)
{
	const char *why = NULL;

	d->fd = intake_open_dir(d->path, &why);
	if (d->fd >= 0)
		return 1;
	if (d->fd == -ENOENT) {
		t->missing += d->n;
		return 0;
	}
	complain(d->path, "%s", why);
	return -EXIT_FAILED;
}

static int nothing_left(const struct retry *t)
{
	char what[32];

	(void)snprintf(what, sizeof(what), "job %" PRIu64, t->id);
	complain(what,
		 "has left nothing in its place that is still there: reclaimctl show %" PRIu64
		 " says what became of it",
		 t->id);
	return EXIT_FAILED;
}

/* As many directories at a time as a message takes, each with a descriptor for its names. */
static int names_send(struct retry *t)
{
	size_t most = MIN(BATCH_DIRS_MOST, SOCKET_FDS_MOST / 2), n = 0;
	struct kept_dir *dirs[BATCH_DIRS_MOST];
	int failed = 0;

	for (size_t i = 0; i < t->n_dirs; i++) {
		int r = dir_open(t, &t->dirs[i]);

		failed = r < 0 ? -r : failed;
		if (r > 0)
			dirs[n++] = &t->dirs[i];
		if (n == 0 || (n < most && i + 1 < t->n_dirs))
			continue;
		r = dirs_send(t, dirs, n);
		failed = r ? r : failed;
		while (n > 0)
			fd_closep(&dirs[--n]->fd);
	}
	if (!failed && t->missing > 0)
		failed = nothing_left(t);
	return failed;
}

/* Whether the job is one that has left names, and the caller's. Returns 0 or an exit status. */
static int job_check(const struct retry *t, const json_t *j)
{
	const char *state = json_text(j, "state");
	uid_t uid = (uid_t)json_number(j, "uid");
	char what[32], user[40];

	(void)snprintf(what, sizeof(what), "job %" PRIu64, t->id);
	if (strcmp(state, "partial") != 0 && strcmp(state, "failed") != 0) {
		complain(what, "is %s: retry is for jobs that are partial or failed", state);
		return EXIT_FAILED;
	}
	/* With another one's authority, names may mean more than that user could have deleted. */
	if (uid != geteuid()) {
		complain(what, "is %s's, who alone may retry it",
			 user_format(user, sizeof(user), uid));
		return EXIT_NOT_AUTHORIZED;
	}
	return 0;
}

static int retry_one(struct retry *t)
{
	json_auto_t *j = NULL;
	int r = job_view_get(t->client, t->id, 0, &j);

	if (r == 0)
		r = job_check(t, j);
	if (r == 0)
		r = names_get(t);
	if (r)
		return r;
	if (t->n_dirs == 0)
		return nothing_left(t);
	t->priority = json_text(j, "priority");
	t->kind = json_text(j, "kind");
	r = names_send(t);
	t->priority = t->kind = NULL;
	return r;
}

int verb_retry(const struct options *o, struct client *c)
{
	struct retry t = { .o = o,
			   .client = c,
			   .array = o->json != JSON_OFF ? json_array() : NULL };
	int failed = 0;

	for (size_t i = 0; i < o->n_paths; i++) {
		int r = job_id_parse(o->paths[i], &t.id);

		if (r == 0)
			r = retry_one(&t);
		dirs_done(&t);
		t.missing = 0;
		failed = r ? r : failed;
	}
	json_print(t.array, o->json);
	return failed && t.done > 0 ? EXIT_PARTLY : failed;
}
