/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "survey-state.h"

void spot_path(const struct survey *s, const struct spot *at, const char *name, char *buf,
	       size_t len)
{
	const char *dir = s->target->dir;
	size_t n = strlen(dir);

	if (at->l)
		at->l->path(at->l, name, buf, len);
	else
		(void)snprintf(buf, len, "%s%s%s", dir, n > 0 && dir[n - 1] != '/' ? "/" : "",
			       s->target->name);
}

/* Lists who has an entry open. */
static void holders_note(struct survey *s, const struct spot *at, const char *name,
			 const struct holder *h, size_t n)
{
	char path[PATH_MAX];

	s->f.open_entries++;
	if (s->f.n_open == SURVEY_OPEN_SHOWN)
		return;
	spot_path(s, at, name, path, sizeof(path));
	for (size_t i = 0; i < n && s->f.n_open < SURVEY_OPEN_SHOWN; i++) {
		struct survey_open *o = &s->f.open[s->f.n_open];

		o->path = strdup(path);
		if (!o->path)
			return;
		o->holder = h[i];
		holder_command(&h[i], o->command, sizeof(o->command));
		s->f.n_open++;
	}
}

/* A file with further names: its blocks go with the last of them, if all lie inside. Returns what
 * deleting this one frees. */
static uint64_t linked_take(struct survey *s, const struct statx *sx, uint64_t bytes)
{
	uint64_t dev = makedev(sx->stx_dev_major, sx->stx_dev_minor);
	uint32_t seen = links_add(&s->links, dev, sx->stx_ino);

	tally_add(&s->linked_entries, &s->sampler, 1);
	tally_add(&s->linked_share, &s->sampler, bytes / sx->stx_nlink);
	if (seen == 0) {
		s->linked_kept += bytes / sx->stx_nlink;
		return 0;
	}
	if (seen == 1)
		s->linked_kept += bytes;
	if (seen != sx->stx_nlink)
		return 0;
	s->linked_kept -= bytes;
	s->linked_freed += bytes;
	return bytes;
}

static void largest_take(struct survey *s, const struct spot *at, const char *name,
			 const struct statx *sx)
{
	struct top_entry e = {
		.dev = makedev(sx->stx_dev_major, sx->stx_dev_minor),
		.ino = sx->stx_ino,
		.amount = sx->stx_blocks * 512,
		.size_bytes = sx->stx_size,
	};
	char path[PATH_MAX];

	if (!top_wants(&s->f.largest_files, e.amount))
		return;
	spot_path(s, at, name, path, sizeof(path));
	e.path = path;
	top_put(&s->f.largest_files, &e);
}

/* What comes free with an entry. One that stays frees nothing, nor does a directory here: one whose
 * type the listing did not say is weighed when it is entered. */
static void weigh(struct survey *s, const struct statx *sx, bool stays)
{
	uint64_t bytes = sx->stx_blocks * 512, freed = 0;

	if (!stays && !S_ISDIR(sx->stx_mode))
		freed = sx->stx_nlink > 1 ? linked_take(s, sx, bytes) : bytes;
	sampler_looked(&s->sampler, (double)freed);
	tally_add(&s->bytes, &s->sampler, freed);
	if (S_ISREG(sx->stx_mode) && sx->stx_nlink == 1 && freed >= ENGINE_LARGE_FILE)
		tally_add(&s->large_files, &s->sampler, 1);
}

/* True if the entry has to stay. */
static bool obstacle_look(struct survey *s, const struct spot *at, const char *name,
			  const struct statx *sx)
{
	const char *why = obstacle_of_entry(&s->caller, sx, at->level->sticky, at->level->owner);
	char path[PATH_MAX];

	if (at->level->blocked)
		return true; /* counted with its directory */
	if (!why)
		return false;
	tally_add(&s->undeletable, &s->sampler, 1);
	spot_path(s, at, name, path, sizeof(path));
	obstacles_add(&s->f.obstacles, path, why, 0);
	return true;
}

/* Looks at one entry that is no directory, as far as is known. Returns whether *ret is filled. */
static bool look(struct survey *s, const struct spot *at, const char *name, struct statx *ret)
{
	bool stays;

	if (!sampler_next(&s->sampler))
		return false;
	if (statx(at->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		  STATX_BASIC_STATS, ret) < 0)
		return false; /* gone meanwhile, or unreadable: the others speak for it */
	s->f.looked_at++;
	stays = obstacle_look(s, at, name, ret);
	weigh(s, ret, stays);
	/* What is mounted over an entry is not the entry. */
	if (ret->stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return false;
	if (S_ISREG(ret->stx_mode))
		largest_take(s, at, name, ret);
	return true;
}

static void type_count(struct findings *f, uint8_t type)
{
	switch (type) {
	case DT_REG:
		f->files++;
		break;
	case DT_DIR:
		f->directories++;
		break;
	case DT_LNK:
		f->symlinks++;
		break;
	case DT_UNKNOWN:
		f->unknown++;
		break;
	default:
		f->others++;
	}
}

static bool is_held(const struct spot *at, const char *name, const struct holder *h)
{
	struct statx sx;

	return statx(at->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		     STATX_INO, &sx) == 0 &&
	       h->ino == sx.stx_ino && h->dev == makedev(sx.stx_dev_major, sx.stx_dev_minor);
}

void survey_take(struct survey *s, const struct spot *at, const char *name, uint64_t ino,
		 uint8_t type)
{
	const struct holder *h;
	struct statx sx;
	size_t n = 0;
	bool looked = type != DT_DIR && look(s, at, name, &sx);

	s->f.entries++;
	type_count(&s->f, looked ? (uint8_t)IFTODT(sx.stx_mode) : type);
	h = holders_find(s->holders, at->level->dev, ino, &n);
	/* What is listed for a subvolume is its tree's number, which some inode may have, too. */
	if (type == DT_DIR && h && !is_held(at, name, h))
		h = NULL;
	/* overlayfs lists one inode number and device, and may tell others. */
	if (looked && !h)
		h = holders_find(s->holders, makedev(sx.stx_dev_major, sx.stx_dev_minor),
				 sx.stx_ino, &n);
	if (h)
		holders_note(s, at, name, h, n);
}

void survey_conclude(struct survey *s)
{
	struct findings *f = &s->f;
	const struct sampler *of = &s->sampler;
	uint64_t share = tally_total(&s->linked_share, of);

	f->sampled = !sampler_exact(of);
	f->bytes = s->directory_bytes + tally_total(&s->bytes, of);
	f->bytes_margin = sampler_margin(of);
	f->large_files = tally_total(&s->large_files, of);
	f->linked_entries = tally_total(&s->linked_entries, of);
	f->linked_bytes = f->sampled ? share - MIN(share, s->linked_freed) : s->linked_kept;
	f->undeletable = MIN(f->entries, s->undeletable_known + tally_total(&s->undeletable, of));
	if (s->directories_read > 0)
		f->mean_entries = (double)(f->entries - 1) / (double)s->directories_read;
	f->most_entries = f->largest_directories.n ? f->largest_directories.v[0].amount : 0;
}
