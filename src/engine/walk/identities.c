/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A ring of its own for each time: that is nothing beside the first answer of a server. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/macros.h"
#include "engine/remove/ring.h"
#include "identities.h"

/* So many under way together. Of 134 names 3 ms away, beside 64 lanes, each took 8 ms by itself. */
#define AT_ONCE 32

struct looks {
	struct io_uring ring;
	bool lost; /* an answer may still come, to this memory */
	struct statx answers[AT_ONCE];
	int errors[AT_ONCE];
};

static struct looks *looks_free(struct looks *l)
{
	if (l)
		io_uring_queue_exit(&l->ring);
	if (l && !l->lost)
		free(l);
	return NULL;
}

/* NULL where there is no memory for it, or the kernel has no such rings for this process. */
static struct looks *looks_new(void)
{
	/* The kernel's own number is four for each processor; these wait for a server. */
	unsigned workers[2] = { AT_ONCE, 0 };
	struct looks *l = calloc(1, sizeof(*l));

	if (!l || ring_new(&l->ring, AT_ONCE, IORING_OP_STATX) < 0) {
		free(l);
		return NULL;
	}
	(void)io_uring_register_iowq_max_workers(&l->ring, workers);
	return l;
}

/* Returns whether all were asked, and have answers. */
static bool looks_ask(struct looks *l, int dirfd, const struct engine_unit_name *v, size_t n)
{
	struct io_uring_cqe *cqe;
	int submitted, r;

	for (size_t i = 0; i < n; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&l->ring);

		if (!sqe)
			return false;
		io_uring_prep_statx(sqe, dirfd, v[i].name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
				    STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID, &l->answers[i]);
		sqe->user_data = i;
	}
	submitted = io_uring_submit(&l->ring);
	for (int i = 0; i < submitted; i++) {
		while ((r = io_uring_wait_cqe(&l->ring, &cqe)) == -EINTR || r == -EAGAIN)
			;
		if (r < 0) {
			l->lost = true;
			return false;
		}
		l->errors[cqe->user_data] = cqe->res;
		io_uring_cqe_seen(&l->ring, cqe);
	}
	return submitted == (int)n;
}

void identities_at(int dirfd, struct engine_unit_name *v, int *errors, size_t n,
		   const _Atomic bool *cancelled)
{
	struct looks *l = n > 1 ? looks_new() : NULL;

	for (size_t done = 0, some; done < n; done += some) {
		some = MIN(n - done, (size_t)AT_ONCE);
		if (l && (*cancelled || !looks_ask(l, dirfd, v + done, some)))
			l = looks_free(l);
		for (size_t i = 0; i < some; i++) {
			struct engine_unit_name *u = &v[done + i];

			if (l)
				errors[done + i] = l->errors[i];
			else if (*cancelled)
				errors[done + i] = -ECANCELED;
			else
				errors[done + i] = fd_identity(dirfd, u->name, &u->id);
			if (l && l->errors[i] == 0)
				u->id = identity_of(&l->answers[i]);
		}
	}
	looks_free(l);
}
