#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Policies of a user: reclaimctl policy --user, by a real reclaimd, with no more than this user's rights."""
import json
import os
import shutil
import time

import daemon_fixture
from daemon_fixture import user
import fixture
from fixture import USER, Canary, Proc, scratch, write

DAY = 86400
GENERATOR = os.environ["RECLAIMD_GENERATOR"]


class Case(daemon_fixture.Case):
    def setUp(self):
        super().setUp()
        self.home = os.path.join(self.root, "home")
        self.file = os.path.join(self.home, ".config/reclaimd/policies.yaml")
        for directory in (self.home, self.path("own")):
            os.mkdir(directory, 0o700)
            os.chown(directory, USER, USER)

    def policy(self, keys, base=None):
        with user():
            os.makedirs(os.path.dirname(self.file), 0o700, exist_ok=True)
            write(self.file, "policies: {p: {path: %s, match: '*', %s}}\n" % (base or self.path("own"), keys))

    def make(self, *names, owner=USER, days=5):
        path = self.path(*names)
        write(path)
        os.chown(path, owner, owner)
        then = time.time() - days * DAY
        os.utime(path, (then, then))

    def ctl(self, *args, status=0, uid=USER, wrapper=()):
        env = {"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket), "HOME": self.home}
        if wrapper:
            env["ASAN_OPTIONS"] = "detect_leaks=0"  # which cannot be looked for in what is traced
        p = Proc([*wrapper, scratch.binary, "policy", *args], self.root, env=env, user=uid)
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, status, r)
        return r

    def jobs(self):
        return self.daemon.client().jobs(finished=True)


class Run(Case):
    def test_plan_and_run(self):
        self.make("own", "old")
        self.make("own", "new", days=0)
        self.policy("max-age: 1d, max-delete: 100%, schedule: daily")
        (planned,) = json.loads(self.ctl("plan", "--user", "--json").out)
        self.assertEqual({e["name"] for e in planned["entries"] if e["fate"] == "delete"}, {"old"})
        self.assertIn("1 entry of p", self.ctl("run", "--user", "--wait", "p").out)
        self.assertEqual(os.listdir(self.path("own")), ["new"])
        (job,) = self.jobs()
        self.assertEqual((job["origin"], job["uid"], job["state"]), ("user-policy:p", USER, "done"))
        (state,) = json.loads(self.ctl("list", "--user", "--json").out)
        self.assertEqual((state["last"]["result"], state["last"]["job"]), ("done", job["id"]))
        self.assertEqual(os.stat(os.path.join(self.home, ".local/state/reclaimd")).st_mode & 0o777, 0o700)
        self.assertIn("nothing to delete", self.ctl("run", "--user", "p").out)

    def test_dry_run_changes_nothing(self):
        self.make("own", "old")
        self.policy("max-age: 1d, max-delete: 100%")
        self.assertIn("Would submit 1 entry of p", self.ctl("run", "--user", "--dry-run", "p").out)
        self.assertFalse(os.path.exists(os.path.join(self.home, ".local")))
        self.assertEqual(os.listdir(self.path("own")), ["old"])

    def test_what_is_of_others_stays(self):
        """Of what rm by this user could not delete, nothing goes, and what it could goes."""
        canary = Canary(os.path.join(self.root, "outside"))
        os.mkdir(self.path("shared"), 0o1777)
        os.chmod(self.path("shared"), 0o1777)
        self.make("shared", "mine")
        self.make("shared", "theirs", owner=0)
        self.policy("max-age: 1d, max-delete: 100%", base=self.path("shared"))
        self.ctl("run", "--user", "--wait", "p")
        self.assertEqual(os.listdir(self.path("shared")), ["theirs"])
        canary.check()

    def test_undo(self):
        self.make("own", "old")
        self.policy("max-age: 1d, max-delete: 100%, undo: 1h")
        self.ctl("run", "--user", "p")
        self.assertEqual(self.jobs()[0]["state"], "held")


class Refused(Case):
    def test_root(self):
        self.make("own", "old")
        self.policy("max-age: 1d, max-delete: 100%")
        self.assertIn("--user is not for root", self.ctl("run", "--user", "p", status=2, uid=0).err)
        self.assertEqual(os.listdir(self.path("own")), ["old"])

    def test_file_of_others(self):
        self.make("own", "old")
        self.policy("max-age: 1d, max-delete: 100%")
        directory = os.path.dirname(self.file)
        for path, owner, mode in ((self.file, 0, 0o644), (self.file, USER, 0o666), (directory, 0, 0o755),
                                  (directory, USER, 0o770)):
            os.chown(path, owner, owner)
            os.chmod(path, mode)
            r = self.ctl("run", "--user", "p", status=1)
            self.assertIn("is not yours, or other users may write to it", r.err)
            os.chown(path, USER, USER)
            os.chmod(path, 0o700)
        self.assertEqual(os.listdir(self.path("own")), ["old"])

    def test_file_is_judged_as_it_is_read(self):
        """Not what is at its path a moment before."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        self.policy("max-age: 1d")
        trace = os.path.join(self.home, "trace")
        self.ctl("list", "--user", wrapper=("strace", "-f", "-qq", "-o", trace, "-e", "trace=%file"))
        with open(trace, encoding="ascii", errors="replace") as f:
            calls = [line.split(" ", 1)[1].split("(")[0].strip() for line in f if "policies.yaml" in line]
        self.assertEqual(calls, ["openat"])

    def test_what_is_of_the_system(self):
        self.policy("max-age: 1d")
        for text, said in (("pacing: {latency: off}\n", "pacing: unknown key"),
                           ("policies: {p: {path: /x, match: a, max-age: 1d, on-success: a.service}}\n",
                            "p has on-success or on-failure, which only the system's policies have")):
            with user():
                write(self.file, text)
            self.assertIn(said, self.ctl("list", "--user", status=1).err)

    def check(self, *args, status=0, uid=USER, home=True):
        env = {"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket), "HOME": self.home if home else ""}
        p = Proc([scratch.binary, "check-config", *args], self.root, env=env, user=uid)
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, status, r)
        return r

    def test_what_never_runs_by_itself_is_told(self):
        """The daemon does not watch the policies of users: one without a schedule runs by hand alone."""
        said = "warning: policies: p: has no schedule, so it never runs by itself, but only by reclaimctl policy run --user p"
        for rules in ("min-free: 10%", "min-free-inodes: 10%", "max-size: 1G"):
            self.policy(rules)
            self.assertIn(said + ": only policies of the system are watched\n", self.check("--user").err, rules)
            self.assertIn(said, self.ctl("list", "--user").err)
            self.assertRegex(self.ctl("list", "--user").out, r"(?m)^p +.*by hand")
        self.policy("max-age: 1d")
        self.assertIn(said + "\n", self.check("--user").err)
        self.policy("max-size: 1G, schedule: daily")
        self.assertNotIn("has no schedule", self.check("--user").err)

    def test_file_is_checked_as_that_of_a_user(self):
        """By check-config --user, at its place or elsewhere; without that option, as the system's."""
        self.policy("max-age: 1d, schedule: daily")
        self.assertEqual(self.check("--user").out, self.file + ": correct\n")
        with user():
            write(self.file, "undo: 1h\nspools: {/srv/spool: {}}\n")
        for args, uid in (((), USER), ((self.file,), USER), ((self.file,), 0)):
            self.assertIn("spools: unknown key: expected one of undo, policies",
                          self.check("--user", *args, status=1, uid=uid).err)
        self.check(self.file)
        self.policy("max-age: 1d, schedule: daily, on-failure: tell@.service")
        self.assertIn("which only the system's policies have", self.check("--user", status=1).err)
        self.check(self.file)
        os.chmod(self.file, 0o666)
        self.assertIn("is not yours, or other users may write to it", self.check("--user", status=1).err)
        os.unlink(self.file)
        self.assertIn("No such file", self.check("--user", self.file, status=1).err)
        self.assertIn("no configuration files", self.check("--user").out)
        self.assertIn("there is no home directory", self.check("--user", status=1, home=False).err)
        self.assertIn("root's policies are those of the system", self.check("--user", status=2, uid=0).err)

    def test_usage(self):
        self.assertIn("does not go with --user", self.ctl("list", "--user", "--configuration-directory=/x", status=2).err)
        self.assertIn("no policies", self.ctl("plan", "--user").out)


class Timers(Case):
    def generate(self, uid=USER, status=0, scope="user"):
        directory = os.path.join(self.home, "units")
        with user():
            shutil.rmtree(directory, ignore_errors=True)
            os.makedirs(directory)
        env = {"HOME": self.home, **({"SYSTEMD_SCOPE": scope} if scope else {})}
        p = Proc([GENERATOR, directory], self.root, env=env, user=uid)
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, status, r)
        return sorted(os.listdir(directory))

    def test_generator(self):
        self.assertEqual(self.generate(), [])
        self.policy("max-age: 1d, schedule: daily")
        self.assertEqual(self.generate(uid=0), [])
        self.assertEqual(self.generate(), ["reclaimd-policy@p.timer", "timers.target.wants"])
        with open(os.path.join(self.home, "units/reclaimd-policy@p.timer"), encoding="ascii") as f:
            self.assertIn("\nOnCalendar=daily\n", f.read())

    def test_manager_that_does_not_tell_its_scope(self):
        """A user gets timers of no policies but the user's own."""
        self.assertEqual(self.generate(scope=None), [])
        self.policy("max-age: 1d, schedule: daily")
        self.assertEqual(self.generate(scope=None), ["reclaimd-policy@p.timer", "timers.target.wants"])


if __name__ == "__main__":
    fixture.main()
