/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whatever stands in the buffers of getdents64(2), names that can only mean one thing in the
 * directory come out of them, or an error. An input is two buffers, the first as long as its first
 * two bytes say. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/core/dirlist.h"
#include "fuzz.h"
#include "base/macros.h"

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
	told(r == 1);
	dirlist_done(&l);
	return 0;
}

/* ---- directories as kernels list them ------------------------------------------------------ */

static void say_record(struct words *w, const char *name)
{
	static const uint8_t none[8], types[] = { 0, 1, 2, 4, 6, 8, 10, 12 };
	uint64_t ino = 1 + any_number(w), offset = any_number(w);
	size_t len = 8 + 8 + 2 + 1 + strlen(name) + 1;
	uint16_t padded = (uint16_t)((len + 7) / 8 * 8);

	if (w->most - w->n < padded)
		return;
	say(w, &ino, sizeof(ino));
	say(w, &offset, sizeof(offset));
	say(w, &padded, sizeof(padded));
	say(w, &types[choose(w, ELEMENTSOF(types))], 1);
	say(w, name, strlen(name) + 1);
	say(w, none, padded - len);
}

static void say_name(struct words *w, char *name)
{
	size_t len = chance(w, 80) ? 1 + choose(w, 20) : 1 + choose(w, 255);

	for (size_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)(chance(w, 70) ? 'a' + choose(w, 26) : 1 + choose(w, 255));

		name[i] = (char)(c == '/' ? '.' : c);
	}
	name[len] = '\0';
}

void grammar(struct words *w)
{
	uint32_t n = choose(w, 12), first = choose(w, n + 1);
	char name[256];
	uint16_t len = 0;

	w->n = 0;
	say(w, &len, sizeof(len));
	for (uint32_t i = 0; i < n; i++) {
		if (i == first)
			len = (uint16_t)(w->n - sizeof(len));
		say_name(w, name);
		say_record(w, i < 2 && chance(w, 80) ? (i == 0 ? "." : "..") : name);
	}
	put_back(w, 0, &len, sizeof(len));
}
