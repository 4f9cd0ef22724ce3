/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-trim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/escape.h"
#include "base/fd.h"
#include "base/units.h"
#include "daemon/context/log.h"
#include "daemon/context/timer.h"
#include "daemon/trims/trim-task.h"
#include "daemon/workers/pacers.h"
#include "job-finish.h"
#include "retry.h"
#include "schedule.h"
#include "trim-accept.h"
#include "trim-totals.h"
#include "undo-deadline.h"

#define TELL_USEC (1 * USEC_PER_SEC)
/* So often it is tried without getting any further. */
#define ATTEMPTS_MOST 3
/* Below the runtime directory; as reclaimd-trim.socket has it. */
#define TRIM_SOCKET "trim"

struct trim_run {
	struct job *job;
	struct jobs *jobs;
	struct trim_hold *hold;
	struct trim_task *task;
	sd_event_source *tell;
	void (*stopped)(struct job *j, void *userdata);
	void *stopped_userdata;
};

/* What was done is the job's, which is no run's from here on. Returns how many bytes. */
static uint64_t release(struct trim_run *run)
{
	struct trim_task_progress p = { 0 };
	struct job *j = run->job;

	if (run->task)
		trim_task_progress(run->task, &p);
	run->task = trim_task_free(run->task);
	run->hold = trim_hold_free(run->hold);
	run->tell = sd_event_source_disable_unref(run->tell);
	j->trims = NULL;
	j->trim = NULL;
	j->r.bytes_freed += p.trimmed_bytes;
	j->r.longest_step_usec = MAX(j->r.longest_step_usec, p.longest_step_usec);
	trim_totals_measured(j, p.first_mib_usec);
	job_enter(j, PHASE_LEAVING);
	schedule_leave(j);
	schedule_kick(run->jobs);
	return p.trimmed_bytes;
}

static void run_end(struct trim_run *run)
{
	struct context *c = run->jobs->context;

	free(run);
	context_flow_ends(c);
}

/* It waits again; or the request that has stopped it decides. */
static void leave(struct trim_run *run)
{
	struct job *j = run->job;

	if (run->stopped) {
		run->stopped(j, run->stopped_userdata);
	} else {
		schedule_job(j);
		job_save(j, NULL, NULL);
	}
	run_end(run);
}

static void conclude(struct trim_run *run, int error, const char *why)
{
	struct job *j = run->job;

	if (error < 0 || *why)
		job_say(j, "%s%s%s", why, *why && error < 0 ? ": " : "",
			error < 0 ? strerror(-error) : "");
	else
		job_set_text(&j->r.message, NULL);
	job_finish(j, error < 0 ? JOB_FAILED : JOB_DONE);
	if (run->stopped)
		run->stopped(j, run->stopped_userdata);
	run_end(run);
}

static const char *words_of(int error)
{
	switch (error) {
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP:
		return "its filesystem is not mounted there any more; nothing was trimmed of what "
		       "is there now";
	case -ESTALE:
		return "another filesystem is mounted there; nothing of it was trimmed";
	case -EPERM:
	case -EACCES:
		return "there is no reclaimd-trim.socket, and reclaimd itself may not trim "
		       "(CAP_SYS_ADMIN)";
	case -EOPNOTSUPP:
	case -ENOTTY:
		return "this filesystem cannot be trimmed";
	case -EINVAL:
		return "no piece of free space can be as large as the least one that was asked for";
	case -ETIMEDOUT:
		return "the filesystem or its device does not answer";
	case -ECONNRESET:
		return "the process that trims died";
	default:
		return "";
	}
}

static void run_failed(struct trim_run *run, int error, const char *why, uint64_t trimmed)
{
	struct job *j = run->job;
	uint64_t after;

	if (trimmed > 0)
		j->r.attempts = 0;
	if (run->jobs->context->stopping || (run->stopped && error == -ECANCELED)) {
		leave(run);
		return;
	}
	if ((!retry_helps(error) && error != -ECONNRESET) || ++j->r.attempts >= ATTEMPTS_MOST) {
		conclude(run, error, *why ? why : words_of(error));
		return;
	}
	run->jobs->interruptions++;
	after = MAX(retry_after_usec(j->r.attempts), USEC_PER_SEC);
	j->retry_usec = deadline_clock(run->jobs) + after;
	job_say(j, "was interrupted (%s) and is tried again",
		error == -ECONNRESET ? words_of(error) : strerror(-error));
	log_job(LOG_WARNING, MESSAGE_JOB_RETRIED, &j->r, "Job %" PRIu64 " %s", j->r.id,
		j->r.message);
	leave(run);
}

static void on_ended(int error, const char *why, void *userdata)
{
	struct trim_run *run = userdata;
	struct safe_text text;
	uint64_t trimmed;

	/* The task's, which goes. */
	safe_text_format(&text, "%s", why);
	trimmed = release(run);
	if (error < 0)
		run_failed(run, error, text.line, trimmed);
	else
		conclude(run, 0, text.line);
}

static int tell_later(struct trim_run *run);

static int on_tell(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct trim_run *run = userdata;

	(void)source;
	(void)usec;
	job_progressed(run->job);
	return tell_later(run);
}

static int tell_later(struct trim_run *run)
{
	return timer_after(run->jobs->context->event, &run->tell, TELL_USEC, 0, on_tell, run,
			   "trim-progress");
}

/* Still the filesystem that was meant, by its root and not by its path? */
static int open_mount(const struct job *j)
{
	const struct mount *m = trim_mount_find(j->jobs->context, j->area->mount);
	struct lasting_identity id = { 0 };
	int fd;

	if (!m)
		return -ENOENT;
	if (mount_may_hang(m))
		return -ESTALE;
	fd = trim_root_open(j->area->mount, &id);
	if (fd >= 0 && !lasting_equal(&id, &j->r.staging_id)) {
		fd_closep(&fd);
		return -ESTALE;
	}
	j->area->dev = m->dev;
	return fd;
}

static int task_begin(struct trim_run *run)
{
	struct job *j = run->job;
	struct context *c = run->jobs->context;
	_cleanup_close_ int fd = open_mount(j);
	struct trim_task_options o = { .mount = j->area->mount, .min_bytes = j->r.trim_min_bytes };
	_cleanup_free_ char *socket = NULL;
	struct statvfs vfs;
	struct stat st;
	int r = fd < 0 ? fd : trim_hold_new(&run->hold, c->pacers, fd, &o.pacer);

	if (r < 0)
		return r;
	if (asprintf(&socket, "%s/" TRIM_SOCKET, c->o.runtime_dir) < 0) {
		socket = NULL;
		return -ENOMEM;
	}
	if (fstat(fd, &st) < 0 || fstatvfs(fd, &vfs) < 0)
		return -errno;
	o.fd = fd;
	o.socket = socket;
	o.dev = st.st_dev;
	r = trim_task_new(&run->task, c->event, &o, on_ended, run);
	if (r < 0)
		return r;
	j->r.bytes = j->r.bytes_freed + (uint64_t)vfs.f_bfree * vfs.f_frsize;
	return 0;
}

void trim_begin(struct job *j)
{
	struct jobs *jobs = j->jobs;
	struct trim_run *run = calloc(1, sizeof(*run));
	int r;

	if (!run) {
		log_job(LOG_ERR, SD_ID128_NULL, &j->r, "Out of memory: job %" PRIu64 " waits",
			j->r.id);
		j->retry_usec = deadline_clock(jobs) + USEC_PER_SEC;
		schedule_job(j);
		return;
	}
	*run = (struct trim_run){ .job = j, .jobs = jobs };
	j->trim = run;
	schedule_enter(j);
	context_flow_begins(jobs->context);
	if (j->r.started_usec == 0)
		j->r.started_usec = context_clock();
	job_set_text(&j->r.message, NULL);
	r = task_begin(run);
	/* As soon as the other trim has ended. */
	if (r == -EBUSY) {
		job_say(j, "waits: another filesystem on these devices is being trimmed");
		j->trim = NULL;
		schedule_leave(j);
		j->area->trims_wait = true;
		schedule_job(j);
		job_save(j, NULL, NULL);
		run_end(run);
		return;
	}
	job_enter(j, PHASE_RUNNING);
	job_save(j, NULL, NULL);
	if (r < 0) {
		(void)release(run);
		run_failed(run, r, "", 0);
		return;
	}
	j->trims = run->task;
	/* Without it, only the end is told. */
	(void)tell_later(run);
}

int trim_stop(struct job *j, void (*stopped)(struct job *j, void *userdata), void *userdata)
{
	struct trim_run *run = j->trim;

	if (run->stopped)
		return -EBUSY;
	run->stopped = stopped;
	run->stopped_userdata = userdata;
	trim_task_stop(run->task);
	return 0;
}

void trims_end(struct jobs *jobs)
{
	struct job *j, *next;

	JOBS_FOREACH_SAFE(j, next, jobs) {
		struct trim_run *run = j->trim;

		if (!run)
			continue;
		(void)release(run);
		run->stopped = NULL;
		schedule_job(j);
		job_save(j, NULL, NULL);
		free(run);
	}
}
