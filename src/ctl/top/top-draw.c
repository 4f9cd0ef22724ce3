/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "top-draw.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/jobs/job-print.h"
#include "ctl/output/messages.h"
#include "ctl/output/screen.h"
#include "base/escape.h"
#include "base/macros.h"
#include "base/units.h"

#define KEYS " p pause  r resume  c cancel  P pause all  R resume all  q quit"
#define KEYS_SHORT " p r c one  P R all  q quit"
/* The graph gets what the other columns leave. */
#define GRAPH_LEAST 8
#define DEVICE_COLUMNS 64
/* A bar, where the path has room enough beside it; without the rate and what is left where there is
 * none. */
#define BAR_WIDE 12
#define BAR_NARROW 4
#define COLUMNS_WIDE 100
#define COLUMNS_NARROW 60

enum colour { COLOUR_PLAIN, COLOUR_GOOD, COLOUR_WARN, COLOUR_BAD };

int top_screen_open(SCREEN **ret)
{
	*ret = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? newterm(NULL, stdout, stdin) : NULL;
	if (!*ret)
		return -ENOTTY;
	(void)cbreak();
	(void)noecho();
	(void)keypad(stdscr, TRUE);
	(void)nodelay(stdscr, TRUE);
	(void)set_escdelay(25);
	(void)curs_set(0);
	if (has_colors() && screen_allows_colours()) {
		(void)start_color();
		(void)use_default_colors();
		(void)init_pair(COLOUR_GOOD, COLOR_GREEN, -1);
		(void)init_pair(COLOUR_WARN, COLOR_YELLOW, -1);
		(void)init_pair(COLOUR_BAD, COLOR_RED, -1);
	}
	return 0;
}

/* Puts a text on the screen, cut to its width. */
static void put(int y, int x, attr_t attributes, const char *text)
{
	size_t room = (size_t)MAX(COLS - x, 0);
	bool fits = screen_width(text) <= room;

	if (y >= LINES || x >= COLS)
		return;
	(void)attrset(attributes);
	(void)mvaddnstr(y, x, text, fits ? -1 : (int)screen_cut(text, room));
	if (!fits)
		(void)addstr(screen_ellipsis());
	(void)attrset(A_NORMAL);
}

/* Ends a line that was written to a stream of open_memstream, puts it on the screen and frees it.
 */
static void line_put(FILE *f, char **text, int y, attr_t attributes)
{
	if (fclose(f) == 0)
		put(y, 0, attributes, *text);
	free(*text);
}

static attr_t colour(enum colour c)
{
	return has_colors() ? (attr_t)COLOR_PAIR(c) : A_NORMAL;
}

static int draw_head(const struct metrics *m)
{
	uint64_t freed = json_number(m->manager, "EntriesFreed");
	char n[28], size[16], window[WINDOW_WORDS];
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return 1;
	(void)window_format(window, json_text(m->manager, "PacingWindow"),
			    json_number(m->manager, "PacingWindowRate"),
			    json_number(m->manager, "PacingWindowUntilUSec"));
	(void)fprintf(f, "reclaimd %s  ", json_text(m->manager, "Version"));
	if (!counts_print(f, json_object_get(m->manager, "Jobs")))
		(void)fputs("no jobs", f);
	(void)fprintf(f, "; deleted %s %s, %s", count_format(n, sizeof(n), freed),
		      entries_word(freed),
		      size_format(size, sizeof(size), json_number(m->manager, "BytesFreed")));
	line_put(f, &text, 0, A_BOLD);
	if (json_is_true(json_object_get(m->manager, "Paused")))
		put(1, 0, colour(COLOUR_WARN),
		    "Everything is paused: nothing is deleted until R is pressed");
	else if (json_text(m->manager, "StoreError")[0])
		put(1, 0, colour(COLOUR_BAD),
		    "The job store cannot be written: see reclaimctl status");
	else if (json_text(m->manager, "ConfigurationError")[0])
		put(1, 0, colour(COLOUR_WARN),
		    "The configuration has an error: see reclaimctl status");
	else if (window[0])
		put(1, 0, colour(COLOUR_WARN), window);
	return 3;
}

/* A column of the graph: half of its height is what a quantum may cost. */
static void draw_share(double share)
{
	static const char *const blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const letters[] = { " ", "_", ".", ",", "-", "=", "+", "*", "#" };
	size_t level = share > 0 ? (size_t)MIN(ceil(share * 4), 8.0) : 0;

	(void)attrset(colour(share > 1 ? COLOUR_BAD : COLOUR_GOOD));
	(void)addstr((screen_is_utf8() ? blocks : letters)[level]);
	(void)attrset(A_NORMAL);
}

static char *milliseconds(char *buf, size_t len, uint64_t usec)
{
	if (usec == 0)
		(void)snprintf(buf, len, "-");
	else
		(void)snprintf(buf, len, "%.1fms", (double)usec / 1e3);
	return buf;
}

static void draw_device(const struct top_device *d, int y)
{
	int graph = CLAMP(COLS - DEVICE_COLUMNS, GRAPH_LEAST, TOP_HISTORY);
	const char *mode = json_text(d->now, "mode");
	bool paced = strcmp(mode, "paced") == 0;
	char quantum[24], target[24], n[28], size[16], text[160];

	(void)snprintf(text, sizeof(text), "%-10.10s %-7s %9s %9s ", json_text(d->now, "name"),
		       mode,
		       milliseconds(quantum, sizeof(quantum),
				    paced ? json_number(d->now, "piece_usec") : 0),
		       milliseconds(target, sizeof(target), json_number(d->now, "target_usec")));
	put(y, 0, A_NORMAL, text);
	if (y < LINES && getcurx(stdscr) + graph < COLS)
		for (int i = TOP_HISTORY - graph; i < TOP_HISTORY; i++)
			draw_share(d->history[i]);
	(void)snprintf(text, sizeof(text), " %9s/s %9s/s",
		       count_format(n, sizeof(n), json_number(d->now, "entries_per_second")),
		       size_format(size, sizeof(size), json_number(d->now, "bytes_per_second")));
	put(y, 39 + graph, A_NORMAL, text);
}

static int draw_devices(const struct top_model *m, int y)
{
	int graph = CLAMP(COLS - DEVICE_COLUMNS, GRAPH_LEAST, TOP_HISTORY);
	char text[160];

	if (m->n_devices == 0)
		return y;
	(void)snprintf(text, sizeof(text), "%-10s %-7s %9s %9s %-*s %11s %11s", "DEVICE", "MODE",
		       "QUANTUM", "MAY COST", graph, "LATELY", "ENTRIES", "FREED");
	put(y++, 0, A_UNDERLINE, text);
	for (size_t i = 0; i < m->n_devices; i++)
		draw_device(&m->devices[i], y++);
	return y + 1;
}

static int bar_width(void)
{
	return COLS < COLUMNS_WIDE ? BAR_NARROW : BAR_WIDE;
}

/* Where it is not known how much there is, what is done is told in numbers. */
static void done_print(FILE *f, const struct top_job *j)
{
	int bar = bar_width(), full = (int)(j->share * bar);
	char n[28];

	if (j->share < 0) {
		(void)fprintf(f, "%*s", bar + 7, count_format(n, sizeof(n), j->line->entries_done));
		return;
	}
	(void)fputc('[', f);
	for (int i = 0; i < bar; i++)
		(void)fputc(i < full ? '#' : '.', f);
	(void)fprintf(f, "] %3d%%", (int)(j->share * 100));
}

/* In what there is more of to do. */
static const char *rate_format(char *buf, size_t len, const struct top_job *j)
{
	char n[28];

	if (j->entries_rate < 1 && j->bytes_rate < 1)
		return "";
	if (j->bytes_rate / MiB(4) > j->entries_rate)
		(void)size_format(n, sizeof(n), (uint64_t)j->bytes_rate);
	else
		(void)count_format(n, sizeof(n), (uint64_t)j->entries_rate);
	(void)snprintf(buf, len, "%s/s", n);
	return buf;
}

/* The end of a path says more than its beginning. */
static void path_print(FILE *f, const char *path, int room)
{
	const char *at = path;

	if (screen_width(path) > (size_t)MAX(room, 0)) {
		at += screen_skip(path, (size_t)MAX(room, 0));
		(void)fputs(screen_ellipsis(), f);
	}
	(void)fputs(at, f);
}

static void draw_job(const struct top_job *j, int y, bool selected)
{
	_cleanup_free_ char *path = job_path_format(j->line);
	char freed[40], speed[40], left[32] = "";
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return;
	if (j->left_usec > 0)
		(void)timespan_format(left, sizeof(left), j->left_usec);
	(void)fprintf(f, "%6" PRIu64 " %-8s ", j->line->id, j->line->state);
	done_print(f, j);
	if (COLS >= COLUMNS_NARROW)
		(void)fprintf(f, " %9s %11s %9s",
			      bytes_brief(freed, sizeof(freed), j->line->bytes_freed, 0),
			      rate_format(speed, sizeof(speed), j), left);
	(void)fputc(' ', f);
	path_print(f, path ? path : "?", COLS - (int)ftell(f));
	line_put(f, &text, y, A_NORMAL);
	if (selected)
		(void)mvchgat(y, 0, -1, A_REVERSE, 0, NULL);
}

static void draw_jobs(const struct top_model *m, struct top_view *v, int y)
{
	int room = LINES - y - 3;
	size_t rows = room > 1 ? (size_t)room : 1;
	char text[160];

	(void)snprintf(text, sizeof(text), "%6s %-8s %-*s%s PATH", "JOB", "STATE", bar_width() + 7,
		       "DONE", COLS < COLUMNS_NARROW ? "" : "     FREED        RATE      LEFT");
	put(y++, 0, A_UNDERLINE, text);
	if (v->selected < v->first)
		v->first = v->selected;
	if (v->selected >= v->first + rows)
		v->first = v->selected - rows + 1;
	if (v->first + rows > m->n_jobs)
		v->first = m->n_jobs - MIN(rows, m->n_jobs);
	for (size_t i = v->first; i < m->n_jobs && i < v->first + rows; i++)
		draw_job(&m->jobs[i], y++, i == v->selected);
	if (m->n_jobs == 0)
		put(y, 0, A_NORMAL, "No jobs that have not finished");
}

void top_screen_draw(const struct top_model *m, struct top_view *v)
{
	(void)erase();
	draw_jobs(m, v, draw_devices(m, draw_head(&m->metrics)));
	if (v->message[0])
		put(LINES - 2, 0, v->asks || v->bad ? colour(COLOUR_BAD) | A_BOLD : A_NORMAL,
		    v->message);
	put(LINES - 1, 0, A_NORMAL,
	    v->asks                    ? " y yes  any other key: no"
	    : COLS < (int)strlen(KEYS) ? KEYS_SHORT
				       : KEYS);
	(void)mvchgat(LINES - 1, 0, -1, A_REVERSE, 0, NULL);
	(void)refresh();
}
