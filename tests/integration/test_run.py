#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What `reclaimctl run` does on an ordinary day, what it says, and how it ends."""
import os
import pty
import re
import resource
import signal
import stat
import subprocess

import fixture
from contents import big_file, fingerprint
from fixture import DISKS, MIB, USER, Case, build, command, fill, matrix, scratch, write

FEW = ("ext4", "btrfs", "tmpfs", "overlay")


def weigh(*paths):
    """(entries, bytes) of trees: blocks of each inode whose last name lies in them, once."""
    inodes, entries = {}, 0
    for top in paths:
        found = [top]
        for d, dirs, files in os.walk(top):
            found += [os.path.join(d, n) for n in dirs + files]
        entries += len(found)
        for path in found:
            st = os.lstat(path)
            seen = inodes.setdefault(st.st_ino, [0, st])
            seen[0] += 1
    return entries, sum(st.st_blocks * 512 for n, st in inodes.values()
                        if stat.S_ISDIR(st.st_mode) or n == st.st_nlink)


def own(path, user=USER):
    for d, dirs, files in os.walk(path):
        for n in [d] + [os.path.join(d, f) for f in files + dirs]:
            os.chown(n, user, user, follow_symlinks=False)


class Results(Case):
    TREE = """
        tree/a/one = 1
        tree/a/out => outside
        tree/b/link -> ../a
        tree/b/fifo |
        tree/b/c/d/e/
        tree/b/.hidden
        single
    """

    def make(self, w):
        write(w.path("outside"), "x" * 5000)
        w.build(self.TREE)
        for i in range(6):  # few: a directory of XFS gives blocks back as it empties
            write(w.path("tree/a/sized%d" % i), os.urandom(i * 15000))
        w.settle()

    @matrix()
    def test_json_agrees_with_what_was_there(self, w):
        self.make(w)
        entries, size = weigh(w.path("tree"), w.path("single"))
        if w.fs == "overlay":
            size = None  # link counts and blocks of two layers
        for dry in (True, False):
            r = w.run("--json", *(["--dry-run"] if dry else []), "tree", "single")
            self.assertEqual(r.status, 0, r)
            self.assertEqual(r.err, "")
            j = r.json
            self.assertEqual(j["entries"], entries, r)
            self.assertEqual((j["errors"], j["skipped"], j["dry_run"]), (0, 0, dry), r)
            self.assertEqual(j["backend"], w.backend, r)
            self.assertIn(w.backend, j["strategy"])
            self.assertIsInstance(j["elapsed_usec"], int)
            if size is not None:
                self.assertEqual(j["bytes"], size, r)
        self.check_gone(w, r, "outside")

    @matrix(fs=DISKS + ("tmpfs",))
    def test_json_counts_hard_links_once(self, w):
        write(w.path("one"), "x" * 50000)
        os.mkdir(w.path("tree"))
        for i in range(5):
            os.link(w.path("one"), w.path("tree/name%d" % i))
        os.unlink(w.path("one"))
        w.settle()
        entries, size = weigh(w.path("tree"))
        r = w.run("--json", "tree")
        self.check_gone(w, r)
        self.assertEqual((r.json["entries"], r.json["bytes"]), (entries, size), r)

    @matrix(fs=DISKS + ("tmpfs",))
    def test_json_counts_large_directories(self, w):
        fill(w.path("tree"), 2000)
        w.settle()
        entries, size = weigh(w.path("tree"))
        r = w.run("--json", "tree")
        self.check_gone(w, r)
        self.assertEqual((r.json["entries"], r.json["bytes"]), (entries, size), r)

    @matrix(latency=("off",))
    def test_json_for_speed(self, w):
        self.make(w)
        entries, _ = weigh(w.path("tree"), w.path("single"))
        r = w.run("--json", "tree", "single")
        self.check_gone(w, r, "outside")
        self.assertEqual(r.json["entries"], entries)
        self.assertEqual(r.json["bytes_from"], "statfs")

    @matrix(fs=("tmpfs",), latency=("off",))
    def test_json_for_speed_counts_nothing_twice(self, w):
        fixture.write(w.path("single"), b"x" * MIB)
        r = w.run("--json", "single")
        self.check_gone(w, r)
        self.assertEqual(r.json["bytes"], MIB, r)

    @matrix(fs=("tmpfs",))
    def test_output_forms(self, w):
        for args, check in (([], lambda r: self.assertIn("Deleted 2 entries", r.out)),
                            (["-q"], lambda r: self.assertEqual((r.out, r.err), ("", ""))),
                            (["--json=pretty"], lambda r: self.assertIn('\n  "entries": 2', r.out)),
                            (["--json=off"], lambda r: self.assertIn("Deleted", r.out)),
                            (["-q", "--json"], lambda r: self.assertEqual(r.json["entries"], 2)),
                            (["--progress=off"], lambda r: self.assertEqual(r.err, "")),
                            (["--progress=on"], lambda r: self.assertIn("Deleted 2", r.out))):
            w.build("tree/f")
            r = w.run(*args, "tree")
            self.check_gone(w, r)
            check(r)

    @matrix(fs=("tmpfs",), backends=("threads",))
    def test_progress_bar_on_a_terminal(self, w):
        for term, args, bar in (("xterm", [], True), ("xterm", ["--progress=off"], False), ("xterm", ["-q"], False),
                                ("xterm", ["--progress=on"], True), ("dumb", [], False)):
            fill(w.path("tree"), 3000)
            master, slave = pty.openpty()
            p = subprocess.Popen(w.words(*args, "tree"), cwd=w.dir, stderr=slave, stdout=subprocess.DEVNULL,
                                 env=dict(os.environ, TERM=term))
            os.close(slave)
            shown = b""
            try:
                while True:
                    shown += os.read(master, 65536)
            except OSError:
                pass
            os.close(master)
            self.assertEqual(p.wait(), 0, shown)
            self.assertEqual((b"entries" in shown, b"\033" in shown), (bar, bar), (term, args, shown))
            self.assertFalse(w.exists("tree"))

    @matrix(fs=("tmpfs",), backends=(None,))
    def test_wrong_usage(self, w):
        w.build("tree/f")
        for words, why in ((["run"], "no PATH"), (["run", "--nonsense", "tree"], "nonsense"),
                           (["run", "--backend=fast", "tree"], "auto, uring or threads"),
                           (["run", "--latency=banana", "tree"], "--latency"),
                           (["run", "--json=xml", "tree"], "short, pretty"),
                           (["run", "--progress=maybe", "tree"], "auto, on or off"),
                           (["run", "--files-from"], "files-from"), (["delete", "tree"], "no such command: see"),
                           (["lst"], "did you mean list?"), (["resore", "-h"], "did you mean restore?"),
                           (["tree"], "no such command"), ([], "no command")):
            r = fixture.Proc([scratch.binary] + words, w.dir).finish()
            self.assertEqual(r.status, 2, (words, r))
            self.assertIn(why, r.err)
            self.assertTrue(r.err.startswith("reclaimctl: "), r.err)
            self.assertEqual(r.out, "")
        for words in (["--help"], ["run", "--help"], ["run", "-h", "tree"], ["--version"], ["run", "--version", "tree"]):
            r = fixture.Proc([scratch.binary] + words, w.dir).finish()
            self.assertEqual((r.status, r.err), (0, ""), (words, r))
            self.assertIn("reclaimctl", r.out)
        self.assertEqual(w.left(), ["tree", "tree/f"])

    @matrix(fs=("tmpfs",))
    def test_missing_names_on_the_command_line(self, w):
        w.build("a")
        r = w.run("missing")
        self.assertEqual(r.status, 1, r)
        self.assertIn("reclaimctl: missing: does not exist", r.err)
        r = w.run("missing", "a")
        self.assertEqual(r.status, 3, r)
        self.assertEqual(w.left(), [])
        self.assertEqual(w.run("no/such/dir").status, 1)

    @matrix(fs=("tmpfs",))
    def test_refused_beside_good_says_so(self, w):
        """All or nothing, and the user is told, whatever kind of refusal it was."""
        w.build("a\nlink -> canary")
        for bad in ("link/file", "..", ".", "x" * 300, ""):
            r = self.check_refused(w, ["--", "a", bad], "", name=bad or "''")
            self.assertIn("nothing was deleted", r.err, bad)

    @matrix(fs=("tmpfs",))
    def test_full_output_is_a_failure(self, w):
        w.build("tree/f")
        with open("/dev/full", "w") as full:
            p = subprocess.run(w.words("tree"), cwd=w.dir, stdout=full, stderr=subprocess.DEVNULL)
        self.assertEqual(p.returncode, 3)


class Lists(Case):
    @matrix(latency=("auto", "off"))
    def test_separators(self, w):
        for args, sep in (([], "\n"), (["-0"], "\0"), (["--null"], "\0")):
            w.build("a\nd/e/f\nd/e/g\nd/h/i\nkeep\nd/keep")
            write(w.path("b c"))
            names = ["a", "b c", "d/e", "d/h/i", w.path("d/e/g")]
            with open(w.path("list"), "w") as f:
                f.write(sep.join(names) + (sep if args else ""))
            if sep == "\0":
                write(w.path("two\nlines"))
                with open(w.path("list"), "a") as f:
                    f.write("two\nlines")
            r = w.run("--files-from=list", *args)
            self.check_gone(w, r, "keep", "d", "d/keep", "d/h", "list")

    @matrix(fs=("tmpfs",))
    def test_standard_input(self, w):
        w.build("a\nb\nlist = a")
        with open(w.path("list")) as f:
            self.check_gone(w, w.run("--files-from=-", stdin=f), "b", "list")

    @matrix()
    def test_missing_names_are_counted(self, w):
        w.build("a\nd/b")
        write(w.path("list"), "a\nmissing\nd/b\nd/missing\nno/such/dir/x\nno/such/dir/y\n")
        r = w.run("--json", "--files-from=list")
        self.assertEqual(r.status, 0, r)
        self.assertEqual(r.json["entries"], 2)
        self.assertEqual(r.json["skipped_why"], {"missing": 4}, r)
        self.assertEqual(w.left(), ["d", "list"])

    @matrix()
    def test_directories_in_a_list_are_trees(self, w):
        w.build("d/t1/f\nd/t1/sub/g\nd/t2/\nd/f\nd/keep/x\nlist = d/t1")
        write(w.path("list"), "d/t1\nd/t2/\nd/f\n")
        self.check_gone(w, w.run("--files-from=list"), "list", "d", "d/keep", "d/keep/x")

    @matrix(fs=("tmpfs",))
    def test_lists_that_cannot_be_had(self, w):
        w.build("a")
        self.check_refused(w, ["--files-from=missing", "a"], "cannot be read", name="missing")
        self.check_refused(w, ["--files-from=canary", "a"], "cannot be read", name="canary")
        write(w.path("empty"))
        self.assertEqual(w.run("--files-from=empty", "-q").status, 0)

    @matrix(fs=("ext4", "xfs", "btrfs", "tmpfs"), latency=("off",))
    def test_a_hundred_thousand_names(self, w):
        n = 100000 if w.fs == "tmpfs" else 20000
        fill(w.path("d"), n + 500)
        write(w.path("list"), "".join("d/f%05d\n" % i for i in range(n)))
        r = w.run("--json", "--files-from=list")
        self.assertEqual(r.status, 0, r)
        self.assertEqual(r.json["entries"], n)
        self.assertEqual(sorted(os.listdir(w.path("d"))), ["f%05d" % i for i in range(n, n + 500)])

    @matrix(fs=("ext4", "btrfs", "tmpfs"), latency=("off",))
    def test_a_hundred_directories(self, w):
        each = 1000 if w.fs == "tmpfs" else 100
        names = []
        for d in range(100):
            fill(w.path("d%d" % d), each + 5)
            names += ["d%d/f%05d" % (d, i) for i in range(each)]
        names = names[::2] + names[1::2]  # not one directory after the other
        write(w.path("list"), "\n".join(names))
        # Fewer descriptors than directories.
        r = w.run("--json", "--files-from=list",
                  preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        self.assertEqual(r.status, 0, r)
        self.assertEqual(r.json["entries"], 100 * each)
        for d in range(100):
            self.assertEqual(sorted(os.listdir(w.path("d%d" % d))), ["f%05d" % i for i in range(each, each + 5)])


class DryRun(Case):
    MUTATES = re.compile(r"\b(unlink|unlinkat|rmdir|rename\w*|truncate|ftruncate|fallocate|mkdir\w*|link|linkat|"
                         r"symlink\w*|mknod\w*|ch(own|mod)\w*|fch(own|mod)\w*|l?chown|utime\w*|futimes\w*|"
                         r"\w*setxattr\w*|\w*removexattr|creat|mount|umount\d?|copy_file_range|sendfile)\(")

    @matrix(latency=("auto", "off"))
    def test_28_no_mutating_system_call(self, w):
        w.build(Results.TREE.replace("tree/a/out => outside", ""))
        if w.fs in DISKS:
            big_file(w.path("tree/big"))
        if w.fs == "btrfs":
            command("btrfs", "-q", "subvolume", "create", w.path("tree/subvolume"))
            write(w.path("tree/subvolume/f"))
        fill(w.path("tree/many"), 300)
        write(w.path("list"), "\n".join("tree/many/f%05d" % i for i in range(100)))
        trace = os.path.join(scratch.dir, "trace")
        for args in (["tree", "single"], ["--files-from=list"]):
            before = fingerprint(w.dir)
            r = w.run("--dry-run", *args, env={"ASAN_OPTIONS": "detect_leaks=0"},
                      wrapper=["strace", "-f", "-qq", "-o", trace, "-e", "trace=all"])
            self.assertEqual(r.status, 0, r)
            self.assertIn("Would delete", r.out)
            self.assertEqual(before, fingerprint(w.dir))
            with open(trace, errors="replace") as f:
                # The thread sanitizer makes, and removes, a file of its own.
                lines = [l for l in f.read().split("\n") if "/tsan.rodata." not in l]
            self.assertTrue(any("getdents64" in l or "statx(" in l for l in lines))
            for l in lines:
                self.assertIsNone(self.MUTATES.search(l), l)
                if re.search(r"\bopen(at2?)?\(", l) and "O_TMPFILE" not in l:
                    self.assertNotRegex(l, r"O_CREAT|O_TRUNC|O_WRONLY|O_RDWR", l)
                self.assertNotRegex(l, r"ioctl\(.*(SNAP_DESTROY|SUBVOL|0x9415|SETFLAGS)", l)
                self.assertNotRegex(l, r"io_uring_enter\(\d+, [1-9]", l)
                self.assertNotIn("F_SETLEASE", l)


class Ends(Case):
    """How a run that cannot do everything ends."""

    @matrix(latency=("auto", "off"))
    def test_interrupted(self, w):
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            w.build("first")
            for d in "abcdef":  # what the last one has left is there
                fill(w.path("tree", d), 1000)
            p = w.at_gate("opened:tree", "--json", "first", "tree")
            r = p.go_on(sig).finish()
            self.assertEqual(r.status, 3, r)
            # The lanes run on for the moment that it takes the main thread to see the signal.
            left = w.left()
            self.assertEqual(left[0], "tree", r)
            self.assertEqual(r.json["entries"] + len(left), 6000 + 8, r)
            self.assertGreater(len(left), 1000, r)

    @matrix(fs=("tmpfs",))
    def test_interrupted_before_anything(self, w):
        w.build("tree/a")
        fill(w.path("tree"), 3000)
        r = w.at_gate("descend:tree", "--json", "tree").go_on(signal.SIGINT).finish()
        self.assertIn(r.status, (1, 3), r)
        self.assertTrue(w.exists("tree"))

    @matrix(fs=("ext4",))
    def test_interrupted_between_filesystems(self, w):
        other = os.path.join(scratch.filesystem("tmpfs"), "other")
        build(other, "t/f")
        w.build("tree/a")
        try:
            r = w.at_gate("opened:tree", "tree", other + "/t").go_on(signal.SIGINT).finish()
            self.assertNotEqual(r.status, 0, r)
            self.assertTrue(os.path.exists(other + "/t/f"))
        finally:
            command("rm", "-rf", other)

    @matrix(fs=("ext4",))
    def test_several_filesystems(self, w):
        tops = []
        for fs in ("tmpfs", "xfs", "btrfs"):
            tops.append(os.path.join(scratch.filesystem(fs), "several"))
            build(tops[-1], "t/f\nt/g/h\nkeep")
        w.build("tree/a")
        try:
            r = w.run("--json", "tree", *[t + "/t" for t in tops])
            self.check_gone(w, r)
            self.assertEqual(r.json["entries"], 2 + 4 * len(tops))
            for t in tops:
                self.assertEqual(os.listdir(t), ["keep"])
        finally:
            command("rm", "-rf", *tops)

    @matrix(latency=("auto", "off"))
    def test_not_authorised(self, w):
        w.build("theirs/f\ntheirs/sub/g")
        before = fingerprint(w.dir)
        for args in (["theirs"], ["theirs/f"], ["theirs/f", "theirs/sub"]):
            r = w.run(*args, user=USER)
            self.assertEqual(r.status, 4, r)
            self.assertIn("Permission denied", r.err)
            self.assertEqual(before, fingerprint(w.dir))
        os.chmod(w.path("theirs"), 0o700)
        r = w.run("theirs/f", user=USER)
        self.assertIn(r.status, (1, 4), r)

    @matrix()
    def test_04_others_directory_in_ones_own(self, w):
        w.build("mine/f\nmine/sub/g\nmine/theirs/precious\nmine/void/")
        own(w.path("mine"))
        os.chown(w.path("mine/theirs"), 0, 0)
        os.chown(w.path("mine/void"), 0, 0)
        r = w.run("mine", user=USER)
        self.assertEqual(r.status, 3, r)
        self.assertEqual(w.left("mine"), ["theirs", "theirs/precious"], r)
        self.assertIn("mine/theirs/precious", r.err)

    @matrix(latency=("auto", "off"))
    def test_unreadable_directories(self, w):
        w.build("mine/closed/f\nmine/empty/\nmine/readonly/f\nmine/g\nmine/sub/h")
        own(w.path("mine"))
        os.chmod(w.path("mine/closed"), 0)
        os.chmod(w.path("mine/empty"), 0)
        os.chmod(w.path("mine/readonly"), 0o555)
        r = w.run("mine", user=USER)
        self.assertEqual(r.status, 3, r)
        self.assertIn("reclaimctl: mine/closed: cannot open directory: Permission denied", r.err)
        self.assertIn("reclaimctl: mine/readonly/f: cannot remove: Permission denied", r.err)
        # rm removes an empty directory that it cannot read.
        self.assertEqual(w.left("mine"), ["closed", "closed/f", "readonly", "readonly/f"], r)

    @matrix()
    def test_read_only_mount(self, w):
        w.build("ro/tree/f\nro/g")
        w.bind("ro", "ro")
        command("mount", "-o", "remount,bind,ro", w.path("ro"))
        before = fingerprint(w.dir)
        for path in ("ro/tree", "ro/g"):
            r = w.run(path)
            self.assertEqual(r.status, 1, r)
            self.assertIn("Read-only file system", r.err)
            self.assertEqual(before, fingerprint(w.dir))

    @matrix(latency=("auto", "off"))
    def test_racing_deleters(self, w):
        for i in range(30):
            fill(w.path("tree/d%d/e" % i), 40)
        procs = [w.start("tree") for _ in range(2)]
        for p in procs:
            r = p.finish()
            # One that came when all was over could not take the path in.
            if not (r.status == 1 and "does not exist" in r.err):
                self.assertEqual(r.status, 0, r)
        self.assertEqual(w.left(), [])

    @matrix(fs=FEW)
    def test_deleter_that_comes_in_between(self, w):
        """rm takes away what lies before us."""
        for gate in ("opened:tree", "opened:b", "descend:b", "descend:tree", "unlink:f"):
            w.build("tree/a/x\ntree/b/f\ntree/b/c/g")
            p = w.at_gate(gate, "tree")
            command("rm", "-rf", w.path("tree"))
            r = p.go_on().finish()
            self.assertEqual(w.left(), [], (gate, r))
            self.assertEqual(r.status, 0, (gate, r))

    @matrix(fs=("ext4-nofiletype",), latency=("auto", "off"))
    def test_unknown_types(self, w):
        """ext4 without the filetype feature tells no d_type."""
        w.build("tree/a/b/c/f\ntree/a/g\ntree/l -> a\ntree/p |\ntree/void/\nlist = tree/a/b")
        fill(w.path("tree/many"), 100)
        self.check_gone(w, w.run("--files-from=list"), *[n for n in w.left() if not n.startswith("tree/a/b")])
        self.check_gone(w, w.run("tree"), "list")


class Subvolumes(Case):
    def create(self, w, *names):
        for n in names:
            os.makedirs(os.path.dirname(w.path(n)), exist_ok=True)
            command("btrfs", "-q", "subvolume", "create", w.path(n))
            write(w.path(n, "f"))

    @matrix(fs=("btrfs",), latency=("auto", "off"))
    def test_plain_nested_and_as_root(self, w):
        self.create(w, "tree/s", "tree/d/s", "tree/d/s/nested", "tree/d/s/x/y/nested", "single")
        self.check_gone(w, w.run("tree", "single"))

    @matrix(fs=("btrfs",), latency=("auto", "off"))
    def test_read_only_snapshot(self, w):
        self.create(w, "source")
        os.mkdir(w.path("tree"))
        command("btrfs", "-q", "subvolume", "snapshot", "-r", w.path("source"), w.path("tree/ro"))
        self.check_gone(w, w.run("tree"), "source", "source/f")

    @matrix(fs=("btrfs",), latency=("auto", "off"))
    def test_read_only_snapshot_by_its_name(self, w):
        self.create(w, "source")
        command("btrfs", "-q", "subvolume", "snapshot", "-r", w.path("source"), w.path("single"))
        self.check_gone(w, w.run("single"), "source", "source/f")

    @matrix(fs=("btrfs",), latency=("auto", "off"))
    def test_mounted_elsewhere(self, w):
        self.create(w, "tree/used", "tree/other", "tree/around", "tree/around/used2")
        root = scratch.filesystem("btrfs")
        image = [l.split() for l in open("/proc/self/mounts") if l.split()[1] == root][0][0]
        for n in ("used", "around/used2"):
            os.makedirs(w.path("mnt", n))
            command("mount", "-t", "btrfs", "-o", "subvol=" + os.path.relpath(w.path("tree", n), root),
                    image, w.path("mnt", n))
        whole = ["around", "around/f", "around/used2", "around/used2/f", "other", "other/f", "used", "used/f"]
        r = w.run("tree")
        self.assertEqual(r.status, 1, r)
        self.assertIn("reclaimctl: tree: is mounted elsewhere, or holds what is", r.err)
        self.assertTrue(os.path.exists(w.path("mnt/used/f")))
        self.assertTrue(os.path.exists(w.path("mnt/around/used2/f")))
        self.assertEqual(w.left("tree"), whole, r)

    @matrix(fs=("btrfs",))
    def test_as_a_user(self, w):
        self.create(w, "home/mine/s", "home/mine/s/nested")
        own(w.path("home"))
        self.check_gone(w, w.run("home/mine", user=USER), "home")

    @matrix(fs=("btrfs",))
    def test_24_mount_inside_a_subvolume(self, w):
        self.create(w, "tree/s")
        os.mkdir(w.path("tree/s/m"))
        p = w.at_gate("opened:tree", "tree")
        w.bind("canary", "tree/s/m")
        r = p.go_on().finish()
        self.assertEqual(r.status, 3, r)
        w.canary.check()
        self.assertIn(w.path("tree/s/m"), fixture.mounts())


if __name__ == "__main__":
    fixture.main()
