#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which paths are taken, which are refused, and that a refusal changes nothing.

The numbers are those of the negative tests in the safety requirements."""
import os
import pwd

import fixture
from fixture import Case, build, matrix

ONE = ("tmpfs", "ext4")  # where the filesystem makes no difference
BIDI = "bidi\u202etxt"


class Paths(Case):
    @matrix()
    def test_05_symlink_in_the_middle(self, w):
        w.build("""
            link -> canary
            real/up -> ../canary/sub
            real/file
        """)
        why = "symbolic link on the way"
        self.check_refused(w, ["link/file"], why)
        self.check_refused(w, ["link/sub/inner"], why)
        self.check_refused(w, ["real/up/inner"], why)
        self.check_refused(w, [w.path("link/sub")], why)
        # A good path beside it does not go either.
        self.check_refused(w, ["real/file", "link/file"], why, "nothing was deleted")
        fixture.write(w.path("list"), "real/file\nlink/file\n")
        self.check_refused(w, ["--files-from=list"], why, name="link")

    @matrix(latency=("auto", "off"))
    def test_06_final_symlink(self, w):
        w.build("""
            todir -> canary
            tofile -> canary/file
            dangling -> nowhere
            tree/todir -> ../canary
            tree/tofile -> ../canary/file
            tree/sub/absolute -> /usr
            tree/sub/self -> self
        """)
        w.settle()
        self.check_gone(w, w.run("todir", "tofile", "dangling", "tree"))

    @matrix(fs=("tmpfs",))
    def test_protected_by_the_configuration(self, w):
        """It counts for what reclaimctl deletes itself, too; and in doubt nothing is deleted."""
        w.build("""
            keep/sub/file
            other/file
            conf/reclaimd.yaml
        """)
        conf = "--configuration-directory=" + w.path("conf")
        fixture.write(w.path("conf/reclaimd.yaml"), "protect: [%s]\n" % w.path("keep"))
        for path in ("keep", "keep/sub", "keep/sub/file"):
            self.check_refused(w, [conf, path], "is protected by the configuration")
        p = fixture.Proc([fixture.scratch.binary, "plan", conf, "keep/sub"], w.dir).finish()
        self.assertIn("is protected by the configuration", p.out + p.err, p)
        fixture.write(w.path("conf/reclaimd.yaml"), "protect: {}\n")
        self.check_refused(w, [conf, "other"], "the configuration has errors", "nothing was deleted",
                           name=w.path("conf"))
        fixture.write(w.path("conf/reclaimd.yaml"), "protect: [%s]\n" % w.path("keep"))
        self.check_refused(w, [conf + "-none", "other"], "cannot be read", "nothing was deleted",
                           name=w.path("conf-none"))
        r = w.run(conf, "other")
        self.assertEqual(r.status, 0, r)
        self.assertEqual(w.left("keep"), ["sub", "sub/file"], r)

    @matrix(fs=ONE)
    def test_07_symlink_with_trailing_slash(self, w):
        w.build("""
            todir -> canary
            tofile -> canary/file
            file
            dir/f
        """)
        for slash in ("/", "//", "/////"):
            self.check_refused(w, ["todir" + slash], "symbolic link", name="todir")
            self.check_refused(w, ["tofile" + slash], "symbolic link", name="tofile")
            self.check_refused(w, ["file" + slash], "no directory", name="file")
        # The root of a filesystem is looked at closely, and other directories must be, too.
        for where in ("", "below/"):
            build(w.dir, where + "l -> " + w.path("canary"))
            fixture.write(w.path("list"), where + "l/\n")
            w.run("--files-from=list")
        self.check_gone(w, w.run("dir//", "todir", "tofile", "file", "list"),
                        *[n for n in w.left() if n in ("l", "below", "below/l")])

    @matrix(fs=ONE)
    def test_14_dots(self, w):
        w.build("""
            a/b/f
            b/f
        """)
        dotdot = "contains '..'"
        for path in ("..", "../", "a/..", "a/../b", "a/../../b", "../" + os.path.basename(w.dir), "/..",
                     "/../", w.path("a/../b"), "a/b/.."):
            self.check_refused(w, ["--", path], dotdot)
            self.check_refused(w, ["--", "b", path], dotdot)
            fixture.write(w.path("list"), "b\n%s\n" % path)
            self.check_refused(w, ["--files-from=list"], dotdot, name=path)
        for path in (".", "./", ".///", "a/.", "a/./", "././."):
            self.check_refused(w, [path], "ends in '.'")
        os.unlink(w.path("list"))
        # What only looks like them is an ordinary name.
        w.build("...\n..a\n.b\na/..c/f")
        self.check_gone(w, w.run("...", "./..a", ".//.b", "./a/./b", "a//..c/", "a", "b"))

    @matrix(fs=("tmpfs",))
    def test_19_root_in_every_spelling(self, w):
        for path in ("/", "//", "///", "/.", "/./", "/././/", "/..", "/../..", "/proc/self/root",
                     "/proc/self/root/", "/proc/1/root", "/proc/self/cwd/../..", "/proc/self/root/etc",
                     "/dev/fd/../root"):
            r = w.run("--dry-run", path)
            self.assertEqual(r.status, 1, (path, r))
            self.assertIn("reclaimctl: ", r.err)
        self.check_refused(w, ["--dry-run", "/"], "is the root of everything")
        self.check_refused(w, ["--dry-run", "--", "canary", "//"], "is the root of everything")
        fixture.write(w.path("list"), "canary\n/\n")
        self.check_refused(w, ["--dry-run", "--files-from=list"], "is the root of everything", name="/")

    @matrix(fs=("tmpfs",), backends=("threads",))
    def test_20_system_and_homes(self, w):
        known = ["/usr", "/usr/", "/usr/bin", "/usr/bin/env", "/etc", "/etc/passwd", "/boot", "/bin", "/sbin",
                 "/lib", "/lib64", "/home", "/root", "/var", "/var/lib", "/var/tmp", "/tmp", "/opt",
                 "/srv", "/mnt", "/media", "/run", "/dev", "/dev/null", "/proc", "/proc/self", "/sys",
                 "/sys/kernel"]
        known += [p.pw_dir for p in pwd.getpwall() if p.pw_dir.startswith("/")]
        for path in known:
            if not os.path.lexists(path):
                continue
            r = w.run("--dry-run", path)
            self.assertEqual(r.status, 1, (path, r))
            self.assertRegex(r.err, "system|home|protected|mount|root of|symbolic link|pseudo", path)

    @matrix(fs=("tmpfs",), backends=("threads",))
    def test_20_another_view_of_the_system(self, w):
        w.build("view/")
        fixture.command("mount", "--bind", "/", w.path("view"))
        for path in ("view/usr", "view/etc", "view/etc/passwd", "view/usr/bin/env", "view/home", "view"):
            if os.path.lexists(w.path(path)):
                r = w.run("--dry-run", path)
                self.assertEqual(r.status, 1, (path, r))

    @matrix(fs=ONE, backends=("threads",))
    def test_20_home_of_an_account(self, w):
        w.build("homes/u/f\nhomes/u/d/f\nhomes/v/f\nother/")
        with open("/etc/passwd") as f:
            text = f.read()
        text += "u:x:64001:64001::%s:/bin/false\n" % w.path("homes/u")
        fixture.write(w.path("passwd"), text)
        fixture.command("mount", "--bind", w.path("passwd"), "/etc/passwd")
        try:
            self.check_refused(w, ["homes/u"], "account's home directory")
            self.check_refused(w, [w.path("homes/u/")], "account's home directory", name=w.path("homes/u"))
            self.check_refused(w, ["homes"], "holds what is protected")
            self.check_refused(w, ["homes/v", "homes/u"], "account's home directory")
            w.build("list = homes/u")
            self.check_refused(w, ["--files-from=list"], "account's home directory", name="homes/u")
            w.bind("homes/u", "other")
            self.check_refused(w, ["other"], "")
            fixture.unmount(w.path("other"))
            # What lies in it is its owner's to delete.
            r = w.run("homes/u/f", "homes/u/d", "homes/v")
            self.assertEqual(r.status, 0, r)
            self.assertEqual(w.left("homes"), ["u"])
        finally:
            fixture.unmount("/etc/passwd")

    @matrix(fs=fixture.DISKS + ("tmpfs",), backends=("threads",))
    def test_20_what_belongs_to_a_filesystem(self, w):
        root = fixture.scratch.filesystem(w.fs)
        for name in ("lost+found", "aquota.user", "quota.group", ".reclaim"):
            path = os.path.join(root, name)
            made = not os.path.exists(path)
            if made:
                fixture.write(path)
            r = w.run(path)
            self.assertEqual(r.status, 1, r)
            owner = "reclaimd itself" if name == ".reclaim" else "its filesystem"
            self.assertIn("reclaimctl: %s: belongs to %s" % (path, owner), r.err)
            fixture.write(w.path("list"), path + "\n")
            self.assertEqual(w.run("--files-from=list").status, 1)
            self.assertTrue(os.path.exists(path))
            if made:
                os.unlink(path)

    @matrix()
    def test_23_mount_point(self, w):
        w.build("a/m/under\na/f\nfile\nsource/kept")
        w.bind("source", "a/m")
        self.check_refused(w, ["a/m"], "is a mount point")
        self.check_refused(w, ["a/m/"], "is a mount point", name="a/m")
        self.check_refused(w, ["a"], "holds a mount point")
        self.check_refused(w, ["file", "a"], "holds a mount point")
        fixture.write(w.path("list"), "a\n")
        self.check_refused(w, ["--files-from=list"], "holds a mount point", name="a")
        w.bind("source/kept", "file")
        self.check_refused(w, ["file"], "is a mount point")
        root = w.dir if w.fs == "overlay" else fixture.scratch.filesystem(w.fs)
        self.check_refused(w, [root], "mount point")
        # What lies in it and is none itself may go.
        r = w.run("a/m/kept")
        self.assertEqual(r.status, 1 if os.path.lexists(w.path("file")) and r.status else 0, r)

    @matrix(latency=("auto", "off"))
    def test_31_odd_names(self, w):
        odd = [b"esc\x1b[2J\x1b[31m", b"new\nline", b"tab\tcr\r", b"\xff\xfe\x80", BIDI.encode(), b"-rf", b"--",
               b"*", b"?", b" ", b"$(reboot)", b"`x`", b"'", b"\"", b"\\", b"\\x1b", b"%s%n", b"\x01\x7f",
               "\u00e9".encode(), b"e\xcc\x81", "\u200b".encode(), b"...", b"~"]
        # What looks the same when it is shown, and must survive.
        near = [b"esc\\x1b[2J\\x1b[31m", b"new\\nline", b"newline", b"new", b"line", b"tab\\tcr\\r", b"bidi",
                b"\\xff\\xfe\\x80", b"\\u202e", b"\xc2\xa0", b"e", b"\\\\", b"-", b"bidi\xe2\x80\xae"]
        base = os.fsencode(w.dir)
        for where in (b"roots", b"tree", b"listed"):
            os.mkdir(os.path.join(base, where))
            for name in odd + ([] if where == b"tree" else near):
                fixture.write(os.path.join(base, where, name), name)
        for name in odd:
            os.mkdir(os.path.join(base, b"tree", name + b"d"))
            fixture.write(os.path.join(base, b"tree", name + b"d", name), "")
        r = w.run("--", *odd, os.path.join(base, b"tree"), cwd=os.path.join(base, b"roots"))
        self.assertEqual(r.status, 0, r)
        self.assertEqual(sorted(os.listdir(os.path.join(base, b"roots"))), sorted(near))
        self.assertFalse(w.exists("tree"))
        fixture.write(w.path("list"), b"\0".join(odd) + b"\0")
        r = w.run("-0", "--files-from=" + w.path("list"), cwd=w.path("listed"))
        self.assertEqual(r.status, 0, r)
        self.assertEqual(sorted(os.listdir(os.path.join(base, b"listed"))), sorted(near))

    @matrix(fs=("tmpfs",))
    def test_31_shown_escaped(self, w):
        for name, shown in ((b"esc\x1b[31m", "esc\\x1b[31m"), (b"new\nreclaimctl: all: gone", "new\\nreclaimctl: all"),
                            (b"\xff", "\\xff"), (BIDI.encode(), "bidi\\xe2\\x80\\xaetxt"), (b"\x9b\x9d", "\\x9b\\x9d")):
            r = w.run(name)
            self.assertEqual(r.status, 1, r)
            self.assertIn("reclaimctl: %s" % shown, r.err)
            self.assertEqual(r.err.count("\n"), 1, r)
        # In the middle of a walk, too.
        os.makedirs(os.path.join(os.fsencode(w.dir), b"tree", b"\x1b[5m\n\xe2\x80\xae"))
        fixture.write(os.path.join(os.fsencode(w.dir), b"tree", b"\x1b[5m\n\xe2\x80\xae", b"x"))
        r = w.run("tree", user=fixture.USER)
        self.assertIn("\\x1b[5m\\n\\xe2\\x80\\xae", r.err)
        self.assertNotIn("\x1b", r.err)

    @matrix()
    def test_42_lengths(self, w):
        longest = "n" * 255
        w.build("%s\ntree/%s/%s" % (longest, longest, longest))
        self.check_refused(w, ["n" * 256], "255 bytes")
        self.check_refused(w, ["tree/" + "n" * 256 + "/x"], "255 bytes")
        self.check_refused(w, [longest, "x/" * 2048], "longer than",
                           name="x/" * 2048)
        self.check_refused(w, [""], "is empty", name="''")
        self.check_refused(w, [longest, ""], "is empty", name="''")
        for path in ("x/" * 2048, "n" * 256, "y" * 70000):
            fixture.write(w.path("list"), longest + "\n" + path + "\n")
            self.check_refused(w, ["--files-from=list"], "nothing was deleted", name=path)
        fixture.write(w.path("list"), longest.encode() + b"\ncanary\0/file\n")
        self.check_refused(w, ["--files-from=list"], "NUL", name="canary")
        # Empty lines are nothing, and not the working directory.
        fixture.write(w.path("list"), "\n\n%s\n\n" % longest)
        r = w.run("--files-from=list")
        self.assertEqual(r.status, 0, r)
        self.check_gone(w, w.run("tree", "list"))

    @matrix()
    def test_42_paths_around_path_max(self, w):
        fd = os.open(w.dir, os.O_RDONLY)
        parts, most = ["tree"], 4095 - len(w.dir) - 1
        while len("/".join(parts)) < most - 256:
            parts.append("n" * 250)
        parts.append("m" * (most - 1 - len("/".join(parts))))
        for p in parts:
            os.mkdir(p, dir_fd=fd)
            below = os.open(p, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        os.close(fd)
        path = w.path(*parts)
        self.assertEqual(len(path), 4095)
        for longer in (path + "/f", "/" + path):
            r = w.run(longer)
            self.assertEqual(r.status, 1, r)
            self.assertIn("longer than", r.err)
        r = w.run("/".join(parts) + "/f")
        self.assertEqual(r.status, 0, r)
        self.assertEqual(os.listdir(path), [])
        r = w.run(path)
        self.assertEqual(r.status, 0, r)
        self.assertFalse(os.path.exists(path))
        self.check_gone(w, w.run("tree"))

    @matrix(latency=("auto", "off"))
    def test_46_duplicates_and_overlaps(self, w):
        for args in (["a", "a"], ["a", "a/b"], ["a/b", "a"], ["a", "./a", "a//", "a/b/", "./a/b/f"], ["a/b/f"] * 3 + ["a"],
                     ["a", "h"], ["a/b/f", "a/c/f", "a", "a/b", "a/c", "h"], ["a", w.path("a"), w.path("a/b")]):
            w.build("a/b/f\na/b/g/h\na/c/f\nh => a/b/f")
            fixture.fill(w.path("a/b/g"), 40)
            r = w.run(*args)
            self.check_gone(w, r, *([] if "h" in args else ["h"]))
            if "h" not in args:
                os.unlink(w.path("h"))
            w.build("a/b/f\na/b/g/h\na/c/f")
            fixture.write(w.path("list"), "\n".join(a for a in args if a != "h"))
            self.check_gone(w, w.run("--files-from=list"), "list")
            os.unlink(w.path("list"))

    @matrix(fs=("tmpfs",))
    def test_46_duplicates_across_backends_at_once(self, w):
        w.build("a/b/f")
        for i in range(20):
            fixture.fill(w.path("a/b/d%d" % i), 20)
        procs = [w.start(*args) for args in (["a"], ["a/b"], ["a/b", "a"])]
        for p in procs:
            r = p.finish()
            # 1 or 3: all, or some, of it was gone before it was looked at.
            self.assertIn(r.status, (0, 1, 3), r)
            for line in str(r).splitlines():
                if line.startswith("reclaimctl: "):
                    self.assertTrue(line.endswith("does not exist"), r)
        self.assertEqual(w.left(), [])


if __name__ == "__main__":
    fixture.main()
