/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "spool-world.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int64_t real_usec(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void tell(const char *path, uid_t uid, const char *name, const char *text, void *userdata)
{
	struct world *w = userdata;
	size_t len = strlen(w->told);

	ck_assert_int_eq(uid == UID_NONE, !name);
	w->tells++;
	(void)snprintf(w->told + len, sizeof(w->told) - len, "%s%s%s %s\n", path, name ? "/" : "",
		       name ? name : "", text);
}

/* Each name is what it was said to be, and has not changed for as long as it has to. */
static void check_entry(const struct world *w, const struct spool_batch *b, const char *name,
			const struct identity *id)
{
	struct identity now;
	struct stat st;

	ck_assert_int_eq(fd_identity(b->dirfd, name, &now), 0);
	ck_assert(identity_equal(&now, id));
	ck_assert_int_eq(fstatat(b->dirfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	ck_assert_int_ge(real_usec() -
				 ((int64_t)st.st_ctim.tv_sec * 1000000 + st.st_ctim.tv_nsec / 1000),
			 (int64_t)w->settle_usec);
}

static void take(struct spool_batch *b, void *userdata)
{
	struct world *w = userdata;
	const char *name = b->names;
	bool bad = false;
	size_t i;

	ck_assert_ptr_nonnull(strstr(b->origin, "spool:/mnt/"));
	ck_assert_str_eq(b->origin + strlen("spool:"), b->dir_path);
	ck_assert_uint_eq(b->undo_usec, w->undo_usec);
	w->batches++;
	w->names += b->n;
	w->last_id = b->id;
	(void)snprintf(w->last, sizeof(w->last), "%u:", b->submitter->uid);
	for (i = 0; i < b->n; i++, name += strlen(name) + 1) {
		size_t len = strlen(w->last);

		ck_assert(name < b->names + b->names_len);
		check_entry(w, b, name, &b->ids[i]);
		(void)snprintf(w->last + len, sizeof(w->last) - len, " %s", name);
		bad = bad || strcmp(name, "bad") == 0;
		if (w->answer == REMOVE && unlinkat(b->dirfd, name, 0) < 0)
			ck_assert_int_eq(unlinkat(b->dirfd, name, AT_REMOVEDIR), 0);
	}
	ck_assert_ptr_eq(name, b->names + b->names_len);
	(void)snprintf(w->log + strlen(w->log), sizeof(w->log) - strlen(w->log), "%s;", w->last);
	w->answered_bad += w->answer == DENY_BAD && bad && b->n == 1;
	if (w->answer != NONE)
		spools_taken(w->spools, b->id,
			     w->answer == DENY_BAD && bad ? SPOOL_DENIED : SPOOL_ACCEPTED);
	ck_assert_ptr_null(spool_batch_free(b));
}

/* As the daemon has it. */
static int on_mounts(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	const struct world *w = userdata;

	(void)source;
	(void)fd;
	(void)events;
	if (w->spools)
		spools_check(w->spools);
	return 0;
}

void world_open(struct world *w, uint64_t settle_usec, const char *state_dir)
{
	struct spools_options o = { .take = take, .tell = tell, .userdata = w };

	*w = (struct world){ .settle_usec = settle_usec, .undo_usec = 77 };
	w->protect[0] = (char *)(uintptr_t)state_dir;
	ck_assert_int_eq(mount("scratch", "/mnt", "tmpfs", 0, "mode=0755"), 0);
	ck_assert_int_ge(sd_event_new(&w->event), 0);
	ck_assert_int_ge(spools_new(&w->spools, w->event, &o), 0);
	w->mounts_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(w->mounts_fd, 0);
	ck_assert_int_ge(
		sd_event_add_io(w->event, &w->mounts, w->mounts_fd, EPOLLPRI, on_mounts, w), 0);
}

void serve(struct world *w, const char *path)
{
	struct config_spool v = { .path = (char *)(uintptr_t)path,
				  .settle_usec = w->settle_usec,
				  .undo_usec = w->undo_usec };

	ck_assert_int_eq(spools_configure(w->spools, &v, 1, w->protect), 0);
}

void unmount(const struct world *w, const char *path)
{
	unsigned tries = 0;

	while (umount(path) < 0) {
		ck_assert_int_eq(errno, EBUSY);
		ck_assert_uint_lt(tries++, 6000);
		ck_assert_int_ge(sd_event_run(w->event, 10 * USEC_PER_MSEC), 0);
	}
}

void world_ignore_mounts(struct world *w)
{
	w->mounts = sd_event_source_disable_unref(w->mounts);
	fd_closep(&w->mounts_fd);
}

void world_close(struct world *w)
{
	w->spools = spools_free(w->spools);
	unmount(w, "/mnt");
	world_ignore_mounts(w);
	w->event = sd_event_unref(w->event);
}

enum spool_state state_of(const struct world *w)
{
	struct spool_view view;

	ck_assert_uint_eq(spools_list(w->spools, &view, 1), 1);
	return view.state;
}

void run_out(const struct world *w)
{
	while (sd_event_run(w->event, USEC_PER_SEC / 10) > 0)
		;
}

void make_as(uid_t uid, const char *path, mode_t mode)
{
	int fd;

	if (S_ISDIR(mode)) {
		ck_assert_int_eq(mkdir(path, 0700), 0);
	} else {
		fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(close(fd), 0);
	}
	ck_assert_int_eq(chown(path, uid, uid), 0);
	ck_assert_int_eq(chmod(path, mode & 07777), 0);
}

void make(const char *path)
{
	make_as(0, path, S_IFREG | 0644);
}

void make_dir(const char *path)
{
	make_as(0, path, S_IFDIR | 0755);
}

bool exists(const char *path)
{
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int run_spool_case(const char *name, const TTest *const *tests, size_t n)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		(void)fputs("skipped: needs root and a mount namespace\n", stderr);
		return 77;
	}
	return run_case(name, tests, n);
}
