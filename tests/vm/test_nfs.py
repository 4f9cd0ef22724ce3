#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""NFS, server and client in the emulated machine: what is deleted as anywhere else, and what is not."""
import glob
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import fixture
from fixture import Canary, command, fill, scratch, write
from test_lost import modprobe

LIBRARY = "/run/nfs"  # what the server and its tools remember


def serve():
    """Exports a directory on the first disk, and mounts it; both."""
    scratch.open()
    for module in ("ext4", "nfsd", "nfs", "nfsv4"):
        modprobe(module)
    served, seen = (os.path.join(scratch.dir, name) for name in ("served", "seen"))
    for directory in (served, seen, LIBRARY):
        os.mkdir(directory)
    command("mkfs.ext4", "-q", "-F", "/dev/vda")
    command("mount", "/dev/vda", served)
    command("mount", "-t", "tmpfs", "tmpfs", "/var/lib/nfs")
    for name in ("etab", "rmtab"):
        write("/var/lib/nfs/" + name, "")
    os.mkdir("/var/lib/nfs/v4recovery")
    command("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
    command("exportfs", "-o", "rw,async,no_root_squash,insecure,no_subtree_check,fsid=0", "127.0.0.1:" + served)
    # pylint: disable-next=consider-using-with
    subprocess.Popen(["rpc.mountd", "--foreground", "-N", "2", "-N", "3"], stderr=subprocess.DEVNULL)
    command("rpc.nfsd", "-N", "3", "-G", "1", "-L", "1", "4")
    command("mount", "-t", "nfs", "-o", "vers=4.2,sec=sys", "127.0.0.1:/", seen)
    return served, seen


class Nfs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served, cls.seen = serve()

    def setUp(self):
        name = self.id().rsplit(".", 1)[-1]
        self.top = os.path.join(self.seen, name)
        self.behind = os.path.join(self.served, name)
        os.mkdir(self.top)
        self.canary = Canary(os.path.join(self.top, "canary"))

    def tearDown(self):
        self.canary.check()

    def run_it(self, *words):
        return fixture.Proc([scratch.binary, "run", *words], "/").finish()

    def path(self, *names):
        return os.path.join(self.top, *names)

    def left(self):
        return [n for n in fixture.listing(self.behind) if n.split("/")[0] != "canary"]

    def test_a_tree(self):
        """All of it, on the server too, in the way for servers; with names that do not fit one reply."""
        fill(self.path("t", "wide"), 3000)
        for i in range(8):
            fill(self.path("t", "d%d" % i, "e"), 50)
        os.symlink("../canary", self.path("t", "link"))
        r = self.run_it("--json", self.path("t"))
        self.assertEqual(r.status, 0, r)
        self.assertEqual(self.left(), [])
        self.assertEqual(r.json["entries"], 3000 + 8 * 52 + 3, r)
        self.assertEqual(r.json["strategy"].split(":")[0], "nfs", r)

    def test_a_file_that_is_open(self):
        """The client keeps it under another name until it is closed: that is said, and nothing else stays."""
        fill(self.path("t", "d"), 20)
        write(self.path("t", "d", "held"), "still needed")
        with open(self.path("t", "d", "held"), encoding="ascii") as f:
            r = self.run_it(self.path("t"))
            self.assertIn(r.status, (1, 3), r)
            self.assertIn(self.path("t", "d"), r.err)
            left = self.left()
            self.assertEqual([n for n in left if ".nfs" not in n], ["t", "t/d"])
            self.assertEqual(len(left), 3, left)
            self.assertEqual(f.read(), "still needed")
        self.assertEqual(glob.glob(self.path("t", "d", ".nfs*")), [])
        self.assertEqual(self.run_it(self.path("t")).status, 0)
        self.assertEqual(self.left(), [])

    def test_the_server_says_no(self):
        """What the server does not permit stays, and is named."""
        fill(self.path("t", "d"), 3)
        command("chattr", "+i", os.path.join(self.behind, "t/d/f00001"))
        r = self.run_it(self.path("t"))
        self.assertEqual(r.status, 3, r)
        self.assertIn(self.path("t", "d", "f00001"), r.err)
        command("chattr", "-i", os.path.join(self.behind, "t/d/f00001"))
        self.assertEqual(self.left(), ["t", "t/d", "t/d/f00001"])


if __name__ == "__main__":
    fixture.main()
