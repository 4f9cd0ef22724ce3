#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""btrfs with discard=async discards minutes after a deletion: these discards are held to small steps, and
what the administrator had set comes back however that ends."""
import contextlib
import glob
import os
import signal
import socket
import struct
import subprocess
import time

import daemon_fixture
import fixture
from fixture import Case, matrix, scratch, until

ONE = (None,)
FS = ("btrfs-async",)
PROCESS = "reclaim-discards"
LARGE = 512 << 20
USUAL = {"iops_limit": 1000, "max_discard_size": 64 << 20}


class Filesystem:
    """The limits of the btrfs that a directory is on, and who holds them."""

    def __init__(self, directory):
        self.uuid = fixture.command("findmnt", "-no", "UUID", "-T", directory).strip()
        self.sysfs = "/sys/fs/btrfs/%s/discard" % self.uuid
        self.kept = "/run/reclaim-discards." + self.uuid

    def set(self, **limits):
        for name, value in limits.items():
            with open(os.path.join(self.sysfs, name), "w", encoding="ascii") as f:
                f.write(str(value))

    def limits(self):
        found = {}
        for name in USUAL:
            with open(os.path.join(self.sysfs, name), encoding="ascii") as f:
                found[name] = int(f.read())
        return found

    def held(self):
        limits = self.limits()
        return limits["iops_limit"] <= 100 and limits["max_discard_size"] < USUAL["max_discard_size"]

    def holders(self):
        """Those that have its file open."""
        found = set()
        for fd in glob.glob("/proc/[0-9]*/fd/*"):
            with contextlib.suppress(OSError):
                if os.readlink(fd) == self.kept:
                    found.add(int(fd.split("/")[2]))
        return found

    def is_free(self):
        return not os.path.exists(self.kept) and not self.holders()

    def end(self, sig=signal.SIGTERM):
        for pid in self.holders():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sig)
        until(lambda: not self.holders())


class Discards(Case):
    def filesystem(self, w):
        fs = Filesystem(w.dir)
        if not os.path.isdir(fs.sysfs):
            self.skipTest("this kernel has no asynchronous discards")
        fs.set(**USUAL)
        self.addCleanup(fs.set, **USUAL)
        self.addCleanup(fs.end)
        return fs

    def daemon(self):
        daemon = daemon_fixture.Daemon().start()
        self.addCleanup(daemon.stop)
        return daemon

    def delete(self, w, *options, size=LARGE, **kw):
        with open(w.path("large"), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, size)
        w.settle()
        r = w.run(*options, "large", **kw)
        self.check_gone(w, r)
        return r

    def held(self, w):
        """After a deletion that is over."""
        fs = self.filesystem(w)
        self.delete(w)
        until(fs.held)
        return fs

    @matrix(fs=FS, backends=ONE)
    def test_limits_are_held_after_the_run_and_put_back(self, w):
        fs = self.filesystem(w)
        fs.set(iops_limit=777)
        self.delete(w)
        until(fs.held)
        self.assertEqual(len(fs.holders()), 1)
        fs.end()
        self.assertEqual(fs.limits(), dict(USUAL, iops_limit=777))
        self.assertTrue(fs.is_free())

    @matrix(fs=FS, backends=ONE)
    def test_holder_ends_when_all_is_discarded(self, w):
        fs = self.held(w)
        until(fs.is_free)
        self.assertEqual(fs.limits(), USUAL)
        with open(fs.sysfs + "/discardable_bytes", encoding="ascii") as f:
            self.assertLess(int(f.read()), LARGE // 16)

    @matrix(fs=FS, backends=ONE)
    def test_a_little_is_left_to_the_kernel(self, w):
        fs = self.filesystem(w)
        self.delete(w, size=16 << 20)
        self.assertTrue(fs.is_free())
        self.assertEqual(fs.limits(), USUAL)

    @matrix(fs=FS, backends=ONE)
    def test_no_settle_leaves_them(self, w):
        fs = self.filesystem(w)
        self.delete(w, "--no-settle")
        self.assertTrue(fs.is_free())

    @matrix(fs=FS, backends=ONE)
    def test_killed_holder_is_recovered_by_the_next(self, w):
        fs = self.held(w)
        fs.end(signal.SIGKILL)
        self.delete(w)
        until(fs.holders)
        fs.end()
        self.assertEqual(fs.limits(), USUAL)

    @matrix(fs=FS, backends=ONE)
    def test_killed_holder_is_recovered_by_the_daemon(self, w):
        fs = self.held(w)
        fs.end(signal.SIGKILL)
        self.daemon()
        until(fs.is_free)
        self.assertEqual(fs.limits(), USUAL)

    @matrix(fs=FS, backends=ONE)
    def test_discards_of_a_user_are_held_by_the_daemon(self, w):
        fs = self.filesystem(w)
        daemon = self.daemon()
        os.chmod(w.dir, 0o777)
        r = self.delete(w, "-v", user=fixture.USER, env={"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(daemon.socket)})
        until(fs.held)
        self.assertNotIn("by the kernel", r.err)
        daemon.stop()
        self.assertTrue(fs.held(), "it is not the daemon's any more")

    @matrix(fs=FS, backends=ONE)
    def test_what_the_administrator_sets_stays(self, w):
        fs = self.held(w)
        fs.set(iops_limit=500)
        until(fs.is_free)
        self.assertEqual(fs.limits(), dict(USUAL, iops_limit=500))

    @matrix(fs=FS, backends=ONE)
    def test_run_does_not_wait_for_it_and_it_holds_nothing(self, w):
        """Neither the terminal nor a directory of the one that deleted."""
        fs = self.filesystem(w)
        r = self.delete(w, "-v")
        self.assertIn(PROCESS, r.err)
        until(fs.held)
        pid, = fs.holders()
        self.assertEqual(os.readlink("/proc/%d/cwd" % pid), "/")
        opened = {os.readlink(fd) for fd in glob.glob("/proc/%d/fd/*" % pid)}
        self.assertFalse([path for path in opened if w.dir in path or path.startswith(("/dev/pts", "pipe:"))])
        with open("/proc/%d/status" % pid, encoding="ascii") as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)

    @matrix(fs=FS, backends=ONE)
    def test_another_user_is_refused_nothing(self, w):
        """The limits are root's: the deletion goes on without."""
        fs = self.filesystem(w)
        os.mkdir(w.path("d"), 0o777)
        os.chown(w.path("d"), fixture.USER, fixture.USER)
        with open(w.path("d/large"), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, LARGE)
        os.chown(w.path("d/large"), fixture.USER, fixture.USER)
        r = w.run("d/large", user=fixture.USER)
        self.check_gone(w, r, "d")
        self.assertTrue(fs.is_free())
        self.assertEqual(fs.limits(), USUAL)

    @matrix(fs=FS, backends=ONE)
    def test_sysfs_that_cannot_be_written(self, w):
        fs = self.filesystem(w)
        self.delete(w, wrapper=["unshare", "-m", "sh", "-c", "mount -o remount,bind,ro /sys && exec \"$@\"", "sh"])
        until(fs.is_free)
        self.assertEqual(fs.limits(), USUAL)

    @matrix(fs=FS, backends=ONE)
    def test_daemon_holds_them(self, w):
        fs = self.filesystem(w)
        with open(w.path("large"), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, LARGE)
        w.settle()
        daemon = self.daemon()
        c = daemon.client()
        self.assertEqual(c.wait(c.submit(w.path("large"))), "done")
        until(fs.held)
        # It goes on after the daemon, as what is to be discarded does.
        daemon.stop()
        self.assertTrue(fs.held())
        fs.end()
        self.assertEqual(fs.limits(), USUAL)


class Holder(Case):
    """The program, spoken to by hand."""

    def start(self, request):
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(ours.close)
        program = os.path.join(scratch.dir, PROCESS)
        with its:
            if request:
                ours.send(request)
            fd = its.fileno()

            def move():
                os.dup2(fd, 3)
            subprocess.run([program], preexec_fn=move, pass_fds=(3,), check=True, timeout=fixture.TIMEOUT)
        return ours

    @staticmethod
    def request(uuid, target=1000, disks=()):
        return struct.pack("@40sQQ16Q", uuid, target, len(disks), *disks, *([0] * (16 - len(disks))))

    def gone(self, sock):
        sock.settimeout(fixture.TIMEOUT)
        self.assertEqual(sock.recv(16), b"")

    def test_bad_requests_end_it(self):
        scratch.open()
        for request in (b"x", self.request(b"../../../tmp"), self.request(b"x" * 40), self.request(b"1" * 39),
                        self.request(b"", disks=(1,)), self.request(b"12345678-1234-1234-1234-123456789abc")[:-1]):
            with self.subTest(request=request):
                sock = self.start(request)
                # One without a name for the filesystem is as none at all.
                sock.shutdown(socket.SHUT_WR)
                self.gone(sock)
        self.assertFalse(glob.glob("/run/reclaim-discards.*tmp*"))

    def test_by_hand(self):
        scratch.open()
        r = subprocess.run([os.path.join(scratch.dir, PROCESS)], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(r.returncode, 1)
        self.assertIn(b"is started by", r.stderr)

    @matrix(fs=FS, backends=ONE)
    def test_second_one_waits_for_its_turn(self, w):
        fs = Filesystem(w.dir)
        self.addCleanup(fs.end)
        fs.set(**USUAL)
        disk = os.stat(fixture.command("findmnt", "-no", "SOURCE", "-T", w.dir).strip()).st_rdev
        sockets = [self.start(self.request(fs.uuid.encode(), disks=(disk,))) for _ in range(2)]
        until(fs.held)
        first = fs.holders()
        fs.end()
        until(fs.held)
        self.assertFalse(fs.holders() & first)
        fs.end()
        self.assertEqual(fs.limits(), USUAL)
        for sock in sockets:
            self.gone(sock)


if __name__ == "__main__":
    fixture.main()
