#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the kernel lets the daemon's processes do, as it says itself: who they are, for good, and what
they have given up."""
import os

import fixture
from daemon_fixture import Case, user
from fixture import USER, write

HOUR = 3600 * 1000000
# DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, LEASE, SYS_ADMIN; and SETUID, SETGID of who makes staging
ROOTS = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 28 | 1 << 21 | 1 << 7 | 1 << 6


class Sandbox(Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.data, 0o777)
        for name, uid in (("a", 0), ("b", USER)):
            with user(uid):
                write(self.path(name))
            c = self.daemon.client(uid)
            self.assertEqual(c.wait(c.submit(self.path(name))), "done")
        self.seen = [self.status(pid) for pid in self.daemon.workers()]

    @staticmethod
    def status(pid):
        with open("/proc/%d/status" % pid, encoding="ascii") as f:
            return dict(line.rstrip("\n").split(":\t", 1) for line in f)

    def test_worker_cannot_regain_root(self):
        # Of each: who looks, who deletes, and who stands between the daemon and the client.
        for uid in (0, USER):
            self.assertGreaterEqual(sum(s["Uid"].split()[0] == str(uid) for s in self.seen), 3, self.seen)
        for s in self.seen:
            for ids in (s["Uid"], s["Gid"]):
                self.assertIn(ids.split(), (["0"] * 4, [str(USER)] * 4))
            held = int(s["CapPrm"], 16) | int(s["CapEff"], 16) | int(s["CapInh"], 16) | int(s["CapAmb"], 16)
            self.assertEqual(held & ~(ROOTS if s["Uid"].split()[0] == "0" else 0), 0, s)

    def test_worker_has_seccomp_filter(self):
        with open("/proc/self/status", encoding="ascii") as f:
            if "Seccomp:" not in f.read():
                self.skipTest("this kernel has no filters")
        for s in self.seen:
            self.assertEqual((s["Seccomp"], s["NoNewPrivs"]), ("2", "1"), s)


if __name__ == "__main__":
    fixture.main()
