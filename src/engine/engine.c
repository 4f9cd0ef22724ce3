/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "engine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "engine/tune/lanes.h"
#include "engine/core/engine-job.h"
#include "engine/guard/roots.h"
#include "engine/guard/still-inside.h"
#include "moosefs/moosefs-slices.h"
#include "engine/walk/node.h"
#include "engine/remove/queue.h"
#include "base/mounts.h"

/* Directory chunks beyond the lanes' own 64 KiB: together with the lanes and the program itself
 * this stays under 32 MiB however large a directory is. */
#define MEMORY_DEFAULT MiB(12)

/* Descriptors that are not for walking: standard streams, roots, rings, the spill's file. */
#define FDS_RESERVED 12

/* A lane with fewer works, but climbs out of deep trees slowly. */
#define FDS_LEAST 10
/* What a lane should have: where there are not so many, there are fewer lanes. */
#define FDS_LANE 40
/* And what it gets if there are more: hardly any tree is deeper, so hardly a directory has to be
 * opened twice, and looked at each time. */
#define FDS_MOST 64

struct engine {
	struct engine_job job;
	struct lanes *lanes;
	uint64_t elapsed_usec, space_bytes;
	int fd; /* on the filesystem */
};

/* Finds the profile of the filesystem that fd is on. What its mount says may be beyond reach. */
static void profile_of_fd(struct fs_profile *ret, const struct mounts *mounts, int fd,
			  uint32_t f_type)
{
	const struct mount *m = NULL;
	struct mounts own = { 0 };
	struct identity id;

	if (fd_identity(fd, "", &id) >= 0 &&
	    (mounts || mounts_read(&own, "/proc/self/mountinfo") >= 0))
		m = mounts_by_id(mounts ? mounts : &own, id.mnt_id);
	profile_find(f_type, m, ret);
	mounts_done(&own);
}

/* Divides the descriptors this process may have among lanes: fewer lanes where there are few. */
static int fds_divide(struct engine_job *j)
{
	struct rlimit rl;
	rlim_t left;
	unsigned lanes = j->o.lanes ? j->o.lanes : j->profile.lanes_max;

	assert(lanes > 0);
	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return -errno;
	/* A third is for the directories of roots (see roots.c). */
	left = rl.rlim_cur - rl.rlim_cur / 3;
	if (left < FDS_RESERVED + FDS_LEAST)
		return -EMFILE;
	left -= FDS_RESERVED;
	/* Twice, because what a lane shares with others stays open in nodes. */
	lanes = (unsigned)MIN((rlim_t)lanes, MAX(left / (2 * FDS_LANE), (rlim_t)1));
	j->profile.lanes_max = MIN(j->profile.lanes_max, lanes);
	if (j->o.lanes)
		j->o.lanes = lanes;
	j->nodes_max = (unsigned)MIN((left - (rlim_t)lanes * FDS_LEAST) / 2, (rlim_t)65536);
	j->fds_per_lane = (unsigned)CLAMP(left / lanes, (rlim_t)FDS_LEAST, (rlim_t)FDS_LANE);
	j->fds_per_lane = MAX(j->fds_per_lane,
			      (unsigned)MIN((left - j->nodes_max) / lanes, (rlim_t)FDS_MOST));
	return 0;
}

int engine_new(struct engine **ret, const struct engine_options *options, int fd)
{
	struct engine *e;
	struct statfs sfs;
	struct stat st;
	int r;

	if (fstatfs(fd, &sfs) < 0 || fstat(fd, &st) < 0)
		return -errno;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	e->job.o = *options;
	e->job.dev = st.st_dev;
	pthread_mutex_init(&e->job.report_lock, NULL);
	pthread_mutex_init(&e->job.links_lock, NULL);
	profile_of_fd(&e->job.profile, options->mounts, fd, (uint32_t)sfs.f_type);
	/* On servers a look at each entry is a round trip more, and nothing is shrunk there:
	 * nothing is weighed, except to say in advance what there is. */
	if (e->job.profile.server && !options->dry)
		e->job.o.weigh = false;
	/* A ring's workers are other threads than those that list. */
	if (e->job.profile.same_thread && !options->fixed_backend) {
		e->job.o.fixed_backend = true;
		e->job.o.backend = BACKEND_THREADS;
	}
	atomic_init(&e->job.allowance,
		    options->memory_bytes ? options->memory_bytes : MEMORY_DEFAULT);
	/* Elsewhere a look costs less than to ask whether another lane has had one. */
	if (e->job.profile.server)
		e->job.look = tree_look_new();
	r = fds_divide(&e->job);
	if (r >= 0 && e->job.o.fixed_backend && e->job.o.backend == BACKEND_URING &&
	    !queue_ring_usable())
		r = -EOPNOTSUPP;
	if (r >= 0)
		r = lanes_new(&e->lanes, &e->job);
	if (r < 0) {
		engine_free(e);
		return r;
	}
	*ret = e;
	return 0;
}

struct engine *engine_free(struct engine *e)
{
	if (!e)
		return NULL;
	atomic_store(&e->job.cancelled, true);
	lanes_free(e->lanes);
	tree_look_free(e->job.look);
	pthread_mutex_destroy(&e->job.report_lock);
	pthread_mutex_destroy(&e->job.links_lock);
	fd_closep(&e->fd);
	free(e);
	return NULL;
}

void engine_pace(struct engine *e, const struct pace *pace)
{
	/* A dry run changes nothing, and reads as a find does. */
	e->job.pace = e->job.o.dry ? NULL : pace;
}

const struct fs_profile *engine_profile(const struct engine *e)
{
	return &e->job.profile;
}

int engine_add(struct engine *e, struct root_group *g)
{
	struct task *t = calloc(1, sizeof(*t));
	struct dirlist *l = malloc(sizeof(*l));
	struct node *n = node_new(NULL, -1, "", 0);

	if (!t || !l || !n) {
		free(t);
		free(l);
		free(n);
		return -ENOMEM;
	}
	assert(g->slice.slices == 0 || (g->within && g->names.n == 0));
	/* The pin's number is kept where a listed entry has its inode number. */
	for (size_t i = 0; g->pins && i < g->names.n; i++)
		g->names.v[i].ino = i + 1;
	n->group = g;
	e->job.is_unit = g->within;
	*l = g->names;
	g->names = (struct dirlist){ 0 };
	t->node = n;
	t->roots = l;
	t->pins = g->pins;
	tasks_add(e->job.tasks, t);
	return 0;
}

static uint64_t space_free(const struct engine *e)
{
	struct statfs sfs;

	return fstatfs(e->fd, &sfs) < 0 ? 0 : (uint64_t)sfs.f_bfree * (uint64_t)sfs.f_bsize;
}

/* What a server can remove by itself goes first. */
static void slices(struct engine *e)
{
	struct engine_job *j = &e->job;

	if (j->o.rmdir) {
		j->unsliced = "what is not empty has to stay";
		return;
	}
	if (j->tasks->first && j->tasks->first->node->group->within) {
		j->unsliced = "it is one of several hosts that work in the tree";
		return;
	}
	if (!j->o.moosefs || j->o.stall_usec == 0 || j->o.dry || j->o.listed) {
		j->unsliced = "the mount cannot be spoken to";
		return;
	}
	for (struct task *t = j->tasks->first; t && !job_cancelled(j); t = t->next)
		moosefs_slices(j, t->node->group, t->roots, t->pins);
}

int engine_run(struct engine *e)
{
	uint64_t before = space_free(e), after;
	int r;

	e->job.began_usec = e->job.reported_usec = now_usec();
	slices(e);
	r = lanes_run(e->lanes);
	e->elapsed_usec = now_usec() - e->job.began_usec;
	after = space_free(e);
	e->space_bytes = after > before ? after - before : 0;
	return r;
}

void engine_cancel(struct engine *e)
{
	atomic_store(&e->job.cancelled, true);
}

void engine_until(struct engine *e, uint64_t usec)
{
	atomic_store(&e->job.until_usec, usec);
}

bool engine_cancelled(const struct engine *e)
{
	return atomic_load(&e->job.cancelled);
}

void engine_demand(struct engine *e, unsigned units)
{
	const struct engine_options *o = &e->job.o;

	if (o->give && !o->dry && !o->rmdir)
		atomic_store(&e->job.demand, units);
}

void engine_result(const struct engine *e, struct engine_progress *ret)
{
	struct setting now = tasks_setting(e->job.tasks);

	*ret = (struct engine_progress){ .weighed = e->job.o.weigh,
					 .elapsed_usec = e->elapsed_usec,
					 .space_bytes = e->space_bytes,
					 .backend = now.backend,
					 .lanes = now.lanes };
	job_stats(&e->job, &ret->stats);
}

/* What became of large files, and why. */
static void large_files(const struct engine_job *j, char *buf, size_t len)
{
	const struct stats *s = &j->stats;
	int n = 0;

	buf[0] = '\0';
	if (s->shrunk > 0)
		n = snprintf(buf, len, "; %" PRIu64 " large freed in steps", s->shrunk);
	if (s->whole > 0)
		(void)snprintf(buf + n, len - (size_t)n, "; %" PRIu64 " large unlinked whole: %s",
			       s->whole,
			       j->o.last_reference ? "in use or referred to elsewhere"
						   : "other references cannot be ruled out");
}

char *engine_strategy(const struct engine *e, char *buf, size_t len)
{
	const struct fs_profile *w = &e->job.profile;
	struct setting set = tasks_setting(e->job.tasks);
	static const char *const orders[] = {
		[ORDER_LISTED] = "",
		[ORDER_ASCENDING] = ", inode order",
		[ORDER_DESCENDING] = ", descending inode order",
	};
	char sliced[128] = "", large[128];

	if (e->job.o.stall_usec > 0 && strcmp(w->family, "moosefs") == 0)
		(void)snprintf(sliced, sizeof(sliced), "%" PRIu64 " by snapshot%s%s%s, ",
			       e->job.stats.sliced, e->job.unsliced ? " (others: " : "",
			       e->job.unsliced ? e->job.unsliced : "", e->job.unsliced ? ")" : "");
	large_files(&e->job, large, sizeof(large));
	(void)snprintf(buf, len, "%s: %s%s, %u lane%s%s%s", w->family, sliced,
		       backend_name(set.backend), set.lanes, set.lanes == 1 ? "" : "s",
		       w->by_place && e->job.o.weigh
			       ? ", ascending order of blocks in each directory"
		       : w->ascending ? ", ascending inode order throughout"
				      : orders[w->sort],
		       large);
	return buf;
}
