#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Deleting where there is no room: no bytes, no inodes, a quota that is used up. That is when it is
needed most, so what cannot be moved out of the way for want of room is deleted in place."""
import contextlib
import errno
import os
import subprocess

import fixture
from daemon_fixture import Case, user
from dbuswire import Error
from fixture import MIB, USER, Canary, Proc, build, command, scratch, write

MKFS = {"ext4": ("mkfs.ext4", "-q", "-F", "-m", "0", "-N", "400"),
        "xfs": ("mkfs.xfs", "-q", "-f", "-i", "maxpct=1"),
        "btrfs": ("mkfs.btrfs", "-q", "-f", "-m", "single", "-n", "4096")}
SIZES = {"ext4": 24, "xfs": 320, "btrfs": 128}
HOUR = 3600 * 1000000
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def use_bytes(directory):
    """Until not one more can be written."""
    fd = os.open(os.path.join(directory, "filler"), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    size = 256 * MIB
    while size:
        try:
            os.posix_fallocate(fd, os.fstat(fd).st_size, size)
        except OSError as e:
            if e.errno not in NO_ROOM:
                raise
            size = 0 if size == 1 else max(size // 2, 1)
    os.close(fd)
    command("sync", "-f", directory)


def use_names(directory):
    """Until no directory can be made, which takes an inode and on most a block."""
    made = len(os.listdir(directory))
    with contextlib.suppress(OSError):
        while True:
            os.mkdir(os.path.join(directory, "n%d" % made))
            made += 1


class Room(Case):
    def disk(self, fs):
        image, at = os.path.join(self.daemon.dir, fs + ".image"), os.path.join(self.daemon.dir, fs)
        with open(image, "wb") as f:
            f.truncate(SIZES[fs] * MIB)
        command(*MKFS[fs], image)
        os.mkdir(at)
        command("mount", "-o", "loop", image, at)
        self.addCleanup(subprocess.run, ["umount", "-l", at], stderr=subprocess.DEVNULL, check=False)
        self.data = os.path.join(at, "data")
        for name in ("data", "filling"):
            os.mkdir(os.path.join(at, name), 0o755)
        write(os.path.join(at, "filling", "filler"))
        os.chown(self.data, USER, USER)
        self.canary = Canary(os.path.join(at, "aside"))
        return at

    def trees(self, count):
        with user():
            for i in range(count):
                build(self.path("t%d" % i), "d/a\nd/e/b\nc = " + "c" * 5000)
                write(self.path("f%d" % i), "x" * 20000)

    def delete_all(self, uid, count):
        """Staging directories are there already."""
        c = self.daemon.client(uid)
        for i in range(count):
            for name in "tf":
                n = c.submit(self.path("%s%d" % (name, i)))
                self.assertEqual(c.wait(n), "done", (c.problems(n), self.daemon.said()))
                self.assertFalse(os.path.lexists(self.path("%s%d" % (name, i))))
        self.canary.check()

    def begun(self, fs, count=3):
        at = self.disk(fs)
        self.trees(count)
        write(self.path("before"))
        os.chown(self.path("before"), USER, USER)
        c = self.daemon.client(USER)
        self.assertEqual(c.wait(c.submit(self.path("before"))), "done")
        command("sync", "-f", at)
        return at

    def use_up(self, directory, *uses):
        """Until one more is refused: what was deleted before is given back a moment later, some of it."""
        def refused():
            for use in uses:
                use(directory)
            try:
                os.mkdir(os.path.join(directory, "n%d" % len(os.listdir(directory))))
            except OSError as e:
                self.assertIn(e.errno, NO_ROOM)
                return True
            return False

        self.until(refused)


class NoRoom(Room):
    def test_attack_06_no_bytes(self):
        for fs in SIZES:
            with self.subTest(fs=fs):
                at = self.begun(fs)
                self.use_up(os.path.join(at, "filling"), use_bytes, use_names)
                self.delete_all(USER, 3)

    def test_attack_06_no_inodes(self):
        for fs in ("ext4", "xfs"):
            with self.subTest(fs=fs):
                at = self.begun(fs)
                self.use_up(os.path.join(at, "filling"), use_names)
                self.assertGreater(os.statvfs(at).f_bavail, 100)
                self.delete_all(USER, 3)

    def test_attack_06_btrfs_quota(self):
        at = self.begun("btrfs")
        command("btrfs", "quota", "enable", at)
        command("btrfs", "quota", "rescan", "-w", at)
        command("btrfs", "qgroup", "limit", "16M", "0/5", at)
        with user():
            self.use_up(self.data, use_bytes, use_names)
        self.assertGreater(os.statvfs(at).f_bavail * 4096, 32 * MIB)
        self.delete_all(USER, 3)

    def test_attack_06_many_names(self):
        """Names of a tree that is most of what there is, where removing a name itself takes room."""
        for fs in SIZES:
            with self.subTest(fs=fs):
                at = self.begun(fs, 1)
                with user(), contextlib.suppress(OSError):
                    for i in range(40):
                        fixture.fill(self.path("t0", "many%d" % i), 500)
                use_bytes(os.path.join(at, "filling"))
                use_names(os.path.join(at, "filling"))
                self.delete_all(USER, 1)

    def test_attack_06_staging_was_never_made(self):
        for fs in ("ext4", "xfs"):
            with self.subTest(fs=fs):
                at = self.disk(fs)
                self.trees(2)
                use_names(os.path.join(at, "filling"))
                use_bytes(os.path.join(at, "filling"))
                use_names(os.path.join(at, "filling"))
                c = self.daemon.client(USER)
                n = c.submit(self.path("t1"), undo_usec=HOUR)
                self.assertIn("no room", c.get(n, "Inplace"))
                self.assertEqual(c.job(n)["state"], "held")
                c.call("Cancel", "at", [n])
                self.assertTrue(os.path.exists(self.path("t1", "d", "e", "b")))
                self.delete_all(USER, 2)

    def test_attack_06_what_is_held_is_put_back(self):
        for fs in SIZES:
            with self.subTest(fs=fs):
                at = self.begun(fs, 1)
                c = self.daemon.client(USER)
                n = c.submit(self.path("t0"), undo_usec=HOUR)
                use_bytes(os.path.join(at, "filling"))
                use_names(os.path.join(at, "filling"))
                try:
                    c.call("Restore", "ta{sv}", n, {})
                except Error as e:
                    # A name in another directory takes room of its own there: it is held until there is some.
                    self.assertEqual(fs, "btrfs")
                    self.assertIn("No space left", e.text)
                    self.assertEqual(c.job(n)["state"], "held")
                    self.assertEqual(c.wait(c.submit(self.path("f0"))), "done")
                    fixture.remove(os.path.join(at, "filling"))
                    command("sync", "-f", at)
                    c.call("Restore", "ta{sv}", n, {})
                    write(self.path("f0"))
                    os.chown(self.path("f0"), USER, USER)
                self.assertEqual(c.wait(n), "restored")
                self.delete_all(USER, 1)

    def test_attack_06_spool(self):
        # Not below /tmp, where every user may write.
        at = self.begun("ext4", 1)
        command("mount", "--bind", at, "/mnt")
        self.addCleanup(command, "umount", "-l", "/mnt")
        os.mkdir("/mnt/trash", 0o700)
        self.daemon.configure("spools: {/mnt/trash: {settle: 0s, undo: 0s}}\n")
        c = self.daemon.client()
        c.call("Reload")
        self.use_up(os.path.join(at, "filling"), use_names, use_bytes)
        os.rename("/mnt/data/t0", "/mnt/trash/t0")
        self.assertEqual(c.signal("JobFinished").body[2], "done")
        self.assertEqual(os.listdir("/mnt/trash"), [])

    def test_attack_06_policy(self):
        """With the state directory, too: that a policy runs is not to be waited for until there is room."""
        at = self.begun("ext4", 1)
        state = os.path.join(at, "state")
        os.mkdir(state, 0o700)
        self.daemon.configure("policies: {p: {path: %s, match: 'f*', min-free: 100%%, max-delete: 100%%}}\n"
                              % self.data)
        write(os.path.join(state, "policy-clock"), "")
        self.use_up(os.path.join(at, "filling"), use_bytes, use_names)
        p = Proc([scratch.binary, "policy", "run", "p", "--state-directory=" + state,
                  "--configuration-directory=" + os.path.join(self.daemon.dir, "conf"),
                  "--runtime-directory=" + os.path.dirname(self.daemon.socket)], "/").finish()
        self.assertEqual(p.status, 3, p)  # all of it cannot be free
        self.assertIn("is not recorded there", p.err)
        self.until(lambda: not os.path.exists(self.path("f0")))

    def test_attack_06_run(self):
        """Without a daemon; and what would be spilled to a temporary file stays in memory."""
        for fs in SIZES:
            with self.subTest(fs=fs):
                at = self.begun(fs, 1)
                with user():
                    os.mkdir(self.path("deep"))
                    here = os.open(self.path("deep"), os.O_RDONLY)
                    with contextlib.suppress(OSError):
                        for _ in range(300):
                            os.mkdir("d" * 200, dir_fd=here)
                            there = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
                            os.close(here)
                            here = there
                    os.close(here)
                use_bytes(os.path.join(at, "filling"))
                use_names(os.path.join(at, "filling"))
                p = Proc([scratch.binary, "run", self.path("t0"), self.path("deep")], "/", user=USER,
                         env={"TMPDIR": os.path.join(at, "filling")}).finish()
                self.assertEqual(p.status, 0, p)
                self.assertFalse(os.path.exists(self.path("deep")))
                self.canary.check()


if __name__ == "__main__":
    fixture.main()
