/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "packed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/macros.h"

#define NUMBERS 11
#define TEXTS 4

static void texts_of(const struct job_record *r, const char *texts[TEXTS])
{
	texts[0] = job_state_name(r->state);
	texts[1] = r->origin ? r->origin : "";
	texts[2] = job_priority_name(r->priority);
	texts[3] = r->path ? r->path : "";
}

void packed_done(struct packed *p)
{
	free(p->numbers.v);
	free(p->texts.v);
	*p = (struct packed){ 0 };
}

size_t packed_bytes(const struct job_record *r)
{
	size_t bytes = NUMBERS * sizeof(uint64_t);
	const char *texts[TEXTS];

	texts_of(r, texts);
	for (size_t i = 0; i < TEXTS; i++)
		bytes += strlen(texts[i]) + 1;
	return bytes;
}

static int append(struct packed_bytes *b, const void *v, size_t n)
{
	if (b->size - b->n < n) {
		size_t size = MAX(2 * b->size, b->n + n);
		char *p = realloc(b->v, size);

		if (!p)
			return -ENOMEM;
		b->v = p;
		b->size = size;
	}
	memcpy(b->v + b->n, v, n);
	b->n += n;
	return 0;
}

int packed_add(struct packed *p, const struct job_record *r)
{
	const uint64_t numbers[NUMBERS] = {
		r->id,          r->uid,    r->entries,      r->entries_done,    r->bytes,
		r->bytes_freed, r->errors, r->created_usec, r->held_until_usec, r->finished_usec,
		r->started_usec
	};
	const char *texts[TEXTS];
	int e = append(&p->numbers, numbers, sizeof(numbers));

	texts_of(r, texts);
	for (size_t i = 0; i < TEXTS && e >= 0; i++)
		e = append(&p->texts, texts[i], strlen(texts[i]) + 1);
	return e;
}
