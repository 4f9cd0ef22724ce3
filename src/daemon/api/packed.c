/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "packed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

#define NUMBERS 11

void packed_done(struct packed *p)
{
	free(p->numbers.v);
	free(p->texts.v);
	*p = (struct packed){ 0 };
}

struct packed_job packed_job(const struct job_record *r)
{
	struct packed_job j = { .r = r,
				.texts = { job_state_name(r->state), r->origin ? r->origin : "",
					   job_priority_name(r->priority), r->path ? r->path : "" },
				.bytes = NUMBERS * sizeof(uint64_t) };

	for (size_t i = 0; i < PACKED_TEXTS; i++)
		j.bytes += j.lens[i] = strlen(j.texts[i]) + 1;
	return j;
}

/* Makes room for so many more, and returns where they go. NULL: there is no memory. */
static char *extend(struct packed_bytes *b, size_t n)
{
	if (b->size - b->n < n) {
		size_t size = MAX(2 * b->size, b->n + n);
		char *p = realloc(b->v, size);

		if (!p)
			return NULL;
		b->v = p;
		b->size = size;
	}
	b->n += n;
	return b->v + b->n - n;
}

int packed_add(struct packed *p, const struct packed_job *j)
{
	const struct job_record *r = j->r;
	const uint64_t numbers[NUMBERS] = {
		r->id,          r->uid,    r->entries,      r->entries_done,    r->bytes,
		r->bytes_freed, r->errors, r->created_usec, r->held_until_usec, r->finished_usec,
		r->started_usec
	};
	char *to = extend(&p->numbers, sizeof(numbers));
	char *text = to ? extend(&p->texts, j->bytes - sizeof(numbers)) : NULL;

	if (!text)
		return -ENOMEM;
	memcpy(to, numbers, sizeof(numbers));
	for (size_t i = 0; i < PACKED_TEXTS; text += j->lens[i++])
		memcpy(text, j->texts[i], j->lens[i]);
	return 0;
}
