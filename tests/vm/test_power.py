#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The power fails at every moment that makes a difference. An emulated machine has a reclaimd work on
disks whose writes are logged (load.py); then, here, the disks are made as they are if the power fails
after each flush, mounted, and a reclaimd is started that has to find its way.

  RECLAIM_MOMENTS   so many of the moments at most, evenly spread"""
import collections
import contextlib
import glob
import json
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import fixture
import machine
import writelog
from contents import fingerprint
from daemon_fixture import Daemon
from dbuswire import Error
from fixture import MIB, USER, Canary, build, command, scratch

HOUR = 3600 * 1000000
MKFS = {"ext4": ("mkfs.ext4", "-q", "-F", "-N", "4000", "-J", "size=8"), "xfs": ("mkfs.xfs", "-q", "-f"),
        "btrfs": ("mkfs.btrfs", "-q", "-f", "-m", "single")}
FSCK = {"ext4": ("e2fsck", "-f", "-n"), "xfs": ("xfs_repair", "-n"),
        "btrfs": ("btrfs", "check", "--readonly")}
SIZES = {"ext4": 96, "xfs": 320, "btrfs": 160}
LOG_MIB = 4096
KINDS = ("plain", "held", "back", "plain", "cancel")


class Disk:
    """An image; as it was before the machine began, and as it is at the moment that is looked at."""

    def __init__(self, base, name, fs):
        self.fs = fs
        self.at = os.path.join(base, name)
        self.image, self.base, self.now, self.log = (
            "%s.%s" % (self.at, end) for end in ("image", "base", "now", "log"))
        os.mkdir(self.at)
        for path, mib in ((self.image, SIZES[fs]), (self.log, LOG_MIB)):
            with open(path, "wb") as f:
                f.truncate(mib * MIB)
        command(*MKFS[fs], self.image)
        self.mount(self.image)

    def mount(self, image):
        command("mount", "-t", self.fs, "-o", "loop,nodiscard" if self.fs != "btrfs" else "loop", image, self.at)

    def umount(self):
        command("umount", self.at)

    def begin(self):
        self.umount()
        shutil.copyfile(self.image, self.base)

    def check(self):
        command(*FSCK[self.fs], self.now)


class Power(unittest.TestCase):
    """One after the other: the disks, what is on them, the machine, and all the moments.

    What is on record as done is gone, wherever the store is. Putting back is not flushed: where the store's
    flushes do not make it durable too, what was put back may be in staging, and is kept."""

    together = False  # the store's flushes do

    def prepare(self, data_fs, state_fs=None):
        scratch.open()
        base = os.path.join(scratch.dir, self.id().rsplit(".", 1)[-1])
        os.mkdir(base)
        # The first is that which has the store: what it does not say while the other goes on.
        self.disks = [Disk(base, "state", state_fs)] if state_fs else []
        self.disks.append(Disk(base, "data", data_fs))
        self.root = self.disks[-1].at
        self.state = os.path.join(self.disks[0].at, "store")
        os.mkdir(self.state, 0o700)
        os.mkdir(os.path.join(self.root, "data"))
        self.canary = Canary(os.path.join(self.root, "aside"))
        self.victims = []
        for number in range(20):
            self.add_victim(number)
        for disk in self.disks:
            disk.begin()
        self.base = base

    def add_victim(self, number):
        """Trees, files, several names, one large file; of root and of another user."""
        top = os.path.join(self.root, "data", "v%d" % number)
        uid = USER if number % 3 == 2 else 0
        os.mkdir(top)
        paths = [os.path.join(top, n) for n in (("a", "b", "c") if number % 4 == 1 else ("a",))]
        for path in paths:
            if number % 2:
                build(path, "d/e/f\nd/g\nh")
            else:
                with open(path, "wb") as f:
                    f.write(os.urandom(20000))
                    if number == 10:
                        os.posix_fallocate(f.fileno(), 0, 24 * MIB)
        command("chown", "-R", "%d:%d" % (uid, uid), top)
        self.victims.append({"paths": paths, "kind": KINDS[number % len(KINDS)], "uid": uid,
                             "before": [fingerprint(path) for path in paths]})

    def record(self):
        """The machine; what it said."""
        plan = {"disks": [{"at": d.at, "fs": d.fs} for d in self.disks], "state": self.state,
                "victims": [{k: v[k] for k in ("paths", "kind", "uid")} for v in self.victims]}
        path = os.path.join(self.base, "plan")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(plan, f)
        p = machine.run([sys.executable, os.path.join(HERE, "load.py"), path],
                        [file for d in self.disks for file in (d.image, d.log)], timeout=240,
                        stdout=subprocess.PIPE, text=True, errors="replace")
        if p.returncode == machine.SKIPPED:
            self.skipTest("there is no emulated machine")
        self.assertEqual(p.returncode, 0, p.stdout)
        self.events = [json.loads(line) for line in p.stdout.splitlines() if line.startswith("{")]
        self.assertEqual(self.events[-1]["what"], "over", p.stdout)

    def moments(self, logs):
        """Each time with the disks as they are then."""
        all_moments = writelog.moments(logs)
        most = int(os.environ.get("RECLAIM_MOMENTS", len(all_moments)))
        step = max(1, -(-len(all_moments) // most))
        done = [0] * len(logs)
        with contextlib.ExitStack() as stack:
            images = [stack.enter_context(open(d.base, "r+b")) for d in self.disks]
            for state, first, last in all_moments[::step]:
                for i, log in enumerate(logs):
                    log.replay(images[i], done[i], state[i])
                    done[i] = state[i]
                    command("cp", "--sparse=always", self.disks[i].base, self.disks[i].now)
                yield state, first, last

    def fails_at_every_moment(self):
        self.record()
        logs = [writelog.Log(d.log) for d in self.disks]
        for log in logs:
            self.addCleanup(log.close)
        self.outcomes = collections.Counter()
        n = 0
        self.daemon = Daemon(state=self.state, config="pacing: {latency: off}\n")
        for state, first, last in self.moments(logs):
            n += 1
            try:
                self.look(first, last)
            except AssertionError as e:
                raise AssertionError("power lost after %s writes, between marks %d and %d: %s\n%s" % (
                    state, first, last, e, self.daemon.said())) from e
        print("%s: the power failed at %d moments: %s" % (self.id(), n, dict(self.outcomes)), file=sys.stderr)
        # As many as there were steps, or it was not seen what they are.
        self.assertGreater(n, min(len(self.victims), int(os.environ.get("RECLAIM_MOMENTS", 1000)) - 1))

    def look(self, first, last):
        with open(self.daemon.log, "wb"):
            pass
        for disk in self.disks:
            disk.mount(disk.now)
        try:
            self.daemon.start()
            self.judge({(e["what"], e["victim"]): e["job"] for e in self.events if e["mark"] <= first},
                       {(e["what"], e["victim"]): e["job"] for e in self.events if e["mark"] <= last})
            self.canary.check()
            self.assertEqual(self.daemon.stop(), 0)
            self.assertNotIn("ERROR: ", self.daemon.said())
        finally:
            self.daemon.kill()
            self.daemon.stop()
            for disk in self.disks:
                disk.umount()
        for disk in self.disks:
            disk.check()

    def judge(self, asked, answered):
        """What had been asked for at least, and what may have been answered at most."""
        c = self.daemon.client()
        for job in c.jobs():
            c.wait_state(job["id"], "held", "paused")
        jobs = {job["id"]: job for job in c.jobs(finished=True)}
        by_path = {os.fsdecode(bytes(job["path"])): job for job in jobs.values()}
        for number, victim in enumerate(self.victims):
            job = by_path.get(victim["paths"][0])
            taken = answered.get(("taken", number))
            if taken:
                self.assertIn(taken, jobs, "job %d was accepted, and is lost" % taken)
            self.judge_victim(c, victim, job, ("sent", number) in asked, ("back", number) in answered)
        if self.together:
            self.assertEqual(self.staged(), [], "left in staging")

    def judge_victim(self, c, victim, job, sent, back):
        what = "%s %s, job %s" % (victim["kind"], victim["paths"][0], job)
        if job and job["state"] == "held":
            self.assertFalse(back, what + " was taken back, and is held again")
            # Refused where staging itself is not there (any more, or yet): names are in their place then.
            with contextlib.suppress(Error):
                c.call("Restore", "ta{sv}", job["id"], {})
        if job and job["state"] in ("partial", "failed") and self.disks[-1].fs == "btrfs":
            # Its log may have it that what is where it was has been moved: kept whole, and told of.
            self.assertEqual(victim["kind"], "plain", what)
            for path, before in zip(victim["paths"], victim["before"]):
                self.assertTrue(not os.path.lexists(path) or fingerprint(path) == before, what)
        elif job and victim["kind"] == "plain":
            self.assertEqual(job["state"], "done", what)
            for path in victim["paths"]:
                self.assertFalse(os.path.lexists(path), what)
        elif not self.whole(victim):
            # Never on record, never asked for, or put back; else kept in staging, and told of.
            self.assertTrue(job and not self.together and self.whole_in_staging(victim), what)
        self.outcomes[job["state"] if job else "unknown" if sent else "not asked for"] += 1

    @staticmethod
    def whole(victim, paths=None):
        return all(os.path.lexists(path) and fingerprint(path) == before
                   for path, before in zip(paths or victim["paths"], victim["before"]))

    def whole_in_staging(self, victim):
        """One by one: those that are not in their place."""
        numbers = range(1, len(victim["paths"]) + 1)
        jobs = glob.glob(os.path.join(self.root, ".reclaim", str(victim["uid"]), "*"))
        return any(self.whole(victim, [path if os.path.lexists(path) else os.path.join(job, str(n))
                                       for n, path in zip(numbers, victim["paths"])]) for job in jobs)

    def staged(self):
        top = os.path.join(self.root, ".reclaim")
        return [n for n in fixture.listing(top) if n.count("/") > 1] if os.path.isdir(top) else []

    def test_fault_03_one_ext4(self):
        """The store and what is deleted on one filesystem, whose journal makes both durable in turn."""
        self.together = True
        self.prepare("ext4")
        self.fails_at_every_moment()

    def test_fault_03_one_btrfs(self):
        self.prepare("btrfs")
        self.fails_at_every_moment()

    def test_fault_03_xfs_and_ext4(self):
        """The store on the one, what is deleted on the other: neither flushes for both."""
        self.prepare("xfs", "ext4")
        self.fails_at_every_moment()

    def test_attack_27_btrfs_and_xfs(self):
        """Neither of them has a journal of the other's: the store on XFS."""
        self.prepare("btrfs", "xfs")
        self.fails_at_every_moment()


if __name__ == "__main__":
    fixture.main()
