#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Devices that go away in mid-job, in the emulated machine: a mapping that fails whatever is asked for,
and a disk that is taken out. Its first disk is ours."""
import errno
import glob
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import fixture
from daemon_fixture import FINISHED, Case
from fixture import TIMEOUT, Canary, build, command, write

DISK, MAPPED = "/dev/vda", "/dev/mapper/mapped"


def modprobe(*words):
    command("modprobe", "-d", os.environ["RECLAIM_KERNEL"], *words)


def put(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


class Devices(Case):
    config = "pacing: {latency: off}\n"

    def setUp(self):
        os.environ["DM_DISABLE_UDEV"] = "1"
        super().setUp()
        self.canary = Canary(self.path("canary"))

    def finish(self):
        self.canary.check()
        super().finish()

    def mapped(self):
        sectors = command("blockdev", "--getsz", DISK).strip()
        command("dmsetup", "create", "mapped", "--table", "0 %s linear %s 0" % (sectors, DISK))
        self.addCleanup(command, "dmsetup", "remove", "--retry", "mapped")
        self.tables = {True: "0 %s linear %s 0" % (sectors, DISK), False: "0 %s error" % sectors}
        return MAPPED

    def answers(self, there):
        """From now on the device does, or fails."""
        command("dmsetup", "suspend", "--nolockfs", "--noflush", "mapped")
        command("dmsetup", "load", "mapped", "--table", self.tables[there])
        command("dmsetup", "resume", "mapped")

    def make(self, fs, device):
        """A filesystem with a tree, of which nothing is in memory."""
        modprobe(fs)
        command("mkfs." + fs, "-q", {"ext4": "-F", "xfs": "-f"}[fs], device)
        self.at = os.path.join(self.daemon.dir, "device")
        os.makedirs(self.at, exist_ok=True)
        self.mount(fs, device)
        self.addCleanup(self.umount)
        os.mkdir(os.path.join(self.at, "data"))
        build(self.at, "data/t/d/x\ndata/t/d/y\ndata/other")
        fixture.fill(os.path.join(self.at, "data/t/e"), 500)
        self.umount()
        self.mount(fs, device)
        self.data = os.path.join(self.at, "data")

    def mount(self, fs, device):
        command("mount", "-t", fs, device, self.at)

    def umount(self):
        """Who works there lets go of it first: a device with a filesystem on it cannot be removed."""
        end = time.monotonic() + TIMEOUT
        while os.path.ismount(self.at):
            try:
                command("umount", self.at)
            except RuntimeError:
                self.assertLess(time.monotonic(), end, "never let go of")
                time.sleep(0.2)

    def running(self):
        """A job that stands before a directory of which nothing has been read."""
        c = self.daemon.again_with_gate("descend:d")
        n = c.submit(self.path("t"))
        return c, n, self.daemon.stopped_worker()

    def others_go_on(self, client):
        write(os.path.join(self.root, "other"))
        self.assertEqual(client.wait(client.submit(os.path.join(self.root, "other"))), "done")

    def is_told(self, c, n):
        """With the name of what cannot be deleted."""
        state = c.wait_state(n, "paused", "queued")
        problems = c.problems(n)
        said = "%s: %s %s" % (state, c.get(n, "Message"), problems)
        self.assertNotEqual(state, "done", said)
        self.assertTrue({p[2] for p in problems} & {errno.EIO, errno.EROFS, errno.ENODEV, errno.EUCLEAN}, said)
        self.assertIn(self.path("t"), said)
        self.others_go_on(c)
        return state

    def goes_on(self, c, n, state):
        """The device is there again: what is left is done, or is where it can be submitted again."""
        if state in FINISHED:
            again = [name for name in (self.path("t"), *glob.glob(self.at + "/.reclaim/0/*/1"))
                     if os.path.exists(name)]
            self.assertEqual(len(again), 1, again)
            # From there nothing is submitted: it goes back to its place first.
            os.rename(again[0], self.path("t"))
            n = c.submit(self.path("t"))
        else:
            c.call("Resume", "at", [n])
        # Another one, at the same gate, if the directory is left.
        os.kill(self.daemon.stopped_worker(), signal.SIGCONT)
        self.assertEqual(c.wait(n), "done", self.daemon.said())
        self.assertFalse(os.path.exists(self.path("t")))
        self.assertTrue(os.path.exists(self.path("other")))
        self.assertEqual(c.wait(c.submit(self.path("other"))), "done")

    def fails_and_returns(self, fs):
        self.make(fs, self.mapped())
        c, n, worker = self.running()
        self.answers(False)
        os.kill(worker, signal.SIGCONT)
        state = self.is_told(c, n)
        self.answers(True)
        self.umount()
        self.mount(fs, MAPPED)
        self.goes_on(c, n, state)

    def test_fault_11_ext4_on_a_device_that_fails(self):
        self.fails_and_returns("ext4")

    def test_fault_11_a_disk_is_taken_out(self):
        modprobe("sd_mod")
        modprobe("scsi_debug", "dev_size_mb=64", "delay=0")
        disk = self.scsi_disk()
        self.make("ext4", disk)
        c, n, worker = self.running()
        put("/sys/block/%s/device/delete" % os.path.basename(disk), "1")
        os.kill(worker, signal.SIGCONT)
        state = self.is_told(c, n)
        self.umount()
        put(glob.glob("/sys/class/scsi_host/host*/scan")[-1], "- - -")
        self.mount("ext4", self.scsi_disk())
        self.goes_on(c, n, state)

    def scsi_disk(self):
        end = time.monotonic() + TIMEOUT
        while not glob.glob("/dev/sd?"):
            self.assertLess(time.monotonic(), end, "no disk appears")
            time.sleep(0.05)
        return glob.glob("/dev/sd?")[0]


if __name__ == "__main__":
    fixture.main()
