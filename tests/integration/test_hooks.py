#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hooks: what they are told of their job, and what is said where none can be started. That systemd starts
them is tested in a booted system (tests/system/inside/test_policy.py)."""
import os

import daemon_fixture
import fixture
from fixture import FS_IMMUTABLE_FL, Proc, command, scratch, set_flag, write

HOOKS = "on-success: good@.service, on-failure: bad@.service"


class Hooks:
    """For a case that has a daemon, with a policy and a spool."""

    def configured(self, hooks=HOOKS):
        self.mount_disk()
        # Not below /tmp, where every user may write: it would not be known who submits what is in the spool.
        command("mount", "--bind", self.data, "/mnt")
        self.addCleanup(command, "umount", "-l", "/mnt")
        self.data = "/mnt"
        self.spool = self.path("spool")
        os.mkdir(self.spool)
        self.daemon.configure("policies: {p: {path: %s/base, match: x, max-age: 1d, %s}}\n"
                              "spools: {%s: {settle: 0, %s}}\n" % (self.data, hooks, self.spool, hooks))
        self.client = self.daemon.client()
        self.client.call("Reload")

    def submit(self, name):
        """A job of the policy."""
        fd = os.open(self.data, os.O_PATH | os.O_DIRECTORY)
        try:
            return self.client.call("SubmitFiles", "aha(uay)a{sv}", [0], [(0, name.encode())],
                                    {"origin": ("s", "policy:p")}, fds=[fd]).body[0]
        finally:
            os.close(fd)

    def environment(self, number):
        path = os.path.join(self.daemon.dir, "run", "jobs", "%d.env" % number)
        self.assertEqual(os.stat(path).st_mode & 0o7777, 0o600)
        with open(path, encoding="ascii") as f:
            return dict(line.rstrip("\n").split("=") for line in f)

    def asked(self):
        return [line for line in self.daemon.said().splitlines() if "its hook" in line]


class OnABus(Hooks, daemon_fixture.OnTheBus):
    """There is a bus, and no service manager on it."""

    def setUp(self):
        super().setUp()
        self.configured()

    def test_what_a_hook_is_told(self):
        os.mkdir(self.path("t"))
        write(self.path("t", "f"), "x" * 5000)
        blocks = sum(os.stat(self.path(*names)).st_blocks for names in (["t"], ["t", "f"]))
        number = self.submit("t")
        self.assertEqual(self.client.wait(number), "done")
        self.daemon.wait_said("Job %d: its hook good@%d.service could not be started: " % (number, number))
        self.assertEqual(self.environment(number), {
            "RECLAIMD_JOB": str(number), "RECLAIMD_RESULT": "done", "RECLAIMD_POLICY": "p", "RECLAIMD_UID": "0",
            "RECLAIMD_NAMES": "1", "RECLAIMD_ENTRIES": "2", "RECLAIMD_BYTES": str(blocks * 512), "RECLAIMD_ERRORS": "0",
            "RECLAIMD_SKIPPED": "0"})

    def test_failure(self):
        os.mkdir(self.path("t"))
        write(self.path("t", "f"))
        write(self.path("t", "g"))
        set_flag(self.path("t", "f"), FS_IMMUTABLE_FL, True)
        number = self.submit("t")
        self.assertEqual(self.client.wait(number), "partial")
        self.daemon.wait_said("its hook bad@%d.service could not be started: " % number)
        self.assertEqual(self.environment(number)["RECLAIMD_RESULT"], "partial")
        self.assertEqual(self.environment(number)["RECLAIMD_ERRORS"], "1")
        set_flag(self.path("t", "f"), FS_IMMUTABLE_FL, False)

    def test_a_name_is_told_nothing_of(self):
        """Whatever a user calls an entry of a spool."""
        name = "$(x)\nLD_PRELOAD=a\n\"'\\"
        write(os.path.join(self.spool, name))
        self.daemon.wait_said("its hook good@")
        number = self.client.jobs(finished=True)[-1]["id"]
        told = self.environment(number)
        self.assertEqual((told["RECLAIMD_JOB"], told["RECLAIMD_RESULT"]), (str(number), "done"))
        self.assertNotIn("LD_PRELOAD", told)
        self.assertNotIn("RECLAIMD_POLICY", told)

    def test_jobs_without_one(self):
        """What was taken back, and what is of no policy and no spool."""
        write(self.path("a"))
        write(self.path("b"))
        self.assertEqual(self.client.wait(self.client.submit(self.path("a"))), "done")
        self.client.call("PauseAll")
        number = self.submit("b")
        self.client.call("Cancel", "at", [number])
        self.assertEqual(self.client.wait(number), "cancelled")
        self.client.call("ResumeAll")
        # What is asked for in this order is said in it.
        self.assertEqual(self.client.wait(self.submit("b")), "done")
        self.daemon.wait_said("its hook")
        self.assertEqual(len(self.asked()), 1, self.asked())

    def test_old_files_are_forgotten(self):
        jobs = os.path.join(self.daemon.dir, "run", "jobs")
        os.mkdir(jobs, 0o700)
        for n in range(256):
            path = os.path.join(jobs, "%d.env" % (n + 1000))
            write(path)
            os.utime(path, (n + 1, n + 1))
        # What somebody has made there, long ago, is in the way of nothing.
        os.mkdir(os.path.join(jobs, "directory"))
        os.utime(os.path.join(jobs, "directory"), (0, 0))
        write(self.path("f"))
        number = self.submit("f")
        self.assertEqual(self.client.wait(number), "done")
        self.daemon.wait_said("its hook")
        left = os.listdir(jobs)
        self.assertEqual(len(left), 256 + 1)
        self.assertIn("directory", left)
        self.assertIn("%d.env" % number, left)
        self.assertNotIn("1000.env", left)


class WithoutABus(Hooks, daemon_fixture.Case):
    def test_it_is_said(self):
        self.configured("on-success: good.service")
        write(self.path("f"))
        number = self.submit("f")
        self.assertEqual(self.client.wait(number), "done")
        self.daemon.wait_said("Job %d: its hook good.service could not be started: there is no connection" % number)
        self.assertEqual(len(self.asked()), 1)

    def test_check_config_warns(self):
        path = os.path.join(self.daemon.dir, "hooks.yaml")
        write(path, "spools: {/s: {on-success: reclaimd-nothing@.service}}\n")
        p = Proc([scratch.binary, "check-config", path], self.daemon.dir)
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, 0)
        # As sd_booted(3) finds out.
        why = "systemd has no such unit" if os.path.isdir("/run/systemd/system") else "there is no systemd here that"
        self.assertIn("hooks.yaml:1:27: warning: spools: /s: on-success: reclaimd-nothing@.service: " + why, r.err)


if __name__ == "__main__":
    fixture.main()
