#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimctl plan: compares its output with the tree on disk, and checks that it changes nothing."""
import mmap
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import unittest

import fixture
import json_page
import terminal
from contents import fingerprint
from fixture import (Case, DISKS, FS_APPEND_FL, FS_IMMUTABLE_FL, MIB, Proc, USER, command, fill,
                     matrix, scratch, set_flag, write)

# Plan has no backend; the matrix runs once for each filesystem.
plain = (None,)

MUTATING = ("unlink,unlinkat,rmdir,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mkdir,"
            "mkdirat,mknod,mknodat,truncate,ftruncate,fallocate,chmod,fchmod,fchmodat,chown,fchown,"
            "lchown,fchownat,utime,utimes,utimensat,futimesat,setxattr,lsetxattr,fsetxattr,"
            "removexattr,lremovexattr,fremovexattr,fsync,fdatasync,sync,syncfs,mount,umount2,"
            "io_uring_enter")
OPENING = "open,openat,openat2,creat"


def plan(w, *args, status=0, wrapper=(), **kw):
    """Runs it with --json. Returns the array and the whole result."""
    p = Proc([*wrapper, scratch.binary, "plan", "--json", *args], w.dir, **kw)
    w.procs.append(p)
    r = p.finish()
    if r.status != status:
        raise AssertionError("status %d expected: %r" % (status, r))
    return r.json, r


def text(w, *args, **kw):
    p = Proc([scratch.binary, "plan", *args], w.dir, **kw)
    w.procs.append(p)
    return p.finish()


def weigh(top):
    """The blocks that deleting a tree frees, had every file one name or all of them inside."""
    seen, total = set(), 0
    for d, dirs, files in os.walk(top):
        for path in [d] + [os.path.join(d, n) for n in files + dirs]:
            st = os.lstat(path)
            if (st.st_dev, st.st_ino) not in seen:
                seen.add((st.st_dev, st.st_ino))
                total += st.st_blocks * 512
    return total


class Contents(Case):
    @matrix(backends=plain)
    def test_numbers_of_a_small_tree(self, w):
        w.build("""
            tree/one/a
            tree/one/b = some content
            tree/one/two/c
            tree/one/two/three/
            tree/l -> one/a
            tree/p |
        """)
        fill(w.path("tree/many"), 50)
        write(w.path("tree/large"), b"x" * 3 * MIB)
        w.settle()
        self.assertLessEqual(json_page.printed(plan(w, "tree")[0]),
                             json_page.described("plan"))
        (p,), _ = plan(w, "tree")
        self.assertEqual((p["path"], p["verdict"], p["type"]), ("tree", "delete", "directory"))
        self.assertIsNone(p["reason"])
        self.assertTrue(p["complete"] and p["bytes_exact"])
        self.assertEqual({k: p[k] for k in ("entries", "files", "directories", "symlinks", "others",
                                            "unknown", "unread", "depth")},
                         {"entries": 61, "files": 54, "directories": 5, "symlinks": 1, "others": 1,
                          "unknown": 0, "unread": 0, "depth": 3})
        self.assertEqual(p["mean_entries"], 12)
        self.assertEqual(p["most_entries"], 50)
        self.assertEqual(p["largest_directories"][0], {"path": "tree/many", "entries": 50})
        self.assertEqual(p["largest_files"][0]["path"], "tree/large")
        self.assertEqual(p["largest_files"][0]["size"], 3 * MIB)
        self.assertEqual(p["bytes"], weigh(w.path("tree")))
        self.assertEqual(p["undeletable"], {"entries": 0, "reasons": []})
        self.assertEqual(p["open"]["entries"], 0)
        self.assertEqual(w.run("--dry-run", "--json", "tree").json["entries"], p["entries"])

    @matrix(backends=plain, fs=("ext4", "btrfs", "tmpfs"))
    def test_numbers_of_a_large_tree_are_exact(self, w):
        dice = random.Random(20)
        for d in range(20):
            os.makedirs(w.path("tree", "d%02d" % d))
            base = os.open(w.path("tree", "d%02d" % d), os.O_RDONLY)
            for i in range(300):
                f = os.open("f%d" % i, os.O_CREAT | os.O_WRONLY, dir_fd=base)
                blocks = min(int(dice.paretovariate(1.2)) - 1, 64)
                if blocks:
                    os.posix_fallocate(f, 0, blocks * 4096)
                os.close(f)
            os.close(base)
        w.settle()
        (p,), _ = plan(w, "tree")
        self.assertEqual((p["entries"], p["files"], p["directories"]), (6021, 6000, 21))
        self.assertTrue(p["bytes_exact"])
        self.assertEqual(p["bytes"], weigh(w.path("tree")))

    @matrix(backends=plain, fs=("ext4", "xfs", "btrfs", "tmpfs"))
    def test_hard_links_free_nothing_while_a_name_is_outside(self, w):
        os.makedirs(w.path("tree/sub"))
        for name in ("inside", "outside"):
            write(w.path("tree", name), b"x" * MIB)
        os.link(w.path("tree/inside"), w.path("tree/sub/inside too"))
        os.link(w.path("tree/outside"), w.path("twin"))
        w.settle()
        (p,), _ = plan(w, "tree")
        kept = os.stat(w.path("twin")).st_blocks * 512
        self.assertEqual(p["hard_links"], {"entries": 3, "kept_bytes": kept})
        self.assertEqual(p["bytes"], weigh(w.path("tree")) - kept)
        (p,), _ = plan(w, "twin")
        self.assertEqual((p["bytes"], p["hard_links"]["kept_bytes"]), (0, kept))

    @matrix(backends=plain)
    def test_things_that_are_no_directory(self, w):
        w.build("file = hello\nl -> canary\ndangling -> nowhere\np |")
        os.mknod(w.path("null"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
        w.settle()
        plans, _ = plan(w, "file", "l", "dangling", "p", "null")
        self.assertEqual([(p["type"], p["verdict"], p["entries"], p["depth"]) for p in plans],
                         [(t, "delete", 1, 0) for t in
                          ("file", "symlink", "symlink", "fifo", "character-device")])
        self.assertEqual([(p["files"], p["symlinks"], p["others"]) for p in plans],
                         [(1, 0, 0), (0, 1, 0), (0, 1, 0), (0, 0, 1), (0, 0, 1)])
        self.assertEqual(plans[0]["bytes"], os.stat(w.path("file")).st_blocks * 512)

    @matrix(backends=plain, fs=("ext4", "tmpfs"))
    def test_names_are_shown_escaped(self, w):
        name = b"a\nb\x1b[31m\xff"
        os.mkdir(os.path.join(os.fsencode(w.dir), name))
        write(os.path.join(os.fsencode(w.dir), name, name), "x")
        shown = "a\\nb\\x1b[31m\\xff"
        r = text(w, name)
        self.assertEqual(r.out.split("\n")[0], shown + ": would be deleted")
        self.assertIn(shown + "/" + shown, r.out)
        self.assertNotIn("\x1b", r.out)
        (p,), _ = plan(w, name)
        self.assertEqual(p["path"], shown)

    @unittest.skipIf(terminal.pyte is None, "python3-pyte is missing")
    @matrix(backends=plain, fs=("ext4",))
    def test_no_word_is_cut_at_the_edge_of_a_terminal(self, w):
        w.build("tree/f = 1\ntree/twin => tree/f")
        r = text(w, w.path("tree"))
        self.assertGreater(max(map(len, r.out.splitlines())), 80)
        t = terminal.Terminal([scratch.binary, "plan", w.path("tree")], {}, columns=80, lines=60)
        try:
            t.finish()
        finally:
            t.close()
        self.assertEqual(t.text().split(), r.out.split())

    @matrix(backends=plain, fs=("tmpfs",))
    def test_deep_with_few_descriptors(self, w):
        fd = os.open(w.dir, os.O_RDONLY)
        for _ in range(5000):
            os.mkdir("d", dir_fd=fd)
            down = os.open("d", os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = down
        os.close(os.open("leaf", os.O_CREAT, dir_fd=fd))
        os.close(fd)
        (p,), _ = plan(w, "d", wrapper=("prlimit", "--nofile=64"))
        self.assertEqual((p["entries"], p["depth"]), (5001, 5000))
        w.run("d")

    @matrix(backends=plain, fs=("ext4", "tmpfs"))
    def test_interrupted_says_so(self, w):
        w.build("tree/a/f\ntree/b/f\ntree/c/f")
        p = Proc([scratch.binary, "plan", "--json", "tree", "canary"], w.dir, gate="opened:b")
        w.procs.append(p)
        r = p.meet().go_on(signal.SIGINT).finish()
        self.assertEqual(r.status, 3, r)
        (found,) = r.json
        self.assertFalse(found["complete"] or found["bytes_exact"])
        self.assertEqual(found["verdict"], "delete")
        self.assertLess(found["entries"], 7)
        self.assertIn("canary: not looked at: interrupted", r.err)


class Held(Case):
    def check_holder(self, w, how, holder):
        (p,), _ = plan(w, "tree")
        self.assertEqual(p["open"]["entries"], 1, p["open"])
        found = [h for h in p["open"]["holders"] if h["pid"] == holder]
        self.assertEqual([(h["path"], h["how"]) for h in found], [("tree/sub/f", how)])
        self.assertTrue(p["open"]["complete"])
        return found[0]

    @matrix(backends=plain)
    def test_open_file(self, w):
        w.build("tree/sub/f = content\ntree/g")
        w.settle()
        with open(w.path("tree/sub/f"), "rb"):
            found = self.check_holder(w, "open", os.getpid())
            with open("/proc/self/comm") as f:
                self.assertEqual(found["command"], f.read().strip())
            r = text(w, "tree")
            self.assertIn("tree/sub/f: open in %s (%d)" % (found["command"], os.getpid()), r.out)
        (p,), _ = plan(w, "tree")
        self.assertEqual(p["open"]["entries"], 0)

    @matrix(backends=plain, fs=("ext4", "xfs", "btrfs", "tmpfs"))
    def test_mapped_file(self, w):
        w.build("tree/sub/f = content")
        with open(w.path("tree/sub/f"), "r+b") as f:
            mapping = mmap.mmap(f.fileno(), 0)
        # Python keeps a descriptor beside the mapping: the child gives it up.
        pid = os.fork()
        if pid == 0:
            os.closerange(3, 256)
            signal.pause()
        try:
            mapping.close()
            self.check_holder(w, "mapped", pid)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    @matrix(backends=plain, fs=("ext4", "btrfs"))
    def test_known_by_another_name_to_its_holder(self, w):
        """A process in a mount namespace of its own, as in a container."""
        w.build("tree/sub/f = content")
        os.mkdir(w.path("elsewhere"))
        script = "mount --bind %s/tree %s/elsewhere && exec 3<%s/elsewhere/sub/f && echo && exec cat"
        child = subprocess.Popen(["unshare", "-m", "sh", "-c", script % ((w.dir,) * 3)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            child.stdout.readline()
            self.check_holder(w, "open", child.pid)
        finally:
            child.stdin.close()
            child.wait()
            child.stdout.close()

    @matrix(backends=plain, fs=("ext4",))
    def test_file_behind_a_loop_device(self, w):
        os.makedirs(w.path("tree"))
        with open(w.path("tree/image"), "wb") as f:
            f.truncate(MIB)
        device = command("losetup", "--find", "--show", w.path("tree/image")).strip()
        try:
            (p,), _ = plan(w, "tree")
            self.assertIn({"path": "tree/image", "how": "loop-device", "pid": None,
                           "command": os.path.basename(device)}, p["open"]["holders"])
        finally:
            command("losetup", "-d", device)

    @matrix(backends=plain, fs=("tmpfs",))
    def test_says_when_it_may_not_see_all(self, w):
        w.build("tree/f")
        os.chmod(w.path("tree"), 0o777)
        (p,), _ = plan(w, "tree", user=USER)
        self.assertFalse(p["open"]["complete"])


class Obstacles(Case):
    def reasons(self, p):
        return {r["path"]: r["reason"] for r in p["undeletable"]["reasons"]}

    @matrix(backends=plain, fs=DISKS)
    def test_immutable_and_append_only(self, w):
        w.build("tree/free\ntree/fixed\ntree/log\ntree/dir/in it\ntree/dir/and this")
        flags = {"tree/fixed": FS_IMMUTABLE_FL, "tree/log": FS_APPEND_FL, "tree/dir": FS_IMMUTABLE_FL}
        for name, flag in flags.items():
            set_flag(w.path(name), flag)
        try:
            (p,), _ = plan(w, "tree")
            dry = w.run("--dry-run", "tree")
            self.assertEqual(dry.status, 0, dry)
        finally:
            for name, flag in flags.items():
                set_flag(w.path(name), flag, on=False)
        self.assertEqual(p["verdict"], "partly")
        self.assertEqual(p["undeletable"]["entries"], 5)
        found = self.reasons(p)
        self.assertEqual(sorted(found), ["tree/dir", "tree/fixed", "tree/log"])
        self.assertIn("immutable", found["tree/fixed"])
        self.assertIn("immutable", found["tree/dir"])
        self.assertIn("append-only", found["tree/log"])

    @matrix(backends=plain, fs=("ext4", "tmpfs"))
    def test_plan_reports_missing_rights(self, w):
        w.build("""
            tree/mine/f
            tree/theirs/a
            tree/theirs/b
            tree/sticky/mine
            tree/sticky/theirs
            tree/closed/secret
            tree/empty/
        """)
        for name in ("", "tree", "tree/mine", "tree/mine/f", "tree/sticky/mine"):
            os.chown(w.path(name), USER, USER)
        os.chmod(w.path("tree/sticky"), 0o1777)
        os.chmod(w.path("tree/closed"), 0o700)
        (p,), _ = plan(w, "tree", user=USER)
        self.assertEqual(p["verdict"], "partly")
        found = self.reasons(p)
        self.assertEqual(sorted(found), ["tree/closed", "tree/sticky/theirs", "tree/theirs"])
        self.assertIn("no write permission", found["tree/theirs"])
        self.assertIn("sticky", found["tree/sticky/theirs"])
        self.assertIn("ermission denied", found["tree/closed"])
        self.assertEqual((p["undeletable"]["entries"], p["unread"]), (4, 1))
        self.assertFalse(p["bytes_exact"])
        (p,), _ = plan(w, "tree/theirs/a", user=USER)
        self.assertEqual(p["verdict"], "blocked")
        (p,), _ = plan(w, "tree")
        self.assertEqual((p["verdict"], p["undeletable"]["entries"]), ("delete", 0))

    @matrix(backends=plain, fs=("ext4", "tmpfs"))
    def test_refused_and_missing(self, w):
        w.build("ok/f\nl -> ok\nholds/mount/\nsource/x")
        w.bind("source", "holds/mount")
        before = fingerprint(w.path("canary"))
        cases = {"/": "refused", "/usr": "refused", "holds/mount": "refused", "holds": "refused",
                 "l/f": "refused", "ok/..": "refused", "": "refused", "nope": "missing"}
        for path, verdict in cases.items():
            found, r = plan(w, path, "ok", status=1)
            self.assertEqual([p["verdict"] for p in found], [verdict, "delete"], r)
            self.assertEqual(sorted(found[0]), ["path", "reason", "verdict"])
            self.assertEqual(found[0]["path"], path)
            self.assertIn("reclaimctl: %s: %s" % (path or "''", found[0]["reason"]), r.err)
        r = text(w, "holds/mount")
        self.assertEqual((r.status, r.out),
                         (1, "holds/mount: would be refused: is a mount point\n"))
        self.assertEqual(before, fingerprint(w.path("canary")))


class Around(Case):
    @matrix(backends=plain, fs=DISKS)
    def test_filesystem_and_device(self, w):
        w.build("tree/f")
        (p,), _ = plan(w, "tree")
        fs = p["filesystem"]
        self.assertEqual((fs["type"], fs["mount_point"]), (w.fs, scratch.filesystem(w.fs)))
        self.assertIn("rw", fs["options"].split(","))
        self.assertFalse(fs["discard"])
        vfs = os.statvfs(w.dir)
        self.assertEqual(fs["size_bytes"], vfs.f_blocks * vfs.f_bsize)
        device = fs["devices"][0]
        self.assertEqual("/dev/" + device["name"], fs["source"])
        rdev = os.stat(fs["source"]).st_rdev
        self.assertEqual(device["number"], "%d:%d" % (os.major(rdev), os.minor(rdev)))
        self.assertTrue(device["top"])
        self.assertTrue(device["backing_file"].endswith("/" + w.fs + ".img"), device)
        with open("/sys/block/%s/queue/rotational" % device["name"]) as f:
            self.assertEqual(device["rotating"], f.read().strip() == "1")
        with open("/sys/block/%s/queue/discard_max_bytes" % device["name"]) as f:
            self.assertEqual(device["discard_max_bytes"], int(f.read()))
        self.assertTrue(any(d["leaf"] for d in fs["devices"]))

    @matrix(backends=plain)
    def test_strategy_is_what_a_run_takes(self, w):
        w.build("tree/f")
        (p,), _ = plan(w, "tree")
        self.assertEqual(p["strategy"]["name"],
                         w.run("--dry-run", "--json", "tree").json["strategy"])
        self.assertTrue(p["strategy"]["reason"])

    @matrix(backends=plain, fs=("ext4-discard",))
    def test_discard_decides_the_strategy(self, w):
        os.makedirs(w.path("tree"))
        with open(w.path("tree/large"), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, 300 * MIB)
        (p,), _ = plan(w, "tree")
        self.assertTrue(p["filesystem"]["discard"])
        self.assertIn("ascending order of blocks", p["strategy"]["name"])
        self.assertEqual(p["strategy"]["lanes"], 1)
        self.assertEqual(p["large_files"], 1)
        self.assertIn("from the start", p["strategy"]["large_files"])
        r = text(w, "tree")
        self.assertRegex(r.out, r"Devices: loop\d+ .* discards up to ")
        self.assertRegex(r.out, r"Large files: 1 of 256.0 MiB or more: freed in steps")

    @matrix(backends=plain, fs=("btrfs",))
    def test_subvolumes_are_counted(self, w):
        command("btrfs", "subvolume", "create", w.path("sv"))
        w.build("sv/d/f = content\nplain/f")
        command("btrfs", "subvolume", "snapshot", w.path("sv"), w.path("sv/inside"))
        command("btrfs", "subvolume", "create", w.path("sv/d/more"))
        try:
            plans, _ = plan(w, "sv", "sv/d", "plain")
            self.assertEqual([p["filesystem"]["subvolumes"] for p in plans], [3, 1, 0])
            self.assertIn("3 btrfs subvolumes", text(w, "sv").out)
        finally:
            for name in ("sv/d/more", "sv/inside", "sv"):
                command("btrfs", "subvolume", "delete", w.path(name))

    @matrix(backends=plain, fs=("overlay",))
    def test_overlay_unlinks_whole(self, w):
        w.build("tree/f = content")
        w.settle()
        (p,), _ = plan(w, "tree")
        self.assertEqual(p["filesystem"]["type"], "overlay")
        self.assertIn("unlinked whole", p["strategy"]["large_files"])


class Harmless(Case):
    @matrix(backends=plain)
    def test_plan_changes_nothing(self, w):
        w.build("tree/sub/f = content\ntree/l -> sub\ntree/h => tree/sub/f\ntree/p |")
        fill(w.path("tree/many"), 5000)
        w.settle()
        before = fingerprint(w.dir)
        plan(w, "tree", "canary/file")
        self.assertEqual(text(w, "tree").status, 0)
        quiet = text(w, "-q", "tree")
        self.assertEqual((quiet.status, quiet.out, quiet.err), (0, "", ""))
        self.assertEqual(before, fingerprint(w.dir))

    @matrix(backends=plain, fs=("ext4", "btrfs", "tmpfs", "overlay"))
    def test_plan_makes_no_mutating_call(self, w):
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        w.build("tree/sub/f = content\ntree/l -> sub\ntree/h => tree/sub/f\ntree/p |")
        w.settle()
        log = os.path.join(w.top, "log")
        plan(w, "tree", wrapper=("strace", "-f", "-qq", "-o", log, "-e",
                                 "trace=%s,%s,fcntl" % (MUTATING, OPENING)),
             env={"ASAN_OPTIONS": "detect_leaks=0"})
        with open(log) as f:
            # The thread sanitizer opens and removes a file of its own.
            lines = [line for line in f.read().split("\n") if "/tsan." not in line]
        self.assertTrue(any("openat2(" in line for line in lines), "nothing was traced")
        for line in lines:
            call = re.sub(r"^\d+ +", "", line).split("(")[0]
            self.assertNotIn(call, MUTATING.split(","), line)
            self.assertNotRegex(line, "O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|F_SETLEASE")

    @matrix(backends=plain, fs=("tmpfs",))
    def test_usage(self, w):
        self.assertEqual(text(w).status, 2)
        self.assertEqual(text(w, "--dry-run", "x").status, 2)


if __name__ == "__main__":
    fixture.main()
