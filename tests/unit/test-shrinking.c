/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which descriptors of large files are kept over a restart, and given back to which job
 * (src/daemon/jobs/shrinking.c), with a real keeper. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/jobs/remainder.h"
#include "daemon/jobs/shrinking.h"
#include "job-world.h"
#include "wire/named-fd.h"

#define SIZE MiB(4)

static struct job_world w;

static struct job *job(uint64_t id)
{
	struct job *j = job_world_job(&w, id);

	ck_assert_ptr_nonnull(j);
	return j;
}

static uint64_t held(const char *name)
{
	uint64_t id;

	file_make(w.mount, name, "old");
	id = job_world_submit(&w, name, HOUR_USEC);
	ck_assert_msg(id > 0, "%s", w.failure.text.line);
	return id;
}

/* A file that has no name any more, and our lease. */
static int nameless(void)
{
	const char *path = job_world_path(&w, "large");
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(posix_fallocate(fd, 0, (off_t)SIZE), 0);
	ck_assert_int_eq(fcntl(fd, F_SETSIG, SIGURG), 0);
	ck_assert_int_eq(fcntl(fd, F_SETLEASE, F_WRLCK), 0);
	ck_assert_int_eq(unlink(path), 0);
	return fd;
}

static void refused(uint64_t id, int fd)
{
	ck_assert_int_ge(fd, 0);
	shrinking_add(job(id), fd, SIZE);
	ck_assert(!shrinking_is_left(job(id)));
}

START_TEST(test_shrinking_rejects_what_may_not_be_freed)
{
	uint64_t id = held("data/a");
	const char *path = job_world_path(&w, "large");
	int fd, pair[2];

	fd = nameless();
	ck_assert_int_eq(fcntl(fd, F_SETLEASE, F_UNLCK), 0);
	refused(id, fd); /* no lease */
	refused(id, open(w.mount, O_RDONLY | O_DIRECTORY));
	refused(id, open(w.mount, O_PATH));
	refused(id, open("/dev/null", O_WRONLY));
	ck_assert_int_eq(pipe(pair), 0);
	refused(id, pair[0]);
	refused(id, pair[1]);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(fcntl(fd, F_SETLEASE, F_WRLCK), 0);
	refused(id, fd); /* has a name */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(fcntl(fd, F_SETLEASE, F_WRLCK), 0);
	ck_assert_int_eq(unlink(path), 0);
	refused(id, fd); /* is not open for writing */
}
END_TEST

START_TEST(test_shrinking_lets_go_without_a_lease)
{
	uint64_t id = held("data/a");
	int fd = nameless(), worker = dup(fd);

	shrinking_add(job(id), fd, SIZE);
	ck_assert(shrinking_is_left(job(id)));
	ck_assert_int_eq(fcntl(worker, F_SETLEASE, F_UNLCK), 0);
	ck_assert(!shrinking_is_left(job(id)));
	ck_assert(SLIST_EMPTY(&job(id)->shrinking));
	(void)close(worker);
}
END_TEST

START_TEST(test_shrinking_bounds_files_of_a_user)
{
	uint64_t id = held("data/a");
	const struct shrinking_file *f;
	unsigned n = 0;

	for (unsigned i = 0; i < 200; i++)
		shrinking_add(job(id), nameless(), SIZE);
	SLIST_FOREACH(f, &job(id)->shrinking, link)
		n++;
	ck_assert_uint_eq(n, 128);
	shrinking_drop(job(id));
	shrinking_add(job(id), nameless(), SIZE);
	ck_assert(shrinking_is_left(job(id)));
	shrinking_drop(job(id));
}
END_TEST

/* Each to its own, and what was freed is counted once. */
START_TEST(test_shrinking_gives_back_and_counts)
{
	uint64_t a = held("data/a"), b = held("data/b");
	struct identity before, now;
	int fd = nameless();

	ck_assert_int_ge(fd_identity(fd, "", &before), 0);
	shrinking_add(job(a), fd, SIZE);
	shrinking_add(job(b), nameless(), SIZE);
	for (unsigned i = 0; i < 2; i++) {
		const struct shrinking_file *f = SLIST_FIRST(&job(a)->shrinking);

		if (i == 0)
			ck_assert_int_eq(ftruncate(f->fd, (off_t)SIZE / 4), 0);
		job_world_restart(&w, NULL, 0);
		ck_assert_uint_eq(job(a)->r.bytes_freed, SIZE - SIZE / 4);
		ck_assert_uint_eq(job(b)->r.bytes_freed, 0);
		ck_assert_ptr_nonnull(job(a)->remainder);
		ck_assert_ptr_nonnull(job(b)->remainder);
		f = SLIST_FIRST(&job(a)->shrinking);
		ck_assert_int_ge(fd_identity(f->fd, "", &now), 0);
		ck_assert_uint_eq(now.ino, before.ino);
		ck_assert_ptr_null(SLIST_NEXT(f, link));
	}
	remainder_abandon(job(a));
	remainder_abandon(job(b));
	job_world_restart(&w, NULL, 0);
	ck_assert_ptr_null(job(a)->remainder);
	ck_assert(SLIST_EMPTY(&job(a)->shrinking));
}
END_TEST

static void forget(struct store *s, uint64_t id)
{
	ck_assert_int_eq(store_job_remove(s, id), 0);
}

/* Nothing is freed of it by us. */
START_TEST(test_shrinking_closes_what_is_of_no_job)
{
	uint64_t id = held("data/a");
	int fd = nameless(), pin;
	char link[64];
	struct stat st;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	pin = open(link, O_PATH);
	ck_assert_int_ge(pin, 0);
	shrinking_add(job(id), fd, SIZE);
	job_world_restart(&w, forget, id);
	ck_assert_ptr_null(job_world_job(&w, id));
	ck_assert_int_eq(fstat(pin, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size, SIZE);
	(void)close(pin);
	/* No more of it has come back the next time. */
	job_world_restart(&w, NULL, 0);
}
END_TEST

/* While no daemon runs: what the keeper has by the name of the first file is another one. */
static void exchange(struct store *s, uint64_t id)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), fd = nameless();

	(void)s;
	(void)id;
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/keeper", w.dir);
	ck_assert_int_eq(connect(sock, (struct sockaddr *)&at, sizeof(at)), 0);
	ck_assert_int_eq(named_fd_send(sock, NAMED_FD_DROP, "file-0", -1, 0), 0);
	ck_assert_int_eq(named_fd_send(sock, NAMED_FD_PUT, "file-0", fd, 0), 0);
	(void)close(sock);
	(void)close(fd);
}

START_TEST(test_shrinking_goes_by_identity)
{
	uint64_t id = held("data/a");

	shrinking_add(job(id), nameless(), SIZE);
	job_world_restart(&w, exchange, id);
	ck_assert(SLIST_EMPTY(&job(id)->shrinking));
	ck_assert_ptr_null(job(id)->remainder);
	ck_assert_uint_eq(job(id)->r.bytes_freed, 0);
}
END_TEST

/* Of tests that have failed: nothing else ends it. */
static void end_keepers(void)
{
	char path[64];
	FILE *f;
	int pid;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	while (f && fscanf(f, "%d", &pid) == 1)
		(void)kill(pid, SIGTERM);
	if (f)
		(void)fclose(f);
}

int main(void)
{
	const TTest *const tests[] = { test_shrinking_rejects_what_may_not_be_freed,
				       test_shrinking_lets_go_without_a_lease,
				       test_shrinking_bounds_files_of_a_user,
				       test_shrinking_gives_back_and_counts,
				       test_shrinking_goes_by_identity,
				       test_shrinking_closes_what_is_of_no_job };

	int r = job_world_run("shrinking", &w, tests, ELEMENTSOF(tests));

	end_keepers();
	return r;
}
