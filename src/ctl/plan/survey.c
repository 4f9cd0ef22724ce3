/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "survey.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/remove/subvolume.h"
#include "base/macros.h"
#include "policy/links.h"

/* After LARGE_AFTER the scan works for READ_FOR and then pauses for as long, so that it takes at
 * most half of the disk's time. */
#define LARGE_AFTER (2 * USEC_PER_SEC)
#define READ_FOR (50 * USEC_PER_MSEC)

/* Number of levels that are kept, of 40 bytes each. In deeper directories each chunk of a listing
 * counts as a directory. */
#define LEVELS_MOST 4096

/* Maximum number of examples of entries that cannot be deleted, and of open entries. */
#define EXAMPLES_MOST 10

/* Any value except 0 limits a chunk of a listing to 64 KiB, about 2,000 entries. The scan pauses
 * only between chunks. */
#define CHUNK_MEMORY 1

/* Maximum number of files with several names that are remembered, which takes 3 MiB. */
#define LINKED_MOST 65536

/* A directory between the target and the directory that is being read. */
struct survey_level {
	uint64_t dev, ino, entries;
	bool blocked; /* true if no entry of it can be deleted */
	bool sticky;
	uid_t owner;
};

struct survey {
	const struct target *target;
	const struct holders *holders;
	struct progress *bar;
	const _Atomic bool *interrupted;
	struct engine *engine;
	struct identity pin;
	struct findings f;
	uid_t euid;
	bool fowner; /* true if this process has CAP_FOWNER and so may ignore sticky bits */

	struct survey_level *levels; /* [0] is the parent of the target; the last one serves all
					deeper levels */

	struct links linked; /* files with several names */
	uint64_t directories_read;

	uint64_t began_usec, woke_usec;
};

/* The position of an entry: a directory that is being listed. l is NULL for the target itself. */
struct survey_place {
	int fd;
	const struct survey_level *level;
	const struct engine_listing *l;
};

/* Writes the path of the entry `name`, or of the directory if `name` is NULL, into `buf`, which has
 * PATH_MAX bytes. Returns buf. */
static char *spot_path(const struct survey *s, const struct survey_place *at, const char *name,
		       char *buf)
{
	const char *dir = s->target->dir;
	size_t n = strlen(dir);

	if (at->l)
		at->l->path(at->l, name, buf, PATH_MAX);
	else
		(void)snprintf(buf, PATH_MAX, "%s%s%s", dir, n > 0 && dir[n - 1] != '/' ? "/" : "",
			       s->target->name);
	return buf;
}

static uint64_t dev_of(const struct statx *sx)
{
	return makedev(sx->stx_dev_major, sx->stx_dev_minor);
}

/* ---- what cannot be deleted ----------------------------------------------------------------- */

/* Returns true if this process has CAP_FOWNER. */
static bool is_fowner(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capget, &header, data) == 0 &&
	       data[CAP_TO_INDEX(CAP_FOWNER)].effective & CAP_TO_MASK(CAP_FOWNER);
}

/* Returns why no entry of a directory can be deleted; NULL if entries can. */
static const char *why_content(int fd, const struct statx *sx)
{
	if (sx->stx_attributes & STATX_ATTR_IMMUTABLE)
		return "is immutable (chattr +i), so its entries cannot be deleted";
	if (sx->stx_attributes & STATX_ATTR_APPEND)
		return "is append-only (chattr +a), so its entries cannot be deleted";
	if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0)
		return NULL;
	if (errno == EROFS)
		return "is mounted read-only";
	return errno == EACCES || errno == EPERM
		       ? "you may not delete its entries: no write permission"
		       : "its permissions could not be read";
}

/* Returns why an entry of the directory `in` cannot be deleted; NULL if it can. */
static const char *why_entry(const struct survey *s, const struct statx *sx,
			     const struct survey_level *in)
{
	if (sx->stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return "is a mount point";
	if (sx->stx_attributes & STATX_ATTR_IMMUTABLE)
		return "is immutable (chattr +i)";
	if (sx->stx_attributes & STATX_ATTR_APPEND)
		return "is append-only (chattr +a)";
	if (in->sticky && !s->fowner && in->owner != s->euid && sx->stx_uid != s->euid)
		return "belongs to another user and lies in a sticky directory";
	return NULL;
}

/* Adds an entry that cannot be deleted to the examples, if there are fewer than EXAMPLES_MOST. */
static void obstacle_add(struct survey *s, const char *path, const char *reason, int error)
{
	char text[96];

	if (json_array_size(s->f.reasons) >= EXAMPLES_MOST)
		return;
	(void)snprintf(text, sizeof(text), "%s%s%s", reason, error < 0 ? ": " : "",
		       error < 0 ? strerror(-error) : "");
	(void)json_array_append_new(s->f.reasons, json_pack("{so so}", "path", json_path(path),
							    "reason", json_words(text)));
}

/* ---- the largest ---------------------------------------------------------------------------- */

/* Inserts an entry if it is one of the largest. An entry with the same identity moves up instead.
 * Does nothing if memory is short. */
static void largest_put(const struct survey *s, struct largest *t, const struct survey_place *at,
			const char *name, struct largest_entry e)
{
	char path[PATH_MAX];
	size_t i = 0;

	if (e.amount == 0 || (t->n == LARGEST_MOST && e.amount <= t->v[LARGEST_MOST - 1].amount))
		return;
	while (i < t->n && (t->v[i].dev != e.dev || t->v[i].ino != e.ino))
		i++;
	if (i < t->n) {
		e.path = t->v[i].path;
		e.amount = MAX(e.amount, t->v[i].amount);
	} else {
		e.path = strdup(spot_path(s, at, name, path));
		if (!e.path)
			return;
		if (t->n == LARGEST_MOST)
			free(t->v[--t->n].path);
		i = t->n++;
	}
	for (; i > 0 && t->v[i - 1].amount < e.amount; i--)
		t->v[i] = t->v[i - 1];
	t->v[i] = e;
}

/* ---- hard links ----------------------------------------------------------------------------- */

/* Counts a name of a file with several names. Returns the number of bytes that deleting it frees: 0
 * unless it is the last name. */
static uint64_t linked_take(struct survey *s, const struct statx *sx, uint64_t bytes)
{
	const struct link_file now = { .ino = sx->stx_ino,
				       .dev = link_dev(sx->stx_dev_major, sx->stx_dev_minor),
				       .nlink = sx->stx_nlink };
	struct link_file *file = links_file(&s->linked, &now, LINKED_MOST);
	/* 0 if unknown, because too many files have several names or memory is short */
	uint32_t seen = file ? ++file->names : 0;
	struct findings *f = &s->f;

	f->linked_entries++;
	if (seen == 0)
		f->linked_bytes += bytes / sx->stx_nlink;
	if (seen == 1)
		f->linked_bytes += bytes;
	if (seen != sx->stx_nlink)
		return 0;
	/* The file may have grown since its first name was seen. */
	f->linked_bytes -= MIN(f->linked_bytes, bytes);
	return bytes;
}

/* ---- entries -------------------------------------------------------------------------------- */

/* Examines an entry that is not known to be a directory. Returns true if *ret is filled. */
static bool entry_examine(struct survey *s, const struct survey_place *at, const char *name,
			  struct statx *ret)
{
	const char *why;
	char path[PATH_MAX];
	uint64_t bytes, freed = 0;

	if (statx(at->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		  STATX_BASIC_STATS, ret) < 0)
		return false; /* it has been removed, or cannot be read */
	bytes = ret->stx_blocks * 512;
	/* on_listed() has counted the entries of a blocked directory. */
	why = at->level->blocked ? NULL : why_entry(s, ret, at->level);
	if (why) {
		s->f.undeletable++;
		obstacle_add(s, spot_path(s, at, name, path), why, 0);
	}
	/* directory_take() counts the blocks of directories. */
	if (!why && !at->level->blocked && !S_ISDIR(ret->stx_mode))
		freed = ret->stx_nlink > 1 ? linked_take(s, ret, bytes) : bytes;
	s->f.bytes += freed;
	if (S_ISREG(ret->stx_mode) && ret->stx_nlink == 1 && freed >= ENGINE_LARGE_FILE)
		s->f.large_files++;
	/* The numbers of a mount point are those of the mounted filesystem. */
	if (ret->stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return false;
	if (S_ISREG(ret->stx_mode))
		largest_put(s, &s->f.largest_files, at, name,
			    (struct largest_entry){ .dev = dev_of(ret),
						    .ino = ret->stx_ino,
						    .amount = bytes,
						    .size_bytes = ret->stx_size });
	return true;
}

static void type_count(struct findings *f, uint8_t type)
{
	f->files += type == DT_REG;
	f->directories += type == DT_DIR;
	f->symlinks += type == DT_LNK;
	f->unknown += type == DT_UNKNOWN;
	f->others += type != DT_REG && type != DT_DIR && type != DT_LNK && type != DT_UNKNOWN;
}

/* Returns the processes and devices that use an entry; NULL if there are none. */
static const struct file_holder *entry_holders(const struct survey *s,
					       const struct survey_place *at, const char *name,
					       uint64_t ino, uint8_t type,
					       const struct statx *examined, size_t *ret_n)
{
	const struct file_holder *h = holders_find(s->holders, at->level->dev, ino, ret_n);
	struct statx sx;

	/* The listing has the number of the tree for a subvolume, which may also be the number of
	 * an inode. */
	if (type == DT_DIR && h &&
	    (statx(at->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		   STATX_INO, &sx) < 0 ||
	     h->ino != sx.stx_ino || h->dev != dev_of(&sx)))
		h = NULL;
	/* overlayfs may list another inode number and device than statx() reports. */
	if (examined && !h)
		h = holders_find(s->holders, dev_of(examined), examined->stx_ino, ret_n);
	return h;
}

/* Counts an entry, and records which processes use it. */
static void entry_take(struct survey *s, const struct survey_place *at, const char *name,
		       uint64_t ino, uint8_t type)
{
	struct findings *f = &s->f;
	const struct file_holder *h;
	struct statx sx;
	char path[PATH_MAX];
	size_t n = 0;
	bool examined = type != DT_DIR && entry_examine(s, at, name, &sx);

	f->entries++;
	type_count(f, examined ? (uint8_t)IFTODT(sx.stx_mode) : type);
	h = entry_holders(s, at, name, ino, type, examined ? &sx : NULL, &n);
	if (!h)
		return;
	f->open_entries++;
	for (; n > 0 && json_array_size(f->holders) < EXAMPLES_MOST; n--, h++) {
		char command[64];

		(void)json_array_append_new(
			f->holders,
			json_pack("{so ss so so}", "path", json_path(spot_path(s, at, name, path)),
				  "how", holder_how_name(h->how), "pid",
				  h->how == HOLDER_LOOP ? json_null() : json_integer(h->pid),
				  "command",
				  json_path(holder_command(h, command, sizeof(command)))));
	}
}

/* ---- directories ---------------------------------------------------------------------------- */

/* Pauses if the scan has worked for READ_FOR since its last pause. */
static void pace(struct survey *s)
{
	uint64_t now = now_usec(), until;

	if (now - s->began_usec < LARGE_AFTER)
		s->woke_usec = now;
	if (now - s->woke_usec < READ_FOR)
		return;
	until = now + (now - s->woke_usec);
	while ((now = now_usec()) < until && !*s->interrupted)
		(void)usleep((useconds_t)MIN(until - now, READ_FOR));
	s->woke_usec = now_usec();
}

/* Fills in a level from its open directory. Returns why its entries cannot be deleted, or NULL. */
static const char *level_fill(struct survey_level *v, int fd, struct statx *ret)
{
	const char *why;

	*v = (struct survey_level){ 0 };
	if (statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_BASIC_STATS,
		  ret) < 0)
		return NULL;
	why = why_content(fd, ret);
	*v = (struct survey_level){ .dev = dev_of(ret),
				    .ino = ret->stx_ino,
				    .blocked = why != NULL,
				    .sticky = ret->stx_mode & S_ISVTX,
				    .owner = ret->stx_uid };
	return why;
}

/* Counts a directory when its first chunk is listed. `why` is the result of level_fill(). */
static void directory_take(struct survey *s, const struct survey_place *at, const struct statx *sx,
			   const char *why)
{
	uint64_t above = at->l->depth - 1;
	const char *own = above < LEVELS_MOST && !s->levels[above].blocked
				  ? why_entry(s, sx, &s->levels[above])
				  : NULL;
	char path[PATH_MAX];

	s->directories_read++;
	s->f.undeletable += own != NULL;
	if (!own && !at->level->blocked)
		s->f.bytes += sx->stx_blocks * 512;
	/* An empty directory can be removed although its entries could not. */
	if (!why || at->l->list->n == 0)
		why = own;
	if (why)
		obstacle_add(s, spot_path(s, at, NULL, path), why, 0);
	if (engine_profile(s->engine)->subvolumes && subvolume_is(at->l->fd))
		s->f.subvolumes++;
}

static void on_listed(const struct engine_listing *l, void *userdata)
{
	struct survey *s = userdata;
	bool known = l->depth < LEVELS_MOST;
	struct survey_level *v = &s->levels[known ? l->depth : LEVELS_MOST];
	struct survey_place at = { l->fd, v, l };
	struct statx sx;

	assert(l->depth > 0);
	if (*s->interrupted)
		engine_cancel(s->engine);
	if (!known || l->first) {
		const char *why = level_fill(v, l->fd, &sx);

		if (l->first && v->ino)
			directory_take(s, &at, &sx, why);
	}
	v->entries += l->list->n;
	if (v->blocked)
		s->f.undeletable += l->list->n;
	if (l->list->n > 0)
		s->f.depth = MAX(s->f.depth, l->depth);
	largest_put(s, &s->f.largest_directories, &at, NULL,
		    (struct largest_entry){ .dev = v->dev, .ino = v->ino, .amount = v->entries });
	for (size_t i = 0; i < l->list->n; i++)
		entry_take(s, &at, dirlist_name(l->list, &l->list->v[i]), l->list->v[i].ino,
			   l->list->v[i].type);
	pace(s);
}

static void on_problem(const struct engine_problem *p, void *userdata)
{
	struct survey *s = userdata;

	s->f.undeletable++;
	if (p->is_error)
		s->f.unread++;
	else
		s->f.left++;
	obstacle_add(s, p->path, p->what, p->error);
}

static void on_progress(const struct engine_progress *p, void *userdata)
{
	struct survey *s = userdata;

	progress_update(s->bar, p);
	if (*s->interrupted)
		engine_cancel(s->engine);
}

/* ---- the whole survey ----------------------------------------------------------------------- */

void findings_done(struct findings *f)
{
	json_decref(f->reasons);
	json_decref(f->holders);
	for (size_t i = 0; i < f->largest_files.n; i++)
		free(f->largest_files.v[i].path);
	for (size_t i = 0; i < f->largest_directories.n; i++)
		free(f->largest_directories.v[i].path);
	*f = (struct findings){ 0 };
}

/* Counts the target itself, and checks its parent directory. */
static void take_target(struct survey *s)
{
	const struct target *t = s->target;
	struct survey_level own;
	struct statx sx;
	const char *why = level_fill(&s->levels[0], t->dirfd, &sx);

	if (why) {
		s->f.undeletable++;
		obstacle_add(s, t->dir[0] ? t->dir : ".", why, 0);
	}
	/* A subvolume has another device number than its parent directory. */
	own = s->levels[0];
	own.dev = t->id.dev;
	entry_take(s, &(struct survey_place){ t->dirfd, &own, NULL }, t->name, t->id.ino,
		   (uint8_t)IFTODT(t->id.mode));
}

static int walk(struct survey *s)
{
	const struct target *t = s->target;
	/* Restricts the walk to the target. */
	struct root_group g = { .dir = t->dir,
				.dirfd = t->dirfd,
				.accepted = true,
				.pins = &s->pin,
				.explicit_names = true };
	int r = fd_identity(t->dirfd, "", &g.id);

	if (r >= 0)
		r = dirlist_add(&g.names, t->name, 0, DT_DIR);
	if (r >= 0)
		r = engine_add(s->engine, &g);
	dirlist_done(&g.names);
	return r < 0 ? r : engine_run(s->engine);
}

static void conclude(struct survey *s)
{
	struct findings *f = &s->f;

	f->complete = !*s->interrupted;
	f->undeletable = MIN(f->entries, f->undeletable);
	if (s->directories_read > 0)
		f->mean_entries = (double)(f->entries - 1) / (double)s->directories_read;
	f->most_entries = f->largest_directories.n ? f->largest_directories.v[0].amount : 0;
}

int survey(struct findings *ret, const struct target *t, const struct holders *h,
	   struct progress *bar, const _Atomic bool *interrupted)
{
	struct survey s = {
		.target = t,
		.pin = t->id,
		.holders = h,
		.bar = bar,
		.interrupted = interrupted,
		.f = { .mode = t->id.mode, .reasons = json_array(), .holders = json_array() },
		.euid = geteuid(),
		.fowner = is_fowner(),
		.levels = calloc(LEVELS_MOST + 1, sizeof(*s.levels)),
		.began_usec = now_usec(),
		.woke_usec = now_usec()
	};
	const struct engine_options o = {
		.fixed_backend = true,
		.backend = BACKEND_THREADS,
		.lanes = 1,
		.dry = true,
		.memory_bytes = CHUNK_MEMORY,
		.problem = on_problem,
		.listed = on_listed,
		.progress = on_progress,
		.userdata = &s,
	};
	int r = s.levels ? engine_new(&s.engine, &o, t->dirfd) : -ENOMEM;

	if (r >= 0)
		take_target(&s);
	if (r >= 0 && S_ISDIR(s.f.mode))
		r = walk(&s);
	conclude(&s);
	if (r >= 0)
		*ret = s.f;
	else
		findings_done(&s.f);
	engine_free(s.engine);
	links_done(&s.linked);
	free(s.levels);
	return r;
}
