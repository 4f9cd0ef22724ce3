/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "printer.h"

#include "util/units.h"

void printer_flush(struct printer *p)
{
	(void)fwrite(p->v, 1, p->n, p->out);
	p->n = 0;
}

/* Makes room for n bytes. False: there is never so much. */
static bool has_room(struct printer *p, size_t n)
{
	if (sizeof(p->v) - p->n < n)
		printer_flush(p);
	return n <= sizeof(p->v);
}

void printer_put(struct printer *p, const char *text, size_t n)
{
	if (!has_room(p, n)) {
		(void)fwrite(text, 1, n, p->out);
		return;
	}
	memcpy(p->v + p->n, text, n);
	p->n += n;
}

void printer_blanks(struct printer *p, size_t n)
{
	static const char spaces[] = "                                ";

	for (; n >= sizeof(spaces); n -= sizeof(spaces) - 1)
		printer_put(p, spaces, sizeof(spaces) - 1);
	printer_put(p, spaces, n);
}

void printer_number(struct printer *p, uint64_t n)
{
	char digits[24];

	printer_put(p, digits, (size_t)(number_put(digits, n) - digits));
}
