#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The disk that the store is on fails, and what is deleted is on another, with btrfs or XFS: in the
emulated machine. Its first disk has the data, its second the store."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import fixture
from daemon_fixture import Case
from dbuswire import Error
from fixture import Canary, build, command, write
from test_lost import modprobe

DATA, STORE = "/dev/vda", "/dev/vdb"
HOUR = 3600 * 1000000


class StoreDisk(Case):
    config = "pacing: {latency: off}\n"

    def begin(self, fs):
        os.environ["DM_DISABLE_UDEV"] = "1"
        self.daemon.stop()
        for module in (fs, "ext4"):
            modprobe(module)
        command("mkfs." + fs, "-q", "-f", DATA)
        self.data = os.path.join(self.daemon.dir, fs)
        os.mkdir(self.data)
        command("mount", "-t", fs, DATA, self.data)
        self.addCleanup(command, "umount", "-l", self.data)
        self.canary = Canary(self.path("canary"))
        sectors = command("blockdev", "--getsz", STORE).strip()
        self.tables = {True: "0 %s linear %s 0" % (sectors, STORE), False: "0 %s error" % sectors}
        command("dmsetup", "create", "store", "--table", self.tables[True])
        command("mkfs.ext4", "-q", "-F", "/dev/mapper/store")
        self.mount_store()
        os.chmod(self.daemon.state, 0o700)
        self.daemon.start()

    def mount_store(self):
        command("mount", "-t", "ext4", "/dev/mapper/store", self.daemon.state)

    def answers(self, there):
        command("dmsetup", "suspend", "--nolockfs", "--noflush", "store")
        command("dmsetup", "load", "store", "--table", self.tables[there])
        command("dmsetup", "resume", "store")

    def fails(self, fs):
        """It is what is acknowledged before that counts; after it nothing is."""
        self.begin(fs)
        c = self.daemon.client()
        c.call("PauseAll", "")
        jobs = []
        for i in range(10):
            build(self.path("t%d" % i), "d/a\nd/b\ne")
            jobs.append(c.submit(self.path("t%d" % i)))
        build(self.path("held"), "a")
        held = c.submit(self.path("held"), undo_usec=HOUR)
        write(self.path("new"))
        self.answers(False)
        for _ in range(3):
            with self.assertRaises(Error) as e:
                c.submit(self.path("new"))
            self.assertIn(self.daemon.state, e.exception.text)
        self.assertTrue(os.path.exists(self.path("new")))
        # What was accepted goes on, though its ends cannot be recorded.
        try:
            c.call("ResumeAll", "")
        except Error as e:
            self.assertIn("will not last", e.text)
        self.daemon.kill()
        command("umount", self.daemon.state)
        self.answers(True)
        self.mount_store()
        self.daemon.start()
        c = self.daemon.client()
        c.call("ResumeAll", "")
        self.assertEqual({c.wait(n) for n in jobs}, {"done"}, self.daemon.said())
        c.call("Restore", "ta{sv}", held, {})
        self.assertEqual(fixture.listing(self.path("held")), ["a"])
        self.assertEqual(c.wait(c.submit(self.path("new"))), "done")
        self.canary.check()
        self.assertEqual(sorted(os.listdir(self.data)), [".reclaim", "canary", "held"])
        self.daemon.stop()
        self.assertNotIn("is of no job", self.daemon.said())
        command("umount", self.daemon.state)
        command("dmsetup", "remove", "--retry", "store")

    def test_attack_27_store_fails_beside_btrfs(self):
        self.fails("btrfs")

    def test_attack_27_store_fails_beside_xfs(self):
        self.fails("xfs")


if __name__ == "__main__":
    fixture.main()
