/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "protect.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "looks.h"
#include "util/mounts.h"

/* The kernel knows 32 swap files at most. */
#define SWAPS_MAX MiB(1)

struct entry {
	uint64_t dev, ino;
	bool content;       /* everything below, too */
	const char *reason; /* static */
};

struct protect {
	struct entry *v;
	size_t n, cap;
	struct entry *parents; /* directories in which an entry of v lies; n_parents */
	size_t n_parents, cap_parents;
	struct mounts mounts;
	struct looks looks;   /* while it is made */
	struct place *places; /* of what has protected content; n_places */
	size_t n_places;
	/* The directory whose ancestors were looked at last: thousands of groups of one list lie in
	 * the same one. PATH_MAX bytes. */
	char *cleared;
};

/* Where in its filesystem something is: the same through every bind mount of it. */
struct place {
	dev_t dev;
	char *path;
};

/* The File Hierarchy Standard 3.0's directories, and those that every distribution has beside them.
 * With content: what the system itself consists of. */
static const struct {
	const char *path;
	bool content;
} system_paths[] = {
	{ "/", false },        { "/bin", true },        { "/boot", true },
	{ "/dev", false },     { "/efi", true },        { "/etc", true },
	{ "/home", false },    { "/lib", true },        { "/lib32", true },
	{ "/lib64", true },    { "/libx32", true },     { "/media", false },
	{ "/mnt", false },     { "/opt", false },       { "/proc", false },
	{ "/root", false },    { "/run", false },       { "/sbin", true },
	{ "/srv", false },     { "/sys", false },       { "/tmp", false },
	{ "/usr", true },      { "/var", false },       { "/var/cache", false },
	{ "/var/lib", false }, { "/var/local", false }, { "/var/lock", false },
	{ "/var/log", false }, { "/var/mail", false },  { "/var/opt", false },
	{ "/var/run", false }, { "/var/spool", false }, { "/var/tmp", false },
};

/* What belongs to this program itself. */
static const char *const own_paths[] = {
	"/etc/reclaimd",
	"/run/reclaimd",
	"/usr/lib/reclaimd",
	"/var/lib/reclaimd",
};

static const char own_reason[] = "belongs to reclaimd itself";

/* Names that mean the same at the root of every mount. */
static const char *const mount_root_names[] = {
	"lost+found", ".reclaim",    "aquota.user",    "aquota.group",
	"quota.user", "quota.group", "aquota.project",
};

/* Filesystems that are the kernel's face, not storage. */
static const char *const pseudo_filesystems[] = {
	"autofs",     "binfmt_misc", "bpf",      "cgroup",   "cgroup2",    "configfs",
	"debugfs",    "devpts",      "devtmpfs", "efivarfs", "functionfs", "fusectl",
	"hugetlbfs",  "mqueue",      "nsfs",     "proc",     "pstore",     "rpc_pipefs",
	"securityfs", "selinuxfs",   "smackfs",  "sysfs",    "tracefs",
};

static int grow(struct entry **v, size_t n, size_t *cap)
{
	size_t bigger = MAX(*cap * 2, (size_t)64);
	struct entry *e;

	if (n < *cap)
		return 0;
	e = realloc(*v, bigger * sizeof(*e));
	if (!e)
		return -ENOMEM;
	*v = e;
	*cap = bigger;
	return 0;
}

static struct entry *find(struct entry *v, size_t n, uint64_t dev, uint64_t ino)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].ino == ino && v[i].dev == dev)
			return &v[i];
	return NULL;
}

/* Where this process may not look it cannot delete either; the directory in the way is an ancestor
 * and added as such. */
static bool nothing_there(int error)
{
	return error == -ENOENT || error == -ENOTDIR || error == -EACCES;
}

static int add_identity(struct protect *p, uint64_t dev, uint64_t ino, bool content,
			const char *reason)
{
	struct entry *known = find(p->v, p->n, dev, ino);
	int r;

	/* One entry for each: a search ends at the first. */
	if (known && content && !known->content)
		*known = (struct entry){ dev, ino, content, reason };
	if (known)
		return 0;
	r = grow(&p->v, p->n, &p->cap);
	if (r < 0)
		return r;
	p->v[p->n++] = (struct entry){ dev, ino, content, reason };
	return 0;
}

/* Adds what `path` leads to. 1 if it was added or known, 0 if there is nothing to protect, -errno
 * if it cannot be told. */
static int add_followed(struct protect *p, const char *path, bool content, const char *reason)
{
	struct statx sx;
	int r;

	if (statx(AT_FDCWD, path, AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_INO, &sx) < 0)
		return nothing_there(-errno) ? 0 : -errno;
	r = add_identity(p, (uint64_t)sx.stx_dev_major << 32 | sx.stx_dev_minor, sx.stx_ino,
			 content, reason);
	return r < 0 ? r : 1;
}

/* Adds a directory in which something protected lies: it can neither be deleted itself, nor can
 * things in it without a closer look. */
static int add_parent(struct protect *p, uint64_t dev, uint64_t ino)
{
	int r;

	if (!find(p->parents, p->n_parents, dev, ino)) {
		r = grow(&p->parents, p->n_parents, &p->cap_parents);
		if (r < 0)
			return r;
		p->parents[p->n_parents++] = (struct entry){ .dev = dev, .ino = ino };
	}
	return add_identity(p, dev, ino, false, "holds what is protected");
}

/* Adds the directory that these first bytes of a path lead to, if it can be looked at. */
static int add_parent_followed(struct protect *p, const char *path, size_t len)
{
	char prefix[PATH_MAX];
	struct statx sx;

	memcpy(prefix, path, len);
	prefix[len] = '\0';
	if (statx(AT_FDCWD, prefix, AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_INO, &sx) < 0)
		return nothing_there(-errno) ? 0 : -errno;
	return add_parent(p, (uint64_t)sx.stx_dev_major << 32 | sx.stx_dev_minor, sx.stx_ino);
}

/* Adds every directory on the way to an absolute path, the path itself excluded. */
static int add_ancestors(struct protect *p, const char *path)
{
	size_t len = strlen(path);
	bool plain = looks_plain(&p->looks, path, path_parent(path, len));
	int r = 0;

	if (len >= PATH_MAX)
		return -ENAMETOOLONG;
	while (r >= 0 && len > 1) {
		struct look *k;

		len = path_parent(path, len);
		if (!plain) {
			r = add_parent_followed(p, path, len);
			continue;
		}
		k = looks_at(&p->looks, path, len);
		if (!k)
			return -ENOMEM;
		if (k->climbed)
			break;
		k->climbed = true;
		r = k->error ? k->error : add_parent(p, k->dev, k->ino);
	}
	return r;
}

/* Adds what a path with symbolic links in it leads to, and the way there. */
static int add_resolved(struct protect *p, const char *path, bool content, const char *reason)
{
	const char *real = NULL;
	int r = add_followed(p, path, content, reason);

	if (r <= 0)
		return r;
	r = looks_resolve(&p->looks, path, &real);
	if (r < 0)
		return nothing_there(r) ? 0 : r;
	return add_ancestors(p, real);
}

/* Adds a path in both spellings, as it stands and with its symbolic links resolved. */
static int add_path(struct protect *p, const char *path, bool content, const char *reason)
{
	size_t len = strlen(path);
	struct look *k = looks_at(&p->looks, path, len);
	int r;

	if (!k)
		return -ENOMEM;
	if (k->error)
		return nothing_there(k->error) ? 0 : k->error;
	if (k->taken && k->content >= content)
		return 0;
	k->taken = true;
	k->content |= content;
	r = add_identity(p, k->dev, k->ino, content, reason);
	if (r >= 0)
		r = add_ancestors(p, path);
	if (r < 0 || looks_plain(&p->looks, path, len))
		return r;
	return add_resolved(p, path, content, reason);
}

static int add_homes(struct protect *p, char **ret_culprit)
{
	struct passwd *pw;
	int r = 0;

	setpwent();
	while (r >= 0 && (pw = getpwent())) {
		if (!pw->pw_dir || pw->pw_dir[0] != '/')
			continue;
		r = add_path(p, pw->pw_dir, false, "is an account's home directory");
		if (r < 0)
			*ret_culprit = strdup(pw->pw_dir);
	}
	endpwent();
	return r;
}

/* One line of /proc/swaps: the file's path with the kernel's escapes, blanks, and what it is. */
static int add_swap(struct protect *p, char *line, char **ret_culprit)
{
	static const char deleted[] = " (deleted)";
	size_t len;
	int r;

	line[strcspn(line, " \t")] = '\0';
	if (line[0] != '/')
		return 0;
	(void)mounts_unescape(line);
	r = add_path(p, line, false, "is in use for swapping");
	/* A network filesystem may have forgotten the name of a file that still has it. */
	len = strlen(line);
	if (r >= 0 && len >= sizeof(deleted) &&
	    strcmp(line + len - (sizeof(deleted) - 1), deleted) == 0) {
		line[len - (sizeof(deleted) - 1)] = '\0';
		r = add_path(p, line, false, "is in use for swapping");
	}
	if (r < 0)
		*ret_culprit = strdup(line);
	return r;
}

static int add_swaps(struct protect *p, char **ret_culprit)
{
	_cleanup_free_ char *text = NULL;
	ssize_t len = fd_read_file("/proc/swaps", SWAPS_MAX, &text);
	char *rest = text, *line;
	int r = 0;

	/* No /proc/swaps: no swap. */
	if (len == -ENOENT)
		return 0;
	if (len < 0) {
		*ret_culprit = strdup("/proc/swaps");
		return (int)len;
	}
	while (r >= 0 && (line = strsep(&rest, "\n")))
		r = add_swap(p, line, ret_culprit);
	return r;
}

static int add_all(struct protect *p, const char *const *extra, char **ret_culprit)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(system_paths); i++) {
		r = add_path(p, system_paths[i].path, system_paths[i].content,
			     system_paths[i].content ? "belongs to the system"
						     : "is a directory of the system");
		if (r < 0)
			*ret_culprit = strdup(system_paths[i].path);
	}
	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(own_paths); i++) {
		r = add_path(p, own_paths[i], true, own_reason);
		if (r < 0)
			*ret_culprit = strdup(own_paths[i]);
	}
	for (size_t i = 0; r >= 0 && extra && extra[i]; i++) {
		bool own = strncmp(extra[i], "//", 2) == 0;

		r = add_path(p, extra[i] + own, true,
			     own ? own_reason : "is protected by the configuration");
		if (r < 0)
			*ret_culprit = strdup(extra[i]);
	}
	if (r >= 0)
		r = add_homes(p, ret_culprit);
	if (r >= 0)
		r = add_swaps(p, ret_culprit);
	return r < 0 ? r : 0;
}

/* Where in its filesystem a path of a mount is: the same file has the same place through every bind
 * mount of it. */
static int place_in_filesystem(const struct mount *m, const char *path, char *buf, size_t size)
{
	size_t len = strcmp(m->target, "/") != 0 ? strlen(m->target) : 0;
	int n;

	if (strncmp(path, m->target, len) != 0)
		return -ESTALE;
	n = snprintf(buf, size, "%s%s", strcmp(m->root, "/") == 0 ? "" : m->root, path + len);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* Notes where the directories are whose content belongs to the system. */
static int add_places(struct protect *p)
{
	char place[PATH_MAX];

	p->places = calloc(ELEMENTSOF(system_paths), sizeof(*p->places));
	p->cleared = calloc(1, PATH_MAX);
	if (!p->places || !p->cleared)
		return -ENOMEM;
	for (size_t i = 0; i < ELEMENTSOF(system_paths); i++) {
		const struct mount *m;
		const char *real = NULL;
		int r;

		if (!system_paths[i].content)
			continue;
		r = looks_resolve(&p->looks, system_paths[i].path, &real);
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			continue;
		m = mounts_by_path(&p->mounts, real);
		if (!m || place_in_filesystem(m, real, place, sizeof(place)) < 0)
			continue;
		p->places[p->n_places] = (struct place){ m->dev, strdup(place) };
		if (!p->places[p->n_places++].path)
			return -ENOMEM;
	}
	return 0;
}

int protect_new(struct protect **ret, const char *const *extra, char **ret_culprit)
{
	struct protect *p = calloc(1, sizeof(*p));
	int r;

	*ret_culprit = NULL;
	if (!p)
		return -ENOMEM;
	/* Without the mount table nothing can be said about any path. */
	r = mounts_read(&p->mounts, "/proc/self/mountinfo");
	if (r < 0)
		*ret_culprit = strdup("/proc/self/mountinfo");
	if (r >= 0)
		r = add_all(p, extra, ret_culprit);
	if (r >= 0)
		r = add_places(p);
	if (r < 0) {
		protect_free(p);
		return r;
	}
	looks_done(&p->looks);
	*ret = p;
	return 0;
}

struct protect *protect_free(struct protect *p)
{
	if (!p)
		return NULL;
	mounts_done(&p->mounts);
	looks_done(&p->looks);
	for (size_t i = 0; i < p->n_places; i++)
		free(p->places[i].path);
	free(p->places);
	free(p->cleared);
	free(p->v);
	free(p->parents);
	free(p);
	return NULL;
}

const struct mounts *protect_mounts(const struct protect *p)
{
	return &p->mounts;
}

static bool is_pseudo(const char *fstype)
{
	for (size_t i = 0; i < ELEMENTSOF(pseudo_filesystems); i++)
		if (strcmp(fstype, pseudo_filesystems[i]) == 0)
			return true;
	return false;
}

/* The mount that a descriptor is on; NULL if it is not in our table (detached, other namespace). */
static const struct mount *mount_of(const struct protect *p, int fd)
{
	struct identity id;

	return fd_identity(fd, "", &id) < 0 ? NULL : mounts_by_id(&p->mounts, id.mnt_id);
}

/* Is a filesystem mounted at this path, or anywhere beneath it? */
static bool mounts_beneath(const struct protect *p, const char *path, bool strictly)
{
	size_t len = strcmp(path, "/") == 0 ? 0 : strlen(path);

	for (size_t i = 0; i < p->mounts.n; i++) {
		const char *t = p->mounts.v[i].target;

		if (strncmp(t, path, len) == 0 && (t[len] == '/' || (t[len] == '\0' && !strictly)))
			return true;
	}
	return false;
}

/* Does a directory lie in one whose content is protected, seen through whatever mount? */
static const char *content_reason(const struct protect *p, const struct mount *m, const char *path)
{
	char place[PATH_MAX];

	if (place_in_filesystem(m, path, place, sizeof(place)) < 0)
		return "lies where its filesystem cannot be told";
	for (size_t i = 0; i < p->n_places; i++) {
		size_t len = strlen(p->places[i].path);

		if (p->places[i].dev == m->dev && strncmp(place, p->places[i].path, len) == 0 &&
		    (place[len] == '/' || place[len] == '\0'))
			return "belongs to the system";
	}
	return NULL;
}

/* Looks at each directory on the way to `path` by identity: a bind mount or another spelling of a
 * protected directory is still that directory. */
static const char *ancestor_reason(const struct protect *p, const char *path)
{
	char prefix[PATH_MAX], parent[PATH_MAX];
	size_t len = strlen(path);

	memcpy(prefix, path, len + 1);
	memcpy(parent, path, len + 1);
	parent[path_parent(path, len)] = '\0';
	while (strcmp(prefix, p->cleared) != 0) {
		struct statx sx;
		const struct entry *e;

		if (statx(AT_FDCWD, prefix, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_INO,
			  &sx) < 0)
			return "lies in a directory that cannot be looked at";
		e = find(p->v, p->n, (uint64_t)sx.stx_dev_major << 32 | sx.stx_dev_minor,
			 sx.stx_ino);
		if (e && e->content)
			return e->reason;
		if (len <= 1)
			break;
		len = path_parent(prefix, len);
		prefix[len] = '\0';
	}
	memcpy(p->cleared, parent, strlen(parent) + 1);
	return NULL;
}

const char *protect_check_content(const struct protect *p, int dirfd)
{
	const struct mount *m = mount_of(p, dirfd);
	char path[PATH_MAX];
	ssize_t len = fd_path(dirfd, path, sizeof(path));
	const char *reason;

	if (!m)
		return "is on a mount that this process cannot see";
	if (is_pseudo(m->type))
		return "is on a pseudo-filesystem of the kernel";
	if (len == -ENAMETOOLONG)
		return "lies too deep to be told apart from what is protected";
	if (len < 0 || path[0] != '/')
		return "cannot be told apart from what is protected";
	reason = ancestor_reason(p, path);
	return reason ? reason : content_reason(p, m, path);
}

static const char *mount_root_reason(int dirfd, const char *name)
{
	struct statx sx;

	if (statx(dirfd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_INO, &sx) < 0)
		return "lies in a directory that cannot be looked at";
	if (!(sx.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return NULL;
	for (size_t i = 0; i < ELEMENTSOF(mount_root_names); i++)
		if (strcmp(name, mount_root_names[i]) == 0)
			return "belongs to its filesystem";
	return NULL;
}

const char *protect_check(const struct protect *p, int dirfd, const char *name,
			  const struct identity *id)
{
	const char *reason = protect_check_content(p, dirfd);
	char path[PATH_MAX];
	struct statx sx;
	ssize_t len;

	if (reason)
		return reason;
	if (statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_INO, &sx) < 0)
		return "cannot be looked at";
	if (sx.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return "is a mount point";
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].ino == sx.stx_ino &&
		    p->v[i].dev == ((uint64_t)sx.stx_dev_major << 32 | sx.stx_dev_minor))
			return p->v[i].reason;
	reason = mount_root_reason(dirfd, name);
	if (reason || !S_ISDIR(id->mode))
		return reason;
	/* The directory may have been moved since its content was asked for. */
	len = fd_path(dirfd, path, sizeof(path));
	if (len < 0)
		return "cannot be told apart from what is protected";
	if ((size_t)len + 1 + strlen(name) >= sizeof(path))
		return "lies too deep to be told apart from what is protected";
	if (path[len - 1] != '/')
		path[len++] = '/';
	memcpy(path + len, name, strlen(name) + 1);
	return mounts_beneath(p, path, /* strictly= */ false) ? "holds a mount point" : NULL;
}

bool protect_near(const struct protect *p, int dirfd)
{
	char path[PATH_MAX];
	struct statx sx;

	if (statx(dirfd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_INO, &sx) < 0 ||
	    fd_path(dirfd, path, sizeof(path)) < 0)
		return true;
	return (sx.stx_attributes & STATX_ATTR_MOUNT_ROOT) ||
	       find(p->parents, p->n_parents, (uint64_t)sx.stx_dev_major << 32 | sx.stx_dev_minor,
		    sx.stx_ino) ||
	       mounts_beneath(p, path, /* strictly= */ true);
}
