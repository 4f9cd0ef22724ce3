/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the engine and reclaim-moosefs say to each other, over a pair of SOCK_SEQPACKET sockets
 * (wire/wire.h). The program's end is descriptor 3; descriptor 4 is the pipe that ends it with the
 * process that started it. One request at a time; OPEN is the first one, and must succeed. What
 * is in requests and answers, struct master_request and union master_values have.
 *
 *   request      its struct master_request                  answers, with their union master_values
 *   LOOKUP       directory, name                            DONE: inode
 *   LIST         directory, number: of entries at most      ENTRIES, DONE: listed
 *   CENSUS       inode                                      DONE: census
 *   MARK         inode, number: 1 to mark, 0 to unmark      DONE: changed
 *   REMOVE       directory, name                            DONE
 *   TRASH_TIME   inode                                      DONE: trash_seconds
 *   BACKLOG                                                 DONE: backlog
 *
 *   OPEN         RECLAIM_VERSION, bytes of .masterinfo      DONE
 *   ENTRIES      n * (inode, links, chunks, is a directory, name)
 *   DONE         errno or 0, µs that the master's answer took, values if the errno is 0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

#define MASTER_FD 3
#define MASTER_PIPE_FD 4

enum master_message {
	MASTER_OPEN = 1,
	MASTER_LOOKUP,
	MASTER_LIST,
	MASTER_CENSUS,
	MASTER_MARK,
	MASTER_REMOVE,
	MASTER_TRASH_TIME,
	MASTER_BACKLOG,
	MASTER_ENTRIES,
	MASTER_DONE,
};

/* The size of .masterinfo: address, port, session and version. */
#define MASTERINFO_BYTES 14

/* An answer of the master may take so long, whatever of it has come: longer than any stall that may
 * be asked for, and less than reclaimd waits for a worker that is to stop. */
#define MASTER_PATIENCE (20 * USEC_PER_SEC)
/* And the first: the worker that asks has not told reclaimd yet that it is ready. */
#define MASTER_PATIENCE_FIRST (5 * USEC_PER_SEC)
#define MASTER_PATIENCE_CONNECT (2 * USEC_PER_SEC)

struct moosefs_entry {
	const char *name; /* NUL-terminated; valid during the call */
	uint32_t inode;
	uint32_t nlink;
	uint64_t chunks; /* of a file, at most: the master frees each by itself */
	bool is_directory;
};

/* What is in a tree, its own directory included. */
struct moosefs_census {
	uint64_t entries, directories;
	uint64_t kept;   /* of those, undeletable, immutable or append-only */
	uint64_t marked; /* of those, as a snapshot */
};

/* What is not in the table above is 0 and "". */
struct master_request {
	enum master_message type;
	uint32_t inode, number;
	const char *name;
};

/* "." and ".." are not listed. A tree is marked as a snapshot, but for what the master refuses to
 * change: `changed` is how many entries have the mark now, or have it not. Removed, at once and
 * past the trash, is only a tree all of whose entries have it; else -EPERM. */
union master_values {
	uint64_t inode, listed, changed;
	struct moosefs_census census;
	uint64_t trash_seconds; /* that it keeps what is deleted of the files made here from now on
				 */
	struct {
		uint64_t trash_bytes; /* of all files in the trash, */
		uint64_t open_bytes;  /* and of those that are deleted but open */
	} backlog;
	uint64_t v[4];
};
