/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim-accept.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <systemd/sd-id128.h>

#include "base/escape.h"
#include "base/fd.h"
#include "daemon/context/log.h"
#include "schedule.h"

struct trim_caller {
	trim_submitted_t done;
	void *userdata;
	struct trim_caller *next;
};

/* On its way into the store. */
struct trim_submit {
	LIST_ENTRY(trim_submit) link;
	struct jobs *jobs;
	struct staging_area *area;
	struct job_record record;
	uint64_t id; /* the store's thread's until it has answered */
	dev_t dev;
	struct trim_caller *callers;
};

static void submit_answer(struct trim_submit *s, const struct failure *f, uint64_t id)
{
	struct context *c = s->jobs->context;
	struct trim_caller *next;

	LIST_REMOVE(s, link);
	for (struct trim_caller *i = s->callers; i; i = next) {
		next = i->next;
		i->done(f, id, i->userdata);
		free(i);
	}
	staging_area_unref(s->area);
	free((char *)s->record.path);
	free(s);
	context_flow_ends(c);
}

static int add_work(struct store *store, void *userdata)
{
	struct trim_submit *s = userdata;

	return store_job_add(store, &s->record, &s->id);
}

static void on_added(int r, void *userdata)
{
	struct trim_submit *s = userdata;
	struct jobs *jobs = s->jobs;
	struct failure f = { 0 };
	struct job *j = NULL;

	store_says(jobs->context, r);
	s->record.id = s->id;
	if (r >= 0)
		r = job_new(&j, jobs, &s->record, jobs->submitters->root, s->area);
	if (r < 0) {
		jobs->submitters->root->user->jobs--;
		failure_errno(&f, r, "nothing was accepted");
		submit_answer(s, &f, 0);
		return;
	}
	job_table_add(&jobs->table, j);
	jobs->counts[j->r.state]++;
	j->told = true;
	schedule_job(j);
	tell_job_new(jobs->context, &j->r);
	log_job(LOG_INFO, SD_ID128_NULL, &j->r, "Job %" PRIu64 " accepted: trims %s (%s)", j->r.id,
		j->r.mount, j->r.origin);
	submit_answer(s, &f, j->r.id);
}

static int describe(struct trim_submit *s, const struct lasting_identity *root, uint64_t min_bytes,
		    const char *origin)
{
	const struct submitter *owner = s->jobs->submitters->root;
	sd_id128_t uuid;
	int r = sd_id128_randomize(&uuid);

	if (r < 0)
		return r;
	s->record = (struct job_record){
		.kind = JOB_TRIM,
		.state = JOB_QUEUED,
		.resume_state = JOB_QUEUED,
		.priority = PRIORITY_NORMAL,
		.uid = owner->id.uid,
		.gid = owner->id.gid,
		.groups = owner->id.groups,
		.n_groups = owner->id.n_groups,
		.origin = origin,
		.path = strdup(s->area->mount),
		.mount = s->area->mount,
		.staging = "",
		.host = "",
		.inplace = "",
		.message = "",
		.strategy = "",
		.staging_id = *root,
		.created_usec = context_clock(),
		.trim_min_bytes = min_bytes,
	};
	memcpy(s->record.uuid, uuid.bytes, sizeof(s->record.uuid));
	return s->record.path ? 0 : -ENOMEM;
}

int trim_root_open(const char *mount, struct lasting_identity *ret_id)
{
	int fd = open(mount, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int r = fd < 0 ? -errno : lasting_at(fd, "", ret_id);

	if (r < 0)
		fd_closep(&fd);
	return r < 0 ? r : fd;
}

const struct mount *trim_mount_find(struct context *c, const char *path)
{
	const struct mounts *mounts = context_mounts(c);
	const struct mount *m = mounts ? mounts_by_path(mounts, path) : NULL;

	return m && strcmp(m->target, path) == 0 ? m : NULL;
}

/* Fills in *f if it surely cannot be trimmed. */
static const struct mount *mount_check(struct context *c, const char *path, struct failure *f)
{
	const struct mount *m = path[0] == '/' ? trim_mount_find(c, path) : NULL;
	_cleanup_free_ char *shown = escape_name(path);

	if (!m)
		failure_set(f, ERROR_INVALID_PATH,
			    "%s is no mount point here: nothing was accepted",
			    shown ? shown : "it");
	else if (mount_may_hang(m))
		failure_set(f, ERROR_UNSUPPORTED,
			    "%s is on no device of this machine (%s), so there is nothing to trim",
			    shown ? shown : "it", m->type);
	else if (mount_filesystem_read_only(m))
		failure_set(f, ERROR_UNSUPPORTED,
			    "%s is mounted read-only: what is free there cannot be trimmed",
			    shown ? shown : "it");
	return f->cause ? NULL : m;
}

static const struct job *job_there(const struct jobs *jobs, dev_t dev)
{
	const struct job *j;

	TAILQ_FOREACH(j, &jobs->table.in_order, in_order)
		if (j->r.kind == JOB_TRIM && !job_state_finished(j->r.state) && j->area->dev == dev)
			return j;
	return NULL;
}

static int caller_add(struct trim_submit *s, trim_submitted_t done, void *userdata)
{
	struct trim_caller *i = malloc(sizeof(*i));

	if (!i)
		return -ENOMEM;
	*i = (struct trim_caller){ done, userdata, s->callers };
	s->callers = i;
	return 0;
}

/* Returns 0, and it is answered later; or a negative errno. */
static int submit_begin_on(struct jobs *jobs, const struct mount *m, uint64_t min_bytes,
			   const char *origin, trim_submitted_t done, void *userdata)
{
	struct lasting_identity root = { 0 };
	_cleanup_close_ int fd = trim_root_open(m->target, &root);
	struct submitter *owner = jobs->submitters->root;
	struct trim_submit *s = fd < 0 ? NULL : calloc(1, sizeof(*s));
	int r = fd < 0 ? fd : s ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	s->jobs = jobs;
	s->dev = m->dev;
	owner->user->jobs++;
	r = staging_area_get(&s->area, jobs->submitters, owner, JOB_TRIM, m->target, "", m->dev);
	if (r >= 0)
		r = describe(s, &root, min_bytes, origin);
	if (r >= 0)
		r = jobs_reserve_all(jobs);
	if (r >= 0)
		r = caller_add(s, done, userdata);
	if (r >= 0)
		r = store_queue_accept(jobs->context->store, add_work, on_added, s);
	if (r < 0) {
		owner->user->jobs--;
		free(s->callers);
		staging_area_unref(s->area);
		free((char *)s->record.path);
		free(s);
		return r;
	}
	LIST_INSERT_HEAD(&jobs->trim_submits, s, link);
	context_flow_begins(jobs->context);
	return 0;
}

void trim_submit(struct jobs *jobs, const char *mount, uint64_t min_bytes, const char *origin,
		 trim_submitted_t done, void *userdata)
{
	struct failure f = { 0 };
	const struct mount *m = mount_check(jobs->context, mount, &f);
	const struct job *there = m ? job_there(jobs, m->dev) : NULL;
	struct trim_submit *s = NULL;
	int r = 0;

	if (m)
		LIST_FOREACH(s, &jobs->trim_submits, link)
			if (s->dev == m->dev)
				break;
	if (there) {
		done(&f, there->r.id, userdata);
		return;
	}
	if (s)
		r = caller_add(s, done, userdata);
	else if (m)
		r = submit_begin_on(jobs, m, min_bytes, origin, done, userdata);
	if (r < 0)
		failure_errno(&f, r, "nothing was accepted");
	if (f.cause)
		done(&f, 0, userdata);
}
