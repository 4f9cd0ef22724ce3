#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Debt: what a deletion leaves dirty in the page cache of its block device is written back by it, in
steps, and nothing but that is done to the device."""
import contextlib
import ctypes
import glob
import os
import re
import shutil
import signal
import subprocess
import time

import fixture
import dbuswire
import test_metrics
from fixture import Case, Proc, fill, matrix, scratch
from test_pacing import Foreground
from test_trim_moments import Host

ONE = (None,)  # paying knows no backends
CACHESTAT = 451
EXT = ("ext4",)
FILES = 20000
# What twenty thousand files leave: a block of inodes for sixteen of them.
LEFT = FILES // 16 * 4096
# What the foreground program dirties meanwhile, and what is harmless.
HARMLESS = 256 * 1024
PROCESS = "reclaim-settle"


class Cachestat(ctypes.Structure):
    """As the kernel fills it in, in pages."""
    _fields_ = [(name, ctypes.c_uint64)
                for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted")]


def node(directory):
    """The block device that a directory is on."""
    dev = os.stat(directory).st_dev
    with open("/sys/dev/block/%d:%d/uevent" % (os.major(dev), os.minor(dev)), encoding="ascii") as f:
        return "/dev/" + dict(line.strip().split("=", 1) for line in f)["DEVNAME"]


def dirty(directory):
    """Bytes that wait to be written back to it; None where the kernel does not tell."""
    fd = os.open(node(directory), os.O_RDONLY)
    all_of_it = (ctypes.c_uint64 * 2)(0, 0)
    found = Cachestat()
    r = ctypes.CDLL(None).syscall(CACHESTAT, fd, all_of_it, ctypes.byref(found), 0)
    os.close(fd)
    return found.dirty * os.sysconf("SC_PAGESIZE") if r == 0 else None


def payers(pid):
    """The processes that pay for it."""
    found = []
    for stat in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(stat, encoding="ascii", errors="replace") as f:
            name, _, rest = f.read().rpartition(")")
            if name.partition("(")[2] == PROCESS and int(rest.split()[1]) == pid:
                found.append(int(stat.split("/")[2]))
    return found


def pays(pid):
    """Has it begun to, or has it ended?"""
    with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as f:
        if f.read().rpartition(")")[2].split()[0] == "Z":
            return True
    return bool(payers(pid))


def end(pid):
    """One that stands at its gate, perhaps."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Debt(Case):
    def tree(self, w):
        if dirty(w.dir) is None:
            self.skipTest("this kernel does not tell what is dirty (before Linux 6.5)")
        os.mkdir(w.path("d"))
        fill(w.path("d"), FILES)
        w.settle()

    @matrix(fs=EXT, backends=ONE)
    def test_run_pays_what_it_leaves(self, w):
        self.tree(w)
        with Foreground(w.path("file")):
            r = w.run("-v", "d")
            left = dirty(w.dir)
        self.check_gone(w, r, "file")
        self.assertLessEqual(left, HARMLESS)
        self.assertRegex(r.err, r"(?m)^written back for the kernel: .* in \d+ steps")

    @matrix(fs=EXT, backends=ONE)
    def test_run_pays_for_an_overlay_above(self, w):
        for name in ("lower", "upper", "work", "view"):
            os.mkdir(w.path(name))
        fixture.command("mount", "-t", "overlay", "-o",
                        ",".join("%sdir=%s" % (name, w.path(name)) for name in ("lower", "upper", "work")),
                        "overlay", w.path("view"))
        os.mkdir(w.path("view/d"))
        fill(w.path("view/d"), FILES)
        w.settle()
        if dirty(w.dir) is None:
            self.skipTest("this kernel does not tell what is dirty (before Linux 6.5)")
        with Foreground(w.path("file")):
            r = w.run("-v", "view/d")
            left = dirty(w.dir)
        self.assertEqual(r.status, 0, r)
        self.assertLessEqual(left, HARMLESS)
        self.assertRegex(r.err, r"(?m)^written back for the kernel: .* in \d+ steps")

    @matrix(fs=EXT, backends=ONE)
    def test_no_settle_leaves_it(self, w):
        self.tree(w)
        with Foreground(w.path("file")):
            r = w.run("-v", "--no-settle", "d")
            left = dirty(w.dir)
        self.check_gone(w, r, "file")
        self.assertGreater(left, LEFT // 2)
        self.assertNotIn("written back", r.err)

    @matrix(fs=EXT, backends=ONE)
    def test_run_pays_at_once_on_an_idle_disk(self, w):
        self.tree(w)
        r = w.run("d")
        self.check_gone(w, r)
        # What was not committed would not be dirty yet.
        fd = os.open(w.dir, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        self.assertLessEqual(dirty(w.dir), HARMLESS)

    @matrix(fs=EXT, backends=ONE)
    def test_run_pays_where_the_kernel_does_not_tell(self, w):
        """Before Linux 6.5, and where a sandbox refuses the call."""
        self.tree(w)
        refuse = scratch.helper("refuse", ("-DREFUSED=%d" % CACHESTAT,))
        with Foreground(w.path("file")):
            r = w.run("-v", "d", wrapper=[refuse])
            left = dirty(w.dir)
        self.check_gone(w, r, "file")
        self.assertLessEqual(left, HARMLESS)
        self.assertRegex(r.err, r"(?m)^written back for the kernel: at most .* in \d+ steps")

    @matrix(fs=EXT, backends=ONE)
    def test_device_is_read_only_and_only_written_back(self, w):
        """I1: the one process that has the device opens it for reading."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        self.tree(w)
        trace = os.path.join(scratch.dir, "calls")
        r = w.run("d", wrapper=["strace", "-f", "-qq", "-o", trace], env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.check_gone(w, r)
        with open(trace, encoding="utf-8", errors="replace") as f:
            calls = [line.split(None, 1) for line in f]
        pids = {pid for pid, call in calls if 'PR_SET_NAME, "%s"' % PROCESS in call}
        self.assertTrue(pids)
        of_each = [[call for pid, call in calls if pid == each] for each in pids]
        calls = [call for each in of_each
                 for call in each[next(i for i, call in enumerate(each) if PROCESS in call):]]
        names = {re.match(r"\w+", call)[0] for call in calls if re.match(r"\w+\(", call)}
        allowed = {"prctl", "dup2", "close_range", "capset", "openat", "close", "fstat", "newfstatat", "ioctl", "cachestat",
                   "syscall_0x1c3", "sync_file_range", "sendto", "recvfrom", "exit_group",
                   "sigaltstack", "munmap"}  # of the sanitizers
        self.assertLessEqual(names, allowed)
        self.assertIn("sync_file_range", names)
        opened = [call for call in calls if call.startswith("openat(")]
        self.assertTrue(opened)
        for call in opened:
            self.assertRegex(call, r'openat\(AT_FDCWD, "/dev/[^"]*", O_RDONLY\|O_NONBLOCK\|O_CLOEXEC\b')
        for call in calls:
            if call.startswith("ioctl("):
                self.assertIn("BLKGETSIZE64", call)

    @matrix(fs=EXT, backends=ONE)
    def test_run_ends_without_the_device_node(self, w):
        self.tree(w)
        began = time.monotonic()
        r = w.run("-v", "d", wrapper=["unshare", "-m", "sh", "-c",
                                      "mount -t tmpfs none /dev && exec \"$@\"", "sh"])
        self.check_gone(w, r)
        self.assertRegex(r.err, r"(?m)^what this leaves is written back by the kernel, all at once: .* no reclaimd runs")
        self.assertLess(time.monotonic() - began, 25, "it waited for a device that is not there")

    @matrix(fs=EXT, backends=ONE)
    def test_signal_ends_the_paying(self, w):
        """What is deleted is deleted: the run is complete."""
        self.tree(w)
        with Foreground(w.path("file")):
            p = w.start("d")
            fixture.until(lambda: not os.path.exists(w.path("d")) and pays(p.pid))
            os.kill(p.pid, signal.SIGTERM)
            r = p.finish()
        self.assertEqual(r.status, 0, r)
        self.assertNotIn("Stopped", r.out)
        self.assertFalse(os.path.exists(w.path("d")))


class Counted(test_metrics.Case):
    def test_what_is_written_back_is_counted(self):
        self.mount_disk()
        if dirty(self.data) is None:
            self.skipTest("this kernel does not tell what is dirty (before Linux 6.5)")
        fill(self.path("t"), 3000)
        self.ctl("submit", "--wait", "t")
        (written,) = self.metrics()["reclaimd_device_written_back_bytes_total"].values()
        # A block of inodes for sixteen files.
        self.assertGreaterEqual(written, 3000 // 16 * 4096 // 2)


class Settling(test_metrics.Case):
    """A job all of whose names are gone, and whose debt is being paid."""

    def settling(self, where=None):
        self.mount_disk(where=where)
        if dirty(self.data) is None:
            self.skipTest("this kernel does not tell what is dirty (before Linux 6.5)")
        fill(self.path("t"), 3000)
        client = self.daemon.again_with_gate("debt:pay")
        job = client.submit(self.path("t"))
        self.until(lambda: any(map(fixture.is_stopped, payers(self.daemon.process.pid))))
        for pid in payers(self.daemon.process.pid):
            self.addCleanup(end, pid)
        self.until(lambda: client.get(job, "Settling"))
        return client, job

    def go_on(self):
        for pid in payers(self.daemon.process.pid):
            os.kill(pid, signal.SIGCONT)

    def test_wait_need_not_wait_for_it(self):
        client, job = self.settling()
        r = self.ctl("wait", "--no-settle", str(job))
        self.assertRegex(r.out, r"^Job %d deleted: 3,001 entries, .*; what that leaves is still being written back\n$" % job)
        self.assertEqual(client.job(job)["state"], "running")
        self.assertIn('"settling":true', self.ctl("show", "--json", str(job)).out)
        # As the payer has seen it before it was held: a block of inodes for sixteen files.
        self.assertGreater(client.get(job, "Owed"), 3000 // 16 * 4096 // 2)
        self.assertRegex(self.ctl("show", str(job)).out, r"(?m)^      Owed: \d+\.\d [KM]iB to be written back on its devices$")
        waiting = Proc([scratch.binary, "wait", str(job)], self.data,
                       env={"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket)})
        self.addCleanup(waiting.close)
        time.sleep(0.5)
        self.assertIsNone(waiting.popen.poll(), "it did not wait")
        self.go_on()
        self.assertRegex(waiting.finish().out, r"^Job %d done: 3,001 entries" % job)
        self.assertFalse(client.get(job, "Settling"))
        self.assertEqual(client.get(job, "Owed"), 0)
        self.assertNotIn("Owed", self.ctl("show", str(job)).out)

    def test_cancel_ends_it(self):
        client, job = self.settling()
        began = time.monotonic()
        with self.assertRaisesRegex(dbuswire.Error, "has just finished: it is done"):
            client.call("Cancel", "at", [job])
        self.until(lambda: client.job(job)["state"] == "done")
        self.assertEqual(client.job(job)["done"], 3001)
        self.assertLess(time.monotonic() - began, 25, "it waited for what pays")

    def test_filesystem_can_be_unmounted_meanwhile(self):
        client, job = self.settling()
        fixture.unmount_when_free(self.data)
        self.assertTrue(client.get(job, "Settling"))
        self.go_on()
        self.until(lambda: client.job(job)["state"] == "done")

    def check_end(self, client, job):
        """Soon: half a minute is what a process that does not answer is waited for."""
        began = time.monotonic()
        self.go_on()
        self.until(lambda: client.job(job)["state"] == "done")
        self.assertLess(time.monotonic() - began, 25, "it waited for what pays")

    def test_filesystem_can_be_frozen_meanwhile(self):
        client, job = self.settling()
        fixture.command("fsfreeze", "--freeze", self.data)
        try:
            self.check_end(client, job)
        finally:
            fixture.command("fsfreeze", "--unfreeze", self.data)

    def test_filesystem_can_become_read_only_meanwhile(self):
        client, job = self.settling()
        self.until(lambda: subprocess.run(["mount", "-o", "remount,ro", self.data], stderr=subprocess.DEVNULL,
                                          check=False).returncode == 0)
        self.assertTrue(client.get(job, "Settling"))
        self.check_end(client, job)

    def test_device_can_be_lost_meanwhile(self):
        """What is deleted has been made durable by then. What cannot be written back is not tried again and again."""
        host = Host()
        self.addCleanup(host.close)
        client, job = self.settling(host.dir)
        host.lose()
        self.check_end(client, job)

    def test_end_of_the_daemon_does_not_wait_for_it(self):
        client, job = self.settling()
        self.assertEqual(self.daemon.stop(), 0)
        self.go_on()
        client = self.daemon.start().client()
        self.until(lambda: client.job(job)["state"] == "done")


class OfUsers(test_metrics.Case):
    """Users may not open the device: reclaimd writes back what they leave."""

    def tree(self):
        self.mount_disk()
        if dirty(self.data) is None:
            self.skipTest("this kernel does not tell what is dirty (before Linux 6.5)")
        fill(self.path("t"), 6000)
        fixture.command("chown", "-R", "%d" % fixture.USER, self.data)
        fixture.sync(self.data)
        self.assertLessEqual(dirty(self.data), HARMLESS)

    def run_by_user(self, directory):
        p = Proc([scratch.binary, "run", "-v", "t"], self.data, user=fixture.USER,
                         env={"RECLAIMD_RUNTIME_DIRECTORY": directory})
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, 0, r)
        self.assertFalse(os.path.exists(self.path("t")))
        return r

    def settle(self, client, path, entries=10000, flags=os.O_PATH):
        fd = os.open(path, flags)
        try:
            return client.call("Settle", "htt", 0, entries, 0, fds=[fd])
        finally:
            os.close(fd)

    def test_what_a_user_leaves_is_paid_by_the_daemon(self):
        self.tree()
        r = self.run_by_user(os.path.dirname(self.daemon.socket))
        self.assertLessEqual(dirty(self.data), 6000 // 16 * 4096 // 2)
        self.assertIn("reclaimd has written back what this leaves for the kernel\n", r.err)
        self.until(lambda: not self.metrics().get("reclaimd_device_owed_bytes"))
        (written,) = self.metrics()["reclaimd_device_written_back_bytes_total"].values()
        self.assertGreaterEqual(written, 6000 // 16 * 4096 // 2)

    def test_without_a_daemon_it_is_said(self):
        self.tree()
        r = self.run_by_user(self.path("none"))
        self.assertRegex(r.err, r"(?m)^what this leaves is written back by the kernel, all at once: .* no reclaimd runs")
        self.assertGreater(dirty(self.data), 6000 // 16 * 4096 // 2)

    def test_others_may_only_ask(self):
        """Nothing that is told makes it do more than write back what is dirty."""
        self.tree()
        c = self.daemon.client(fixture.USER)
        os.mkdir(self.path("locked"), 0o700)
        fd = os.open(self.path("locked"), os.O_PATH)
        self.assertEqual(c.call("Settle", "htt", 0, 2**64 - 1, 2**64 - 1, fds=[fd]).body, [])
        os.close(fd)
        # Little, memory, and what has no disk: nothing to do.
        self.settle(c, self.data, entries=1)
        self.settle(c, self.root)
        self.settle(c, "/proc")
        for path in (self.path("t/f00000"), "/dev/null"):
            with self.assertRaisesRegex(dbuswire.Error, "not a directory"):
                self.settle(c, path)
        self.assertTrue(os.path.exists(self.path("t")))

    def test_end_of_the_daemon_does_not_wait(self):
        self.tree()
        self.daemon.again_with_gate("debt:pay")
        c = self.daemon.client(fixture.USER)
        shutil.rmtree(self.path("t"))
        fd = os.open(self.data, os.O_PATH)
        for _ in range(70):  # more than it takes at a time
            c.send("Settle", "htt", 0, 10000, 0, fds=[fd])
        os.close(fd)
        self.until(lambda: any(map(fixture.is_stopped, payers(self.daemon.process.pid))))
        with self.assertRaisesRegex(dbuswire.Error, "left to the kernel"):
            self.settle(c, self.data)
        stopped = payers(self.daemon.process.pid)
        self.assertEqual(self.daemon.stop(), 0)
        for pid in stopped:
            end(pid)


if __name__ == "__main__":
    fixture.main()
