#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Large files: when they are shrunk in steps, and when they must not be touched.

The numbers are those of the negative tests in the safety requirements."""
import ctypes
import glob
import mmap
import os
import re
import signal
import subprocess
import threading
import time

import fixture
from contents import DIGEST_BLOCK, big_file, checksum, digest
from fixture import Case, DISKS, MIB, TIMEOUT, matrix, write
from settings import setting

SHRINKING = DISKS + ("ext4-discard",)
EVERY = SHRINKING + ("tmpfs", "overlay")
FIRST_STEP = 64 * MIB  # at most: where there is foreign I/O it is less


def held_fd(pid, top):
    """The program's own descriptor of the file it is shrinking: no name leads to that."""
    for link in glob.glob("/proc/%d/fd/*" % pid):
        try:
            st = os.stat(link)
        except OSError:
            continue
        if st.st_dev == os.stat(top).st_dev and st.st_nlink == 0 and st.st_size > 64 * MIB:
            return link
    raise AssertionError("nothing is being shrunk")


class Opener(threading.Thread):
    """Opens a file in the background, because the lease makes it wait."""

    def __init__(self, path, flags=os.O_RDONLY):
        super().__init__(daemon=True)
        self.path, self.flags, self.fd, self.error = path, flags, None, None
        self.start()
        # Until it has the file, or waits for the lease.
        fixture.until(lambda: self.fd or self.error or fixture.is_blocked_by_lease(self.native_id))

    def run(self):
        try:
            self.fd = os.open(self.path, self.flags)
        except OSError as e:
            self.error = e


class Twins(Case):
    @matrix(fs=EVERY)
    def test_17_hard_link_elsewhere(self, w):
        w.build("tree/")
        content = big_file(w.path("tree/big"))
        os.link(w.path("tree/big"), w.path("twin"))
        rootcontent = big_file(w.path("root"))
        os.link(w.path("root"), w.path("roottwin"))
        w.settle()
        self.check_gone(w, w.run("tree", "root"), "twin", "roottwin")
        for name, expected in (("twin", content), ("roottwin", rootcontent)):
            with open(w.path(name), "rb") as f:
                self.assertEqual(digest(f), expected)

    @matrix(fs=SHRINKING)
    def test_17_linked_while_the_lease_is_held(self, w):
        content = big_file(w.path("big"))
        p = w.at_gate("shrink:big", "big")
        os.link(w.path("big"), w.path("twin"))
        r = p.go_on().finish()
        self.check_gone(w, r, "twin")
        with open(w.path("twin"), "rb") as f:
            self.assertEqual(digest(f), content)

    @matrix(fs=SHRINKING)
    def test_17_renamed_while_the_lease_is_held(self, w):
        for replaced in (False, True):
            content = big_file(w.path("big"))
            p = w.at_gate("shrink:big", "big")
            os.rename(w.path("big"), w.path("saved"))
            if replaced:
                write(w.path("big"), "another")
            r = p.go_on().finish()
            with open(w.path("saved"), "rb") as f:
                self.assertEqual(digest(f), content, r)
            os.unlink(w.path("saved"))
            self.assertEqual(w.left(), [], r)

    @matrix(fs=SHRINKING)
    def test_17_both_names_in_the_tree(self, w):
        w.build("tree/a/\ntree/b/")
        big_file(w.path("tree/a/big"))
        os.link(w.path("tree/a/big"), w.path("tree/b/twin"))
        r = w.run("--json", "tree")
        self.check_gone(w, r)
        self.assertEqual(r.json["entries"], 5)
        self.assertGreaterEqual(r.json["bytes"], 256 * MIB)
        self.assertLess(r.json["bytes"], 257 * MIB)


class Held(Case):
    @matrix(fs=EVERY)
    def test_18_open_elsewhere(self, w):
        content = big_file(w.path("big"))
        with open(w.path("big"), "rb") as f:
            self.check_gone(w, w.run("big"))
            self.assertEqual(digest(f), content)

    @matrix(fs=SHRINKING)
    def test_18_open_for_writing_elsewhere(self, w):
        content = big_file(w.path("big"))
        with open(w.path("big"), "r+b") as f:
            self.check_gone(w, w.run("big"))
            self.assertEqual(digest(f), content)

    @matrix(fs=SHRINKING + ("tmpfs",))
    def test_18_mapped_elsewhere(self, w):
        for writable in (False, True):
            content = big_file(w.path("big"))
            fd = os.open(w.path("big"), os.O_RDWR)
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            kept = Mapping(fd, access)
            os.close(fd)
            self.check_gone(w, w.run("big"))
            self.assertEqual(kept.digest(), content)
            kept.close()

    @matrix(fs=("overlay",), latency=("auto", "off"))
    def test_38_overlay_mapped(self, w):
        """Overlay grants leases on files that are mapped: nothing is ever truncated there."""
        for lower in (False, True):
            content = big_file(w.path("big"))
            if lower:
                w.settle()
            fd = os.open(w.path("big"), os.O_RDONLY)
            kept = Mapping(fd, mmap.ACCESS_READ)
            os.close(fd)
            self.check_gone(w, w.run("big"))
            self.assertEqual(kept.digest(), content)
            kept.close()

    @matrix(fs=EVERY)
    def test_39_running_binary(self, w):
        with open("/bin/sleep", "rb") as f:
            program = f.read()
        with open(w.path("sleep"), "wb") as f:
            f.write(program)
            f.flush()
            os.posix_fallocate(f.fileno(), len(program), 256 * MIB)
        os.chmod(w.path("sleep"), 0o755)
        p = subprocess.Popen([w.path("sleep"), "3600"])
        try:
            while os.readlink("/proc/%d/exe" % p.pid) != w.path("sleep"):
                time.sleep(0.01)
            with open(w.path("sleep"), "rb") as f:
                content = digest(f)
            self.check_gone(w, w.run("sleep"))
            self.assertIsNone(p.poll())
            with open("/proc/%d/exe" % p.pid, "rb") as f:
                self.assertEqual(digest(f), content)
        finally:
            p.kill()
            p.wait()


class Mapping:
    """A mapping whose descriptor is closed; Python's own mmap would keep a duplicate."""

    def __init__(self, fd, access):
        self.size = os.fstat(fd).st_size
        call = fixture.libc.mmap
        call.restype, call.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                                        ctypes.c_int, ctypes.c_long]
        prot = 3 if access == mmap.ACCESS_WRITE else 1
        self.at = call(None, self.size, prot, mmap.MAP_SHARED, fd, 0)
        if self.at in (None, 2 ** 64 - 1):
            raise OSError("mmap")

    def digest(self):
        return checksum(self.blocks())

    def blocks(self):
        # Through /proc, where a page that is gone is an error and not a SIGBUS.
        with open("/proc/self/mem", "rb", buffering=0) as mem:
            for off in range(0, self.size, DIGEST_BLOCK):
                wanted = min(DIGEST_BLOCK, self.size - off)
                part = os.pread(mem.fileno(), wanted, self.at + off)
                yield part
                if len(part) < wanted:
                    return

    def close(self):
        fixture.libc.munmap(ctypes.c_void_p(self.at), ctypes.c_size_t(self.size))


class Steps(Case):
    @matrix(fs=SHRINKING)
    def test_shrunk_in_steps(self, w):
        w.build("tree/")
        big_file(w.path("tree/big"))
        write(w.path("tree/small"))
        blocks = os.stat(w.path("tree/big")).st_blocks
        p = w.at_gate("shrink:step", "--json", "tree")
        self.assertFalse(w.exists("tree/big"))  # the name goes first
        st = os.stat(held_fd(p.pid, w.dir))
        self.assertEqual(st.st_nlink, 0)
        freed = (blocks - st.st_blocks) * 512
        self.assertGreater(freed, 0)
        self.assertLessEqual(freed, FIRST_STEP + MIB)
        if w.fs == "ext4-discard":
            self.assertEqual(st.st_size, 256 * MIB)  # from the head, where TRIM wants it
        else:
            self.assertLess(st.st_size, 256 * MIB)
            self.assertGreaterEqual(st.st_size, 256 * MIB - FIRST_STEP)
        r = p.go_on().finish()
        self.check_gone(w, r)
        self.assertEqual(r.json["entries"], 3)

    @matrix(fs=SHRINKING)
    def test_file_is_shrunk_in_short_steps(self, w):
        big_file(w.path("big"), 512)
        trace = w.path("trace")
        r = w.run("big", wrapper=["strace", "-f", "-qq", "-o", trace, "-e", "trace=ftruncate,fallocate,fcntl"],
                  env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.check_gone(w, r, "trace")
        with open(trace) as f:
            lines = f.read().split("\n")
        steps = [n for n, l in enumerate(lines) if "ftruncate(" in l or "fallocate(" in l]
        self.assertGreaterEqual(len(steps), 3, lines)
        for a, b in zip([0] + steps, steps):
            self.assertTrue(any("F_GETLEASE" in l for l in lines[a:b]), "a step without a look at the lease")
        self.assertTrue(any("F_SETLEASE" in l for l in lines[:steps[0]]))

    @matrix(fs=EVERY)
    def test_small_and_sparse_files_are_unlinked_whole(self, w):
        """Smaller than any step, on tmpfs and on overlay, and for speed only."""
        big_file(w.path("big"), 300 if w.fs in ("tmpfs", "overlay") else 1)
        with open(w.path("sparse"), "wb") as f:
            f.truncate(1 << 40 if w.fs != "ext4" else 1 << 38)
        trace = w.path("trace")
        r = w.run("big", "sparse", wrapper=["strace", "-f", "-qq", "-o", trace, "-e", "trace=ftruncate,truncate,fallocate",
                                             "-e", "signal=none"], env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.check_gone(w, r, "trace")
        # strace also writes down all calls that it has no name for.
        with open(trace) as f:
            self.assertEqual([line for line in f if re.search("truncate|fallocate", line)], [])

    @matrix(fs=SHRINKING)
    def test_40_lease_broken_in_mid_truncate(self, w):
        big_file(w.path("big"))
        with open(w.path("big"), "rb") as f:
            tail = digest(f, FIRST_STEP)
        with open(w.path("big"), "rb") as f:
            head = f.read(256 * MIB - FIRST_STEP)
        p = w.at_gate("shrink:step", "big")
        opener = Opener(held_fd(p.pid, w.dir))
        self.assertIsNone(opener.fd, "the lease was not held")
        began = time.monotonic()
        r = p.go_on().finish()
        opener.join(TIMEOUT)
        # It was not taken away by the kernel, which gives it 45 s.
        self.assertLess(time.monotonic() - began, 10)
        self.assertIsNone(opener.error)
        self.assertIsNotNone(opener.fd)
        self.check_gone(w, r)
        with open(opener.fd, "rb") as f:
            if w.fs == "ext4-discard":
                self.assertEqual(os.fstat(f.fileno()).st_size, 256 * MIB)
                self.assertEqual(digest(f, FIRST_STEP), tail)
            else:
                left = f.read()
                self.assertLess(len(left), 256 * MIB)
                self.assertEqual(left[:len(head)], head)

    @matrix(fs=SHRINKING)
    def test_40_lease_broken_before_the_first_step(self, w):
        content = big_file(w.path("big"))
        p = w.at_gate("shrink:big", "big")
        opener = Opener(w.path("big"))
        self.assertIsNone(opener.fd, "the lease was not held")
        r = p.go_on().finish()
        opener.join(TIMEOUT)
        self.check_gone(w, r)
        self.assertIsNone(opener.error)
        with open(opener.fd, "rb") as f:
            self.assertEqual(digest(f), content)

    @matrix(fs=SHRINKING)
    def test_40_interrupted_while_shrinking(self, w):
        """SIGINT between two steps: ends at once, the kernel frees the rest."""
        w.build("zz/f\nzz/g")
        big_file(w.path("big"), 512)
        p = w.at_gate("shrink:step", "big", "zz")
        r = p.go_on(signal.SIGINT).finish()
        self.assertEqual(r.status, 3, r)
        self.assertIn("Stopped by a signal", r.out)
        self.assertFalse(w.exists("big"))

    @matrix(fs=DISKS)
    def test_fifo_in_place_of_a_large_file(self, w):
        """What is looked at and what is opened are the same: a FIFO would block, a device act."""
        w.build("tree/")
        big_file(w.path("tree/big"))
        p = w.at_gate("unlink:big", "tree")
        os.unlink(w.path("tree/big"))
        os.mkfifo(w.path("tree/big"))
        r = p.go_on().finish()
        self.check_gone(w, r)


class Frozen(Case):
    """Alone: how long a lease is respected is the whole system's setting."""
    @matrix(fs=("ext4", "xfs"))
    def test_fault_22_frozen_while_the_lease_is_held(self, w):
        """For so long that the kernel takes the lease away: the process that opened the file has it alone."""
        content = big_file(w.path("big"))
        with setting("/proc/sys/fs/lease-break-time", "1"):
            p = w.at_gate("shrink:big", "big")
            opener = Opener(w.path("big"))
            opener.join(TIMEOUT)
        self.assertIsNotNone(opener.fd, "the lease was not taken away")
        self.check_gone(w, p.go_on().finish())
        with open(opener.fd, "rb") as f:
            self.assertEqual(digest(f), content)


if __name__ == "__main__":
    fixture.main()
