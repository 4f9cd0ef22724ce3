/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sizes, time spans, and times in names: what is taken for one is shown as one again, and what is
 * shown is about what was read. Two texts, with a NUL between them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "policy/name-time.h"
#include "base/units.h"

static bool size_check(const char *text)
{
	uint64_t bytes = 7, again;
	char shown[16];
	int r = size_parse(text, &bytes);

	must(r == 0 || r == -EINVAL || r == -ERANGE);
	must(r == 0 || bytes == 7);
	if (r == 0)
		must(size_parse(size_format(shown, sizeof(shown), bytes), &again) == 0 ||
		     bytes > UINT64_MAX / 16 * 15);
	return r == 0;
}

static bool timespan_check(const char *text)
{
	uint64_t usec = 7, again;
	char shown[32];
	int r = timespan_parse(text, &usec);

	must(r == 0 || r == -EINVAL || r == -ERANGE);
	must(r == 0 || usec == 7);
	/* Next to the most that there is, rounding may lead over it. */
	if (r == 0 && usec < UINT64_MAX / 16 * 15) {
		must(timespan_parse(timespan_format(shown, sizeof(shown), usec), &again) == 0);
		must(again <= usec + usec / 20);
	}
	return r == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 2);
	bool is_something;
	int64_t nsec;

	must(text);
	memcpy(text, data, size);
	text[size] = text[size + 1] = '\0';
	is_something = size_check(text);
	is_something = timespan_check(text) || is_something;
	if (name_time_check(text) &&
	    name_time_find(text, text + strlen(text) + 1, INT64_MAX, &nsec) == NAME_TIME_FOUND) {
		must(nsec >= 0);
		is_something = true;
	}
	told(is_something);
	free(text);
	return 0;
}

void grammar(struct words *w)
{
	w->n = 0;
	switch (choose(w, 3)) {
	case 0:
		sayf(w, "%u%s%s", choose(w, 5000), CHOOSE(w, "", ".5", ".25", ""),
		     CHOOSE(w, "", "K", "KiB", "MiB", "G", "TiB", "kB", "MB", " GB"));
		break;
	case 1:
		do
			sayf(w, "%u%s", choose(w, 1000),
			     CHOOSE(w, "us", "ms", "s", "min", "h", "d", "w", " h ", " d "));
		while (chance(w, 30));
		break;
	default:
		sayf(w, "%s", CHOOSE(w, "%Y-%m-%d", "%Y%m%d", "%s", "%d.%m.%y", "%Y-%j", "%FT%T"));
		say(w, "", 1);
		sayf(w, "db-%u-%02u-%02u.gz", 1960 + choose(w, 100), choose(w, 14), choose(w, 33));
	}
}
