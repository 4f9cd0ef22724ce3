/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* remove-file PATH...: deletes files by way of reclaimd, as a database or a backup tool would do
 * it: all of them handed over at once, in the program's own poll loop; whatever the daemon does not
 * take is unlinked. Says what became of each file.
 *
 *     cc remove-file.c $(pkg-config --cflags --libs libreclaim)
 */
#define _GNU_SOURCE /* O_PATH */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <reclaim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct file {
	struct program *program;
	const char *path;
	int dirfd;
	char *name;
	struct stat st; /* as it was found: what may be deleted, whatever has its name by now */
	uint64_t job;   /* that is waited for, or 0 */
};

struct program {
	struct reclaim *reclaim; /* NULL: there is no daemon */
	struct file *files;
	int n_files;
	int waiting; /* files that are not done with */
	int failed;
};

static void done(struct file *f, const char *what, int error)
{
	printf("%s: %s%s%s\n", f->path, what, error < 0 ? ": " : "",
	       error < 0 ? strerror(-error) : "");
	f->program->failed += error < 0;
	f->program->waiting--;
	f->job = 0;
}

/* Without the daemon. Where it has been asked first, the file may be gone already, and another file
 * may have its name, which must not be deleted. */
static void unlink_it(struct file *f)
{
	struct stat now;

	if (fstatat(f->dirfd, f->name, &now, AT_SYMLINK_NOFOLLOW) < 0)
		done(f, errno == ENOENT ? "gone" : "cannot be found", errno == ENOENT ? 0 : -errno);
	else if (now.st_dev != f->st.st_dev || now.st_ino != f->st.st_ino)
		done(f, "not there any more, another file has its name", 0);
	else if (unlinkat(f->dirfd, f->name, 0) == 0)
		done(f, "unlinked", 0);
	else
		done(f, "cannot be unlinked", -errno);
}

static void ended(struct file *f, unsigned state)
{
	if (state == RECLAIM_DONE)
		done(f, "deleted", 0);
	else
		done(f, "not all deleted", -EIO);
}

static void on_finished(struct reclaim *r, uint64_t job, unsigned state, void *userdata)
{
	struct program *p = userdata;

	(void)r;
	for (int i = 0; i < p->n_files; i++)
		if (p->files[i].job == job)
			ended(&p->files[i], state);
}

static void on_submitted(struct reclaim *r, int error, uint64_t job, void *userdata)
{
	struct reclaim_status s = RECLAIM_STATUS_INIT;
	struct file *f = userdata;

	if (error == 0) {
		f->job = job;
		/* It may have ended before its number was known. */
		if (reclaim_get(r, job, &s) == 0 && s.state >= RECLAIM_DONE)
			ended(f, s.state);
		return;
	}
	fprintf(stderr, "%s: not handed over: %s\n", f->path, reclaim_error(r));
	/* What must not be deleted must not be unlinked either. */
	if (error == -EPERM || error == -EXDEV)
		done(f, "refused", error);
	else
		unlink_it(f);
}

/* Opens the directory once, so that the path means one thing from here on, and looks at the file.
 */
static int file_open(struct file *f)
{
	char *copy = strdup(f->path), *again = strdup(f->path);

	if (copy && again) {
		f->dirfd = open(dirname(copy), O_PATH | O_DIRECTORY | O_CLOEXEC);
		f->name = strdup(basename(again));
	}
	free(copy);
	free(again);
	if (f->dirfd < 0 || !f->name)
		return -1;
	return fstatat(f->dirfd, f->name, &f->st, AT_SYMLINK_NOFOLLOW);
}

static void submit(struct program *p, struct file *f)
{
	struct reclaim_options o = RECLAIM_OPTIONS_INIT;
	int error;

	o.timeout_usec = 30 * 1000000ULL;
	p->waiting++;
	if (file_open(f) < 0) {
		done(f, "cannot be found", -errno);
	} else if (!p->reclaim) {
		unlink_it(f);
	} else {
		error = reclaim_submit_at_async(p->reclaim, f->dirfd, f->name, &o, on_submitted, f);
		if (error < 0)
			on_submitted(p->reclaim, error, 0, f);
	}
}

static int milliseconds_until(uint64_t usec)
{
	struct timespec now;
	uint64_t now_usec;

	if (usec == RECLAIM_FOREVER)
		return -1;
	clock_gettime(CLOCK_MONOTONIC, &now);
	now_usec = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	return usec <= now_usec ? 0 : (int)((usec - now_usec) / 1000 + 1);
}

/* What a program with a loop of its own adds to it. */
static int loop(struct program *p)
{
	while (p->waiting > 0) {
		struct pollfd fd = { .fd = reclaim_fd(p->reclaim) };
		uint64_t until;
		int error = reclaim_timeout(p->reclaim, &until);

		if (error == 0)
			error = reclaim_events(p->reclaim);
		if (error < 0)
			return error;
		fd.events = (short)error;
		if (poll(&fd, 1, milliseconds_until(until)) < 0 && errno != EINTR)
			return -errno;
		error = reclaim_process(p->reclaim);
		if (error < 0)
			return error;
	}
	return 0;
}

/* The daemon is gone: what it has accepted it does when it is started again. */
static void left_tell(struct program *p)
{
	for (int i = 0; i < p->n_files; i++)
		if (p->files[i].job > 0)
			printf("%s: job %" PRIu64 " goes on without us\n", p->files[i].path,
			       p->files[i].job);
}

int main(int argc, char **argv)
{
	struct program p = { .n_files = argc - 1 };
	int error;

	p.files = calloc((size_t)argc, sizeof(*p.files));
	if (!p.files)
		return EXIT_FAILURE;
	error = reclaim_open(&p.reclaim, 0);
	if (error == 0)
		error = reclaim_on_finished(p.reclaim, on_finished, &p);
	if (error < 0) {
		fprintf(stderr, "no daemon: %s\n", strerror(-error));
		p.reclaim = reclaim_close(p.reclaim);
	}
	for (int i = 0; i < p.n_files; i++) {
		p.files[i] = (struct file){ .program = &p, .path = argv[i + 1], .dirfd = -1 };
		submit(&p, &p.files[i]);
	}
	if (p.reclaim && (error = loop(&p)) < 0) {
		fprintf(stderr, "the daemon is gone: %s\n", strerror(-error));
		left_tell(&p);
		p.failed++;
	}
	reclaim_close(p.reclaim);
	for (int i = 0; i < p.n_files; i++) {
		if (p.files[i].dirfd >= 0)
			close(p.files[i].dirfd);
		free(p.files[i].name);
	}
	free(p.files);
	return p.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
