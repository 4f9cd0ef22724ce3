#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is so on a real CephFS: snapshots, errors that are told late, a metadata server that ends. The
tests of what must never happen run on it, too: see CMakeLists.txt."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import cluster_case
import fixture
from fixture import Canary


class Ceph(cluster_case.Case):
    FS = "cephfs"


class Server(Ceph):
    def test_trees_of_every_shape(self):
        canary = Canary(os.path.join(self.top, "canary"))
        tree = self.tree(8, 60)
        deep = os.path.join(tree, *["deep"] * 60)
        os.makedirs(deep)
        for name in ("one", "two", "three"):
            os.link(os.path.join(tree, "d000", "f00000"), os.path.join(deep, name))
        twin = os.path.join(self.top, "twin")
        os.link(os.path.join(tree, "d001", "f00001"), twin)
        before = self.cluster.operations()
        r = self.run_words(tree).finish()
        self.assertEqual(r.status, 0, r)
        self.assertIn("cephfs: ", r.json["strategy"])
        self.assertEqual(r.json["entries"], 8 * 61 + 1 + 60 + 3, r)
        self.assertFalse(os.path.exists(tree))
        self.assertEqual(os.stat(twin).st_nlink, 1)
        asked = self.asked(before)
        self.assertEqual(asked["unlink"], 8 * 60 + 3, asked)
        self.assertEqual(asked["rmdir"], 8 + 1 + 60, asked)
        canary.check()


class Snapshot(Ceph):
    def test_keeps_its_directory_and_says_why(self):
        tree = self.tree(2, 5)
        kept = os.path.join(tree, "d000")
        os.mkdir(os.path.join(kept, ".snap", "monday"))
        r = self.run_words(tree).finish()
        self.assertEqual(r.status, 3, r)
        self.assertIn("d000: has snapshots in its .snap", r.err)
        self.assertNotIn("filled by another", r.err)
        # All else is gone, and the snapshot has what it had.
        self.assertEqual(os.listdir(tree), ["d000"])
        self.assertEqual(os.listdir(kept), [])
        self.assertEqual(len(os.listdir(os.path.join(kept, ".snap", "monday"))), 5)
        os.rmdir(os.path.join(kept, ".snap", "monday"))
        r = self.run_words(tree).finish()
        self.assertEqual(r.status, 0, r)
        self.assertFalse(os.path.exists(tree))


class LateErrors(Ceph):
    def test_directory_that_stays_is_synced(self):
        paths = [os.path.join(self.top, n) for n in ("one", "two")]
        for path in paths:
            os.mknod(path)
        before = self.cluster.syncs()
        r = self.run_words(*paths).finish()
        self.assertEqual(r.status, 0, r)
        self.assertEqual([p for p in paths if os.path.exists(p)], [])
        self.assertGreater(self.cluster.syncs(), before)


class Killed(cluster_case.KilledCase):
    FS = "cephfs"


class LatencyUnderDaemon(cluster_case.LatencyUnderDaemonCase):
    FS = "cephfs"


class LatencyAutoUnderDaemon(cluster_case.LatencyAutoUnderDaemonCase):
    FS = "cephfs"


class KilledUnderDaemon(cluster_case.KilledUnderDaemonCase):
    FS = "cephfs"


if __name__ == "__main__":
    fixture.main()
