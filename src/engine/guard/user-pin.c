/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "user-pin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

#define ALWAYS "always"
#define ENTRIES "entries"
#define DATE "%Y-%m-%dT%H:%M:%SZ"

/* Returns the kind of pin that a word is, without "entries". */
static enum user_pin_kind word_parse(const char *word, int64_t *ret_sec)
{
	struct tm tm = { 0 };
	const char *end;

	if (strcmp(word, ALWAYS) == 0)
		return USER_PIN_ALWAYS;
	end = strptime(word, DATE, &tm);
	if (!end || *end != '\0')
		return USER_PIN_UNCLEAR;
	*ret_sec = timegm(&tm);
	return USER_PIN_UNTIL;
}

struct user_pin user_pin_parse(const char *value, size_t len)
{
	struct user_pin p = { .kind = USER_PIN_UNCLEAR };
	char word[USER_PIN_VALUE];
	char *blank;

	if (len >= sizeof(word) || memchr(value, '\0', len))
		return p;
	memcpy(word, value, len);
	word[len] = '\0';
	if (strcmp(word, ENTRIES) == 0)
		return (struct user_pin){ .entries = true };
	blank = strchr(word, ' ');
	if (blank && strcmp(blank + 1, ENTRIES) == 0) {
		p.entries = true;
		*blank = '\0';
	}
	p.kind = word_parse(word, &p.until_sec);
	return p;
}

size_t user_pin_format(const struct user_pin *p, char value[USER_PIN_VALUE])
{
	time_t t = (time_t)p->until_sec;
	char until[USER_PIN_VALUE] = ALWAYS;
	struct tm tm;

	if (p->kind == USER_PIN_NOT)
		until[0] = '\0';
	else if (p->kind == USER_PIN_UNTIL && gmtime_r(&t, &tm))
		(void)strftime(until, sizeof(until), DATE, &tm);
	return (size_t)snprintf(value, USER_PIN_VALUE, "%.30s%s%s", until,
				until[0] && p->entries ? " " : "", p->entries ? ENTRIES : "");
}

/* Of what getxattr(2) has returned. */
static struct user_pin taken(const char *value, ssize_t len)
{
	struct user_pin p;
	struct timespec now;

	if (len < 0)
		switch (errno) {
		case ENODATA:
		case EOPNOTSUPP:
		case ENOSYS:
		case EINVAL:
		case EACCES:
		case EPERM:
		case ENOENT:
		case ENOTDIR:
		case ELOOP:
			return (struct user_pin){ 0 };
		case ERANGE: /* longer than any that is clear */
		case E2BIG:
			return (struct user_pin){ .kind = USER_PIN_UNCLEAR };
		default:
			return (struct user_pin){ .kind = USER_PIN_UNREAD, .error = -errno };
		}
	p = user_pin_parse(value, (size_t)len);
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (p.kind == USER_PIN_UNTIL && p.until_sec <= now.tv_sec)
		p.kind = USER_PIN_NOT;
	return p;
}

/* Since Linux 6.13. Older headers lack its number, which two architectures count otherwise: there
 * no call is made (ENOSYS). */
#ifndef SYS_getxattrat
#if defined(__alpha__) || defined(__mips__)
#define SYS_getxattrat (-1)
#else
#define SYS_getxattrat 464
#endif
#endif

/* As of linux/xattr.h, which older headers lack. */
struct value_arguments {
	_Alignas(8) uint64_t value;
	uint32_t size, flags;
};

/* Of a name, without the detour by its path in /proc. Returns the length of the value, -ENODATA if
 * there is none, or another negative errno, which says nothing about a pin: the call may be refused
 * as such, by a kernel that lacks it or by a filter. */
static ssize_t value_at(int dirfd, const char *name, char *value, size_t size)
{
	static atomic_bool missing;
	struct value_arguments args = { .value = (uintptr_t)value, .size = (uint32_t)size };
	long len;

	if (atomic_load_explicit(&missing, memory_order_relaxed))
		return -ENOSYS;
	len = syscall(SYS_getxattrat, dirfd, name, AT_SYMLINK_NOFOLLOW, USER_PIN_ATTRIBUTE, &args,
		      sizeof(args));
	if (len >= 0)
		return len;
	if (errno == ENOSYS)
		atomic_store_explicit(&missing, true, memory_order_relaxed);
	return -errno;
}

struct user_pin user_pin_read(int dirfd, const char *name)
{
	char path[NAME_MAX + 32], value[USER_PIN_VALUE];
	ssize_t len;

	if (name[0] == '\0') {
		len = fgetxattr(dirfd, USER_PIN_ATTRIBUTE, value, sizeof(value));
		if (len >= 0 || errno != EBADF)
			return taken(value, len);
	} else {
		len = value_at(dirfd, name, value, sizeof(value));
		if (len >= 0)
			return taken(value, len);
		if (len == -ENODATA)
			return (struct user_pin){ 0 };
	}
	/* By its path where that is refused, or where a descriptor only pins a place (O_PATH). */
	if (snprintf(path, sizeof(path), "/proc/self/fd/%d%s%s", dirfd, name[0] ? "/" : "", name) >=
	    (int)sizeof(path))
		return (struct user_pin){ .kind = USER_PIN_UNREAD, .error = -ENAMETOOLONG };
	len = name[0] ? lgetxattr(path, USER_PIN_ATTRIBUTE, value, sizeof(value))
		      : getxattr(path, USER_PIN_ATTRIBUTE, value, sizeof(value));
	/* Is there no such name, or no /proc? */
	if (len < 0 && errno == ENOENT &&
	    faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == 0)
		return (struct user_pin){ .kind = USER_PIN_UNREAD, .error = -ENOENT };
	return taken(value, len);
}

/* Opens one of the directories above. Returns a descriptor or a negative errno. */
static int dir_above(const char *up)
{
	int fd = open(up, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

struct user_pin user_pin_around(int dirfd)
{
	_cleanup_close_ int from = -1; /* where a path of `..` that is full goes on */
	char at[PATH_MAX], up[PATH_MAX], value[USER_PIN_VALUE];
	struct user_pin p = user_pin_read(dirfd, "");
	size_t len = (size_t)snprintf(up, sizeof(up), "/proc/self/fd/%d", dirfd);
	size_t levels = 0;

	/* Above one that is too deep to have a path, as far as can be gone. */
	if (fd_path(dirfd, at, sizeof(at)) < 0)
		levels = SIZE_MAX;
	else
		for (const char *s = at; (s = strchr(s, '/')); s++)
			levels++;
	for (; levels > 0 && !user_pin_holds(&p); levels--) {
		if (len + sizeof("/..") > sizeof(up)) {
			/* Where there is no path, it is not known how far to go. */
			int above = levels > PATH_MAX ? -EACCES : dir_above(up);

			fd_closep(&from);
			from = above;
			if (from < 0)
				return from == -EACCES ? p
						       : (struct user_pin){ .kind = USER_PIN_UNREAD,
									    .error = from };
			len = (size_t)snprintf(up, sizeof(up), "/proc/self/fd/%d", from);
		}
		memcpy(up + len, "/..", sizeof("/.."));
		len += strlen("/..");
		p = taken(value, getxattr(up, USER_PIN_ATTRIBUTE, value, sizeof(value)));
	}
	return p;
}

const char *user_pin_words(const struct user_pin *p, bool around, char words[USER_PIN_WORDS])
{
	const char *is = around ? "lies in a directory that is pinned" : "is pinned";
	time_t t = (time_t)p->until_sec;
	char date[32] = "";
	struct tm tm;

	switch (p->kind) {
	case USER_PIN_NOT:
		(void)snprintf(words, USER_PIN_WORDS, "was pinned a moment ago");
		break;
	case USER_PIN_UNTIL:
		if (gmtime_r(&t, &tm))
			(void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &tm);
		(void)snprintf(words, USER_PIN_WORDS, "%s until %s: see reclaimctl unpin", is,
			       date);
		break;
	case USER_PIN_ALWAYS:
		(void)snprintf(words, USER_PIN_WORDS, "%s: see reclaimctl unpin", is);
		break;
	case USER_PIN_UNCLEAR:
		(void)snprintf(words, USER_PIN_WORDS,
			       "%s, by a value of %s that is not understood: see reclaimctl unpin",
			       is, USER_PIN_ATTRIBUTE);
		break;
	case USER_PIN_UNREAD:
		(void)snprintf(words, USER_PIN_WORDS,
			       "%s, as far as is known: %s of it cannot be read: %s", is,
			       USER_PIN_ATTRIBUTE, strerror(-p->error));
		break;
	}
	return words;
}
