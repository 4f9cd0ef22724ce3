/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fd.h"
#include "macros.h"

/* 100,000 mounts, the kernel's limit (fs.mount-max), with paths of 600 bytes. */
#define TABLE_MAX MiB(64)

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

bool mounts_unescape(char *s)
{
	char *to = strchr(s, '\\');
	bool good = true;

	if (!to)
		return true;
	for (const char *p = to; *p; to++) {
		if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && is_octal(p[2]) &&
		    is_octal(p[3])) {
			*to = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
			p += 4;
			/* No string has a NUL in it. */
			good = good && *to != '\0';
			continue;
		}
		good = good && *p != '\\';
		*to = *p++;
	}
	*to = '\0';
	return good;
}

/* A decimal number up to `end`, which is moved over. */
static int number_take(char **at, char end, uint64_t most, uint64_t *ret)
{
	uint64_t v = 0;
	char *p = *at;

	if (*p < '0' || *p > '9')
		return -EBADMSG;
	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (uint64_t)(*p - '0');
		if (v > most)
			return -EBADMSG;
	}
	if (*p != end)
		return -EBADMSG;
	*at = p + 1;
	*ret = v;
	return 0;
}

/* The field up to the next space, which becomes its end. NULL if there is no space. */
static char *field_take(char **at)
{
	char *field = *at, *space = strchr(field, ' ');

	if (!space)
		return NULL;
	*space = '\0';
	*at = space + 1;
	return field;
}

/* Skips the optional fields, of which there may be none, and the hyphen that ends them. */
static bool optional_skip(char **at)
{
	for (;;) {
		const char *field = field_take(at);

		if (!field || field[0] == '\0')
			return false;
		if (strcmp(field, "-") == 0)
			return true;
	}
}

/* One line: "36 35 98:0 /root /target rw,noatime master:1 - ext3 /dev/root rw,errors=continue". */
static int line_parse(char *line, struct mount *ret)
{
	uint64_t id, parent, major_no, minor_no;
	char *root, *target, *options, *type, *source;

	if (number_take(&line, ' ', UINT32_MAX, &id) < 0 ||
	    number_take(&line, ' ', UINT32_MAX, &parent) < 0 ||
	    number_take(&line, ':', UINT32_MAX, &major_no) < 0 ||
	    number_take(&line, ' ', UINT32_MAX, &minor_no) < 0)
		return -EBADMSG;
	root = field_take(&line);
	target = field_take(&line);
	options = field_take(&line);
	if (!root || !target || !options || !optional_skip(&line))
		return -EBADMSG;
	type = field_take(&line);
	source = field_take(&line);
	/* What the last field is, is the filesystem's own affair. */
	if (!type || !source || type[0] == '\0' || options[0] == '\0' || line[0] == '\0')
		return -EBADMSG;
	if (root[0] == '\0' || target[0] != '/' || !mounts_unescape(root) ||
	    !mounts_unescape(target))
		return -EBADMSG;
	(void)mounts_unescape(type);
	(void)mounts_unescape(source);
	*ret = (struct mount){ id,   parent, makedev((unsigned)major_no, (unsigned)minor_no),
			       root, target, options,
			       type, source, line };
	return 0;
}

static int table_parse(struct mounts *m, size_t len)
{
	size_t lines = 0;
	char *at = m->text, *end;

	/* A NUL would hide what is behind it. */
	if (strlen(m->text) != len)
		return -EBADMSG;
	for (const char *p = m->text; (p = strchr(p, '\n')); p++)
		lines++;
	if (lines == 0)
		return len == 0 ? -ENODATA : -EBADMSG;
	m->v = calloc(lines, sizeof(*m->v));
	if (!m->v)
		return -ENOMEM;
	for (; (end = strchr(at, '\n')); at = end + 1) {
		*end = '\0';
		if (line_parse(at, &m->v[m->n++]) < 0)
			return -EBADMSG;
	}
	return *at ? -EBADMSG : 0;
}

int mounts_read_fd(struct mounts *ret, int fd, size_t max)
{
	struct mounts m = { 0 };
	ssize_t len = fd_read_all(fd, max, &m.text);
	int r = len < 0 ? (int)len : table_parse(&m, (size_t)len);

	if (r < 0) {
		mounts_done(&m);
		return r;
	}
	*ret = m;
	return 0;
}

int mounts_read(struct mounts *ret, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : mounts_read_fd(ret, fd, TABLE_MAX);
}

void mounts_done(struct mounts *m)
{
	free(m->v);
	free(m->text);
	*m = (struct mounts){ 0 };
}

const struct mount *mounts_by_id(const struct mounts *m, uint64_t id)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].id == id)
			return &m->v[i];
	return NULL;
}

const struct mount *mounts_by_dev(const struct mounts *m, dev_t dev)
{
	for (size_t i = m->n; i > 0; i--)
		if (m->v[i - 1].dev == dev)
			return &m->v[i - 1];
	return NULL;
}

bool path_beneath(const char *path, const char *top)
{
	size_t len = strcmp(top, "/") == 0 ? 0 : strlen(top);

	return strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

bool path_join(char *path, size_t size, const char *name)
{
	size_t len = strlen(path), name_len = strlen(name);
	bool slash = len > 0 && path[len - 1] == '/';

	if (len + !slash + name_len >= size)
		return false;
	path[len] = '/';
	memcpy(path + len + !slash, name, name_len + 1);
	return true;
}

bool mounts_beneath(const struct mounts *m, const char *path, bool strictly)
{
	for (size_t i = 0; i < m->n; i++)
		if (path_beneath(m->v[i].target, path) &&
		    (!strictly || strcmp(m->v[i].target, path) != 0))
			return true;
	return false;
}

const struct mount *mounts_by_path(const struct mounts *m, const char *path)
{
	const struct mount *found = NULL;
	size_t longest = 0;

	for (size_t i = 0; i < m->n; i++) {
		size_t len = strlen(m->v[i].target);

		if (len >= longest && path_beneath(path, m->v[i].target)) {
			found = &m->v[i];
			longest = len;
		}
	}
	return found;
}

/* The place of what a mount shows. NFS says "/" for each part of a server's filesystem, and which
 * it is in the source; and may have a superblock for each mount of the same. */
static int root_location(const struct mount *m, struct location *ret)
{
	bool nfs = strcmp(m->type, "nfs") == 0 || strcmp(m->type, "nfs4") == 0;
	static const char removed[] = "//deleted"; /* behind its name, where nothing else has it */
	const char *root = nfs ? m->source : m->root;
	size_t len = strlen(root), mark = sizeof(removed) - 1;

	if (!nfs && len >= mark && strcmp(root + len - mark, removed) == 0)
		return -ESTALE;
	while (len > 0 && root[len - 1] == '/')
		len--;
	if (len >= sizeof(ret->path))
		return -ENAMETOOLONG;
	ret->dev = nfs ? 0 : m->dev;
	memcpy(ret->path, root, len);
	ret->path[len] = '\0';
	return 0;
}

int mount_location(const struct mount *m, const char *path, struct location *ret)
{
	size_t len = strcmp(m->target, "/") != 0 ? strlen(m->target) : 0, n;
	int r = root_location(m, ret);

	if (r < 0)
		return r;
	if (!path_beneath(path, m->target))
		return -ESTALE;
	path += len;
	if (strcmp(path, "/") == 0)
		path++;
	n = strlen(ret->path);
	if (n + strlen(path) >= sizeof(ret->path))
		return -ENAMETOOLONG;
	memcpy(ret->path + n, path, strlen(path) + 1);
	return 0;
}

int mount_path(const struct mount *m, const struct location *at, char *path, size_t size)
{
	struct location root;
	int r = at->dev && m->dev != at->dev ? -ENOENT : root_location(m, &root);

	if (r < 0)
		return r;
	if (root.dev != at->dev || !path_beneath(at->path, root.path))
		return -ENOENT;
	r = snprintf(path, size, "%s%s", strcmp(m->target, "/") != 0 ? m->target : "",
		     at->path + strlen(root.path));
	if (r < 0 || (size_t)r >= size)
		return -ENAMETOOLONG;
	if (r == 0)
		(void)snprintf(path, size, "/");
	return 0;
}

bool mount_root_beneath(const struct mount *m, const struct location *at)
{
	struct location root;

	return root_location(m, &root) >= 0 && root.dev == at->dev &&
	       path_beneath(root.path, at->path);
}

/* The length of the option's name, if it is one that has layers; else 0. */
static size_t layers_name(const char *option)
{
	/* "lowerdir+" and "datadir+" have one directory each, on newer kernels. */
	static const char *const names[] = { "upperdir=", "lowerdir=", "lowerdir+=", "datadir+=" };

	for (size_t i = 0; i < ELEMENTSOF(names); i++)
		if (strncmp(option, names[i], strlen(names[i])) == 0)
			return strlen(names[i]);
	return 0;
}

bool mount_layer(const struct mount *m, size_t *at, char *buf, size_t size)
{
	const char *s = m->super_options;

	while (s[*at]) {
		const char *p = s + *at;
		bool first = *at == 0 || p[-1] == ',';
		size_t skip = first ? layers_name(p) : 0, n = strcspn(p, ",:");

		/* Another option, as a whole. */
		if (first && skip == 0)
			n = strcspn(p, ",");
		*at += n + (p[n] != '\0');
		if ((first && skip == 0) || n - skip >= size)
			continue;
		memcpy(buf, p + skip, n - skip);
		buf[n - skip] = '\0';
		if (mounts_unescape(buf) && !strchr(buf, '\\'))
			return true;
	}
	return false;
}

/* Takes the word "rw" or "ro" off the beginning of options. True if it was "ro". */
static bool access_take(const char **options)
{
	const char *s = *options;
	bool ro = strncmp(s, "ro", 2) == 0;

	if ((!ro && strncmp(s, "rw", 2) != 0) || (s[2] != ',' && s[2] != '\0'))
		return false;
	*options = s + 2 + (s[2] == ',');
	return ro;
}

char *mount_all_options(const struct mount *m)
{
	const char *own = m->options, *super = m->super_options;
	bool own_ro = access_take(&own), super_ro = access_take(&super);
	char *s = NULL;

	if (strcmp(own, super) == 0)
		super = "";
	if (asprintf(&s, "%s%s%s%s%s", own_ro || super_ro ? "ro" : "rw", *own ? "," : "", own,
		     *super ? "," : "", super) < 0)
		return NULL;
	return s;
}

bool mount_option(const char *options, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = options; p && *p;) {
		size_t n = strcspn(p, ",");

		if ((n == len || (n > len && p[len] == '=')) && strncmp(p, name, len) == 0)
			return true;
		p += n;
		p += *p == ',';
	}
	return false;
}

bool mount_has_option(const struct mount *m, const char *name)
{
	return m && (mount_option(m->options, name) || mount_option(m->super_options, name));
}

bool mount_read_only(const struct mount *m)
{
	const char *own = m->options, *super = m->super_options;

	return access_take(&own) || access_take(&super);
}

bool mount_filesystem_read_only(const struct mount *m)
{
	return mount_option(m->super_options, "ro");
}

char *mount_value(const struct mount *m, const char *name)
{
	size_t len = strlen(name), n;

	for (const char *p = m->super_options; *p; p += n + (p[n] == ',')) {
		char *value;

		n = strcspn(p, ",");
		if (n <= len || p[len] != '=' || strncmp(p, name, len) != 0)
			continue;
		value = strndup(p + len + 1, n - len - 1);
		if (value)
			(void)mounts_unescape(value);
		return value;
	}
	return NULL;
}

bool mount_is_users(const struct mount *m)
{
	char *user;
	bool yes;

	if (strncmp(m->type, "fuse", 4) != 0)
		return false;
	user = mount_value(m, "user_id");
	yes = !user || strcmp(user, "0") != 0;
	free(user);
	return yes;
}

bool mount_may_hang(const struct mount *m)
{
	if (strncmp(m->type, "fuse", 4) == 0)
		return true;
	return major(m->dev) == 0 && strcmp(m->type, "btrfs") != 0 && strcmp(m->type, "tmpfs") != 0;
}

bool mounts_may_hang(const struct mounts *m, const char *path)
{
	const struct mount *own = mounts_by_path(m, path);

	for (size_t i = 0; i < m->n; i++) {
		const struct mount *at = &m->v[i];

		/* Without its root nothing of the system runs; as the mount itself it counts. */
		if (path_beneath(path, at->target) && mount_may_hang(at) &&
		    (at == own || strcmp(at->target, "/") != 0))
			return true;
	}
	return !own;
}

static int open_directory(int at, const char *path, uint64_t resolve)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | resolve };
	int fd = (int)syscall(SYS_openat2, at, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

int mount_open(const struct mount *m, const char *path)
{
	_cleanup_close_ int at = open_directory(AT_FDCWD, m->target, 0);
	const char *rest = path + strlen(m->target);
	struct statx sx;

	if (at < 0)
		return at;
	if (statx(at, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_MNT_ID, &sx) <
	    0)
		return -errno;
	if (sx.stx_mnt_id != m->id)
		return -EXDEV;
	while (*rest == '/')
		rest++;
	return *rest ? open_directory(at, rest, RESOLVE_BENEATH | RESOLVE_NO_XDEV) : fd_take(&at);
}
