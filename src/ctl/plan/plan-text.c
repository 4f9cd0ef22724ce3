/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A plan for people: a line for the verdict, then a label and what belongs to it per line, as
 * systemctl status has it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan.h"
#include "ctl/output/screen.h"
#include "base/escape.h"
#include "base/macros.h"
#include "base/units.h"

#define LABEL_WIDTH 15

/* Sentences are not wider than this, so that they can be read. */
#define SENTENCE_WIDTH 100U

/* Shorter times are all the same to people. */
#define TIME_LEAST (50 * USEC_PER_MSEC)

/* A label, and a text that goes on below its beginning; "" as label goes on with what is above. */
static void put(const char *label, const char *text, size_t width)
{
	(void)printf("%*s%s ", LABEL_WIDTH, label, label[0] ? ":" : " ");
	screen_wrap(stdout, text, width, LABEL_WIDTH + 2);
}

static void line(const char *label, const char *format, ...) _printf_(2, 3);

static void line(const char *label, const char *format, ...)
{
	_cleanup_free_ char *text = NULL, *safe = NULL;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		text = NULL;
	va_end(ap);
	safe = text ? escape_line(text) : NULL;
	put(label, safe ? safe : "?", screen_columns(STDOUT_FILENO));
}

static void sentence(const char *label, const char *s)
{
	unsigned columns = screen_columns(STDOUT_FILENO);

	put(label, s, columns > 0 ? MIN(columns, SENTENCE_WIDTH) : SENTENCE_WIDTH);
}

static const char *const verdict_words[] = {
	[VERDICT_DELETE] = "would be deleted",      [VERDICT_PARTLY] = "would be deleted in part",
	[VERDICT_BLOCKED] = "could not be deleted", [VERDICT_REFUSED] = "would be refused",
	[VERDICT_MISSING] = "nothing to delete",
};

static void print_entries(const struct findings *f)
{
	const struct {
		uint64_t n;
		const char *one, *many;
	} types[] = {
		{ f->files, "file", "files" },
		{ f->directories, "directory", "directories" },
		{ f->symlinks, "symbolic link", "symbolic links" },
		{ f->others, "other", "others" },
		{ f->unknown, "of unknown type", "of unknown type" },
	};
	char n[COUNTED_SIZE], parts[ELEMENTSOF(types) * (COUNTED_SIZE + 2)] = "";
	int at = 0;

	for (size_t i = 0; i < ELEMENTSOF(types); i++)
		if (types[i].n > 0)
			at += snprintf(parts + at, sizeof(parts) - (size_t)at, "%s%s",
				       at > 0 ? ", " : "",
				       counted_format(n, sizeof(n), types[i].n, types[i].one,
						      types[i].many));
	line("Entries", "%s (%s)%s", count_format(n, sizeof(n), f->entries), parts,
	     f->complete ? "" : "; interrupted: so many were seen by then");
	if (f->unread)
		line("", "%s could not be read: what is in there is not counted",
		     count_format(n, sizeof(n), f->unread));
}

/* What goes before a number that may not be the whole truth. */
static const char *hedge(const struct findings *f)
{
	if (f->sampled)
		return "about ";
	if (f->unread > 0 || !f->complete)
		return "at least ";
	return f->left > 0 ? "at most " : "";
}

static void print_bytes(const struct findings *f)
{
	char size[16], margin[16], give_or_take[40] = "", n[28];

	size_format(size, sizeof(size), f->bytes);
	if (f->bytes_margin > 0)
		(void)snprintf(give_or_take, sizeof(give_or_take), ", give or take %s",
			       size_format(margin, sizeof(margin), f->bytes_margin));
	if (f->sampled)
		line("Frees", "about %s%s (%s entries examined)", size, give_or_take,
		     count_format(n, sizeof(n), f->examined));
	else
		line("Frees", "%s%s", hedge(f), size);
}

static void print_largest(const char *label, const json_t *list, const char *key)
{
	bool bytes = strcmp(key, "bytes") == 0;
	size_t i;
	json_t *v;

	json_array_foreach(list, i, v) {
		uint64_t amount = json_number(v, key);
		char n[28];

		line(i == 0 ? label : "", "%*s  %s", bytes ? 10 : 12,
		     bytes ? size_format(n, sizeof(n), amount) : count_format(n, sizeof(n), amount),
		     json_text(v, "path"));
	}
}

static void print_directories(const struct findings *f, const json_t *o)
{
	char n[28], mean[28], depth[28];

	if (!S_ISDIR(f->mode))
		return;
	if (f->mean_entries < 10)
		(void)snprintf(mean, sizeof(mean), "%.1f", f->mean_entries);
	else
		count_format(mean, sizeof(mean), (uint64_t)(f->mean_entries + 0.5));
	line("Directories", "%s, %s entries in each on average, %s level%s deep",
	     count_format(n, sizeof(n), f->directories), mean,
	     count_format(depth, sizeof(depth), f->depth), f->depth == 1 ? "" : "s");
	print_largest("Most entries", json_object_get(o, "largest_directories"), "entries");
	print_largest("Largest files", json_object_get(o, "largest_files"), "bytes");
}

static void print_links(const struct findings *f)
{
	char n[28], size[16];

	if (f->linked_entries == 0)
		return;
	line("Hard links", "%s%s names of files that have several; %s in them stays occupied",
	     hedge(f), count_format(n, sizeof(n), f->linked_entries),
	     f->linked_bytes ? size_format(size, sizeof(size), f->linked_bytes) : "nothing");
}

static void print_obstacles(const struct findings *f)
{
	char n[COUNTED_SIZE];
	size_t i;
	json_t *v;

	if (f->undeletable == 0)
		return;
	line("Has to stay", "%s%s", hedge(f),
	     counted_format(n, sizeof(n), f->undeletable, "entry", "entries"));
	json_array_foreach(f->reasons, i, v)
		line("", "%s: %s", json_text(v, "path"), json_text(v, "reason"));
}

static void print_open(const struct plan *p)
{
	const struct findings *f = &p->f;
	const struct holders *h = p->holders;
	char n[28], hidden[80] = "";
	size_t i;
	json_t *v;

	if (h->processes_hidden)
		(void)snprintf(hidden, sizeof(hidden), "; other users' processes are not visible");
	else if (h->hidden > 0)
		(void)snprintf(hidden, sizeof(hidden),
			       "; %s processes may not be looked into by this user",
			       count_format(n, sizeof(n), h->hidden));
	line("Open", "%s %s%s",
	     f->open_entries ? count_format(n, sizeof(n), f->open_entries) : "no",
	     f->open_entries == 1 ? "entry" : "entries", hidden);
	json_array_foreach(f->holders, i, v) {
		const json_t *of = json_object_get(v, "pid");
		char pid[24] = "";

		if (json_is_integer(of))
			(void)snprintf(pid, sizeof(pid), " (%d)", (int)json_integer_value(of));
		line("", "%s: %s %s%s", json_text(v, "path"), holder_how_words(json_text(v, "how")),
		     json_text(v, "command"), pid);
	}
}

static void print_filesystem(const json_t *fs)
{
	char size[16], avail[16];
	const json_t *devices = json_object_get(fs, "devices");
	size_t i;
	json_t *v;

	line("Filesystem", "%s on %s, from %s", json_text(fs, "type"), json_text(fs, "mount_point"),
	     json_text(fs, "source"));
	line("", "%s of %s free", size_format(avail, sizeof(avail), json_number(fs, "free_bytes")),
	     size_format(size, sizeof(size), json_number(fs, "size_bytes")));
	line("", "%s", json_text(fs, "options"));
	if (json_array_size(devices) == 0)
		line("Devices", "none that this system shows");
	json_array_foreach(devices, i, v) {
		uint64_t most = json_number(v, "discard_max_bytes");
		const char *file = json_text(v, "backing_file");
		char trim[64] = "no discard";

		if (most > 0)
			(void)snprintf(trim, sizeof(trim), "discards up to %s at once",
				       size_format(size, sizeof(size), most));
		line(i == 0 ? "Devices" : "", "%s%s (%s): %s, %s%s%s",
		     json_is_true(json_object_get(v, "top")) ? "" : "on ", json_text(v, "name"),
		     json_text(v, "number"),
		     json_is_true(json_object_get(v, "rotating")) ? "rotating" : "not rotating",
		     trim, file[0] ? ", behind it " : "", file);
	}
}

static void print_discards(const json_t *setup)
{
	char now[256], advice[160];

	if (!json_is_object(setup))
		return;
	discard_setup_texts(setup, now, sizeof(now), advice, sizeof(advice));
	sentence("Discards", now);
	if (advice[0])
		sentence("", advice);
	if (json_text(setup, "fstab")[0])
		line("", "%s", json_text(setup, "fstab"));
}

static void print_strategy(const struct plan *p)
{
	_cleanup_free_ char *large = NULL;
	char n[28], least[16];

	line("Strategy", "%s, to begin with%s", p->strategy,
	     p->profile.server ? "; more while each entry takes no longer for that" : "");
	sentence("", p->profile.reason);
	if (asprintf(&large, "%s of %s or more: %s", count_format(n, sizeof(n), p->f.large_files),
		     size_format(least, sizeof(least), ENGINE_LARGE_FILE), plan_large_files(p)) < 0)
		return;
	if (p->f.large_files > 0)
		sentence("Large files", large);
}

static void print_estimate(const struct plan *p)
{
	const struct blockdevs *b = &p->around.devices;
	bool remote = p->profile.server;
	char from[32], to[32];

	timespan_format(from, sizeof(from), p->warm_usec);
	timespan_format(to, sizeof(to), p->cold_usec);
	if (p->cold_usec < TIME_LEAST)
		line("Time", "none to speak of");
	else if (strcmp(from, to) == 0)
		line("Time", "about %s, unpaced", from);
	else if (remote)
		line("Time", "about %s (server close by) to %s (1 ms away), unpaced", from, to);
	else
		line("Time", "about %s (warm cache) to %s (cold cache%s), unpaced", from, to,
		     blockdevs_rotating(b) ? ", rotating disk" : "");
}

void plan_print(const struct plan *p, const json_t *o)
{
	const struct findings *f = &p->f;
	size_t i;
	json_t *v;

	(void)printf("%s: %s%s%s\n", json_text(o, "path"), verdict_words[p->verdict],
		     p->reason ? ": " : "", p->reason ? p->reason : "");
	if (p->reason)
		return;
	line("Type", "%s", mode_name(f->mode));
	print_entries(f);
	print_bytes(f);
	print_directories(f, o);
	print_links(f);
	print_obstacles(f);
	print_open(p);
	print_filesystem(json_object_get(o, "filesystem"));
	print_discards(json_object_get(o, "discard_setup"));
	print_strategy(p);
	print_estimate(p);
	json_array_foreach(p->costs, i, v)
		sentence(i == 0 ? "What costs" : "", json_string_value(v));
}
