/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "context.h"

#include <assert.h>
#include <time.h>

#include "base/fd.h"
#include "base/gate.h"
#include "base/macros.h"

void context_flow_begins(struct context *c)
{
	c->flows++;
}

void context_flow_ends(struct context *c)
{
	assert(c->flows > 0);
	if (--c->flows == 0 && c->stopping && !c->ended)
		(void)sd_event_exit(c->event, 0);
}

const struct mounts *context_mounts(struct context *c)
{
	struct mounts mounts;

	if (c->mounts.n > 0)
		return &c->mounts;
	if (mounts_read(&mounts, "/proc/self/mountinfo") < 0)
		return NULL;
	for (size_t i = 0; i < mounts.n; i++)
		(void)mounts_unescape((char *)mounts.v[i].target);
	c->mounts = mounts;
	return &c->mounts;
}

bool context_is_mounted(struct context *c, int fd)
{
	const struct mounts *mounts = context_mounts(c);
	struct identity id;

	return !mounts || fd_whereabouts(fd, "", 0, &id) < 0 || mounts_by_id(mounts, id.mnt_id);
}

void context_mounts_changed(struct context *c)
{
	mounts_done(&c->mounts);
	c->mounts = (struct mounts){ 0 };
}

uint64_t context_clock(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000 +
	       (uint64_t)gate_clock_usec();
}

int64_t context_clock_offset(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)context_clock() -
	       (int64_t)((uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000);
}

void listener_add(struct context *c, struct listener *l)
{
	l->next = c->listeners;
	c->listeners = l;
}

void listener_remove(struct context *c, struct listener *l)
{
	for (struct listener **at = &c->listeners; *at; at = &(*at)->next) {
		if (*at == l) {
			*at = l->next;
			return;
		}
	}
}

void tell_job_new(struct context *c, const struct job_record *r)
{
	for (const struct listener *l = c->listeners; l; l = l->next)
		if (l->job_new)
			l->job_new(r, l->userdata);
}

void tell_job_changed(struct context *c, const struct job_record *r)
{
	for (const struct listener *l = c->listeners; l; l = l->next)
		if (l->job_changed)
			l->job_changed(r, l->userdata);
}

void tell_job_finished(struct context *c, const struct job_record *r)
{
	for (const struct listener *l = c->listeners; l; l = l->next)
		if (l->job_finished)
			l->job_finished(r, l->userdata);
}

void tell_name_returns(struct context *c, const struct job_record *r,
		       const struct lasting_identity *id, bool kept)
{
	for (const struct listener *l = c->listeners; l; l = l->next)
		if (l->name_returns)
			l->name_returns(r, id, kept, l->userdata);
}

void tell_daemon_changed(struct context *c, const char *property)
{
	for (const struct listener *l = c->listeners; l; l = l->next)
		if (l->daemon_changed)
			l->daemon_changed(property, l->userdata);
}
