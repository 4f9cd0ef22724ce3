/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "worker-fixture.h"

#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "base/macros.h"

#define SESSION 7

void fixture_setup(struct fixture *f, uid_t uid)
{
	*f = (struct fixture){ .who = { .uid = uid, .gid = uid } };
	scratch_make(f->dir, sizeof(f->dir));
	ck_assert_int_eq(chown(f->dir, uid, uid), 0);
	ck_assert_int_ge(sd_event_new(&f->event), 0);
}

void fixture_stop(struct fixture *f)
{
	f->worker = worker_free(f->worker);
}

void fixture_teardown(struct fixture *f)
{
	fixture_stop(f);
	sd_event_unref(f->event);
	scratch_remove(f->dir);
}

static void on_gone(struct worker *w, const char *how, void *userdata)
{
	struct fixture *f = userdata;

	(void)w;
	f->seen.gone = true;
	(void)snprintf(f->seen.how, sizeof(f->seen.how), "%s", how);
}

void fixture_start_program(struct fixture *f, const char *program, int landlock_fd)
{
	struct worker_options o = {
		.program = program,
		.role = landlock_fd >= 0 ? WORKER_DELETE : WORKER_INTAKE,
		.credentials = &f->who,
		.landlock_fd = landlock_fd,
		.gone = on_gone,
		.userdata = f,
	};

	fixture_stop(f);
	ck_assert_int_ge(worker_new(&f->worker, f->event, &o), 0);
}

void fixture_start(struct fixture *f, int landlock_fd)
{
	fixture_start_program(f, RECLAIM_WORKER, landlock_fd);
}

static void begin(struct fixture *f)
{
	f->seen = (struct seen){ .fd = -1 };
}

void fixture_wait(struct fixture *f)
{
	while (!f->seen.answered)
		ck_assert_int_ge(sd_event_run(f->event, UINT64_MAX), 0);
}

void fixture_wait_gone(struct fixture *f)
{
	while (!f->seen.gone)
		ck_assert_int_ge(sd_event_run(f->event, UINT64_MAX), 0);
}

static void answered(struct seen *s, int r)
{
	ck_assert(!s->answered);
	s->answered = true;
	s->r = r;
}

static void failure(struct seen *s, const struct intake_failure *f)
{
	if (!f)
		return;
	(void)snprintf(s->name, sizeof(s->name), "%s", error_entry(f->cause)->name);
	(void)snprintf(s->text, sizeof(s->text), "%s", f->text);
}

static void on_dir(const struct intake_dir *d, void *userdata)
{
	struct seen *s = &((struct fixture *)userdata)->seen;

	s->dirs++;
	ck_assert_uint_eq(d->dir, s->dirs);
	s->dir_id = d->id;
	(void)snprintf(s->dir, sizeof(s->dir), "%s", d->path);
}

static void on_entry(const struct entry_record *e, void *userdata)
{
	struct seen *s = &((struct fixture *)userdata)->seen;

	ck_assert_uint_eq(e->seq, s->entries + 1);
	if (s->entries < SEEN_MOST) {
		s->ids[s->entries] = e->id;
		(void)snprintf(s->names[s->entries], sizeof(s->names[0]), "%s", e->name);
	}
	s->entries++;
}

static void on_validated(int r, const struct intake_validated *l, const struct intake_failure *fail,
			 void *userdata)
{
	struct seen *s = &((struct fixture *)userdata)->seen;

	answered(s, r);
	failure(s, fail);
	if (l)
		s->validated = *l;
}

int fixture_look(struct fixture *f, const struct intake_group *groups, size_t n)
{
	static const struct intake_callbacks cb = { on_dir, on_entry, on_validated };

	begin(f);
	ck_assert_int_ge(worker_forget(f->worker, SESSION), 0);
	ck_assert_int_ge(worker_validate(f->worker, SESSION, groups, n, false, -1, &cb, f), 0);
	fixture_wait(f);
	return f->seen.r;
}

/* "a b c" as names each ended by NUL. */
int fixture_look_names(struct fixture *f, const char *dir, const char *names, bool list)
{
	char words[4096];
	size_t len = strlen(names);
	struct intake_group g = {
		.dirfd = fixture_open(f, dir), .names_fd = -1, .names = { words, 0 }, .list = list
	};
	int r;

	ck_assert_uint_lt(len, sizeof(words));
	for (size_t i = 0; i <= len; i++)
		words[i] = names[i] == ' ' ? '\0' : names[i];
	g.names.len = len + 1;
	r = fixture_look(f, &g, 1);
	(void)close(g.dirfd);
	return r;
}

int fixture_look_path(struct fixture *f, const char *path)
{
	char whole[4096];
	struct intake_group g = { .dirfd = -1, .names_fd = -1, .path = whole };

	(void)snprintf(whole, sizeof(whole), "%s%s%s", path[0] == '/' ? "" : f->dir,
		       path[0] == '/' ? "" : "/", path);
	return fixture_look(f, &g, 1);
}

static void on_range(uint64_t from, uint64_t to, int error, void *userdata)
{
	struct seen *s = &((struct fixture *)userdata)->seen;

	s->ranges++;
	if (error == 0)
		s->staged += to - from + 1;
	else
		s->unstaged += to - from + 1;
	if (error)
		s->range_error = error;
}

static void on_staged(int r, int dirfd, const struct lasting_identity *id,
		      const struct intake_failure *fail, void *userdata)
{
	struct seen *s = &((struct fixture *)userdata)->seen;

	s->dir_came = dirfd >= 0;
	if (dirfd >= 0) { /* unlocked, and what its identity says */
		int again = openat(dirfd, ".", O_RDONLY | O_DIRECTORY);
		struct stat st;

		ck_assert_int_eq(fstat(dirfd, &st), 0);
		ck_assert_uint_eq(st.st_ino, id->ino);
		ck_assert_int_eq(flock(again, LOCK_EX | LOCK_NB), 0);
		(void)close(again);
		(void)close(dirfd);
	}
	answered(s, r);
	failure(s, fail);
	if (id)
		s->id = *id;
}

void fixture_stage_begin(struct fixture *f, int staging_fd, const char *name)
{
	static const struct staged_callbacks cb = { on_range, on_staged };

	begin(f);
	ck_assert_int_ge(worker_stage(f->worker,
				      &(struct stage_message){ .session = SESSION,
							       .name = name,
							       .wants_dir = !f->wants_no_dir,
							       .staging = staging_fd },
				      &cb, f),
			 0);
}

int fixture_stage(struct fixture *f, int staging_fd, const char *name)
{
	fixture_stage_begin(f, staging_fd, name);
	fixture_wait(f);
	return f->seen.r;
}

static void on_problem(const struct problem_record *p, void *userdata)
{
	struct seen *s = &((struct fixture *)userdata)->seen;

	s->problems++;
	(void)snprintf(s->problem, sizeof(s->problem), "%s: %s", p->path, p->what);
}

static void on_kept(uint64_t seq, int error, void *userdata)
{
	struct seen *s = &((struct fixture *)userdata)->seen;

	s->kept++;
	s->kept_seq = seq;
	s->kept_error = error;
}

static void on_ran(int r, const struct run_result *result, void *userdata)
{
	struct seen *s = &((struct fixture *)userdata)->seen;

	answered(s, r);
	if (!result)
		return;
	s->result = *result;
	(void)snprintf(s->strategy, sizeof(s->strategy), "%s", result->strategy);
}

void fixture_run_begin(struct fixture *f, int dirfd, const struct run_item *items, size_t n)
{
	static const struct run_callbacks cb = { .problem = on_problem,
						 .kept = on_kept,
						 .ran = on_ran };

	begin(f);
	ck_assert_int_ge(worker_run(f->worker, dirfd, NULL, 0, "/shown", items, n, &cb, f), 0);
}

int fixture_run(struct fixture *f, int dirfd, const struct run_item *items, size_t n)
{
	fixture_run_begin(f, dirfd, items, n);
	fixture_wait(f);
	return f->seen.r;
}

void fixture_opened(int r, int fd, void *userdata)
{
	struct seen *s = &((struct fixture *)userdata)->seen;

	answered(s, r);
	s->fd = fd;
}

void fixture_done(int r, void *userdata)
{
	answered(&((struct fixture *)userdata)->seen, r);
}

int fixture_open(const struct fixture *f, const char *name)
{
	char path[4096];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

int fixture_mkdir(const struct fixture *f, const char *name, mode_t mode)
{
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(chown(path, f->who.uid, f->who.gid), 0);
	ck_assert_int_eq(chmod(path, mode), 0);
	return fixture_open(f, name);
}

bool fixture_has(const struct fixture *f, const char *name)
{
	char path[4096];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	return lstat(path, &st) == 0;
}

pid_t fixture_gate_wait(void)
{
	siginfo_t si = { 0 };

	ck_assert_int_eq(waitid(P_ALL, 0, &si, WSTOPPED | WNOWAIT), 0);
	return si.si_pid;
}

static struct fixture *of_case;

static void setup(void)
{
	fixture_setup(of_case, NOBODY);
	fixture_start(of_case, -1);
}

static void teardown(void)
{
	fixture_teardown(of_case);
}

int fixture_run_case(const char *name, struct fixture *f, const TTest *const *tests, size_t n)
{
	Suite *s = suite_create(name);
	TCase *tc = tcase_create(name);

	if (geteuid() != 0) {
		(void)puts("skipped: only root can start workers of another user");
		return 77;
	}
	/* Other processes do not see our mounts. */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		(void)puts("skipped: no mounts can be made here");
		return 77;
	}
	of_case = f;
	tcase_add_checked_fixture(tc, setup, teardown);
	return run_tests(s, tc, tests, n);
}
