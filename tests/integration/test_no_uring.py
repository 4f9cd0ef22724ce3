#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where io_uring is switched off (RHEL 9's default, containers' seccomp profiles): everything else
works, and asking for it says what is wrong."""
import contextlib
import os

import fixture
from contents import big_file, digest
from fixture import Case, DISKS, fill, matrix, scratch, write
from settings import setting

EVERYWHERE = DISKS + ("tmpfs", "overlay")


class Off:
    """The essential part, run by each way of switching it off."""

    def off(self):
        raise NotImplementedError

    def essential(self, w):
        w.build("tree/a/b/f\ntree/a/g\ntree/l -> ../canary\ntree/p |\nlisted/x\nlisted/y\nmore/f")
        fill(w.path("tree/many"), 500)
        write(w.path("list"), "listed/x\nlisted/missing\n")
        with self.off() as wrapper:
            dry = w.run("--json", "--dry-run", "tree", wrapper=wrapper)
            refused = w.run("--backend=uring", "tree", wrapper=wrapper)
            kept = w.exists("tree/a/b/f")
            for backend in (None, "auto", "threads"):
                w.backend = backend
                w.build("tree/a/h")
                r = w.run("--json", "tree", wrapper=wrapper)
                self.assertEqual(r.status, 0, r)
                self.assertEqual(r.json["backend"], "threads")
                self.assertFalse(w.exists("tree"))
            listed = w.run("--files-from=list", wrapper=wrapper)
        self.assertEqual(dry.status, 0, dry)
        self.assertEqual(refused.status, 1, refused)
        self.assertIn("reclaimctl: --backend=uring: ", refused.err)
        self.assertIn("io_uring", refused.err)
        self.assertIn("--backend=threads", refused.err)
        self.assertTrue(kept, "something was deleted")
        self.assertEqual(listed.status, 0, listed)
        self.assertEqual(w.left(), ["list", "listed", "listed/y", "more", "more/f"])

    def races(self, w):
        """Gates, leases and steps are the same without a ring."""
        w.build("tree/sub/f\ntree/sub/g")
        content = big_file(w.path("big"))
        with self.off() as wrapper, open(w.path("big"), "rb") as f:
            p = w.at_gate("descend:sub", "tree", wrapper=wrapper)
            os.rename(w.path("tree/sub"), w.path("aside"))
            os.symlink(w.path("canary"), w.path("tree/sub"))
            p.go_on().finish()
            self.assertEqual(w.left("aside"), ["f", "g"])
            r = w.run("big", wrapper=wrapper)
            self.assertEqual(r.status, 0, r)
            self.assertEqual(digest(f), content)


class BySysctl(Off, Case):
    @contextlib.contextmanager
    def off(self):
        with setting("/proc/sys/kernel/io_uring_disabled", "2"):
            yield ()

    @matrix(fs=("ext4",), backends=(None,))
    def test_fault_19_off_for_the_system(self, w):
        self.essential(w)


class BySeccomp(Off, Case):
    @contextlib.contextmanager
    def off(self):
        yield (scratch.helper("refuse", ("-DREFUSED=SYS_io_uring_setup",)),)

    @matrix(fs=EVERYWHERE, backends=(None,))
    def test_fault_19_off_for_the_process(self, w):
        self.essential(w)

    @matrix(fs=EVERYWHERE, backends=(None,))
    def test_fault_19_races_without_a_ring(self, w):
        self.races(w)


if __name__ == "__main__":
    fixture.main()
