#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pacing: foreign I/O is seen, and nothing that the sensors lack holds a run up.

How well foreign I/O is spared is measured by tests/bench/interference; here it is shown that the parts
work together."""
import contextlib
import mmap
import os
import re
import shutil
import tempfile
import threading
import time

import fixture
from contents import big_file
from fixture import Case, DISKS, MIB, command, fill, matrix

ONE = (None,)  # pacing knows no backends


# What the kernel tells of the last seconds, once tasks have waited for a disk.
PRESSURE = "/proc/pressure/io"
WAITED_FOR = "".join("%s avg10=1.00 avg60=1.00 avg300=1.00 total=1\n" % which for which in ("some", "full"))


class Foreground(threading.Thread):
    """Reads a block, and syncs one, fifty times a second, as a program with a small database. It is
    there even where the processors are busy, as it goes before all other threads.

    A run that takes the disk to be free until its first look may be over by then. So while this is
    there, the kernel's mean that a run asks first says that a task waits. By itself it may not: on a
    loop device in memory a request takes so little that the mean rounds it to nothing."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path = path
        self.known = contextlib.ExitStack()
        with open(path, "wb") as f:
            f.write(os.urandom(4 * MIB))
            os.fsync(f.fileno())
        self.over = threading.Event()
        self.start()

    def run(self):
        with contextlib.suppress(PermissionError):  # of this thread only
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        fd = os.open(self.path, os.O_RDWR | os.O_DIRECT)
        try:
            self.use(fd)
        finally:
            os.close(fd)

    def use(self, fd):
        block = mmap.mmap(-1, 4096)
        n = 0
        while not self.over.wait(0.02):
            n += 1
            os.preadv(fd, [block], n * 7 % 1000 * 4096)
            os.pwritev(fd, [block], n * 13 % 1000 * 4096)
            os.fdatasync(fd)

    def __enter__(self):
        if os.path.exists(PRESSURE):  # where it does not, there might be foreign I/O, too
            said = self.known.enter_context(tempfile.NamedTemporaryFile("w", dir=fixture.scratch.dir))
            said.write(WAITED_FOR)
            said.flush()
            command("mount", "--bind", said.name, PRESSURE)
            self.known.callback(command, "umount", PRESSURE)
        return self

    def __exit__(self, *_):
        self.known.close()
        self.over.set()
        self.join()


def lines(path, kinds):
    with open(path, encoding="ascii") as f:
        return [l.split() for l in f if l[0] in kinds]


def iostats(directory):
    """The switch of the device's counters."""
    dev = os.stat(directory).st_dev
    return "/sys/dev/block/%d:%d/queue/iostats" % (os.major(dev), os.minor(dev))


class Pacing(Case):
    @matrix(fs=DISKS, backends=ONE)
    def test_run_is_fast_on_an_idle_disk(self, w):
        os.mkdir(w.path("d"))
        fill(w.path("d"), 40000)
        w.settle()
        time.sleep(0.5)
        r = w.run("--trace=" + w.path("trace"), "d")
        self.check_gone(w, r, "trace")
        modes = [l[-1] for l in lines(w.path("trace"), "w")]
        self.assertIn("fast", modes)
        self.assertEqual(modes[-1], "fast", "it went slowly without foreign I/O")

    @matrix(fs=DISKS, backends=("threads", "uring"))
    def test_run_is_paced_beside_foreground_io(self, w):
        os.mkdir(w.path("d"))
        fill(w.path("d"), 20000)
        w.settle()
        with Foreground(w.path("file")):
            r = w.run("--trace=" + w.path("trace"), "--json", "d")
        self.check_gone(w, r, "file", "trace")
        self.assertEqual(r.json["entries"], 20001)
        work = lines(w.path("trace"), "w")
        late = [l for l in work if l[-1] == "paced"]
        self.assertGreater(len(late), len(work) // 2, "there was foreign I/O, and it was not spared")
        self.assertTrue(lines(w.path("trace"), "y"), "nothing was made due")
        # A ring at full speed does not ask.
        seen = sum(int(l[2]) for l in work)
        self.assertLessEqual(seen, 20001)
        if w.backend == "threads":
            self.assertEqual(seen, 20001)

    @matrix(fs=("ext4", "xfs", "btrfs", "ext4-discard"), backends=ONE)
    def test_large_file_is_freed_in_small_steps(self, w):
        big_file(w.path("big"), 300)
        with Foreground(w.path("file")):
            r = w.run("--trace=" + w.path("trace"), "--json", "big")
        work = lines(w.path("trace"), "w")
        steps = [int(l[3]) for l in work if l[-1] == "paced" and int(l[3]) > 0]
        self.check_gone(w, r, "file", "trace")
        self.assertGreater(len(steps), 2, work)
        # Small at first, and never more than twice as large as any before.
        largest = 4 * MIB
        for step in steps:
            self.assertLessEqual(step, 2 * largest, steps)
            largest = max(largest, step)
        self.assertEqual(r.json["errors"], 0)
        self.assertGreaterEqual(r.json["bytes"], 300 * MIB)

    @matrix(fs=("btrfs",), backends=ONE)
    def test_large_file_is_committed_in_parts(self, w):
        """Every 512 MiB, where pieces are not larger, and at its end; not all at once, when all
        programs would wait for it."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        big_file(w.path("big"), 2000)
        w.settle()
        trace = os.path.join(fixture.scratch.dir, "commits")
        with Foreground(w.path("file")):
            r = w.run("--json", "big", wrapper=["strace", "-f", "-qq", "-o", trace, "-e", "trace=ioctl"],
                      env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.check_gone(w, r, "file")
        with open(trace, encoding="ascii") as f:
            made = f.read().count("BTRFS_IOC_START_SYNC")
        self.assertGreaterEqual(made, 2)

    @matrix(fs=("btrfs",), backends=ONE)
    def test_large_file_space_is_free_at_its_end(self, w):
        """Not with the filesystem's next commit, half a minute later."""
        big_file(w.path("big"), 700)
        w.settle()
        with Foreground(w.path("file")):
            before = os.statvfs(w.path("file")).f_bfree
            r = w.run("--json", "big")
            end, freed = time.monotonic() + 3, 0
            while freed < 690 * MIB and time.monotonic() < end:
                time.sleep(0.05)
                st = os.statvfs(w.path("file"))
                freed = (st.f_bfree - before) * st.f_frsize
        self.check_gone(w, r, "file")
        self.assertGreaterEqual(freed, 690 * MIB)

    @matrix(fs=("ext4",), backends=ONE)
    def test_verbose_names_the_device(self, w):
        os.mkdir(w.path("d"))
        fill(w.path("d"), 60000)
        w.settle()
        with Foreground(w.path("file")):
            r = w.run("-v", "--latency=3ms", "d")
        dev = os.stat(w.dir).st_dev
        found = re.search(r"(?m)^%d:%d: sync ([\d.]+) ms, target ([\d.]+) ms"
                          % (os.major(dev), os.minor(dev)), r.err)
        self.assertTrue(found, r)
        # What is asked for; but where syncs take longer by themselves, no more than that.
        sync, target = map(float, found.groups())
        self.assertEqual(target, max(3.0, sync), r)
        self.assertRegex(r.err, re.compile(r"entries/s$", re.M))

    @matrix(fs=("ext4", "xfs"), backends=ONE)
    def test_run_continues_without_disk_counters(self, w):
        os.mkdir(w.path("d"))
        fill(w.path("d"), 3000)
        big_file(w.path("d/big"), 300)
        w.settle()
        switch = iostats(w.dir)
        with open(switch, "w", encoding="ascii") as f:
            f.write("0")
        try:
            self.check_gone(w, w.run("d"))
        finally:
            with open(switch, "w", encoding="ascii") as f:
                f.write("1")

    @matrix(fs=("tmpfs", "overlay"), backends=ONE)
    def test_run_is_not_paced_without_a_disk(self, w):
        os.mkdir(w.path("d"))
        fill(w.path("d"), 3000)
        w.settle()
        r = w.run("-v", "--trace=" + w.path("trace"), "d")
        self.check_gone(w, r, "trace")
        self.assertEqual(os.path.getsize(w.path("trace")), 0)
        self.assertEqual(r.err, "")

    @matrix(fs=("ext4",), backends=ONE)
    def test_signal_stops_a_paced_run(self, w):
        os.mkdir(w.path("d"))
        fill(w.path("d"), 60000)
        w.settle()
        with Foreground(w.path("file")):
            p = w.start("--latency=1ms", "d")
            while len(os.listdir(w.path("d"))) == 60000:
                self.assertIsNone(p.popen.poll())
            began = time.monotonic()
            os.kill(p.pid, 15)
            r = p.finish()
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(r.status, 3, r)
        self.assertIn("Stopped by a signal", r.out)
        self.assertNotIn("left on purpose", r.out)

    @matrix(fs=("ext4",), backends=ONE)
    def test_run_rejects_invalid_pacing_options(self, w):
        w.build("d/f")
        for word in ("soon", "", "-5ms", "1us", "2h", "5 parsecs"):
            r = self.check_refused(w, ["--latency=" + word, "d"], "auto, off, or a time",
                                   name=word or "''", status=2)
            self.assertEqual(r.out, "")
        self.check_refused(w, ["--trace=/nonexistent/trace", "d"], "nothing was deleted",
                           name="/nonexistent/trace")


if __name__ == "__main__":
    fixture.main()
