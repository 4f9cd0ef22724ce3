/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Prints a plan: a line with the verdict, then a label and a value per line, in the layout of
 * systemctl status. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan.h"
#include "ctl/output/screen.h"
#include "base/macros.h"
#include "base/units.h"

#define LABEL_WIDTH 15

/* Sentences are wrapped at this column, because longer lines are hard to read. */
#define SENTENCE_WIDTH 100U

/* Prints `text` beside a label and wraps it there. An empty label continues the line above. */
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
	safe = text ? screen_line(text) : NULL;
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
	     f->complete ? "" : "; interrupted: the number until then");
	if (f->unread)
		line("", "%s could not be read: their contents are not counted",
		     count_format(n, sizeof(n), f->unread));
}

/* Returns the words before a number that is only a bound. */
static const char *hedge(const struct findings *f)
{
	if (f->unread > 0 || !f->complete)
		return "at least ";
	return f->left > 0 ? "at most " : "";
}

static void print_bytes(const struct findings *f)
{
	char size[16];

	line("Frees", "%s%s", hedge(f), size_format(size, sizeof(size), f->bytes));
	if (f->subvolumes > 0)
		line("", "%" PRIu64 " btrfs subvolume%s: space that snapshots share stays in use",
		     f->subvolumes, f->subvolumes == 1 ? "" : "s");
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
	line("Hard links", "%s%s names of files with several names; %s of them stays in use",
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
	line("Cannot go", "%s%s", hedge(f),
	     counted_format(n, sizeof(n), f->undeletable, "entry", "entries"));
	json_array_foreach(f->reasons, i, v)
		line("", "%s: %s", json_text(v, "path"), json_text(v, "reason"));
}

static void print_open(const struct plan *p)
{
	const struct findings *f = &p->f;
	const struct holders *h = p->holders;
	char n[COUNTED_SIZE], hidden[80] = "";
	size_t i;
	json_t *v;

	if (h->processes_hidden)
		(void)snprintf(hidden, sizeof(hidden), "; other users' processes are not visible");
	else if (h->hidden > 0)
		(void)snprintf(hidden, sizeof(hidden),
			       "; %s processes of other users could not be checked",
			       count_format(n, sizeof(n), h->hidden));
	line("Open", "%s%s",
	     f->open_entries ? counted_format(n, sizeof(n), f->open_entries, "entry", "entries")
			     : "none",
	     hidden);
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
		line("Devices", "unknown");
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

static void print_strategy(const struct plan *p)
{
	_cleanup_free_ char *large = NULL;
	char n[28], least[16];

	line("Strategy", "%s at first%s", p->strategy,
	     p->profile.server ? "; more as long as that does not slow down each entry" : "");
	sentence("", p->profile.reason);
	if (asprintf(&large, "%s of %s or more: %s", count_format(n, sizeof(n), p->f.large_files),
		     size_format(least, sizeof(least), ENGINE_LARGE_FILE), plan_large_files(p)) < 0)
		return;
	if (p->f.large_files > 0)
		sentence("Large files", large);
}

void plan_print(const struct plan *p, const json_t *o)
{
	const struct findings *f = &p->f;

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
	print_strategy(p);
}
