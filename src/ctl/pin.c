/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl pin and unpin: the marks of engine/guard/user-pin.h, set and taken off with the
 * caller's own rights; no daemon is asked.
 *
 * With --json, an array with one object for each path, with --list also for what is pinned in a
 * directory: {path, pinned, until_usec, around, words}: until_usec is null without a date, around
 * says that a directory that it lies in is pinned. Keys are only ever added.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "ctl/common/options.h"
#include "ctl/common/verbs.h"
#include "ctl/output/messages.h"
#include "engine/guard/path-intake.h"
#include "engine/guard/user-pin.h"

struct pinning {
	const struct options *o;
	json_t *array; /* with --json */
	size_t done;
	int failed; /* exit status */
};

/* What a path names. */
struct pinned_path {
	const char *path;
	int dirfd, fd; /* O_PATH */
	char *dir;
	char name[256];
	mode_t mode;
};

static void pinned_path_done(struct pinned_path *p)
{
	fd_closep(&p->fd);
	fd_closep(&p->dirfd);
	free(p->dir);
}

/* Unlike what is to be deleted, it may be a mount point. */
static int pinned_path_open(struct pinned_path *p, const char **ret_why)
{
	struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
				.resolve = RESOLVE_NO_MAGICLINKS };
	struct stat st;
	bool slash;
	int r = intake_split(p->path, &p->dir, p->name, &slash, ret_why);

	if (r >= 0)
		r = p->dirfd = intake_open_dir(p->dir, ret_why);
	if (r < 0)
		return r;
	p->fd = (int)syscall(SYS_openat2, p->dirfd, p->name, &how, sizeof(how));
	if (p->fd < 0 || fstat(p->fd, &st) < 0) {
		*ret_why = intake_words(-errno);
		return -errno;
	}
	p->mode = st.st_mode;
	if (S_ISREG(p->mode) || S_ISDIR(p->mode))
		return 0;
	*ret_why = "cannot be pinned, as it is no file and no directory: pin the directory that it "
		   "is in";
	return -EINVAL;
}

/* Replaces the attribute of what fd pins down; flags are those of setxattr(2). Returns 0 or a
 * negative errno. */
static int attribute_write(int fd, const struct user_pin *pin, int flags)
{
	char path[32], value[USER_PIN_VALUE];
	size_t len = user_pin_format(pin, value);

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (len > 0)
		return setxattr(path, USER_PIN_ATTRIBUTE, value, len, flags) < 0 ? -errno : 0;
	return removexattr(path, USER_PIN_ATTRIBUTE) < 0 && errno != ENODATA ? -errno : 0;
}

static const char *attribute_words(int error)
{
	switch (-error) {
	case EOPNOTSUPP:
		return "cannot be pinned: its filesystem has no extended attributes for users; "
		       "name it in protect: of reclaimd.yaml(5)";
	case EACCES:
	case EPERM:
		return "cannot be changed: permission denied";
	default:
		return strerror(-error);
	}
}

/* Files of a tree are asked in directories that are marked, and in no others. Where there was no
 * pin none is replaced: the directory itself may be pinned at the same moment. */
static int directory_mark(const struct pinned_path *p)
{
	struct user_pin pin;
	int r = -EEXIST;

	for (int i = 0; i < 2 && r == -EEXIST; i++) {
		pin = user_pin_read(p->dirfd, "");
		if (pin.entries || pin.kind == USER_PIN_UNCLEAR)
			return 0;
		if (pin.kind == USER_PIN_UNREAD)
			return pin.error;
		pin.entries = true;
		/* The second time it is one whose date has passed. */
		r = attribute_write(p->dirfd, &pin,
				    i == 0 && pin.kind == USER_PIN_NOT ? XATTR_CREATE : 0);
	}
	return r;
}

static void tell(struct pinning *c, const char *path, const struct user_pin *pin, bool around,
		 const char *words)
{
	struct sentence line;

	if (c->array)
		(void)json_array_append_new(
			c->array, json_pack("{so sb so sb so}", "path", json_path(path), "pinned",
					    (int)user_pin_holds(pin), "until_usec",
					    pin->kind == USER_PIN_UNTIL
						    ? json_integer(pin->until_sec * 1000000)
						    : json_null(),
					    "around", (int)around, "words", json_words(words)));
	if (c->array || c->o->quiet)
		return;
	(void)fprintf(sentence_begin(&line, stdout), "%s %s", path, words);
	sentence_end(&line);
}

/* ---- each path ------------------------------------------------------------------------------ */

/* Returns 0, or a negative errno with *ret_why, as the others here. */
static int path_pin(struct pinning *c, const struct pinned_path *p, const char **ret_why)
{
	struct user_pin pin = user_pin_read(p->fd, "");
	bool file = S_ISREG(p->mode);
	int r, marked = file ? directory_mark(p) : 0;
	char words[USER_PIN_WORDS];

	pin.kind = c->o->until_usec > 0 ? USER_PIN_UNTIL : USER_PIN_ALWAYS;
	pin.until_sec = (int64_t)(c->o->until_usec / USEC_PER_SEC);
	r = attribute_write(p->fd, &pin, 0);
	*ret_why = r < 0 ? attribute_words(r) : NULL;
	if (r < 0)
		return r;
	/* Once more, as the directory may have been unpinned at the same moment. */
	if (file && marked >= 0)
		marked = directory_mark(p);
	outcome_note("%s was pinned", p->path);
	tell(c, p->path, &pin, /* around= */ false, user_pin_words(&pin, false, words));
	if (marked >= 0)
		return 0;
	complain(p->path,
		 "stays where it is named itself, but not where %s is deleted as a whole, "
		 "as that cannot be marked: %s",
		 p->dir[0] ? p->dir : ".", strerror(-marked));
	c->failed = EXIT_PARTLY;
	return 0;
}

static int path_unpin(struct pinning *c, const struct pinned_path *p, const char **ret_why)
{
	struct user_pin pin = user_pin_read(p->fd, "");
	bool was = user_pin_holds(&pin);
	int r;

	pin.kind = USER_PIN_NOT;
	r = attribute_write(p->fd, &pin, 0);
	/* Without attributes nothing is pinned. */
	if (r == -EOPNOTSUPP)
		r = 0;
	*ret_why = r < 0 ? attribute_words(r) : NULL;
	if (r >= 0 && was)
		outcome_note("%s was unpinned", p->path);
	if (r >= 0)
		tell(c, p->path, &pin, false, was ? "is not pinned any more" : "was not pinned");
	return r;
}

/* What is pinned in a directory. */
static int content_list(struct pinning *c, const struct pinned_path *p)
{
	int fd = openat(p->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;
	int r;

	if (!dir) {
		r = -errno;
		fd_closep(&fd);
		return r;
	}
	while ((errno = 0, d = readdir(dir))) {
		_cleanup_free_ char *path = NULL;
		struct user_pin pin = { 0 };
		char words[USER_PIN_WORDS];

		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			pin = user_pin_read(fd, d->d_name);
		if (user_pin_holds(&pin) && asprintf(&path, "%s/%s", p->path, d->d_name) >= 0)
			tell(c, path, &pin, false, user_pin_words(&pin, false, words));
	}
	r = -errno;
	(void)closedir(dir);
	return r;
}

static int path_list(struct pinning *c, const struct pinned_path *p, const char **ret_why)
{
	struct user_pin pin = user_pin_read(p->fd, "");
	bool around = !user_pin_holds(&pin), entries = pin.entries;
	char words[USER_PIN_WORDS] = "is not pinned";
	int r = 0;

	if (around)
		pin = user_pin_around(p->dirfd);
	if (user_pin_holds(&pin))
		(void)user_pin_words(&pin, around, words);
	tell(c, p->path, &pin, around && user_pin_holds(&pin), words);
	if (S_ISDIR(p->mode) && entries)
		r = content_list(c, p);
	*ret_why = r < 0 ? strerror(-r) : NULL;
	return r;
}

static int each_path(const struct options *o,
		     int (*one)(struct pinning *c, const struct pinned_path *p,
				const char **ret_why))
{
	struct pinning c = { .o = o, .array = o->json != JSON_OFF ? json_array() : NULL };

	for (size_t i = 0; i < o->n_paths; i++) {
		struct pinned_path p = { .path = o->paths[i], .dirfd = -1, .fd = -1 };
		const char *why = NULL;
		int r = pinned_path_open(&p, &why);

		if (r >= 0)
			r = one(&c, &p, &why);
		if (r < 0)
			complain(p.path[0] ? p.path : "''", "%s", why);
		if (r < 0 && !c.failed)
			c.failed = EXIT_FAILED;
		c.done += r >= 0;
		pinned_path_done(&p);
	}
	json_print(c.array, o->json);
	return c.failed && c.done > 0 ? EXIT_PARTLY : c.failed;
}

int verb_pin(const struct options *o, struct client *c)
{
	(void)c;
	return each_path(o, o->list ? path_list : path_pin);
}

int verb_unpin(const struct options *o, struct client *c)
{
	(void)c;
	return each_path(o, path_unpin);
}
