#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What happens when the tree changes, or is unusual, while it is being walked.

The numbers are those of the negative tests in the safety requirements. A gate stops the program
between looking and acting, so that a race is certain to be lost."""
import ctypes
import fcntl
import os
import re
import resource
import select
import shutil
import socket
import stat
import struct
import subprocess
import threading
import time
import unittest

import fixture
from fixture import Case, DISKS, FULL, command, fill, libc, matrix, scratch, write

FEW = ("ext4", "btrfs", "tmpfs", "overlay")


def descriptors(n):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))


class Swapped(Case):
    @matrix(latency=("auto", "off"))
    def test_08_root_swapped_for_a_symlink(self, w):
        w.build("tree/f\ntree/sub/g")
        p = w.at_gate("descend:tree", "tree")
        os.rename(w.path("tree"), w.path("aside"))
        os.symlink("canary", w.path("tree"))
        r = p.go_on().finish()
        self.assertNotEqual(r.status, 0, r)
        self.assertEqual(w.left(), ["aside", "aside/f", "aside/sub", "aside/sub/g", "tree"], r)

    @matrix()
    def test_08_root_swapped_for_another_directory(self, w):
        w.build("tree/f\nother/precious")
        p = w.at_gate("descend:tree", "tree")
        os.rename(w.path("tree"), w.path("aside"))
        os.rename(w.path("other"), w.path("tree"))
        r = p.go_on().finish()
        self.assertNotEqual(r.status, 0, r)
        self.assertIn("reclaimctl: tree: is no longer what it was", r.err)
        self.assertEqual(w.left(), ["aside", "aside/f", "tree", "tree/precious"], r)

    @matrix(fs=FEW)
    def test_08_any_of_many_roots_swapped(self, w):
        for name in "abcdef":
            w.build("\n".join(n + "/f" for n in "abcdef" if not w.exists(n)) + "\nother/precious")
            p = w.at_gate("descend:" + name, *"abcdef")
            os.rename(w.path(name), w.path("aside"))
            os.rename(w.path("other"), w.path(name))
            r = p.go_on().finish()
            self.assertEqual(r.status, 3, (name, r))
            self.assertEqual(w.left(), sorted(["aside", "aside/f", name, name + "/precious"]), r)
            command("rm", "-rf", w.path("aside"), w.path(name))

    @matrix(latency=("auto", "off"))
    def test_08_named_file_swapped(self, w):
        for swap in ("file", "symlink", "directory"):
            w.build("victim\nsource/precious")
            p = w.at_gate("unlink:victim", "victim")
            os.rename(w.path("victim"), w.path("aside"))
            if swap == "file":
                os.rename(w.path("source/precious"), w.path("victim"))
            elif swap == "symlink":
                os.symlink("canary/file", w.path("victim"))
            else:
                os.rename(w.path("source"), w.path("victim"))
            before = w.left()
            r = p.go_on().finish()
            self.assertNotEqual(r.status, 0, (swap, r))
            self.assertEqual(w.left(), before, (swap, r))
            command("rm", "-rf", w.path("aside"), w.path("victim"), w.path("source"))

    @matrix(latency=("auto", "off"))
    def test_08_swapped_at_depth(self, w):
        w.build("tree/a/b/c/deep/f\ntree/a/b/c/deep/sub/g\ntree/a/b/x\ntree/y")
        p = w.at_gate("descend:deep", "tree")
        os.rename(w.path("tree/a/b/c/deep"), w.path("aside"))
        os.symlink(w.path("canary"), w.path("tree/a/b/c/deep"))
        r = p.go_on().finish()
        self.assertIn(r.status, (0, 3), r)
        self.assertEqual([n for n in w.left() if not n.startswith("tree")],
                         ["aside", "aside/f", "aside/sub", "aside/sub/g"], r)
        self.assertFalse(w.exists("tree/y"), r)

    @matrix(fs=FEW)
    def test_08_file_listed_then_swapped_for_a_directory_link(self, w):
        w.build("tree/name")
        p = w.at_gate("unlink:name", "tree")
        os.rename(w.path("tree/name"), w.path("aside"))
        os.symlink(w.path("canary"), w.path("tree/name"))
        r = p.go_on().finish()
        self.assertIn(r.status, (0, 3), r)
        self.assertTrue(w.exists("aside"))

    @matrix()
    def test_09_ancestor_swapped(self, w):
        w.build("p/q/tree/f\np/q/tree/sub/g")
        p = w.at_gate("descend:tree", "p/q/tree")
        os.rename(w.path("p"), w.path("moved"))
        os.makedirs(w.path("p"))
        os.symlink(w.path("canary"), w.path("p/q"))  # which has a directory "tree", too
        r = p.go_on().finish()
        self.assertEqual(w.left("p"), ["q"], r)
        self.assertEqual(w.left("moved"), ["q"], r)
        self.assertEqual(r.status, 0, r)

    @matrix(fs=FEW)
    def test_09_ancestor_swapped_under_a_list(self, w):
        w.build("p/q/f1\np/q/f2")
        write(w.path("list"), "p/q/f1\np/q/f2\np/q/precious\np/q/file\n")
        p = w.at_gate("unlink:f1", "--files-from=list")
        os.rename(w.path("p"), w.path("moved"))
        os.makedirs(w.path("p"))
        os.symlink(w.path("canary"), w.path("p/q"))
        p.go_on().finish()
        self.assertEqual(w.left("p"), ["q"])


class Moved(Case):
    """10: what is moved out of the tree while it is being deleted survives."""

    @matrix(latency=("auto", "off"))
    def test_10_moved_out_when_opened(self, w):
        w.build("tree/sub/f\ntree/sub/below/g\ntree/x")
        fill(w.path("tree/sub"), 300)
        before = fixture.listing(w.path("tree/sub"))
        p = w.at_gate("opened:sub", "tree")
        os.rename(w.path("tree/sub"), w.path("saved"))
        r = p.go_on().finish()
        self.assertEqual(fixture.listing(w.path("saved")), before, r)
        self.assertEqual(r.status, 3, r)
        self.assertIn("was moved out of the tree", r.err)

    @matrix(latency=("auto", "off"))
    def test_10_moved_out_in_the_middle(self, w):
        # The first of a slice cannot be told beforehand: the directory is small enough for slices
        # of one entry, and the ring takes one at a time anyway.
        fill(w.path("tree/few"), 30)
        w.build("tree/few/below/g")
        p = w.at_gate("unlink:f00011", "tree/few")
        os.rename(w.path("tree/few"), w.path("saved"))
        before = fixture.listing(w.path("saved"))
        r = p.go_on().finish()
        after = fixture.listing(w.path("saved"))
        self.assertIn("below/g", after)
        # What was already on its way when the world changed: one entry a lane, or a ring's window.
        self.assertIn("f00011", after, r)
        if w.backend == "threads":
            self.assertGreaterEqual(len(after), len(before) - 1, r)
        self.assertNotEqual(r.status, 0, r)
        self.assertIn("was moved out of the tree", r.err)

    @matrix()
    def test_10_an_ancestor_moved_out(self, w):
        w.build("tree/a/b/c/f\ntree/a/b/c/g\ntree/a/b/d/h\ntree/a/x")
        p = w.at_gate("opened:c", "tree")
        os.rename(w.path("tree/a"), w.path("saved"))
        before = w.left("saved")
        r = p.go_on().finish()
        after = w.left("saved")
        self.assertIn("b/c/f", after, r)
        self.assertIn("b/c/g", after, r)
        # Of another lane one entry may have been on its way: of a ring's it is until all are handed over.
        self.assertGreaterEqual(len(after), len(before) - 1, r)
        self.assertNotEqual(r.status, 0, r)

    @matrix()
    def test_10_an_ancestor_of_an_emptied_directory_moved_out(self, w):
        # By several lanes, where there are some: they share what lies in it.
        w.build("".join("tree/a/b/d/s%d/f%d\n" % (i % 60, i) for i in range(1200)))
        p = w.at_gate("unlink:d", "tree")
        os.rename(w.path("tree/a"), w.path("saved"))
        r = p.go_on().finish()
        self.assertIn("b/d", w.left("saved"), r)
        self.assertNotEqual(r.status, 0, r)
        self.assertIn("was moved out of the tree", r.err)

    @matrix()
    def test_10_the_root_itself_moved(self, w):
        w.build("tree/a/f\ntree/g\nelsewhere/")
        for gate in ("opened:tree", "opened:a"):
            p = w.at_gate(gate, "tree")
            before = w.left("tree")
            os.rename(w.path("tree"), w.path("elsewhere/tree"))
            r = p.go_on().finish()
            self.assertEqual(w.left("elsewhere/tree"), before, r)
            self.assertNotEqual(r.status, 0, r)
            os.rename(w.path("elsewhere/tree"), w.path("tree"))

    @matrix(fs=FEW)
    def test_10_names_that_look_alike(self, w):
        """A sibling whose name begins like the tree's, or like what the kernel says of the dead."""
        for alike in ("tree2", "tree (deleted)", "tre"):
            w.build("tree/sub/precious1\ntree/sub/precious2")
            p = w.at_gate("opened:sub", "tree")
            os.rename(w.path("tree/sub"), w.path(alike))
            r = p.go_on().finish()
            self.assertEqual(sorted(os.listdir(w.path(alike))), ["precious1", "precious2"], (alike, r))
            command("rm", "-rf", w.path(alike), w.path("tree"))

    @matrix()
    def test_10_moved_within_the_tree(self, w):
        w.build("tree/sub/f\ntree/sub/g\ntree/other/x")
        p = w.at_gate("opened:sub", "tree")
        os.makedirs(w.path("tree/other"), exist_ok=True)  # if it was visited first
        os.rename(w.path("tree/sub"), w.path("tree/other/sub"))
        r = p.go_on().finish()
        self.assertIn(r.status, (0, 3), r)
        if r.status == 0:
            self.assertEqual(w.left(), [])

    @matrix(fs=FEW)
    def test_10_not_moved_at_all(self, w):
        w.build("tree/f")
        p = w.at_gate("unlink:tree", "tree")
        self.check_gone(w, p.go_on().finish())

    @matrix()
    def test_10_moved_out_deeper_than_path_max(self, w):
        os.makedirs(w.path("tree/sub"))
        fd = os.open(w.path("tree/sub"), os.O_RDONLY)
        for i in range(30):
            name = "%03d" % i + "n" * 200
            os.mkdir(name, dir_fd=fd)
            below = os.open(name, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        for f in ("f1", "f2"):
            os.close(os.open(f, os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        try:
            p = w.at_gate("opened:" + name, "tree")
            os.rename(w.path("tree/sub"), w.path("saved"))
            r = p.go_on().finish()
            again = os.open(".", os.O_RDONLY, dir_fd=fd)
            self.assertEqual(sorted(os.listdir(again)), ["f1", "f2"], r)
            os.close(again)
            self.assertNotEqual(r.status, 0, r)
        finally:
            os.close(fd)

    @matrix(fs=FEW)
    def test_10_moved_with_other_lanes_at_work(self, w):
        for i in range(8):
            fill(w.path("tree/d%d" % i), 60)
            fill(w.path("tree/d%d/below" % i), 30)
        p = w.at_gate("opened:d3", "tree")
        os.rename(w.path("tree/d3"), w.path("saved"))
        r = p.go_on().finish()
        self.assertEqual(len(w.left("saved")), 60 + 31, r)
        self.assertEqual(r.status, 3, r)
        self.assertEqual(w.left("tree"), [], r)


class Mounts(Case):
    """24: a bind mount of the same device has the same st_dev, and is not crossed."""

    @matrix()
    def test_24_bind_mount_inside(self, w):
        w.build("tree/sub/\ntree/f")
        w.bind("canary", "tree/sub")
        self.check_refused(w, ["tree"], "holds a mount point")
        self.check_refused(w, ["tree/sub"], "is a mount point")

    @matrix(latency=("auto", "off"))
    def test_24_bind_mount_made_meanwhile(self, w):
        for gate in ("opened:tree", "descend:sub", "descend:tree"):
            w.build("tree/sub/under\ntree/f\ntree/g/h")
            p = w.at_gate(gate, "tree")
            w.bind("canary", "tree/sub")
            r = p.go_on().finish()
            self.assertEqual(r.status, 3, (gate, r))
            self.assertIn("reclaimctl: tree/sub: is a mount point", r.err)
            w.canary.check()
            fixture.unmount(w.path("tree/sub"))
            self.assertEqual(w.left("tree"), ["sub", "sub/under"], (gate, r))

    @matrix(fs=FEW)
    def test_24_mounted_over_when_opened(self, w):
        w.build("tree/sub/under\ntree/f")
        p = w.at_gate("opened:sub", "tree")
        w.bind("canary", "tree/sub")
        r = p.go_on().finish()
        self.assertIn(r.status, (1, 3), r)
        w.canary.check()
        self.assertTrue(os.path.ismount(w.path("tree/sub")) or "tree/sub" in " ".join(fixture.mounts()))

    @matrix(fs=FEW)
    def test_24_file_mounted_on_a_file(self, w):
        w.build("tree/a\ntree/b\ntree/c")
        p = w.at_gate("opened:tree", "tree")
        w.bind("canary/file", "tree/b")
        r = p.go_on().finish()
        self.assertEqual(r.status, 3, r)
        self.assertIn("tree/b", r.err)
        self.assertEqual(w.left("tree"), ["b"], r)

    @matrix(fs=("ext4",))
    def test_24_another_filesystem_inside(self, w):
        w.build("tree/sub/under\ntree/f")
        p = w.at_gate("opened:tree", "tree")
        command("mount", "-t", "tmpfs", "tmpfs", w.path("tree/sub"))
        write(w.path("tree/sub/theirs"))
        r = p.go_on().finish()
        self.assertEqual(r.status, 3, r)
        self.assertEqual(w.left("tree"), ["sub", "sub/theirs"], r)


class Sizes(Case):
    def bounded(self, r):
        if not scratch.sanitized:
            self.assertLessEqual(r.maxrss_kib, 32 << 10)

    @matrix(fs=("tmpfs",), latency=("auto", "off"))
    def test_34_very_deep(self, w):
        levels = 1000000 if FULL else 30000
        os.mkdir(w.path("tree"))
        command(scratch.helper("helper"), "deep", w.path("tree"), levels)
        r = w.run("--json", "tree", preexec=descriptors(64))
        self.check_gone(w, r)
        self.assertEqual(r.json["entries"], levels + 1)
        self.bounded(r)

    @matrix(fs=DISKS + ("overlay",))
    def test_34_deep_everywhere(self, w):
        os.mkdir(w.path("tree"))
        command(scratch.helper("helper"), "deep", w.path("tree"), 1500)
        write(w.path("tree/d/d/d/f"))
        self.check_gone(w, w.run("tree", preexec=descriptors(64)))

    @matrix(fs=("tmpfs", "ext4"), latency=("off",))
    def test_35_very_wide(self, w):
        entries = 5000000 if FULL and w.fs == "tmpfs" else 200000 if w.fs == "tmpfs" else 50000
        os.mkdir(w.path("tree"))
        command(scratch.helper("helper"), "wide", w.path("tree"), entries)
        r = w.run("--json", "tree", preexec=descriptors(64))
        self.check_gone(w, r)
        self.assertEqual(r.json["entries"], entries + 1)
        self.bounded(r)

    @matrix(fs=("xfs", "btrfs", "overlay"))
    def test_35_wide_everywhere(self, w):
        os.mkdir(w.path("tree"))
        command(scratch.helper("helper"), "wide", w.path("tree"), 10000)
        w.settle()
        self.check_gone(w, w.run("tree"))

    @matrix()
    def test_36_producer_refilling(self, w):
        fill(w.path("tree/sub"), 500)
        producer = subprocess.Popen([scratch.helper("helper"), "refill", w.path("tree/sub")])
        try:
            r = w.run("tree", timeout=90)
        finally:
            producer.kill()
            producer.wait()
        self.assertIn(r.status, (0, 3), r)
        if r.status == 0:
            self.assertFalse(w.exists("tree"))
        else:
            self.assertIn("tree/sub", r.err)


class Unusual(Case):
    FLAGS = DISKS + ("tmpfs",)  # overlay passes the flag on to a file that has been copied up

    def flagged(self, w, flag):
        w.build("tree/kept\ntree/other\ntree/sub/gone\ntree/sub2/f\ntree/sub2/g")
        for name in ("tree/kept", "tree/sub2"):
            try:
                fixture.set_flag(w.path(name), flag)
            except OSError as e:
                raise unittest.SkipTest("%s has no such flag: %s" % (w.fs, e))
        try:
            for latency in ("auto", "off"):
                w.latency = latency
                r = w.run("tree")
                # The second time there is nothing left that could go.
                self.assertEqual(r.status, 3 if latency == "auto" else 4, r)
                self.assertRegex(r.err, r"reclaimctl: tree/kept: .*Operation not permitted")
                self.assertRegex(r.err, r"reclaimctl: tree/sub2/f: .*Operation not permitted")
                self.assertEqual(w.left(), ["tree", "tree/kept", "tree/sub2", "tree/sub2/f", "tree/sub2/g"], r)
            self.assertEqual(w.run("tree/kept").status, 4)
        finally:
            for name in ("tree/kept", "tree/sub2"):
                fixture.set_flag(w.path(name), flag, on=False)
        self.check_gone(w, w.run("tree"))

    @matrix(fs=FLAGS)
    def test_41_immutable(self, w):
        self.flagged(w, fixture.FS_IMMUTABLE_FL)

    @matrix(fs=FLAGS)
    def test_41_append_only(self, w):
        self.flagged(w, fixture.FS_APPEND_FL)

    def special(self, w, where):
        w.build("%s/fifo |\n%s/file" % (where, where))
        s = socket.socket(socket.AF_UNIX)
        here = os.open(w.path(where), os.O_RDONLY)
        s.bind("/proc/self/fd/%d/socket" % here)
        os.close(here)
        os.mknod(w.path(where, "char"), 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod(w.path(where, "block"), 0o600 | stat.S_IFBLK, os.makedev(7, 200))
        s.close()

    @matrix(latency=("auto", "off"))
    def test_43_special_files(self, w):
        self.special(w, "tree/sub")
        self.special(w, "roots")
        self.check_gone(w, w.run("tree", *["roots/" + n for n in ("fifo", "socket", "char", "block", "file")]),
                        "roots")

    @matrix(fs=FEW, backends=("threads", "uring"))
    def test_43_never_opened(self, w):
        self.special(w, "tree")
        trace = w.path("trace")
        r = w.run("tree", wrapper=["strace", "-f", "-qq", "-o", trace, "-e", "trace=open,openat,openat2,creat"],
                  env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.assertEqual(r.status, 0, r)
        with open(trace) as f:
            opened = f.read()
        self.assertIn('"tree"', opened)
        for name in ("fifo", "socket", "char", "block"):
            self.assertNotIn('"%s"' % name, opened)


class ListingFails(Case):
    """Fault 8: a directory that cannot be listed is not an empty one."""

    def mounted(self, w, n, *sticks):
        program = scratch.helper("eiofs", subprocess.check_output(
            ["pkg-config", "--cflags", "--libs", "fuse3"], text=True).split())
        os.mkdir(w.path("fuse"))
        p = subprocess.Popen([program, str(n), w.path("log"), w.path("fuse"), *sticks])
        w.procs.append(Daemon(p))
        fixture.until(lambda: w.path("fuse") in fixture.mounts())
        return w.path("fuse/tree")

    @staticmethod
    def unmounted(w):
        fixture.unmount(w.path("fuse"))
        w.procs.pop().kill()
        os.rmdir(w.path("fuse"))
        os.unlink(w.path("log"))

    @matrix(fs=("tmpfs",), backends=("threads", "uring"), latency=("auto", "off"))
    def test_fault_08_eio_while_listing(self, w):
        for n in (0, 1, 7, 20):
            tree = self.mounted(w, n)
            r = w.run(tree)
            self.assertEqual(r.status, 3, (n, r))
            self.assertIn("reclaimctl: %s/bad: cannot list directory: Input/output error" % tree, r.err)
            with open(w.path("log")) as f:
                log = f.read()
            self.assertNotIn("rmdir", log, n)
            for i in range(10):
                self.assertIn("unlink /tree/ok%d\n" % i, log)
            self.assertNotIn("unlink /tree/bad/b%02d" % n, log)
            r = w.run("--dry-run", tree + "/bad")
            self.assertIn(r.status, (1, 3), (n, r))
            # As the root itself.
            r = w.run(tree + "/bad")
            self.assertIn(r.status, (1, 3), (n, r))
            with open(w.path("log")) as f:
                self.assertNotIn("rmdir", f.read(), n)
            self.unmounted(w)

    @matrix(fs=("tmpfs",), backends=("threads", "uring"))
    def test_fault_09_eio_from_unlink(self, w):
        """What cannot be removed is told and stays, with all that is above it; the rest goes."""
        tree = self.mounted(w, 20, "/tree/ok3")
        r = w.run(tree)
        self.assertEqual(r.status, 3, r)
        self.assertIn("reclaimctl: %s/ok3: " % tree, r.err)
        self.assertIn("Input/output error", r.err)
        with open(w.path("log"), encoding="ascii") as f:
            log = f.read()
        for i in range(10):
            self.assertIn("unlink /tree/ok%d\n" % i, log)
        self.assertNotIn("rmdir /tree\n", log)

    @matrix(fs=("tmpfs",), backends=("threads", "uring"), latency=("auto", "off"))
    def test_fault_09_told_when_the_directory_is_synced(self, w):
        # As CephFS may; another directory that stays has nothing more to say.
        for source, stuck, synced, status in (("ceph-fuse", "", True, 0), ("ceph-fuse", "/tree", True, 3),
                                              ("other", "/tree", False, 0)):
            tree = self.mounted(w, 20, stuck, source)
            r = w.run(tree + "/ok3", tree + "/ok4")
            with open(w.path("log"), encoding="ascii") as f:
                log = f.read()
            self.assertEqual(r.status, status, r)
            self.assertEqual("sync /tree\n" in log, synced, log)
            self.assertEqual("may come back" in r.err, status == 3, r)
            for name in ("ok3", "ok4"):
                self.assertFalse(os.path.exists(os.path.join(tree, name)))
            self.unmounted(w)


class Daemon:
    """A helper that a world ends."""

    def __init__(self, popen):
        self.popen = popen

    def kill(self):
        self.popen.kill()
        self.popen.wait()

    def close(self):
        pass


class Order(Case):
    @matrix(fs=("xfs",), backends=("threads",), latency=("off",))
    def test_lanes_stay_near_each_other(self, w):
        """Directories made one after the other lie in one allocation group after the other: the lanes go
        through them side by side, whatever each lane was given at first."""
        if not shutil.which("strace") or len(os.sched_getaffinity(0)) < 2:
            self.skipTest("strace is not installed, or there is only one processor")
        for i in range(60):
            fill(w.path("tree/d%02d" % i), 300)
        trace = os.path.join(scratch.dir, "calls")
        r = w.run("tree", wrapper=["strace", "-f", "-qq", "-o", trace, "-e", "trace=unlinkat,openat2"],
                  env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.check_gone(w, r)
        # In the order in which they are begun: one that a lane has in hand while it is kept from a processor ends late.
        with open(trace, encoding="utf-8", errors="replace") as f:
            begun = list(dict.fromkeys(int(d) for d in re.findall(r'openat2\(\d+, "d(\d+)"', f.read())))
        self.assertEqual(sorted(begun), list(range(60)))
        self.assertLess(max(abs(d - at) for at, d in enumerate(begun)), 20, begun)


def first_block(path):
    """Where a file's first block is, in bytes; 0 if it has none."""
    asked = bytearray(struct.pack("=QQLLLL", 0, (1 << 64) - 1, 0, 0, 1, 0) + bytes(56))
    with open(path, "rb") as f:
        fcntl.ioctl(f, 0xC020660B, asked)  # FS_IOC_FIEMAP
    n, = struct.unpack_from("=L", asked, 20)
    return struct.unpack_from("=Q", asked, 40)[0] if n else 0


class Opens(threading.Thread):
    """Takes its time to allow each open of a file on the same mount, as a virus scanner does."""

    OPEN_PERM, CLASS_CONTENT, ADD, MOUNT, ALLOW = 0x10000, 4, 1, 0x10, 1

    def __init__(self, path, seconds):
        super().__init__(daemon=True)
        self.seconds, self.n = seconds, 0
        self.fd = libc.fanotify_init(self.CLASS_CONTENT, os.O_RDONLY)
        if self.fd < 0 or libc.fanotify_mark(self.fd, self.ADD | self.MOUNT, ctypes.c_uint64(self.OPEN_PERM),
                                             -100, os.fsencode(path)) < 0:
            raise unittest.SkipTest("opens cannot be watched here")
        self.ends, self.end = os.pipe()

    def run(self):
        while self.ends not in select.select([self.fd, self.ends], [], [])[0]:
            events = os.read(self.fd, 24)
            event, = struct.unpack_from("=i", events, 16)
            time.sleep(self.seconds)
            os.write(self.fd, struct.pack("=iI", event, self.ALLOW))
            os.close(event)
            self.n += 1

    def close(self):
        os.write(self.end, b"x")
        self.join()
        for fd in (self.fd, self.ends, self.end):
            os.close(fd)


class Opened:
    """Whether a file is opened from now on (inotify(7)), other than to name it (O_PATH)."""
    OPEN = 0x20

    def __init__(self, path):
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(path), self.OPEN) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def seen(self):
        try:
            data = os.read(self.fd, 4096)
        except BlockingIOError:
            return False
        # The first event; the last is that the file is gone.
        return bool(struct.unpack_from("iI", data)[1] & self.OPEN)

    def close(self):
        os.close(self.fd)


class Places(Case):
    """On ext4 with discard the files of a directory go in the order of their blocks."""

    def scattered(self, w, n=60):
        """Written back in another order than they were made. Returns their names by where they are."""
        names = ["f%03d" % i for i in range(n)]
        os.mkdir(w.path("tree"))
        for name in names:
            write(w.path("tree", name), "x" * 9000)
        for name in sorted(names, key=lambda name: name[::-1]):
            fd = os.open(w.path("tree", name), os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
        found = sorted(names, key=lambda name: first_block(w.path("tree", name)))
        self.assertNotEqual(found, names)
        return found

    def gone(self, w, *args, **kw):
        """Runs, and returns the calls, and the names that were unlinked."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        trace = w.path("calls")
        r = w.run(*args, wrapper=["strace", "-f", "-qq", "-o", trace, "-e", "trace=unlinkat,openat,openat2,open"],
                  env={"ASAN_OPTIONS": "detect_leaks=0"}, **kw)
        with open(trace, encoding="utf-8", errors="replace") as f:
            text = f.read()
        os.unlink(trace)
        self.check_gone(w, r)
        return text, re.findall(r'unlinkat\(\d+, "([^"]+)", 0', text)

    @matrix(fs=("ext4-discard",), backends=("threads",))
    def test_files_go_in_the_order_of_their_blocks(self, w):
        placed = self.scattered(w)
        w.build("tree/empty =\ntree/fifo |\ntree/link -> /nowhere")
        calls, gone = self.gone(w, "tree")
        # What has no blocks comes first, and what is no file is not opened.
        self.assertEqual(sorted(gone[:3]), ["empty", "fifo", "link"])
        self.assertEqual(gone[3:], placed)
        for name in ("fifo", "link"):
            self.assertFalse([l for l in calls.split("\n") if "open" in l and '"%s"' % name in l])

    @matrix(fs=("ext4-discard",), backends=("threads",), latency=("off",))
    def test_nothing_is_opened_that_is_not_looked_at(self, w):
        placed = self.scattered(w)
        calls, gone = self.gone(w, "tree")
        self.assertEqual(gone, sorted(placed))
        self.assertNotIn('"f000", O_', calls)

    @matrix(fs=("ext4-discard",), backends=("threads",))
    def test_43_fifo_in_place_of_a_file(self, w):
        self.scattered(w)
        p = w.at_gate("place:f030", "tree")
        os.unlink(w.path("tree/f030"))
        os.mkfifo(w.path("tree/f030"))
        opened = Opened(w.path("tree/f030"))
        self.addCleanup(opened.close)
        self.check_gone(w, p.go_on().finish())
        self.assertFalse(opened.seen())

    @matrix(fs=("ext4-discard",), backends=("threads",))
    def test_what_may_not_be_read_goes_as_it_would_without(self, w):
        placed = self.scattered(w)
        os.chmod(w.path("tree"), 0o777)
        os.chmod(w.path(), 0o777)
        for name in placed[::2]:
            os.chmod(w.path("tree", name), 0)
        _, gone = self.gone(w, "tree", user=1234)
        self.assertEqual(gone, sorted(placed[::2]) + placed[1::2])

    @matrix(fs=("ext4-discard",), backends=("threads",))
    def test_no_more_are_opened_where_that_takes_long(self, w):
        self.scattered(w, 400)
        opens = Opens(w.dir, 0.002)
        opens.start()
        try:
            r = w.run("tree")
        finally:
            opens.close()
        self.check_gone(w, r)
        self.assertGreaterEqual(opens.n, 64)
        self.assertLess(opens.n, 200)


if __name__ == "__main__":
    fixture.main()
