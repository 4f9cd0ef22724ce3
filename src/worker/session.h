/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What was submitted and validated: directories, each opened once, and the names in them, so that
 * they can be staged. A name costs 24 bytes and its text, here and not in reclaimd, which bounds
 * how many there are (daemon/held.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "identity.h"
#include "base/error-table.h"
#include "base/fleet-name.h"
#include "engine/guard/user-pin.h"
#include "wire/wire.h"

struct session_dir {
	int fd;     /* O_PATH; -1 where there are too many to keep them open: opened again, and
		     * compared, when it is needed */
	char *path; /* as the kernel names it */
	struct found found;
	uint64_t fsid;
	bool near;           /* something in it is protected: each name is checked */
	bool read_only;      /* by the mount through which the submitter has it */
	bool covered;        /* in the submitter's view, something in it is mounted: likewise */
	struct user_pin pin; /* of it, or of one that it lies in */
	/* Why nothing in it may be deleted, or ERROR_NONE; and in words, static. */
	enum error_cause cause;
	const char *refusal;
};

struct session_entry {
	uint64_t ino;
	int64_t btime_nsec;
	uint32_t name;               /* offset in the arena */
	uint32_t dir : 28, type : 4; /* number from 0; S_IFMT bits, shifted */
};

struct session {
	struct session *next;
	uint64_t id;
	struct wire_in *groups; /* ADD_GROUPS, not validated yet */
	size_t n_groups;
	struct session_dir *dirs;
	size_t n_dirs;
	struct session_entry *entries;
	size_t n_entries;
	char *arena; /* names */
	size_t arena_len, arena_cap;
	uint64_t missing;
	char *first_missing;         /* as its submitter wrote it, or NULL */
	uint64_t bytes;              /* allocated to the entries themselves */
	bool has_dirs;               /* so that there is more than that */
	bool rmdir;                  /* all are empty directories, and go only as such */
	void *by_identity, *by_path; /* tsearch(3), of struct dir_key */
	size_t by_path_bytes;
	dev_t dev;
	uint64_t mnt_id;
	bool discards;
};

/* Finds one in the list, which owns all of them, or makes it. NULL: none, or out of memory. */
struct session *session_get(struct session **list, uint64_t id, bool make);
/* Frees one, if it is there. */
void session_forget(struct session **list, uint64_t id);
void sessions_free(struct session **list);

/* Finds or adds the directory that *fd is: *ret_dir is its number, from 0, and *ret_new tells
 * whether it was added. *fd is -1 then if the session keeps it open. Returns 0, -E2BIG, -ENOMEM, or
 * another negative errno of finding out what it is. */
int session_dir_add(struct session *s, int *fd, const struct found *f, uint32_t *ret_dir,
		    bool *ret_new);
/* Is it known which directory this path leads to? False also if out of memory. */
bool session_dir_known(struct session *s, const char *dir, uint32_t *ret_dir);
/* Remembers that the path leads there. Returns 0 or -ENOMEM. */
int session_dir_call(struct session *s, const char *dir, uint32_t number);

/* Adds a name in the directory of that number. Returns 0, -ENOMEM, or -E2BIG beyond 4 GiB of names.
 */
int session_entry_add(struct session *s, uint32_t dir, const char *name, const struct identity *id);

/* Its descriptor, or one opened again, for the caller to close if it is not dir->fd; or a negative
 * errno, -ESTALE if it is another directory now. */
int session_dir_open(const struct session_dir *d);

/* Is `id` that of the entry that was validated? */
bool session_entry_is(const struct session *s, const struct session_entry *e,
		      const struct identity *id);

/* Frees what is only needed until all is validated: groups, and the directories by path. */
void session_groups_done(struct session *s);
