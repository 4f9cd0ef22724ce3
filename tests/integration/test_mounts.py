#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is protected stays protected through every mount of it, of a part of it, or of what holds it;
through a real reclaimd."""
import os
import shutil
import subprocess
import unittest

import fixture
from daemon_fixture import Case
from dbuswire import Error
from fixture import Canary, build, command

ODD = "a b\\c\td"  # which mountinfo escapes


class Mounts(Case):
    def setUp(self):
        super().setUp()
        self.mounted = []
        self.addCleanup(self.unmount)

    def unmount(self):
        for path in reversed(self.mounted):
            fixture.unmount(path)

    def protect(self, *paths):
        self.daemon.stop()
        self.daemon.configure("protect:\n" + "".join("- '%s'\n" % p for p in paths))
        self.daemon.start()

    def mount(self, *words):
        """The last of the words is where."""
        os.makedirs(words[-1], exist_ok=True)
        command("mount", *words)
        self.mounted.append(words[-1])
        return words[-1]

    def bind(self, source, target):
        return self.mount("--bind", source, target)

    def disk(self, kind, *options, name="disk", at=None):
        image = os.path.join(self.daemon.dir, name)
        if not os.path.exists(image):
            with open(image, "wb") as f:
                f.truncate(320 << 20)
            command("mkfs." + kind, "-q", image)
        return self.mount("-o", ",".join(("loop",) + options), image,
                          at or os.path.join(self.daemon.dir, "m-" + name))

    def overlay(self, at, upper, lower, *options, cwd=None):
        os.makedirs(os.path.join(self.daemon.dir, at), exist_ok=True)
        words = ["lowerdir=" + lower] + (["upperdir=" + upper] if upper else []) + list(options)
        target = os.path.join(self.daemon.dir, at)
        command("mount", "-t", "overlay", "-o", ",".join(words), "overlay", target, cwd=cwd)
        self.mounted.append(target)
        return target

    def refused(self, *paths, word=""):
        """In each way that there is to name them."""
        c = self.daemon.client()
        for path in paths:
            before = os.lstat(path)
            directory, name = os.path.split(path)
            for call in (lambda: c.submit(path), lambda: c.submit_list(directory, [name]),
                         lambda: c.call("Submit", "aaya{sv}", [os.fsencode(path)], {})):
                with self.assertRaises(Error, msg=path) as e:
                    call()
                self.assertIn(e.exception.name, ("Protected", "CrossesMount"), e.exception.text)
                self.assertIn(word, e.exception.text)
            self.assertEqual(os.lstat(path).st_ino, before.st_ino)

    def done(self, *paths):
        c = self.daemon.client()
        for path in paths:
            self.assertEqual(c.wait(c.submit(path)), "done", self.daemon.said())
            self.assertFalse(os.path.lexists(path))


class Aliases(Mounts):
    def part_of_it(self, base):
        build(base, "v/keep/mine/d/f\nv/keep/mine/f\nv/other/d/f\nv/other/e/f")
        canary = Canary(os.path.join(base, "v/keep/mine/canary"))
        self.protect(os.path.join(base, "v/keep"))
        # The worker knows the mounts before.
        self.done(os.path.join(base, "v/other/e"))
        alias = self.bind(os.path.join(base, "v/keep/mine"), os.path.join(base, "v/alias"))
        self.refused(alias + "/d", alias + "/f", alias + "/canary", alias + "/d/f",
                     word="protected by the configuration")
        self.refused(os.path.join(base, "v"))
        # The mount is not what is protected.
        free = self.bind(os.path.join(base, "v/other"), os.path.join(base, "v/free"))
        self.done(free + "/d")
        canary.check()

    def test_attack_01_part_of_it_tmpfs(self):
        self.part_of_it(self.data)

    def test_attack_01_part_of_it_ext4(self):
        self.part_of_it(self.disk("ext4"))

    def test_attack_01_part_of_it_xfs(self):
        self.part_of_it(self.disk("xfs"))

    def test_attack_01_subvolumes_mounted_again(self):
        """Neither of them by way of the top."""
        top = self.disk("btrfs")
        command("btrfs", "subvolume", "create", top + "/a")
        build(top, "a/keep/f\na/free/f")
        command("btrfs", "subvolume", "create", top + "/a/keep/b")
        build(top, "a/keep/b/d/f\na/keep/b/f")
        fixture.unmount(top)
        a = self.disk("btrfs", "subvol=a", at=top + "-a")
        b = self.disk("btrfs", "subvol=a/keep/b", at=top + "-b")
        canary = Canary(b + "/d/canary")
        self.protect(a + "/keep")
        self.refused(b + "/d", b + "/f", b + "/d/f", word="protected by the configuration")
        self.done(a + "/free")
        # Who deletes the volume deletes what is mounted.
        top = self.disk("btrfs", "subvolid=5", at=top + "-top")
        self.refused(top + "/a")
        canary.check()

    def test_attack_01_what_holds_it(self):
        """By names that the protected path does not have."""
        build(self.data, "v/a/b/keep/f\nv/a/c/f\nw/\nalias/")
        canary = Canary(self.path("v/a/b/keep/canary"))
        self.bind(self.path("v/a/b"), self.path("w"))
        self.protect(self.path("w/keep"))
        self.refused(self.path("v/a/b"), self.path("v/a"), self.path("v"))
        self.bind(self.path("v/a"), self.path("alias"))
        self.refused(self.path("alias/b"), self.path("alias/b/keep"), self.path("alias/b/keep/canary"))
        self.done(self.path("alias/c"))
        canary.check()

    def test_attack_01_what_is_mounted(self):
        """Its directory elsewhere is not deleted, nor what holds that."""
        build(self.data, "v/a/f\nv/b/f\nm/\nfile = x")
        canary = Canary(self.path("v/a/canary"))
        self.bind(self.path("v/a"), self.path("m"))
        self.refused(self.path("v/a"), self.path("v"), word="mounted elsewhere")
        self.done(self.path("v/b"))
        canary.check()

    def test_attack_01_names_and_stacks(self):
        keep = self.path("v", ODD)
        build(self.data, "v/other/keep/\nv/cover/x/f")
        os.makedirs(keep + "/mine/" + ODD)
        canary = Canary(keep + "/mine/" + ODD + "/canary")
        self.protect(keep)
        alias = self.bind(keep + "/mine", self.path("alias " + ODD))
        self.refused(os.path.join(alias, ODD), os.path.join(alias, ODD, "canary"))
        # Something else over it, and it over that.
        self.bind(self.path("v/cover"), alias)
        self.done(os.path.join(alias, "x"))
        self.bind(os.path.join(keep, "mine", ODD), alias)
        self.refused(os.path.join(alias, "canary"))
        # A mount in the middle, of which a part is mounted again.
        middle = self.mount("-t", "tmpfs", "tmpfs", os.path.join(keep, "middle"))
        build(middle, "sub/d/f")
        again = self.bind(os.path.join(middle, "sub"), self.path("again"))
        self.refused(os.path.join(again, "d"), os.path.join(middle, "sub"))
        canary.check()

    def test_attack_01_a_file(self):
        build(self.data, "v/d/keep = x\nv/d/other\nalias\nsource/")
        self.bind(self.path("source"), self.path("source"))  # a mount of its own
        os.link(self.path("v/d/keep"), self.path("v/d/twin"))
        self.protect(self.path("v/d/keep"))
        command("mount", "--bind", self.path("v/d/keep"), self.path("alias"))
        self.mounted.append(self.path("alias"))
        self.refused(self.path("alias"), self.path("v/d/keep"), self.path("v/d/twin"), self.path("v/d"))
        self.done(self.path("v/d/other"))

    def test_attack_01_protected_through_a_file_mount(self):
        build(self.data, "v/d/f = x\nalias")
        command("mount", "--bind", self.path("v/d/f"), self.path("alias"))
        self.mounted.append(self.path("alias"))
        self.protect(self.path("alias"))
        self.refused(self.path("v/d/f"), self.path("v/d"), self.path("v"))

    def test_attack_01_another_namespace(self):
        build(self.data, "v/keep/mine/d/f\nv/same/")
        canary = Canary(self.path("v/keep/mine/canary"))
        self.protect(self.path("v/keep"))
        # At a path that is not here, and at one that is another directory here.
        for at in (self.path("only-there"), self.path("v/same")):
            script = "mkdir -p '%s' && mount --bind '%s' '%s' && echo ready && cat" % (
                at, self.path("v/keep/mine"), at)
            p = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-c", script],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.assertEqual(p.stdout.readline(), b"ready\n")
            fd = os.open("/proc/%d/root%s" % (p.pid, at), os.O_PATH)
            for name in (b"d", b"canary"):
                with self.assertRaises(Error) as e:
                    self.daemon.client().call("SubmitFiles", "aha(uay)a{sv}", [0], [(0, name)], {},
                                              fds=[fd])
                self.assertEqual(e.exception.name, "Protected", e.exception.text)
            os.close(fd)
            p.communicate(b"")
        self.assertTrue(os.path.exists(self.path("v/keep/mine/d/f")))
        canary.check()

    def test_attack_01_the_system_and_our_own(self):
        build(self.data, "alias/\nown/")
        self.bind("/usr/share", self.path("alias"))
        name = sorted(n for n in os.listdir("/usr/share") if os.path.isdir("/usr/share/" + n))[0]
        self.refused(self.path("alias", name), word="belongs to the system")
        self.bind(self.daemon.state, self.path("own"))
        self.refused(*(self.path("own", n) for n in os.listdir(self.daemon.state)),
                     word="belongs to reclaimd itself")


class Overlays(Mounts):
    def setUp(self):
        super().setUp()
        build(self.data, "v/keep/\nlow/l/f\nlow/both/f\nwork/\nup/u/f")

    def option(self, name="work"):
        os.makedirs(self.path(name), exist_ok=True)
        return "workdir=" + self.path(name)

    def test_attack_14_upper_in_what_is_protected(self):
        build(self.data, "v/keep/up/mine/f\nv/keep/up/f")
        os.mkdir(self.path("v/keep/work"))
        canary = Canary(self.path("v/keep/up/canary"))
        self.protect(self.path("v/keep"))
        at = self.overlay("o", self.path("v/keep/up"), self.path("low"), self.option("v/keep/work"))
        self.refused(at + "/mine", at + "/f", at + "/canary", at + "/mine/f",
                     word="protected by the configuration")
        self.refused(self.bind(at + "/mine", self.path("alias")) + "/f")
        canary.check()

    def test_attack_14_upper_holds_what_is_protected(self):
        build(self.data, "up/a/keep/f")
        canary = Canary(self.path("up/a/keep/canary"))
        self.protect(self.path("up/a/keep"))
        at = self.overlay("o", self.path("up"), self.path("low"), self.option())
        self.refused(at + "/a", at + "/a/keep", at + "/a/keep/canary")
        self.done(at + "/u")
        canary.check()

    def test_attack_14_lower_in_what_is_protected(self):
        """It stays: what is deleted is only hidden in the overlay."""
        build(self.data, "v/keep/low/d/f")
        canary = Canary(self.path("v/keep/low/canary"))
        self.protect(self.path("v/keep"))
        at = self.overlay("o", self.path("up"), self.path("v/keep/low"), self.option())
        self.done(at + "/d", at + "/canary")
        self.assertTrue(os.path.exists(self.path("v/keep/low/d/f")))
        canary.check()

    def test_attack_14_layers_of_what_is_protected(self):
        build(self.data, "up/keep/u\nlow/keep/l\nlow/free/f\nup/free2/f")
        at = self.overlay("o", self.path("up"), self.path("low") + ":" + self.path("v"), self.option())
        self.protect(at + "/keep")
        canary = Canary(at + "/keep/canary")
        self.refused(self.path("up/keep"), self.path("up/keep/u"), self.path("low/keep/l"),
                     self.path("low/keep"), self.path("up"), self.path("low"), self.path("v/keep"))
        canary.check()
        # The rest of the layers is plainly deleted from.
        self.done(self.path("low/free"), self.path("up/free2"), at + "/u")

    def test_attack_14_upper_that_cannot_be_found(self):
        build(self.data, "moved/keep/f\nmoved/work/")
        at = self.overlay("o", "up", self.path("low"), "workdir=work", cwd=self.data)
        self.refused(at + "/u", word="upper directory cannot be found")

    def test_attack_14_root_of_a_container(self):
        """Whose layers are nowhere to be seen in it."""
        upper, at = self.path("up"), os.path.join(self.daemon.dir, "c")
        os.mkdir(at)
        shutil.copy(fixture.scratch.binary, upper + "/reclaimctl")
        build(upper, "data/keep/f\ndata/d/f")
        script = """
            mount -t tmpfs -o mode=755 tmpfs %(work)s && mkdir %(work)s/up %(work)s/work &&
            cp -a %(upper)s/. %(work)s/up/ &&
            mount -t overlay -o lowerdir=/,upperdir=%(work)s/up,workdir=%(work)s/work overlay %(at)s &&
            cd %(at)s && mkdir -p old && pivot_root . old && mount -t proc proc /proc && umount -l /old &&
            /reclaimctl run /data/d && ! /reclaimctl run /usr/share && test -e /data/keep/f -a ! -e /data/d
        """ % {"work": self.path("work"), "upper": upper, "at": at}
        p = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-ec", script],
                           capture_output=True)
        if b"mount" in p.stderr and b"overlay" in p.stderr:
            raise unittest.SkipTest(p.stderr.decode())
        self.assertEqual(p.returncode, 0, p)
        self.assertIn(b"/usr/share: belongs to the system", p.stderr)


if __name__ == "__main__":
    fixture.main()
