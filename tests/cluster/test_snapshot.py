#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The snapshot way of MooseFS on a real one: it removes what it should, at once, and never what has
a part in anything else."""
import ctypes
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import fixture
from contents import fingerprint
from daemon_fixture import Case as DaemonCase
from daemon_fixture import user
from fixture import USER, Canary, Case, command, fill, libc, scratch, write

STRATEGY = "--strategy=moosefs-snapshot"
CLONE_NEWNET = 0x40000000


def cluster():
    """One for all tests of this file, which go where its mount can be spoken to."""
    scratch.open()
    if "moosefs" not in scratch.mounted:
        at = os.path.join(scratch.dir, "moosefs")
        os.mkdir(at)
        scratch.mounted["moosefs"] = scratch.cluster("moosefs", at).mountpoint
        if libc.setns(scratch.clusters[0].network.fd, CLONE_NEWNET) < 0:
            raise OSError(ctypes.get_errno(), "setns")
    return scratch.clusters[0]


class Moose(Case):
    def setUp(self):
        self.cluster = cluster()
        self.top = os.path.join(self.cluster.mountpoint, self.id().rsplit(".", maxsplit=1)[-1])
        os.mkdir(self.top)
        self.canary = Canary(os.path.join(self.top, "canary"))
        self.addCleanup(self.canary.check)
        self.tree = os.path.join(self.top, "tree")

    def path(self, *names):
        return os.path.join(self.tree, *names)

    def grow(self, directories=4, files=50):
        for d in range(directories):
            fill(self.path("d%d" % d), files)

    def proc(self, *args, strategy=STRATEGY, **kw):
        return fixture.Proc([scratch.binary, "run", "--json=short", strategy, *args, self.tree],
                            self.top, **kw)

    def remove(self, *args, status=0, gone=True, **kw):
        """All of it, and what it says of the strategy."""
        r = self.proc(*args, **kw).finish()
        return self.check(r, status, gone)

    def check(self, r, status=0, gone=True):
        self.assertEqual(r.status, status, r)
        self.assertEqual(os.path.lexists(self.tree), not gone, r)
        return r.json["strategy"]

    def marks(self, path):
        return self.cluster.run("mfsgeteattr", path).split(": ", 1)[1].strip()

    def trash_time(self, path):
        return self.cluster.run("mfsgettrashtime", "-n", path).split(": ", 1)[1].strip()


class Whole(Moose):
    def test_goes_at_once(self):
        self.grow()
        os.symlink(self.canary.path, self.path("link"))
        os.symlink(self.canary.path, self.path("d1", "link"))
        os.mkfifo(self.path("d1", "fifo"))
        write(self.path("d2", "data"), b"x" * 5000)
        before = self.cluster.operations()
        said = self.remove()
        now = self.cluster.operations()
        self.assertIn("moosefs: 209 by snapshot, ", said)
        self.assertEqual(now["fuse_ops.unlink"], before["fuse_ops.unlink"])
        self.assertEqual(os.listdir(self.top), ["canary"])

    def test_what_is_inside_only_of_it(self):
        """Subtrees that fit go one by one when the whole does not: more than it dares to begin with."""
        self.grow(60, 100)
        said = self.remove(strategy=STRATEGY + ":1ms")
        self.assertIn("moosefs: 6061 by snapshot, ", said)

    def test_deeper_than_it_looks(self):
        path = self.tree
        os.mkdir(path)
        for _ in range(300):
            path = os.path.join(path, "d")
            os.mkdir(path)
        self.assertIn("deep directories", self.remove())

    def test_file_alone_is_unlinked(self):
        write(self.tree)
        self.assertIn("moosefs: 0 by snapshot, ", self.remove())


class Apart(Moose):
    """What has to be unlinked, or has to stay."""

    def test_hard_link_outside(self):
        self.grow()
        kept = os.path.join(self.top, "kept")
        write(self.path("d2", "linked"), b"precious")
        os.link(self.path("d2", "linked"), kept)
        said = self.remove()
        # d0, d1 and d3.
        self.assertIn("153 by snapshot (others: hard links)", said)
        self.assertEqual(self.marks(kept), "-")
        self.assertEqual(self.trash_time(kept), "86400")
        with open(kept, "rb") as f:
            self.assertEqual(f.read(), b"precious")
        os.unlink(kept)

    def test_link_made_after_the_mark(self):
        self.grow()
        kept = os.path.join(self.top, "kept")
        write(self.path("d2", "linked"), b"precious")
        p = self.proc(gate="marked:tree").meet()
        os.link(self.path("d2", "linked"), kept)
        said = self.check(p.go_on().finish())
        self.assertIn("moosefs: 0 by snapshot (others: hard links)", said)
        self.assertEqual((self.marks(kept), self.trash_time(kept)), ("-", "86400"))
        os.unlink(kept)

    def test_entry_made_after_the_mark(self):
        self.grow()
        p = self.proc(gate="marked:tree").meet()
        write(self.path("d1", "late"))
        self.assertIn("moosefs: 0 by snapshot (others: new entries)",
                      self.check(p.go_on().finish()))

    def test_moved_out_after_the_mark(self):
        self.grow()
        out = os.path.join(self.top, "out")
        p = self.proc(gate="marked:tree").meet()
        os.rename(self.tree, out)
        before = fingerprint(os.fsencode(out))
        p.go_on().finish()
        self.assertEqual(fingerprint(os.fsencode(out)).keys(), before.keys())
        self.assertEqual(self.marks(os.path.join(out, "d1")), "-")
        command("rm", "-r", out)

    def test_another_in_its_place(self):
        self.grow()
        out, other = os.path.join(self.top, "out"), os.path.join(self.top, "other")
        fill(other, 5)
        # The master would remove it, too.
        self.cluster.run("mfsseteattr", "-r", "-f", "snapshot", other)
        p = self.proc(gate="marked:tree").meet()
        os.rename(self.tree, out)
        os.rename(other, self.tree)
        r = p.go_on().finish()
        self.assertEqual(len(os.listdir(self.tree)), 5, r)
        self.assertEqual(len(os.listdir(out)), 4, r)
        command("rm", "-r", out, self.tree)

    def test_stopped_after_the_mark(self):
        """What stays has the mark no more, unless it had it before."""
        self.grow()
        p = self.proc(gate="marked:tree").meet()
        self.check(p.go_on(signal.SIGTERM).finish(), status=1, gone=False)
        self.assertEqual((self.marks(self.tree), self.marks(self.path("d1", "f00000"))), ("-", "-"))
        copy = os.path.join(self.top, "copy")
        self.cluster.run("mfsmakesnapshot", self.tree, copy)
        command("rm", "-r", self.tree)
        self.tree = copy
        p = self.proc(gate="marked:copy").meet()
        self.check(p.go_on(signal.SIGTERM).finish(), status=1, gone=False)
        self.assertEqual(self.marks(self.path("d1", "f00000")), "snapshot")
        self.assertIn("moosefs: 205 by snapshot, ", self.remove())

    def test_killed_after_the_mark(self):
        self.grow()
        p = self.proc(gate="marked:tree").meet()
        p.kill()
        p.close()
        self.assertEqual(self.marks(self.path("d1", "f00000")), "snapshot")
        os.mkdir(self.path("d1", "late"))
        self.assertIn("moosefs: 206 by snapshot, ", self.remove())

    def test_large_file(self):
        """Its chunks are freed one by one."""
        self.grow()
        os.truncate(self.path("d1", "f00000"), 1 << 40)
        said = self.remove()
        self.assertIn("153 by snapshot (others: large files)", said)

    def test_undeletable(self):
        self.grow()
        kept = self.path("d1", "f")
        write(kept)
        self.cluster.run("mfsseteattr", "-f", "undeletable", kept)
        said = self.remove(status=3, gone=False)
        self.assertIn("others: undeletable files", said)
        self.assertEqual(os.listdir(self.path("d1")), ["f"])
        self.assertEqual(self.marks(kept), "undeletable")
        self.cluster.run("mfsdeleattr", "-f", "undeletable", kept)
        command("rm", "-r", self.tree)

    def test_mounted_inside(self):
        self.grow()
        os.mkdir(self.path("d1", "m"))
        p = self.proc(gate="marked:tree").meet()
        command("mount", "--bind", self.canary.path, self.path("d1", "m"))
        try:
            said = self.check(p.go_on().finish(), status=3, gone=False)
            self.assertIn("moosefs: 0 by snapshot (others: mounts in it)", said)
        finally:
            command("umount", self.path("d1", "m"))
        command("rm", "-r", self.tree)

    def test_directory_too_large_for_the_stall(self):
        fill(self.tree, 20000)
        said = self.remove(strategy=STRATEGY + ":1ms")
        self.assertIn("moosefs: 0 by snapshot (others: large directories)", said)

    def test_users_unlink(self):
        os.chown(self.top, USER, USER)
        with user():
            self.grow()
        r = self.proc(user=USER).finish()
        self.assertNotIn("snapshot", self.check(r))
        self.assertIn("name by name: that is for root only", r.err)

    def test_elsewhere_nothing_changes(self):
        self.tree = os.path.join(scratch.dir, "tree")
        self.grow()
        r = self.proc().finish()
        self.assertNotIn("snapshot", self.check(r))
        self.assertIn("name by name: this is no MooseFS", r.err)

    def test_not_unless_asked_for(self):
        self.grow()
        self.assertNotIn("snapshot", self.remove(strategy="--strategy=auto"))

    def test_dry(self):
        self.grow()
        before = fingerprint(os.fsencode(self.tree))
        self.assertNotIn("snapshot", self.remove("--dry-run", gone=False))
        self.assertEqual(before, fingerprint(os.fsencode(self.tree)))
        command("rm", "-r", self.tree)


class Jobs(DaemonCase):
    config = "strategy: {moosefs: snapshot, moosefs-stall: 50ms}\n"

    def setUp(self):
        moose = cluster()
        super().setUp()
        self.top = os.path.join(moose.mountpoint, self.id().rsplit(".", maxsplit=1)[-1])
        os.mkdir(self.top)
        self.canary = Canary(os.path.join(self.top, "canary"))
        self.tree = os.path.join(self.top, "tree")

    def submit(self, client):
        job = client.submit(self.tree)
        self.assertEqual(client.wait(job), "done", self.daemon.said())
        self.assertEqual(client.job(job)["done"], 4 * 51 + 1)
        self.assertFalse(os.path.lexists(self.tree))
        self.canary.check()
        return client.get(job, "Strategy"), client.get(job, "Inplace")

    def grow(self):
        for d in range(4):
            fill(os.path.join(self.tree, "d%d" % d), 50)

    def test_of_root(self):
        self.grow()
        strategy, in_place = self.submit(self.daemon.client())
        self.assertIn("moosefs: 205 by snapshot, ", strategy)
        self.assertNotIn("trash", strategy)
        # What cannot be put back without replacing is not moved away.
        self.assertIn("RENAME_NOREPLACE", in_place)

    def test_of_a_user(self):
        os.chown(self.top, USER, USER)
        with user():
            self.grow()
        strategy, _ = self.submit(self.daemon.client(USER))
        self.assertNotIn("snapshot", strategy)
        self.assertIn("space is back after 1d 0h in MooseFS's trash", strategy)


if __name__ == "__main__":
    fixture.main()
