/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Waiting for free space: `wait --free=` and `submit --wait=free:`. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "job-list.h"
#include "ctl/output/messages.h"
#include "ctl/output/screen.h"
#include "base/fd.h"
#include "base/mounts.h"
#include "base/units.h"
#include "wait.h"

#define READ_EVERY (USEC_PER_SEC / 4)
/* How often the daemon is asked which jobs are left: each answer may name many. */
#define ASK_EVERY USEC_PER_SEC
/* What a filesystem still has to free after the last job has ended comes soon after a sync. */
#define LATE_USEC (5 * USEC_PER_SEC)

/* A filesystem that is waited for. */
struct goal {
	const char *path; /* as it was given */
	int fd;           /* on it */
	uint64_t mnt_id, wanted, free;
	uint64_t asked_usec, late_end_usec; /* when the daemon was asked; the end of waiting */
	size_t left;                        /* jobs that will go on by themselves */
	uint64_t paused; /* a job that could free more if it were resumed, or 0 */
};

static void line_draw(struct waiter *w, const struct goal *g)
{
	char has[16], wants[16];
	_cleanup_free_ char *shown = screen_name(g->path);

	if (w->o->quiet || !screen_redraws())
		return;
	(void)fprintf(stderr, "\r\033[K%s: %s of %s free", shown ? shown : "?",
		      size_format(has, sizeof(has), g->free),
		      size_format(wants, sizeof(wants), g->wanted));
	(void)fflush(stderr);
	w->drawn = true;
}

/* Finds the jobs that could free something there. What they were given may be gone from its place;
 * the mount that place is on is what counts. */
static int jobs_find(struct waiter *w, struct goal *g)
{
	_cleanup_job_list_ struct job_list l = { 0 };
	const struct job_wish wish = { 0 };
	struct mounts mounts = { 0 };
	const struct mount *here, *m;
	int r = job_list_get(w->client, &wish, &l);

	if (r)
		return r;
	if (mounts_read(&mounts, "/proc/self/mountinfo") < 0) {
		complain("/proc/self/mountinfo", "cannot be read");
		return EXIT_FAILED;
	}
	here = mounts_by_id(&mounts, g->mnt_id);
	if (!here) {
		mounts_done(&mounts);
		complain(g->path, "its filesystem cannot be found out: its mount is not in "
				  "/proc/self/mountinfo");
		return EXIT_FAILED;
	}
	g->left = g->paused = 0;
	for (size_t i = 0; i < l.n; i++) {
		/* Where it is not to be told, better to wait in vain than not at all. */
		m = l.v[i].path[0] == '/' ? mounts_by_path(&mounts, l.v[i].path) : NULL;
		/* By what the mount table has: btrfs gives files another device. */
		if (m && m->dev != here->dev)
			continue;
		if (strcmp(l.v[i].state, "paused") == 0)
			g->paused = l.v[i].id;
		else
			g->left++;
	}
	mounts_done(&mounts);
	return 0;
}

static int give_up(const struct goal *g)
{
	char has[16], wants[16], hint[64] = "";

	if (g->paused)
		(void)snprintf(hint, sizeof(hint), "; job %" PRIu64 " is paused", g->paused);
	complain(g->path,
		 "has only %s free, not %s, and no job is left there that will free more%s",
		 size_format(has, sizeof(has), g->free),
		 size_format(wants, sizeof(wants), g->wanted), hint);
	return EXIT_FAILED;
}

static void filesystem_sync(const struct goal *g)
{
	_cleanup_close_ int fd = openat(g->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		(void)syncfs(fd); /* only hurries what comes anyway */
}

static int free_step(struct waiter *w)
{
	struct goal *g = w->userdata;
	uint64_t now = now_usec();
	struct statvfs fs;
	int r;

	if (fstatvfs(g->fd, &fs) < 0) {
		complain(g->path, "its free space cannot be found out: %s", strerror(errno));
		return EXIT_FAILED;
	}
	g->wanted = policy_space_bytes(&w->o->free, (uint64_t)fs.f_blocks * fs.f_frsize);
	g->free = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (g->free >= g->wanted)
		return EXIT_DONE;
	line_draw(w, g);
	/* Another daemon may have more to do. */
	if (w->begins)
		g->late_end_usec = g->asked_usec = 0;
	if (g->late_end_usec > 0)
		return now >= g->late_end_usec ? give_up(g) : WAIT_ON;
	if (now - g->asked_usec < ASK_EVERY)
		return WAIT_ON;
	g->asked_usec = now;
	r = jobs_find(w, g);
	if (r)
		return r;
	if (g->left == 0) {
		filesystem_sync(g);
		g->late_end_usec = now + LATE_USEC;
	}
	return WAIT_ON;
}

static int wait_fd(struct client *c, const struct options *o, const char *path, int fd)
{
	struct goal g = { .path = path, .fd = fd };
	struct waiter w = {
		.client = c, .o = o, .every_usec = READ_EVERY, .step = free_step, .userdata = &g
	};
	struct identity id;
	int r = fd_identity(fd, "", &id);

	if (r < 0) {
		complain(path, "its filesystem cannot be found out: %s", strerror(-r));
		return EXIT_FAILED;
	}
	g.mnt_id = id.mnt_id;
	return wait_until(&w);
}

int wait_free(struct client *c, const struct options *o, const char *path)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0) {
		complain(path[0] ? path : "''", "%s", strerror(errno));
		return EXIT_FAILED;
	}
	return wait_fd(c, o, path, fd);
}

int wait_free_all(struct client *c, const struct options *o, const struct batches *b)
{
	int r = EXIT_DONE;

	for (size_t i = 0; r == EXIT_DONE && i < b->n; i++) {
		const struct root_group *g = b->v[i].groups[0];
		const char *dir = g->dir[0] ? g->dir : ".";
		int fd;

		/* Batches of a mount stand together. */
		if (i > 0 && g->id.mnt_id == b->v[i - 1].groups[0]->id.mnt_id)
			continue;
		fd = root_group_open(g);
		if (fd < 0) {
			complain(dir, "cannot be opened again: %s", strerror(-fd));
			return EXIT_FAILED;
		}
		r = wait_fd(c, o, dir, fd);
		if (fd != g->dirfd)
			fd_closep(&fd);
	}
	return r;
}
