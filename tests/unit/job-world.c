/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-world.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "config/config.h"
#include "daemon/jobs/job-recover.h"
#include "daemon/jobs/job-rest.h"
#include "daemon/jobs/job-submit.h"
#include "daemon/jobs/shrinking.h"
#include "daemon/workers/pacers.h"

#define NOBODY 65534

/* ---- the daemon without a bus ------------------------------------------------------------- */

static int on_store(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct job_world *w = userdata;

	(void)source;
	(void)fd;
	(void)events;
	store_queue_dispatch(w->context.store);
	return 0;
}

static void on_finished(const struct job_record *r, void *userdata)
{
	struct job_world *w = userdata;

	w->finished = r->id;
	w->state = r->state;
	(void)snprintf(w->message, sizeof(w->message), "%s", r->message);
}

static void on_store_retry(void *userdata)
{
	jobs_save_retry(&((struct job_world *)userdata)->jobs);
}

static void on_store_recovered(void *userdata)
{
	jobs_store_recovered(&((struct job_world *)userdata)->jobs);
}

static void complain(const struct config_error *e, void *userdata)
{
	(void)userdata;
	ck_abort_msg("%s:%u: %s", e->file, e->line, e->text);
}

static struct store *store_of(const struct job_world *w)
{
	_cleanup_free_ char *set_aside = NULL;
	const char *why = "";
	struct store *s;

	ck_assert_msg(store_open(&s, w->dir, &set_aside, &why) >= 0, "%s", why);
	ck_assert_ptr_null(set_aside);
	return s;
}

static void begin(struct job_world *w)
{
	struct credentials root = { 0 };
	struct store *s = store_of(w);

	w->context = (struct context){
		.o = { .state_dir = w->dir, .runtime_dir = w->dir, .config_dir = w->dir },
		.worker_fd = -1,
		.health = { .retry = on_store_retry,
			    .recovered = on_store_recovered,
			    .userdata = w }
	};
	w->context.worker_program = strdup(RECLAIM_WORKER);
	w->listener = (struct listener){ .job_finished = on_finished, .userdata = w };
	submitters_init(&w->submitters, &w->context);
	jobs_init(&w->jobs, &w->context, &w->submitters);
	ck_assert_int_ge(sd_event_new(&w->context.event), 0);
	ck_assert_int_ge(config_load(&w->context.config, w->dir, w->dir, complain, NULL), 0);
	ck_assert_int_ge(submitter_get(&w->submitters.root, &w->submitters, &root), 0);
	ck_assert_int_ge(store_name_holder(&w->context, s), 0);
	ck_assert_int_ge(shrinking_open(&w->jobs), 0);
	ck_assert_int_ge(recover_load(&w->jobs, s), 0);
	ck_assert_int_ge(store_queue_new(&w->context.store, s), 0);
	ck_assert_int_ge(pacers_new(&w->context.pacers), 0);
	pacers_configure(w->context.pacers, w->context.config);
	ck_assert_int_ge(sd_event_add_io(w->context.event, &w->store_source,
					 store_queue_fd(w->context.store), EPOLLIN, on_store, w),
			 0);
	listener_add(&w->context, &w->listener);
	ck_assert_int_ge(jobs_begin(&w->jobs), 0);
}

static void end(struct job_world *w)
{
	struct context *c = &w->context;

	c->stopping = c->ended = true;
	jobs_end_workers(&w->jobs);
	submitters_end_workers(&w->submitters);
	w->store_source = sd_event_source_disable_unref(w->store_source);
	c->store = store_queue_free(c->store);
	jobs_done(&w->jobs);
	staging_areas_done(&w->submitters);
	submitters_done(&w->submitters);
	pacers_free(c->pacers);
	config_free(c->config);
	mounts_done(&c->mounts);
	sd_event_source_disable_unref(c->health.timer);
	free(c->worker_program);
	free(c->health.error);
	sd_event_unref(c->event);
}

void job_world_open(struct job_world *w)
{
	*w = (struct job_world){ 0 };
	scratch_make(w->dir, sizeof(w->dir));
	ck_assert_int_eq(chmod(w->dir, 0755), 0);
	(void)snprintf(w->mount, sizeof(w->mount), "%s/m", w->dir);
	ck_assert_int_eq(mkdir(w->mount, 0755), 0);
	ck_assert_int_eq(mount("scratch", w->mount, "tmpfs", 0, "mode=0755"), 0);
	ck_assert_int_eq(mkdir(job_world_path(w, "data"), 0755), 0);
	ck_assert_int_eq(chown(job_world_path(w, "data"), NOBODY, NOBODY), 0);
	begin(w);
}

void job_world_close(struct job_world *w)
{
	end(w);
	ck_assert_int_eq(umount2(w->mount, MNT_DETACH), 0);
	scratch_remove(w->dir);
}

void job_world_restart(struct job_world *w, void (*change)(struct store *s, uint64_t id),
		       uint64_t id)
{
	struct store *s;

	end(w);
	if (change) {
		s = store_of(w);
		change(s, id);
		store_close(s);
	}
	w->finished = 0;
	begin(w);
}

/* ---- names -------------------------------------------------------------------------------- */

const char *job_world_path(struct job_world *w, const char *name)
{
	char *path = w->path[w->paths++ % 5];

	(void)snprintf(path, sizeof(w->path[0]), "%s/%s", w->mount, name);
	return path;
}

const char *job_world_staged(struct job_world *w, uint64_t id)
{
	char name[128];

	(void)snprintf(name, sizeof(name), ".reclaim/%u/%s/1", NOBODY,
		       job_world_job(w, id)->uuid_text);
	return job_world_path(w, name);
}

bool job_world_has(struct job_world *w, const char *name)
{
	return faccessat(AT_FDCWD, job_world_path(w, name), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- what is asked ------------------------------------------------------------------------ */

static void on_submitted(const struct failure *f, const struct submitted *s, void *userdata)
{
	struct job_world *w = userdata;

	w->answered = true;
	w->failure = *f;
	w->id = s->id;
}

void job_world_submit_begin(struct job_world *w, const char *name, uint64_t undo_usec)
{
	struct credentials who = { .uid = NOBODY, .gid = NOBODY };
	struct intake_group group = { .dirfd = -1,
				      .names_fd = -1,
				      .path = job_world_path(w, name) };
	struct submit_options o = { .has_undo = true,
				    .undo_usec = undo_usec,
				    .priority = PRIORITY_NORMAL };

	w->answered = false;
	submit_begin(&w->jobs, &who, -1, &group, 1, &o, on_submitted, w);
}

uint64_t job_world_submit(struct job_world *w, const char *name, uint64_t undo_usec)
{
	job_world_submit_begin(w, name, undo_usec);
	job_world_until(w, w->answered);
	return w->id;
}

static void on_answered(struct job *j, const struct failure *f, void *userdata)
{
	struct job_world *w = userdata;

	(void)j;
	w->answered = true;
	w->failure = *f;
}

void job_world_control_begin(struct job_world *w, enum control_verb verb, uint64_t id,
			     const struct restore_target *to)
{
	static const struct restore_target origin = { .fd = -1, .view_fd = -1 };

	w->answered = false;
	control_begin(verb, job_world_job(w, id), to ? to : &origin, on_answered, w);
}

enum error_cause job_world_control(struct job_world *w, enum control_verb verb, uint64_t id)
{
	job_world_control_begin(w, verb, id, NULL);
	job_world_until(w, w->answered);
	return w->failure.cause;
}

enum error_cause job_world_change(struct job_world *w, const struct job_change *to, uint64_t id)
{
	struct job *j = job_world_job(w, id);
	struct failure f = { 0 };

	if (!control_may(CONTROL_CHANGE, j, &f))
		return f.cause;
	w->answered = false;
	control_change(j, to, on_answered, w);
	job_world_until(w, w->answered);
	return w->failure.cause;
}

struct awake {
	bool answered;
	struct job *job;
};

static void on_awake(int r, struct job_stub *s, void *userdata)
{
	*(struct awake *)userdata = (struct awake){ true, s->job };
	ck_assert_int_eq(r, 0);
}

struct job *job_world_job(struct job_world *w, uint64_t id)
{
	struct job_stub *s = job_table_find(&w->jobs.table, id);
	struct awake awake = { 0 };

	if (!s)
		return NULL;
	job_wake(s, on_awake, &awake);
	while (!awake.answered)
		ck_assert_int_ge(sd_event_run(w->context.event, UINT64_MAX), 0);
	return awake.job;
}

void job_world_wait_finished(struct job_world *w, uint64_t id)
{
	job_world_until(w, w->finished == id);
}

static const char *other(const struct job_world *w)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/other", w->dir);
	return path;
}

void job_world_unmount(struct job_world *w)
{
	ck_assert_int_eq(mkdir(other(w), 0755), 0);
	ck_assert_int_eq(mount(w->mount, other(w), NULL, MS_BIND, NULL), 0);
	ck_assert_int_eq(umount2(w->mount, MNT_DETACH), 0);
	context_mounts_changed(&w->context);
}

void job_world_mount(struct job_world *w)
{
	ck_assert_int_eq(mount(other(w), w->mount, NULL, MS_BIND, NULL), 0);
	ck_assert_int_eq(umount2(other(w), 0), 0);
	ck_assert_int_eq(rmdir(other(w)), 0);
	context_mounts_changed(&w->context);
}

void job_world_mount_again(struct job_world *w)
{
	job_world_unmount(w);
	job_world_mount(w);
}

static bool is_roots(int pid)
{
	char path[64], line[256];
	unsigned uid = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f) && sscanf(line, "Uid: %u", &uid) != 1)
		;
	(void)fclose(f);
	return uid == 0;
}

static unsigned signal_workers(int sig, bool roots)
{
	FILE *f = fopen("/proc/thread-self/children", "re");
	unsigned n = 0;
	int pid;

	ck_assert_ptr_nonnull(f);
	while (fscanf(f, "%d", &pid) == 1) {
		if (!roots && is_roots(pid))
			continue;
		ck_assert_int_eq(kill(pid, sig), 0);
		n++;
	}
	(void)fclose(f);
	return n;
}

unsigned job_world_signal(const struct job_world *w, int sig)
{
	(void)w;
	return signal_workers(sig, /* roots= */ true);
}

unsigned job_world_signal_users(int sig)
{
	return signal_workers(sig, /* roots= */ false);
}

/* ---- running ------------------------------------------------------------------------------ */

static struct job_world *of_case;

static void setup(void)
{
	job_world_open(of_case);
}

static void teardown(void)
{
	job_world_close(of_case);
}

int job_world_run(const char *name, struct job_world *w, const TTest *const *tests, size_t n)
{
	Suite *s = suite_create(name);
	TCase *tc = tcase_create(name);

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		(void)puts("skipped: needs root and a mount namespace");
		return 77;
	}
	of_case = w;
	tcase_add_checked_fixture(tc, setup, teardown);
	return run_tests(s, tc, tests, n);
}
