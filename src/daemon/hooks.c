/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hooks.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "config/config.h"
#include "daemon/api/dbus/bus.h"
#include "daemon/context/context.h"
#include "daemon/context/log.h"
#include "policy/policy.h"

#define DIRECTORY "jobs"
/* A hook reads its file soon; of more jobs that have ended, the oldest are forgotten. */
#define FILES_MOST 256
#define SPOOL_ORIGIN "spool:"

struct hooks {
	struct context *context;
	struct bus *bus;
	struct listener listener;
};

/* ---- what it is told --------------------------------------------------------------------------
 */

static int64_t mtime_of(const struct stat *st)
{
	return st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec;
}

/* One goes at most for each that comes, and so they do not become more. By their times, as numbers
 * begin anew with a new job store. */
static void forget_oldest(int dirfd, const char *newest)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int64_t oldest = INT64_MAX;
	char name[NAME_MAX + 1] = "";
	const struct dirent *e;
	struct stat st;
	size_t n = 0;

	if (!d) {
		fd_closep(&fd);
		return;
	}
	while ((e = readdir(d))) {
		/* What is no file of ours could not be unlinked, or is not ours to be. */
		if (e->d_name[0] == '.' ||
		    fstatat(dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		n++;
		if (mtime_of(&st) < oldest && strcmp(e->d_name, newest) != 0) {
			oldest = mtime_of(&st);
			(void)snprintf(name, sizeof(name), "%s", e->d_name);
		}
	}
	(void)closedir(d);
	if (n > FILES_MOST)
		(void)unlinkat(dirfd, name, 0);
}

static void environment_print(FILE *f, const struct job_record *r)
{
	const char *policy = policy_of_origin(r->origin);

	(void)fprintf(f, "RECLAIMD_JOB=%" PRIu64 "\nRECLAIMD_RESULT=%s\n", r->id,
		      job_state_name(r->state));
	/* Its name is letters, digits, - and _ (config-schema.c). */
	if (policy)
		(void)fprintf(f, "RECLAIMD_POLICY=%s\n", policy);
	(void)fprintf(f,
		      "RECLAIMD_UID=%u\nRECLAIMD_NAMES=%" PRIu64 "\nRECLAIMD_ENTRIES=%" PRIu64
		      "\nRECLAIMD_BYTES=%" PRIu64 "\nRECLAIMD_ERRORS=%" PRIu64
		      "\nRECLAIMD_SKIPPED=%" PRIu64 "\n",
		      (unsigned)r->uid, r->names, r->entries_done, r->bytes_freed, r->errors,
		      r->skipped);
}

/* Returns 0 or a negative errno. */
static int environment_write(const char *runtime_dir, const struct job_record *r)
{
	_cleanup_close_ int dirfd = -1, fd = -1;
	char path[PATH_MAX], name[32];
	bool failed;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/" DIRECTORY, runtime_dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	dirfd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dirfd < 0)
		return -errno;
	(void)snprintf(name, sizeof(name), "%" PRIu64 ".env", r->id);
	fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f)
		return -errno;
	(void)fd_take(&fd);
	environment_print(f, r);
	failed = ferror(f) != 0;
	if (fclose(f) != 0 || failed)
		return -EIO;
	forget_oldest(dirfd, name);
	return 0;
}

/* ---- starting ---------------------------------------------------------------------------------
 */

static const struct config_hooks *hooks_of(const struct config *c, const char *origin)
{
	const char *policy = policy_of_origin(origin);
	bool is_spool = strncmp(origin, SPOOL_ORIGIN, strlen(SPOOL_ORIGIN)) == 0;

	for (size_t i = 0; policy && i < c->n_policies; i++)
		if (strcmp(c->policies[i].name, policy) == 0)
			return &c->policies[i].hooks;
	for (size_t i = 0; is_spool && i < c->n_spools; i++)
		if (strcmp(c->spools[i].path, origin + strlen(SPOOL_ORIGIN)) == 0)
			return &c->spools[i].hooks;
	return NULL;
}

/* What was taken back has neither succeeded nor failed. */
static const char *unit_of(const struct config_hooks *h, enum job_state s)
{
	if (!h)
		return NULL;
	return s == JOB_DONE                         ? h->on_success
	       : s == JOB_PARTIAL || s == JOB_FAILED ? h->on_failure
						     : NULL;
}

static void on_finished(const struct job_record *r, void *userdata)
{
	struct hooks *h = userdata;
	const char *unit = unit_of(hooks_of(h->context->config, r->origin), r->state);
	const char *at = unit ? strchr(unit, '@') : NULL;
	char instance[256];
	int len, error;

	if (!unit)
		return;
	if (at && at[1] == '.') {
		len = snprintf(instance, sizeof(instance), "%.*s@%" PRIu64 "%s", (int)(at - unit),
			       unit, r->id, at + 1);
		assert(len > 0 && (size_t)len < sizeof(instance));
		unit = instance;
	}
	error = environment_write(h->context->o.runtime_dir, r);
	if (error < 0)
		log_job(LOG_ERR, SD_ID128_NULL, r,
			"Job %" PRIu64
			": its hook %s is not started, as what became of the job could "
			"not be written to %s/" DIRECTORY ": %s",
			r->id, unit, h->context->o.runtime_dir, strerror(-error));
	else
		bus_start_unit(h->bus, unit, r);
}

int hooks_new(struct hooks **ret, struct context *c, struct bus *bus)
{
	struct hooks *h = malloc(sizeof(*h));

	if (!h)
		return -ENOMEM;
	*h = (struct hooks){ .context = c,
			     .bus = bus,
			     .listener = { .job_finished = on_finished, .userdata = h } };
	listener_add(c, &h->listener);
	*ret = h;
	return 0;
}

struct hooks *hooks_free(struct hooks *h)
{
	if (!h)
		return NULL;
	listener_remove(h->context, &h->listener);
	free(h);
	return NULL;
}
