/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

#include "fd.h"

#define FDS_MOST 4

int spawn_program(const char *path, const char *name, char *const *env, const int *fds, size_t n,
		  bool own_group, pid_t *ret)
{
	char *const argv[] = { (char *)name, NULL };
	posix_spawn_file_actions_t a;
	posix_spawnattr_t t;
	sigset_t all, none;
	int high[FDS_MOST], r;

	assert(n <= FDS_MOST);
	(void)sigfillset(&all);
	(void)sigemptyset(&none);
	posix_spawn_file_actions_init(&a);
	posix_spawnattr_init(&t);
	r = posix_spawn_file_actions_addopen(&a, 0, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(&a, 1, "/dev/null", O_WRONLY, 0);
	for (size_t i = 0; i < n; i++) {
		/* Not where the program will have another one. */
		high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, SPAWN_FD + FDS_MOST);
		if (high[i] < 0 && r == 0)
			r = errno;
		if (r == 0)
			r = posix_spawn_file_actions_adddup2(&a, high[i], SPAWN_FD + (int)i);
	}
	if (r == 0)
		r = posix_spawnattr_setsigdefault(&t, &all);
	if (r == 0)
		r = posix_spawnattr_setsigmask(&t, &none);
	if (r == 0)
		r = posix_spawnattr_setflags(&t, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
							 (own_group ? POSIX_SPAWN_SETPGROUP : 0));
	if (r == 0)
		r = posix_spawn(ret, path, &a, &t, argv, env);
	for (size_t i = 0; i < n; i++)
		fd_closep(&high[i]);
	posix_spawnattr_destroy(&t);
	posix_spawn_file_actions_destroy(&a);
	return -r;
}
