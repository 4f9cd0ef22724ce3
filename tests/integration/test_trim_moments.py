#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whatever happens while reclaimctl trim runs, and whenever: the filesystem is sound, its files are whole, no
process is left, and a run that did not come to its end says why.

Each disk is a sparse file under a loop device, upon an XFS whose shutdown is the loss of that disk. The moment is
drawn from the time that a run takes beside foreground I/O; what is tested holds at each of them."""
import contextlib
import fcntl
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import fixture
from fixture import FULL, command, scratch, until
from test_pacing import Foreground
from test_trim import DISKS, Disk, TrimCase, each, helpers, sums

ROUNDS = 10 if FULL else 1
DISK_BYTES, HOST_BYTES = 3 << 30, 4 << 30
# Seconds.
FROZEN_MOST = 0.3
MOMENTS_MOST = 60 if FULL else 4
SHUTDOWN = 0x8004587D  # XFS_IOC_GOINGDOWN
LOG_IS_FLUSHED = 1
# Of the foreground program, which may end in the middle of a write.
FOREGROUND = "foreground"


class Enduring(Foreground):
    """Ends with its disk, and takes no notice."""

    def run(self):
        with contextlib.suppress(OSError):
            super().run()


class Host:
    """What a disk's file lies on: its loss is that of the disk."""

    def __init__(self):
        if not shutil.which("mkfs.xfs"):
            raise fixture.unittest.SkipTest("mkfs.xfs is not installed")
        self.top = tempfile.mkdtemp(prefix="host", dir=scratch.dir)
        self.image, self.dir = os.path.join(self.top, "image"), os.path.join(self.top, "m")
        os.mkdir(self.dir)
        with open(self.image, "wb") as f:
            f.truncate(HOST_BYTES)
        command("mkfs.xfs", "-q", "-f", self.image)
        self.mount()

    def mount(self):
        command("mount", "-o", "loop,nodiscard,nouuid", self.image, self.dir)

    def lose(self):
        """Each request is answered with an error from now on."""
        fd = os.open(self.dir, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, LOG_IS_FLUSHED.to_bytes(4, "little"))
        finally:
            os.close(fd)

    def back(self):
        """As it was when it was lost."""
        fixture.unmount_when_free(self.dir)
        self.mount()

    def close(self):
        fixture.unmount_beneath(self.top + "/")
        shutil.rmtree(self.top, ignore_errors=True)


def children(pid):
    """Of all threads of a process."""
    found = set()
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/%d/task" % pid):
            with contextlib.suppress(OSError), open("/proc/%d/task/%s/children" % (pid, task), encoding="ascii") as f:
                found |= set(map(int, f.read().split()))
    return found


def has_ended(pid):
    with contextlib.suppress(OSError), open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as f:
        return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
    return True


class Run:
    """A trim that has begun, beside foreground I/O."""

    def __init__(self, case, disk):
        self.disk = disk
        self.foreground = Enduring(os.path.join(disk.dir, FOREGROUND))
        self.foreground.__enter__()
        self.process = case.start(disk.dir)
        # It heeds signals before it has this one.
        until(lambda: helpers(self.process.pid) or has_ended(self.process.pid))
        self.began = time.monotonic()
        self.processes = children(self.process.pid)

    def lull(self):
        """There is no foreground I/O from now on."""
        foreground, self.foreground = self.foreground, None
        if foreground:
            foreground.__exit__()

    def close(self):
        self.processes |= children(self.process.pid)
        self.process.kill()
        self.lull()


class Moments(TrimCase):
    def on_host(self, kind):
        host = Host()
        self.addCleanup(host.close)
        d = Disk(kind, DISK_BYTES, where=host.dir)
        self.addCleanup(d.close)
        return host, d

    @contextlib.contextmanager
    def running(self, d):
        """No process of it is there behind this, nor does one use the disk."""
        run = Run(self, d)
        try:
            yield run
        finally:
            run.close()
        for pid in run.processes:
            until(lambda pid=pid: has_ended(pid), lambda pid=pid: "process %d is left" % pid)
        if os.path.ismount(d.dir):
            fixture.unmount_when_free(d.dir)
        until(lambda: not subprocess.run(["losetup", "-j", d.image], stdout=subprocess.PIPE, check=True).stdout,
              lambda: d.image + " stays in use")

    def check_result(self, r, *words):
        """At its end, or with these words (a regular expression) in what it says."""
        self.assertIn(r.status, (0, 1, 3), r)
        if r.status != 0:
            said = re.sub(r"\s+", " ", r.out + r.err)
            self.assertRegex(said, "|".join(words), r)

    def check_disk(self, d, before):
        d.mount()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(d.dir, FOREGROUND))
        self.assertEqual(sums(d.dir), before)
        d.unmount()
        d.check()

    def stopped(self, run, _host):
        os.kill(run.process.pid, signal.SIGINT)
        self.check_result(run.process.finish(), "Stopped by a signal before the end")

    def killed(self, run, _host):
        run.processes |= children(run.process.pid)
        run.process.kill()

    def helper_killed(self, run, _host):
        for pid in helpers(run.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.check_result(run.process.finish(), "the process that trims was killed: run it again")

    def frozen(self, run, _host):
        command("fsfreeze", "--freeze", run.disk.dir)
        time.sleep(random.uniform(0, FROZEN_MOST))
        command("fsfreeze", "--unfreeze", run.disk.dir)
        run.lull()
        self.assertEqual(run.process.finish().status, 0)

    def detached(self, run, _host):
        command("umount", "--lazy", run.disk.dir)
        run.lull()
        self.check_result(run.process.finish(), "cannot be trimmed: ")

    def unmounted_as_soon_as_it_can_be(self, run, _host):
        run.lull()
        fixture.unmount_when_free(run.disk.dir)
        self.assertEqual(run.process.finish().status, 0)

    def lost(self, run, host):
        host.lose()
        self.check_result(run.process.finish(),
                          "cannot be trimmed: (Input/output error|Read-only file system|Structure needs cleaning)")
        run.lull()
        fixture.unmount_when_free(run.disk.dir)
        host.back()

    def usual_seconds(self, d):
        """From which the moments are drawn: a run, or as much of it as is worth waiting for."""
        with self.running(d) as run:
            until(lambda: has_ended(run.process.pid) or time.monotonic() > run.began + MOMENTS_MOST)
            run.lull()
            self.assertEqual(run.process.finish().status, 0)
            return min(time.monotonic() - run.began, MOMENTS_MOST)

    @each(DISKS)
    def test_whatever_happens_and_whenever(self, kind):
        host, d = self.on_host(kind)
        before = sums(d.mount().dir)
        usual = self.usual_seconds(d)
        for number in range(ROUNDS):
            for happens in (self.stopped, self.killed, self.helper_killed, self.frozen, self.detached,
                            self.unmounted_as_soon_as_it_can_be, self.lost):
                moment = random.uniform(0, usual)
                with self.subTest(happens=happens.__name__, number=number, seconds=moment):
                    d.mount()
                    with self.running(d) as run:
                        time.sleep(moment)
                        happens(run, host)
                    self.check_disk(d, before)
        d.close()
        host.close()


if __name__ == "__main__":
    fixture.main()
