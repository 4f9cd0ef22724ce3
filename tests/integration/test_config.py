#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimctl check-config: what is wrong with a configuration is said, with its place."""
import os
import re
import shutil

import fixture
from contents import fingerprint
from fixture import Case, Proc, command, matrix, scratch, write
from test_plan import MUTATING, OPENING

plain = (None,)
tmpfs = ("tmpfs",)


def check(w, *args):
    p = Proc([scratch.binary, "check-config", *args], w.dir)
    w.procs.append(p)
    return p.finish()


def bind(w, at):
    """Puts a directory of the test's where the system's configuration is, in our namespace."""
    source = w.path(os.path.basename(os.path.dirname(at)) + "-reclaimd")
    os.mkdir(source)
    os.makedirs(at, exist_ok=True)
    command("mount", "--bind", source, at)
    return source


class Correct(Case):
    @matrix(backends=plain, fs=tmpfs)
    def test_check_reports_errors_of_a_file(self, w):
        write(w.path("a.yaml"), "undo: 1h\n")
        r = check(w, "a.yaml")
        self.assertEqual((r.status, r.out, r.err), (0, "a.yaml: correct\n", ""))
        self.assertEqual(check(w, "-q", "a.yaml").out, "")
        r = check(w, "--json", "a.yaml")
        self.assertEqual(r.json, {"files": ["a.yaml"], "errors": [], "warnings": []})

    @matrix(backends=plain, fs=tmpfs)
    def test_warnings(self, w):
        write(w.path("a.yaml"), "policies: {p: {path: /b, match: x}}\n")
        r = check(w, "a.yaml")
        self.assertEqual((r.status, r.out), (0, "a.yaml: correct\n"))
        self.assertRegex(r.err, r"^a\.yaml:1:12: warning: policies: p: has no rule, so it deletes")
        self.assertEqual(check(w, "-q", "a.yaml").err, "")
        r = check(w, "--json", "a.yaml")
        self.assertEqual((r.status, r.err, r.json["errors"]), (0, "", []))
        self.assertEqual((r.json["warnings"][0]["line"], r.json["warnings"][0]["column"]), (1, 12))

    @matrix(backends=plain, fs=tmpfs)
    def test_bases(self, w):
        write(w.path("file"))
        os.mkdir(w.path("dir"))
        os.symlink("dir", w.path("link"))
        for name, said in (("dir", None), ("none", "does not exist (now)"),
                           ("dir/none", "does not exist (now)"),
                           ("file", "is not a directory, expected one"),
                           ("file/x", "is not a directory, expected one"),
                           ("link", "has a symbolic link in it, expected the path that"),
                           ("link/..", None)):
            path = w.path(name)
            write(w.path("a.yaml"),
                  "policies:\n  p: {path: %s, match: x, max-size: 1K}\n" % path)
            r = check(w, "a.yaml")
            if name == "link/..":
                self.assertIn("a.yaml:2:13: policies: p: path: found ", r.err)
                continue
            # It may be on a filesystem that is not mounted yet.
            absent = said and "does not exist" in said
            self.assertEqual(r.status, 1 if said and not absent else 0, r)
            place = "a.yaml:2:13: %spolicies: p: path: %s %s" % ("warning: " if absent else "", path, said)
            self.assertTrue(r.err.startswith(place) if said else r.err == "", r)

    @matrix(backends=plain, fs=tmpfs)
    def test_fleet(self, w):
        """What only this host can tell of a fleet."""
        if not os.path.exists(os.path.join(os.path.dirname(scratch.binary), "reclaim-fleet")):
            self.skipTest("reclaim-fleet is not built")
        for name in ("mount", "again", "none"):
            os.mkdir(w.path(name))
        command("mount", "-t", "tmpfs", "tmpfs", w.path("mount"))
        command("mount", "--bind", w.path("mount"), w.path("again"))
        config = "fleet: {database: %s, name: a, filesystems: {%s}}\n"
        write(w.path("a.yaml"), config % ("dbname=x", w.path("mount") + ": s"))
        self.assertEqual(check(w, "a.yaml").err, "")
        write(w.path("a.yaml"), config % ("dbname=x", w.path("none") + ": s"))
        r = check(w, "a.yaml")
        self.assertEqual(r.status, 0)
        self.assertIn("a.yaml:1:52: warning: fleet: filesystems: %s is no mount point (now), so nothing is shared there" %
                      w.path("none"), " ".join(r.err.split()))
        write(w.path("a.yaml"), config % ("dbname=x", "%s: s, %s: t" % (w.path("mount"), w.path("again"))))
        r = check(w, "a.yaml")
        self.assertEqual(r.status, 1)
        self.assertIn('%s is the same filesystem as %s, which is called "s": expected' % (w.path("again"), w.path("mount")),
                      " ".join(r.err.split()))
        write(w.path("a.yaml"), config % ("hots=x", w.path("mount") + ": s"))
        r = check(w, "a.yaml")
        self.assertEqual(r.status, 1)
        self.assertIn('a.yaml:1:19: fleet: database: the connection string: invalid connection option "hots"',
                      " ".join(r.err.split()))

    @matrix(backends=plain, fs=tmpfs)
    def test_fleet_without_its_program(self, w):
        os.mkdir(w.path("alone"))
        alone = shutil.copy(scratch.binary, w.path("alone/reclaimctl"))
        write(w.path("a.yaml"), "fleet: {database: dbname=x, name: a, filesystems: {/: s}}\n")
        p = Proc([alone, "check-config", "a.yaml"], w.dir)
        w.procs.append(p)
        r = p.finish()
        self.assertEqual(r.status, 1)
        self.assertTrue(r.err.startswith("a.yaml:1:19: fleet: reclaim-fleet is not installed"), r)

    @matrix(backends=plain, fs=tmpfs)
    def test_schedules(self, w):
        if not shutil.which("systemd-analyze"):
            self.skipTest("there is no systemd-analyze")
        for schedule, right in (("daily", True), ("Mon..Fri *-*-* 04:00", True), ("dayly", False),
                                ("--help", False)):
            write(w.path("a.yaml"), "policies:\n"
                  "  p: {path: /b, match: x, max-age: 1d, schedule: %s}\n" % schedule)
            r = check(w, "a.yaml")
            self.assertEqual(r.status, 0 if right else 1, schedule)
            lines = [l for l in r.err.splitlines() if "path: /b does not exist (now)" not in l]
            self.assertEqual(len(lines), 0 if right else 1, r)
            self.assertTrue(right or lines[0].startswith(
                'a.yaml:2:50: policies: p: schedule: found "%s"' % schedule), r)
            self.assertEqual("correct" in r.out, right)
            write(w.path("b.yaml"), "trim: {schedule: %s}\n" % schedule)
            r = check(w, "b.yaml")
            self.assertEqual((r.status, bool(r.err)), (0, False) if right else (1, True), r)
            self.assertTrue(right or r.err.startswith('b.yaml:1:18: trim: schedule: found "%s", expected when' % schedule), r)
        self.assertEqual(check(w, "--json", "a.yaml").json["files"], [])

    @matrix(backends=plain, fs=tmpfs)
    def test_check_reads_a_directory(self, w):
        os.makedirs(w.path("etc/reclaimd.d"))
        r = check(w, "etc")
        self.assertEqual((r.status, r.err), (0, ""))
        self.assertIn("no configuration files", r.out)
        write(w.path("etc/reclaimd.yaml"), "undo: 1h\n")
        write(w.path("etc/reclaimd.d/20-b.yaml"), "undo: 3h\n")
        write(w.path("etc/reclaimd.d/10-a.yaml"), "undo: 2h\n")
        write(w.path("etc/reclaimd.d/10-a.yaml.bak"), "nonsense: 2h\n")
        before = fingerprint(w.dir)
        r = check(w, "etc")
        self.assertEqual((r.status, r.err), (0, ""))
        self.assertEqual(r.out, "etc/reclaimd.yaml: correct\n"
                                "etc/reclaimd.d/10-a.yaml: correct\n"
                                "etc/reclaimd.d/20-b.yaml: correct\n")
        self.assertEqual(fingerprint(w.dir), before)

    @matrix(backends=plain, fs=tmpfs)
    def test_check_accepts_shipped_files(self, w):
        conf = os.path.join(os.path.dirname(fixture.HERE), "..", "conf", "reclaimd.yaml")
        r = check(w, conf)
        self.assertEqual((r.status, r.err), (0, ""))


class System(Case):
    @matrix(backends=plain, fs=tmpfs)
    def test_vendor_and_system(self, w):
        made = [d for d in ("/etc/reclaimd", "/usr/lib/reclaimd") if not os.path.exists(d)]
        try:
            vendor = bind(w, "/usr/lib/reclaimd")
            etc = bind(w, "/etc/reclaimd")
            write(os.path.join(vendor, "reclaimd.yaml"), "urgent: {below: 20%, until: 30%}\n")
            write(os.path.join(etc, "reclaimd.yaml"), "undo: 1h\n")
            r = check(w)
            self.assertEqual((r.status, r.err), (0, ""))
            self.assertEqual(r.out, "/usr/lib/reclaimd/reclaimd.yaml: correct\n"
                                    "/etc/reclaimd/reclaimd.yaml: correct\n")
            # What is wrong only with both.
            write(os.path.join(etc, "reclaimd.yaml"), "urgent: {until: 10%}\n")
            r = check(w)
            self.assertEqual((r.status, r.out), (1, ""))
            self.assertRegex(r.err, r"^/etc/reclaimd/reclaimd.yaml:1:17: urgent: ")
        finally:
            for d in ("/etc/reclaimd", "/usr/lib/reclaimd"):
                command("sh", "-c", 'mountpoint -q "$0" && umount "$0" || true', d)
            for d in made:
                os.rmdir(d)


class Looking(Case):
    @matrix(backends=plain, fs=tmpfs)
    def test_changes_nothing(self, w):
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        for text in ("undo: 1h\nspools: {/s: {}}\n", "undo: soon\n"):
            write(w.path("a.yaml"), text)
            log = os.path.join(w.top, "log")
            p = Proc(["strace", "-f", "-qq", "-o", log, "-e", "trace=%s,%s" % (MUTATING, OPENING),
                      scratch.binary, "check-config", "a.yaml"], w.dir, env={"ASAN_OPTIONS": "detect_leaks=0"})
            w.procs.append(p)
            p.finish()
            with open(log) as f:
                # The thread sanitizer opens and removes a file of its own.
                lines = [line for line in f if "/tsan." not in line]
            self.assertTrue(any("a.yaml" in line for line in lines), "nothing was traced")
            for line in lines:
                self.assertNotIn(re.sub(r"^\d+ +", "", line).split("(")[0], MUTATING.split(","), line)
                self.assertNotRegex(line, "O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")


class Wrong(Case):
    @matrix(backends=plain, fs=tmpfs)
    def test_check_reports_every_error(self, w):
        write(w.path("a.yaml"), "paicng: {}\nundo: soon\nspools:\n  backups: {}\n")
        r = check(w, "a.yaml")
        self.assertEqual((r.status, r.out), (1, ""))
        lines = r.err.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(lines[0], "a.yaml:1:1: paicng: unknown key: did you mean pacing?")
        self.assertRegex(lines[1], r'^a\.yaml:2:7: undo: found "soon", expected a time ')
        self.assertRegex(lines[2], r'^a\.yaml:4:3: spools: found "backups", expected an absolute')
        r = check(w, "--json", "a.yaml")
        self.assertEqual(r.status, 1)
        self.assertEqual(r.json["files"], [])
        self.assertEqual([(e["file"], e["line"], e["column"]) for e in r.json["errors"]],
                         [("a.yaml", 1, 1), ("a.yaml", 2, 7), ("a.yaml", 4, 3)])

    @matrix(backends=plain, fs=tmpfs)
    def test_attack_11_expressions_without_an_end(self, w):
        """What the C library compiles for ever, or with a stack that has an end, is refused at once."""
        for expression in ("(" * 60000 + "a" + ")" * 60000, "(" * 40 + "a" + ")+" * 40,
                           "((((a{1,100}){1,100}){1,100}){1,100})", "((((((a*)*)*)*)*)*)*b",
                           "(a{32767}){32767}", "(a)" + "b{1,20000}" * 10, "(a)\\1", "(" * 1000000):
            write(w.path("a.yaml"), "policies: {p: {path: /v, match: '*', group-by: '%s', max-age: 1d}}\n"
                  % expression)
            p = Proc(["prlimit", "--cpu=30", scratch.binary, "check-config", "a.yaml"], w.dir)
            w.procs.append(p)
            r = p.finish()
            self.assertEqual(r.status, 1, r.err[-500:])
            self.assertIn("expected a", r.err)

    @matrix(backends=plain, fs=tmpfs)
    def test_files_that_cannot_be_read(self, w):
        r = check(w, "missing.yaml")
        self.assertEqual((r.status, r.out, r.err),
                         (1, "", "missing.yaml: No such file or directory\n"))
        os.mkfifo(w.path("fifo.yaml"))
        r = check(w, "fifo.yaml")
        self.assertEqual((r.status, r.err), (1, "fifo.yaml: is not a regular file, expected one\n"))
        write(w.path("evil\x1b.yaml"), "a\x00")
        r = check(w, "evil\x1b.yaml")
        self.assertEqual(r.status, 1)
        self.assertRegex(r.err, r"^evil\\x1b\.yaml:1:2: ")

    @matrix(backends=plain, fs=tmpfs)
    def test_usage(self, w):
        for wrong in (["a", "b"], ["--dry-run"], ["--json=loud"]):
            r = check(w, *wrong)
            self.assertEqual((r.status, r.out), (2, ""), wrong)
            self.assertIn("reclaimctl: ", r.err)


if __name__ == "__main__":
    fixture.main()
