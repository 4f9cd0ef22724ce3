/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A configuration file of any bytes is read, or refused with a reason that has a place in it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/config.h"
#include "fuzz.h"
#include "base/escape.h"
#include "base/macros.h"

static void complain(const struct config_error *e, void *userdata)
{
	unsigned *errors = userdata;

	must(e->text[0]);
	must(text_is_safe(e->text));
	must(!strpbrk(e->text, "\n\x1b"));
	*errors += !e->is_warning;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("configuration", MFD_CLOEXEC), r;
	struct config *c = NULL;
	unsigned errors = 0;
	char path[64];

	must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = config_load_file(&c, path, complain, &errors);
	must(r == 0 || r == -EBADMSG);
	must((r == 0) == (errors == 0) && (r == 0) == (c != NULL));
	told(r == 0);
	config_free(c);
	(void)close(fd);
	return 0;
}

/* ---- configurations as people write them ---------------------------------------------------- */

struct key {
	const char *name;
	const char *values[8];
};

static const struct key root_keys[] = {
	{ "undo", { "0", "1h", "365d", "30" } },
	{ "staging", { "auto", "off" } },
	{ "history", { "30d", "0", "36500d" } },
	{ "limits", { "{jobs-per-user: 1}", "{jobs-per-user: 10000000}", "{}", "" } },
	{ "urgent",
	  { "{below: 5%, until: 10%}", "{below: 20G, until: 1T}",
	    "{below: 12.5 %,\n until: 80%}" } },
	{ "fleet",
	  { "{database: service=reclaimd, name: rack7, filesystems: {/mnt/a: a, /mnt/b: b}}",
	    "{database: 'host=db password=x', filesystems: {/mnt/a: a.b-c}}",
	    "{database: x, filesystems: {/mnt/a: {name: a, max-rate: 200MiB/s}, /b: {name: "
	    "b}}}" } },
	{ "strategy", { "{moosefs: snapshot}", "{moosefs: unlink, moosefs-stall: 20ms}" } },
	{ "protect",
	  { "[]", "[/srv/keep, /srv/archive]", "[/v/keep//mine/]", "[\"/v/\\xff\"]",
	    "\n - /a\n - /b" } },
	{ "spools", { "{/backups/.trash: {settle: 1min, undo: 1h}}", "{/a: {}, /b: }", "" } },
};

static const struct key pacing_keys[] = {
	{ "latency", { "auto", "off", "50us", "1min", "5 ms" } },
	{ "min-rate", { "8MiB/s", "1KiB/s", "64K" } },
	{ "max-rate", { "unlimited", "100MiB/s", "1TiB/s" } },
	{ "devices",
	  { "{/backups: {latency: 20ms}}", "{8:0: {min-rate: 1MiB/s}, /dev/sda: {}}", "{}" } },
	{ "windows",
	  { "{\"Mon..Fri 08:00..18:00\": {rate: 20MiB/s}}", "{Sat: {rate: paused}}",
	    "{\"22:00..06:00\": {}}", "{\"Sun..Tue,Fri 23:59:59..24:00\": {rate: 1M}}" } },
};

static const struct key policy_keys[] = {
	{ "paths", { "[/a/b, /a/c]", "[/d]", "[/e, /f/g, //f/h/]" } },
	{ "match",
	  { "\"*\"", "\"*.tar.gz\"", "[\"**/*.log\", \"a/b/c?\"]", "\".[!.]*\"", "\"x/**\"",
	    "\"[[:digit:]]*\"" } },
	{ "exclude", { "\"keep-*\"", "[\"*.pin\", \"**/lost+found\"]", "[]" } },
	{ "size", { "{min: 1M}", "{below: 10G}", "{min: 1 B, below: 1K}" } },
	{ "owner", { "backup", "[root, 1000]", "\"0\"" } },
	{ "kind", { "file", "tree" } },
	{ "group-by", { "^([a-z]+)-", "\"([^.]*)[.]\"", "'(a|b)(c*)'" } },
	{ "time", { "mtime", "birth", "name:%Y-%m-%d", "\"name:%s\"" } },
	{ "age-by", { "mtime", "[mtime, ctime, atime, birth]", "[birth]" } },
	{ "order", { "oldest", "largest" } },
	{ "keep",
	  { "{last: 3, daily: 7, weekly: 4, monthly: 6}", "{within: 14d}", "{yearly: 1000000}",
	    "{}" } },
	{ "max-age", { "90d", "1 us", "36500d" } },
	{ "max-size", { "500G", "1 B", "1K" } },
	{ "max-files", { "1", "18446744073709551615" } },
	{ "min-free", { "10%", "20G", "{below: 5%, until: 10%}" } },
	{ "min-free-inodes", { "5%", "100000", "{below: 5%, until: 10%}" } },
	{ "min-age", { "1h", "0s" } },
	{ "min-count", { "0", "7" } },
	{ "max-delete", { "20%", "100 %", "0.5%" } },
	{ "skip-open", { "true", "false" } },
	{ "undo", { "0", "2h" } },
	{ "schedule", { "daily", "\"Mon *-*-* 03:00\"" } },
};

static void say_keys(struct words *w, const char *indent, const struct key *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t values = 0;

		while (values < ELEMENTSOF(keys[i].values) && keys[i].values[values])
			values++;
		if (chance(w, 30))
			sayf(w, "%s%s: %s%s\n", indent, keys[i].name,
			     keys[i].values[choose(w, values)], chance(w, 10) ? " # so" : "");
	}
}

void grammar(struct words *w)
{
	w->n = 0;
	if (chance(w, 10))
		sayf(w, "%s", CHOOSE(w, "# reclaimd\n", "---\n", "\xef\xbb\xbf", "\n\n"));
	say_keys(w, "", root_keys, ELEMENTSOF(root_keys));
	if (chance(w, 40)) {
		sayf(w, "pacing:\n");
		say_keys(w, "  ", pacing_keys, ELEMENTSOF(pacing_keys));
	}
	if (chance(w, 60)) {
		sayf(w, "policies:\n");
		for (uint32_t i = choose(w, 3); i > 0; i--) {
			sayf(w, "  p%u:\n    path: %s\n", i,
			     CHOOSE(w, "/backups", "/var/tmp//x/", "\"/a b\"", "/p"));
			say_keys(w, "    ", policy_keys, ELEMENTSOF(policy_keys));
		}
	}
}
