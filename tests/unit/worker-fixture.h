/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Real worker processes, asked one thing at a time: each call waits for its answer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "daemon/workers/worker-handle.h"
#include "support.h"

#define NOBODY 65534
#define SEEN_MOST 4096

/* What the last request was answered. */
struct seen {
	bool dir_came; /* with STAGED */
	bool answered;
	int r;
	char name[64], text[1024]; /* of a failure */
	struct intake_validated validated;
	struct lasting_identity id, dir_id, ids[SEEN_MOST];
	char dir[4096];
	char names[SEEN_MOST][32];
	uint64_t dirs, entries, ranges, staged, unstaged;
	int range_error;
	int fd;
	struct run_result result;
	unsigned problems, kept;
	uint64_t kept_seq;
	int kept_error;
	char problem[4096], strategy[128];
	bool gone;
	char how[128];
};

struct fixture {
	char dir[64]; /* scratch, owned by the submitter */
	sd_event *event;
	struct credentials who;
	struct worker *worker;
	struct seen seen;
	bool wants_no_dir; /* of fixture_stage */
};

/* Uid 0, or one that has nothing. */
void fixture_setup(struct fixture *f, uid_t uid);
void fixture_teardown(struct fixture *f);

/* A worker that is the fixture's; landlock_fd >= 0: one that deletes. */
void fixture_start(struct fixture *f, int landlock_fd);
void fixture_start_program(struct fixture *f, const char *program, int landlock_fd);
void fixture_stop(struct fixture *f);

/* Turns the loop until the request is answered, or the worker is gone. */
void fixture_wait(struct fixture *f);
void fixture_wait_gone(struct fixture *f);

/* Each returns what was answered. */
int fixture_look(struct fixture *f, const struct intake_group *groups, size_t n);
int fixture_look_names(struct fixture *f, const char *dir, const char *names, bool list);
int fixture_look_path(struct fixture *f, const char *path);
/* As begun: the answer comes later. */
void fixture_stage_begin(struct fixture *f, int staging_fd, const char *name);
int fixture_stage(struct fixture *f, int staging_fd, const char *name);
void fixture_run_begin(struct fixture *f, int dirfd, const struct run_item *items, size_t n);
int fixture_run(struct fixture *f, int dirfd, const struct run_item *items, size_t n);

/* Opens a directory beneath the scratch one; "" is itself. */
int fixture_open(const struct fixture *f, const char *name);
/* Makes one that the submitter owns. */
int fixture_mkdir(const struct fixture *f, const char *name, mode_t mode);
/* Is it there? */
bool fixture_has(const struct fixture *f, const char *name);

/* The worker that has stopped at its gate. */
pid_t fixture_gate_wait(void);

/* run_case in a mount namespace of its own, as root or not at all. Each test has a fixture of
 * the user nobody in f, with an intake worker. */
int fixture_run_case(const char *name, struct fixture *f, const TTest *const *tests, size_t n);

void fixture_opened(int r, int fd, void *userdata);
void fixture_done(int r, void *userdata);
