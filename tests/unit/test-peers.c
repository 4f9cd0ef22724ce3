/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Another process that deletes, and a pacer that paces it: real processes, sockets and pages; the
 * device is made up, so that its counters say what a test wants. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pace-page.h"
#include "pace.h"
#include "pacing/pacer.h"
#include "pacing/peers.h"
#include "support.h"
#include "base/fd.h"
#include "wire/remote-pace.h"

#define PATIENCE_USEC (30 * USEC_PER_SEC)

struct fixture {
	char root[PATH_MAX], sys[PATH_MAX + 8], proc[PATH_MAX + 8], stat[PATH_MAX + 64];
	struct pacer *pacer;
	struct pacer_peer *peer;
	int sock, page;
	struct remote_pace *remote;
	int fd;
};

/* What the device has done so far: reads and their sectors. */
static void counters(struct fixture *f, unsigned reads)
{
	FILE *file = fopen(f->stat, "we");

	ck_assert_ptr_nonnull(file);
	(void)fprintf(file, "%u 0 %u %u 0 0 0 0 0 0 0 0 0 0 0 0 0\n", reads, reads * 8, reads);
	ck_assert_int_eq(fclose(file), 0);
}

static void begin(struct fixture *f, const char *pressure)
{
	struct pacer_options o = { .rate_min = MiB(8), .sys = f->sys, .proc = f->proc };
	char text[PATH_MAX + 256], link[96];
	struct identity id;

	scratch_make(f->root, sizeof(f->root));
	(void)snprintf(f->sys, sizeof(f->sys), "%s/sys", f->root);
	(void)snprintf(f->proc, sizeof(f->proc), "%s/proc", f->root);
	tree_make(f->root, "sys/ proc/");
	f->fd = open(f->root, O_PATH | O_CLOEXEC);
	ck_assert_int_eq(fd_identity(f->fd, "", &id), 0);
	(void)snprintf(text, sizeof(text), "%llu 1 0:6 / /mnt rw - ext4 source rw\n",
		       (unsigned long long)id.mnt_id);
	file_make(f->proc, "self/mountinfo", text);
	file_make(f->proc, "pressure/io", pressure);
	(void)snprintf(text, sizeof(text), "%u:%u", major(id.dev), minor(id.dev));
	file_make(f->sys, "devices/sda/dev", text);
	(void)snprintf(link, sizeof(link), "dev/block/%u:%u", major(id.dev), minor(id.dev));
	link_make(f->sys, link, "../../devices/sda");
	tree_make(f->sys, "block/");
	link_make(f->sys, "block/sda", "../devices/sda");
	file_make(f->sys, "devices/sda/stat", "");
	(void)snprintf(f->stat, sizeof(f->stat), "%s/devices/sda/stat", f->sys);
	counters(f, 0);
	ck_assert_int_eq(pacer_new(&f->pacer, &o, f->fd, -1), 0);
	ck_assert_ptr_nonnull(f->pacer);
	ck_assert_int_eq(pacer_peer_new(f->pacer, &f->peer, &f->sock, &f->page), 0);
	ck_assert_int_eq(remote_pace_new(&f->remote, f->sock, f->page), 0);
}

static void end(struct fixture *f)
{
	f->remote = remote_pace_free(f->remote);
	f->peer = pacer_peer_free(f->pacer, f->peer);
	f->pacer = pacer_free(f->pacer);
	(void)close(f->page);
	(void)close(f->fd);
	scratch_remove(f->root);
}

#define NEVER_ALL "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
#define QUIET "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n" NEVER_ALL
#define BUSY "some avg10=9.00 avg60=0.00 avg300=0.00 total=0\n" NEVER_ALL

static struct pacer_view look(struct fixture *f)
{
	struct pacer_view v;

	pacer_snapshot(f->pacer, &v);
	return v;
}

static void wait_mode(struct fixture *f, enum pacing_mode mode)
{
	uint64_t began = now_usec();

	while (look(f).controller.mode != mode) {
		ck_assert_uint_lt(now_usec() - began, PATIENCE_USEC);
		(void)poll(NULL, 0, 5);
	}
}

static const _Atomic bool never;

START_TEST(without_limits_no_question_is_asked)
{
	struct pace_budget budget;
	const struct pace *pace;
	struct fixture f;
	uint64_t entries, bytes;

	begin(&f, QUIET);
	pace = remote_pace(f.remote);
	ck_assert_int_eq(look(&f).controller.mode, PACING_FAST); /* without a check */
	ck_assert(pace->begin(pace->userdata, &never, &budget));
	ck_assert_uint_eq(budget.entries, UINT64_MAX);
	ck_assert_uint_eq(pace->step(pace->userdata), UINT64_MAX);
	ck_assert(!pace->spent(pace->userdata, 5, 4096, 10));
	pacer_peer_progress(f.peer, &entries, &bytes);
	ck_assert_uint_eq(entries, 5);
	ck_assert_uint_eq(bytes, 4096);
	end(&f);
}
END_TEST

/* A foreign process reads: slices are granted one by one, and the first check waits for ours. */
START_TEST(with_company_each_slice_is_granted)
{
	uint64_t began = now_usec();
	struct pace_budget budget;
	const struct pace *pace;
	struct fixture f;
	unsigned reads = 0;
	bool needs_sync;

	begin(&f, BUSY);
	pace = remote_pace(f.remote);
	while (look(&f).controller.mode != PACING_PACED) {
		counters(&f, ++reads);
		ck_assert_uint_lt(now_usec() - began, PATIENCE_USEC);
		(void)poll(NULL, 0, 3);
	}
	counters(&f, ++reads);
	ck_assert(pace->begin(pace->userdata, &never, &budget));
	ck_assert_uint_lt(budget.entries, UINT64_MAX);
	ck_assert_uint_lt(pace->step(pace->userdata), UINT64_MAX);
	needs_sync = pace->spent(pace->userdata, budget.entries, 0, 10);
	ck_assert(needs_sync);
	pace->synced(pace->userdata, 1000);
	ck_assert_uint_eq(look(&f).entries, budget.entries);
	end(&f);
}
END_TEST

/* The end of a job is a slice with a sync and no work. */
START_TEST(a_flush_is_a_slice)
{
	uint64_t began = now_usec();
	const struct pace *pace, *own;
	struct pace_budget budget;
	struct fixture f;
	unsigned reads = 0;

	begin(&f, QUIET);
	pace = remote_pace(f.remote);
	wait_mode(&f, PACING_FAST);
	ck_assert(pace->begin(pace->userdata, &never, &budget));
	ck_assert_uint_eq(atomic_load(&peer_page(f.peer)->busy), 1);
	pace->synced(pace->userdata, 1000);
	ck_assert_uint_eq(atomic_load(&peer_page(f.peer)->busy), 0);
	ck_assert_uint_eq(pacer_flush_from(f.pacer), 0);
	while (look(&f).controller.mode != PACING_PACED) {
		counters(&f, ++reads);
		ck_assert_uint_lt(now_usec() - began, PATIENCE_USEC);
		(void)poll(NULL, 0, 3);
	}
	counters(&f, ++reads);
	began = now_usec();
	ck_assert(pace->begin(pace->userdata, &never, &budget));
	pace->synced(pace->userdata, 20000);
	ck_assert_uint_ge(pacer_flush_from(f.pacer), began + 1 * USEC_PER_SEC);
	/* The turn is given back, and the conversation goes on. */
	own = pacer_pace(f.pacer);
	ck_assert(own->begin(own->userdata, &never, &budget));
	own->synced(own->userdata, 1000);
	ck_assert(pace->begin(pace->userdata, &never, &budget));
	pace->synced(pace->userdata, 1000);
	end(&f);
}
END_TEST

/* Stopped by the one that paces: a lane that waits is let go with nothing begun. */
START_TEST(a_peer_can_be_stopped)
{
	static _Atomic bool cancelled;
	struct pace_budget budget;
	const struct pace *pace;
	struct fixture f;

	begin(&f, BUSY);
	pace = remote_pace(f.remote);
	pacer_peer_stop(f.peer, true);
	atomic_store(&cancelled, true);
	ck_assert(!pace->begin(pace->userdata, &cancelled, &budget));
	end(&f);
}
END_TEST

/* A process that is killed within a slice gives its turn back. */
START_TEST(a_dead_process_holds_nothing_up)
{
	struct pace_budget budget;
	const struct pace *own;
	struct fixture f;
	unsigned reads = 0;
	int status, ready[2];
	char c;
	pid_t pid;

	begin(&f, BUSY);
	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		const struct pace *pace = remote_pace(f.remote);
		bool granted = pace->begin(pace->userdata, &never, &budget);

		_exit(granted && write(ready[1], "x", 1) == 1 && pause() == 0);
	}
	(void)close(ready[1]);
	f.remote = remote_pace_free(f.remote);
	do {
		struct pollfd pfd = { .fd = ready[0], .events = POLLIN };

		counters(&f, ++reads);
		if (poll(&pfd, 1, 3) > 0)
			break;
	} while (reads < 10000);
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	own = pacer_pace(f.pacer);
	ck_assert(own->begin(own->userdata, &never, &budget));
	if (own->spent(own->userdata, 1, 0, 1))
		own->synced(own->userdata, 1);
	(void)close(ready[0]);
	end(&f);
}
END_TEST

START_TEST(nonsense_ends_the_conversation)
{
	struct pace_message m = { .kind = PACE_SYNCED };
	struct fixture f;
	char c;

	begin(&f, QUIET);
	ck_assert_int_eq(send(f.sock, &m, sizeof(m), 0), sizeof(m));
	ck_assert_int_eq(recv(f.sock, &c, 1, 0), 0);
	end(&f);
}
END_TEST

/* The bound of an operation behind a server is the configuration's, and none where speed goes
 * first. */
START_TEST(what_an_operation_may_take_is_told)
{
	const struct pace *pace;
	struct fixture f;

	begin(&f, QUIET);
	pace = remote_pace(f.remote);
	ck_assert_uint_eq(pace->op_latency(pace->userdata), PACE_OP_AUTO);
	pacer_limits(f.pacer, 5000, MiB(8), 0);
	ck_assert_uint_eq(pace->op_latency(pace->userdata), 5000);
	pacer_urgent(f.pacer, true);
	ck_assert_uint_eq(pace->op_latency(pace->userdata), 0);
	pacer_urgent(f.pacer, false);
	ck_assert_uint_eq(pace->op_latency(pace->userdata), 5000);
	end(&f);
}
END_TEST

/* A ceiling of the rate brings no bound of latency with it that was turned off. */
START_TEST(what_is_off_stays_off_under_a_ceiling)
{
	struct pacer_options o = { .rate_max = MiB(16), .off = true, .diskless = true };
	struct pacer_peer *peer;
	struct pacer *pacer;
	struct fixture f;
	int sock, page;

	begin(&f, QUIET);
	o.sys = f.sys;
	o.proc = f.proc;
	ck_assert_int_eq(pacer_new(&pacer, &o, f.fd, -1), 0);
	ck_assert_int_eq(pacer_peer_new(pacer, &peer, &sock, &page), 0);
	ck_assert_uint_eq(atomic_load(&peer_page(peer)->op_latency_usec), 0);
	pacer_peer_free(pacer, peer);
	pacer_free(pacer);
	(void)close(sock);
	(void)close(page);
	end(&f);
}
END_TEST

/* Numbers that fall, and lanes by the billion, concern only the process that says so. */
START_TEST(what_pages_say_is_not_believed)
{
	struct peers peers = { 0 };
	struct peers_sample s;
	struct pacer_peer *peer;
	struct pace_page *page;
	struct fixture f;
	int sock, fd;

	begin(&f, QUIET);
	ck_assert_int_eq(peer_new(&peer, pacer_pace(f.pacer), &sock, &fd), 0);
	peers_add(&peers, peer);
	peers_publish(&peers, PACE_NO_LIMITS, PACE_OP_AUTO);
	page = peer_page(peer);
	atomic_store(&page->own_sectors, 100);
	atomic_store(&page->busy, UINT32_MAX);
	peers_sample(&peers, USEC_PER_SEC, true, &s);
	ck_assert_uint_eq(s.own_sectors, 100);
	ck_assert_uint_le(s.busy, 1024);
	atomic_store(&page->own_sectors, 1);
	/* Nothing is heard of it for seconds: it is not waited for. */
	peers_sample(&peers, 10 * USEC_PER_SEC, true, &s);
	ck_assert_uint_eq(s.own_sectors, 100);
	ck_assert_uint_eq(s.busy, 0);
	peers_remove(&peers, peer);
	peers_sample(&peers, 11 * USEC_PER_SEC, true, &s);
	ck_assert_uint_eq(s.own_sectors, 100);
	peer_free(peer);
	(void)close(sock);
	(void)close(fd);
	end(&f);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		without_limits_no_question_is_asked,
		with_company_each_slice_is_granted,
		a_flush_is_a_slice,
		a_peer_can_be_stopped,
		a_dead_process_holds_nothing_up,
		nonsense_ends_the_conversation,
		what_an_operation_may_take_is_told,
		what_is_off_stays_off_under_a_ceiling,
		what_pages_say_is_not_believed,
	};

	return run_case("peers", tests, ELEMENTSOF(tests));
}
