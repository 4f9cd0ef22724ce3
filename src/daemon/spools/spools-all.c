/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "spool-one.h"
#include "base/macros.h"

struct spools {
	struct spool_common common;
	struct spool **v;
	size_t n;
	int mounts_fd;
	sd_event_source *mounts;
	char *state_dir;
};

static int mounts_changed(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct spools *s = userdata;

	(void)source;
	(void)fd;
	(void)revents;
	for (size_t i = 0; i < s->n; i++)
		spool_check(s->v[i]);
	return 0;
}

static int spools_begin(struct spools *s)
{
	int r;

	s->mounts_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (s->mounts_fd < 0)
		return -errno;
	/* The kernel says EPOLLPRI once for each change since the last time it was asked. */
	r = sd_event_add_io(s->common.event, &s->mounts, s->mounts_fd, EPOLLPRI, mounts_changed, s);
	if (r >= 0)
		r = sd_event_source_set_description(s->mounts, "spools-mounts");
	return r < 0 ? r : 0;
}

int spools_new(struct spools **ret, sd_event *event, const struct spools_options *o)
{
	struct spools *s = calloc(1, sizeof(*s));
	int r = 0;

	if (!s)
		return -ENOMEM;
	s->mounts_fd = -1;
	s->common.event = sd_event_ref(event);
	s->common.options = *o;
	if (o->state_dir) {
		s->state_dir = strdup(o->state_dir);
		if (!s->state_dir)
			r = -ENOMEM;
	}
	if (r >= 0)
		r = spools_begin(s);
	if (r < 0) {
		spools_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static void protect_forget(struct spools *s)
{
	for (char **p = s->common.protect; p && *p; p++)
		free(*p);
	free(s->common.protect);
	s->common.protect = NULL;
}

struct spools *spools_free(struct spools *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->n; i++)
		spool_free(s->v[i]);
	free(s->v);
	sd_event_source_disable_unref(s->mounts);
	fd_closep(&s->mounts_fd);
	protect_forget(s);
	free(s->state_dir);
	sd_event_unref(s->common.event);
	free(s);
	return NULL;
}

static int protect_set(struct spools *s, char *const *protect)
{
	size_t n = 0, k = 0;

	while (protect && protect[n])
		n++;
	protect_forget(s);
	s->common.protect = calloc(n + 2, sizeof(char *));
	if (!s->common.protect)
		return -ENOMEM;
	for (; k < n; k++) {
		s->common.protect[k] = strdup(protect[k]);
		if (!s->common.protect[k])
			return -ENOMEM;
	}
	if (!s->state_dir)
		return 0;
	s->common.protect[k] = strdup(s->state_dir);
	return s->common.protect[k] ? 0 : -ENOMEM;
}

/* Takes the spool of this path out of an array, or makes one. */
static int spool_find(struct spools *s, struct spool **old, size_t n_old, const char *path,
		      struct spool **ret)
{
	for (size_t i = 0; i < n_old; i++)
		if (old[i] && strcmp(spool_path(old[i]), path) == 0) {
			*ret = old[i];
			old[i] = NULL;
			return 0;
		}
	return spool_new(ret, &s->common, path);
}

int spools_configure(struct spools *s, const struct config_spool *v, size_t n, char *const *protect)
{
	struct spool **fresh = calloc(n + 1, sizeof(struct spool *)), **old = s->v;
	size_t n_old = s->n;
	int r = fresh ? protect_set(s, protect) : -ENOMEM;

	if (r < 0) {
		free(fresh);
		return r;
	}
	s->v = fresh;
	s->n = 0;
	for (size_t i = 0; i < n && r >= 0; i++) {
		r = spool_find(s, old, n_old, v[i].path, &s->v[s->n]);
		if (r >= 0)
			spool_configure(s->v[s->n++], v[i].settle_usec, v[i].undo_usec);
	}
	for (size_t i = 0; i < n_old; i++)
		spool_free(old[i]);
	free(old);
	return r;
}

void spools_taken(struct spools *s, uint64_t batch, enum spool_outcome outcome)
{
	for (size_t i = 0; i < s->n; i++)
		if (spool_answer(s->v[i], batch, outcome))
			return;
}

void spools_retry(struct spools *s)
{
	for (size_t i = 0; i < s->n; i++)
		spool_retry(s->v[i]);
}

size_t spools_count(const struct spools *s)
{
	return s->n;
}

void spools_snapshot(const struct spools *s, size_t i, struct spool_view *ret)
{
	spool_view(s->v[i], ret);
}
