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
#include "base/escape.h"
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
	struct client *client;
	const struct options *o;
	const char *path; /* as it was given */
	int fd;           /* on it */
	dev_t dev;        /* as the mount table has it */
	bool drawn;
	uint64_t wanted, free;
	uint64_t paused; /* a job that could free more if it were resumed, or 0 */
};

static int space_read(struct goal *g)
{
	struct statvfs fs;

	if (fstatvfs(g->fd, &fs) < 0) {
		complain(g->path, "its free space cannot be found out: %s", strerror(errno));
		return EXIT_FAILED;
	}
	g->wanted = space_bytes(&g->o->free, &fs);
	g->free = space_free(&fs);
	return 0;
}

static void line_draw(struct goal *g)
{
	char has[16], wants[16];
	_cleanup_free_ char *shown = NULL;

	if (g->o->quiet || !screen_redraws())
		return;
	shown = escape_name(g->path);
	(void)fprintf(stderr, "\r\033[K%s: %s of %s free", shown ? shown : "?",
		      size_format(has, sizeof(has), g->free),
		      size_format(wants, sizeof(wants), g->wanted));
	(void)fflush(stderr);
	g->drawn = true;
}

static void line_clear(struct goal *g)
{
	if (g->drawn)
		(void)fputs("\r\033[K", stderr);
	g->drawn = false;
}

/* Could this job free something there? What it was given may be gone from its place; the mount that
 * place is on is what counts. */
static bool job_matters(const struct goal *g, const struct mounts *mounts, const struct job_line *j)
{
	const struct mount *m;

	if (j->path[0] != '/')
		return true; /* not to be told: better to wait in vain than not at all */
	m = mounts_by_path(mounts, j->path);
	return !m || m->dev == g->dev;
}

/* How many jobs there are on that filesystem that will go on by themselves. */
static int jobs_left(struct goal *g, size_t *ret_n)
{
	const struct job_wish wish = { 0 };
	struct mounts mounts = { 0 };
	_cleanup_job_list_ struct job_list l = { 0 };
	size_t n = 0;
	int r = job_list_get(g->client, &wish, &l);

	if (r == 0 && mounts_read(&mounts, "/proc/self/mountinfo") < 0) {
		complain("/proc/self/mountinfo", "cannot be read");
		r = EXIT_FAILED;
	}
	g->paused = 0;
	for (size_t i = 0; r == 0 && i < l.n; i++) {
		if (!job_matters(g, &mounts, &l.v[i]))
			continue;
		if (strcmp(l.v[i].state, "paused") == 0)
			g->paused = l.v[i].id;
		else
			n++;
	}
	mounts_done(&mounts);
	*ret_n = n;
	return r;
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

/* Waits until there is enough. */
static int goal_wait(struct goal *g, struct end_signals *signals)
{
	uint64_t asked = 0, late_end = 0;
	size_t left = 1;
	int r;

	for (;;) {
		uint64_t now = now_usec();

		r = space_read(g);
		if (r || g->free >= g->wanted)
			return r;
		line_draw(g);
		if (late_end > 0 && now >= late_end)
			return give_up(g);
		if (late_end == 0 && now - asked >= ASK_EVERY) {
			r = jobs_left(g, &left);
			asked = now;
			if (r)
				return r;
		}
		if (left == 0 && late_end == 0) {
			filesystem_sync(g);
			late_end = now + LATE_USEC;
		}
		r = end_signals_wait(signals, READ_EVERY);
		if (r < 0)
			return CLIENT_LOST;
	}
}

/* As long as the connection lasts. */
static int wait_connected(struct goal *g)
{
	struct end_signals signals = { 0 };
	int r = end_signals_open(&signals, g->client, NULL, 0);

	r = r < 0 ? end_signals_failed(r) : goal_wait(g, &signals);
	line_clear(g);
	end_signals_close(&signals);
	return r;
}

static int wait_goal(struct goal *g)
{
	int r;

	client_outlive(g->client);
	while ((r = wait_connected(g)) == CLIENT_LOST) {
		r = client_again(g->client, g->o);
		if (r)
			break;
	}
	return r;
}

/* Finds the device of what fd is on, as the mount table has it: btrfs gives files another one. */
static int device_find(int fd, dev_t *ret)
{
	struct mounts mounts = { 0 };
	const struct mount *m;
	struct identity id;
	int r = fd_identity(fd, "", &id);

	if (r >= 0)
		r = mounts_read(&mounts, "/proc/self/mountinfo");
	if (r < 0)
		return r;
	m = mounts_by_id(&mounts, id.mnt_id);
	if (m)
		*ret = m->dev;
	mounts_done(&mounts);
	return m ? 0 : -ENODEV;
}

static int wait_fd(struct client *c, const struct options *o, const char *path, int fd)
{
	struct goal g = { .client = c, .o = o, .path = path, .fd = fd };
	int r = device_find(fd, &g.dev);

	if (r < 0) {
		complain(path, "its filesystem cannot be found out: %s", strerror(-r));
		return EXIT_FAILED;
	}
	return wait_goal(&g);
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

/* On the filesystem of a directory that was submitted from. */
static int wait_group(struct client *c, const struct options *o, const struct root_group *g)
{
	const char *dir = g->dir[0] ? g->dir : ".";
	int fd = root_group_open(g), r;

	if (fd < 0) {
		complain(dir, "cannot be opened again: %s", strerror(-fd));
		return EXIT_FAILED;
	}
	r = wait_fd(c, o, dir, fd);
	if (fd != g->dirfd)
		fd_closep(&fd);
	return r;
}

int wait_free_all(struct client *c, const struct options *o, const struct batches *b)
{
	int r = EXIT_DONE;

	/* Batches of a mount stand together. */
	for (size_t i = 0; r == EXIT_DONE && i < b->n; i++)
		if (i == 0 || b->v[i].groups[0]->id.mnt_id != b->v[i - 1].groups[0]->id.mnt_id)
			r = wait_group(c, o, b->v[i].groups[0]);
	return r;
}
