/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which files there are, and their way into one struct:
 *
 *   each file --yaml-tree--> tree --schema-read--> checked, and put over the trees before
 *   all of them together      --schema-read--> struct config --config-rules--> checked
 *
 * A file is checked by itself first, so that an error is told even if a later file replaces the
 * value. */
#include "config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config-problems.h"
#include "config-schema.h"
#include "yaml-tree.h"
#include "base/array.h"
#include "base/fd.h"

#define FILE_MOST MiB(1)

struct config_loading {
	struct config *c;
	const struct config_key *keys;
	struct yaml_node root; /* all files so far */
	size_t n_files;
	struct problems p;
	config_complain_t complain;
	void *userdata;
};

static void strings_free(char **v)
{
	for (char **s = v; s && *s; s++)
		free(*s);
	free(v);
}

static void hooks_free(struct config_hooks *h)
{
	free(h->on_success);
	free(h->on_failure);
}

struct config *config_free(struct config *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n_spools; i++) {
		free(c->spools[i].path);
		hooks_free(&c->spools[i].hooks);
	}
	for (size_t i = 0; i < c->n_devices; i++)
		free(c->devices[i].name);
	for (size_t i = 0; i < c->n_policies; i++) {
		struct config_policy *p = &c->policies[i];

		free(p->name);
		free(p->schedule);
		hooks_free(&p->hooks);
		free(p->rules.path);
		strings_free(p->rules.paths);
		free(p->rules.group_by);
		free(p->rules.unit_by);
		free(p->rules.timezone);
		strings_free(p->rules.chain_start);
		free(p->rules.time.format);
		strings_free(p->rules.match);
		strings_free(p->rules.exclude);
		strings_free(p->rules.owners);
	}
	for (size_t i = 0; i < c->n_windows; i++)
		free(c->windows[i].span);
	for (size_t i = 0; i < c->n_fleet_filesystems; i++) {
		free(c->fleet_filesystems[i].path);
		free(c->fleet_filesystems[i].name);
	}
	free(c->trim_schedule);
	for (size_t i = 0; i < c->n_trims; i++) {
		free(c->trims[i].mount);
		free(c->trims[i].schedule);
	}
	free(c->trims);
	free(c->fleet_database);
	free(c->fleet_name);
	free(c->fleet_uid_space);
	free(c->fleet_filesystems);
	free(c->spools);
	free(c->devices);
	free(c->windows);
	free(c->policies);
	strings_free(c->protect);
	strings_free(c->files);
	free(c);
	return NULL;
}

const struct config_trim_limits *config_trims(const struct config *c, const char *mount)
{
	for (size_t i = 0; i < c->n_trims; i++)
		if (strcmp(c->trims[i].mount, mount) == 0)
			return &c->trims[i].limits;
	return c->n_trims == 0 ? &c->trim_limits : NULL;
}

bool config_trims_together(const struct config *c)
{
	size_t i = 0;

	while (i < c->n_trims && config_trim_is_apart(&c->trims[i]))
		i++;
	return c->trim_schedule && (c->n_trims == 0 || i < c->n_trims);
}

int config_path_escape(char *buf, size_t size, const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789:_.";
	char *at = buf, escaped[8];

	path += path[0] == '/';
	if (!*path)
		*at++ = '-';
	for (const char *s = path; *s; s++) {
		/* Leaves room for the longest escape and the NUL. */
		if (at + strlen("\\x00") >= buf + size)
			return -ENAMETOOLONG;
		if (*s == '/')
			*at++ = '-';
		else if (strchr(plain, *s) && !(*s == '.' && s == path))
			*at++ = *s;
		else
			at = mempcpy(at, escaped,
				     (size_t)snprintf(escaped, sizeof(escaped), "\\x%02x",
						      (unsigned)(unsigned char)*s));
	}
	*at = '\0';
	return 0;
}

int config_trim_timer(char buf[static CONFIG_TRIM_TIMER_MOST], const char *mount)
{
	char name[CONFIG_PATH_ESCAPED];
	int r = config_path_escape(name, sizeof(name), mount);

	if (r < 0)
		return r;
	(void)snprintf(buf, CONFIG_TRIM_TIMER_MOST, "reclaimd-trim-scheduled@%s.timer", name);
	return 0;
}

int config_fleet_name(const struct config *c, char buf[static FLEET_NAME_SIZE])
{
	char host[HOST_NAME_MAX + 1];

	if (c->fleet_name) {
		fleet_name_copy(buf, c->fleet_name);
		return 0;
	}
	if (gethostname(host, sizeof(host)) < 0)
		return -errno;
	host[strcspn(host, ".")] = '\0';
	for (char *s = host; *s; s++)
		*s = (char)tolower((unsigned char)*s);
	if (!fleet_name_is_valid(host))
		return -EINVAL;
	fleet_name_copy(buf, host);
	return 0;
}

const char *config_fleet_uid_space(const struct config *c)
{
	return c->fleet_uid_space ? c->fleet_uid_space : "default";
}

int config_protect_own(struct config *c, const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	char *own = NULL;
	size_t n = 0;

	if (!real)
		return -errno;
	while (c->protect[n])
		n++;
	if (asprintf(&own, "/%s", real) < 0)
		own = NULL;
	return strings_add(&c->protect, &n, own);
}

static int config_new(struct config **ret)
{
	struct config *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->files = calloc(1, sizeof(c->files[0]));
	c->protect = calloc(1, sizeof(c->protect[0]));
	if (!c->files || !c->protect) {
		config_free(c);
		return -ENOMEM;
	}
	schema_defaults(c);
	*ret = c;
	return 0;
}

/* Returns a descriptor or a negative errno. A FIFO does not block it. */
static int text_open(int dirfd, const char *file)
{
	int fd = openat(dirfd, file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Reads the text of what text_open has returned. Returns its length, or a negative errno with
 * *ret_why, in words. */
static ssize_t text_read(int fd, char **ret, const char **ret_why)
{
	struct stat st;
	ssize_t n;

	/* A device may never end. */
	if (fd < 0)
		n = fd == -ENXIO ? -EISDIR : fd;
	else if (fstat(fd, &st) < 0)
		n = -errno;
	else if (!S_ISREG(st.st_mode))
		n = -EISDIR;
	else
		n = fd_read_all(fd, FILE_MOST, ret);
	if (n == -EISDIR)
		*ret_why = "is not a regular file, expected one";
	else if (n == -EFBIG)
		*ret_why = "is too large, expected less than 1 MiB";
	else if (n < 0)
		*ret_why = strerror((int)-n);
	return n;
}

/* Reads one tree, checks it by a configuration that is thrown away, and puts it over the others. */
static int tree_read(struct config_loading *l, const char *file, const char *text, size_t len)
{
	_cleanup_(node_done) struct yaml_node root = { 0 };
	struct config *trial = NULL;
	int r = node_parse(&root, file, text, len, &l->p);

	if (r >= 0)
		r = config_new(&trial);
	if (r >= 0)
		schema_read(trial, l->keys, &root, &l->p);
	if (r >= 0 && !l->p.found)
		r = node_merge(&l->root, &root);
	config_free(trial);
	return r == -EBADMSG ? 0 : r;
}

/* Reads a file, as text_open has returned it, over what is there. What is wrong with it is told at
 * once; that is no failure. Takes the name over. */
static int load_opened(struct config_loading *l, int fd, char *name, bool must_exist)
{
	_cleanup_free_ char *text = NULL;
	const char *why = NULL;
	ssize_t len = text_read(fd, &text, &why);
	int r;

	if (len == -ENOENT && !must_exist) {
		free(name);
		return 0;
	}
	r = strings_add(&l->c->files, &l->n_files, name);
	if (r < 0)
		return r;
	if (len < 0)
		problems_add(&l->p, (struct config_place){ .file = name }, NULL, "%s", why);
	else
		r = tree_read(l, name, text, (size_t)len);
	problems_tell(&l->p, l->complain, l->userdata);
	return r;
}

static int load_one(struct config_loading *l, char *name, bool must_exist)
{
	_cleanup_close_ int fd = name ? text_open(AT_FDCWD, name) : -ENOMEM;

	return load_opened(l, fd, name, must_exist);
}

static int is_drop_in(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return d->d_name[0] != '.' && len > 5 && strcmp(d->d_name + len - 5, ".yaml") == 0;
}

/* By bytes, whatever the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int load_in(struct config_loading *l, const char *dir, const char *file)
{
	char *name = NULL;

	if (asprintf(&name, "%s/%s", dir, file) < 0)
		name = NULL;
	return load_one(l, name, /* must_exist= */ false);
}

static int load_drop_ins(struct config_loading *l, char *dir)
{
	struct dirent **v = NULL;
	int n = scandir(dir, &v, is_drop_in, by_name), r = 0;

	if (n < 0 && errno == ENOMEM)
		return -ENOMEM;
	if (n < 0 && errno != ENOENT) {
		problems_add(&l->p, (struct config_place){ .file = dir }, NULL, "%s",
			     strerror(errno));
		problems_tell(&l->p, l->complain, l->userdata);
	}
	for (int i = 0; i < n; i++) {
		if (r >= 0)
			r = load_in(l, dir, v[i]->d_name);
		free(v[i]);
	}
	free(v);
	return r;
}

static int load_dir(struct config_loading *l, const char *dir)
{
	_cleanup_free_ char *drop_ins = NULL;
	int r;

	if (!dir)
		return 0;
	r = load_in(l, dir, "reclaimd.yaml");
	if (r >= 0 && asprintf(&drop_ins, "%s/reclaimd.d", dir) < 0) {
		drop_ins = NULL;
		r = -ENOMEM;
	}
	return r < 0 ? r : load_drop_ins(l, drop_ins);
}

/* The directory that all of them are in; NULL: out of memory. */
static char *common_dir(char *const *paths)
{
	size_t len = strlen(paths[0]);

	for (char *const *path = paths + 1; *path; path++) {
		size_t n = 0;

		while (n < len && paths[0][n] == (*path)[n])
			n++;
		/* Not in the middle of a name. */
		while (n > 0 && !((n == len || paths[0][n] == '/') &&
				  ((*path)[n] == '/' || (*path)[n] == '\0')))
			n--;
		len = n;
	}
	return len > 0 ? strndup(paths[0], len) : strdup("/");
}

static void bases_find(struct config *c, struct problems *p)
{
	for (size_t i = 0; i < c->n_policies; i++) {
		struct policy *rules = &c->policies[i].rules;

		/* With both, there is an error. */
		if (rules->path || !rules->paths)
			continue;
		rules->path = common_dir(rules->paths);
		p->out_of_memory = p->out_of_memory || !rules->path;
	}
}

/* Makes the configuration of all that was read. */
static int finish(struct config_loading *l)
{
	if (!l->p.found && !l->p.out_of_memory)
		schema_read(l->c, l->keys, &l->root, &l->p);
	bases_find(l->c, &l->p);
	if (!l->p.found && !l->p.out_of_memory)
		rules_check(l->c, &l->root, /* of_user= */ l->keys == user_keys, &l->p);
	problems_tell(&l->p, l->complain, l->userdata);
	return l->p.found ? -EBADMSG : 0;
}

/* Units that root's manager starts are for root to name. */
static void hooks_refuse(struct config_loading *l)
{
	for (size_t i = 0; i < l->c->n_policies; i++) {
		const struct config_policy *p = &l->c->policies[i];

		if (p->hooks.on_success || p->hooks.on_failure)
			problems_add(&l->p, p->place, &(struct crumb){ .key = "policies" },
				     "%s has on-success or on-failure, which only the system's "
				     "policies have: expected OnSuccess= and OnFailure= by "
				     "systemctl --user edit reclaimd-policy@%s.service",
				     p->name, p->name);
	}
	problems_tell(&l->p, l->complain, l->userdata);
}

/* Makes it of what was read with result r, and frees the rest. */
static int end(struct config_loading *l, int r, struct config **ret)
{
	if (r >= 0)
		r = finish(l);
	if (r >= 0 && l->keys == user_keys) {
		hooks_refuse(l);
		r = l->p.found ? -EBADMSG : r;
	}
	if (l->p.out_of_memory)
		r = -ENOMEM;
	if (r >= 0) {
		*ret = l->c;
		l->c = NULL;
	}
	node_done(&l->root);
	problems_done(&l->p);
	config_free(l->c);
	return r;
}

static int begin(struct config_loading *l, const struct config_key *keys,
		 config_complain_t complain, void *userdata)
{
	*l = (struct config_loading){
		.keys = keys, .root.kind = NODE_MAP, .complain = complain, .userdata = userdata
	};
	return config_new(&l->c);
}

int config_load(struct config **ret, const char *vendor_dir, const char *dir,
		config_complain_t complain, void *userdata)
{
	struct config_loading l;
	int r = begin(&l, root_keys, complain, userdata);

	if (r >= 0)
		r = load_dir(&l, vendor_dir);
	if (r >= 0)
		r = load_dir(&l, dir);
	return end(&l, r, ret);
}

int config_load_file(struct config **ret, const char *file, config_complain_t complain,
		     void *userdata)
{
	struct config_loading l;
	int r = begin(&l, root_keys, complain, userdata);

	if (r >= 0)
		r = load_one(&l, strdup(file), /* must_exist= */ true);
	return end(&l, r, ret);
}

/* ---- of a user --------------------------------------------------------------------------------
 */

int config_user_path(const char *variable, const char *otherwise, const char *name, char *buf,
		     size_t len)
{
	const char *dir = getenv(variable), *home = getenv("HOME");
	int n;

	if (dir && dir[0] == '/')
		n = snprintf(buf, len, "%s/reclaimd%s", dir, name);
	else if (home && home[0] == '/')
		n = snprintf(buf, len, "%s/%s/reclaimd%s", home, otherwise, name);
	else
		return -ENOENT;
	return n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
}

/* Who can write it decides what is deleted. What could not be opened is not read. */
static bool is_own(int fd)
{
	struct stat st;

	if (fd < 0)
		return true;
	return fstat(fd, &st) >= 0 && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* Whatever file it is. */
static int load_user_file(struct config **ret, const char *file, config_complain_t complain,
			  void *userdata)
{
	struct config_loading l;
	int r = begin(&l, user_keys, complain, userdata);

	if (r >= 0)
		r = load_one(&l, strdup(file), /* must_exist= */ true);
	return end(&l, r, ret);
}

static int load_user_own(struct config **ret, config_complain_t complain, void *userdata)
{
	static const char name[] = "/policies.yaml";
	char dir[PATH_MAX], file[PATH_MAX];
	_cleanup_close_ int dirfd = -1, fd = -1;
	struct config_loading l;
	int r = config_user_path("XDG_CONFIG_HOME", ".config", "", dir, sizeof(dir));

	if (r >= 0)
		r = config_user_path("XDG_CONFIG_HOME", ".config", name, file, sizeof(file));
	if (r < 0)
		return r;
	r = begin(&l, user_keys, complain, userdata);
	dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = dirfd < 0 ? -errno : text_open(dirfd, name + 1);
	if (r >= 0 && !(is_own(dirfd) && is_own(fd))) {
		problems_add(&l.p, (struct config_place){ .file = file }, NULL,
			     "or its directory is not yours, or other users may write to it: "
			     "expected one that is, and that only you may");
		problems_tell(&l.p, complain, userdata);
	}
	if (r >= 0 && !l.p.found)
		r = load_opened(&l, fd, strdup(file), /* must_exist= */ false);
	return end(&l, r, ret);
}

int config_load_user(struct config **ret, const char *file, config_complain_t complain,
		     void *userdata)
{
	return file ? load_user_file(ret, file, complain, userdata)
		    : load_user_own(ret, complain, userdata);
}
