/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * foreground DIRECTORY LOG SECONDS append|overwrite SYNC_RATE READ_RATE - a foreground program that
 * keeps its pace.
 *
 * Open loop: each request has a time at which it is due, drawn before anything starts, and what
 * counts is how long after that time it was done. So a request that waits because earlier ones are
 * stuck has waited, too, and a stall of a second costs all that came in this second, not just the
 * one request that a closed loop would have under way ("coordinated omission"). fio counts from
 * when it got around to issuing.
 *
 * Two streams. One writes 8 KiB and waits until they are on the disk: appends with fdatasync to
 * DIRECTORY/append, as a log does, or writes with O_DSYNC at random places of DIRECTORY/overwrite,
 * as a database does in its tables. The other reads 4 KiB with O_DIRECT at random places of
 * DIRECTORY/read. Request i is due at a random time within the i-th interval: the rate is steady,
 * but does not beat with a deletion loop that has a period of its own.
 *
 * Prints "ready", starts with the first byte it can read, and at SIGTERM writes the LOG, prints
 * "done" and exits, whatever hangs. Lines of the LOG: kind, when due, how long after that it was
 * done, 1 if it was still waiting when the log was written, and how late a thread that had nothing
 * else to do issued it (times in nanoseconds, CLOCK_MONOTONIC). The last one tells whether it was
 * the disk that was busy, or the machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WRITE_BYTES 8192
#define READ_BYTES 4096
#define WARM_APPENDS 16
#define WARM_STRIDE_BYTES (1024 * 1024)
#define ALIGNMENT 4096
/* As many can be under way at once; more than the disk can work on. */
#define STREAM_THREADS 32
#define SEED UINT64_C(0x5DEECE66D)
#define NSEC_PER_SEC UINT64_C(1000000000)

struct stream {
	const char *name;
	int (*perform)(const struct stream *stream, uint64_t index, char *buffer);
	int fd;
	uint64_t size_bytes; /* of the file, in the beginning */
	uint64_t n_requests;
	uint64_t *due_nsec;
	uint64_t *places; /* random numbers */
	_Atomic uint64_t *late_nsec;
	_Atomic uint64_t *done_nsec;
	_Atomic uint64_t next;
	_Atomic int error;
};

static uint64_t now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/* Positions, not O_APPEND: a late one must not change where the others write. */
static int perform_append(const struct stream *stream, uint64_t index, char *buffer)
{
	off_t offset = (off_t)(stream->size_bytes + index * WRITE_BYTES);

	if (pwrite(stream->fd, buffer, WRITE_BYTES, offset) < 0)
		return -errno;
	return fdatasync(stream->fd) < 0 ? -errno : 0;
}

/* The blocks are there and written: without copy on write there is nothing to commit. */
static int perform_overwrite(const struct stream *stream, uint64_t index, char *buffer)
{
	uint64_t place = stream->places[index] % (stream->size_bytes / WRITE_BYTES);
	off_t offset = (off_t)(place * WRITE_BYTES);

	return pwrite(stream->fd, buffer, WRITE_BYTES, offset) < 0 ? -errno : 0;
}

static int perform_read(const struct stream *stream, uint64_t index, char *buffer)
{
	uint64_t page = stream->places[index] % (stream->size_bytes / READ_BYTES);

	return pread(stream->fd, buffer, READ_BYTES, (off_t)(page * READ_BYTES)) < 0 ? -errno : 0;
}

static char *buffer_new(void)
{
	char *buffer = aligned_alloc(ALIGNMENT, WRITE_BYTES);

	if (buffer)
		memset(buffer, 'x', WRITE_BYTES);
	return buffer;
}

static void sleep_until(uint64_t nsec)
{
	struct timespec ts = {
		.tv_sec = (time_t)(nsec / NSEC_PER_SEC),
		.tv_nsec = (long)(nsec % NSEC_PER_SEC),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static void *work(void *userdata)
{
	struct stream *stream = userdata;
	char *buffer = buffer_new();
	uint64_t index;

	prctl(PR_SET_TIMERSLACK, 1);
	while (buffer && (index = stream->next++) < stream->n_requests) {
		uint64_t due = stream->due_nsec[index];
		bool idle = now_nsec() < due;
		int r;

		sleep_until(due);
		stream->late_nsec[index] = idle ? now_nsec() - due : 0;
		r = stream->perform(stream, index, buffer);
		if (r < 0)
			stream->error = r;
		stream->done_nsec[index] = now_nsec();
	}
	free(buffer);
	return NULL;
}

static int stream_open(struct stream *stream, const char *directory, int flags)
{
	char *path;
	struct stat st;

	if (asprintf(&path, "%s/%s", directory, stream->name) < 0)
		return -ENOMEM;
	stream->fd = open(path, flags | O_CLOEXEC);
	free(path);
	if (stream->fd < 0 || fstat(stream->fd, &st) < 0)
		return -errno;
	stream->size_bytes = (uint64_t)st.st_size;
	return 0;
}

/* Times are relative to the start until stream_start. */
static int stream_plan(struct stream *stream, double rate, double seconds)
{
	uint64_t state = SEED;
	double interval = rate > 0 ? 1e9 / rate : 0;

	stream->n_requests = (uint64_t)(rate * seconds);
	stream->due_nsec = calloc(stream->n_requests + 1, sizeof(*stream->due_nsec));
	stream->places = calloc(stream->n_requests + 1, sizeof(*stream->places));
	stream->late_nsec = calloc(stream->n_requests + 1, sizeof(*stream->late_nsec));
	stream->done_nsec = calloc(stream->n_requests + 1, sizeof(*stream->done_nsec));
	if (!stream->due_nsec || !stream->places || !stream->late_nsec || !stream->done_nsec)
		return -ENOMEM;
	for (uint64_t i = 0; i < stream->n_requests; i++) {
		double part = (double)(random_next(&state) >> 11) / (double)(UINT64_C(1) << 53);

		stream->due_nsec[i] = (uint64_t)(((double)i + part) * interval);
		stream->places[i] = random_next(&state) >> 8;
	}
	return 0;
}

static int stream_start(struct stream *stream, uint64_t start_nsec)
{
	for (uint64_t i = 0; i < stream->n_requests; i++)
		stream->due_nsec[i] += start_nsec;
	for (int i = 0; i < STREAM_THREADS; i++) {
		pthread_t thread;
		int r = pthread_create(&thread, NULL, work, stream);

		if (r > 0)
			return -r;
	}
	return 0;
}

/* Files long in use: it is known where the blocks of one are that is read or overwritten, and for
 * one that grows where there are free ones, for which ext3 may have to read the bitmaps of many
 * full groups. */
static int warm_places(const struct stream *stream, char *buffer)
{
	for (uint64_t at = 0; at + READ_BYTES <= stream->size_bytes; at += WARM_STRIDE_BYTES)
		if (pread(stream->fd, buffer, READ_BYTES, (off_t)at) < 0)
			return -errno;
	return 0;
}

/* It has holes, and so more than the four extents that ext4 keeps in an inode: at four, each append
 * makes it take a block for a fifth, and free and trim it as soon as two have become one. */
static int warm_appends(struct stream *appends, char *buffer)
{
	int r = 0;

	for (uint64_t i = 0; r >= 0 && i < WARM_APPENDS; i++)
		r = perform_append(appends, 2 * i, buffer);
	appends->size_bytes += (uint64_t)2 * WARM_APPENDS * WRITE_BYTES;
	return r;
}

static int warm(struct stream *writes, const struct stream *reads)
{
	char *buffer = buffer_new();
	int r = -ENOMEM;

	if (buffer)
		r = writes->perform == perform_append ? warm_appends(writes, buffer)
						      : warm_places(writes, buffer);
	if (r >= 0)
		r = warm_places(reads, buffer);
	free(buffer);
	return r;
}

static void write_stream(FILE *f, const struct stream *stream, uint64_t now)
{
	for (uint64_t i = 0; i < stream->n_requests && stream->due_nsec[i] < now; i++) {
		uint64_t due = stream->due_nsec[i], done = stream->done_nsec[i];

		fprintf(f, "%s %llu %llu %d %llu\n", stream->name, (unsigned long long)due,
			(unsigned long long)((done ? done : now) - due), done == 0,
			(unsigned long long)stream->late_nsec[i]);
	}
}

static int write_log(const char *path, const struct stream *streams, size_t n_streams)
{
	uint64_t now = now_nsec();
	FILE *f = fopen(path, "we");

	if (!f)
		return -errno;
	for (size_t i = 0; i < n_streams; i++)
		write_stream(f, &streams[i], now);
	return fclose(f) < 0 ? -errno : 0;
}

static int prepare(struct stream *writes, struct stream *reads, char **argv)
{
	double seconds = atof(argv[3]);
	bool overwrites = writes->perform == perform_overwrite;
	int r;

	/* By way of the page cache; readable, so that it can be warmed. */
	r = stream_open(writes, argv[1], overwrites ? O_RDWR | O_DSYNC : O_WRONLY);
	if (r >= 0)
		r = stream_open(reads, argv[1], O_RDONLY | O_DIRECT);
	if (r >= 0 &&
	    (reads->size_bytes < READ_BYTES || (overwrites && writes->size_bytes < WRITE_BYTES)))
		r = -ENODATA;
	if (r >= 0)
		r = stream_plan(writes, atof(argv[5]), seconds);
	if (r >= 0)
		r = stream_plan(reads, atof(argv[6]), seconds);
	if (r >= 0)
		r = warm(writes, reads);
	return r;
}

/* Returns 1 if there will be no start. */
static int wait_for_start(void)
{
	char byte;

	printf("ready\n");
	fflush(stdout);
	return read(STDIN_FILENO, &byte, 1) == 1 ? 0 : 1;
}

static int run(char **argv)
{
	bool overwrites = strcmp(argv[4], "overwrite") == 0;
	struct stream streams[] = {
		{ .name = argv[4], .perform = overwrites ? perform_overwrite : perform_append },
		{ .name = "read", .perform = perform_read },
	};
	sigset_t set;
	uint64_t start_nsec;
	int number, r;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	r = prepare(&streams[0], &streams[1], argv);
	if (r >= 0)
		r = wait_for_start();
	if (r != 0)
		return r;
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	start_nsec = now_nsec();
	for (size_t i = 0; r >= 0 && i < 2; i++)
		r = stream_start(&streams[i], start_nsec);
	if (r >= 0)
		sigwait(&set, &number);
	if (r >= 0)
		r = write_log(argv[2], streams, 2);
	for (size_t i = 0; r >= 0 && i < 2; i++)
		r = streams[i].error;
	return r;
}

/* It is I/O that is measured, not who gets a processor: where processors are few, a deleter that is
 * busy on one would be seen as a slow disk. Refused in some containers; then that is part of it. */
static void be_punctual(void)
{
	struct sched_param param = { .sched_priority = 1 };

	sched_setscheduler(0, SCHED_FIFO, &param);
}

int main(int argc, char **argv)
{
	int r;

	if (argc != 7 || (strcmp(argv[4], "append") != 0 && strcmp(argv[4], "overwrite") != 0)) {
		fprintf(stderr,
			"usage: foreground DIRECTORY LOG SECONDS append|overwrite SYNC_RATE "
			"READ_RATE\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	be_punctual();
	r = run(argv);
	if (r < 0)
		printf("failed: %s\n", strerror(-r));
	else
		printf("done\n");
	fflush(stdout);
	/* Threads may be stuck in the kernel; what is to be said has been said. */
	_exit(r < 0);
}
