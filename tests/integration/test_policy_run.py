#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimctl policy run: what policy plan shows becomes a job of a real reclaimd."""
import contextlib
import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import struct
import threading
import time
import unittest

import daemon_fixture
import fixture
from contents import fingerprint
from daemon_fixture import user
from dbuswire import Error
import openmetrics
from fixture import FS_IMMUTABLE_FL, USER, Canary, Proc, command, scratch, set_flag, write

DAY = 86400
BACKUPS = "match: '*.gz', keep: {last: 3, daily: 7, weekly: 4}, max-delete: 100%"


STA_UNSYNC = 0x40


def ntp_confirms():
    """Whether the kernel counts the clock as synchronized: adjtimex(2)."""
    timex = ctypes.create_string_buffer(512)
    return ctypes.CDLL(None).adjtimex(timex) >= 0 and not struct.unpack_from("i", timex, 40)[0] & STA_UNSYNC


class Case(daemon_fixture.Case):
    def policy(self, keys, name="p"):
        self.daemon.configure("policies: {%s: {path: %s, %s}}\n" % (name, self.data, keys))

    def words(self, *args):
        words = [scratch.binary, "policy", *args,
                 "--configuration-directory=" + os.path.join(self.daemon.dir, "conf")]
        if args[0] in ("run", "list"):
            words += ["--state-directory=" + self.daemon.state,
                      "--runtime-directory=" + os.path.dirname(self.daemon.socket)]
        return words

    def begin(self, *args, **kw):
        p = Proc(self.words(*args), self.daemon.dir, **kw)
        self.addCleanup(p.close)
        return p

    def ctl(self, *args, status=0, **kw):
        r = self.begin(*args, **kw).finish()
        self.assertEqual(r.status, status, r)
        return r

    def elsewhere(self, *words, status=0):
        """A verb that is not about policies."""
        p = Proc([scratch.binary, *words], self.daemon.dir, env={
            "RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket),
            "STATE_DIRECTORY": self.daemon.state,
            "CONFIGURATION_DIRECTORY": os.path.join(self.daemon.dir, "conf")})
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, status, r)
        return r

    def run_policy(self, *args):
        return json.loads(self.ctl("run", "p", "--json", *args).out)

    def planned(self):
        """What would go."""
        (o,) = json.loads(self.ctl("plan", "p", "--json").out)
        return {e["name"] for e in o["entries"] if e["fate"] == "delete"}

    def make(self, name, days=0.0, content="x"):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, content)
        then = time.time() - days * DAY
        os.utime(path, (then, then))
        return path

    def free(self):
        st = os.statvfs(self.data)
        return st.f_bavail * st.f_frsize

    def left(self):
        return {os.path.relpath(os.path.join(d, f), self.data)
                for d, _, files in os.walk(self.data) for f in files}


class OverTheBus(Case):
    """Policies as objects of the API."""

    def setUp(self):
        super().setUp()
        self.client = self.daemon.client()

    def configured(self, keys):
        self.policy(keys)
        self.client.call("Reload")

    def of_policy(self, member, *args, client=None, interface="org.reclaimd1.Policy"):
        return (client or self.client).call(member, *args, path="/org/reclaimd1/policy/p", interface=interface).body

    def properties(self):
        return self.of_policy("GetAll", "s", "org.reclaimd1.Policy", interface="org.freedesktop.DBus.Properties")[0]

    def test_policy_is_described(self):
        self.configured("match: ['*.gz', '*.xz'], max-age: 1d, max-delete: 25%, undo: 2h, schedule: daily")
        told = self.properties()
        self.assertEqual(told, {"Name": "p", "Path": os.fsencode(self.data), "Match": ["*.gz", "*.xz"], "Schedule": "daily",
                                "Watched": False, "MaxDelete": 0.25, "UndoUSec": 7200 * 10**6, "Running": False, "Job": 0,
                                "NextElapseUSec": 0, "LastRunUSec": 0, "LastResult": "", "LastJob": 0, "LastRefused": 0,
                                "LastExcess": 0, "LastWhy": [], "LastSuccessUSec": 0, "OldestKeptUSec": 0})
        self.assertEqual(self.client.call("ListPolicies").body[0], [tuple(told.values())])
        managed = self.client.call("GetManagedObjects", interface="org.freedesktop.DBus.ObjectManager").body[0]
        self.assertEqual(managed["/org/reclaimd1/policy/p"]["org.reclaimd1.Policy"], told)
        self.configured("match: '*.gz', min-free: 10%")
        self.assertTrue(self.properties()["Watched"])
        self.daemon.configure("")
        self.client.call("Reload")
        self.assertEqual(self.client.call("ListPolicies").body[0], [])

    def test_plan_is_that_of_reclaimctl(self):
        self.configured(BACKUPS)
        for i in range(60):
            self.make("db-%02d.tar.gz" % i, i)
        there = self.left()
        plan = json.loads(self.of_policy("Plan")[0])
        self.assertEqual(plan["entries"], json.loads(self.ctl("plan", "p", "--json").out)[0]["entries"])
        self.assertGreater(plan["deleted"]["entries"], 45)
        self.assertEqual({e["rule"] for e in plan["entries"] if e["fate"] == "keep"}, {"keep"})
        self.assertEqual(self.left(), there)

    def test_run_does_what_was_planned(self):
        self.configured(BACKUPS + ", undo: 1h")
        canary = Canary(self.path("canary"))
        for i in range(60):
            self.make("db-%02d.tar.gz" % i, i)
        planned, there = self.planned(), self.left()
        job, path = self.of_policy("Run")
        self.assertEqual(path, "/org/reclaimd1/job/%d" % job)
        self.assertEqual(there - self.left(), planned)
        told = self.client.job(job)
        self.assertEqual((told["origin"], told["state"]), ("policy:p", "held"))
        self.until(lambda: self.properties()["Job"] == job and self.properties()["Running"])
        self.client.call("Restore", "ta{sv}", job, {})
        self.until(lambda: not self.properties()["Running"])
        self.assertEqual(self.left(), there)
        self.configured(BACKUPS)
        self.assertEqual(self.client.wait(self.of_policy("Run")[0]), "done")
        self.assertEqual(self.of_policy("Run"), [0, "/"])
        canary.check()

    def test_last_run_is_told(self):
        """How it ended, how much max-delete left for the next, and what was refused and why."""
        self.configured("match: '*.gz', max-files: 1, max-delete: 50%")
        for i in range(4):
            self.make("db-%d.gz" % i, 10 + i, "x" * 4096)
        began = time.time() * 1e6
        job, _ = self.of_policy("Run")
        self.assertEqual(self.client.wait(job), "done")
        self.until(lambda: self.properties()["LastRunUSec"] > 0 and not self.properties()["Running"])
        told = self.properties()
        self.assertGreaterEqual(told["LastRunUSec"], began - 1e6)
        self.assertEqual((told["LastJob"], told["LastExcess"], told["LastRefused"]), (job, 1, 0))
        # The limit is not met, as max-delete keeps one.
        self.assertEqual(told["LastWhy"][0], "max-files is exceeded: 2 entries, 1 allowed: 1 is kept by max-delete (50 %)")
        self.assertEqual(told["LastResult"], "partial")
        self.assertEqual(self.client.call("ListPolicies").body[0], [tuple(told.values())])
        self.configured("match: '*.gz', max-age: 1d, max-delete: 100%")
        os.rename(self.data, self.data + "-away")
        with self.assertRaises(Error):
            self.of_policy("Run")
        # The result is on disk a moment before the run has ended.
        self.until(lambda: self.properties()["LastResult"] == "failed" and not self.properties()["Running"])
        self.assertTrue(self.properties()["LastWhy"])
        os.rename(self.data + "-away", self.data)
        # What is on disk is all there is: it is there for the next daemon, and gone with the file.
        before = self.properties()
        self.daemon.stop()
        self.client = self.daemon.start().client()
        self.assertEqual(self.properties(), before)
        with open(os.path.join(self.daemon.state, "policy-result-p"), "w", encoding="utf-8") as f:
            f.write("nonsense")
        self.assertEqual((self.properties()["LastRunUSec"], self.properties()["LastWhy"]), (0, []))
        os.unlink(os.path.join(self.daemon.state, "policy-result-p"))
        self.assertEqual(self.properties()["LastResult"], "")

    def test_only_root_plans_and_runs(self):
        """Without polkit, which is not asked here."""
        self.configured(BACKUPS)
        self.make("db.tar.gz", 100)
        other = self.daemon.client(USER)
        self.assertEqual(other.call("ListPolicies").body[0][0][0], "p")
        for member in ("Plan", "Run"):
            with self.assertRaises(Error) as e:
                self.of_policy(member, client=other)
            self.assertEqual(e.exception.name, "NotAuthorized")
        self.assertEqual(self.left(), {"db.tar.gz"})

    def test_what_cannot_be_run_is_said(self):
        self.configured(BACKUPS)
        os.rename(self.data, self.data + "-away")
        with self.assertRaises(Error) as e:
            self.of_policy("Run")
        self.assertEqual(e.exception.name, "Failed")
        self.assertIn("policy p", e.exception.text)
        self.assertIsNotNone(json.loads(self.of_policy("Plan")[0])["error"])
        for member in ("Plan", "Run"):
            with self.assertRaises(Error) as e:
                self.client.call(member, path="/org/reclaimd1/policy/other", interface="org.reclaimd1.Policy")
            self.assertEqual(e.exception.name, "org.freedesktop.DBus.Error.UnknownObject")

    def test_long_plan_is_refused(self):
        self.configured(BACKUPS)
        for i in range(20000):
            self.make("%s-%05d.gz" % ("x" * 200, i), 400)
        with self.assertRaises(Error) as e:
            self.of_policy("Plan")
        self.assertEqual(e.exception.name, "LimitExceeded")
        self.assertIn("reclaimctl policy plan p", e.exception.text)

    def test_runs_at_once_are_bounded(self):
        """The ninth is refused while eight wait for their turn; the daemon ends while some do."""
        def send():
            return [self.client.send("Run", path="/org/reclaimd1/policy/p", interface="org.reclaimd1.Policy")
                    for _ in range(8)]

        self.configured(BACKUPS)
        self.assertEqual(self.of_policy("Run"), [0, "/"])
        with open(os.path.join(self.daemon.state, "policy-clock"), "r+b") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            sent = send()
            for member in ("Run", "Plan"):
                with self.assertRaises(Error) as e:
                    self.of_policy(member)
                self.assertEqual(e.exception.name, "LimitExceeded")
            self.assertTrue(self.properties()["Running"])
        for serial in sent:
            self.assertEqual(self.client.answer(serial).body, [0, "/"])
        self.assertFalse(self.properties()["Running"])
        with open(os.path.join(self.daemon.state, "policy-clock"), "r+b") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            send()
            self.client.call("ListPolicies")
            self.assertEqual(self.daemon.stop(), 0)


class Run(Case):
    def test_sixty_days_of_backups(self):
        self.policy(BACKUPS)
        canary = Canary(self.path("canary"))
        for i in range(60):
            self.make("db-%02d.tar.gz" % i, i)
        there, planned = self.left(), self.planned()
        self.assertEqual(self.left(), there)
        self.assertGreater(len(planned), 45)
        o = self.run_policy()
        self.assertEqual((o["name"], o["job"], o["entries"], o["missing"]),
                         ("p", 1, len(planned), 0))
        self.assertEqual(self.left(), there - planned)
        c = self.daemon.client()
        self.assertEqual(c.wait(1), "done")
        self.assertEqual((c.job(1)["origin"], c.job(1)["done"]), ("policy:p", len(planned)))
        self.assertEqual(self.ctl("run", "p").out, "p: nothing to delete\n")
        self.assertIsNone(self.run_policy()["job"])
        self.assertEqual(len(c.jobs(finished=True)), 1)
        canary.check()

    def test_many_directories_are_one_job(self):
        """More than descriptors fit into a message, and the same names in all of them."""
        self.policy("match: '**/*.log', max-age: 1d, max-delete: 100%")
        for d in range(300):
            for name in ("a.log", "b.log"):
                self.make("d%d/sub/%s" % (d, name), 5 if d % 2 or name == "a.log" else 0)
        planned, there = self.planned(), self.left()
        self.assertEqual(len(planned), 450)
        r = self.ctl("run", "p")
        self.assertRegex(r.out, r"^Job 1: 450 entries of p, .*iB\n$")
        self.assertEqual(self.left(), there - planned)
        self.assertEqual(self.daemon.client().wait(1), "done")

    def test_trees(self):
        self.policy("match: 'old*', kind: tree, max-age: 1us, max-delete: 100%")
        for tree in ("old-1", "old-2", "new"):
            self.make(tree + "/a/b", 5, "x" * 5000)
        ran, c = self.run_policy(), self.daemon.client()
        self.assertEqual(ran["entries"], 2)
        self.assertEqual(self.left(), {"new/a/b"})
        self.assertEqual(c.wait(1), "done")
        # What the plan has counted, which the daemon does not.
        self.assertGreater(ran["bytes"], 10000)
        self.assertEqual(c.job(1)["bytes"], ran["bytes"])

    def test_several_paths_are_one_job(self):
        for d in "abc":
            self.make("srv/%s/logs/f" % d, 5)
            self.make("srv/%s/f" % d, 5)
        self.daemon.configure("policies: {p: {paths: [%s, %s], match: '*', max-age: 1d, max-delete: 100%%}}\n"
                              % (self.path("srv/a/logs"), self.path("srv/b/logs")))
        self.assertEqual((self.planned(), self.run_policy()["entries"]), ({"a/logs/f", "b/logs/f"}, 2))
        self.assertEqual(self.left(), {"srv/a/f", "srv/b/f", "srv/c/f", "srv/c/logs/f"})
        self.assertEqual(self.daemon.client().wait(1), "done")

    def test_filters(self):
        """Of other users and sizes nothing goes, whatever the rest of it says."""
        self.policy("match: '*', max-age: 1d, max-delete: 100%%, owner: %d, size: {min: 4K}" % USER)
        for name, size, uid in (("large", 8192, USER), ("small", 10, USER), ("roots", 8192, 0)):
            os.chown(self.make(name, 5, "x" * size), uid, 0)
        self.assertEqual(self.run_policy()["entries"], 1)
        self.assertEqual(self.left(), {"small", "roots"})
        self.assertEqual(self.daemon.client().wait(1), "done")

    def test_what_the_journal_says(self):
        self.policy("match: '*', max-age: 1d, max-delete: 100%")
        self.make("f", 5, "x" * 8192)
        self.run_policy()
        self.daemon.wait_said("Job 1 accepted: 1 name\n")
        self.daemon.wait_said("Job 1 is done: 1 entry deleted, 8.0 KiB freed\n")

    def test_undo(self):
        self.policy("match: '*', max-age: 1d, max-delete: 100%, undo: 1h")
        self.make("f", 5)
        self.assertEqual(self.run_policy()["job"], 1)
        c = self.daemon.client()
        self.assertEqual((c.job(1)["state"], self.left()), ("held", set()))
        c.call("Restore", "ta{sv}", 1, {})
        self.assertEqual(self.left(), {"f"})

    def test_dry_run_changes_nothing(self):
        self.policy(BACKUPS)
        for i in range(30):
            self.make("db-%02d.tar.gz" % i, i)
        planned, before = self.planned(), fingerprint(self.data)
        clock = os.path.join(self.daemon.state, "policy-clock")
        r = self.ctl("run", "--dry-run", "p")
        self.assertRegex(r.out, r"^Would submit %d entries of p, .*iB\n$" % len(planned))
        o = self.run_policy("--dry-run")
        self.assertEqual((o["job"], o["entries"], o["missing"]), (None, len(planned), 0))
        self.assertEqual((fingerprint(self.data), self.daemon.client().jobs(finished=True)), (before, []))
        # Neither is the time recorded.
        self.assertFalse(os.path.exists(clock))
        # It says what would keep a run from deleting.
        self.policy("match: '*.gz', max-age: 1d, max-delete: 1%")
        self.assertIn("more than max-delete (1 %): a scheduled run deletes nothing",
                      self.ctl("run", "--dry-run", "p", status=1).err)
        self.policy(BACKUPS)
        self.assertEqual(self.run_policy()["entries"], len(planned))
        with open(clock) as f:
            line = f.read()
        self.assertEqual(self.ctl("run", "--dry-run", "p").out, "p: nothing to delete\n")
        with open(clock) as f:
            self.assertEqual(f.read(), line)
        # Nor does it wait for a run that has its turn.
        with open(clock) as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            self.ctl("run", "--dry-run", "p")

    def test_only_root(self):
        self.policy("match: '*', max-age: 1d, max-delete: 100%")
        self.make("f", 5)
        os.chmod(self.daemon.dir, 0o755)
        self.assertIn("only root may: sudo reclaimctl policy run p.",
                      self.ctl("run", "p", status=4, user=USER).err)
        self.assertEqual(self.left(), {"f"})

    def test_usage(self):
        self.policy("match: '*', max-age: 1d")
        for wrong in (("run",), ("run", "p", "q"), ("plan", "--force"), ("plan", "--dry-run"), ("list", "--dry-run"), ("list", "--clock-is-right")):
            self.assertIn("reclaimctl: ", self.ctl(*wrong, status=2).err)
        self.assertIn("no such policy", self.ctl("run", "q", status=1).err)

    def test_without_a_daemon(self):
        self.policy("match: '*', max-age: 1d, max-delete: 100%")
        self.make("f", 5)
        self.daemon.stop()
        self.assertIn("no daemon", self.ctl("run", "p", status=5).err)
        self.assertEqual(self.left(), {"f"})


class Hostile(Case):
    """The directory of a policy, or one above it, is a user's to write: what is there when it runs is
    what was planned for, or nothing goes."""

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("home/base"))
        for name in ("home", "home/base"):
            os.chown(self.path(name), USER, USER)
            os.chmod(self.path(name), 0o777)
        self.canary = Canary(os.path.join(self.root, "precious"))
        self.addCleanup(self.canary.check)

    def base(self, keys, **more):
        self.daemon.configure("policies: {p: {path: %s/home/base, max-delete: 100%%, %s}}\n"
                              % (self.data, keys))

    def swap(self, gate, how):
        """Files of the same names lie in another directory; `how` puts that in the place of the one
        that is planned for, while the run stands at its gate."""
        for directory in ("home/base", "home/other"):
            for name in ("f", "d/f"):
                self.make(directory + "/" + name, 5)
        p = self.begin("run", "p", "--json", gate=gate).meet()
        with user():
            how()
        return p.go_on().finish()

    def test_attack_20_21_the_directory_is_exchanged(self):
        """By a rename, and by a symbolic link, of it or of one above it. What was planned for goes
        wherever it is by then, as it is that, and what is in its place stays."""
        self.base("match: '**', max-age: 1d")
        home, base, other = self.path("home"), self.path("home/base"), self.path("home/other")

        def renamed():
            os.rename(base, base + "-old")
            os.rename(other, base)

        def linked():
            os.rename(base, base + "-old")
            os.symlink("other", base)

        for gate in ("policy-again:p", "policy:p"):
            for how in (renamed, linked):
                r = self.swap(gate, how)
                self.assertEqual(r.status, 0, r)
                there = {n for n in self.left() if not n.startswith("home/base-old/")}
                self.assertEqual({os.path.basename(n) for n in there}, {"f"})
                self.assertEqual(len(there), 2, there)
                for name in os.listdir(home):
                    path = os.path.join(home, name)
                    os.unlink(path) if os.path.islink(path) else shutil.rmtree(path)
                os.mkdir(base)
                os.chmod(base, 0o777)
                os.chown(base, USER, USER)

    def test_attack_20_entries_that_are_others(self):
        """Between plan and run: a hard link to root's file, another's directory, a link to one."""
        self.base("match: '**', max-age: 1d")
        write(os.path.join(self.root, "roots"), "precious")
        os.link(os.path.join(self.root, "roots"), self.path("roots"))
        for name in ("a", "b/f", "c/f", "same"):
            self.make("home/base/" + name, 5)
        for name in "bc":
            os.chown(self.path("home/base", name), USER, USER)
        self.make("home/base/roots/f", 5, "precious")
        p = self.begin("run", "p", "--json", gate="policy:p").meet()
        os.link(self.path("roots"), self.path("home/new"))
        with user():
            os.rename(self.path("home/new"), self.path("home/base/a"))
            os.rename(self.path("home/base/b"), self.path("home/b-old"))
            os.rename(self.path("home/base/roots"), self.path("home/base/b"))
            os.rename(self.path("home/base/c"), self.path("home/c-old"))
            os.symlink(self.canary.path, self.path("home/base/c"))
        r = p.go_on().finish()
        self.assertEqual(r.json["entries"], 1, r)
        for name in ("a", "b/f"):
            with open(self.path("home/base", name), encoding="ascii") as f:
                self.assertEqual(f.read(), "precious")

    def test_attack_20_a_race(self):
        """A directory and a link to the canary change places all the time."""
        self.base("match: 'd/*', max-age: 1d")
        d, link = self.path("home/base/d"), self.path("home/base/link")
        os.mkdir(d)
        os.symlink(self.canary.path, link)
        for root, _, files in os.walk(self.canary.path):
            for name in files:
                os.utime(os.path.join(root, name), (1, 1), follow_symlinks=False)
        self.canary.before = fingerprint(self.canary.path)
        names = [os.fsdecode(n) for n in os.listdir(self.canary.path)]
        stop = threading.Event()

        def exchange():
            while not stop.is_set():
                fixture.libc.renameat2(-100, d.encode(), -100, link.encode(), 2)

        t = threading.Thread(target=exchange)
        t.start()
        try:
            for _ in range(200 if fixture.FULL else 3):
                for name in names:
                    with contextlib.suppress(OSError):
                        path = os.path.join(self.path("home/base/d"), name)
                        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
                        os.utime(fd, (1, 1))
                        os.close(fd)
                self.begin("run", "p").finish()
        finally:
            stop.set()
            t.join()
        self.canary.check()

    def test_attack_20_sticky(self):
        """Of all users in a sticky directory goes what matches, as root's policy says, and by links
        nothing else."""
        os.chmod(self.path("home/base"), 0o1777)
        self.base("match: '*', max-age: 1d")
        for uid in (USER, USER + 1, 0):
            os.chown(self.make("home/base/%d" % uid, 5), uid, uid)
        os.symlink(self.canary.path, self.path("home/base/link"))
        os.utime(self.path("home/base/link"), (1, 1), follow_symlinks=False)
        self.assertEqual(self.run_policy()["entries"], 4)
        self.assertEqual(self.left(), set())

    def test_attack_21_a_symbolic_link_as_its_path(self):
        """Of the directory or above it, to another, to nothing, to itself: it is said and nothing goes."""
        for name in ("real/base/f", "home/base/f"):
            self.make(name, 5)
        shutil.rmtree(self.path("home/base"))
        before = self.left()
        for path, target in (("home/base", "../real/base"), ("home/base", self.canary.path),
                             ("home/base", "nowhere"), ("home/base", "base"), ("home", "real")):
            self.base("match: '**', max-age: 1d")
            if path == "home":
                os.rename(self.path("home"), self.path("home-old"))
            os.symlink(target, self.path(path))
            for words in (("plan", "p"), ("run", "p")):
                self.assertIn("symbolic link", self.ctl(*words, status=1).err)
            r = Proc([scratch.binary, "check-config",
                      os.path.join(self.daemon.dir, "conf", "reclaimd.yaml")], self.daemon.dir).finish()
            self.assertEqual(r.status, 1, r)
            self.assertIn("symbolic link", r.err)
            os.unlink(self.path(path))
        self.assertEqual({n.replace("home-old", "home") for n in self.left()}, before)

    def test_attack_20_21_a_watched_directory_that_hangs(self):
        """The daemon watches the free space of a directory; a link there to a filesystem that answers
        nothing does not stop it."""
        tree = self.mount_hanging()
        shutil.rmtree(self.path("home/base"))
        os.symlink(tree, self.path("home/base"))
        self.daemon.configure("policies: {p: {path: %s/home/base, match: x, min-free: 100%%}}\n" % self.data)
        # Each time it looks at once.
        for _ in range(3):
            self.daemon.process.send_signal(signal.SIGHUP)
            c = self.daemon.client()
            write(self.path("f"))
            self.assertEqual(c.wait(c.submit(self.path("f"))), "done")


class Doubt(Case):
    def test_configuration_with_an_error(self):
        """Of which the daemon knows nothing, and goes on with the one before."""
        self.policy("match: '*', max-age: 1d, max-delete: 100%")
        self.make("a", 5)
        self.daemon.configure("policies: {p: {path: %s, match: '*', max-age: 1}}\n" % self.data)
        self.assertIn("max-age", self.ctl("run", "p", status=1).err)
        self.assertEqual(self.left(), {"a"})
        self.assertEqual(self.daemon.client().jobs(finished=True), [])

    def test_run_keeps_replaced_file(self):
        """Between the plan and the job: a name that means another file, or is gone, or a directory
        on the way that is another or a symbolic link."""
        self.policy("match: '**', max-age: 1d, max-delete: 100%")
        outside = Canary(os.path.join(self.root, "outside"))
        for name in ("same", "swapped", "gone", "d/f", "e/f", "g/f", "h/f"):
            self.make(name, 5)
        p = self.begin("run", "p", "--json", gate="policy:p").meet()
        os.rename(self.path("swapped"), os.path.join(self.root, "kept"))
        write(self.path("swapped"), "precious")
        os.unlink(self.path("gone"))
        for d in "de":
            os.rename(self.path(d), os.path.join(self.root, d + "-old"))
        os.symlink(os.path.join(self.root, "d-old"), self.path("d"))
        self.make("e/f", 5, "precious")
        # Even if it leads to what was planned for.
        os.rename(self.path("h"), self.path("i"))
        os.symlink("i", self.path("h"))
        o = p.go_on().finish().json
        self.assertEqual((o["entries"], o["missing"]), (2, 5))
        self.assertEqual(self.left(), {"swapped", "e/f", "i/f"})
        self.assertTrue(os.path.exists(os.path.join(self.root, "d-old/f")))
        self.assertEqual(self.daemon.client().wait(1), "done")
        outside.check()

    def test_run_keeps_changed_file(self):
        """Between the scan and the moment in which it goes: content, attributes, an open file."""
        self.policy("match: '**', max-age: 1d, max-delete: 100%")
        names = ("same", "written", "touched", "open", "d/same", "d/gone")
        for name in names:
            self.make(name, 5)
        p = self.begin("run", "p", "--json", gate="policy-again:p").meet()
        write(self.path("written"), "anew")
        # As an administrator does who puts back what a copy has changed.
        then = time.time() - 9 * DAY
        os.utime(self.path("touched"), (then, then))
        holder = Proc(["sleep", "1000"], self.daemon.dir,
                      stdin=os.open(self.path("open"), os.O_RDONLY))
        self.addCleanup(holder.close)
        os.unlink(self.path("d/gone"))
        o = p.go_on().finish().json
        self.assertEqual((o["job"], o["entries"], o["missing"]), (1, 2, 4))
        self.assertEqual(self.left(), {"written", "touched", "open"})
        holder.kill()

    def test_run_keeps_whole_unit(self):
        """Limits delete whole units, and an entry that changes before it is deleted keeps its unit."""
        self.policy("match: '*', unit-by: '^([a-z])', max-size: 20K, max-delete: 100%")
        for days, unit in enumerate("dcba"):
            for name in (".dump", ".sum"):
                self.make(unit + name, days + 1, "x" * 4096)
        p = self.begin("run", "p", "--json", gate="policy-again:p").meet()
        write(self.path("b.sum"), "anew")
        o = p.go_on().finish().json
        self.assertEqual((o["entries"], o["missing"]), (2, 1))
        self.assertEqual(self.daemon.client().wait(1), "done")
        self.assertEqual(self.left(), {u + n for u in "bcd" for n in (".dump", ".sum")})

    def test_run_keeps_used_file(self):
        """Since it was planned for it was read; nothing of it has changed."""
        command("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", self.data)
        self.policy("match: '*', max-age: 1d, max-delete: 100%, age-by: [mtime, atime]")
        for name in ("used", "unused"):
            self.make(name, 5)
        p = self.begin("run", "p", gate="policy-again:p").meet()
        with open(self.path("used")) as f:
            f.read()
        self.assertIn("1 gone, replaced or changed meanwhile", p.go_on().finish().out)
        self.assertEqual(self.daemon.client().wait(1), "done")
        self.assertEqual(self.left(), {"used"})

    def test_run_fails_without_access_times(self):
        command("mount", "-t", "tmpfs", "-o", "noatime,mode=0755", "tmpfs", self.data)
        self.policy("match: '*', max-age: 1d, max-delete: 100%, age-by: [mtime, atime]")
        self.make("f", 5)
        self.assertIn("nothing was deleted, as age-by goes by that", self.ctl("run", "p", status=1).err)
        self.assertEqual(self.left(), {"f"})
        (listed,) = json.loads(self.ctl("list", "--json").out)
        self.assertIn("access times (atime) are not kept", listed["last"]["why"][0])

    def test_run_keeps_changed_tree(self):
        self.policy("match: 't*', kind: tree, max-age: 1us, max-delete: 100%")
        for tree in ("t-same", "t-new", "t-old", "t-locked"):
            self.make(tree + "/a/b/c", 5)
        p = self.begin("run", "p", "--json", gate="policy-again:p").meet()
        self.make("t-new/a/b/d", 0)
        # Nothing about its times says so but when they were set.
        self.make("t-old/a/b/c", 5, "other")
        os.chmod(self.path("t-locked/a/b"), 0o700)
        fd = os.open(self.path("t-locked/a/b"), os.O_RDONLY)
        self.addCleanup(os.close, fd)
        fcntl.flock(fd, fcntl.LOCK_EX)
        o = p.go_on().finish().json
        self.assertEqual((o["entries"], o["missing"]), (1, 3))
        self.assertEqual(self.left(), {"t-new/a/b/c", "t-new/a/b/d", "t-old/a/b/c", "t-locked/a/b/c"})

    def test_run_fails_when_all_has_changed(self):
        self.policy("match: '*', max-age: 1d, max-delete: 100%")
        self.make("f", 5)
        p = self.begin("run", "p", gate="policy-again:p").meet()
        write(self.path("f"), "anew")
        self.assertEqual(p.go_on().finish().out, "p: nothing to delete\n")
        self.assertEqual(self.left(), {"f"})

    def test_run_rejects_more_than_max_delete(self):
        self.policy("match: '*', max-age: 1d")
        for i in range(10):
            self.make("f%d" % i, 5 if i < 3 else 0, "x" * 8192)
        before = fingerprint(self.data)
        r = self.ctl("run", "p", status=1)
        self.assertRegex(r.err, r"p: Would delete 3 of 10 entries \(30 %\), more than max-delete \(20 %\): a scheduled run "
                                r"deletes nothing\..*--force p\n$")
        self.assertEqual(fingerprint(self.data), before)
        self.assertEqual(self.run_policy("--force")["entries"], 3)
        self.assertEqual(len(self.left()), 7)

    def test_run_rejects_too_many_empty_files(self):
        """A wrong clock is no better where nothing takes any space."""
        self.policy("match: '*', max-age: 1d")
        for i in range(10):
            self.make("f%d" % i, 5 if i < 3 else 0, "")
        self.assertIn("Would delete 3 of 10 entries (30 %)", self.ctl("run", "p", status=1).err)
        self.assertEqual(len(self.left()), 10)
        os.unlink(self.path("f0"))
        self.make("g")
        os.unlink(self.path("f1"))
        self.make("h", 0, "")
        # Now it is one of ten, but of one that has bytes none.
        self.assertEqual(self.run_policy()["entries"], 1)

    def clock_set(self, days):
        """Makes the clock look as if it had been set by so many days since the last run."""
        record = os.path.join(self.daemon.state, "policy-clock")
        with open(record) as f:
            boot, boottime, realtime = f.read().split()
        write(record, "%-36s %20s %20d\n" % (boot, boottime, int(realtime) - days * DAY * 1000000))

    @unittest.skipIf(ntp_confirms(), "NTP confirms the time of this machine")
    def test_run_rejects_clock_change(self):
        self.policy("match: '*', max-age: 1d, max-delete: 100%")
        self.make("f", 5)
        self.run_policy()
        for days, word in ((3, "ahead of"), (-3, "behind")):
            self.clock_set(days)
            self.make("g", 5)
            for args in ((), ("--force",)):
                r = self.ctl("run", "p", *args, status=1)
                self.assertIn(word + " where it should be", r.err)
                self.assertIn("p: the clock was set: nothing was deleted", r.err)
            self.assertEqual(self.left(), {"g"})
            self.run_policy("--clock-is-right")
            self.assertEqual(self.left(), set())
            self.assertIsNone(self.run_policy()["job"])
        write(os.path.join(self.daemon.state, "policy-clock"), "nonsense")
        self.make("g", 5)
        self.assertIn("cannot be read", self.ctl("run", "p", status=1).err)
        self.assertEqual(self.left(), {"g"})
        os.chmod(self.daemon.state, 0o777)
        self.assertIn("writable", self.ctl("run", "p", "--clock-is-right", status=1).err)
        os.chmod(self.daemon.state, 0o700)
        self.assertEqual(self.left(), {"g"})

    @unittest.skipIf(ntp_confirms(), "NTP confirms the time of this machine")
    def test_limits_go_on_after_clock_change(self):
        """They need only the order of the entries; nothing goes by age, and what may be young stays."""
        self.policy("match: '*', max-age: 1d, max-files: 2, min-age: 1h, max-delete: 100%")
        self.run_policy()
        for i in range(4):
            self.make("f%d" % i, 9 - i)
        # By the earlier of both times, this is young.
        self.make("g", 2)
        self.clock_set(3)
        r = self.ctl("run", "p", status=3)
        self.assertIn("keep and max-age delete nothing", r.err)
        self.assertEqual(self.left(), {"f3", "g"})
        # What was not trusted is not compared with.
        self.clock_set(-6)
        self.make("h", 1)
        self.ctl("run", "p", status=3)
        self.assertEqual(self.left(), {"g", "h"})
        self.run_policy("--clock-is-right")
        self.assertEqual(self.left(), set())

    def test_space_that_is_on_its_way(self):
        """What a job holds is not free yet: nothing more is deleted in its place."""
        self.policy("match: '*', min-free: 100%, max-files: 3, max-delete: 100%")
        for i in range(3):
            self.make("f%d" % i, 5, "x" * 8192)
        self.daemon.client().call("PauseAll", "")
        self.assertEqual(self.run_policy()["entries"], 3)
        self.make("g", 5, "x" * 8192)
        self.assertIn("job 1 of policy:p has not ended", self.ctl("run", "p", status=1).err)
        self.assertEqual(self.left(), {"g"})
        self.daemon.client().call("ResumeAll", "")
        self.assertEqual(self.daemon.client().wait(1), "done")
        self.assertEqual(self.run_policy()["job"], 2)

    def test_space_that_another_policy_makes(self):
        os.mkdir(self.path("b"))
        self.daemon.configure("policies:\n"
                              "  a: {path: %s, match: 'f*', max-age: 1d, max-delete: 100%%}\n"
                              "  b: {path: %s/b, match: '*', min-free: 100%%, max-delete: 100%%}\n"
                              "  c: {path: %s/b, match: '*', max-age: 1d, max-delete: 100%%}\n"
                              % (self.data, self.data, self.data))
        for name in ("f", "b/f"):
            self.make(name, 5, "x" * 8192)
        c = self.daemon.client()
        c.call("PauseAll", "")
        self.ctl("run", "a")
        self.assertIn("job 1 of policy:a has not ended", self.ctl("run", "b", status=1).err)
        self.assertEqual(self.left(), {"b/f"})
        # What is held up frees nothing soon, and what is old goes all the same.
        c.call("Pause", "at", [1])
        self.assertIn("min-free is not reached", self.ctl("run", "b", status=3).err)
        self.assertEqual(self.left(), set())
        self.make("b/f", 5, "x" * 8192)
        self.ctl("run", "c")
        self.assertEqual(self.left(), set())


class Refused(Case):
    """What cannot be deleted is said by name, and the rest goes."""

    def flag(self, *names):
        path = self.path(*names)
        set_flag(path, FS_IMMUTABLE_FL)
        self.addCleanup(lambda: os.path.exists(path) and set_flag(path, FS_IMMUTABLE_FL, on=False))
        return path

    def test_immutable_file_stops_nothing_else(self):
        self.policy("match: '**', max-age: 1d, max-delete: 100%")
        for name in ("a", "b", "c", "d/e"):
            self.make(name, 5)
        path = self.flag("b")
        for status, entries, left in ((3, 3, {"b"}), (1, 0, {"b"})):
            r = self.ctl("run", "p", "--json", status=status)
            self.assertEqual((r.json["entries"], r.json["refused"]["entries"]), (entries, 1), r)
            self.assertEqual(r.err.splitlines()[1:], ["reclaimctl: %s: not deleted: is immutable or "
                                                      "append-only: see lsattr(1)" % path])
            self.assertEqual(self.left(), left)
        self.assertEqual(self.daemon.client().wait(1), "done")
        (o,) = json.loads(self.ctl("list", "--json").out)
        self.assertEqual((o["last"]["result"], o["last"]["job"], o["last"]["refused"]["entries"]),
                         ("failed", None, 1))
        self.assertEqual(o["last"]["why"], [path + ": not deleted: is immutable or append-only: see lsattr(1)"])
        self.assertEqual((o["deleted"]["entries"], o["success_usec"]), (3, None))
        self.assertIn("\n  %s: not deleted: is immutable" % path, self.ctl("list").out)
        set_flag(path, FS_IMMUTABLE_FL, on=False)
        self.ctl("run", "p", "--wait")
        (o,) = json.loads(self.ctl("list", "--json").out)
        self.assertEqual((o["last"]["result"], o["deleted"]["entries"]), ("done", 4))
        self.assertGreater(o["success_usec"], o["last"]["time_usec"])

    def test_many_are_not_all_named(self):
        self.policy("match: '*', max-age: 1d, max-delete: 100%")
        for i in range(15):
            self.make("f%02d" % i, 5)
            self.flag("f%02d" % i)
        r = self.ctl("run", "p", status=1)
        said = self.elsewhere("status").out
        self.assertIn(": not deleted: is immutable or append-only: see lsattr(1); and ", said)
        self.assertIn(" more: reclaimctl policy list\n", said)
        self.assertEqual(r.err.count("not deleted: is immutable"), 10)
        self.assertIn("p: 5 entries more cannot be deleted: see reclaimctl policy plan p", r.err)

    def test_immutable_since_it_was_planned_for(self):
        self.policy("match: '*', max-age: 1d, max-delete: 100%")
        for name in "abc":
            self.make(name, 5)
        p = self.begin("run", "p", "--json", gate="policy:p").meet()
        self.flag("b")
        r = p.go_on().finish()
        self.assertEqual((r.status, r.json["entries"], r.json["missing"]), (0, 2, 1), r)
        self.assertEqual(self.left(), {"b"})

    def test_limits_take_the_next_one(self):
        self.policy("match: '*', max-files: 3, max-delete: 100%")
        for i in range(5):
            self.make("f%d" % i, 5 - i)
        self.flag("f0")
        self.assertEqual(json.loads(self.ctl("run", "p", "--json", status=3).out)["entries"], 2)
        self.assertEqual(self.left(), {"f0", "f3", "f4"})

    def test_watched_policy_goes_on_past_it(self):
        """The others go, and the run fails."""
        for i, name in enumerate("abcdef"):
            self.make(name, 9 - i, "x" * fixture.MIB)
        self.flag("a")
        self.policy("match: '*', max-size: 2M, max-delete: 100%")
        self.daemon.process.send_signal(signal.SIGHUP)
        self.until(lambda: self.left() == {"a", "f"})
        self.daemon.wait_said("Policy p could not run, or not do all it was to do")


class Short(Case):
    """A limit that is not reached is no success."""

    def setUp(self):
        super().setUp()
        command("mount", "-t", "tmpfs", "-o", "mode=0755,size=20M", "tmpfs", self.data)

    def short(self, keys, why, status=3):
        self.policy(keys)
        self.assertIn(why, self.ctl("run", "p", status=status).err)
        (o,) = json.loads(self.ctl("list", "--json").out)
        self.assertEqual(o["last"]["result"], "partial")
        self.assertIn(why, o["last"]["why"][0])
        self.assertIn("\n  " + why, self.ctl("list").out)
        (o,) = json.loads(self.ctl("plan", "p", "--json").out)
        self.assertIn(why, o["notes"][0])
        self.assertIn("\n" + why, self.ctl("plan", "p").out)

    def test_why_a_limit_is_not_reached(self):
        self.make("f", 0, "x" * 9 * fixture.MIB)
        self.make("g", 3, "x" * 9 * fixture.MIB)
        free = "min-free is not reached: 10 % free, 95 % wanted: "
        self.short("match: '*', min-free: 95%, min-age: 30d", free + "2 entries are younger than min-age")
        self.short("match: '*', min-free: 95%, keep: {last: 2}", free + "2 entries are kept by keep")
        self.short("match: '*', min-free: 95%, min-count: 2", free + "2 entries are kept by min-count")
        self.short("match: 'no*', min-free: 95%", free + "nothing matches")
        self.short("match: '*', exclude: g, min-free: 95%, min-age: 1d", free + "1 entry is younger than min-age")
        self.short("match: '*', time: 'name:%Y-%m-%d', min-free: 95%", free + "2 entries are without a time")
        self.short("match: '*', group-by: '(x)', min-free: 95%", free + "2 entries are outside every series")
        self.short("match: '*', max-size: 10M, min-age: 30d",
                   "max-size is exceeded: 18.0 MiB, 10.0 MiB allowed: 2 entries are younger than min-age")
        self.short("match: '*', max-files: 1, min-age: 30d", "max-files is exceeded: 2 entries, 1 allowed: ")
        self.short("match: '*', max-size-per-series: 10M, min-age: 30d",
                   "max-size-per-series is exceeded: 18.0 MiB, 10.0 MiB allowed: ")
        with open(self.path("f"), "rb"):
            self.make("h", -3650)
            self.short("match: '*', min-free: 95%, min-age: 2d, max-delete: 100%",
                       "min-free is not reached: 55 % free, 95 % wanted: 1 entry is open, 1 is dated in the future")
        self.assertEqual(self.daemon.client().wait(1), "done")
        # As far as it goes, although that is not enough.
        self.assertEqual(self.left(), {"f", "h"})

    def test_linked_elsewhere(self):
        """What has other names frees nothing, so it stays."""
        self.make("f", 5, "x" * 9 * fixture.MIB)
        os.link(self.path("f"), self.path("other"))
        self.short("match: 'f*', min-free: 95%, max-delete: 100%",
                   "min-free is not reached: 55 % free, 95 % wanted: 1 entry is of no use, as deleting them frees nothing")
        self.assertEqual(self.left(), {"f", "other"})
        self.policy("match: '*', min-free: 95%, max-delete: 100%")
        self.ctl("run", "p", "--wait")
        self.assertEqual(self.left(), set())

    def test_first_run_is_foretold(self):
        """A new policy of keep exceeds max-delete: that is said before its first run, with the command."""
        for i in range(10):
            self.make("f%d" % i, i)
        self.policy("match: '*', keep: {last: 2}, schedule: daily")
        told = ("Would delete 8 of 10 entries (80 %), more than max-delete (20 %): a scheduled run deletes nothing. If that is "
                "right: reclaimctl policy run --force p")
        self.assertIn("\n  first run: " + told + "\n", self.ctl("list").out)
        self.assertTrue(self.ctl("plan", "p").out.replace("\n", " ").endswith(told + " "))
        self.assertIn("p: its first run: " + told, self.elsewhere("check-config", os.path.join(self.daemon.dir, "conf")).err)
        self.ctl("run", "p", "--force", "--wait")
        self.assertNotIn("first run", self.ctl("list").out)


class Gains(Case):
    """A btrfs snapshot holds all data: deleting frees nothing."""

    def setUp(self):
        super().setUp()
        image = os.path.join(self.daemon.dir, "img")
        with open(image, "wb") as f:
            f.truncate(1 << 30)
        if not shutil.which("mkfs.btrfs"):
            self.skipTest("mkfs.btrfs is not installed")
        command("mkfs.btrfs", "-q", image)
        # It frees space with each commit.
        command("mount", "-o", "loop,commit=1", image, self.data)
        os.chmod(self.data, 0o755)

    def test_watched_policy_stops_if_nothing_is_gained(self):
        command("btrfs", "-q", "subvolume", "create", self.path("v"))
        for i in range(40):
            self.make("v/f%02d" % i, 99 - i, os.urandom(15 * fixture.MIB))
        command("btrfs", "-q", "subvolume", "snapshot", "-r", self.path("v"), self.path("snap"))
        self.daemon.configure("policies: {p: {path: %s/v, match: 'f*', max-delete: 15%%, min-free: {below: 70%%, until: 80%%}}}\n"
                              % self.data)
        self.daemon.process.send_signal(signal.SIGHUP)

        def why():
            (o,) = json.loads(self.ctl("list", "--json").out)
            return "\n".join(o["last"]["why"]) if o["last"] else ""

        self.until(lambda: "no space was gained: df shows 0 B more, and 90.0 MiB were expected. A snapshot" in why())
        self.assertEqual(len(os.listdir(self.path("v"))), 34)
        # In the next period once more, and then no more.
        path = os.path.join(self.daemon.state, "policy-result-p")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        write(path, re.sub(r"(?m)^period .*$", "period 1", text))
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.wait_said("Policy p stops, as its deletions free no space")
        (o,) = json.loads(self.ctl("list", "--json").out)
        self.assertEqual((o["last"]["result"], o["last"]["gained_bytes"]), ("failed", 0))
        self.assertIn("the policy stops until", why())
        self.assertGreaterEqual(len(os.listdir(self.path("v"))), 28)
        # A person may go on; once the snapshot is gone, there is a gain.
        command("btrfs", "-q", "subvolume", "delete", self.path("snap"))
        self.ctl("run", "p", "--force", "--wait")
        (o,) = json.loads(self.ctl("list", "--json").out)
        self.assertEqual(o["last"]["result"], "done")
        self.assertGreater(o["last"]["gained_bytes"], 0)

    def test_subvolumes_are_waited_for(self):
        """The space of a deleted subvolume comes later: the next run goes by what is free then."""
        for i in range(6):
            command("btrfs", "-q", "subvolume", "create", self.path("t%d" % i))
            self.make("t%d/f" % i, 9 - i, os.urandom(100 * fixture.MIB))
            os.utime(self.path("t%d" % i), (i, i))
        os.sync()
        free = self.free()
        self.policy("match: 't*', kind: tree, max-delete: 100%%, min-free: %dB" % (free + 50 * fixture.MIB))
        self.ctl("run", "p", "--wait")
        for _ in range(2):
            self.ctl("run", "p", "--wait")
        self.assertEqual(len(self.left()), 5)


class Waits(Case):
    """run --wait, as the unit has it: it ends as its job does."""

    def test_wait(self):
        self.daemon.configure("policies:\n  p: {path: %s, match: 'p*', max-age: 1d, max-delete: 100%%}\n"
                              "  q: {path: %s, match: 'q*', max-age: 1d, max-delete: 100%%}\n"
                              % (self.data, self.data))
        for name in ("p0", "p1", "q0"):
            self.make(name, 5)
        c = self.daemon.client()
        c.call("PauseAll", "")
        p = self.begin("run", "p", "--wait")
        self.daemon.wait_said("Job 1 accepted")
        # The turn of another one comes meanwhile.
        self.assertRegex(self.ctl("run", "q").out, "^Job 2: 1 entry of q")
        last = [o["last"] for o in json.loads(self.ctl("list", "--json").out)]
        self.assertEqual([(o["job"], o["result"], o["entries"]) for o in last],
                         [(1, "queued", 2), (2, "queued", 1)])
        self.assertIsNone(p.popen.poll())
        c.call("ResumeAll", "")
        r = p.finish()
        self.assertEqual(r.status, 0, r)
        self.assertRegex(r.out, "^Job 1: 2 entries of p, .*\nJob 1 done: 2 entries")
        self.assertEqual(c.wait(2), "done")
        self.assertEqual([o["last"]["result"] for o in json.loads(self.ctl("list", "--json").out)],
                         ["done", "done"])

    def test_partial(self):
        """What the job cannot delete is named, by the run and afterwards, also without a daemon."""
        self.policy("match: '*', max-age: 1d, max-delete: 100%")
        for name in ("a", "b"):
            self.make(name, 5)
        c = self.daemon.client()
        c.call("PauseAll", "")
        p = self.begin("run", "p", "--wait")
        self.daemon.wait_said("Job 1 accepted")
        def files():
            return [os.path.join(d, f) for top in (self.data, os.path.join(self.root, ".reclaim"))
                    for d, _, names in os.walk(top) for f in names]

        # Of the two that are in staging.
        set_flag(files()[0], FS_IMMUTABLE_FL)
        c.call("ResumeAll", "")
        r = p.finish()
        for path in files():
            set_flag(path, FS_IMMUTABLE_FL, on=False)
        self.assertEqual(r.status, 3, r)
        self.assertRegex(r.err, r"/[ab]: not deleted: .*Operation not permitted")
        self.daemon.stop()
        (o,) = json.loads(self.ctl("list", "--json").out)
        self.assertEqual((o["last"]["result"], o["success_usec"], o["deleted"]["entries"]),
                         ("partial", None, 1))
        self.assertIn("Operation not permitted", o["last"]["why"][0])

    def test_what_can_be_undone_is_not_waited_for(self):
        self.policy("match: '*', max-age: 1d, max-delete: 100%, undo: 1h")
        self.make("f", 5)
        self.assertEqual(self.ctl("run", "p", "--wait").out.count("\n"), 1)
        (o,) = json.loads(self.ctl("list", "--json").out)
        self.assertEqual((o["last"]["result"], o["success_usec"]), ("held", None))

    def test_the_daemon_is_restarted(self):
        self.policy("match: '*', max-age: 1d, max-delete: 100%")
        self.make("f", 5)
        self.daemon.client().call("PauseAll", "")
        p = self.begin("run", "p", "--wait")
        self.daemon.wait_said("Job 1 accepted")
        self.daemon.stop()
        self.daemon.start()
        self.daemon.client().call("ResumeAll", "")
        r = p.finish()
        self.assertEqual(r.status, 0, r)
        self.assertIn("Job 1 done", r.out)


class Results(Case):
    """What became of the last run is known afterwards: to policy list, status, and metrics."""

    def listed(self):
        (o,) = json.loads(self.ctl("list", "--json").out)
        return o

    def test_never(self):
        self.policy("match: '*', min-free: 1K")
        o = self.listed()
        self.assertEqual((o["last"], o["success_usec"], o["next_usec"], o["watched"]),
                         (None, None, None, True))
        self.assertIn("p: no run yet, next: watched", self.elsewhere("status").out)
        m = openmetrics.parse(self.elsewhere("metrics").out)
        self.assertEqual(m["reclaimd_policy_last_run_timestamp_seconds"][(("policy", "p"),)], 0)

    def test_other_users(self):
        self.policy("match: '*', min-free: 1K")
        self.ctl("run", "p")
        for name in ("", "conf"):
            os.chmod(os.path.join(self.daemon.dir, name), 0o755)
        self.assertEqual(self.listed()["last"]["result"], "done")
        (o,) = json.loads(self.ctl("list", "--json", user=USER).out)
        self.assertEqual((o["last"], o["error"]), (None, "Permission denied"))

    def test_done(self):
        self.policy("match: '*', max-age: 1d, max-delete: 100%")
        before = time.time()
        for name in ("f", "g"):
            self.make(name, 5, "x" * 8192)
        self.make("new", 0.5)
        self.ctl("run", "p", "--wait")
        o = self.listed()
        self.assertEqual((o["last"]["result"], o["last"]["entries"], o["last"]["bytes"]), ("done", 2, 16384))
        self.assertEqual(o["deleted"], {"entries": 2, "bytes": 16384})
        self.assertGreaterEqual(o["success_usec"], o["last"]["time_usec"])
        self.assertRegex(self.elsewhere("status").out, "Policies: p: done (now|[0-9]+s ago), next: by hand\n")
        (s,) = json.loads(self.elsewhere("status", "--json").out)["policies"]
        self.assertEqual(s, o)
        m = openmetrics.parse(self.elsewhere("metrics").out)
        value = {n[len("reclaimd_policy_"):]: v[(("policy", "p"),)] for n, v in m.items()
                 if n.startswith("reclaimd_policy_") and n != "reclaimd_policy_shortage"}
        self.assertEqual([value[n] for n in ("deleted_entries_total", "freed_bytes_total", "failed",
                                             "refused_entries", "excess_entries")], [2, 16384, 0, 0, 0])
        self.assertGreaterEqual(value["last_success_timestamp_seconds"], before - 1)
        self.assertAlmostEqual(value["oldest_kept_timestamp_seconds"], before - DAY / 2, delta=60)
        # They go on from there; what had not ended when it was looked at last is counted, too.
        for i in range(2):
            self.make("h%d" % i, 5, "x" * 8192)
            self.ctl("run", "p")
            self.assertEqual(self.daemon.client().wait(2 + i), "done")
        self.assertEqual(self.listed()["deleted"], {"entries": 4, "bytes": 32768})

    def test_failed(self):
        self.policy("match: '*', max-age: 1d")
        self.make("f", 5)
        self.ctl("run", "p", status=1)
        o = self.listed()
        self.assertEqual((o["last"]["result"], o["last"]["excess"]["entries"]), ("failed", 1))
        self.assertIn("more than max-delete (20 %)", o["last"]["why"][0])
        self.assertRegex(self.elsewhere("status").out, "Policies: p: failed .*; Would delete 1 of 1 entries")
        m = openmetrics.parse(self.elsewhere("metrics").out)
        for name in ("failed", "excess_entries"):
            self.assertEqual(m["reclaimd_policy_" + name][(("policy", "p"),)], 1)
        os.rename(self.data, self.data + "-old")
        self.ctl("run", "p", status=1)
        os.rename(self.data + "-old", self.data)
        self.assertIn("No such file", self.listed()["last"]["why"][0])

    def test_configuration_with_an_error(self):
        """The daemon has not been told of it: the policies are those that are in force, and one that has failed
        stays failed."""
        self.policy("match: '*', max-age: 1d")
        self.daemon.client().call("Reload")
        self.make("f", 5)
        self.ctl("run", "p", status=1)
        before = self.listed()
        self.daemon.configure("policis: {}\n")
        s = json.loads(self.elsewhere("status", "--json").out)
        self.assertIn("has errors", s["configuration_error"])
        self.assertEqual(s["policies"], [dict(before, rules=None, paths=None, path_exists=None)])
        self.assertRegex(self.elsewhere("status").out, "Policies: p: failed .*, next: by hand; Would delete 1 of 1 entries")
        m = openmetrics.parse(self.elsewhere("metrics").out)
        self.assertEqual(m["reclaimd_configuration_error"][()], 1)
        self.assertEqual(m["reclaimd_policy_failed"][(("policy", "p"),)], 1)

    def test_records_that_are_none(self):
        self.policy("match: '*', max-age: 1d, max-delete: 100%")
        self.ctl("run", "p")
        path = os.path.join(self.daemon.state, "policy-result-p")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        for text in ("", "nonsense", "reclaimd-policy-result 1\nbegan x\n"):
            write(path, text)
            self.assertIsNone(self.listed()["last"])
            self.ctl("run", "p")
            self.assertEqual(self.listed()["last"]["result"], "done")
        self.assertEqual([n for n in os.listdir(self.daemon.state) if n.startswith("policy-result")],
                         ["policy-result-p"])


class Watermarks(Case):
    """Without a command: the daemon watches."""

    SIZE = 64 * fixture.MIB

    def setUp(self):
        super().setUp()
        command("mount", "-t", "tmpfs", "-o", "mode=0755,size=%d" % self.SIZE, "tmpfs", self.data)
        self.count = 0

    def fill(self, below, prefix="f"):
        """Writes files, each older than the next, until less than so much is free."""
        while self.free() >= below * self.SIZE:
            self.make("%s%04d" % (prefix, self.count), 1 - self.count / 10000, "x" * fixture.MIB)
            self.count += 1

    def watch(self, keys):
        self.policy(keys)
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.wait_said("was read again")

    def wait_measured(self, job):
        """A run compares what is free before and after its job, so nothing may be written until it ends."""
        self.until(lambda: [p for p in json.loads(self.ctl("list", "--json").out)
                            if p["last"] and p["last"]["job"] == job and p["last"]["gained_bytes"]])

    def test_min_free_deletes_up_to_mark(self):
        keep = self.make("keep", 100, "x" * fixture.MIB)
        self.watch("match: 'f*', min-free: {below: 30%, until: 50%}, max-delete: 100%")
        c = self.daemon.client()
        for round in range(3):
            self.fill(0.3)
            job = c.signal("JobFinished").body
            self.assertEqual((job[0], job[2]), (round + 1, "done"))
            self.assertEqual(c.job(job[0])["origin"], "policy:p")
            # No more than it takes, the oldest first.
            self.assertGreaterEqual(self.free(), 0.5 * self.SIZE)
            self.assertLess(self.free(), 0.5 * self.SIZE + 2 * fixture.MIB)
            left = sorted(self.left() - {"keep"})
            self.assertEqual(left, ["f%04d" % i for i in range(self.count - len(left), self.count)])
            self.wait_measured(round + 1)
        self.assertTrue(os.path.exists(keep))

    def test_min_free_inodes_deletes_up_to_mark(self):
        """Empty files, which free no space."""
        command("mount", "-o", "remount,nr_inodes=400", self.data)

        def free():
            return os.statvfs(self.data).f_favail

        keep = self.make("keep", 100, "")
        self.watch("match: 'f*', min-free-inodes: {below: 100, until: 200}, max-delete: 100%")
        c = self.daemon.client()
        for _ in range(2):
            # The staging directory of a job has some for a moment.
            while free() >= 90:
                self.make("f%04d" % self.count, 1 - self.count / 10000, "")
                self.count += 1
            self.until(lambda: free() >= 190 and not c.jobs())
            self.assertLessEqual(free(), 201)
            left = sorted(self.left() - {"keep"})
            self.assertEqual(left, ["f%04d" % i for i in range(self.count - len(left), self.count)])
        self.assertEqual({j["state"] for j in c.jobs(finished=True)}, {"done"})
        self.assertTrue(os.path.exists(keep))
        self.daemon.wait_said("has fewer free inodes than min-free-inodes: it runs")

    def test_min_free_inodes_goes_up_to_max_delete(self):
        """Empty files free no bytes: their number counts."""
        command("mount", "-o", "remount,nr_inodes=400", self.data)
        while os.statvfs(self.data).f_favail >= 40:
            self.make("f%04d" % self.count, 1 - self.count / 10000, "")
            self.count += 1
        self.watch("match: 'f*', min-free-inodes: 320")
        for period in range(2):
            self.until(lambda period=period: len(self.listed_jobs()) == period + 1)
            self.assertEqual(self.daemon.client().wait(period + 1), "done")
            self.until(lambda: "kept by max-delete" in self.why())
            self.assertGreaterEqual(len(self.left()), self.count * 0.8 ** (period + 1) - 1)
            self.next_period()

    def test_inodes_without_limit_are_not_watched(self):
        command("mount", "-t", "tmpfs", "-o", "nr_inodes=0,mode=0755", "tmpfs", self.data)
        self.make("f", 5)
        self.watch("match: 'f*', min-free-inodes: 100%, max-delete: 100%")
        self.daemon.wait_said("Policy p: its filesystem has no limit of inodes, so min-free-inodes is not watched")
        r = self.ctl("run", "p")
        self.assertIn("without a limit of inodes: min-free-inodes does nothing there; ignoring", r.err)
        self.assertEqual((r.out, self.left()), ("p: nothing to delete\n", {"f"}))

    def later(self, keys):
        self.daemon.configure("policies:\n"
                              "  p: {path: %s/later, match: '*', min-free: {below: 30%%, until: 50%%},"
                              " max-delete: 100%%}\n  q: {%s}\n" % (self.data, keys))
        self.daemon.process.send_signal(signal.SIGHUP)
        # It cannot run; and both have been looked at.
        self.daemon.wait_said("Policy q could not run")

    def test_min_free_sees_new_directory(self):
        """Who makes it and fills it is not waited for until the minute is over that a look may be away."""
        self.later("path: %s/none, match: x, max-size: 1K" % self.data)
        c = self.daemon.client()
        began = time.monotonic()
        self.fill(0.3, "later/")
        self.assertEqual(c.signal("JobFinished").body[2], "done")
        self.assertLess(time.monotonic() - began, 30)

    def test_min_free_ignores_missing_directory(self):
        """There is nothing to delete in it, however short of space its filesystem is."""
        os.mkdir(os.path.join(self.root, "real"))
        write(os.path.join(self.root, "real/file"), "x" * 8192)
        os.symlink("real", os.path.join(self.root, "link"))
        self.later("path: %s/link, match: x, min-free: 100%%" % self.root)
        self.fill(0.3)
        self.daemon.wait_said("Policy q could not run", 3)
        self.assertNotIn("Policy p", self.daemon.said())

    def test_min_free_waits_for_all_directories(self):
        """Of several, each has to be there for a run."""
        os.mkdir(os.path.join(self.root, "real"))
        write(os.path.join(self.root, "real/file"), "x" * 8192)
        os.symlink("real", os.path.join(self.root, "link"))
        self.fill(0.3, "there/")
        self.daemon.configure("policies:\n"
                              "  p: {paths: [%s/there, %s/later], match: '*', min-free: {below: 30%%, until: 50%%},"
                              " max-delete: 100%%}\n"
                              "  q: {path: %s/link, match: x, min-free: 100%%}\n" % (self.data, self.data, self.root))
        self.daemon.process.send_signal(signal.SIGHUP)
        # It cannot run; and both have been looked at.
        self.daemon.wait_said("Policy q could not run", 3)
        self.assertNotIn("Policy p", self.daemon.said())
        os.mkdir(self.path("later"))
        self.daemon.wait_said("Job 1 is done")
        self.assertGreaterEqual(self.free(), 0.5 * self.SIZE)

    def test_min_free_of_two_policies_deletes_once(self):
        """Both are short of the same space: once is enough."""
        keys = "min-free: {below: 30%, until: 50%}, max-delete: 100%"
        self.daemon.configure("policies:\n"
                              "  a: {path: %s, match: '*0', %s}\n  b: {path: %s, match: '*1', %s}\n"
                              % (self.data, keys, self.data, keys))
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.wait_said("was read again")
        c = self.daemon.client()
        for round in range(2):
            while self.free() >= 0.3 * self.SIZE:
                for last in "01":
                    self.make("f%04d%s" % (self.count, last), 1, "x" * fixture.MIB)
                self.count += 1
            job = c.signal("JobFinished").body
            self.assertEqual((job[0], job[2]), (round + 1, "done"))
            self.assertLess(self.free(), 0.5 * self.SIZE + 2 * fixture.MIB)
            self.wait_measured(round + 1)
        self.assertNotIn("could not run", self.daemon.said())

    def test_min_free_waits_for_space_under_way(self):
        """While space is still to come, nothing more is begun: of the policy's own job however long
        that takes, of another one's while it is about to. What fails is tried again after a second,
        and then after two and four; at each of these moments all of them are looked at."""
        os.mkdir(os.path.join(self.root, "real"))
        write(os.path.join(self.root, "real/file"), "x" * 8192)
        os.symlink("real", os.path.join(self.root, "link"))
        c = self.daemon.client()
        c.call("PauseAll", "")
        self.make("g", 5, "x" * fixture.MIB)
        began = time.monotonic()
        keys = "path: %s, min-free: 60%%, max-delete: 100%%" % self.data
        self.daemon.configure("policies:\n  p: {match: 'f*', %s}\n  r: {match: 'g*', %s}\n"
                              "  q: {path: %s/link, match: x, min-free: 100%%}\n"
                              % (keys, keys, self.root))
        self.daemon.process.send_signal(signal.SIGHUP)
        self.fill(0.3)
        self.daemon.wait_said("Job 1 accepted")
        self.daemon.wait_said("Policy q could not run", 3)
        self.assertEqual(len(c.jobs()), 1)
        c.call("Pause", "at", [1])
        self.daemon.wait_said("Job 2 accepted")
        self.daemon.wait_said("Policy q could not run", 4)
        self.assertGreaterEqual(time.monotonic() - began, 7)
        self.assertEqual(len(c.jobs()), 2)
        for name in "pr":
            self.assertNotIn("Policy %s could not run" % name, self.daemon.said())

    def next_period(self):
        """Lets the period of max-delete end."""
        path = os.path.join(self.daemon.state, "policy-result-p")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        write(path, re.sub(r"(?m)^period .*$", "period 1", text))
        self.daemon.process.send_signal(signal.SIGHUP)

    def periods(self, n, entries):
        """Runs in n periods delete so many entries in each, and no more: all but the last do not meet the limit."""
        c = self.daemon.client()
        for period in range(n):
            self.until(lambda: len(self.listed_jobs()) == period + 1)
            self.assertEqual(c.wait(period + 1), "done")
            self.assertEqual(c.job(period + 1)["done"], entries)
            if period + 1 == n:
                break
            self.until(lambda: "is kept by max-delete" in self.why() or "are kept by max-delete" in self.why())
            # However often it runs in this period.
            self.ctl("run", "p", status=3)
            self.assertEqual(len(self.listed_jobs()), period + 1)
            self.next_period()

    def listed_jobs(self):
        return self.daemon.client().jobs(finished=True)

    def why(self):
        (o,) = json.loads(self.ctl("list", "--json").out)
        return "\n".join(o["last"]["why"]) if o["last"] else ""

    def test_min_free_goes_up_to_max_delete(self):
        """A watched policy begins the next run at once, and deletes no more than that in a period."""
        self.fill(0.2)
        files = self.count
        self.watch("match: '*', min-free: 50%")
        self.until(lambda: "kept by max-delete" in self.why())
        self.daemon.wait_said("could not run, or not do all")
        self.assertGreaterEqual(len(self.left()), files * 0.8)
        self.next_period()
        self.until(lambda: len(self.listed_jobs()) == 2)
        self.assertGreaterEqual(len(self.left()), files * 0.8 * 0.8 - 1)
        # A person may have all of it at once, but not before the job has ended.
        self.daemon.client().wait(2)
        self.ctl("run", "p", "--force", "--wait")
        self.assertGreaterEqual(self.free(), 0.5 * self.SIZE)
        self.assertLess(self.free(), 0.5 * self.SIZE + 2 * fixture.MIB)
        left = sorted(self.left())
        self.assertEqual(left, ["f%04d" % i for i in range(self.count - len(left), self.count)])

    def test_min_free_of_few_large_trees(self):
        """Each of them is more than max-delete: then one goes in each period."""
        for i in range(4):
            self.make("t%d/f" % i, 5 - i, "x" * 12 * fixture.MIB)
            os.utime(self.path("t%d" % i), (1, 1))
        self.watch("match: '*', kind: tree, min-free: 55%")
        self.periods(2, 2)
        self.assertEqual(self.left(), {"t2/f", "t3/f"})

    def test_max_size_goes_up_to_max_delete(self):
        for i in range(5):
            self.make("f%d" % i, 5 - i, "x" * fixture.MIB)
        self.watch("match: '*', max-size: 2M")
        self.periods(3, 1)
        self.assertEqual(self.left(), {"f3", "f4"})

    def test_entries_that_can_never_go_take_no_others_with_them(self):
        """They exceed the limit by themselves."""
        for i in range(6):
            self.make("later%d" % i, -3650, "x" * fixture.MIB)
        for i in range(3):
            self.make("f%d" % i, i, "x" * fixture.MIB)
        self.watch("match: '*', max-size: 5M, max-delete: 100%")
        self.until(lambda: "can never be deleted exceed" in self.why())
        self.assertEqual(len(self.left()), 9)
        (o,) = json.loads(self.ctl("list", "--json").out)
        self.assertEqual((o["last"]["result"], o["last"]["unmet"]),
                         ("partial", [{"limit": "max-size", "have": 9 << 20, "wanted": 5 << 20}]))
        m = openmetrics.parse(self.elsewhere("metrics").out)
        self.assertEqual(m["reclaimd_policy_shortage"][(("limit", "max-size"), ("policy", "p"))], 4 << 20)

    def test_max_delete_of_nothing(self):
        self.watch("match: '*', min-free: {below: 30%, until: 50%}, max-delete: 0%")
        self.fill(0.3)
        self.daemon.wait_said("could not run")
        self.assertIn("more than max-delete (0 %)", self.daemon.said())
        self.assertEqual(len(self.left()), self.count)

    def test_max_size(self):
        for i in range(5):
            self.make("f%d" % i, 5 - i, "x" * fixture.MIB)
        self.watch("match: '*', max-size: 3M, max-delete: 100%")
        self.daemon.wait_said("Job 1 is done")
        self.assertEqual(self.left(), {"f2", "f3", "f4"})

    def test_max_size_sees_what_is_written(self):
        """A hundredth of it is enough; the quarter of an hour is not waited for."""
        self.watch("match: '*', max-size: 8M, max-delete: 100%")
        self.until(lambda: os.path.exists(os.path.join(self.daemon.state, "policy-result-p")))
        for i in range(20):
            self.make("f%02d" % i, 1 - i / 100, "x" * fixture.MIB)
        self.until(lambda: self.left() == {"f%02d" % i for i in range(12, 20)})
        self.assertNotIn("could not run", self.daemon.said())

    def test_max_size_waits_longer_after_failures(self):
        """However much is written meanwhile: at the beginning, and then after 1, 2, 4 and 8 seconds."""
        command("mount", "-o", "remount,size=1G", self.data)
        self.watch("match: '*', max-size: 3M, max-delete: 0%")
        failures = written = 0
        # The first look after a run that had nothing to do may be a minute away.
        since = time.monotonic()
        while failures < 5 and written < 1000:
            self.make("f%04d" % written, 1 - written / 1000, "x" * fixture.MIB)
            written += 1
            time.sleep(0.5)
            before = time.monotonic()
            failures = self.daemon.said().count("Policy p could not run")
            if failures == 0:
                since = before
        self.assertEqual(failures, 5)
        # 15 seconds, but for what a run takes, which a busy machine draws out; without waiting longer each time, 4.
        self.assertGreaterEqual(time.monotonic() - since, 8)
        self.assertEqual(len(self.left()), written)

    def test_min_free_ignores_scheduled_policy(self):
        self.fill(0.3)
        self.daemon.configure("policies:\n"
                              "  a: {path: %s, match: 'f*', min-free: 40%%, schedule: yearly,"
                              " max-delete: 100%%}\n"
                              "  b: {path: %s/none, match: g, max-size: 1K}\n"
                              % (self.data, self.data))
        self.daemon.process.send_signal(signal.SIGHUP)
        # The second one cannot run, which is said when the first one would have been looked at.
        self.daemon.wait_said("Policy b could not run")
        self.assertNotIn("Policy a", self.daemon.said())
        self.assertEqual(len(self.left()), self.count)


class Writer(threading.Thread):
    """Writes one file after the other, `rate` bytes a second of them, until it has written `total`
    or something goes wrong. `seen` has the second and what was free, file by file."""

    def __init__(self, path, rate, total, first=0):
        super().__init__()
        self.path, self.rate, self.total = path, rate, total
        self.seen, self.error, self.count = [], None, first

    def run(self):
        try:
            self.write()
        except OSError as e:
            self.error = e

    def write(self):
        chunk, began, written = os.urandom(fixture.MIB), time.monotonic(), 0
        while written < self.total:
            start = time.monotonic()
            with open(os.path.join(self.path, "f%06d" % self.count), "wb", buffering=0) as f:
                for _ in range(4):
                    f.write(chunk)
                    written += len(chunk)
            self.count += 1
            st = os.statvfs(self.path)
            self.seen.append((int(time.monotonic() - began), st.f_bavail * st.f_frsize))
            # This is its speed; nothing is waited for. What a busy machine has withheld is not caught up with.
            time.sleep(max(0, start + 4 * len(chunk) / self.rate - time.monotonic()))


class Filling(Case):
    """A disk that would be full long before the end, if no room were made."""

    SIZE = (2048 if fixture.FULL else 512) * fixture.MIB
    RATE = (40 if fixture.FULL else 20) * fixture.MIB
    SECONDS = 60 if fixture.FULL else 12

    def setUp(self):
        super().setUp()
        image = os.path.join(self.root, "image")
        with open(image, "wb") as f:
            f.truncate(self.SIZE)
        command("mkfs.ext4", "-q", "-F", image)
        command("mount", "-o", "loop", image, self.data)

    def test_min_free_of_one_mark_keeps_up_with_writer(self):
        """When a run ends, as much has been written meanwhile as it has deleted, or more."""
        before = Writer(self.data, float("inf"), self.SIZE * 3 // 5)
        before.write()
        self.policy("match: 'f*', min-free: 35%, max-delete: 100%")
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.wait_said("was read again")
        w = Writer(self.data, self.RATE * 3 // 2, self.RATE * 3 // 2 * 18, before.count)
        w.start()
        w.join()
        self.assertIsNone(w.error)

    def test_min_free_keeps_up_with_writer(self):
        before = Writer(self.data, float("inf"), self.SIZE // 2)
        before.write()
        self.policy("match: 'f*', min-free: {below: 40%, until: 50%}, max-delete: 100%")
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.wait_said("was read again")
        w = Writer(self.data, self.RATE, self.RATE * self.SECONDS, before.count)
        w.start()
        w.join()
        self.assertIsNone(w.error)
        st = os.statvfs(self.data)
        size = st.f_blocks * st.f_frsize
        first = next(i for i, (_, free) in enumerate(w.seen) if free < 0.4 * size)
        least, most = (f(free for _, free in w.seen[first:]) for f in (min, max))
        print("\nfree of %d MiB since it was less than 40%%: %d to %d; by the second:"
              % (size // fixture.MIB, least // fixture.MIB, most // fixture.MIB),
              *(free // fixture.MIB for free in dict(w.seen).values()))
        # No more went than it took.
        self.assertLess(most, 0.52 * size)
        # As no program writes any more, nothing begins once there is room; what has begun is waited for.
        self.until(lambda: self.free() >= 0.4 * size)
        c = self.daemon.client()
        jobs = c.jobs(finished=True)
        self.assertGreaterEqual(len(jobs), 2)
        self.assertEqual({job["origin"] for job in jobs}, {"policy:p"})
        self.assertEqual({c.wait(job["id"]) for job in jobs}, {"done"})
        # Always the oldest.
        left = sorted(self.left())
        self.assertEqual(left, ["f%06d" % i for i in range(w.count - len(left), w.count)])


class Api(Case):
    def submit(self, data, uid=0, **options):
        """Answers how many were accepted, and missing."""
        c = self.daemon.client(uid)
        fds = [os.open(self.data, os.O_PATH | os.O_DIRECTORY), os.memfd_create("records")]
        try:
            os.write(fds[1], data)
            return c.call("SubmitLists", "a(hh)a{sv}", [(0, 1)],
                          {"records": ("b", True), **options}, fds=fds).body[2:]
        finally:
            for fd in fds:
                os.close(fd)

    def test_origin_is_roots(self):
        os.chmod(self.data, 0o777)
        self.make("f")
        record = bytes(24) + b"f\0"
        for uid, origin, error in ((USER, "policy:p", "NotAuthorized"), (0, "submit", "InvalidArgument"),
                                   (USER, "user-policy:a b", "InvalidArgument"), (USER, "submit", "NotAuthorized"),
                                   (0, "policy:" + "x" * 65, "InvalidArgument")):
            with self.assertRaises(Error) as e:
                self.submit(record, uid, origin=("s", origin))
            self.assertEqual(e.exception.name, error)
        self.assertEqual(self.left(), {"f"})

    def test_records_that_are_none(self):
        canary = Canary(os.path.join(self.root, "outside"))
        os.symlink("../outside", self.path("link"))
        self.make("d/f")
        who = bytes(24)
        for data in (b"f\0", who, who + b"d/f", who + b"\0", who + b"/d/f\0", who + b"d//f\0",
                     who + b"./d/f\0", who + b"d/../d/f\0", who + b"../outside/x\0",
                     who + b"d/..\0", who + b"d/\0", who + b"d/.\0", who + b"n" * 256 + b"\0",
                     who + b"n" * 256 + b"/f\0"):
            with self.assertRaises(Error) as e:
                self.submit(data)
            self.assertEqual(e.exception.name, "InvalidPath", data)
        # No file has an identity of all zeros, and no link is followed.
        for name in (b"d/f", b"link/keep", b"link", b"d/f/g", b"none/f"):
            with self.assertRaises(Error) as e:
                self.submit(who + name + b"\0")
            self.assertEqual(e.exception.name, "NoSuchPath", name)
        with self.assertRaises(Error) as e:
            self.daemon.client().submit(self.path("d/f"), records=True)
        self.assertEqual(self.left(), {"d/f"})
        canary.check()


if __name__ == "__main__":
    fixture.main()
