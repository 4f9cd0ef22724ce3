/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any name can be shown, can do nothing to a terminal, and is not shown as another. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "base/escape.h"

/* What one escape stands for; *at is moved behind it. */
static uint8_t unescape(const char **at)
{
	char digits[3] = { 0 };
	const char *p = *at + 1;

	*at += 2;
	if (*p != 'x')
		return *p == 'n' ? '\n' : *p == 't' ? '\t' : *p == 'r' ? '\r' : (uint8_t)*p;
	memcpy(digits, p + 1, 2);
	*at += 2;
	return (uint8_t)strtoul(digits, NULL, 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *shown = escape_bytes((const char *)data, size);
	const char *at = shown;

	must(shown && text_is_safe(shown));
	for (const char *p = shown; *p; p++)
		must((uint8_t)*p >= ' ' && *p != 0x7f);
	for (size_t i = 0; i < size; i++)
		must((*at == '\\' ? unescape(&at) : (uint8_t)*at++) == data[i]);
	must(*at == '\0');
	told(strlen(shown) == size);
	free(shown);
	return 0;
}

/* Names as people give them, which are shown as they are. */
void grammar(struct words *w)
{
	w->n = 0;
	do
		sayf(w, "%s",
		     CHOOSE(w, "a", "backup", "-", ".tar.gz", " ", "\u00e9", "\u65e5\u672c",
			    "\U0001f5d1"));
	while (chance(w, 80));
}
