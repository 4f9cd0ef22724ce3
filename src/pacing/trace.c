/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/fd.h"

void trace_options(FILE *f, const struct controller_options *o, uint64_t now_usec)
{
	(void)fprintf(f, "o %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %d %d\n", now_usec,
		      o->latency_usec, o->rate_min, o->presumed_busy, o->observed, o->discards);
}

void trace_sample(FILE *f, const struct pacing_sample *s)
{
	(void)fprintf(f,
		      "s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
		      " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %" PRIu64 " %" PRIu64
		      " %" PRIu64 " %" PRIu64 "\n",
		      s->now_usec, s->reads, s->read_sectors, s->read_usec, s->flushes, s->requests,
		      s->in_flight, s->own_sectors, s->canary_count, s->canary_usec, s->canary_busy,
		      s->commits, s->discards, s->discard_usec, s->flush_usec);
}

void trace_work(FILE *f, char kind, enum pacing_mode mode, uint64_t entries, uint64_t bytes,
		uint64_t cost_usec)
{
	(void)fprintf(f, "%c %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", kind,
		      now_usec(), entries, bytes, cost_usec, pacing_mode_name(mode));
}

static int sample_parse(const char *text, struct pacing_sample *s)
{
	/* Older traces know nothing of commits, of discards, or of how long flushes took. */
	int busy, n = sscanf(text,
			     "s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
			     " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
			     " %d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
			     &s->now_usec, &s->reads, &s->read_sectors, &s->read_usec, &s->flushes,
			     &s->requests, &s->in_flight, &s->own_sectors, &s->canary_count,
			     &s->canary_usec, &busy, &s->commits, &s->discards, &s->discard_usec,
			     &s->flush_usec);

	s->canary_busy = n >= 11 && busy;
	return n >= 11 ? 0 : -EBADMSG;
}

static int options_parse(const char *text, struct trace_line *l)
{
	int busy, observed, discards;
	int n = sscanf(text, "o %" SCNu64 " %" SCNu64 " %" SCNu64 " %d %d %d", &l->usec,
		       &l->options.latency_usec, &l->options.rate_min, &busy, &observed, &discards);

	if (n != 6)
		return -EBADMSG;
	l->options.presumed_busy = busy;
	l->options.observed = observed;
	l->options.discards = discards;
	return 0;
}

int trace_parse(const char *text, struct trace_line *ret)
{
	char mode[8];

	*ret = (struct trace_line){ .kind = text[0] };
	if (text[0] == 'o')
		return options_parse(text, ret);
	if (text[0] == 's')
		return sample_parse(text, &ret->sample);
	if ((text[0] != 'w' && text[0] != 'y' && text[0] != 'd') ||
	    sscanf(text + 1, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %7s", &ret->usec,
		   &ret->entries, &ret->bytes, &ret->cost_usec, mode) != 5)
		return -EBADMSG;
	for (int i = PACING_FAST; i <= PACING_PACED; i++)
		if (strcmp(mode, pacing_mode_name((enum pacing_mode)i)) == 0) {
			ret->mode = (enum pacing_mode)i;
			return 0;
		}
	return -EBADMSG;
}
