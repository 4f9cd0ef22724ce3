#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A filesystem of a user's that lies about who its files are: nothing else is removed than what was
submitted, what ends ends, what does not can be cancelled, and the jobs of others go on.

Attack 13 of the second round."""
import ctypes
import os
import subprocess
import unittest

import daemon_fixture
import fixture
from contents import fingerprint
from daemon_fixture import user
from fixture import USER, Proc, build, command, libc, scratch, unmount, write

ENDING = ("same", "changing", "types", "links", "names")
# Where it is the same each time. A listing that cannot be is an error, after what was listed before.
END = {"same": ("done", 22), "types": ("failed", 0), "names": ("partial", 20)}
ENDLESS = ("endless", "deep", "turning")


class Lies(daemon_fixture.Case):
    def setUp(self):
        super().setUp()
        self.outside = os.path.join(self.root, "outside")
        build(self.root, """
            outside/f0 = precious
            outside/d/f0 = precious
            outside/keep = precious
        """)
        for path in (self.outside, self.outside + "/d", self.outside + "/f0", self.outside + "/d/f0"):
            os.chown(path, USER, USER)
        self.before = fingerprint(self.outside)

    def mount(self, kind):
        program = scratch.helper("liefs", command("pkg-config", "--cflags", "--libs", "fuse3").split())
        at, log = self.path("lies-" + kind), self.path("log-" + kind)
        os.mkdir(at)
        write(log, "")
        os.chown(log, USER, USER)
        fd = os.open("/dev/fuse", os.O_RDWR)
        options = "fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other" % (fd, USER, USER)
        if libc.mount(b"lies", at.encode(), b"fuse.lies", 0, options.encode()) != 0:
            raise unittest.SkipTest("no FUSE: " + os.strerror(ctypes.get_errno()))
        self.addCleanup(unmount, at)
        process = subprocess.Popen([program, kind, log, self.outside, "/dev/fd/%d" % fd], pass_fds=[fd],
                                   user=USER, group=USER, extra_groups=[])
        os.close(fd)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return at, log

    def check(self, log):
        with open(log, encoding="ascii") as f:
            removed = f.read().split("\n")[:-1]
        self.assertEqual([p for p in removed if p != "/tree" and not p.startswith("/tree/")], [])
        self.assertEqual(fingerprint(self.outside), self.before)
        return removed

    def others_go_on(self, kind):
        write(self.path("other-" + kind))
        c = self.daemon.client()
        self.assertEqual(c.wait(c.submit(self.path("other-" + kind))), "done")

    def end_of(self, client, number):
        """Its state once nothing more happens to it by itself."""
        self.until(lambda: client.job(number)["state"] in daemon_fixture.FINISHED,
                   lambda: "%s: %s" % (client.job(number), self.daemon.said()))
        return client.job(number)["state"]

    def test_attack_13_what_ends(self):
        for kind in ENDING:
            for uid in (0, USER):
                with self.subTest(kind=kind, uid=uid):
                    at, log = self.mount(kind)
                    c = self.daemon.client(uid)
                    with user(uid):
                        n = c.submit(os.path.join(at, "tree"))
                    state = self.end_of(c, n)
                    removed = self.check(log)
                    self.others_go_on("%s-%d" % (kind, uid))
                    if kind in END:
                        self.assertEqual((state, len(removed)), END[kind], c.problems(n))
                    unmount(at)
                    os.rename(at, at + "-%d" % uid)

    def test_attack_13_what_never_ends(self):
        for kind in ENDLESS:
            with self.subTest(kind=kind):
                at, log = self.mount(kind)
                c = self.daemon.client(USER)
                with user():
                    n = c.submit(os.path.join(at, "tree"))
                self.until(lambda: kind == "deep" or os.stat(log).st_size >= 20000)
                self.others_go_on(kind)
                for worker in self.daemon.workers():
                    with open("/proc/%d/statm" % worker, encoding="ascii") as f:
                        resident = int(f.read().split()[1]) * 4096
                    self.assertTrue(scratch.sanitized or resident < 64 << 20, resident)
                c.call("Cancel", "at", [n])
                self.assertIn(c.wait(n), ("cancelled", "partial", "failed"))
                self.check(log)

    def test_attack_13_in_the_callers_own_process(self):
        for kind in ENDING:
            with self.subTest(kind=kind):
                at, log = self.mount(kind)
                r = Proc([scratch.binary, "run", "tree"], at, user=USER).finish()
                self.assertIn(r.status, (0, 1, 3), r)
                self.check(log)


if __name__ == "__main__":
    fixture.main()
