/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "arguments.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/config.h"
#include "ctl/output/messages.h"
#include "base/fd.h"

/* A list of names larger than this is a mistake, not a list. */
#define LIST_MAX ((size_t)8 << 30)

void arguments_done(struct arguments *a)
{
	roots_done(&a->roots);
	protect_free(a->protect);
	*a = (struct arguments){ 0 };
}

/* Resolves the built-in list and, if paths is not NULL, these. Returns 0, or EXIT_FAILED after
 * having said why that cannot be done. */
static int protect_make(struct protect **ret, const char *const *paths, const char *nothing)
{
	_cleanup_free_ char *culprit = NULL;
	int r = protect_new(ret, paths, &culprit);

	if (r >= 0)
		return 0;
	complain(culprit ? culprit : "protected paths",
		 "cannot be resolved (%s), so what is protected is not known; %s", strerror(-r),
		 nothing);
	return EXIT_FAILED;
}

static void error_tell(const struct config_error *e, void *userdata)
{
	(void)userdata;
	if (!e->is_warning)
		config_error_print(e);
}

int protected_load(struct protect **ret, const struct options *o, const char *nothing)
{
	const char *dir = o->configuration_dir;
	struct config *c = NULL;
	/* Without /etc/reclaimd nothing is configured; one that was asked for must be there. */
	int r = dir && access(dir, R_OK | X_OK) < 0
			? -errno
			: config_load(&c, dir ? NULL : CONFIG_VENDOR_DIR, dir ? dir : CONFIG_DIR,
				      error_tell, NULL);

	if (r >= 0) {
		assert(c);
		r = protect_make(ret, (const char *const *)c->protect, nothing);
		config_free(c);
		return r;
	}
	complain(dir ? dir : CONFIG_DIR,
		 "the configuration %s%s, so what it protects is not known; %s",
		 r == -EBADMSG ? "has errors" : "cannot be read: ",
		 r == -EBADMSG ? "" : strerror(-r), nothing);
	return EXIT_FAILED;
}

static void on_refused(const char *path, const char *why, int error, void *userdata)
{
	struct arguments *a = userdata;

	complain(path[0] ? path : "''", "%s", why);
	if (error == -ENOENT)
		a->absent++;
	else
		a->refused++;
}

static int list_read(struct arguments *a, const struct options *o, const char *nothing)
{
	_cleanup_free_ char *data = NULL, *bad = NULL;
	const char *file = o->files_from, *why = NULL;
	ssize_t len = fd_read_file(strcmp(file, "-") == 0 ? "/dev/stdin" : file, LIST_MAX, &data);
	int r;

	if (len < 0) {
		complain(file, "the list cannot be read: %s", strerror((int)-len));
		return EXIT_FAILED;
	}
	r = roots_add_list(&a->roots, data, (size_t)len, o->null ? '\0' : '\n', &bad, &why);
	if (r < 0) {
		complain(bad ? bad : file, "%s; %s", why, nothing);
		return EXIT_FAILED;
	}
	return 0;
}

/* Lists may name thousands of directories, and each lane keeps some open. What may be had costs
 * nothing; what may not is done without (see roots.h). */
static void descriptors_raise(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0 || rl.rlim_cur >= rl.rlim_max)
		return;
	rl.rlim_cur = MIN(rl.rlim_max, (rlim_t)65536);
	(void)setrlimit(RLIMIT_NOFILE, &rl);
}

int arguments_take(struct arguments *a, const struct options *o, const char *nothing)
{
	int r;

	descriptors_raise();
	r = a->protect ? 0 : protect_make(&a->protect, NULL, nothing);
	if (r)
		return r;
	for (size_t i = 0; i < o->n_paths; i++) {
		const char *why = NULL;

		if (roots_add(&a->roots, o->paths[i], true, &why) < 0)
			on_refused(o->paths[i], why, -EINVAL, a);
	}
	r = o->files_from ? list_read(a, o, nothing) : 0;
	if (r)
		return r;
	r = roots_resolve(&a->roots, a->protect, on_refused, a);
	if (r < 0) {
		complain("paths", "cannot be checked: %s; %s", strerror(-r), nothing);
		return EXIT_FAILED;
	}
	return a->refused > 0 ? EXIT_FAILED : 0;
}
