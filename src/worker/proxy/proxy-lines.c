/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "proxy-lines.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

int lines_ready(const struct lines *l, const char *buf, size_t size, size_t *ret_n, bool *ret_long)
{
	const char *end;

	*ret_n = 0;
	*ret_long = l->begun > 0;
	if (l->held == 0)
		return 0;
	end = l->begun > 0 ? memchr(buf, '\0', l->held) : memrchr(buf, '\0', l->held);
	if (l->begun + (end ? (size_t)(end - buf) + 1 : l->held) > LINE_BYTES_MOST)
		return -EMSGSIZE;
	if (end) {
		*ret_n = (size_t)(end - buf) + 1;
	} else if (l->held == size) {
		*ret_n = size;
		*ret_long = true;
	}
	return 0;
}

bool lines_gone(struct lines *l, char *buf, size_t n)
{
	bool ends;

	assert(n > 0 && n <= l->held);
	ends = buf[n - 1] == '\0';

	l->begun = ends ? 0 : l->begun + n;
	l->held -= n;
	memmove(buf, buf + n, l->held);
	return ends;
}
