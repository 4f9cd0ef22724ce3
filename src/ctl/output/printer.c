/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "printer.h"

#include "base/units.h"

void printer_flush(struct printer *p)
{
	(void)fwrite(p->v, 1, p->n, p->out);
	p->n = 0;
}

void printer_put_slowly(struct printer *p, const char *text, size_t n)
{
	printer_flush(p);
	if (n > sizeof(p->v))
		(void)fwrite(text, 1, n, p->out);
	else
		printer_put(p, text, n);
}

void printer_number(struct printer *p, uint64_t n)
{
	char digits[24];

	printer_put(p, digits, (size_t)(number_put(digits, n) - digits));
}
