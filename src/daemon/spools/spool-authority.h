/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whose authority the entries of a spool are deleted with: I1 of SECURITY.md for entries of which
 * it is not known which user put them there. Pure.
 *
 * What counts is which users could have put an entry where it is. An entry gets there in three
 * ways: it is made there (then it is its owner's), it is moved there, or it is a link. And the
 * whole directory may be exchanged, by every user who may write one of those above it: then its
 * entries were never moved at all. So, with "may write" being the owner and, if the mode says so,
 * group and others (the group bits of a file with a POSIX ACL are its mask: no ACL grants more than
 * they say):
 *
 * - Only root may write it and all above it: root's, as no other user can have put anything there.
 * - Root and one user may: that user's, whichever of them owns the entry, as that user has fewer
 *   rights.
 * - Only root may write what is above, and several users the spool itself: the entry's owner's,
 *   with the exceptions below.
 * - Anything else: none. The spool is not served.
 *
 * In the third case an entry may have been moved there by a user who is not its owner. Of
 * anything but a directory that user needed the right to take away its old name, so could
 * have unlinked it as well; and a hard link costs nothing but a name. But a user who may move a
 * directory need not be able to delete what is in it: that takes no more than write permission on
 * the directory itself, as its ".." changes, and on where it was. So a directory that group or
 * others may write is left alone; one that only its owner may write was put there by its owner.
 * What is root's is left alone there in any case: root's authority is only used where no other user
 * can choose what it is used for.
 *
 * A sticky bit above is no help: it keeps others from moving what is there, not from being first.
 * Between the check and the deletion an entry of such a spool can be exchanged for another's: so
 * the receiver of a batch must compare the identities that come with it.
 *
 * Not known here: what servers of NFS grant beyond the mode by ACLs of their own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum spool_rule {
	RULE_ROOT,   /* all with root's */
	RULE_ONE,    /* all with one user's */
	RULE_OWNERS, /* each with its owner's */
	RULE_NONE,   /* not served */
};

struct spool_authority {
	enum spool_rule rule;
	uid_t uid; /* RULE_ONE */
};

/* A directory on the way from / to the spool, or the spool. */
struct spool_step {
	uid_t uid;
	mode_t mode;
	uint64_t dev, ino, mnt_id;
	int fd; /* O_PATH */
};

/* `steps` from the root directory to the spool, n > 0. */
struct spool_authority spool_authority(const struct spool_step *steps, size_t n);

/* Whose authority one entry is deleted with. Returns NULL and *ret_uid, or why it is not deleted,
 * to follow its name. */
const char *spool_authority_entry(const struct spool_authority *a, uid_t uid, mode_t mode,
				  uid_t *ret_uid);
