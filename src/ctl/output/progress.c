/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "progress.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "screen.h"
#include "base/fd.h"
#include "base/units.h"

#define LINE_EVERY (5 * USEC_PER_SEC)

/* How many bytes weigh as much as one entry: unlinking costs some 10 µs, freeing 4 MiB about the
 * same. Only the bar's evenness hangs on it. */
#define BYTES_PER_UNIT MiB(4)

/* The share of the newest rate in the one shown. */
#define SMOOTH 0.1

struct progress {
	pthread_mutex_t lock;
	bool bar, drawn, total_complete;
	uint64_t total_entries, total_bytes, base_entries, base_bytes;
	uint64_t began_usec, last_usec, last_line_usec;
	double last_units, rate; /* units per second */
};

struct progress *progress_new(enum switch_mode mode, bool quiet)
{
	bool terminal = screen_redraws();
	struct progress *p;

	if (quiet || mode == SWITCH_OFF)
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	pthread_mutex_init(&p->lock, NULL);
	p->bar = terminal;
	p->began_usec = p->last_usec = p->last_line_usec = now_usec();
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

static unsigned columns(void)
{
	unsigned n = screen_columns(STDERR_FILENO);

	return n > 0 ? n : 80;
}

static void rate_update(struct progress *p, double done, uint64_t now)
{
	double seconds = (double)(now - p->last_usec) / USEC_PER_SEC;

	if (seconds < 0.05)
		return;
	if (p->last_units > 0 || done > 0) {
		double r = (done - p->last_units) / seconds;
		p->rate = p->rate > 0 ? p->rate * (1 - SMOOTH) + r * SMOOTH : r;
	}
	p->last_units = done;
	p->last_usec = now;
}

static void time_left(const struct progress *p, double done, double total, char *buf, size_t len)
{
	char span[32];

	if (!p->total_complete || p->rate <= 0 || total <= done) {
		buf[0] = '\0';
		return;
	}
	timespan_format(span, sizeof(span), (uint64_t)((total - done) / p->rate * USEC_PER_SEC));
	(void)snprintf(buf, len, ", %s left", span);
}

/* "1.2 GiB", "1.2 GiB of 4.0 GiB"; "" where no bytes are known of. */
static void bytes_describe(const struct progress *p, uint64_t bytes, char *buf, size_t len)
{
	char done[16], total[16];
	bool of = p->total_complete && p->total_bytes > bytes;

	buf[0] = '\0';
	if (bytes > 0 || of)
		(void)snprintf(buf, len, ", %s%s%s", size_format(done, sizeof(done), bytes),
			       of ? " of " : "",
			       of ? size_format(total, sizeof(total), p->total_bytes) : "");
}

/* Entries a second; of few large ones, bytes. */
static void speed_describe(uint64_t entries, uint64_t bytes, uint64_t elapsed_usec, char *buf,
			   size_t len)
{
	double seconds = (double)elapsed_usec / USEC_PER_SEC;
	char speed[28];

	if (seconds <= 0)
		(void)snprintf(speed, sizeof(speed), "0");
	else if ((double)entries < seconds && bytes > 0)
		(void)size_format(speed, sizeof(speed), (uint64_t)((double)bytes / seconds));
	else
		(void)count_format(speed, sizeof(speed), (uint64_t)((double)entries / seconds));
	(void)snprintf(buf, len, "%s/s", speed);
}

/* The numbers: "123,456 of 200,000 entries, 1.2 GiB of 3.0 GiB, 56,000/s, 3s left". */
static void describe(const struct progress *p, uint64_t entries, uint64_t bytes, double done,
		     double total, uint64_t elapsed_usec, char *buf, size_t len)
{
	char n[28], of[28] = "", sum[28], sizes[48], speed[32], left[48];

	if (p->total_entries >= entries && p->total_entries > 0)
		(void)snprintf(of, sizeof(of), " of %s%s", p->total_complete ? "" : "over ",
			       count_format(sum, 16, p->total_entries));
	time_left(p, done, total, left, sizeof(left));
	bytes_describe(p, bytes, sizes, sizeof(sizes));
	speed_describe(entries, bytes, elapsed_usec, speed, sizeof(speed));
	(void)snprintf(buf, len, "%s%s entries%s, %s%s", count_format(n, sizeof(n), entries), of,
		       sizes, speed, left);
}

static void draw_bar(struct progress *p, const char *text, double part)
{
	unsigned width = columns(), text_len = (unsigned)strlen(text);
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

void progress_update(struct progress *p, const struct engine_progress *e)
{
	uint64_t now = now_usec(), entries, bytes;
	double done, total;
	char text[192];

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	entries = p->base_entries + e->stats.entries;
	bytes = p->base_bytes + e->stats.bytes;
	done = units(entries, bytes);
	total = units(p->total_entries, p->total_bytes);
	rate_update(p, done, now);
	describe(p, entries, bytes, done, total, now - p->began_usec, text, sizeof(text));
	if (p->bar) {
		draw_bar(p, text, p->total_complete && total > 0 ? MIN(done / total, 1.0) : -1);
	} else if (now - p->last_line_usec >= LINE_EVERY) {
		p->last_line_usec = now;
		(void)fprintf(stderr, "reclaimctl: %s\n", text);
	}
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
