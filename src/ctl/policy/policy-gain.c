/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "policy-gain.h"

#include <errno.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/btrfs.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/units.h"

#define CHECK_EVERY_USEC (250 * USEC_PER_MSEC)
/* btrfs frees space when it commits, every 30 s by default. Other filesystems free it at once, or
 * soon after. */
#define GAIN_WAIT_BTRFS_USEC (35 * USEC_PER_SEC)
#define GAIN_WAIT_USEC (5 * USEC_PER_SEC)
#define SUBVOLUMES_WAIT_USEC (600 * USEC_PER_SEC)

uint64_t gain_free_bytes(int fd)
{
	struct statvfs st;

	return fstatvfs(fd, &st) < 0 ? 0 : (uint64_t)st.f_bavail * st.f_frsize;
}

int gain_wait_for_subvolumes(int fd)
{
	_cleanup_close_ int own = fd_open_dir(fd, ".");
	uint64_t until = now_usec() + SUBVOLUMES_WAIT_USEC;

	while (own >= 0 && btrfs_deleted_subvolumes(own) > 0) {
		if (now_usec() >= until)
			return -ETIMEDOUT;
		(void)usleep(CHECK_EVERY_USEC);
	}
	return 0;
}

uint64_t gain_wait(int fd, uint64_t before_bytes, uint64_t expected_bytes)
{
	bool is_btrfs = btrfs_has(fd);
	uint64_t until, gained = 0;

	(void)gain_wait_for_subvolumes(fd);
	until = now_usec() + (is_btrfs ? GAIN_WAIT_BTRFS_USEC : GAIN_WAIT_USEC);
	for (;;) {
		uint64_t free = gain_free_bytes(fd);

		/* The most that was free counts: what other programs take afterwards was gained. */
		gained = MAX(gained, free - MIN(free, before_bytes));
		if (gained >= expected_bytes / 10 * (is_btrfs ? 9 : 1) || now_usec() >= until)
			return gained;
		(void)usleep(CHECK_EVERY_USEC);
	}
}

void gain_explain(struct safe_text *ret, int fd, uint64_t expected_bytes, uint64_t gained_bytes)
{
	char expected[16], gained[16];

	safe_text_format(ret,
			 "no space was gained: df shows %s more, and %s were expected. %s, or "
			 "another program writes as much",
			 size_format(gained, sizeof(gained), gained_bytes),
			 size_format(expected, sizeof(expected), expected_bytes),
			 btrfs_has(fd) ? "A snapshot, a reflink or a process that has the files "
					 "open holds their data"
				       : "A reflink or a process that has the files open holds "
					 "their data");
}
