/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "progress.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "estimate.h"
#include "screen.h"
#include "base/fd.h"
#include "base/units.h"

#define LINE_EVERY (5 * USEC_PER_SEC)

/* How many bytes weigh as much as one entry: unlinking costs some 10 µs, freeing 4 MiB about the
 * same. Only the bar's evenness hangs on it. */
#define BYTES_PER_UNIT MiB(4)

struct progress {
	pthread_mutex_t lock;
	bool bar, drawn, total_complete;
	uint64_t total_entries, total_bytes, base_entries, base_bytes;
	uint64_t began_usec, last_line_usec;
	struct estimate estimate; /* of units */
};

struct progress *progress_new(enum switch_mode mode, bool quiet)
{
	struct progress *p;

	if (quiet || mode == SWITCH_OFF)
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	pthread_mutex_init(&p->lock, NULL);
	p->bar = screen_redraws();
	p->began_usec = p->last_line_usec = now_usec();
	return p;
}

struct progress *progress_free(struct progress *p)
{
	if (!p)
		return NULL;
	progress_pause(p);
	pthread_mutex_destroy(&p->lock);
	free(p);
	return NULL;
}

bool progress_wants_total(const struct progress *p)
{
	return p && p->bar;
}

void progress_total(struct progress *p, uint64_t entries, uint64_t bytes, bool complete)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->total_entries = entries;
	p->total_bytes = bytes;
	p->total_complete = complete;
	pthread_mutex_unlock(&p->lock);
}

void progress_base(struct progress *p, uint64_t entries, uint64_t bytes)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->base_entries += entries;
	p->base_bytes += bytes;
	pthread_mutex_unlock(&p->lock);
}

static double units(uint64_t entries, uint64_t bytes)
{
	return (double)entries + (double)bytes / BYTES_PER_UNIT;
}

/* "123,456 of 200,000 entries, 1.2 GiB of 3.0 GiB, 56,000/s, 3s left". */
static void describe(FILE *out, const struct progress *p, uint64_t entries, uint64_t bytes,
		     double left, uint64_t elapsed_usec)
{
	bool of = p->total_complete && p->total_bytes > bytes;
	double seconds = (double)MAX(elapsed_usec, 1ULL) / USEC_PER_SEC;
	uint64_t left_usec = p->total_complete ? estimate_left(&p->estimate, left) : 0;
	char n[32];

	(void)fputs(count_format(n, sizeof(n), entries), out);
	if (p->total_entries >= entries && p->total_entries > 0)
		(void)fprintf(out, " of %s%s", p->total_complete ? "" : "over ",
			      count_format(n, sizeof(n), p->total_entries));
	(void)fputs(" entries", out);
	if (bytes > 0 || of)
		(void)fprintf(out, ", %s", size_format(n, sizeof(n), bytes));
	if (of)
		(void)fprintf(out, " of %s", size_format(n, sizeof(n), p->total_bytes));
	/* Of few large entries, bytes. */
	if ((double)entries < seconds && bytes > 0)
		(void)size_format(n, sizeof(n), (uint64_t)((double)bytes / seconds));
	else
		(void)count_format(n, sizeof(n), (uint64_t)((double)entries / seconds));
	(void)fprintf(out, ", %s/s", n);
	if (left_usec > 0)
		(void)fprintf(out, ", %s left", timespan_format(n, sizeof(n), left_usec));
}

static void draw_bar(struct progress *p, const char *text, double part)
{
	unsigned columns = screen_columns(STDERR_FILENO), width = columns > 0 ? columns : 80;
	unsigned text_len = (unsigned)strlen(text);
	unsigned bar = width > text_len + 12 ? MIN(width - text_len - 9, 40U) : 0;
	unsigned full = (unsigned)(part * bar);
	char line[64];

	(void)fputs("\r\033[K", stderr);
	if (bar >= 3 && part >= 0) {
		for (unsigned i = 0; i < bar; i++)
			line[i] = i < full ? '#' : '.';
		line[bar] = '\0';
		(void)fprintf(stderr, "[%s] %3.0f%% ", line, part * 100);
	}
	(void)fprintf(stderr, "%.*s", (int)(width - 1), text);
	(void)fflush(stderr);
	p->drawn = true;
}

static void show(struct progress *p, const char *text, double part, uint64_t now)
{
	if (p->bar) {
		draw_bar(p, text, part);
	} else if (now - p->last_line_usec >= LINE_EVERY) {
		p->last_line_usec = now;
		(void)fprintf(stderr, "reclaimctl: %s\n", text);
	}
}

void progress_update(struct progress *p, const struct engine_progress *e)
{
	uint64_t now = now_usec(), entries, bytes;
	double done, total;
	char text[192] = "";
	FILE *out;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	entries = p->base_entries + e->stats.entries;
	bytes = p->base_bytes + e->stats.bytes;
	done = units(entries, bytes);
	total = units(p->total_entries, p->total_bytes);
	estimate_add(&p->estimate, now, done);
	out = fmemopen(text, sizeof(text), "w");
	if (out) {
		describe(out, p, entries, bytes, total - done, now - p->began_usec);
		(void)fclose(out);
	}
	show(p, text, p->total_complete && total > 0 ? MIN(done / total, 1.0) : -1, now);
	pthread_mutex_unlock(&p->lock);
}

void progress_share(struct progress *p, const char *what, uint64_t bytes, double part)
{
	char size[16], text[128];

	if (!p)
		return;
	(void)snprintf(text, sizeof(text), "%s %s", size_format(size, sizeof(size), bytes), what);
	pthread_mutex_lock(&p->lock);
	show(p, text, MIN(part, 1.0), now_usec());
	pthread_mutex_unlock(&p->lock);
}

void progress_pause(struct progress *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->drawn) {
		(void)fputs("\r\033[K", stderr);
		(void)fflush(stderr);
	}
	p->drawn = false;
	pthread_mutex_unlock(&p->lock);
}
