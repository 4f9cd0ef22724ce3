/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* file-deleter DIRECTORY NAME...: what a storage engine does about files that it needs no more,
 * such as the DeleteScheduler of RocksDB, by way of reclaimd. The engine's threads call
 * file_deleter_delete(), which waits for nothing. One thread hands the files over, and unlinks
 * those that the daemon does not take.
 *
 *     cc -pthread file-deleter.c $(pkg-config --cflags --libs libreclaim)
 */
#define _GNU_SOURCE /* O_PATH */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <reclaim.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct old_file {
	struct old_file *next;
	struct stat st; /* as it was found: what may be deleted, whatever has its name by now */
	char name[];
};

struct file_deleter {
	int dirfd;
	struct reclaim *reclaim; /* the thread's alone; NULL: there is no daemon */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock: */
	struct old_file *first, **last; /* the queue, and where its next file goes */
	bool busy;                      /* the thread has one in its hands */
	bool ending;
	uint64_t *jobs; /* that have not been waited for */
	size_t n_jobs;
	unsigned handed_over, unlinked, failed;
};

/* Without the daemon. Where it has been asked first, the file may be gone already, and another file
 * may have its name, which must not be deleted. */
static int old_file_unlink(const struct file_deleter *d, const struct old_file *f)
{
	struct stat now;

	if (fstatat(d->dirfd, f->name, &now, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (now.st_dev != f->st.st_dev || now.st_ino != f->st.st_ino)
		return 0;
	return unlinkat(d->dirfd, f->name, 0) < 0 ? -errno : 0;
}

/* Returns 0 with the job's number, or a negative errno. */
static int old_file_submit(struct file_deleter *d, const struct old_file *f, uint64_t *ret_job)
{
	struct reclaim_options o = RECLAIM_OPTIONS_INIT;
	struct stat now;
	int error = d->reclaim ? 0 : reclaim_open(&d->reclaim, 0);

	if (error == 0 && (fstatat(d->dirfd, f->name, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
			   now.st_dev != f->st.st_dev || now.st_ino != f->st.st_ino))
		error = -ESTALE;
	o.undo_usec = 0; /* the engine does not want it back */
	o.timeout_usec = 30 * 1000000ULL;
	if (error == 0)
		error = reclaim_submit_at(d->reclaim, d->dirfd, f->name, &o, ret_job);
	if (error == -ECONNRESET || error == -ETIMEDOUT)
		d->reclaim =
			reclaim_close(d->reclaim); /* the next file finds out whether it is back */
	return error;
}

/* Under the lock. Without memory for its number a job is not waited for; it goes on all the same.
 */
static void job_remember(struct file_deleter *d, uint64_t job)
{
	uint64_t *jobs = realloc(d->jobs, (d->n_jobs + 1) * sizeof(*jobs));

	if (!jobs)
		return;
	jobs[d->n_jobs++] = job;
	d->jobs = jobs;
}

static void old_file_delete(struct file_deleter *d, const struct old_file *f)
{
	uint64_t job = 0;
	int submitted = old_file_submit(d, f, &job), error = submitted;

	/* What must not be deleted must not be unlinked either. */
	if (submitted < 0 && submitted != -EPERM && submitted != -EXDEV)
		error = old_file_unlink(d, f);
	if (error < 0)
		fprintf(stderr, "%s: cannot be deleted: %s\n", f->name, strerror(-error));
	pthread_mutex_lock(&d->lock);
	if (submitted == 0)
		job_remember(d, job);
	if (error < 0)
		d->failed++;
	else if (submitted == 0)
		d->handed_over++;
	else
		d->unlinked++;
	pthread_mutex_unlock(&d->lock);
}

static void *work(void *userdata)
{
	struct file_deleter *d = userdata;

	pthread_mutex_lock(&d->lock);
	for (;;) {
		struct old_file *f = d->first;

		d->busy = f;
		if (f) {
			d->first = f->next;
			if (!d->first)
				d->last = &d->first;
			pthread_mutex_unlock(&d->lock);
			old_file_delete(d, f);
			free(f);
			pthread_mutex_lock(&d->lock);
			continue;
		}
		pthread_cond_broadcast(&d->changed);
		if (d->ending)
			break;
		pthread_cond_wait(&d->changed, &d->lock);
	}
	pthread_mutex_unlock(&d->lock);
	d->reclaim = reclaim_close(d->reclaim);
	return NULL;
}

static struct file_deleter *file_deleter_new(const char *directory)
{
	struct file_deleter *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->last = &d->first;
	d->dirfd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->changed, NULL);
	if (d->dirfd >= 0 && pthread_create(&d->thread, NULL, work, d) == 0)
		return d;
	if (d->dirfd >= 0)
		close(d->dirfd);
	free(d);
	return NULL;
}

/* Returns at once. The file with this name is meant, whatever is called so later. */
static int file_deleter_delete(struct file_deleter *d, const char *name)
{
	struct old_file *f = malloc(sizeof(*f) + strlen(name) + 1);

	if (!f)
		return -ENOMEM;
	if (fstatat(d->dirfd, name, &f->st, AT_SYMLINK_NOFOLLOW) < 0) {
		int error = -errno;

		free(f);
		return error;
	}
	f->next = NULL;
	strcpy(f->name, name);
	pthread_mutex_lock(&d->lock);
	*d->last = f;
	d->last = &f->next;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	return 0;
}

/* Until all that was to be deleted is, and its space is free: WaitForEmptyTrash() of RocksDB. A
 * handle is for one thread, so this takes one of its own. */
static int file_deleter_wait(struct file_deleter *d)
{
	struct reclaim *r = NULL;
	uint64_t *jobs;
	size_t n;
	int error = 0;

	pthread_mutex_lock(&d->lock);
	while (d->first || d->busy)
		pthread_cond_wait(&d->changed, &d->lock);
	jobs = d->jobs;
	n = d->n_jobs;
	d->jobs = NULL;
	d->n_jobs = 0;
	pthread_mutex_unlock(&d->lock);
	if (n > 0)
		error = reclaim_open(&r, 0);
	for (size_t i = 0; i < n && error == 0; i++) {
		struct reclaim_status s = RECLAIM_STATUS_INIT;

		error = reclaim_wait(r, jobs[i], RECLAIM_FOREVER, &s);
		if (error == 0 && s.state != RECLAIM_DONE)
			error = -EIO;
	}
	reclaim_close(r);
	free(jobs);
	return error;
}

/* What was to be deleted is handed over before it returns. */
static void file_deleter_free(struct file_deleter *d)
{
	pthread_mutex_lock(&d->lock);
	d->ending = true;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->thread, NULL);
	close(d->dirfd);
	free(d->jobs);
	free(d);
}

int main(int argc, char **argv)
{
	struct file_deleter *d = argc > 1 ? file_deleter_new(argv[1]) : NULL;
	int error, status;

	if (!d) {
		fprintf(stderr, "usage: file-deleter DIRECTORY NAME...\n");
		return EXIT_FAILURE;
	}
	status = EXIT_SUCCESS;
	for (int i = 2; i < argc; i++) {
		error = file_deleter_delete(d, argv[i]);
		if (error < 0) {
			fprintf(stderr, "%s: cannot be found: %s\n", argv[i], strerror(-error));
			status = EXIT_FAILURE;
		}
	}
	error = file_deleter_wait(d);
	if (error < 0)
		fprintf(stderr, "not all is deleted yet: %s\n", strerror(-error));
	printf("handed over: %u, unlinked: %u, failed: %u\n", d->handed_over, d->unlinked,
	       d->failed);
	if (error < 0 || d->failed > 0)
		status = EXIT_FAILURE;
	file_deleter_free(d);
	return status;
}
