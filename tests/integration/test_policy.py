#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimctl policy: which entries a policy keeps and deletes, on real files. It changes nothing."""
import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import socket
import time
import unittest

import fixture
from contents import fingerprint
import test_run
from fixture import (Canary, Case, FS_APPEND_FL, FS_IMMUTABLE_FL, FULL, MIB, Proc, USER, command, matrix,
                     scratch, set_flag, write)

plain = (None,)
tmpfs = ("tmpfs",)
DAY = 86400


def policy(w, *args, status=0, **kw):
    p = Proc([scratch.binary, "policy", *args, "--configuration-directory=" + w.path("etc")],
             w.dir, **kw)
    w.procs.append(p)
    r = p.finish()
    if r.status != status:
        raise AssertionError("status %d expected: %r" % (status, r))
    return r


def configure(w, text):
    """Writes policies: the text is YAML with BASE for the directory, which is made."""
    os.makedirs(w.path("etc"), exist_ok=True)
    os.makedirs(w.path("base"), exist_ok=True)
    write(w.path("etc/reclaimd.yaml"), text.replace("BASE", w.path("base")))


def one(w, keys):
    configure(w, "policies: {p: {path: BASE, max-delete: 100%%, %s}}\n" % keys)


def make(w, name, days=0.0, content="x"):
    """An entry of the policy's directory that is so many days old."""
    path = w.path("base", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(path, content)
    age(path, days)
    return path


def lock(path, how=fcntl.LOCK_EX, mode=0o700):
    """Locks a directory with that mode until the descriptor is closed."""
    os.chmod(path, mode)
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, how)
    return fd


def age(path, days):
    then = time.time() - days * DAY
    os.utime(path, (then, then), follow_symlinks=False)


def plan(w, *names, **kw):
    """What each entry's fate is and by which rule, and the whole object."""
    (o,) = policy(w, "plan", "--json", *names, **kw).json
    return {e["name"]: (e["fate"], e["rule"]) for e in o["entries"]}, o


class Rules(Case):
    @matrix(backends=plain, fs=tmpfs)
    def test_sixty_days_of_backups(self, w):
        configure(w, 'policies:\n'
                     '  pg-backups:\n'
                     '    path: BASE\n'
                     '    match: "*.tar.gz"\n'
                     '    keep: {last: 3, daily: 7, weekly: 4, monthly: 6}\n'
                     '    max-age: 90d\n'
                     '    max-size: 500G\n'
                     '    min-free: 10%\n')
        for i in range(60):
            make(w, "db-%02d.tar.gz" % i, i, "x" * 8192)
        make(w, "other.txt", 500)
        before = fingerprint(w.dir)
        fates, o = plan(w)
        self.assertEqual(len(fates), 60)
        self.assertEqual({f[0] for f in fates.values()}, {"keep", "excess"})
        kept = sorted(n for n, f in fates.items() if f[0] == "keep")
        self.assertEqual(kept[:7], ["db-%02d.tar.gz" % i for i in range(7)])
        # Seven days; at most three more weeks and two months that have no entry among those yet.
        self.assertTrue(10 <= len(kept) <= 12, kept)
        self.assertEqual((o["kept"], o["deleted"]["entries"]), (o["matched"], 0))
        self.assertEqual(o["excess"], {"entries": 60 - len(kept), "bytes": (60 - len(kept)) * 8192})
        self.assertTrue(o["over_max_delete"])
        r = policy(w, "plan", "pg-backups")
        self.assertIn("keep: last, daily, weekly, monthly", r.out)
        self.assertRegex(r.out, "\\nexcess .*no rule of keep keeps it")
        self.assertRegex(r.out, r"Keeps 60 entries, .*; deletes 0 entries, 0 B\n"
                                r"In excess of max-delete: %d entries, .*\n"
                                r"No pattern matches: 1 name\n"
                                r"Would delete %d of 60 entries \(8\d %%\), more than max-delete \(20 %%\): a scheduled run "
                                r"deletes nothing. If that is right: reclaimctl policy run --force pg-backups\n$"
                                % (60 - len(kept), 60 - len(kept)))
        self.assertEqual(fingerprint(w.dir), before)

    @matrix(backends=plain, fs=tmpfs)
    def test_27_ages_and_limits(self, w):
        one(w, "match: '*', max-age: 7d, max-files: 5, min-age: 1d")
        for i in range(10):
            make(w, "f%d" % i, i)
        make(w, "future", -3)
        fates, o = plan(w)
        self.assertEqual([n for n, f in fates.items() if f[0] == "delete"],
                         ["f4", "f5", "f6", "f7", "f8", "f9"])
        self.assertEqual(fates["f9"], ("delete", "max-age"))
        self.assertEqual(fates["f5"], ("delete", "max-files"))
        self.assertEqual(fates["f0"], ("keep", "min-age"))
        self.assertEqual(fates["future"], ("keep", "future"))

    @matrix(backends=plain, fs=("ext4", "tmpfs"))
    def test_free_space(self, w):
        for i in range(4):
            make(w, "f%d" % i, i, "x" * MIB)
        fixture.sync(w.dir)
        size = os.statvfs(w.dir)
        one(w, "match: '*', min-free: 100%")
        fates, o = plan(w)
        self.assertEqual(set(fates.values()), {("delete", "min-free")})
        self.assertEqual(o["filesystem"]["size_bytes"], size.f_blocks * size.f_frsize)
        one(w, "match: '*', min-free: 1K")
        self.assertEqual(set(plan(w)[0].values()), {("keep", "within-limits")})

    @matrix(backends=plain, fs=tmpfs)
    def test_free_space_of_what_has_no_size(self, w):
        """However much were deleted, as little would be free as before."""
        os.makedirs(w.path("base"))
        command("mount", "-t", "ramfs", "ramfs", w.path("base"))
        make(w, "f", 5)
        one(w, "match: '*', min-free: 20G")
        fates, o = plan(w)
        self.assertEqual((fates, o["filesystem"]["size_bytes"]), ({"f": ("keep", "within-limits")}, 0))
        self.assertIn("%s is on a filesystem that has no size: min-free does nothing there\n" % w.path("base"),
                      policy(w, "plan").out)

    @matrix(backends=plain, fs=tmpfs)
    def test_free_inodes(self, w):
        """Those that free none stay; of a tree, all that is in it counts."""
        os.makedirs(w.path("base"))
        command("mount", "-t", "tmpfs", "-o", "nr_inodes=200", "tmpfs", w.path("base"))
        for i in range(50):
            make(w, "f%02d" % i, i, "")
        os.link(w.path("base/f49"), w.path("base/other"))
        free = os.statvfs(w.path("base")).f_favail
        keys = "match: 'f*', min-free-inodes: {below: %d, until: %d}"
        one(w, keys % (free + 1, free + 3))
        fates, o = plan(w)
        self.assertEqual([n for n, f in fates.items() if f[0] == "delete"], ["f46", "f47", "f48"])
        self.assertEqual(fates["f48"], ("delete", "min-free-inodes"))
        self.assertEqual((o["filesystem"]["inodes"], o["filesystem"]["free_inodes"]), (200, free))
        self.assertEqual({e["name"]: e["inodes"] for e in o["entries"]}["f49"], 0)
        one(w, keys % (free, free + 3))
        self.assertEqual({f[0] for f in plan(w)[0].values()}, {"keep"})
        for i in range(2):
            for k in range(3):
                make(w, "t%d/%d" % (i, k), 60 + i)
            age(w.path("base/t%d" % i), 60 + i)
        free = os.statvfs(w.path("base")).f_favail
        one(w, "match: 't*', kind: tree, min-free-inodes: %d" % (free + 4))
        self.assertEqual({n: f[0] for n, f in plan(w)[0].items()}, {"t0": "keep", "t1": "delete"})
        one(w, "match: 't*', kind: tree, min-free-inodes: %d" % (free + 5))
        self.assertEqual({n: f[0] for n, f in plan(w)[0].items()}, {"t0": "delete", "t1": "delete"})

    @matrix(backends=plain, fs=("xfs",))
    def test_free_inodes_that_space_makes(self, w):
        """Where they are made of free space, a large file frees more than its own: one is enough."""
        for i in range(4):
            make(w, "f%d" % i, i, "x" * MIB)
        fixture.sync(w.dir)
        one(w, "match: '*', min-free-inodes: %d" % (os.statvfs(w.dir).f_favail + 500))
        self.assertEqual([n for n, f in plan(w)[0].items() if f[0] == "delete"], ["f3"])

    @matrix(backends=plain, fs=("btrfs",))
    def test_inodes_without_limit(self, w):
        one(w, "match: '*', min-free-inodes: 100%")
        make(w, "f", 100)
        fates, o = plan(w)
        self.assertEqual((fates, o["filesystem"]["inodes"]), ({"f": ("keep", "within-limits")}, 0))
        words = "is on a filesystem without a limit of inodes"
        self.assertIn("%s %s: min-free-inodes does nothing there\n" % (w.path("base"), words), policy(w, "plan").out)
        p = Proc([scratch.binary, "check-config", w.path("etc/reclaimd.yaml")], w.dir)
        w.procs.append(p)
        self.assertIn("warning: policies: p: min-free-inodes: %s %s" % (w.path("base"), words), p.finish().err)

    @matrix(backends=plain, fs=tmpfs)
    def test_series_and_times_in_names(self, w):
        one(w, "match: '*.dump', group-by: '^([a-z]+)-', time: 'name:%Y-%m-%d', keep: {last: 1}")
        for name in ("a-2024-01-01", "a-2024-01-02", "b-2023-05-05", "b-2023-05-06", "c-2024-02-30",
                     "9-2024-01-01"):
            make(w, name + ".dump")
        fates, o = plan(w)
        self.assertEqual(fates, {"a-2024-01-02.dump": ("keep", "keep"),
                                 "a-2024-01-01.dump": ("delete", "not-kept"),
                                 "b-2023-05-06.dump": ("keep", "keep"),
                                 "b-2023-05-05.dump": ("delete", "not-kept"),
                                 "c-2024-02-30.dump": ("keep", "no-time"),
                                 "9-2024-01-01.dump": ("keep", "no-series")})
        self.assertEqual({e["series"] for e in o["entries"]}, {"", "a", "b", "c"})

    @matrix(backends=plain, fs=tmpfs)
    def test_attack_11_hostile_names(self, w):
        """Names that make a matcher try all ways: they have an end, and are in no series or in the right
        one."""
        names = ["a" * 250, "a" * 249 + "b", "ab" * 120, "-" * 250, "a-" * 120]
        for name in names:
            make(w, name, 9)
        for expression, series in ((r"^((a+)+)+b$", {names[1]}), (r"(a|aa)+b$", {names[1], names[2]}),
                                   (r"(([^x]+x?)+)y", set()), (r"(.*.*.*.*.*)b$", {names[1], names[2]})):
            one(w, "match: '*', group-by: '%s', max-age: 1d" % expression)
            p = Proc(["prlimit", "--cpu=30", scratch.binary, "policy", "plan", "--json",
                      "--configuration-directory=" + w.path("etc")], w.dir)
            w.procs.append(p)
            (o,) = json.loads(p.finish().out)
            self.assertEqual({e["name"] for e in o["entries"] if e["fate"] == "delete"}, series)
            self.assertEqual({e["name"]: e["rule"] for e in o["entries"] if e["fate"] == "keep"},
                             {n: "no-series" for n in names if n not in series})

    @matrix(backends=plain, fs=("ext4", "xfs", "btrfs"))
    def test_birth(self, w):
        one(w, "match: '*', time: birth, max-age: 1d")
        make(w, "f", 100)
        self.assertEqual(plan(w)[0], {"f": ("keep", "within-limits")})

    @matrix(backends=plain, fs=tmpfs)
    def test_nothing_without_rule_or_match(self, w):
        one(w, "match: '*'")
        make(w, "f", 10000)
        r = policy(w, "plan")
        self.assertIn("warning: policies: p: has no rule, so it deletes nothing", r.err)
        self.assertEqual(plan(w)[0], {"f": ("keep", "no-rule")})
        one(w, "max-age: 1d")
        r = policy(w, "plan")
        self.assertIn("Nothing matches", r.out)


class Matching(Case):
    def names(self, w, keys):
        one(w, keys + ", max-age: 1d")
        return sorted(plan(w)[0])

    @matrix(backends=plain, fs=tmpfs)
    def test_patterns(self, w):
        for name in ("a.log", ".h.log", "d/b.log", "d/e/c.log", ".g/x.log", "d/keep/y.log", "d/z"):
            make(w, name, 5)
        os.symlink("/etc/passwd", w.path("base/l.log"))
        os.mkfifo(w.path("base/p.log"))
        os.mkdir(w.path("base/t.log"))
        self.assertEqual(self.names(w, "match: '*.log'"), ["a.log", "l.log", "p.log"])
        self.assertEqual(self.names(w, "match: ['*/*.log', .h*]"), [".h.log", "d/b.log"])
        self.assertEqual(self.names(w, "match: '**/*.log', exclude: [d/keep, '?.log']"),
                         ["d/b.log", "d/e/c.log"])
        self.assertEqual(self.names(w, "match: '**'"),
                         ["a.log", "d/b.log", "d/e/c.log", "d/keep/y.log", "d/z", "l.log", "p.log"])
        self.assertEqual(self.names(w, "match: '**', kind: tree"), ["d", "t.log"])
        self.assertEqual(self.names(w, "match: d/**, kind: tree"), ["d/e", "d/keep"])

    @matrix(backends=plain, fs=tmpfs)
    def test_26_links_lead_nowhere(self, w):
        """Neither a link on the way nor one that matches; and the base is no link."""
        canary = Canary(w.path("elsewhere"))
        for name in ("file", "sub/inner"):
            age(os.path.join(w.path("elsewhere"), name), 100)
        canary.before = fingerprint(canary.path)
        make(w, "d/f", 5)
        for name, target in (("out", "../elsewhere"), ("d/up", "../../elsewhere/sub"),
                             ("l", "../elsewhere/file")):
            os.symlink(target, w.path("base", name))
            age(w.path("base", name), 5)
        self.assertEqual(self.names(w, "match: ['**', 'out/*', 'out/sub/*']"), ["d/f", "d/up", "l", "out"])
        self.assertEqual(self.names(w, "match: ['*', 'out/*'], kind: tree"), ["d"])
        os.rename(w.path("base"), w.path("real"))
        os.symlink("real", w.path("base"))
        self.assertIn("symbolic link", policy(w, "plan", status=1).err)
        canary.check()

    @matrix(backends=plain, fs=tmpfs)
    def test_28_plan_changes_nothing(self, w):
        one(w, "match: '**', max-age: 1d")
        for i in range(20):
            make(w, "d%d/f" % i, 5)
        before = fingerprint(w.dir)
        trace = os.path.join(scratch.dir, "trace")
        p = Proc(["strace", "-f", "-qq", "-o", trace, scratch.binary, "policy", "plan",
                  "--configuration-directory=" + w.path("etc")], w.dir,
                 env={"ASAN_OPTIONS": "detect_leaks=0"})
        w.procs.append(p)
        self.assertEqual(p.finish().status, 0)
        self.assertEqual(fingerprint(w.dir), before)
        with open(trace, errors="replace", encoding="utf-8") as f:
            lines = [l for l in f if "/tsan.rodata." not in l]
        self.assertTrue(any("getdents64" in l for l in lines))
        for l in lines:
            self.assertIsNone(test_run.DryRun.MUTATES.search(l), l)
            if "openat" in l:
                self.assertNotRegex(l, "O_CREAT|O_TRUNC|O_WRONLY|O_RDWR")

    @matrix(backends=plain, fs=tmpfs)
    def test_names_are_shown_safely(self, w):
        make(w, "a\x1b[31m\n\xff.log", 5)
        self.assertEqual(self.names(w, "match: '*.log'"), ["a\x1b[31m\n\xff.log"])
        r = policy(w, "plan")
        self.assertIn("a\\x1b[31m\\n\xff.log", r.out)
        self.assertNotIn("\x1b", r.out)


class Ages(Case):
    """age-by: the youngest of some times."""

    OLD = 30

    def fates(self, w, ages, keys="match: '*'"):
        one(w, "%s, max-age: 1d, age-by: %s" % (keys, ages))
        return {n: f[0] for n, f in plan(w)[0].items()}

    @matrix(backends=plain, fs=("ext4", "xfs", "btrfs", "tmpfs"))
    def test_youngest_counts(self, w):
        """What was made just now is old by those times alone that can be set."""
        now = time.time()
        for name, atime, mtime in (("unused", self.OLD, self.OLD), ("used", 0, self.OLD), ("changed", self.OLD, 0.5)):
            os.utime(make(w, name), (now - atime * DAY, now - mtime * DAY))
        for ages, kept in (("mtime", {"changed"}), ("atime", {"used"}), ("[mtime, atime]", {"used", "changed"}),
                           ("[atime, mtime]", {"used", "changed"})):
            self.assertEqual({n for n, f in self.fates(w, ages).items() if f == "keep"}, kept)
        for ages in ("ctime", "birth", "[mtime, ctime]", "[birth, atime, mtime]"):
            self.assertEqual(set(self.fates(w, ages).values()), {"keep"})
        # keep and order go by it, too.
        one(w, "match: '*', age-by: [mtime, atime], keep: {last: 1}")
        self.assertEqual({n for n, f in plan(w)[0].items() if f[0] == "keep"}, {"used"})

    @matrix(backends=plain, fs=tmpfs)
    def test_trees(self, w):
        """All that is in it counts. To list a directory, as plans do, is no use of it."""
        now = time.time()
        for tree, atime in (("unused", self.OLD), ("used", 0)):
            os.utime(make(w, tree + "/a/f"), (now - atime * DAY, now - self.OLD * DAY))
            for d in (tree + "/a", tree):
                os.utime(w.path("base", d), (now, now - self.OLD * DAY))
        os.mkdir(w.path("base/empty"))
        os.utime(w.path("base/empty"), (now - self.OLD * DAY,) * 2)
        keys = "match: '*', kind: tree"
        self.assertEqual(self.fates(w, "[mtime, atime]", keys), {"unused": "delete", "used": "keep", "empty": "delete"})
        # Without a file in it there is no access.
        self.assertEqual(self.fates(w, "atime", keys), {"unused": "delete", "used": "keep", "empty": "keep"})
        self.assertEqual(self.fates(w, "[mtime, birth]", keys), dict.fromkeys(("unused", "used", "empty"), "keep"))

    def check_missing(self, w, ages, missing, words):
        fates = self.fates(w, ages)
        self.assertEqual(fates, {"f": "keep"})
        self.assertEqual(plan(w)[0], {"f": ("keep", "no-time")})
        self.assertEqual(plan(w)[1]["missing_times"], [missing])
        said = " ".join(policy(w, "plan").out.split())
        self.assertIn("No entry has the times of age-by, so all stay: %s is where %s" % (w.path("base"), words), said)
        p = Proc([scratch.binary, "check-config", w.path("etc/reclaimd.yaml")], w.dir)
        w.procs.append(p)
        self.assertRegex(p.finish().err, r"warning: policies: p: age-by: \S+ is where %s.*, so nothing is deleted there"
                         % re.escape(words))

    @matrix(backends=plain, fs=tmpfs)
    def test_noatime(self, w):
        """Where accesses are not recorded, what was not accessed is not known, and nothing goes."""
        os.makedirs(w.path("base"))
        command("mount", "-t", "tmpfs", "-o", "noatime", "tmpfs", w.path("base"))
        make(w, "f", self.OLD)
        for ages in ("atime", "[mtime, atime]"):
            self.check_missing(w, ages, "atime", "access times (atime) are not kept")
        self.assertEqual(self.fates(w, "mtime"), {"f": "delete"})
        # Nor does another policy take what keep may be about.
        configure(w, "policies:\n"
                     "  p: {path: BASE, match: '*', max-age: 1d, max-delete: 100%}\n"
                     "  q: {path: BASE, match: '*', keep: {last: 1}, age-by: atime}\n")
        r = policy(w, "plan", "p", status=1)
        self.assertIn("what another policy keeps of it is not known", r.err)
        self.assertIn("q: %s is where access times" % w.path("base"), r.err)

    @matrix(backends=plain, fs=tmpfs)
    def test_no_birth(self, w):
        os.makedirs(w.path("base"))
        command("mount", "-t", "ramfs", "ramfs", w.path("base"))
        make(w, "f", self.OLD)
        for ages in ("birth", "[mtime, birth]"):
            self.check_missing(w, ages, "birth", "the times of birth are not kept")
        self.assertEqual(self.fates(w, "[mtime, atime]"), {"f": "delete"})


class Paths(Case):
    """Several directories of one policy."""

    def configure(self, w, keys):
        configure(w, "policies: {p: {paths: [BASE/a/logs, BASE/b/logs], max-delete: 100%%, %s}}\n" % keys)

    def fill(self, w):
        """Those of b are older."""
        for i in range(3):
            make(w, "a/logs/x%d-1" % i, 1 + i, "x" * 4096)
            make(w, "b/logs/x%d-1" % i, 10 + i, "x" * 4096)
        make(w, "other/x9-1", 50)
        make(w, "a/x9-1", 50)

    def goes(self, w):
        fates, o = plan(w)
        self.assertEqual(len(fates), 6)
        return {n for n, f in fates.items() if f[0] == "delete"}, o

    @matrix(backends=plain, fs=tmpfs)
    def test_series_are_of_each_and_limits_of_all(self, w):
        self.fill(w)
        self.configure(w, "match: 'x*', keep: {last: 1}")
        goes, o = self.goes(w)
        self.assertEqual(goes, {d + "/logs/x%d-1" % i for d in "ab" for i in (1, 2)})
        self.assertEqual((o["path"], o["paths"]), (w.path("base"), [w.path("base/a/logs"), w.path("base/b/logs")]))
        # A name is, for group-by, what it is in its directory; and the same one is another in each.
        self.configure(w, "match: 'x*', group-by: '^(x)', keep: {last: 1}")
        self.assertEqual(self.goes(w)[0], goes)
        self.configure(w, "match: 'x*', group-by: '^(x[0-9])', keep: {last: 1}")
        self.assertEqual(self.goes(w)[0], set())
        self.configure(w, "match: 'x*', max-age: 1d, min-count: 2")
        self.assertEqual(self.goes(w)[0], {"a/logs/x2-1", "b/logs/x2-1"})
        for limit in ("max-files: 4", "max-size: 16K"):
            self.configure(w, "match: 'x*', " + limit)
            self.assertEqual(self.goes(w)[0], {"b/logs/x1-1", "b/logs/x2-1"})
        r = policy(w, "plan")
        self.assertIn("p: %s, %s\n" % (w.path("base/a/logs"), w.path("base/b/logs")), r.out)
        self.assertIn("b/logs/x2-1", r.out)
        self.assertIn(w.path("base/a/logs") + " (+1)", policy(w, "list").out)

    @matrix(backends=plain, fs=tmpfs)
    def test_all_must_be_there_on_one_filesystem(self, w):
        """What is not known of one may be what keep is about in another."""
        self.fill(w)
        self.configure(w, "match: '*', max-age: 1d")
        os.rename(w.path("base/b"), w.path("base/c"))
        self.assertIn("p: %s No such file" % w.path("base/b/logs"), policy(w, "plan", status=1).err)
        p = Proc([scratch.binary, "check-config", w.path("etc/reclaimd.yaml")], w.dir)
        w.procs.append(p)
        self.assertIn("warning: policies: p: paths: %s does not exist" % w.path("base/b/logs"), p.finish().err)
        self.assertFalse(policy(w, "list", "--json").json[0]["path_exists"])
        configure(w, "policies:\n"
                     "  p: {path: BASE/a/logs, match: '*', max-age: 1d}\n"
                     "  q: {paths: [BASE/b/logs, BASE/a/logs], match: '*', keep: {last: 1}}\n")
        self.assertIn("what another policy keeps of it is not known", policy(w, "plan", "p", status=1).err)
        os.makedirs(w.path("base/b/logs"))
        self.configure(w, "match: '*', max-age: 1d")
        command("mount", "-t", "tmpfs", "tmpfs", w.path("base/b"))
        os.mkdir(w.path("base/b/logs"))
        r = policy(w, "plan", status=1)
        self.assertIn("%s is on another filesystem than the other paths" % w.path("base/b/logs"), r.err)
        command("umount", w.path("base/b"))
        fd = lock(w.path("base/a/logs"))
        self.assertIn("%s is locked by another process" % w.path("base/a/logs"), policy(w, "plan", status=1).err)
        os.close(fd)
        os.rename(w.path("base/b"), w.path("base/real"))
        os.symlink("real", w.path("base/b"))
        self.assertIn("%s has a symbolic link in it" % w.path("base/b/logs"), policy(w, "plan", status=1).err)

    @matrix(backends=plain, fs=("ext4",))
    def test_pin_around_one_of_them(self, w):
        """It may be on any directory on the way there."""
        self.fill(w)
        self.configure(w, "match: 'x*', max-age: 12h")
        os.setxattr(w.path("base/a"), "user.reclaimd.pin", b"always")
        self.assertEqual(self.goes(w)[0], {"b/logs/x%d-1" % i for i in range(3)})

    @matrix(backends=plain, fs=tmpfs)
    def test_keep_wins_in_each(self, w):
        self.fill(w)
        configure(w, "policies:\n"
                     "  p: {paths: [BASE/a/logs, BASE/b/logs], match: '*', max-age: 12h, max-delete: 100%}\n"
                     "  q: {path: BASE/b/logs, match: '*', keep: {last: 2}}\n"
                     "  r: {paths: [BASE/a, BASE/other], kind: tree, match: '*', keep: {last: 1}}\n")
        goes = {n for n, f in plan(w, "p")[0].items() if f[0] == "delete"}
        self.assertEqual(goes, {"b/logs/x2-1"})


class Filters(Case):
    """What they leave out is no entry: it is not counted, nor deleted."""

    def names(self, w, keys):
        one(w, keys + ", max-age: 1d")
        fates, o = plan(w)
        self.assertEqual(set(fates.values()), {("delete", "max-age")} if fates else set())
        self.assertEqual(o["matched"]["entries"], len(fates))
        return sorted(fates), {k: o["left_out"][k] for k in ("owner", "size")}

    @matrix(backends=plain, fs=tmpfs)
    def test_sizes(self, w):
        for size in (0, 1, 4095, 4096, 4097):
            make(w, "f%d" % size, 5, "x" * size)
        os.truncate(make(w, "sparse", 5), MIB)
        age(w.path("base/sparse"), 5)
        os.symlink("x" * 4000, w.path("base/link"))
        age(w.path("base/link"), 5)
        self.assertEqual(self.names(w, "match: '*', size: {min: 4K}"),
                         (["f4096", "f4097", "sparse"], {"owner": 0, "size": 4}))
        self.assertEqual(self.names(w, "match: '*', size: {below: 4K}")[0], ["f0", "f1", "f4095", "link"])
        self.assertEqual(self.names(w, "match: '*', size: {min: 1B, below: 4097B}")[0], ["f1", "f4095", "f4096"])
        self.assertEqual(self.names(w, "match: 'f*', size: {below: 1B}"), (["f0"], {"owner": 0, "size": 4}))
        self.assertIn("\nLeft out: 0 entries by owner, 4 entries by size\n", policy(w, "plan").out)

    @matrix(backends=plain, fs=tmpfs)
    def test_sizes_of_trees(self, w):
        """All files in it together; one that cannot be looked at in full counts, and stays."""
        for tree, files in (("small", 1), ("large", 5), ("locked", 1)):
            for i in range(files):
                make(w, "%s/a/%d" % (tree, i), 5, "x" * 1000)
            for d in (tree + "/a", tree):
                age(w.path("base", d), 5)
        fd = lock(w.path("base/locked/a"))
        one(w, "match: '*', kind: tree, max-age: 1d, skip-open: false, size: {min: 5000B}")
        self.assertEqual(plan(w)[0], {"large": ("delete", "max-age"), "locked": ("keep", "locked")})
        os.close(fd)
        self.assertEqual(set(plan(w)[0]), {"large"})

    @matrix(backends=plain, fs=tmpfs)
    def test_owners(self, w):
        for name, uid in (("r", 0), ("u", USER), ("v", USER + 1)):
            os.chown(make(w, name, 5), uid, 0)
            os.makedirs(w.path("base", "t" + name, "in"))
            os.chown(w.path("base", "t" + name), uid, 0)
            age(w.path("base", "t" + name, "in"), 5)
            age(w.path("base", "t" + name), 5)
        for owner, names, out in (("root", ["r"], 2), (0, ["r"], 2), (USER, ["u"], 2), ("[root, %d]" % USER, ["r", "u"], 1)):
            self.assertEqual(self.names(w, "match: '*', owner: %s" % owner), (names, {"owner": out, "size": 0}))
        # A tree is its directory's owner's; into one of another user it does not go.
        self.assertEqual(self.names(w, "match: '**', kind: tree, owner: %d" % USER)[0], ["tu"])
        self.assertEqual(self.names(w, "match: '**', kind: tree, owner: %d" % (USER + 2))[0], [])

    @matrix(backends=plain, fs=tmpfs)
    def test_counted_are_only_entries(self, w):
        """keep, max-files and min-count see nothing of the rest."""
        for i in range(4):
            os.chown(make(w, "mine%d" % i, 5 + i), USER, 0)
            make(w, "other%d" % i, 1 + i)
        for rule in ("keep: {last: 2}", "max-files: 2", "max-age: 1d, min-count: 2"):
            one(w, "match: '*', owner: %d, %s" % (USER, rule))
            self.assertEqual({n: f[0] for n, f in plan(w)[0].items()},
                             {"mine0": "keep", "mine1": "keep", "mine2": "delete", "mine3": "delete"})

    @matrix(backends=plain, fs=tmpfs)
    def test_unknown_owner(self, w):
        """Without knowing whose entries they are, nothing of it is planned; nor what its keep might hold."""
        make(w, "f", 5)
        for i, plans in enumerate((["p"], ["p", "q"])):
            configure(w, "policies:\n"
                         "  p: {path: BASE, match: '*', max-age: 1d, max-delete: 100%%, schedule: daily}\n"
                         "  q: {path: BASE, match: '*', keep: {last: 1}, schedule: daily, owner: [root, %s]}\n"
                         % ("0", "no-such-user")[i])
            r = policy(w, "plan", "--json", status=i)
            self.assertEqual([o["error"] is not None for o in r.json], [i == 1] * 2)
        self.assertIn("owner names a user that is not known", r.err)
        self.assertIn("what another policy keeps of it is not known", r.err)
        p = Proc([scratch.binary, "check-config", w.path("etc/reclaimd.yaml")], w.dir)
        w.procs.append(p)
        r = p.finish()
        self.assertEqual(r.status, 0)
        self.assertRegex(r.err, r"reclaimd\.yaml:3:\d+: warning: policies: q: owner: there is no user no-such-user "
                                r"\(now\), so the policy does not run")


class Held(Case):
    @matrix(backends=plain, fs=("ext4", "xfs", "btrfs", "tmpfs"))
    def test_open_files(self, w):
        one(w, "match: '**', max-age: 1d")
        path = make(w, "f", 5)
        make(w, "g", 5)
        holder = Proc(["sleep", "1000"], w.dir, stdin=os.open(path, os.O_RDONLY))
        w.procs.append(holder)
        fates, o = plan(w)
        self.assertEqual(fates, {"f": ("keep", "open"), "g": ("delete", "max-age")})
        self.assertTrue(o["open_complete"])
        one(w, "match: '*', max-age: 1d, skip-open: false")
        self.assertEqual(plan(w)[0]["f"], ("delete", "max-age"))
        holder.kill()

    @matrix(backends=plain, fs=("ext4", "btrfs", "tmpfs"))
    def test_sockets(self, w):
        """A process that listens has the name no less than an open file."""
        one(w, "match: '**', max-age: 1d")
        with contextlib.ExitStack() as stack:
            for name in ("heard", "left", "one with blanks"):
                s = stack.enter_context(socket.socket(socket.AF_UNIX))
                path = w.path("base", name)
                s.bind(path)
                age(path, 5)
                if name == "left":
                    s.close()
            self.assertEqual(plan(w)[0], {"heard": ("keep", "open"), "left": ("delete", "max-age"),
                                          "one with blanks": ("keep", "open")})
        self.assertEqual({f[0] for f in plan(w)[0].values()}, {"delete"})

    @matrix(backends=plain, fs=tmpfs)
    def test_locked_directories(self, w):
        one(w, "match: '**', max-age: 1d")
        make(w, "d/f", 5)
        make(w, "e/f", 5)
        fd = lock(w.path("base/d"), fcntl.LOCK_SH)
        fates, o = plan(w)
        self.assertEqual((fates, o["not_looked_into"]["locked"]), ({"e/f": ("delete", "max-age")}, 1))
        self.assertIn("1 directory that another process has locked", policy(w, "plan").out)
        one(w, "match: '*', kind: tree, max-age: 1us")
        self.assertEqual(plan(w)[0]["d"], ("keep", "open"))
        one(w, "match: '*', kind: tree, max-age: 1us, skip-open: false")
        self.assertEqual(plan(w)[0], {"d": ("keep", "locked"), "e": ("delete", "max-age")})
        os.close(fd)
        self.assertEqual(plan(w)[0]["d"], ("delete", "max-age"))
        fd = lock(w.path("base"))
        r = policy(w, "plan", status=1)
        self.assertIn("is locked by another process", r.err)
        os.close(fd)

    @matrix(backends=plain, fs=tmpfs)
    def test_attack_54_locks_of_strangers(self, w):
        """Whoever may read a directory can lock it, so such a lock does not stop a policy."""
        one(w, "match: '**', max-age: 1d")
        for name in ("d/f", "f"):
            make(w, name, 5)
        for mode in (0o755, 0o750, 0o704):
            for how in (fcntl.LOCK_SH, fcntl.LOCK_EX):
                fds = [lock(w.path(name), how, mode) for name in ("base", "base/d")]
                fates, o = plan(w)
                self.assertEqual((fates, o["not_looked_into"]["locked"]),
                                 ({name: ("delete", "max-age") for name in ("d/f", "f")}, 0))
                for fd in fds:
                    os.close(fd)

    @matrix(backends=plain, fs=tmpfs)
    def test_mounts_are_not_crossed(self, w):
        one(w, "match: '**', max-age: 1d")
        os.mkdir(w.path("elsewhere"))
        canary = Canary(w.path("elsewhere"))
        make(w, "d/f", 5)
        make(w, "file", 5)
        os.mkdir(w.path("base/d/m"))
        w.bind(w.path("elsewhere"), w.path("base/d/m"))
        w.bind(w.path("base/file"), w.path("base/file"))
        fates, o = plan(w)
        self.assertEqual(fates, {"d/f": ("delete", "max-age"), "file": ("keep", "mount")})
        self.assertEqual(o["not_looked_into"]["mounts"], 1)
        one(w, "match: '*', kind: tree, max-age: 1us")
        self.assertIn(plan(w)[0]["d"], (("keep", "mount"), ("keep", "protected")))
        canary.check()

    @matrix(backends=plain, fs=tmpfs)
    def test_protected(self, w):
        make(w, "a/f", 5)
        make(w, "b/f", 5)
        configure(w, "protect: [BASE/a]\npolicies: {p: {path: BASE, match: '*', kind: tree, "
                     "max-age: 1us, max-delete: 100%}}\n")
        self.assertEqual(plan(w)[0], {"a": ("keep", "protected"), "b": ("delete", "max-age")})
        # A base that belongs to the system.
        configure(w, "policies: {p: {path: /usr/share, match: '*', max-age: 1us}}\n")
        r = policy(w, "plan", status=1)
        self.assertIn("p: /usr/share belongs to the system", r.err)
        (o,) = policy(w, "plan", "--json", status=1).json
        self.assertNotIn("entries", o)

    @matrix(backends=plain, fs=tmpfs)
    def test_bases(self, w):
        one(w, "match: '*', max-age: 1d")
        os.rmdir(w.path("base"))
        self.assertIn("No such file", policy(w, "plan", status=1).err)
        write(w.path("base"))
        self.assertIn("is not a directory", policy(w, "plan", status=1).err)
        os.unlink(w.path("base"))
        os.mkdir(w.path("real"))
        write(w.path("real/f"))
        os.symlink("real", w.path("base"))
        self.assertIn("has a symbolic link in it", policy(w, "plan", status=1).err)

    @matrix(backends=plain, fs=tmpfs)
    def test_trees(self, w):
        one(w, "match: '*', kind: tree, max-age: 3d")
        for tree, days in (("old", 5), ("young", 5)):
            make(w, tree + "/a/b/f", days, "x" * 4096)
            os.link(w.path("base", tree, "a/b/f"), w.path("linked-" + tree))
            make(w, tree + "/g", days, "x" * 4096)
            for d in ("a/b", "a", ""):
                age(w.path("base", tree, d), days)
        # One file that is young makes the tree young.
        make(w, "young/g", 1, "x" * 4096)
        age(w.path("base/young"), 5)
        fates, o = plan(w)
        self.assertEqual(fates, {"young": ("keep", "within-limits"), "old": ("delete", "max-age")})
        # A file that has another name elsewhere frees nothing.
        self.assertEqual(o["deleted"]["bytes"], 4096)

    @matrix(backends=plain, fs=tmpfs)
    def test_what_cannot_be_read(self, w):
        one(w, "match: '*', kind: tree, max-age: 1us")
        os.chmod(w.dir, 0o755)
        os.makedirs(w.path("base/t/closed"), mode=0o755)
        os.chmod(w.path("base/t/closed"), 0)
        fates, o = plan(w, user=USER)
        self.assertEqual(fates, {"t": ("keep", "unread")})
        self.assertFalse(o["open_complete"])
        one(w, "match: '**', max-age: 1us")
        fates, o = plan(w, user=USER)
        self.assertEqual((fates, o["not_looked_into"]["unread"]), ({}, 1))

    @matrix(backends=plain, fs=tmpfs)
    def test_deep_trees(self, w):
        one(w, "match: ['*', '**/x'], kind: tree, max-age: 1us")
        os.makedirs(w.path("base", *["d"] * 200))
        self.assertEqual(plan(w)[0], {"d": ("keep", "unread")})
        one(w, "match: '**/x', max-age: 1us")
        fates, o = plan(w)
        self.assertEqual((fates, o["not_looked_into"]["too_deep"]), ({}, 1))


class Immutable(Case):
    """What cannot be deleted keeps nothing else, and the plan says so."""

    @matrix(backends=plain, fs=("ext4",))
    def test_immutable(self, w):
        one(w, "match: ['*', 'closed/*'], max-age: 1d")
        for name in ("f0", "f1", "young", "closed/f"):
            make(w, name, 0 if name == "young" else 5, "x" * 4096)
        flags = {"f1": FS_IMMUTABLE_FL, "young": FS_APPEND_FL, "closed": FS_IMMUTABLE_FL}
        for name, flag in flags.items():
            set_flag(w.path("base", name), flag)
        fates, o = plan(w)
        self.assertEqual(fates, {"f0": ("delete", "max-age"), "f1": ("keep", "immutable"),
                                 "young": ("keep", "immutable"), "closed/f": ("keep", "immutable")})
        self.assertEqual({e["name"] for e in o["entries"] if e["refused"]}, {"f1", "closed/f"})
        self.assertEqual((o["refused"]["entries"], o["deleted"]["entries"]), (2, 1))
        self.assertIn("f1  (is immutable or append-only: see lsattr(1))", policy(w, "plan").out)
        self.assertIn("To be deleted, but cannot be: 2 entries, ", policy(w, "plan").out)
        for name, flag in flags.items():
            set_flag(w.path("base", name), flag, on=False)
        self.assertEqual({f[0] for n, f in plan(w)[0].items() if n != "young"}, {"delete"})

    @matrix(backends=plain, fs=("ext4",))
    def test_immutable_in_a_tree(self, w):
        one(w, "match: '*', kind: tree, max-age: 1us")
        for name in ("a/b/f", "c/d/f", "e/f"):
            make(w, name, 5)
        for name in ("a/b/f", "c/d"):
            set_flag(w.path("base", name), FS_IMMUTABLE_FL)
        self.assertEqual(plan(w)[0], {"a": ("keep", "immutable"), "c": ("keep", "immutable"),
                                      "e": ("delete", "max-age")})
        for name in ("a/b/f", "c/d"):
            set_flag(w.path("base", name), FS_IMMUTABLE_FL, on=False)


class Several(Case):
    """Policies that are about the same entries: keep wins."""

    def fates(self, w, name):
        return plan(w, name)[0]

    @matrix(backends=plain, fs=tmpfs)
    def test_keep_wins(self, w):
        configure(w, "policies:\n"
                     "  a: {path: BASE, match: 'db-*', keep: {last: 2}, max-delete: 100%}\n"
                     "  b: {path: BASE, match: '**', max-age: 3d, max-delete: 100%}\n"
                     "  c: {path: BASE, match: '*', max-files: 2, max-delete: 100%}\n"
                     "  d: {path: BASE/sub, match: '*', max-age: 1d, max-delete: 100%}\n")
        for i in range(4):
            make(w, "db-%d" % i, 5 + i)
        make(w, "other", 9)
        make(w, "sub/db-0", 9)
        warned = policy(w, "plan", "b").err
        self.assertIn("policies: b: may be about the same entries as a in line 2: what keep of "
                      "either keeps is kept", warned)
        self.assertEqual(self.fates(w, "b"),
                         {"db-0": ("keep", "other-keep"), "db-1": ("keep", "other-keep"),
                          "db-2": ("delete", "max-age"), "db-3": ("delete", "max-age"),
                          "other": ("delete", "max-age"), "sub/db-0": ("delete", "max-age")})
        # Pressure has to look elsewhere, and there is no more than this.
        self.assertEqual(self.fates(w, "c"),
                         {"db-0": ("keep", "other-keep"), "db-1": ("keep", "other-keep"),
                          "db-2": ("delete", "max-files"), "db-3": ("delete", "max-files"),
                          "other": ("delete", "max-files")})
        self.assertEqual(self.fates(w, "d"), {"db-0": ("delete", "max-age")})
        self.assertIn("(keep of another policy)", policy(w, "plan", "b").out)

    @matrix(backends=plain, fs=tmpfs)
    def test_trees_and_what_is_in_them(self, w):
        configure(w, "policies:\n"
                     "  trees: {path: BASE, kind: tree, match: '*', max-age: 1us, max-delete: 100%}\n"
                     "  files: {path: BASE/a, match: '**', keep: {last: 1}}\n"
                     "  kept: {path: BASE, kind: tree, match: 'k*', keep: {last: 1}}\n"
                     "  all: {path: BASE, match: '**', max-age: 1us, max-delete: 100%}\n")
        for name in ("a/x", "a/s/y", "b/x", "k1/x", "k2/x"):
            make(w, name, 5)
        age(make(w, "a/new"), 1)
        age(w.path("base/k1"), 9)
        self.assertEqual(self.fates(w, "trees"),
                         {"a": ("keep", "other-keep"), "b": ("delete", "max-age"),
                          "k1": ("delete", "max-age"), "k2": ("keep", "other-keep")})
        kept = {n for n, f in self.fates(w, "all").items() if f == ("keep", "other-keep")}
        self.assertEqual(kept, {"a/new", "k2/x"})

    @matrix(backends=plain, fs=tmpfs)
    def test_what_another_keeps_is_not_known(self, w):
        configure(w, "policies:\n"
                     "  a: {path: BASE/a, match: '*', keep: {last: 2}}\n"
                     "  b: {path: BASE, match: '**', max-age: 3d, max-delete: 100%}\n")
        make(w, "f", 9)
        # What is not there keeps nothing.
        self.assertEqual(self.fates(w, "b"), {"f": ("delete", "max-age")})
        os.mkdir(w.path("base/a"))
        fd = lock(w.path("base/a"))
        err = policy(w, "plan", "b", status=1).err
        self.assertIn("a: %s is locked by another process" % w.path("base/a"), err)
        self.assertIn("b: %s cannot be planned for: what another policy keeps" % w.path("base"), err)
        os.close(fd)


class Command(Case):
    @matrix(backends=plain, fs=tmpfs)
    def test_path_that_is_not_there(self, w):
        """It may be on a filesystem that is not mounted yet: no error, but said."""
        one(w, "match: '*', max-age: 1d")
        check = [scratch.binary, "check-config", w.path("etc/reclaimd.yaml")]
        for there in (True, False):
            if not there:
                os.rmdir(w.path("base"))
            for words in ([], ["-q"], ["--json"]):
                p = Proc(check + words, w.dir)
                w.procs.append(p)
                r = p.finish()
                self.assertEqual(r.status, 0, r)
                said = r.json["warnings"] if words == ["--json"] else r.err
                self.assertEqual("does not exist (now)" in str(said), not there and words != ["-q"], r)

    @matrix(backends=plain, fs=tmpfs)
    def test_list(self, w):
        configure(w, "policies:\n"
                     "  a: {path: BASE, match: '*.a', max-age: 1d, schedule: daily}\n"
                     "  long-name: {path: BASE/c, match: [x, y]}\n")
        r = policy(w, "list", "-q")
        self.assertEqual((r.out, r.err), ("", ""))
        lines = policy(w, "list").out.splitlines()
        self.assertEqual([l.split()[0] for l in lines if l[0] != " "], ["NAME", "a", "long-name"])
        self.assertIn("x y  (no rule: deletes nothing)", lines[2])
        self.assertEqual(lines[1].split(), ["a", w.path("base"), "daily", "-", "no", "timer", "*.a"])
        a, b = policy(w, "list", "--json").json
        self.assertEqual({k: a[k] for k in ("name", "path", "match", "rules", "schedule")},
                         {"name": "a", "path": w.path("base"), "match": ["*.a"], "rules": True,
                          "schedule": "daily"})
        self.assertEqual([o["path_exists"] for o in (a, b)], [True, False])
        self.assertIn("  its path does not exist: it deletes nothing\n", policy(w, "list").out)

    @matrix(backends=plain, fs=tmpfs)
    def test_list_marks(self, w):
        configure(w, "policies:\n"
                     "  a: {path: BASE, match: '*.a', min-free: {below: 10%, until: 15%}}\n"
                     "  b: {path: BASE, match: '*.b', min-free: 1GiB}\n"
                     "  c: {path: BASE, match: '*.c', max-age: 1d}\n")
        shares = [{"share": share, "bytes": None} for share in (0.1, 0.15)]
        same = {"share": None, "bytes": 2 ** 30}
        self.assertEqual([o["min_free"] for o in policy(w, "list", "--json").json],
                         [{"below": shares[0], "until": shares[1]}, {"below": same, "until": same}, None])

    @matrix(backends=plain, fs=tmpfs)
    def test_several(self, w):
        configure(w, "policies:\n"
                     "  a: {path: BASE, match: '*.a', max-age: 1d, max-delete: 100%}\n"
                     "  b: {path: BASE, match: '*.b', max-age: 1d, max-delete: 100%}\n")
        make(w, "x.a", 5)
        make(w, "x.b", 5)
        r = policy(w, "plan", "--json").json
        self.assertEqual([(o["name"], o["entries"][0]["name"]) for o in r],
                         [("a", "x.a"), ("b", "x.b")])
        self.assertEqual([o["name"] for o in policy(w, "plan", "--json", "b").json], ["b"])
        for names in (("a",), ("a", "a"), ()):
            pretty = policy(w, "plan", "--json=pretty", *names).out
            self.assertEqual(pretty, json.dumps(json.loads(pretty), indent=2) + "\n")
            self.assertEqual(json.loads(pretty)[0]["deleted"]["entries"], 1)
        self.assertIn("no such policy", policy(w, "plan", "zzz", status=1).err)

    @matrix(backends=plain, fs=tmpfs)
    def test_usage(self, w):
        configure(w, "{}\n")
        self.assertEqual(policy(w, "plan").out, "no policies\n")
        self.assertEqual(policy(w, "plan", "--json").json, [])
        self.assertEqual(policy(w, "list").out, "no policies\n")
        for wrong in ((), ("run",), ("list", "x"), ("plan", "--dry-run"), ("plan", "--wait"),
                      ("list", "--force")):
            self.assertIn("reclaimctl: ", policy(w, *wrong, status=2).err)
        write(w.path("etc/reclaimd.yaml"), "policies: {a: {path: b}}\n")
        r = policy(w, "list", status=1)
        self.assertRegex(r.err, r"reclaimd\.yaml:1:22: policies: a: path: found \"b\"")

    @matrix(backends=plain, fs=tmpfs)
    def test_examples(self, w):
        top = os.path.join(fixture.HERE, "..", "..")
        examples = glob.glob(os.path.join(top, "contrib", "policies", "*.yaml"))
        self.assertEqual(len(examples), 7)
        for example in examples:
            p = Proc([scratch.binary, "check-config", example], w.dir)
            w.procs.append(p)
            r = p.finish()
            self.assertEqual(r.status, 0, example)
            # Their directories are not there.
            self.assertEqual([l for l in r.err.splitlines() if "does not exist (now)" not in l], [], example)


class Migration(Case):
    """The examples do what the lines did that they are there in place of."""

    def example(self, w, name):
        """The example for directories of ours."""
        top = os.path.join(fixture.HERE, "..", "..", "contrib", "policies")
        with open(os.path.join(top, name)) as f:
            text = re.sub(r"path: (/\S+)", lambda m: "path: " + w.path("root") + m[1], f.read())
        os.makedirs(w.path("etc"), exist_ok=True)
        write(w.path("etc/reclaimd.yaml"), text)

    def fill(self, w, base, days, dirs, names):
        for d in dirs:
            for i, name in enumerate(names):
                path = w.path("root", base, d, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write(path)
                age(path, days[i % len(days)])

    def goes(self, w, name):
        return {n for n, f in plan(w, name)[0].items() if f[0] in ("delete", "excess")}

    @matrix(backends=plain, fs=tmpfs)
    def test_find(self, w):
        self.example(w, "cron-find.yaml")
        base = w.path("root/var/spool/reports")
        self.fill(w, base, (29.5, 30.5, 31.5, 40), (".", "a", "a/b"),
                  ["%d.%s" % (i, e) for e in ("csv", "txt") for i in range(8)])
        found = command("find", base, "-type", "f", "-name", "*.csv", "-mtime", "+30")
        found = {os.path.relpath(path, base) for path in found.split()}
        self.assertEqual(len(found), 12)
        self.assertEqual(self.goes(w, "reports"), found)

    @matrix(backends=plain, fs=tmpfs)
    def test_tmpfiles(self, w):
        if not shutil.which("systemd-tmpfiles"):
            self.skipTest("there is no systemd-tmpfiles")
        self.example(w, "tmpfiles.yaml")
        base = w.path("root/srv/upload")
        self.fill(w, base, (5, 9, 11, 15), (".", "x", "x/y", ".h", "x/.h", ".h/z", "keep-dir"),
                  [n + str(i) for n in ("f", ".f", "keep-") for i in range(4)])
        os.chmod(base, 0o1777)
        goes = self.goes(w, "upload")
        before = {os.path.relpath(os.path.join(d, f), base)
                  for d, _, files in os.walk(base) for f in files}
        # By the same time as ours, which has no access in it.
        write(w.path("t.conf"), "d %s 1777 root root m:10d\nx %s/keep-*\n" % (base, base))
        command("systemd-tmpfiles", "--clean", w.path("t.conf"))
        after = {os.path.relpath(os.path.join(d, f), base)
                 for d, _, files in os.walk(base) for f in files}
        self.assertEqual(len(before - after), 34)
        self.assertEqual(goes, before - after)


@unittest.skipUnless(FULL, "a million files take a while")
class Sizes(Case):
    @matrix(backends=plain, fs=("xfs",))
    def test_a_million_entries(self, w):
        one(w, "match: '*/*.log', group-by: '^(d[0-9]+)/', keep: {daily: 7, weekly: 4}")
        for d in range(100):
            os.makedirs(w.path("base/d%d" % d))
            for f in range(10000):
                os.close(os.open(w.path("base/d%d/entry-%06d.log" % (d, f)), os.O_CREAT))
        for args in (("plan", "--json"), ("plan",)):
            begin = time.monotonic()
            r = policy(w, *args)
            took = time.monotonic() - begin
            print("%s: %.1f s, %d KiB" % (" ".join(args), took, r.maxrss_kib))
            self.assertEqual(r.out.count("entry-"), 1000000)
            if not scratch.sanitized:
                self.assertLess(took, 10)
                self.assertLess(r.maxrss_kib, 200 * 1024)


if __name__ == "__main__":
    fixture.main()
