/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaim-discards: while files are deleted from a btrfs with discard=async, and until the kernel
 * has discarded what they held, holds these discards to what foreign I/O bears. It is a program of
 * its own, without capabilities, as that ends minutes after the deletion.
 *
 *   deleter --request--> (waits for its turn) --> limits are set, and steered each second
 *   deleter closes the socket --> nothing left to discard, or no progress --> limits are put back
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/spawn.h"
#include "btrfs-limits.h"
#include "discard-request.h"
#include "pacing/sensors/disk-sensor.h"
#include "sandbox/credentials.h"

#define SYS "/sys"

#define ROUND_MSEC 1000
/* The last commit comes 30 s after the deletion at the latest, by btrfs's default, and after it
 * what was freed is counted. */
#define COMMITTED (60 * USEC_PER_SEC)
/* btrfs waits for 120 s with block groups that are still in use. */
#define NO_PROGRESS (150 * USEC_PER_SEC)
/* What other programs delete goes on. */
#define NOTHING MiB(16)

struct holder {
	struct discard_request request;
	struct disk_sensor disks[DISCARD_DISKS_MOST];
	size_t n_disks;
	struct btrfs_limits limits;
	bool held;
	struct disk_sample then;
	int64_t left;           /* bytes to be discarded, as of the last look */
	uint64_t progress_usec; /* when they last became fewer */
	uint64_t released_usec; /* 0: files are being deleted */
};

static volatile sig_atomic_t told_to_end;

static void on_signal(int sig)
{
	(void)sig;
	told_to_end = 1;
}

static void disks_sample(const struct holder *h, struct disk_sample *ret)
{
	struct disk_sample one;

	*ret = (struct disk_sample){ 0 };
	for (size_t i = 0; i < h->n_disks; i++)
		if (disk_sensor_sample(&h->disks[i], &one) >= 0)
			disk_sample_add(ret, &one);
}

static void disks_open(struct holder *h)
{
	for (size_t i = 0; i < MIN(h->request.n_disks, (uint64_t)DISCARD_DISKS_MOST); i++)
		if (disk_sensor_open(&h->disks[h->n_disks], SYS, h->request.disks[i]) >= 0)
			h->n_disks++;
	disks_sample(h, &h->then);
}

/* Takes what its deleter has sent. */
static void receive(struct holder *h)
{
	struct discard_request q;
	ssize_t n = recv(SPAWN_FD, &q, sizeof(q), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(q) || memchr(q.uuid, '\0', sizeof(q.uuid)) == NULL) {
		h->released_usec = h->progress_usec = now_usec();
		return;
	}
	if (h->request.uuid[0] != '\0') {
		h->request.target_usec = q.target_usec;
	} else {
		h->request = q;
		disks_open(h);
	}
}

/* Waits for a request, or for the next round. */
static void wait_for_request(struct holder *h)
{
	struct pollfd p = { h->released_usec == 0 ? SPAWN_FD : -1, POLLIN, 0 };

	if (poll(&p, 1, ROUND_MSEC) > 0)
		receive(h);
}

static int take(struct holder *h)
{
	struct discard_limits first;
	int r = btrfs_limits_take(&h->limits, SYS, DISCARD_RUN, h->request.uuid);

	/* Another deletion's process has them, and ends when that is discarded. */
	if (r == -EWOULDBLOCK)
		return 0;
	if (r < 0)
		return r;
	h->held = true;
	first = discard_limits_first(&h->limits.kept.before);
	return btrfs_limits_set(&h->limits, &first);
}

static int steer(struct holder *h)
{
	struct disk_sample now, done;
	struct discard_limits next;

	disks_sample(h, &now);
	disk_sample_since(&now, &h->then, &done);
	/* On a slow disk that takes some rounds. */
	if (done.discards >= DISCARDS_ENOUGH)
		h->then = now;
	next = discard_limits_next(&h->limits.kept.now, &h->limits.kept.before,
				   h->request.target_usec, done.discards,
				   done.discard_msec * USEC_PER_MSEC);
	return btrfs_limits_set(&h->limits, &next);
}

/* Is there nothing left to be discarded, or does it not go on? */
static bool is_over(struct holder *h)
{
	uint64_t now = now_usec();
	int64_t left = btrfs_limits_discardable(&h->limits);

	if (left < h->left)
		h->progress_usec = now;
	h->left = left;
	return left < 0 || (left < (int64_t)NOTHING && now >= h->released_usec + COMMITTED) ||
	       now >= h->progress_usec + NO_PROGRESS;
}

static void hold(struct holder *h)
{
	int r = 0;

	while (r >= 0 && !told_to_end) {
		/* Until then another process holds them. */
		if (!h->held && h->released_usec > 0 && now_usec() >= h->released_usec + COMMITTED)
			break;
		r = h->held ? steer(h) : take(h);
		if (r >= 0 && h->held && h->released_usec > 0 && is_over(h))
			break;
		wait_for_request(h);
	}
	if (h->held)
		btrfs_limits_put_back(&h->limits);
}

/* It goes on after its deleter, whose terminal and directories it does not hold. */
static int detach(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, STDERR_FILENO) < 0 || chdir("/") < 0 ||
	    close_range(SPAWN_FD + 1, ~0U, 0) < 0)
		return -errno;
	/* Its deleter waits for the process that ends here. */
	switch (fork()) {
	case -1:
		return -errno;
	case 0:
		return setsid() < 0 ? -errno : 0;
	default:
		_exit(EXIT_SUCCESS);
	}
}

static int signals_take(void)
{
	static const int ends[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
	struct sigaction a = { .sa_handler = on_signal };

	for (size_t i = 0; i < ELEMENTSOF(ends); i++)
		if (sigaction(ends[i], &a, NULL) < 0)
			return -errno;
	return 0;
}

int main(void)
{
	static struct holder h;
	socklen_t len = sizeof(int);
	int type = 0, r;

	if (getsockopt(SPAWN_FD, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET) {
		(void)fputs("reclaim-discards: is started by reclaimd and reclaimctl, not by "
			    "hand\n",
			    stderr);
		return EXIT_FAILURE;
	}
	r = detach();
	if (r >= 0)
		r = signals_take();
	if (r >= 0)
		r = credentials_drop_all();
	if (r < 0)
		return EXIT_FAILURE;
	while (h.request.uuid[0] == '\0' && h.released_usec == 0)
		wait_for_request(&h);
	/* Closed without a request: by reclaimd, as it starts. */
	if (h.request.uuid[0] == '\0')
		btrfs_limits_recover(SYS, DISCARD_RUN);
	else
		hold(&h);
	return EXIT_SUCCESS;
}
