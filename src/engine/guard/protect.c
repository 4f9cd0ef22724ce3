/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "protect.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "path-cache.h"
#include "locations.h"
#include "unlisted.h"
#include "base/array.h"
#include "base/mounts.h"
#include "base/staging-dir.h"

/* The kernel knows 32 swap files at most. */
#define SWAPS_MAX MiB(1)

/* Where mounts come and go all the time, the last try is taken: what is missing in its table is not
 * deleted from. */
#define BUILD_TRIES 3

struct entry {
	uint64_t dev, ino;
	bool content;       /* everything below, too */
	bool unlocated;     /* on a mount that is not in the table: only its identity is known */
	const char *reason; /* static */
};

/* What changes while it is used. */
struct live {
	int fd; /* of mountinfo: says when the mounts have changed since the tables were read */
	bool changed;
	struct mounts mounts; /* as they are now, if they have changed; n is 0 before */
	/* The directory whose ancestors were looked at last: thousands of groups of one list lie in
	 * the same one. */
	char cleared[PATH_MAX];
	/* The overlay whose upper directory was looked for last, and what was found. */
	uint64_t upper_of;
	int upper_error;
	struct location upper;
	struct home_cache homes;
};

/* Where a directory is, in each filesystem that loses what is deleted in it: its own, and below an
 * overlay that of the upper directory. (What lies in a lower one stays there, and an upper
 * directory is on no overlay.) */
struct spot {
	const struct mount *mount;
	size_t n;
	struct location v[2];
};

struct protect {
	struct entry *v;
	size_t n;
	struct entry *parents; /* directories in which an entry of v lies; n_parents */
	size_t n_parents;
	struct mounts mounts;
	struct path_cache paths;    /* while it is made */
	struct locations locations; /* of all that is protected */
	struct live *live;
	char *culprit; /* what could not be taken in */
};

/* Without their content: what is in them is their users'. */
static const char directory[] = "is a directory of the system";
static const char belongs[] = "belongs to the system", own[] = "belongs to reclaimd itself";
static const char packages[] = "belongs to a package manager",
		  home[] = "is an account's home directory";

/* The File Hierarchy Standard 3.0's directories, those that every distribution has beside them, and
 * what belongs to this program. */
static const struct {
	const char *path, *reason;
} known_paths[] = {
	{ "/", directory },
	{ "/bin", belongs },
	{ "/boot", belongs },
	{ "/dev", directory },
	{ "/dev/shm", directory },
	{ "/efi", belongs },
	{ "/etc", belongs },
	{ "/gnu/store", belongs },
	{ "/home", directory },
	{ "/lib", belongs },
	{ "/lib32", belongs },
	{ "/lib64", belongs },
	{ "/libx32", belongs },
	{ "/media", directory },
	{ "/mnt", directory },
	{ "/nix/store", belongs },
	{ "/opt", directory },
	{ "/proc", belongs },
	{ "/root", directory },
	{ "/run", directory },
	{ "/run/dbus", belongs },
	{ "/run/lock", directory },
	{ "/run/log", directory },
	{ "/run/media", directory },
	{ "/run/systemd", belongs },
	{ "/run/udev", belongs },
	{ "/run/user", directory },
	{ "/sbin", belongs },
	{ "/srv", directory },
	{ "/sys", belongs },
	{ "/tmp", directory },
	{ "/usr", belongs },
	{ "/var", directory },
	{ "/var/cache", directory },
	{ "/var/lib", directory },
	{ "/var/lib/systemd", directory },
	{ "/var/local", directory },
	{ "/var/lock", directory },
	{ "/var/log", directory },
	{ "/var/mail", directory },
	{ "/var/opt", directory },
	{ "/var/run", directory },
	{ "/var/spool", directory },
	{ "/var/tmp", directory },
	/* Databases of package managers. The lists in /var/lib/apt can be fetched again. */
	{ "/var/db/pkg", packages },
	{ "/var/db/xbps", packages },
	{ "/var/guix", packages },
	{ "/nix/var/nix", packages },
	{ "/var/lib/apt/extended_states", packages },
	{ "/var/lib/dnf", packages },
	{ "/var/lib/dpkg", packages },
	{ "/var/lib/opkg", packages },
	{ "/var/lib/pacman", packages },
	{ "/var/lib/pkgtools", packages },
	{ "/var/lib/portage", packages },
	{ "/var/lib/rpm", packages },
	{ "/etc/reclaimd", own },
	{ "/run/reclaimd", own },
	{ "/usr/lib/reclaimd", own },
	{ "/var/lib/reclaimd", own },
};

/* Names that mean the same at the root of every mount. */
static const char *const mount_root_names[] = {
	"lost+found", "aquota.user", "aquota.group", "aquota.project", "quota.user", "quota.group",
};

/* Filesystems that are the kernel's face, not storage. */
static const char *const pseudo_filesystems[] = {
	"autofs",     "binfmt_misc", "bpf",      "cgroup",   "cgroup2",    "configfs",
	"debugfs",    "devpts",      "devtmpfs", "efivarfs", "functionfs", "fusectl",
	"hugetlbfs",  "mqueue",      "nsfs",     "proc",     "pstore",     "rpc_pipefs",
	"securityfs", "selinuxfs",   "smackfs",  "sysfs",    "tracefs",
};

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static struct entry *find(struct entry *v, size_t n, const struct identity *id)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].ino == id->ino && v[i].dev == id->dev)
			return &v[i];
	return NULL;
}

/* Where this process may not look it cannot delete either; the directory in the way is an ancestor
 * and added as such. */
static bool nothing_there(int error)
{
	return error == -ENOENT || error == -ENOTDIR || error == -EACCES;
}

static int add_identity(struct protect *p, const struct identity *id, bool content,
			const char *reason)
{
	struct entry *known = find(p->v, p->n, id);

	/* One entry for each: a search ends at the first. */
	if (known && !(content && !known->content))
		return 0;
	if (!known)
		known = array_add(&p->v, &p->n, sizeof(*known));
	if (!known)
		return -ENOMEM;
	*known = (struct entry){
		.dev = id->dev, .ino = id->ino, .content = content, .reason = reason
	};
	return 0;
}

/* Adds a directory in which something protected lies: it can neither be deleted itself, nor can
 * things in it without a closer look. */
static int add_parent(struct protect *p, const struct identity *id)
{
	if (!find(p->parents, p->n_parents, id)) {
		struct entry *e = array_add(&p->parents, &p->n_parents, sizeof(*e));

		if (!e)
			return -ENOMEM;
		*e = (struct entry){ .dev = id->dev, .ino = id->ino };
	}
	return add_identity(p, id, false, "holds what is protected");
}

/* Adds every directory on the way to an absolute path, the path itself excluded. */
static int add_ancestors(struct protect *p, const char *path)
{
	size_t len = strlen(path);
	bool plain = path_cache_is_plain(&p->paths, path, path_parent(path, len));
	char prefix[PATH_MAX];
	struct identity id;
	int r = 0;

	if (len >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(prefix, path, len + 1);
	while (r >= 0 && len > 1) {
		struct cached_path *k;

		len = path_parent(path, len);
		if (!plain) {
			prefix[len] = '\0';
			r = fd_whereabouts(AT_FDCWD, prefix, 0, &id);
			r = r >= 0 ? add_parent(p, &id) : nothing_there(r) ? 0 : r;
			continue;
		}
		k = path_cache_stat(&p->paths, path, len);
		if (!k)
			return -ENOMEM;
		if (k->climbed)
			break;
		k->climbed = true;
		r = k->error ? k->error : add_parent(p, &k->id);
	}
	return r;
}

/* Adds where in its filesystem a path without symbolic links is, and where in the layers of an
 * overlay: there it can be deleted, too. */
static int add_location(struct protect *p, const char *path, bool content, const char *reason,
			unsigned depth);

static int add_layers(struct protect *p, const struct mount *m, const char *below, bool content,
		      const char *reason, unsigned depth)
{
	char layer[PATH_MAX], path[PATH_MAX];
	int r = 0;

	for (size_t at = 0; r >= 0 && mount_layer(m, &at, layer, sizeof(layer));) {
		_cleanup_free_ char *real = layer[0] == '/' ? realpath(layer, NULL) : NULL;

		/* What is not here by this name cannot be deleted by it either: the layers of a
		 * container's root. */
		if (!real || snprintf(path, sizeof(path), "%s%s", strcmp(real, "/") ? real : "",
				      below) >= (int)sizeof(path))
			continue;
		r = add_location(p, path, content, reason, depth + 1);
		if (r == -ESTALE)
			r = 0;
	}
	return r;
}

/* The mount that a path is on, of which the last part may not exist. */
static const struct mount *mount_of_path(struct protect *p, const char *path)
{
	for (size_t len = strlen(path);; len = path_parent(path, len)) {
		const struct cached_path *k = path_cache_stat(&p->paths, path, len);

		if (k && !k->error)
			return mounts_by_id(&p->mounts, k->id.mnt_id);
		if (!k || len <= 1)
			return NULL;
	}
}

static int add_location(struct protect *p, const char *path, bool content, const char *reason,
			unsigned depth)
{
	const struct mount *m = mount_of_path(p, path);
	struct location at;
	int r;

	if (!m || mount_location(m, path, &at) < 0)
		return -ESTALE;
	r = locations_add(&p->locations, &at, content, reason);
	/* The kernel stacks no more than two. */
	if (r < 0 || depth >= 2 || strcmp(m->type, "overlay") != 0)
		return r;
	return add_layers(p, m, path + (strcmp(m->target, "/") ? strlen(m->target) : 0), content,
			  reason, depth);
}

/* What is mounted in a directory belongs to its content, also where it is mounted once more. */
static int add_mounts(struct protect *p, const char *path, const char *reason)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < p->mounts.n; i++) {
		const struct mount *m = &p->mounts.v[i];
		struct location at;

		if (path_beneath(m->target, path) && strcmp(m->target, path) != 0 &&
		    mount_location(m, m->target, &at) >= 0)
			r = locations_add(&p->locations, &at, true, reason);
	}
	return r;
}

/* Adds what a path without symbolic links leads to: its identity and its location. */
static int add_real(struct protect *p, const char *path, bool content, const char *reason)
{
	struct cached_path *k = path_cache_stat(&p->paths, path, strlen(path));
	struct entry *e;
	int r;

	if (!k)
		return -ENOMEM;
	if (k->error)
		return nothing_there(k->error) ? 0 : k->error;
	r = add_identity(p, &k->id, content, reason);
	if (r >= 0)
		r = add_location(p, path, content, reason, 0);
	if (r >= 0 && content)
		r = add_mounts(p, path, reason);
	if (r != -ESTALE)
		return r;
	/* In a chroot the table does not have all mounts. */
	e = find(p->v, p->n, &k->id);
	e->unlocated = true;
	return 0;
}

/* Adds a path in both spellings, as it stands and with its symbolic links resolved. */
static int add_spellings(struct protect *p, const char *path, bool content, const char *reason)
{
	size_t len = strlen(path);
	struct cached_path *k = path_cache_stat(&p->paths, path, len);
	const char *real = NULL;
	struct identity id;
	int r;

	if (!k)
		return -ENOMEM;
	if (k->error)
		return nothing_there(k->error) ? 0 : k->error;
	if (k->taken && k->content >= content)
		return 0;
	k->taken = true;
	k->content |= content;
	r = add_identity(p, &k->id, content, reason);
	if (r >= 0)
		r = add_ancestors(p, path);
	if (r < 0)
		return r;
	if (path_cache_is_plain(&p->paths, path, len))
		return add_real(p, path, content, reason);
	/* What it leads to, and the way there. */
	r = fd_whereabouts(AT_FDCWD, path, 0, &id);
	if (r >= 0)
		r = add_identity(p, &id, content, reason);
	if (r >= 0)
		r = path_cache_resolve(&p->paths, path, &real);
	if (r < 0)
		return nothing_there(r) ? 0 : r;
	r = add_real(p, real, content, reason);
	return r < 0 ? r : add_ancestors(p, real);
}

static int add_path(struct protect *p, const char *path, bool content, const char *reason)
{
	int r = add_spellings(p, path, content, reason);

	if (r < 0)
		p->culprit = strdup(path);
	return r;
}

static int add_homes(struct protect *p)
{
	struct passwd *pw;
	int r = 0;

	setpwent();
	while (r >= 0 && (pw = getpwent()))
		if (pw->pw_dir && pw->pw_dir[0] == '/')
			r = add_path(p, pw->pw_dir, false, home);
	endpwent();
	return r;
}

/* Each line of /proc/swaps has a file's path with the kernel's escapes, blanks, and what it is. */
static int add_swaps(struct protect *p)
{
	static const char deleted[] = " (deleted)", reason[] = "is in use for swapping";
	_cleanup_free_ char *text = NULL;
	ssize_t n = fd_read_file("/proc/swaps", SWAPS_MAX, &text);
	char *rest = text, *line;
	int r = 0;

	/* No /proc/swaps: no swap. */
	if (n < 0 && n != -ENOENT)
		p->culprit = strdup("/proc/swaps");
	if (n < 0)
		return n == -ENOENT ? 0 : (int)n;
	while (r >= 0 && (line = strsep(&rest, "\n"))) {
		size_t len;

		line[strcspn(line, " \t")] = '\0';
		if (line[0] != '/')
			continue;
		(void)mounts_unescape(line);
		r = add_path(p, line, false, reason);
		/* A network filesystem may have forgotten the name of a file that still has it. */
		len = strlen(line);
		if (r >= 0 && len >= sizeof(deleted) &&
		    strcmp(line + len - (sizeof(deleted) - 1), deleted) == 0) {
			line[len - (sizeof(deleted) - 1)] = '\0';
			r = add_path(p, line, false, reason);
		}
	}
	return r;
}

static int add_all(struct protect *p, const char *const *extra)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(known_paths); i++)
		r = add_path(p, known_paths[i].path, known_paths[i].reason != directory,
			     known_paths[i].reason);
	for (size_t i = 0; r >= 0 && extra && extra[i]; i++) {
		bool ours = strncmp(extra[i], "//", 2) == 0;

		r = add_path(p, extra[i] + ours, true,
			     ours ? own : "is protected by the configuration");
	}
	if (r >= 0)
		r = add_homes(p);
	return r < 0 ? r : add_swaps(p);
}

static int build(struct protect **ret, const char *const *extra, char **ret_culprit)
{
	struct protect *p = calloc(1, sizeof(*p));
	int r;

	*ret_culprit = NULL;
	if (!p)
		return -ENOMEM;
	p->live = calloc(1, sizeof(*p->live));
	if (!p->live) {
		protect_free(p);
		return -ENOMEM;
	}
	/* Before the table is read, so that each change after that is told. Without the table
	 * nothing can be said about any path. */
	p->live->fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	r = p->live->fd < 0 ? -errno : mounts_read(&p->mounts, "/proc/self/mountinfo");
	if (r < 0)
		p->culprit = strdup("/proc/self/mountinfo");
	if (r >= 0)
		r = add_all(p, extra);
	if (r < 0) {
		*ret_culprit = p->culprit;
		p->culprit = NULL;
		protect_free(p);
		return r;
	}
	locations_sort(&p->locations);
	path_cache_done(&p->paths);
	*ret = p;
	return 0;
}

struct protect *protect_free(struct protect *p)
{
	if (!p)
		return NULL;
	mounts_done(&p->mounts);
	path_cache_done(&p->paths);
	locations_done(&p->locations);
	if (p->live) {
		fd_closep(&p->live->fd);
		mounts_done(&p->live->mounts);
	}
	free(p->live);
	free(p->culprit);
	free(p->v);
	free(p->parents);
	free(p);
	return NULL;
}

static bool mounts_changed(const struct live *l)
{
	struct pollfd f = { .fd = l->fd, .events = POLLPRI };

	return poll(&f, 1, 0) != 0;
}

bool protect_outdated(const struct protect *p)
{
	p->live->changed |= mounts_changed(p->live);
	return p->live->changed;
}

int protect_new(struct protect **ret, const char *const *extra, char **ret_culprit)
{
	struct protect *p = NULL;
	int r = build(&p, extra, ret_culprit);

	/* What was mounted meanwhile may be missing in the table. */
	for (unsigned i = 0; r >= 0 && i < BUILD_TRIES && protect_outdated(p); i++) {
		p = protect_free(p);
		r = build(&p, extra, ret_culprit);
	}
	if (r >= 0)
		*ret = p;
	return r;
}

/* The mounts as they are now; NULL if they cannot be read. The first table stays as it is, as it
 * has been given away; and what is mounted for a moment somewhere is no reason to refuse. */
static const struct mounts *mounts_now(const struct protect *p)
{
	struct live *l = p->live;

	if (mounts_changed(l)) {
		l->changed = true;
		l->cleared[0] = '\0';
		l->upper_of = 0;
		mounts_done(&l->mounts);
		if (mounts_read(&l->mounts, "/proc/self/mountinfo") < 0)
			return NULL;
	}
	if (!l->changed)
		return &p->mounts;
	return l->mounts.n > 0 ? &l->mounts : NULL;
}

const struct mounts *protect_mounts(const struct protect *p)
{
	return &p->mounts;
}

/* Where the upper directory of an overlay is. Returns 1; 0 if it has none; or -ENOENT if what was
 * said when it was mounted leads nowhere here. */
static int upper_find(const struct mounts *mounts, const struct mount *overlay,
		      struct location *ret)
{
	_cleanup_free_ char *text = mount_value(overlay, "upperdir"), *real = NULL;
	const struct mount *m;
	struct identity id;

	if (!text)
		return 0;
	/* A backslash is the overlay's own escape, which nothing else here knows. */
	real = text[0] == '/' && !strchr(text, '\\') ? realpath(text, NULL) : NULL;
	if (!real || fd_whereabouts(AT_FDCWD, real, AT_SYMLINK_NOFOLLOW, &id) < 0)
		return -ENOENT;
	m = mounts_by_id(mounts, id.mnt_id);
	return m && mount_location(m, real, ret) >= 0 ? 1 : -ENOENT;
}

/* Adds where the upper directory has what lies at this place of an overlay. */
static const char *spot_upper(const struct protect *p, const struct mounts *mounts,
			      const struct mount *overlay, struct spot *s)
{
	const struct mount *root = mounts_by_path(mounts, "/");
	struct location *here = &s->v[1];
	struct live *l = p->live;
	int n;

	if (l->upper_of != overlay->id)
		l->upper_error = upper_find(mounts, overlay, &l->upper);
	l->upper_of = overlay->id;
	if (l->upper_error == 0)
		return NULL;
	/* A container's own root lies where the container sees nothing: but for it there is nothing
	 * here that could be protected. */
	if (l->upper_error < 0)
		return root && root->dev == overlay->dev
			       ? NULL
			       : "is on an overlay whose upper directory cannot be found from "
				 "here, so whether that is protected is not known";
	n = snprintf(here->path, sizeof(here->path), "%s%s", l->upper.path, s->v[0].path);
	if (n < 0 || (size_t)n >= sizeof(here->path))
		return "lies too deep to be told apart from what is protected";
	here->dev = l->upper.dev;
	s->n = 2;
	return NULL;
}

/* Where a directory is. Returns NULL, or why that cannot be told or nothing may go there. */
static const char *spot_find(const struct protect *p, int dirfd, char *path, struct spot *s)
{
	const struct mounts *mounts = mounts_now(p);
	ssize_t len = fd_path(dirfd, path, PATH_MAX);
	struct identity id;

	s->n = 0;
	if (!mounts)
		return "cannot be told apart from what is protected: the mount table cannot be "
		       "read";
	s->mount = fd_whereabouts(dirfd, "", 0, &id) < 0 ? NULL : mounts_by_id(mounts, id.mnt_id);
	if (!s->mount)
		return "is on a mount that this process cannot see";
	if (is_one_of(s->mount->type, pseudo_filesystems, ELEMENTSOF(pseudo_filesystems)))
		return "is on a pseudo-filesystem of the kernel";
	if (len == -ENAMETOOLONG)
		return "lies too deep to be told apart from what is protected";
	if (len < 0 || path[0] != '/')
		return "cannot be told apart from what is protected";
	if (mount_location(s->mount, path, &s->v[0]) < 0)
		return "lies where its filesystem cannot be told";
	s->n = 1;
	return strcmp(s->mount->type, "overlay") == 0 ? spot_upper(p, mounts, s->mount, s) : NULL;
}

/* Looks at each directory on the way to `path`, where dirfd is, by identity: another spelling of a
 * protected directory is still that directory. */
static const char *ancestor_reason(const struct protect *p, int dirfd, const char *path)
{
	char prefix[PATH_MAX], *cleared = p->live->cleared;
	size_t full = strlen(path), len = full;
	struct identity id, at;

	if (fd_whereabouts(dirfd, "", 0, &id) < 0)
		return "cannot be looked at";
	memcpy(prefix, path, len + 1);
	while (len == full || strcmp(prefix, cleared) != 0) {
		const struct entry *e;

		if (fd_whereabouts(AT_FDCWD, prefix, AT_SYMLINK_NOFOLLOW, &at) < 0)
			return "lies in a directory that cannot be looked at";
		if (len == full && (at.ino != id.ino || at.dev != id.dev))
			return "is not where its path leads: it has just been moved, or something "
			       "is mounted over it";
		e = find(p->v, p->n, &at);
		if (e && e->content)
			return e->reason;
		if (len <= 1)
			break;
		len = path_parent(prefix, len);
		prefix[len] = '\0';
	}
	memcpy(cleared, path, full + 1);
	cleared[path_parent(path, full)] = '\0';
	return NULL;
}

/* On this filesystem there is something protected of which only the identity is known. */
static bool has_unlocated(const struct protect *p, int dirfd)
{
	struct identity id;

	if (fd_whereabouts(dirfd, "", 0, &id) < 0)
		return true;
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].unlocated && p->v[i].content && p->v[i].dev == id.dev)
			return true;
	return false;
}

int protect_locate(const struct protect *p, int dirfd, struct location *ret)
{
	const struct mounts *mounts = mounts_now(p);
	char path[PATH_MAX];
	ssize_t len = fd_path(dirfd, path, sizeof(path));
	const struct mount *m;
	struct identity id;

	if (!mounts || len < 0 || path[0] != '/' || fd_whereabouts(dirfd, "", 0, &id) < 0)
		return -ESTALE;
	m = mounts_by_id(mounts, id.mnt_id);
	return m && mount_location(m, path, ret) >= 0 ? 0 : -ESTALE;
}

/* Returns true if one of the places of s is, or lies in, a staging area. */
static bool spot_is_staging(const struct protect *p, const struct spot *s)
{
	const struct mounts *mounts = mounts_now(p);

	for (size_t i = 0; i < s->n; i++)
		if (!mounts || unlisted_is_staging(mounts, &s->v[i]))
			return true;
	return false;
}

/* Returns true if one of the places of s is the directory top, or lies in it and not in except. */
static bool spot_is_beneath(const struct protect *p, const struct spot *s, const char *top,
			    const char *except)
{
	const struct mounts *mounts = mounts_now(p);

	for (size_t i = 0; i < s->n; i++)
		if (!mounts || unlisted_is_beneath(mounts, &s->v[i], top, except))
			return true;
	return false;
}

const char *protect_check_content(const struct protect *p, int dirfd, bool staged)
{
	char path[PATH_MAX];
	struct spot s;
	const char *reason = spot_find(p, dirfd, path, &s);

	if (!reason)
		reason = ancestor_reason(p, dirfd, path);
	for (size_t i = 0; !reason && i < s.n; i++)
		reason = locations_around(&p->locations, &s.v[i]);
	/* A device is one even if /dev is a tmpfs, as in a container. Programs keep data in
	 * /dev/shm. */
	if (!reason && spot_is_beneath(p, &s, "/dev", "/dev/shm"))
		return belongs;
	if (!reason && !staged && spot_is_staging(p, &s))
		return own;
	if (!reason && has_unlocated(p, dirfd))
		return "is on a filesystem of which a part is protected, and this process cannot "
		       "see which";
	return reason;
}

/* Is a directory with this name, or something in one, mounted elsewhere? A file that is stays
 * there. */
static bool is_mounted(const struct mounts *mounts, const struct location *at)
{
	for (size_t i = 0; i < mounts->n; i++) {
		const struct mount *m = &mounts->v[i];
		struct identity id;

		if ((at->dev && m->dev != at->dev) || !mount_root_beneath(m, at))
			continue;
		/* What is covered by another mount is taken for a directory. */
		if (fd_whereabouts(AT_FDCWD, m->target, AT_SYMLINK_NOFOLLOW, &id) < 0 ||
		    id.mnt_id != m->id || S_ISDIR(id.mode))
			return true;
	}
	return false;
}

/* Is what is called so in a directory at a protected place, or does it hold one? */
static const char *location_reason(const struct protect *p, struct spot *s, const char *name,
				   bool is_dir)
{
	for (size_t i = 0; i < s->n; i++) {
		struct location *at = &s->v[i];
		const char *reason;

		if (!path_join(at->path, sizeof(at->path), name))
			return "lies too deep to be told apart from what is protected";
		reason = locations_at(&p->locations, at);
		if (reason)
			return reason;
		if (is_dir && locations_beneath(&p->locations, at))
			return "holds what is protected";
	}
	return NULL;
}

/* Returns why `name` in dirfd, which is at the places of s, is protected although no list has it;
 * or NULL. */
static const char *unlisted_reason(const struct protect *p, const struct spot *s, int dirfd,
				   const char *name)
{
	const char *reason = NULL;

	if (strcmp(name, STAGING_DIR) == 0 && spot_is_staging(p, s))
		return own;
	if (spot_is_beneath(p, s, "/run", NULL))
		reason = unlisted_check_sockets(dirfd, name);
	if (!reason && spot_is_beneath(p, s, "/home", NULL))
		reason = unlisted_check_homes(&p->live->homes, dirfd, name);
	return reason;
}

/* Reads path and spot again: the directory may have been moved since its content was checked. */
static const char *hold_reason(const struct protect *p, int dirfd, const char *name, bool is_dir,
			       bool staged)
{
	char path[PATH_MAX];
	struct spot s;
	const char *reason = spot_find(p, dirfd, path, &s);
	const struct mounts *mounts = mounts_now(p);

	if (!reason)
		reason = location_reason(p, &s, name, is_dir);
	/* From here on s is where the name is, not its directory. */
	if (!reason && !staged)
		reason = unlisted_reason(p, &s, dirfd, name);
	if (reason || !is_dir)
		return reason;
	if (!path_join(path, sizeof(path), name))
		return "lies too deep to be told apart from what is protected";
	if (!mounts)
		return "cannot be told apart from what is protected: the mount table cannot be "
		       "read";
	if (mounts_beneath(mounts, path, /* strictly= */ false))
		return "holds a mount point";
	for (size_t i = 0; i < s.n; i++)
		if (is_mounted(mounts, &s.v[i]))
			return "is mounted elsewhere, or holds what is: unmount it there first";
	return NULL;
}

const char *protect_check_owner(const struct protect *p, uid_t uid, const struct identity *id)
{
	return unlisted_is_home_of(&p->live->homes, uid, id) ? home : NULL;
}

const char *protect_check(const struct protect *p, int dirfd, const char *name,
			  const struct identity *id, bool staged)
{
	const char *reason = protect_check_content(p, dirfd, staged);
	struct identity now, dir;
	const struct entry *e;
	struct stat st;

	if (reason)
		return reason;
	if (!name[0] || fd_whereabouts(dirfd, name, AT_SYMLINK_NOFOLLOW, &now) < 0)
		return "cannot be looked at";
	if (now.is_mount_root)
		return "is a mount point";
	e = find(p->v, p->n, &now);
	if (e)
		return e->reason;
	if (!staged && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 &&
	    protect_check_owner(p, st.st_uid, &now))
		return home;
	if (fd_whereabouts(dirfd, "", 0, &dir) < 0)
		return "lies in a directory that cannot be looked at";
	if (dir.is_mount_root && is_one_of(name, mount_root_names, ELEMENTSOF(mount_root_names)))
		return "belongs to its filesystem";
	return hold_reason(p, dirfd, name, S_ISDIR(id->mode), staged);
}

bool protect_near(const struct protect *p, int dirfd)
{
	const struct mounts *mounts;
	char path[PATH_MAX];
	struct identity id;
	struct stat st;
	struct spot s;

	if (fd_whereabouts(dirfd, "", 0, &id) < 0 || spot_find(p, dirfd, path, &s))
		return true;
	mounts = mounts_now(p);
	if (!mounts || id.is_mount_root || find(p->parents, p->n_parents, &id) ||
	    mounts_beneath(mounts, path, /* strictly= */ true))
		return true;
	for (size_t i = 0; i < s.n; i++)
		if (locations_beneath(&p->locations, &s.v[i]) || is_mounted(mounts, &s.v[i]))
			return true;
	if (spot_is_beneath(p, &s, "/run", NULL))
		return true;
	return fstat(dirfd, &st) < 0 || (st.st_uid == 0 && spot_is_beneath(p, &s, "/home", NULL));
}
