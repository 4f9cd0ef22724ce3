/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "error-table.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "macros.h"

static const struct error_entry table[ERROR_CAUSES] = {
	[ERROR_PROTECTED] = { "Protected", "Belongs to what is never deleted.", -EPERM, EXIT_FAILED,
			      RETRY_NO },
	[ERROR_NOT_AUTHORIZED] = { "NotAuthorized",
				   "The caller may not do that; also where a path may not be seen.",
				   -EACCES, EXIT_NOT_AUTHORIZED, RETRY_NO },
	[ERROR_CROSSES_MOUNT] = { "CrossesMount",
				  "Is a mount point, or not on one mount with the rest.", -EXDEV,
				  EXIT_FAILED, RETRY_NO },
	[ERROR_INVALID_PATH] = { "InvalidPath",
				 "No path that may be given: . or .. at the end, a symbolic link "
				 "on the way.",
				 -EINVAL, EXIT_FAILED, RETRY_NO },
	[ERROR_NO_SUCH_PATH] = { "NoSuchPath", "Does not exist.", -ENOENT, EXIT_FAILED,
				 RETRY_ANEW },
	[ERROR_IDENTITY_CHANGED] = { "IdentityChanged", "Is not any more what it was.", -ESTALE,
				     EXIT_FAILED, RETRY_ANEW },
	[ERROR_UNSUPPORTED] = { "Unsupported",
				"Cannot be done on this filesystem or mount, or by this build.",
				-EOPNOTSUPP, EXIT_FAILED, RETRY_NO },
	[ERROR_LIMIT_EXCEEDED] = { "LimitExceeded",
				   "Too many jobs, names or calls; the text says how many there "
				   "may be, and what to do.",
				   -EDQUOT, EXIT_FAILED, RETRY_LATER },
	[ERROR_FAILED] = { "Failed", "Something else failed; the text says what.", -EIO,
			   EXIT_FAILED, RETRY_LATER },
	[ERROR_PINNED] = { "Pinned", "Is pinned, or lies in a directory that is.", -EPERM,
			   EXIT_FAILED, RETRY_NO },
	[ERROR_NO_SUCH_JOB] = { "NoSuchJob", "No such job, or not one that the caller may know of.",
				-ESRCH, EXIT_FAILED, RETRY_ANEW },
	[ERROR_WRONG_STATE] = { "WrongState",
				"The job is not in a state in which that can be done.", -EBUSY,
				EXIT_FAILED, RETRY_ANEW },
	[ERROR_INVALID_ARGUMENT] = { "InvalidArgument",
				     "Wrong type, kind or value of an argument or option.", -EINVAL,
				     EXIT_FAILED, RETRY_NO },
	[ERROR_BUSY] = { "Busy", "Try again: the daemon is stopping.", -EAGAIN, EXIT_FAILED,
			 RETRY_LATER },
};

const struct error_entry *error_entry(enum error_cause cause)
{
	assert(cause > ERROR_NONE && cause < ERROR_CAUSES);
	return &table[cause];
}

enum error_cause error_by_bus_name(const char *name)
{
	size_t prefix = strlen(ERROR_PREFIX);

	if (!name || strncmp(name, ERROR_PREFIX, prefix) != 0)
		return ERROR_NONE;
	for (enum error_cause c = ERROR_NONE + 1; c < ERROR_CAUSES; c++)
		if (strcmp(name + prefix, table[c].name) == 0)
			return c;
	return ERROR_FAILED;
}

static enum error_cause of_path(int error)
{
	switch (-error) {
	case EPERM: /* immutable, a security module: what reclaimd protects, it says itself */
	case EACCES:
	case EROFS:
		return ERROR_NOT_AUTHORIZED;
	case ENOENT:
		return ERROR_NO_SUCH_PATH;
	case EXDEV:
		return ERROR_CROSSES_MOUNT;
	case ELOOP:
	case ENOTDIR:
	case ENAMETOOLONG:
	case EINVAL:
		return ERROR_INVALID_PATH;
	case ESTALE:
		return ERROR_IDENTITY_CHANGED;
	case E2BIG:
		return ERROR_LIMIT_EXCEEDED;
	case EEXIST: /* where a name should go back to there is one */
		return ERROR_WRONG_STATE;
	case ENOSYS:
	case EOPNOTSUPP:
		return ERROR_UNSUPPORTED;
	default:
		return ERROR_FAILED;
	}
}

enum error_cause error_from_errno(int error, enum error_place place)
{
	assert(error < 0);
	switch (place) {
	case ERROR_AT_PATH:
		return of_path(error);
	case ERROR_AT_SPELLING:
		return error == -EPERM ? ERROR_PROTECTED : of_path(error);
	case ERROR_AT_QUOTA:
		return error == -EDQUOT || error == -ENFILE ? ERROR_LIMIT_EXCEEDED : ERROR_FAILED;
	case ERROR_AT_DAEMON:
		break;
	}
	return ERROR_FAILED;
}
