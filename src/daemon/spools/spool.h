/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Spools: directories whose content is deleted. Watches them with inotify, waits until an entry has
 * not changed for the time that is configured, and offers what is due, many at once, to the
 * part that submits it. Submits and deletes nothing itself. Owns the watches and what it remembers.
 *
 *   inotify, timer, spools_check --> names to check --thread--> spool-round
 *   what was seen --> spool-entries --what is due, by authority--> take --> spools_taken
 *
 * A spool that does not exist, is unmounted or is replaced is picked up when it appears: each
 * directory on the way to it is watched for being moved or removed, the last one that exists for
 * what is made in it; the caller watches the mount table. Between two rounds no descriptor is held,
 * so that filesystems can be unmounted.
 *
 * A directory's times tell of changes in itself, not of those further down: `settle` has to be
 * longer than the pauses of the program that fills a tree in the spool. Better is to make it
 * elsewhere and move it there. What is put back into a spool stays there: spool-returned.h.
 *
 * Whose authority is used: spool-authority.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "config/config.h"
#include "base/fd.h"
#include "daemon/workers/worker-handle.h"

struct spools;

/* Entries of one spool that became due together, with one authority. */
struct spool_batch {
	uint64_t id;  /* for spools_taken */
	char *origin; /* "spool:/backups/.trash" */
	char *names;  /* each ended by NUL, as in struct intake_group */
	size_t names_len;
	struct identity *ids; /* of each: what is not that any more must not be deleted */
	size_t n;
	uint64_t undo_usec;
	/* Only during the call that takes it. */
	const char *dir_path;                /* of the spool */
	int dirfd;                           /* the spool itself, O_RDONLY */
	const struct credentials *submitter; /* with the groups of the user database */
};

/* NULL is accepted; returns NULL. */
struct spool_batch *spool_batch_free(struct spool_batch *b);

enum spool_outcome {
	SPOOL_ACCEPTED, /* there is a job, maybe from before a restart; each is left alone while it
			 * is the same file */
	SPOOL_DENIED,   /* one or more of them may not be deleted; nothing was accepted. Offered
			 * again in halves, until it is known which; that one stays, until it
			 * changes */
	SPOOL_LATER,    /* not now, whichever it is: offered again in a minute */
};

struct spools_options {
	/* Takes a batch, to free. Must lead to one spools_taken, in the call or later. */
	void (*take)(struct spool_batch *batch, void *userdata);
	/* Something that an administrator should know, once: `name` in the spool, and whose it is,
	 * or NULL and UID_NONE for the spool itself; the text follows the path. */
	void (*tell)(const char *path, uid_t uid, const char *name, const char *text,
		     void *userdata);
	void *userdata;
};

enum spool_state {
	SPOOL_UNKNOWN, /* not known yet */
	SPOOL_ABSENT,
	SPOOL_SERVED,
	SPOOL_UNSERVED, /* the message says why not */
};

/* Strings are valid until the next turn of the event loop. */
struct spool_view {
	const char *path, *message; /* message: why it is not served, or "" */
	enum spool_state state;
	const char *state_name; /* "watching", "absent", "refused" */
	uint64_t settle_usec, undo_usec;
	uint64_t waiting; /* entries */
	uint64_t taken;   /* since the start */
};

int spools_new(struct spools **ret, sd_event *event, const struct spools_options *o);
struct spools *spools_free(struct spools *s);

/* Serves these from now on; what is known of those that stay is kept. `protect` as in struct
 * config; it lives until the next call, or the end. Returns 0 or a negative errno, and then some
 * may be missing. */
int spools_configure(struct spools *s, const struct config_spool *v, size_t n,
		     char *const *protect);

/* What became of a batch. Ids that are not known (any more) are ignored. */
void spools_taken(struct spools *s, uint64_t batch, enum spool_outcome outcome);

/* What was a spool's is put back where it was, or has been, at ctime_nsec (INT64_MAX: not yet): it
 * is left alone until it changes. kept: because it could not be deleted; that is tried again when
 * spools are configured, too. Returns 0; or, once, a negative errno if it cannot be remembered:
 * then nothing is taken from any spool any more. */
int spools_returned(struct spools *s, const struct lasting_identity *id, bool kept,
		    int64_t ctime_nsec);

/* What was to be tried again later is tried now. */
void spools_retry(struct spools *s);

/* The mount table has changed. */
void spools_check(struct spools *s);

/* Fills at most n views; returns how many spools there are. */
size_t spools_list(const struct spools *s, struct spool_view *views, size_t n);
