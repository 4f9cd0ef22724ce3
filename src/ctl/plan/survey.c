/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "survey.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/remove/subvolume.h"
#include "sampler.h"
#include "snapshots.h"

/* So many entries are all examined, and of what is more one in 25: a tree of half a million costs
 * less than one statx for twenty entries. Where each may be a round trip, one in 100. */
#define WHOLE 4096
#define WINDOW 400
#define WHOLE_REMOTE 512
#define WINDOW_REMOTE 1600

/* A tree that takes longer than this is a large one, and is read so long at a time, followed by
 * a pause of the same length. */
#define LARGE_AFTER (2 * USEC_PER_SEC)
#define READ_FOR (50 * USEC_PER_MSEC)

/* Levels remembered, at 40 bytes each; of deeper directories each chunk is taken for a whole one.
 */
#define LEVELS_MOST 4096

/* So many are shown of what cannot be deleted, and of what is open. */
#define EXAMPLES_MOST 10

/* Any value but 0 keeps directory chunks at the lane's own 64 KiB, some 2,000 entries: pauses come
 * between chunks. */
#define CHUNK_MEMORY 1

/* Files with several names, 48 bytes each with the tree's node: some 5 MiB at most. */
#define LINKED_MOST 65536

/* A directory on the way down. */
struct survey_level {
	uint64_t dev, ino, entries;
	bool blocked; /* nothing in it can be deleted */
	bool sticky;
	uid_t owner;
};

/* A file with several names. Deleting one frees nothing until its last name goes, so it matters
 * whether all of them lie inside what is to be deleted. */
struct linked {
	uint64_t dev, ino;
	uint32_t seen;
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
	bool fowner; /* has CAP_FOWNER: sticky directories do not hold it back */

	struct survey_level *levels; /* [0]: the directory that the target lies in; the last: of all
					that are deeper */

	struct sampler sampler;
	void *linked; /* tsearch(3) */
	size_t n_linked;
	uint64_t linked_kept, linked_freed;          /* bytes, by whether all names were seen */
	uint64_t directory_bytes, undeletable_known; /* beside those of the sample */
	uint64_t directories_read;

	struct subvolume container, subvolumes[SUBVOLUMES_MOST];
	size_t n_subvolumes;
	bool contained; /* the target is a part of the container, no subvolume itself */

	uint64_t began_usec, woke_usec;
};

/* Where an entry is: in a directory that is being listed, or the target itself (l is NULL). */
struct survey_place {
	int fd;
	const struct survey_level *level;
	const struct engine_listing *l;
};

/* Writes the path of an entry (NULL: of the directory itself) into buf, PATH_MAX bytes, and returns
 * it. */
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

/* Has the caller CAP_FOWNER? */
static bool is_fowner(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capget, &header, data) == 0 &&
	       data[CAP_TO_INDEX(CAP_FOWNER)].effective & CAP_TO_MASK(CAP_FOWNER);
}

/* Why nothing can be deleted in a directory; NULL if something can. */
static const char *why_content(int fd, const struct statx *sx)
{
	if (sx->stx_attributes & STATX_ATTR_IMMUTABLE)
		return "is immutable (chattr +i), with the names in it";
	if (sx->stx_attributes & STATX_ATTR_APPEND)
		return "is append-only (chattr +a): names in it can only be added";
	if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0)
		return NULL;
	if (errno == EROFS)
		return "is mounted read-only";
	return errno == EACCES || errno == EPERM
		       ? "is a directory that the caller may not change: nothing in it can go"
		       : "is a directory whose permissions cannot be read";
}

/* Why an entry of the directory `in` cannot be deleted itself; NULL if it can. */
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

/* Keeps an example, if it is one of the first. */
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

/* Puts an entry into its place, if it is among the largest; one that is known under its identity
 * moves up. Does nothing if out of memory: it is only an example. */
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

static int by_identity(const void *a, const void *b)
{
	return memcmp(a, b, offsetof(struct linked, seen));
}

/* One more name of a file. Returns how many of its names were seen by now; 0 if that is not known,
 * because there are too many such files or out of memory. */
static uint32_t linked_seen(struct survey *s, const struct statx *sx)
{
	struct linked *own = malloc(sizeof(*own)), **found = NULL;

	if (!own)
		return 0;
	*own = (struct linked){ .dev = dev_of(sx), .ino = sx->stx_ino };
	found = s->n_linked < LINKED_MOST ? tsearch(own, &s->linked, by_identity)
					  : tfind(own, &s->linked, by_identity);
	if (found && *found == own)
		s->n_linked++;
	else
		free(own);
	return found ? ++(*found)->seen : 0;
}

/* A name of a file that has more. Returns what deleting this one frees. */
static uint64_t linked_take(struct survey *s, const struct statx *sx, uint64_t bytes)
{
	uint32_t seen = linked_seen(s, sx);

	sampler_add(&s->sampler, SAMPLE_LINKED_ENTRIES, 1);
	sampler_add(&s->sampler, SAMPLE_LINKED_BYTES, bytes / sx->stx_nlink);
	if (seen == 0)
		s->linked_kept += bytes / sx->stx_nlink;
	if (seen == 1)
		s->linked_kept += bytes;
	if (seen != sx->stx_nlink)
		return 0;
	/* Had it grown meanwhile, it would be more than was added. */
	s->linked_kept -= MIN(s->linked_kept, bytes);
	s->linked_freed += bytes;
	return bytes;
}

/* ---- entries -------------------------------------------------------------------------------- */

/* Examines one entry that is no directory, as far as is known. Returns whether *ret is filled. */
static bool entry_examine(struct survey *s, const struct survey_place *at, const char *name,
			  struct statx *ret)
{
	const char *why;
	char path[PATH_MAX];
	uint64_t bytes, freed = 0;

	if (!sampler_next(&s->sampler) ||
	    statx(at->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		  STATX_BASIC_STATS, ret) < 0)
		return false; /* not its turn; gone meanwhile, or unreadable */
	s->f.examined++;
	bytes = ret->stx_blocks * 512;
	/* What is blocked was counted with its directory. */
	why = at->level->blocked ? NULL : why_entry(s, ret, at->level);
	if (why) {
		sampler_add(&s->sampler, SAMPLE_UNDELETABLE, 1);
		obstacle_add(s, spot_path(s, at, name, path), why, 0);
	}
	/* What stays frees nothing, nor does a directory here: one whose type the listing did not
	 * say is counted when it is entered. */
	if (!why && !at->level->blocked && !S_ISDIR(ret->stx_mode))
		freed = ret->stx_nlink > 1 ? linked_take(s, ret, bytes) : bytes;
	sampler_examined(&s->sampler, freed);
	if (S_ISREG(ret->stx_mode) && ret->stx_nlink == 1 && freed >= ENGINE_LARGE_FILE)
		sampler_add(&s->sampler, SAMPLE_LARGE_FILES, 1);
	/* What is mounted over an entry is not the entry. */
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

/* The holders of an entry; NULL if there are none. */
static const struct file_holder *entry_holders(const struct survey *s,
					       const struct survey_place *at, const char *name,
					       uint64_t ino, uint8_t type,
					       const struct statx *examined, size_t *ret_n)
{
	const struct file_holder *h = holders_find(s->holders, at->level->dev, ino, ret_n);
	struct statx sx;

	/* What is listed for a subvolume is its tree's number, which some inode may have, too. */
	if (type == DT_DIR && h &&
	    (statx(at->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		   STATX_INO, &sx) < 0 ||
	     h->ino != sx.stx_ino || h->dev != dev_of(&sx)))
		h = NULL;
	/* overlayfs lists one inode number and device, and stat may give another. */
	if (examined && !h)
		h = holders_find(s->holders, dev_of(examined), examined->stx_ino, ret_n);
	return h;
}

/* Takes note of an entry: of its type, of what has it open; examines it if it is its turn. */
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

/* Reads for a while, then pauses for as long. */
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

/* Fills in a level from its open directory. Returns why nothing in it can be deleted, or NULL. */
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

static void subvolume_take(struct survey *s, const struct engine_listing *l)
{
	struct subvolume v;

	s->f.subvolumes++;
	if (l->depth == 1)
		s->contained = false;
	if (subvolume_info(l->fd, &v) < 0)
		return;
	s->f.snapshots += v.is_snapshot;
	if (s->n_subvolumes < SUBVOLUMES_MOST)
		s->subvolumes[s->n_subvolumes++] = v;
}

/* What the directory itself is, when it is seen for the first time; `why` is level_fill's. */
static void directory_take(struct survey *s, const struct survey_place *at, const struct statx *sx,
			   const char *why)
{
	uint64_t above = at->l->depth - 1;
	const char *own = above < LEVELS_MOST && !s->levels[above].blocked
				  ? why_entry(s, sx, &s->levels[above])
				  : NULL;
	char path[PATH_MAX];

	s->directories_read++;
	s->undeletable_known += own != NULL;
	if (!own && !at->level->blocked)
		s->directory_bytes += sx->stx_blocks * 512;
	/* An empty directory goes without being changed. */
	if (!why || at->l->list->n == 0)
		why = own;
	if (why)
		obstacle_add(s, spot_path(s, at, NULL, path), why, 0);
	if (engine_profile(s->engine)->subvolumes && subvolume_is(at->l->fd))
		subvolume_take(s, at->l);
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
		s->undeletable_known += l->list->n;
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

	s->undeletable_known++;
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

/* ---- all of it ------------------------------------------------------------------------------ */

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

/* The target itself, and the directory that it lies in. */
static void take_target(struct survey *s)
{
	const struct target *t = s->target;
	struct survey_level own;
	struct statx sx;
	const char *why = level_fill(&s->levels[0], t->dirfd, &sx);

	if (why) {
		s->undeletable_known++;
		obstacle_add(s, t->dir[0] ? t->dir : ".", why, 0);
	}
	/* A subvolume has a device number of its own. */
	own = s->levels[0];
	own.dev = t->id.dev;
	entry_take(s, &(struct survey_place){ t->dirfd, &own, NULL }, t->name, t->id.ino,
		   (uint8_t)IFTODT(t->id.mode));
}

static int walk(struct survey *s)
{
	const struct target *t = s->target;
	/* The target, and nothing else. */
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

/* What has been counted becomes what was found. */
static void conclude(struct survey *s)
{
	struct findings *f = &s->f;
	const struct sampler *of = &s->sampler;
	uint64_t linked = sampler_total(of, SAMPLE_LINKED_BYTES);

	f->complete = !*s->interrupted;
	f->sampled = !sampler_exact(of);
	f->bytes = s->directory_bytes + sampler_total(of, SAMPLE_BYTES);
	f->bytes_margin = sampler_margin(of);
	f->large_files = sampler_total(of, SAMPLE_LARGE_FILES);
	f->linked_entries = sampler_total(of, SAMPLE_LINKED_ENTRIES);
	f->linked_bytes = f->sampled ? linked - MIN(linked, s->linked_freed) : s->linked_kept;
	f->undeletable =
		MIN(f->entries, s->undeletable_known + sampler_total(of, SAMPLE_UNDELETABLE));
	if (s->directories_read > 0)
		f->mean_entries = (double)(f->entries - 1) / (double)s->directories_read;
	f->most_entries = f->largest_directories.n ? f->largest_directories.v[0].amount : 0;
}

static int look(struct survey *s)
{
	_cleanup_close_ int around = -1;
	const struct fs_profile *profile = engine_profile(s->engine);
	int r = 0;

	s->sampler.whole = profile->server ? WHOLE_REMOTE : WHOLE;
	s->sampler.window = profile->server ? WINDOW_REMOTE : WINDOW;
	if (profile->subvolumes)
		around = fd_open_dir(s->target->dirfd, ".");
	s->contained = around >= 0 && subvolume_info(around, &s->container) == 0;
	take_target(s);
	if (S_ISDIR(s->f.mode))
		r = walk(s);
	if (s->contained && s->n_subvolumes < SUBVOLUMES_MOST)
		s->subvolumes[s->n_subvolumes++] = s->container;
	if (around >= 0)
		s->f.snapshots_elsewhere =
			snapshots_elsewhere(around, s->subvolumes, s->n_subvolumes);
	conclude(s);
	return r;
}

int survey(struct findings *ret, const struct target *t, const struct holders *h,
	   struct progress *bar, const _Atomic bool *interrupted)
{
	struct survey s = { .target = t,
			    .pin = t->id,
			    .holders = h,
			    .bar = bar,
			    .interrupted = interrupted,
			    .f = { .mode = t->id.mode,
				   .snapshots_elsewhere = -ENODATA,
				   .reasons = json_array(),
				   .holders = json_array() },
			    .euid = geteuid(),
			    .fowner = is_fowner(),
			    .levels = calloc(LEVELS_MOST + 1, sizeof(*s.levels)),
			    .began_usec = now_usec(),
			    .woke_usec = now_usec() };
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
		r = look(&s);
	if (r >= 0)
		*ret = s.f;
	else
		findings_done(&s.f);
	engine_free(s.engine);
	tdestroy(s.linked, free);
	free(s.levels);
	return r;
}
