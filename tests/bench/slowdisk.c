/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * slowdisk [OPTION...] MOUNTPOINT - a file that takes its time as a disk would.
 *
 * Serves MOUNTPOINT/disk from memory through FUSE. With `losetup --direct-io=on` on it, it becomes
 * a block device with real queues, flushes and discards, whose speed does not depend on the machine
 * it runs on. MOUNTPOINT/trims tells how often each page of it was trimmed (slowdisk-trims.h), and
 * is cleared by writing to it. Runs in the foreground, prints "ready" when mounted, and statistics
 * when it ends by SIGINT, SIGTERM or unmounting. SIGUSR1 turns the delays off, SIGUSR2 on.
 *
 *   slowdisk.c          FUSE, signals
 *   slowdisk-options.c  the command line
 *   slowdisk-store.c    the bytes
 *   slowdisk-trims.c    what was trimmed
 *   slowdisk-model.c    what a request costs
 *   slowdisk-queue.c    which request is next, and waiting for it
 *
 * The kernel holds an inode lock over a discard or a flush and takes it for a write, so while one
 * runs, writes do not even reach us; reads do. That suits the model, in which they would wait, too.
 */
#define FUSE_USE_VERSION 35

#include <errno.h>
#include <fuse_lowlevel.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "slowdisk-model.h"
#include "slowdisk-options.h"
#include "slowdisk-queue.h"
#include "slowdisk-store.h"
#include "slowdisk-trims.h"

#define DISK_NAME "disk"
#define DISK_INODE 2
#define TRIMS_NAME "trims"
#define TRIMS_INODE 3
#define REQUEST_BYTES_MAX (1024 * 1024)
/* More than the loop driver ever has under way (128), so that the queue is ours and not FUSE's. */
#define BACKGROUND_MAX 256
/* No thread waits for the simulated disk, so a few are enough. */
#define IDLE_THREADS 4

struct disk {
	uint64_t size_bytes;
	struct store *store;
	struct trims *trims;
	struct queue *queue;
	pthread_t signal_thread;
};

/* A request of the kernel that waits in the queue. */
struct call {
	struct request request;
	fuse_req_t fuse;
	size_t length;
	char data[];
};

static struct disk *disk_of(fuse_req_t fuse)
{
	return fuse_req_userdata(fuse);
}

static struct call *call_new(fuse_req_t fuse, enum request_kind kind, off_t offset, size_t length,
			     size_t n_data)
{
	struct call *call = malloc(sizeof(*call) + n_data);

	if (!call)
		return NULL;
	*call = (struct call){ .fuse = fuse, .length = length };
	call->request.kind = kind;
	call->request.offset = (uint64_t)offset;
	call->request.length = length;
	return call;
}

static struct call *call_of(struct request *request)
{
	return (struct call *)((char *)request - offsetof(struct call, request));
}

static void complete_read(struct request *request)
{
	struct call *call = call_of(request);

	fuse_reply_buf(call->fuse, call->data, call->length);
	free(call);
}

static void complete_write(struct request *request)
{
	struct call *call = call_of(request);

	fuse_reply_write(call->fuse, call->length);
	free(call);
}

static void complete_done(struct request *request)
{
	struct call *call = call_of(request);

	fuse_reply_err(call->fuse, 0);
	free(call);
}

static void submit(struct call *call, void (*complete)(struct request *request))
{
	call->request.complete = complete;
	queue_submit(disk_of(call->fuse)->queue, &call->request);
}

static void disk_stat(struct disk *disk, fuse_ino_t inode, struct stat *ret)
{
	*ret = (struct stat){ .st_ino = inode, .st_nlink = 1, .st_blksize = STORE_PAGE_BYTES };
	if (inode == FUSE_ROOT_ID) {
		ret->st_mode = S_IFDIR | 0755;
		ret->st_nlink = 2;
		return;
	}
	ret->st_mode = S_IFREG | 0600;
	if (inode == TRIMS_INODE) {
		ret->st_size = (off_t)trims_size(disk->trims);
		return;
	}
	ret->st_size = (off_t)disk->size_bytes;
	ret->st_blocks = (blkcnt_t)(store_used_bytes(disk->store) / 512);
}

static void op_init(void *userdata, struct fuse_conn_info *connection)
{
	(void)userdata;
	connection->max_write = REQUEST_BYTES_MAX;
	connection->max_read = REQUEST_BYTES_MAX;
	connection->max_background = BACKGROUND_MAX;
	connection->congestion_threshold = BACKGROUND_MAX;
}

static void op_lookup(fuse_req_t fuse, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = { 0 };

	if (parent == FUSE_ROOT_ID && strcmp(name, DISK_NAME) == 0)
		entry.ino = DISK_INODE;
	if (parent == FUSE_ROOT_ID && strcmp(name, TRIMS_NAME) == 0)
		entry.ino = TRIMS_INODE;
	if (entry.ino == 0) {
		fuse_reply_err(fuse, ENOENT);
		return;
	}
	disk_stat(disk_of(fuse), entry.ino, &entry.attr);
	fuse_reply_entry(fuse, &entry);
}

static void op_getattr(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file)
{
	struct stat st;

	(void)file;
	disk_stat(disk_of(fuse), inode, &st);
	fuse_reply_attr(fuse, &st, 0);
}

static void op_open(fuse_req_t fuse, fuse_ino_t inode, struct fuse_file_info *file)
{
	(void)inode;
	/* Cached, the file would be as fast as memory. */
	file->direct_io = 1;
	fuse_reply_open(fuse, file);
}

/* 0, or a negative errno when the range is not on the disk. */
static int check_range(struct disk *disk, off_t offset, uint64_t length)
{
	if (offset < 0 || (uint64_t)offset > disk->size_bytes)
		return -EINVAL;
	return length > disk->size_bytes - (uint64_t)offset ? -ENOSPC : 0;
}

static void read_trims(fuse_req_t fuse, size_t length, off_t offset)
{
	struct trims *trims = disk_of(fuse)->trims;
	uint64_t size = trims_size(trims);
	char *data;

	if (offset < 0 || (uint64_t)offset >= size)
		length = 0;
	else if (length > size - (uint64_t)offset)
		length = size - (uint64_t)offset;
	data = malloc(length + 1);
	if (!data) {
		fuse_reply_err(fuse, ENOMEM);
		return;
	}
	if (length > 0)
		trims_read(trims, (uint64_t)offset, length, data);
	fuse_reply_buf(fuse, data, length);
	free(data);
}

static void op_read(fuse_req_t fuse, fuse_ino_t inode, size_t length, off_t offset,
		    struct fuse_file_info *file)
{
	struct disk *disk = disk_of(fuse);
	struct call *call;

	(void)file;
	if (inode == TRIMS_INODE) {
		read_trims(fuse, length, offset);
		return;
	}
	if (offset < 0 || (uint64_t)offset >= disk->size_bytes) {
		fuse_reply_buf(fuse, NULL, 0);
		return;
	}
	if (length > disk->size_bytes - (uint64_t)offset)
		length = disk->size_bytes - (uint64_t)offset;
	call = call_new(fuse, REQUEST_READ, offset, length, length);
	if (!call) {
		fuse_reply_err(fuse, ENOMEM);
		return;
	}
	store_read(disk->store, (uint64_t)offset, length, call->data);
	submit(call, complete_read);
}

static void op_write(fuse_req_t fuse, fuse_ino_t inode, const char *data, size_t length,
		     off_t offset, struct fuse_file_info *file)
{
	struct disk *disk = disk_of(fuse);
	struct call *call;
	int r;

	(void)file;
	if (inode == TRIMS_INODE) {
		trims_clear(disk->trims);
		fuse_reply_write(fuse, length);
		return;
	}
	r = check_range(disk, offset, length);
	if (r >= 0)
		r = store_write(disk->store, (uint64_t)offset, length, data);
	call = r >= 0 ? call_new(fuse, REQUEST_WRITE, offset, length, 0) : NULL;
	if (!call) {
		fuse_reply_err(fuse, r < 0 ? -r : ENOMEM);
		return;
	}
	trims_written(disk->trims, (uint64_t)offset, length);
	submit(call, complete_write);
}

static void op_fsync(fuse_req_t fuse, fuse_ino_t inode, int data_only, struct fuse_file_info *file)
{
	struct call *call = call_new(fuse, REQUEST_FLUSH, 0, 0, 0);

	(void)inode;
	(void)data_only;
	(void)file;
	if (!call) {
		fuse_reply_err(fuse, ENOMEM);
		return;
	}
	submit(call, complete_done);
}

static void op_fallocate(fuse_req_t fuse, fuse_ino_t inode, int mode, off_t offset, off_t length,
			 struct fuse_file_info *file)
{
	struct disk *disk = disk_of(fuse);
	struct call *call;
	int r = inode == DISK_INODE ? check_range(disk, offset, (uint64_t)length) : -EOPNOTSUPP;

	(void)file;
	if (r < 0 || !(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))) {
		fuse_reply_err(fuse, r < 0 ? -r : EOPNOTSUPP);
		return;
	}
	call = call_new(fuse, REQUEST_TRIM, offset, (size_t)length, 0);
	if (!call) {
		fuse_reply_err(fuse, ENOMEM);
		return;
	}
	store_zero(disk->store, (uint64_t)offset, (uint64_t)length);
	trims_add(disk->trims, (uint64_t)offset, (uint64_t)length);
	submit(call, complete_done);
}

/* The loop driver takes its granularity of discards from the block size. */
static void op_statfs(fuse_req_t fuse, fuse_ino_t inode)
{
	struct statvfs st = { .f_bsize = STORE_PAGE_BYTES, .f_frsize = STORE_PAGE_BYTES };

	(void)inode;
	st.f_blocks = disk_of(fuse)->size_bytes / STORE_PAGE_BYTES;
	fuse_reply_statfs(fuse, &st);
}

static const struct fuse_lowlevel_ops operations = {
	.init = op_init,
	.lookup = op_lookup,
	.getattr = op_getattr,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.fsync = op_fsync,
	.fallocate = op_fallocate,
	.statfs = op_statfs,
};

static void print_stats(struct disk *disk)
{
	static const char *const names[N_REQUEST_KINDS] = {
		[REQUEST_READ] = "read",
		[REQUEST_WRITE] = "write",
		[REQUEST_FLUSH] = "flush",
		[REQUEST_TRIM] = "trim",
	};
	struct queue_stats stats;

	queue_get_stats(disk->queue, &stats);
	for (int i = 0; i < N_REQUEST_KINDS; i++)
		fprintf(stderr, "%s=%llu %s_bytes=%llu ", names[i],
			(unsigned long long)stats.requests[i], names[i],
			(unsigned long long)stats.bytes[i]);
	fprintf(stderr, "seeks=%llu latency_usec=%llu used_bytes=%llu\n",
		(unsigned long long)stats.n_seeks, (unsigned long long)stats.latency_nsec / 1000,
		(unsigned long long)store_used_bytes(disk->store));
}

static void delay_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGUSR1);
	sigaddset(ret, SIGUSR2);
}

/* A thread may take a lock, a signal handler may not. */
static void *obey_signals(void *userdata)
{
	struct disk *disk = userdata;
	sigset_t set;
	int number;

	delay_signals(&set);
	for (;;)
		if (sigwait(&set, &number) == 0)
			queue_set_delays(disk->queue, number == SIGUSR2);
	return NULL;
}

static int serve_mounted(struct fuse_session *session)
{
	struct fuse_loop_config config = { .max_idle_threads = IDLE_THREADS };

	printf("ready\n");
	fflush(stdout);
	return fuse_session_loop_mt(session, &config);
}

/* Answers what still waits, so the session has to be there yet. */
static void stop_threads(struct disk *disk)
{
	pthread_cancel(disk->signal_thread);
	pthread_join(disk->signal_thread, NULL);
	disk->queue = queue_free(disk->queue);
}

static int serve_disk(struct disk *disk, const char *mountpoint)
{
	char *argv[] = { "slowdisk", "-o", "fsname=slowdisk,max_read=1048576" };
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	struct fuse_session *session;
	int r = -EIO;

	session = fuse_session_new(&args, &operations, sizeof(operations), disk);
	fuse_opt_free_args(&args);
	if (!session) {
		stop_threads(disk);
		return -EIO;
	}
	if (fuse_set_signal_handlers(session) == 0) {
		if (fuse_session_mount(session, mountpoint) == 0) {
			r = serve_mounted(session);
			print_stats(disk);
			fuse_session_unmount(session);
		}
		fuse_remove_signal_handlers(session);
	}
	stop_threads(disk);
	fuse_session_destroy(session);
	return r;
}

/*
 * Threads inherit the mask of who makes them, so all is blocked while they are made: what ends the
 * session has to reach the main thread, which waits for it, and what is about delays the one thread
 * that takes it.
 */
static int start_threads(struct disk *disk, struct model *model, const struct options *options)
{
	sigset_t set;
	int r;

	sigfillset(&set);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	r = queue_new(model, options->depth, !options->start_off, &disk->queue);
	if (r >= 0)
		r = -pthread_create(&disk->signal_thread, NULL, obey_signals, disk);
	delay_signals(&set);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	return r;
}

static int serve_with_model(struct disk *disk, struct model *model, const struct options *options)
{
	int r = start_threads(disk, model, options);

	if (r < 0) {
		if (!disk->queue)
			model_free(model);
		queue_free(disk->queue);
		return r;
	}
	return serve_disk(disk, options->mountpoint);
}

static int run(const struct options *options)
{
	struct disk disk = { .size_bytes = options->model.size_bytes };
	struct model *model;
	int r;

	r = model_new(&options->model, &model);
	if (r < 0)
		return r;
	r = store_new(disk.size_bytes, &disk.store);
	if (r >= 0)
		r = trims_new(disk.size_bytes, &disk.trims);
	if (r >= 0)
		r = serve_with_model(&disk, model, options);
	else
		model_free(model);
	trims_free(disk.trims);
	store_free(disk.store);
	return r;
}

/*
 * What is simulated must not depend on how busy the machine is. Threads inherit it. Both settings
 * are refused to some users and in some containers; the disk is then a little slower than asked
 * for.
 */
static void be_punctual(void)
{
	struct sched_param param = { .sched_priority = 1 };

	prctl(PR_SET_TIMERSLACK, 1);
	sched_setscheduler(0, SCHED_FIFO, &param);
}

int main(int argc, char **argv)
{
	struct options options;
	int r;

	r = options_parse(argc, argv, &options);
	if (r == OPTIONS_HELP)
		return 0;
	if (r < 0)
		return 2;
	if (options.die_with_parent)
		prctl(PR_SET_PDEATHSIG, SIGTERM);
	be_punctual();
	r = run(&options);
	if (r < 0) {
		fprintf(stderr, "slowdisk: %s\n", strerror(-r));
		return 1;
	}
	return 0;
}
