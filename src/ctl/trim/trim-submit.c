/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim-submit.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/output/screen.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/mounts.h"
#include "config/config.h"
#include "ctl/common/client.h"
#include "ctl/common/options.h"
#include "ctl/jobs/wait.h"
#include "ctl/output/messages.h"
#include "trim-paths.h"

struct trim_submission {
	const struct options *o;
	struct options found;  /* those by which filesystems are found */
	struct config *config; /* with --configured */
	char **names;          /* the filesystems that it names; the array alone is this one's */
	struct trim_paths paths;
	struct mounts mounts;
	struct client *client;
	json_t *array;
	uint64_t *ids;
	size_t n_ids, failed;
	bool is_root;
};

static void on_complaint(const struct config_error *e, void *userdata)
{
	struct safe_text t;

	(void)userdata;
	safe_text_format(&t, "%s:%u:%u: %s", e->file, e->line, e->column, e->text);
	if (!e->is_warning)
		complain(NULL, "%s", t.line);
}

/* Each of those that are given must be one that the configuration names. */
static int given_check(const struct trim_submission *s)
{
	for (size_t i = 0; i < s->o->n_paths; i++)
		if (!config_trims(s->config, s->o->paths[i])) {
			complain(s->o->paths[i],
				 "is none of the mount points that trim: of the configuration "
				 "names; nothing was submitted");
			return EXIT_FAILED;
		}
	return 0;
}

/* Those that have no schedule of their own. */
static int together_find(struct trim_submission *s)
{
	const struct config *c = s->config;

	s->found.all = c->n_trims == 0;
	if (s->found.all && s->found.min_bytes == 0)
		s->found.min_bytes = c->trim_limits.min_bytes;
	s->names = calloc(c->n_trims + 1, sizeof(s->names[0]));
	if (!s->names)
		return client_broken(-ENOMEM);
	s->found.paths = s->names;
	for (size_t i = 0; i < c->n_trims; i++)
		if (!config_trim_is_apart(&c->trims[i]))
			s->names[s->found.n_paths++] = c->trims[i].mount;
	if (s->found.all || s->found.n_paths > 0)
		return 0;
	complain("trim",
		 "each filesystem of the configuration has a schedule of its own: name one; "
		 "nothing was submitted");
	return EXIT_FAILED;
}

/* What --configured means. */
static int configured_find(struct trim_submission *s)
{
	const char *dir = s->o->configuration_dir;
	int r = config_load(&s->config, dir ? NULL : CONFIG_VENDOR_DIR, dir ? dir : CONFIG_DIR,
			    on_complaint, NULL);

	if (r < 0) {
		complain("trim", "the configuration cannot be read%s%s; nothing was submitted",
			 r == -EBADMSG ? "" : ": ", r == -EBADMSG ? "" : strerror(-r));
		return EXIT_FAILED;
	}
	return s->o->n_paths > 0 ? given_check(s) : together_find(s);
}

/* What the command line says, or else the configuration of this filesystem. */
static uint64_t min_bytes_of(const struct trim_submission *s, const struct trim_path *p)
{
	const struct config_trim_limits *limits =
		s->config ? config_trims(s->config, p->path) : NULL;

	return s->o->min_bytes > 0 || !limits ? s->o->min_bytes : limits->min_bytes;
}

/* The mount point of the filesystem of a path; the mount table's. */
static const char *mount_point(struct trim_submission *s, const struct trim_path *p)
{
	const struct mount *m = NULL;
	uint64_t id;

	if (fd_mount_id(p->fd, &id) >= 0)
		m = mounts_by_id(&s->mounts, id);
	if (!m)
		return NULL;
	(void)mounts_unescape((char *)m->target);
	return m->target;
}

static int call_trim(struct trim_submission *s, const char *mount, uint64_t min_bytes,
		     uint64_t *ret_id)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	sd_bus_message *m = client_message(s->client, MANAGER_PATH, MANAGER_INTERFACE, "Trim");
	int r;

	if (!m)
		return EXIT_FAILED;
	r = sd_bus_message_append_array(m, 'y', mount, strlen(mount));
	if (r >= 0)
		r = sd_bus_message_append(m, "a{sv}", 1, "min-bytes", "t", min_bytes);
	if (r < 0) {
		sd_bus_message_unref(m);
		return client_broken(r);
	}
	r = client_send(s->client, m, 0, &reply);
	if (r)
		return r;
	r = sd_bus_message_read(reply, "t", ret_id);
	return r < 0 ? client_broken(r) : 0;
}

static void job_tell(struct trim_submission *s, const char *mount, uint64_t id)
{
	_cleanup_free_ char *shown = screen_name(mount);
	struct sentence line;
	FILE *out;

	if (s->o->quiet || s->o->json != JSON_OFF)
		return;
	out = sentence_begin(&line, stdout);
	(void)fprintf(out, "Job %" PRIu64 ": trims %s%s", id, shown ? shown : "?",
		      s->is_root ? "" : "; it is root's, and no more of it may be seen");
	sentence_end(&line);
	(void)fflush(stdout);
}

/* Returns 0 or an exit status. */
static int path_submit(struct trim_submission *s, struct trim_path *p)
{
	const char *mount = mount_point(s, p);
	uint64_t id = 0, min_bytes = min_bytes_of(s, p);
	int r = EXIT_FAILED;

	trim_path_check_min(p, min_bytes);
	if (p->outcome == TRIM_WAITS && !mount)
		trim_path_fail(p, "its mount is not one of this process's");
	if (p->outcome == TRIM_WAITS && mount)
		r = call_trim(s, mount, min_bytes, &id);
	if (p->outcome == TRIM_SKIPPED && !s->o->quiet)
		complain(p->path, "nothing to do: %s", p->why);
	if (id > 0) {
		s->ids[s->n_ids++] = id;
		job_tell(s, mount, id);
	}
	s->failed += id == 0 && p->outcome != TRIM_SKIPPED;
	(void)json_array_append_new(s->array,
				    json_pack("{sosososs?}", "path", json_path(p->path), "mount",
					      mount ? json_path(mount) : json_null(), "job",
					      id > 0 ? json_integer((json_int_t)id) : json_null(),
					      "why", id > 0 ? NULL : p->why));
	return p->outcome == TRIM_WAITS ? r : 0;
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int submit_all(struct trim_submission *s)
{
	json_t *ids = json_array();
	int r = 0, last = 0;

	for (size_t i = 0; i < s->paths.n; i++) {
		r = path_submit(s, &s->paths.v[i]);
		last = r ? r : last;
		/* The next would be told the same. */
		if (r == EXIT_NO_DAEMON || r == EXIT_NOT_AUTHORIZED)
			break;
	}
	if (s->n_ids > 1)
		qsort(s->ids, s->n_ids, sizeof(s->ids[0]), by_number);
	for (size_t i = 0; i < s->n_ids; i++)
		(void)json_array_append_new(ids, json_integer((json_int_t)s->ids[i]));
	if (s->o->json != JSON_OFF)
		json_print(json_pack("{soso}", "jobs", ids, "filesystems", json_incref(s->array)),
			   s->o->json);
	else
		json_decref(ids);
	s->failed += s->paths.absent;
	if (s->failed == 0)
		return EXIT_DONE;
	return s->n_ids > 0 ? EXIT_PARTLY : last ? last : EXIT_FAILED;
}

static int submit(struct trim_submission *s)
{
	int r = trim_paths_find(&s->paths, &s->found), waited = EXIT_DONE;

	if (r == 0 && mounts_read(&s->mounts, "/proc/self/mountinfo") < 0) {
		complain("trim", "the mount table cannot be read; nothing was submitted");
		r = EXIT_FAILED;
	}
	if (r == 0)
		r = client_open(&s->client, s->o, /* socket_first= */ false);
	if (r)
		return r;
	client_asks(s->client, s->o);
	s->ids = calloc(s->paths.n + 1, sizeof(s->ids[0]));
	s->array = json_array();
	if (!s->ids || !s->array)
		return client_broken(-ENOMEM);
	r = submit_all(s);
	if (s->o->wait == WAIT_DONE && s->n_ids > 0)
		waited = wait_jobs(s->client, s->o, s->ids, s->n_ids);
	return r ? r : waited;
}

int trim_submit_paths(const struct options *o)
{
	struct trim_submission s = { .o = o, .found = *o, .is_root = geteuid() == 0 };
	int r = 0;

	if (o->wait == WAIT_DONE && !s.is_root) {
		complain("trim", "--wait is for root: the jobs are root's, and other users do not "
				 "see when they have ended; nothing was submitted");
		return EXIT_NOT_AUTHORIZED;
	}
	if (o->configured)
		r = configured_find(&s);
	if (r == 0)
		r = submit(&s);
	json_decref(s.array);
	free(s.ids);
	client_free(s.client);
	mounts_done(&s.mounts);
	trim_paths_done(&s.paths);
	config_free(s.config);
	free(s.names);
	return r;
}
