#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What files and directories have beside content: immutable and append-only flags on staging, access
control lists and extended attributes as large as there are.

Attacks 16 and 17 of the second round."""
import contextlib
import os
import signal
import stat
import struct
import subprocess

import daemon_fixture
import fixture

from dbuswire import Error
from fixture import FS_APPEND_FL, FS_IMMUTABLE_FL, USER, build, command, listing, set_flag

HOUR = 3600 * 10**6
XATTR_MOST = 65536  # XATTR_SIZE_MAX
ACL_MOST = 5461     # entries, as XFS has them; elsewhere it is less than 64 KiB that counts


@contextlib.contextmanager
def flagged(path, flag):
    set_flag(path, flag)
    try:
        yield
    finally:
        if os.path.exists(path):
            set_flag(path, flag, on=False)


class OnDisk(daemon_fixture.Case):
    mkfs = ("mkfs.ext4", "-q", "-F", "-N", "8000")

    def setUp(self):
        super().setUp()
        image, self.data = (os.path.join(self.daemon.dir, n) for n in ("image", "disk"))
        os.mkdir(self.data)
        with open(image, "wb") as f:
            f.truncate(400 << 20)
        command(*self.mkfs, image)
        command("mount", "-o", "loop", image, self.data)
        self.addCleanup(subprocess.run, ["umount", "-l", self.data], check=False)

    def owned(self, uid, text):
        """A tree of that user's, in a directory of its own."""
        top = self.path("of-%d" % uid)
        os.makedirs(top, exist_ok=True)
        build(top, text)
        for d, dirs, files in os.walk(top):
            for name in [""] + dirs + files:
                os.chown(os.path.join(d, name), uid, uid)
        return top

    def staging(self, uid):
        return self.path(".reclaim", str(uid))

    def job_dir(self, uid):
        """The only one that has something in it."""
        top = self.staging(uid)
        (found,) = [os.path.join(top, n) for n in os.listdir(top) if os.listdir(os.path.join(top, n))]
        return found


class Immutable(OnDisk):
    def test_attack_16_before_a_submit(self):
        """Nothing can be moved there, so the job works in place, and says so."""
        for uid in (0, USER):
            client = self.daemon.client(uid)
            top = self.owned(uid, "first\na\nt/d/f\n.hold")
            self.assertEqual(client.wait(client.submit(top + "/first")), "done")
            for name in ("a", "t"):
                with flagged(self.staging(uid), FS_IMMUTABLE_FL):
                    n = client.submit(os.path.join(top, name))
                    self.assertEqual(client.wait(n), "done", self.daemon.said())
                    self.assertIn("not permitted", client.get(n, "Inplace"))
            self.assertEqual(listing(top), [".hold"])

    def test_attack_16_of_all_users(self):
        os.makedirs(self.path(".reclaim"), mode=0o711)
        client = self.daemon.client(USER)
        top = self.owned(USER, "t/d/f\n.hold")
        with flagged(self.path(".reclaim"), FS_IMMUTABLE_FL):
            n = client.submit(top + "/t")
            self.assertEqual(client.wait(n), "done", self.daemon.said())
            self.assertTrue(client.get(n, "Inplace"))
        self.assertEqual(listing(top), [".hold"])

    def test_attack_16_restored(self):
        """Nothing is lost: what cannot be had back now can be once the flag is gone."""
        for uid in (0, USER):
            for flag in (FS_IMMUTABLE_FL, FS_APPEND_FL):
                client = self.daemon.client(uid)
                top = self.owned(uid, "t/d/f = content\nt/g")
                before = listing(top)
                n = client.submit(top + "/t", undo_usec=HOUR)
                with flagged(self.job_dir(uid), flag):
                    with self.assertRaises(Error) as e:
                        client.call("Restore", "ta{sv}", n, {})
                    self.assertIn("could not be put back", str(e.exception))
                    self.assertEqual(client.job(n)["state"], "held")
                client.call("Restore", "ta{sv}", n, {})
                self.assertEqual(client.wait(n), "restored")
                self.assertEqual(listing(top), before)
                # What is empty goes a moment after its job has ended.
                self.until(lambda: not listing(self.staging(uid)))

    def test_attack_16_in_mid_job(self):
        """What is in the tree goes; what lies in the directory itself is kept there, and it is said
        where."""
        for uid in (0, USER):
            self.daemon.again_with_gate("unlink:gate")
            client = self.daemon.client(uid)
            top = self.owned(uid, "t/gate\nt/d/f")
            n = client.submit(top + "/t")
            worker = self.daemon.stopped_worker()
            held = self.job_dir(uid)
            with flagged(held, FS_IMMUTABLE_FL):
                os.kill(worker, signal.SIGCONT)
                self.assertEqual(client.wait(n), "partial", self.daemon.said())
                self.assertIn(held, client.get(n, "Message"))
                self.assertEqual(listing(held), ["1"])
            # It is on no list any more, and is not deleted.
            self.daemon.stop()
            self.daemon.start()
            self.assertEqual(listing(held), ["1"])
            # The daemon may remove it first, as it is empty then.
            command("rm", "-rf", held)


def acl(entries, default_mask=7):
    """The value of system.posix_acl_*: version 2, then tag, rights and id of each entry."""
    tags = [(1, 7, 0xffffffff)] + [(2, 5, 100000 + i) for i in range(entries)]
    tags += [(4, 5, 0xffffffff), (16, default_mask, 0xffffffff), (32, 5, 0xffffffff)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *t) for t in tags)


def snapshot(top):
    """All that can be said of each entry but its content."""
    found = {}
    for d, dirs, files in os.walk(top):
        for name in [""] + dirs + files:
            path = os.path.join(d, name).rstrip("/")
            st = os.lstat(path)
            found[os.path.relpath(path, top)] = (
                st.st_mode, st.st_uid, st.st_gid, st.st_ino, st.st_mtime_ns, st.st_size,
                {x: os.getxattr(path, x, follow_symlinks=False)
                 for x in os.listxattr(path, follow_symlinks=False)})
    return found


class Large(OnDisk):
    """Extended attributes of 64 KiB, and access lists of the most entries there may be."""
    mkfs = ("mkfs.xfs", "-q", "-f")

    def dress(self, path):
        """As much as the filesystem takes. Returns the bytes."""
        names = ["user.large", "user.another", "trusted.large", "security.large"]
        for name in names:
            os.setxattr(path, name, os.urandom(XATTR_MOST))
        os.setxattr(path, "system.posix_acl_access", acl(self.acl_most))
        if os.path.isdir(path):
            os.setxattr(path, "system.posix_acl_default", acl(self.acl_most))
        return len(names) * XATTR_MOST

    acl_most = ACL_MOST - 4

    def test_attack_17_restored_and_deleted(self):
        for uid in (0, USER):
            client = self.daemon.client(uid)
            top = self.owned(uid, "t/d/f = content\nt/g\nfile")
            for name in ("t", "t/d", "t/d/f", "t/g", "file"):
                self.dress(os.path.join(top, name))
            before = snapshot(top)
            n = client.submit(top + "/t", top + "/file", undo_usec=HOUR)
            self.assertEqual(listing(top), [])
            self.daemon.stop()
            self.daemon.start()
            client = self.daemon.client(uid)
            client.call("Restore", "ta{sv}", n, {})
            self.assertEqual(client.wait(n), "restored", self.daemon.said())
            after = snapshot(top)
            for path, was in before.items():
                if path != ".":  # which was written to
                    self.assertEqual(after[path], was, path)
            n = client.submit(top + "/t", top + "/file")
            self.assertEqual(client.wait(n), "done", self.daemon.said())
            self.assertEqual(listing(top), [])

    def test_attack_17_inherited_by_staging(self):
        """A mount's root whose default list each directory made in it gets: staging keeps none of it."""
        os.setxattr(self.data, "system.posix_acl_default", acl(self.acl_most))
        for uid in (0, USER):
            client = self.daemon.client(uid)
            top = self.owned(uid, "t/d/f\n.hold")
            n = client.submit(top + "/t", undo_usec=HOUR)
            for path in (self.path(".reclaim"), self.staging(uid)):
                self.assertEqual([x for x in os.listxattr(path) if "posix_acl" in x], [])
                self.assertEqual(stat.S_IMODE(os.stat(path).st_mode) & 0o066, 0)
            self.assertFalse(client.get(n, "Inplace"))
            client.call("Restore", "ta{sv}", n, {})
            self.assertEqual(client.wait(n), "restored", self.daemon.said())
            n = client.submit(top + "/t")
            self.assertEqual(client.wait(n), "done", self.daemon.said())
            self.assertEqual(listing(top), [".hold"])


class LargeOnExt4(Large):
    """With values in inodes of their own."""
    mkfs = ("mkfs.ext4", "-q", "-F", "-N", "8000", "-O", "ea_inode")
    acl_most = 500


if __name__ == "__main__":
    fixture.main()
