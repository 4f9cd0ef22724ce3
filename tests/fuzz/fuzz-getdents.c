/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whatever stands in the buffers of getdents64(2), names that can only mean one thing in the
 * directory come out of them, or an error. An input is two buffers, the first as long as its first
 * two bytes say. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/dirlist.h"
#include "fuzz.h"
#include "util/macros.h"

static const uint8_t *left;
static size_t left_len, first_len;

/* The linker puts this in the place of syscall(2). */
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	size_t len = first_len > 0 ? first_len : left_len, room;
	va_list ap;
	char *buf;

	va_start(ap, number);
	(void)va_arg(ap, int);
	buf = va_arg(ap, char *);
	room = va_arg(ap, size_t);
	va_end(ap);
	must(number == SYS_getdents64);
	len = MIN(MIN(len, left_len), room);
	if (len > 0)
		memcpy(buf, left, len);
	left += len;
	left_len -= len;
	first_len = 0;
	return (long)len;
}

static void check(const struct dirlist *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const char *name = dirlist_name(l, &l->v[i]);

		must(l->v[i].name < l->arena_cap &&
		     memchr(name, '\0', l->arena_cap - l->v[i].name));
		must(name[0] && !strchr(name, '/') && strcmp(name, ".") != 0 &&
		     strcmp(name, "..") != 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dirlist l = { 0 };
	int64_t cookie;
	int r;

	if (size < 2)
		return 0;
	first_len = data[0] | (size_t)data[1] << 8;
	left = data + 2;
	left_len = size - 2;
	do {
		r = dirlist_read(&l, -1, /* short_is_eof= */ size % 2, NULL, &cookie);
		must(r == 0 || r == 1 || r == -EIO || r == -ENOMEM);
		check(&l);
		dirlist_sort(&l, ORDER_ASCENDING);
		check(&l);
	} while (r == 0);
	dirlist_done(&l);
	return 0;
}
