/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is no configuration: each error with its place, limits, and files that are damaged. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config-support.h"
#include "base/macros.h"

#define A50 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

#define FLEET(keys) "fleet: {filesystems: {/mnt/s: s}, " keys "}\n"
#define SHARED(keys) "fleet: {database: x, filesystems: {/a: {name: b, " keys "}}}\n"

/* Where the first complaint is, how many there are, and what they say among other things. */
static const struct bad {
	const char *text;
	unsigned line, column, n;
	const char *says;
} bad[] = {
	/* Keys. */
	{ "paicng: {}\n", 1, 1, 1, "paicng: unknown key: did you mean pacing?" },
	{ "undo: 1h\nxyz: 1\n", 2, 1, 1, "xyz: unknown key: expected one of undo, spools, pacing" },
	{ "pacing: {min_rate: 1M}\n", 1, 10, 1,
	  "pacing: min_rate: unknown key: did you mean min-r" },
	{ "pacing:\n  devices:\n    /a: {latncy: 1ms}\n", 3, 10, 1,
	  "pacing: devices: /a: latncy: unknown key: did you mean latency?" },
	{ "spools: {/a: {setle: 1s}}\n", 1, 15, 1, "spools: /a: setle: unknown" },
	{ "undo: 1h\nhistory: 1d\nundo: 2h\n", 3, 1, 1,
	  "undo: is there twice, expected once: "
	  "the first is in line 1" },
	{ "spools:\n  /a: {}\n  /a/: {}\n", 3, 3, 1, "spools: /a: is there twice" },
	{ "pacing: {devices: {8:0: {}, 8:0: {}}}\n", 1, 29, 1, "devices: 8:0: is there twice" },
	{ "protect:\n- /a\n- /b\n- //a\n", 4, 3, 1, "found \"/a\", expected each path once" },
	{ "? [a, b]\n: c\n", 1, 3, 1, "found a list as a key, expected a word" },
	{ "? {a: b}\n: c\n", 1, 3, 1, "found a map as a key, expected a word" },
	/* Trims. */
	{ "trim: weekly\n", 1, 7, 1, "trim: found \"weekly\", expected a map with schedule" },
	{ "trim: {scedule: weekly}\n", 1, 8, 1, "trim: scedule: unknown key: did you mean sche" },
	{ "trim: {schedule: ''}\n", 1, 18, 1, "schedule: found \"\", expected off, or when" },
	{ "trim: {filesystems: /srv}\n", 1, 21, 1, "found \"/srv\", expected all, a list of" },
	{ "trim: {filesystems: [srv]}\n", 1, 22, 1, "found \"srv\", expected an absolute path" },
	{ "trim: {filesystems: [/, /]}\n", 1, 25, 1, "found \"/\", expected each path once" },
	{ "trim: {filesystems: {srv: {}}}\n", 1, 22, 1,
	  "found \"srv\", expected an absolute path" },
	{ "trim: {filesystems: {/srv/: {}, /srv: {}}}\n", 1, 33, 1, "/srv: is there twice" },
	{ "trim: {filesystems: {/srv: daily}}\n", 1, 28, 1,
	  "trim: filesystems: /srv: found \"daily\", expected a map" },
	{ "trim: {filesystems: {/srv: {devices: 1}}}\n", 1, 29, 1,
	  "/srv: devices: unknown key: expected one of schedule, min" },
	{ "trim: {min: 5}\n", 1, 13, 1, "min: found \"5\", expected 0, or a size with a unit" },
	/* A fleet. */
	{ "fleet: yes\n", 1, 8, 1, "fleet: found \"yes\", expected a map with database, name and" },
	{ "fleet: {databse: x}\n", 1, 9, 1, "fleet: databse: unknown key: did you mean database?" },
	{ FLEET("database: ''"), 1, 45, 1, "database: found \"\", expected a connection string" },
	{ FLEET("database: [x]"), 1, 45, 1,
	  "database: found a list, expected a connection string" },
	{ FLEET("uid-space: a b"), 1, 46, 1, "fleet: uid-space: found \"a b\", expected a name" },
	{ FLEET("name: x"), 1, 8, 1, "fleet: has no database, expected a connection string" },
	{ "fleet: {database: x}\n", 1, 8, 1, "fleet: has no filesystems, expected those that" },
	{ "fleet: {database: x, filesystems: {}}\n", 1, 8, 1, "fleet: has no filesystems" },
	{ "fleet: {database: x, filesystems: [/a]}\n", 1, 35, 1,
	  "filesystems: found a list, expected a map of mount points, such as {/mnt/scratch" },
	{ "fleet: {database: x, filesystems: {a: a}}\n", 1, 36, 1,
	  "filesystems: found \"a\", expected an absolute path" },
	{ "fleet: {database: x, filesystems: {/a/../b: a}}\n", 1, 36, 1,
	  "found \"/a/../b\", expected a path without . and .." },
	{ "fleet: {database: x, filesystems: {/a: b/c}}\n", 1, 40, 1,
	  "filesystems: /a: found \"b/c\", expected a name of 1 to 63" },
	{ "fleet: {database: x, filesystems: {/a: [b]}}\n", 1, 40, 1,
	  "filesystems: /a: found a list, expected a name of 1 to 63 letters" },
	{ "fleet: {database: x, filesystems: {/a: {name: B}}}\n", 1, 47, 1,
	  "filesystems: /a: name: found \"B\", expected a name of 1 to 63 letters" },
	{ "fleet: {database: x, filesystems: {/a: {max-rate: 1G}}}\n", 1, 36, 1,
	  "filesystems: /a: has no name, expected what the fleet calls it" },
	{ "fleet: {database: x, filesystems: {/a: {}, /b: {}}}\n", 1, 36, 2, "/a: has no name" },
	{ "fleet: {database: x, filesystems: {/a: {name: b, rate: 1G}}}\n", 1, 50, 1,
	  "filesystems: /a: rate: unknown key: expected one of name, max-rate" },
	{ SHARED("max-rate: 1023K"), 1, 60, 1,
	  "/a: max-rate: found \"1023K\", expected unlimited, or a rate of at least 1MiB/s" },
	{ SHARED("max-rate: 0"), 1, 60, 1, "max-rate: found \"0\", expected unlimited, or" },
	{ SHARED("max-rate: -1M"), 1, 60, 1, "max-rate: found \"-1M\", expected unlimited, or" },
	{ SHARED("max-rate: fast"), 1, 60, 1, "max-rate: found \"fast\", expected unlimited, or" },
	{ SHARED("max-rate: [1G]"), 1, 60, 1, "max-rate: found a list, expected unlimited, or" },
	{ "fleet: {database: x, filesystems: {/a: b, /a/: c}}\n", 1, 43, 1,
	  "filesystems: /a: is there twice" },
	{ "fleet: {database: x, filesystems: {/a: b, /c: b}}\n", 1, 43, 1,
	  "filesystems: /c: found \"b\", which /a in line 1 is called, too: expected a name" },
	{ FLEET("name: Rack7"), 1, 41, 1, "name: found \"Rack7\", expected a name of 1 to 63" },
	{ FLEET("name: .."), 1, 41, 1, "name: found \"..\", expected a name of 1 to 63" },
	{ FLEET("name: .reclaim"), 1, 41, 1, "name: found \".reclaim\", expected a name" },
	{ FLEET("name: -a"), 1, 41, 1, "name: found \"-a\", expected a name of 1 to 63 letters" },
	{ FLEET("name: a/b"), 1, 41, 1, "name: found \"a/b\", expected a name of 1 to 63 letters" },
	{ FLEET("name: ''"), 1, 41, 1, "name: found \"\", expected a name of 1 to 63 letters" },
	{ FLEET("name: " A50 "aaaaaaaaaaaaaa"), 1, 41, 1, "expected a name of 1 to 63 letters" },
	/* Policies. */
	{ "policies: []\n", 1, 11, 1, "policies: found a list, expected a map of policies" },
	{ "policies: {a/b: {}}\n", 1, 12, 1, "found \"a/b\", expected a name of at most 64" },
	{ "policies: {-a: {}}\n", 1, 12, 1, "found \"-a\", expected a name" },
	{ "policies: {a: {}}\n", 1, 12, 1, "policies: a: has no path" },
	{ POLICY1("path: b"), 1, 22, 1, "policies: a: path: found \"b\", expected an absolute" },
	{ POLICY1("path: ''"), 1, 22, 1, "path: found \"\", expected an absolute path" },
	{ POLICY1("path: /"), 1, 22, 1, "and not the root directory" },
	{ POLICY1("path: //"), 1, 22, 1, "and not the root directory" },
	{ POLICY1("path: /a/../b"), 1, 22, 1, "without . and .." },
	{ POLICY1("paths: /b"), 1, 23, 1, "paths: found \"/b\", expected a list of absolute" },
	{ POLICY1("paths: []"), 1, 12, 1, "policies: a: has no path" },
	{ POLICY1("paths: [/b, c]"), 1, 28, 1, "paths: found \"c\", expected an absolute path" },
	{ POLICY1("paths: [/b, /c, /b/]"), 1, 32, 1, "found \"/b\", expected each path once" },
	{ POLICY1("paths: [/b, /]"), 1, 23, 2, "paths: found the root directory, expected others" },
	{ POLICY1("paths: [/b/c, /b]"), 1, 23, 1,
	  "paths: /b/c lies in /b, expected directories out" },
	{ POLICY1("path: /b, paths: [/c]"), 1, 33, 1, "there is a path, too, expected one or the" },
	{ "protect: [/b]\npolicies:\n  a: {paths: [/d, /b/c], match: x, max-age: 1d}\n", 3, 3, 1,
	  "policies: a: its path /b/c is or lies in /b, which is protected" },
	{ POLICY1("path: /b, max-aeg: 1d"), 1, 26, 1,
	  "max-aeg: unknown key: did you mean max-age" },
	{ RULE("match: '..'"), 1, 33, 1,
	  "match: found \"..\", expected a pattern that cannot mean" },
	{ RULE("match: .*"), 1, 33, 1, "expected a pattern that cannot mean . or .." },
	{ RULE("match: [a, ../b]"), 1, 37, 1, "expected a pattern that cannot mean . or .." },
	{ RULE("match: /a"), 1, 33, 1, "expected a pattern without an empty name" },
	{ RULE("match: a**"), 1, 33, 1, "expected two stars only as a whole name" },
	{ RULE("match: {globs: x}"), 1, 34, 1, "match: globs: unknown key: did you mean glob?" },
	{ RULE("match: {glob: {}}"), 1, 40, 1, "match: glob: found a map, expected a pattern" },
	{ RULE("match: {glob: x, ignore-case: 1}"), 1, 56, 1, "expected true or false" },
	{ RULE("exclude: .*"), 1, 35, 1, "exclude: found \".*\", expected a pattern that cannot" },
	{ RULE("size: 1M"), 1, 32, 1, "size: found \"1M\", expected a map with min or below" },
	{ RULE("size: {}"), 1, 32, 1, "size: has neither min nor below, expected one" },
	{ RULE("size: {max: 1M}"), 1, 33, 1, "max: unknown key: expected one of min, below" },
	{ RULE("size: {belwo: 1M}"), 1, 33, 1, "belwo: unknown key: did you mean below?" },
	{ RULE("size: {min: 5}"), 1, 38, 1, "min: found \"5\", expected a size with a unit" },
	{ RULE("size: {below: 0K}"), 1, 40, 1, "below: found \"0K\", expected a size" },
	{ RULE("size: {min: 1M, below: 1M}"), 1, 32, 1, "a min that is not less than below" },
	{ RULE("owner: []"), 1, 33, 1, "owner: found a list, expected a user, or a list of at" },
	{ RULE("owner: ''"), 1, 33, 1, "owner: found \"\", expected the name or number of a user" },
	{ RULE("owner: {a: b}"), 1, 33, 1, "found a map, expected the name or number" },
	{ RULE("owner: [a, -1]"), 1, 37, 1, "found \"-1\", expected the name or number of" },
	{ RULE("owner: a b"), 1, 33, 1, "found \"a b\", expected the name or number of a user" },
	{ RULE("owner: a:b"), 1, 33, 1, "found \"a:b\", expected the name or number" },
	{ RULE("owner: 4294967295"), 1, 33, 1, "expected the number of a user, up to 4294967294" },
	{ RULE("owner: 99999999999999999999"), 1, 33, 1, "expected the number of a user" },
	{ RULE("kind: dir"), 1, 32, 1, "kind: found \"dir\", expected file, tree or empty-dir" },
	{ RULE("order: newest"), 1, 33, 1, "order: found \"newest\", expected oldest or largest" },
	{ RULE("group-by: '(a'"), 1, 36, 1, "found \"(a\", expected an extended regular" },
	{ RULE("group-by: a"), 1, 36, 1, "with one to nine groups" },
	{ RULE("time: ctime"), 1, 32, 1, "time: found \"ctime\", expected mtime, birth, or name:" },
	{ RULE("time: 'name:%Q'"), 1, 32, 1, "found \"name:%Q\", expected mtime" },
	{ RULE("time: 'name:%H'"), 1, 32, 1, "found \"name:%H\", expected mtime" },
	{ RULE("time: atime"), 1, 32, 1, "(ctime and atime: see age-by)" },
	{ RULE("age-by: mtme"), 1, 34, 1, "age-by: found \"mtme\", expected mtime, ctime, atime" },
	{ RULE("age-by: [mtime, name]"), 1, 42, 1, "found \"name\", expected mtime, ctime" },
	{ RULE("age-by: [ctime, ctime]"), 1, 42, 1, "found \"ctime\", expected each time once" },
	{ RULE("age-by: []"), 1, 34, 1, "age-by: found a list, expected mtime, ctime, atime or" },
	{ RULE("age-by: {mtime: 1}"), 1, 34, 1, "found a map, expected mtime, ctime" },
	{ RULE("age-by: ctime, time: mtime"), 1, 34, 1, "there is a time, too, expected one or" },
	{ RULE("keep: 7"), 1, 32, 1, "keep: found \"7\", expected a map with last" },
	{ RULE("keep: {daily: -1}"), 1, 40, 1, "keep: daily: found \"-1\", expected a number" },
	{ RULE("keep: {daly: 1}"), 1, 33, 1, "keep: daly: unknown key: did you mean daily" },
	{ RULE("keep: {within: 14}"), 1, 41, 1,
	  "within: found \"14\", expected a time with a unit" },
	{ RULE("max-age: 30"), 1, 35, 1, "max-age: found \"30\", expected a time with a unit" },
	{ RULE("max-age: 1d 30"), 1, 35, 1, "expected a time with a unit" },
	{ RULE("max-age: -30d"), 1, 35, 1, "expected a time with a unit" },
	{ RULE("max-age: 0d"), 1, 35, 1, "expected a time with a unit" },
	{ RULE("max-age: 99999999999999999999d"), 1, 35, 1, "expected a time with a unit" },
	{ RULE("max-age: 101y"), 1, 35, 1, "expected a time with a unit, up to 36500d" },
	{ RULE("min-age: -1h"), 1, 35, 1, "min-age: found \"-1h\"" },
	{ RULE("min-count: -1"), 1, 37, 1, "min-count: found \"-1\", expected a number" },
	{ RULE("max-size: 500"), 1, 36, 1, "max-size: found \"500\", expected a size with a unit" },
	{ RULE("max-size: 99999999E"), 1, 36, 1, "expected a size with a unit" },
	{ RULE("max-files: 0"), 1, 37, 1, "max-files: found \"0\", expected a number from 1" },
	{ RULE("max-delete: 101%"), 1, 38, 1, "max-delete: found \"101%\"" },
	{ RULE("skip-open: 2"), 1, 37, 1, "skip-open: found \"2\", expected true or false" },
	{ RULE("schedule: ''"), 1, 36, 1, "schedule: found \"\", expected when" },
	{ RULE("schedule: a\\"), 1, 36, 1, "schedule: found \"a\\\\\", expected when" },
	{ RULE("min-free: 10"), 1, 36, 1, "min-free: found \"10\", expected a share" },
	{ RULE("min-free: 0%"), 1, 36, 1, "min-free: found \"0%\", expected a share" },
	{ RULE("min-free: {below: 20}"), 1, 44, 1, "below: found \"20\", expected a share" },
	{ RULE("min-free: {until: 20%}"), 1, 36, 1, "min-free: has no below, expected one" },
	{ RULE("min-free: {below: 9%, until: 8%}"), 1, 55, 1, "an until that is less than below" },
	{ RULE("min-free: {below: 9%, until: 8G}"), 1, 55, 1, "found a share and a size" },
	{ RULE("min-free-inodes: 0"), 1, 43, 1, "min-free-inodes: found \"0\", expected a share" },
	{ RULE("min-free-inodes: 20G"), 1, 43, 1, "found \"20G\", expected a share such as 5%" },
	{ RULE("min-free-inodes: {below: 1G}"), 1, 51, 1, "below: found \"1G\", expected a share" },
	{ RULE("min-free-inodes: {until: 9}"), 1, 43, 1,
	  "min-free-inodes: has no below, expected" },
	{ RULE("min-free-inodes: {below: 9%, until: 8}"), 1, 62, 1, "found a share and a number" },
	{ RULE("min-free-inodes: {below: 9, until: 8}"), 1, 61, 1,
	  "until that is less than below" },
	{ RULE("min-free-inode: 5%"), 1, 26, 1, "unknown key: did you mean min-free-inodes?" },
	{ "protect: [/b]\npolicies:\n  a: {path: /b/c, match: x, max-age: 1d}\n", 3, 3, 1,
	  "policies: a: its path /b/c is or lies in /b, which is protected" },
	{ "\"a\\e[31mb\": 1\n", 1, 1, 1, "a\\x1b[31mb: unknown key" },
	/* Types. */
	{ "- a\n", 1, 1, 1, "found a list, expected a map with keys" },
	{ "word\n", 1, 1, 1, "found \"word\", expected a map with keys" },
	{ "spools: [/a]\n", 1, 9, 1, "spools: found a list, expected a map of directories" },
	{ "spools: {/a: 10s}\n", 1, 14, 1, "spools: /a: found \"10s\", expected a map" },
	{ "spools: {/a: {settle: [1]}}\n", 1, 23, 1, "settle: found a list, expected a time" },
	{ "undo: {}\n", 1, 7, 1, "undo: found a map, expected a time" },
	{ "undo:\n", 1, 6, 1, "undo: found nothing, expected a time" },
	{ "undo: \"\"\n", 1, 7, 1, "undo: found \"\", expected a time" },
	{ "pacing: 5ms\n", 1, 9, 1, "pacing: found \"5ms\", expected a map with latency" },
	{ "urgent: 5%\n", 1, 9, 1, "urgent: found \"5%\", expected a map with below and until" },
	{ "limits: 5\n", 1, 9, 1,
	  "limits: found \"5\", expected a map with jobs-per-user, "
	  "names-per-user, history-jobs or history-size" },
	{ "protect: /a\n", 1, 10, 1, "protect: found \"/a\", expected a list of absolute paths" },
	{ "protect:\n", 1, 9, 1, "protect: found nothing, expected a list" },
	{ "protect: [{/a: b}]\n", 1, 11, 1, "protect: found a map, expected an absolute path" },
	{ "protect: {}\n", 1, 10, 1, "protect: found a map, expected a list" },
	/* Numbers. */
	{ "undo: 5\n", 1, 7, 1, "undo: found \"5\", expected a time from 0 to 365d such as 1h" },
	{ "undo: 1h 5\n", 1, 7, 1, "undo: found \"1h 5\", expected a time" },
	{ "history: 30\n", 1, 10, 1, "history: found \"30\", expected a time" },
	{ "spools: {/a: {settle: 10}}\n", 1, 23, 1, "settle: found \"10\", expected a time" },
	{ "pacing: {latency: 5}\n", 1, 19, 1, "latency: found \"5\", expected auto, off, or a" },
	{ "pacing: {min-rate: 8388608}\n", 1, 20, 1,
	  "min-rate: found \"8388608\", expected a rate" },
	{ "pacing: {max-rate: 104857600/s}\n", 1, 20, 1, "expected unlimited, or a rate" },
	{ "urgent: {below: 5, until: 10%}\n", 1, 17, 1, "below: found \"5\", expected a share" },
	{ "strategy: {moosefs-stall: 20}\n", 1, 27, 1, "moosefs-stall: found \"20\", expected" },
	{ POLICY1("path: /b, match: x, max-age: 1d, undo: 5"), 1, 55, 1, "undo: found \"5\"" },
	{ "undo: soon\n", 1, 7, 1, "undo: found \"soon\", expected a time from 0 to 365d" },
	{ "undo: 366d\n", 1, 7, 1, "undo: found \"366d\", expected a time from 0 to 365d" },
	{ "undo: -1s\n", 1, 7, 1, "undo: found \"-1s\", expected a time from 0 to 365d" },
	{ "undo: 99999999999999999999y\n", 1, 7, 1, "expected a time from 0 to 365d" },
	{ "undo: infinity\n", 1, 7, 1, "expected a time from 0 to 365d" },
	{ "undo: 1h 5\n      parsecs\n", 1, 7, 1, "found \"1h 5 parsecs\"" },
	{ "history: 36501d\n", 1, 10, 1, "history: found \"36501d\"" },
	{ "pacing: {latency: 49us}\n", 1, 19, 1, "expected auto, off, or a time from 50us" },
	{ "pacing: {latency: 2min}\n", 1, 19, 1, "expected auto, off, or a time from 50us" },
	{ "pacing: {latency: false}\n", 1, 19, 1, "expected auto, off, or a time from 50us" },
	{ "pacing: {min-rate: unlimited}\n", 1, 20, 1, "min-rate: found \"unlimited\"" },
	{ "pacing: {min-rate: 1023}\n", 1, 20, 1, "expected a rate from 1KiB/s" },
	{ "pacing: {min-rate: 0}\n", 1, 20, 1, "expected a rate from 1KiB/s" },
	{ "pacing: {min-rate: 8Mbit/s}\n", 1, 20, 1, "expected a rate from 1KiB/s" },
	{ "pacing: {min-rate: 2T}\n", 1, 20, 1, "expected a rate from 1KiB/s" },
	{ "pacing: {max-rate: 16E}\n", 1, 20, 1, "max-rate: found \"16E\", expected unlimited" },
	{ "pacing: {max-rate: /s}\n", 1, 20, 1, "max-rate: found \"/s\", expected unlimited" },
	{ "urgent: {below: 101%}\n", 1, 17, 1, "urgent: below: found \"101%\", expected a share" },
	{ "urgent: {below: 1.2.3%}\n", 1, 17, 1, "expected a share from 0% to 100%" },
	{ "urgent: {below: 0x1%}\n", 1, 17, 1, "expected a share from 0% to 100%" },
	{ "urgent: {below: -1%}\n", 1, 17, 1, "expected a share from 0% to 100%" },
	{ "urgent: {below: 5 percent}\n", 1, 17, 1, "expected a share from 0% to 100%" },
	{ "limits: {jobs-per-user: 0}\n", 1, 25, 1,
	  "jobs-per-user: found \"0\", expected a number" },
	{ "limits: {jobs-per-user: -1}\n", 1, 25, 1, "expected a number from 1" },
	{ "limits: {jobs-per-user: 1e3}\n", 1, 25, 1, "expected a number from 1" },
	{ "limits: {jobs-per-user: 18446744073709551617}\n", 1, 25, 1, "expected a number from 1" },
	{ "staging: no\n", 1, 10, 1, "staging: found \"no\", expected auto or off" },
	/* Paths. */
	{ "spools: {backups: {}}\n", 1, 10, 1, "found \"backups\", expected an absolute path" },
	{ "spools: {\"\": {}}\n", 1, 10, 1, "found \"\", expected an absolute path" },
	{ "spools: {/a/../b: {}}\n", 1, 10, 1, "expected a path without . and .." },
	{ "spools: {/a/./b: {}}\n", 1, 10, 1, "expected a path without . and .." },
	{ "spools: {/a/..: {}}\n", 1, 10, 1, "expected a path without . and .." },
	{ "protect: [srv/keep]\n", 1, 11, 1, "found \"srv/keep\", expected an absolute path" },
	{ "protect: [/..]\n", 1, 11, 1, "expected a path without . and .." },
	{ "pacing: {devices: {sda: {}}}\n", 1, 20, 1, "expected a mount point, a block device" },
	{ "pacing: {devices: {8:: {}}}\n", 1, 20, 1, "expected a mount point, a block device" },
	{ "pacing: {devices: {8:0x: {}}}\n", 1, 20, 1, "expected a mount point, a block device" },
	{ "pacing: {devices: {/a/..: {}}}\n", 1, 20, 1, "expected a path without . and .." },
	/* Hooks. */
	{ POLICY1("path: /b, on-success: a"), 1, 38, 1,
	  "on-success: found \"a\", expected the name" },
	{ POLICY1("path: /b, on-failure: a.timer"), 1, 38, 1, "expected the name of a service or" },
	{ POLICY1("path: /b, on-failure: -a.service"), 1, 38, 1, "expected the name of a service" },
	{ POLICY1("path: /b, on-failure: a/b.service"), 1, 38, 1,
	  "expected the name of a service" },
	{ POLICY1("path: /b, on-failure: a@b@.service"), 1, 38, 1, "expected the name of a serv" },
	{ POLICY1("path: /b, on-failure: a b.service"), 1, 38, 1,
	  "expected the name of a service" },
	{ POLICY1("path: /b, on-failure: .service"), 1, 38, 1, "expected the name of a service" },
	{ POLICY1("path: /b, on-failure: " A50 A50 A50 A50 ".service"), 1, 38, 1,
	  "expected the name of a service" },
	{ "spools: {/a: {on-success: \"@.service\"}}\n", 1, 27, 1,
	  "expected the name of a service" },
	/* Spans of time. */
	{ "pacing: {windows: [paused]}\n", 1, 19, 1,
	  "windows: found a list, expected a map of spans" },
	{ "pacing: {windows: {daily: {rate: 1M}}}\n", 1, 20, 1,
	  "windows: found \"daily\", expected weekdays, times of the day" },
	{ "pacing: {windows: {\"*-*-* 08:00..09:00\": {rate: 1M}}}\n", 1, 20, 1, "no dates, no *" },
	{ "pacing: {windows: {\"08:00..08:00\": {rate: 1M}}}\n", 1, 20, 1, "expected weekdays" },
	{ "pacing: {windows: {Sat: {}}}\n", 1, 20, 1, "windows: Sat: has no rate, expected one" },
	{ "pacing: {windows: {Sat: {rate: 0}}}\n", 1, 32, 1,
	  "Sat: rate: found \"0\", expected paused" },
	{ "pacing: {windows: {Sat: {rate: unlimited}}}\n", 1, 32, 1, "expected paused, or a rate" },
	{ "pacing: {windows: {Sat: {max-rate: 1M}}}\n", 1, 26, 1, "unknown key" },
	/* Several keys together. */
	{ "spools:\n  /a/b/c: {}\n  /a/b: {}\n", 2, 3, 1, "/a/b/c: lies in the spool /a/b" },
	{ "spools: {/: {}}\n", 1, 10, 1, "/: is the root directory" },
	{ "spools: {/a: {}}\nprotect: [/a]\n", 1, 10, 1, "/a: is protected too" },
	{ "pacing:\n  max-rate: 1M\n", 2, 13, 1,
	  "pacing: found a max-rate of 1.0 MiB/s, expected "
	  "one that is not under the min-rate of 8.0 MiB" },
	{ "pacing:\n  max-rate: 1G\n  min-rate: 2G\n", 2, 13, 1, "expected one that is not under" },
	{ "pacing: {max-rate: 9M, devices: {/a: {min-rate: 10M}}}\n", 1, 49, 1,
	  "pacing: devices: /a: found a max-rate of 9.0 MiB/s" },
	{ "urgent: {below: 20%}\n", 1, 17, 1, "urgent: found an until that is less than below" },
	{ "urgent: {below: 3%, until: 2%}\n", 1, 28, 1, "an until that is less than below" },
	{ "urgent: {below: 3G, until: 2G}\n", 1, 28, 1, "an until that is less than below" },
	{ "urgent: {until: 20G}\n", 1, 17, 1, "expected below and until to be both shares" },
	/* What of YAML is refused. */
	{ "undo: &a 1h\n", 1, 7, 1, "anchor &a: expected a plain value" },
	{ "undo: &a 1h\nhistory: *a\n", 1, 7, 2, ":2:10: alias *a: expected the value itself" },
	{ "spools: &s {}\n", 1, 9, 1, "anchor &s" },
	{ "protect: &s []\n", 1, 10, 1, "anchor &s" },
	{ "spools: {/a: {<<: {undo: 1h}}}\n", 1, 15, 1, "merge key <<: expected the keys" },
	{ "undo: !!str 1h\n", 1, 7, 1, "tag tag:yaml.org,2002:str: expected a plain value" },
	{ "spools: !x {}\n", 1, 9, 1, "tag !x" },
	{ "protect: !x []\n", 1, 10, 1, "tag !x" },
	{ "undo: 1h\n---\nundo: 2h\n", 2, 1, 1, "found a second document, expected one" },
	{ "---\n---\n", 2, 1, 1, "found a second document, expected one" },
	{ "undo: \"1h\\0\"\n", 1, 7, 1, "found a NUL character behind \"1h\"" },
	{ "\"undo\\0x\": 1h\n", 1, 1, 1, "found a NUL character behind \"undo\"" },
	/* What is not YAML. */
	{ "undo: 1h\npacing:\n\tlatency: auto\n", 3, 1, 1, "found a tab, expected spaces" },
	{ "undo: [1\n", 2, 1, 1,
	  "is not YAML: did not find expected ',' or ']', while parsing a "
	  "flow sequence that begins in line 1" },
	{ "undo: 1h\n  history: 1d\n", 2, 10, 1, "is not YAML: mapping values are not allowed" },
	{ "undo 1h\nhistory: 1d\n", 2, 8, 1, "is not YAML: " },
	{ "undo: \"1h\n", 2, 1, 1, "is not YAML: " },
	{ "undo: *a\n", 1, 7, 1, "alias *a" },
	{ "undo: 1h\nhistory: \"\xc3\xa4\xff\"\n", 2, 12, 1, "found 0xff (invalid leading UTF-8" },
	{ "undo: \xe2\x82", 1, 7, 1, "found an incomplete UTF-8" },
	{ "\xff\xfeu\n", 1, 1, 1, "found 0xff" },
	{ "undo: 1\x1b[0mh\n", 1, 8, 1, "found 0x1b (control characters are not allowed)" },
	{ "%FOO\n", 1, 5, 1, "is not YAML: " },
	{ "@\n", 1, 1, 1, "is not YAML: " },
	/* All of them. */
	{ "undo: x\nzzz: 1\nspools: {a: {}, /b: {undo: y}}\nstaging: z\n", 1, 7, 5,
	  ":4:10: staging: found" },
};

START_TEST(test_25_each_error_has_its_place)
{
	(void)config_dir_make();
	for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
		const struct bad *b = &bad[i];
		struct config *c = NULL;
		struct heard h;
		int r = load_bytes(&c, b->text, strlen(b->text), &h);

		ck_assert_msg(r == -EBADMSG && !c, "%s: %d", b->text, r);
		ck_assert_msg(h.line == b->line && h.column == b->column,
			      "%s: expected at %u:%u, got %s", b->text, b->line, b->column, h.text);
		ck_assert_msg(h.n == b->n, "%s: expected %u errors, got %s", b->text, b->n, h.text);
		ck_assert_msg(strstr(h.text, b->says), "%s: expected '%s', got %s", b->text,
			      b->says, h.text);
	}
	config_dir_remove();
}
END_TEST

/* Expects one complaint about len bytes, and returns what was said. */
static const char *refused(const char *text, size_t len, unsigned line, unsigned column)
{
	static struct heard h;
	struct config *c = NULL;

	ck_assert_int_eq(load_bytes(&c, text, len, &h), -EBADMSG);
	ck_assert_ptr_null(c);
	ck_assert_msg(h.n == 1 && h.line == line && h.column == column, "%s", h.text);
	return h.text;
}

START_TEST(limits_hold)
{
	char *big = malloc(MiB(2));
	FILE *f;

	(void)config_dir_make();
	ck_assert_ptr_nonnull(big);
	/* A file that is too large, whatever is in it. */
	memset(big, '\n', MiB(2));
	ck_assert_ptr_nonnull(strstr(refused(big, MiB(2), 0, 0), "expected less than 1 MiB"));
	ck_assert_ptr_nonnull(strstr(refused(big, MiB(1), 0, 0), "expected less than 1 MiB"));
	/* Too deep; libyaml alone would go on. */
	memset(big, '[', KiB(900));
	ck_assert_ptr_nonnull(strstr(refused(big, KiB(900), 1, 18), "levels of lists and maps"));
	/* Too many. */
	f = fmemopen(big, MiB(1), "w");
	ck_assert_ptr_nonnull(f);
	(void)fputs("protect:\n", f);
	for (unsigned i = 0; i < 4097; i++)
		(void)fprintf(f, "- /a/%u\n", i);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_ptr_nonnull(strstr(refused(big, strlen(big), 4098, 3), "more than 4096 entries"));
	f = fmemopen(big, MiB(1), "w");
	ck_assert_ptr_nonnull(f);
	(void)fputs("pacing:\n windows:\n", f);
	for (unsigned i = 0; i < 169; i++)
		(void)fprintf(f, "  \"%02u:%02u..24:00\": {rate: 1M}\n", i / 60, i % 60);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_ptr_nonnull(
		strstr(refused(big, strlen(big), 171, 3), "found 169 windows, expected 168"));
	/* NUL, where a text would end. */
	ck_assert_ptr_nonnull(strstr(refused("undo: 1h\0x", 10, 1, 9), "0x00"));
	/* A path and a component that no path can be. */
	(void)snprintf(big, MiB(1), "protect: [/%0300d]\n", 1);
	ck_assert_ptr_nonnull(strstr(refused(big, strlen(big), 1, 11), "at most 255 bytes"));
	(void)snprintf(big, MiB(1), "protect: [/%05000d]\n", 1);
	ck_assert_ptr_nonnull(strstr(refused(big, strlen(big), 1, 11), "at most 4095 bytes"));
	free(big);
	config_dir_remove();
}
END_TEST

START_TEST(many_errors_come_to_an_end)
{
	char text[8192] = "";
	struct config *c = NULL;
	struct heard h;

	(void)config_dir_make();
	for (size_t i = 0; i < 150; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "zzz%zu: 1\n", i);
	ck_assert_int_eq(load_bytes(&c, text, strlen(text), &h), -EBADMSG);
	ck_assert_uint_eq(h.n, 101);
	config_dir_remove();
}
END_TEST

/* Cut anywhere, and with any byte exchanged, it is read or refused, and nothing else. */
START_TEST(damaged_files_are_read_or_refused)
{
	static const char text[] = "spools: {/a: {settle: 1s}}\n"
				   "pacing:\n  latency: \"5ms\" # so\n"
				   "protect:\n- /b\n- '/c'\n"
				   "policies: {x: {path: /d, match: [\"*\"], keep: {last: 1}}}\n";
	static const char bytes[] = "\0\t\n \"'#:-[]{},&*!|>%@\\\xff\xc3";
	char copy[sizeof(text)];

	(void)config_dir_make();
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		struct config *c = NULL;
		struct heard h;
		int r = load_bytes(&c, text, i, &h);

		ck_assert((r == 0 && h.n == 0) || (r == -EBADMSG && h.n > 0 && h.line > 0));
		c = config_free(c);
		for (size_t j = 0; j < sizeof(bytes) - 1; j++) {
			memcpy(copy, text, sizeof(text));
			copy[i] = bytes[j];
			r = load_bytes(&c, copy, sizeof(copy) - 1, &h);
			ck_assert((r == 0 && h.n == 0) ||
				  (r == -EBADMSG && h.n > 0 && h.line > 0 && h.column > 0));
			c = config_free(c);
		}
	}
	config_dir_remove();
}
END_TEST

int main(void)
{
	const TTest *tests[] = { test_25_each_error_has_its_place, limits_hold,
				 many_errors_come_to_an_end, damaged_files_are_read_or_refused };

	return run_case("config-refused", tests, ELEMENTSOF(tests));
}
