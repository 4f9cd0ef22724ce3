#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is so on a real MooseFS: what its master is asked for, that its end is survived, and that
other programs hardly notice. The tests of what must never happen run on it, too: see CMakeLists.txt."""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import cluster_case
import fixture
from cluster_case import LATENCY, runs
from fixture import scratch


class Moose(cluster_case.Case):
    FS = "moosefs"


class Master(Moose):
    def check_asked(self, latency):
        tree = self.tree(24, 50)
        before = self.cluster.operations()
        p = self.run_words("--latency=" + latency, tree)
        r = p.finish()
        self.assertEqual(r.status, 0, r)
        asked = self.asked(before)
        self.assertEqual(asked["unlink"], 24 * 50)
        self.assertEqual(asked["rmdir"], 25)
        # Each directory is opened and listed once, and looked for once or twice.
        self.assertEqual(asked["opendir"], 25, asked)
        self.assertLess(asked["lookup.master"], 3 * 25, asked)
        # One look for each name, which is the kernel's own.
        self.assertLess(asked["lookup"], 24 * 50 + 5 * 25, asked)
        self.assertLess(asked["getattr"], 25, asked)
        self.assertFalse(os.path.exists(tree))
        return r.json

    def test_asked_for_nothing_needless(self):
        self.assertIn("moosefs: threads", self.check_asked("auto")["strategy"])

    def test_with_as_many_lanes_as_pay(self):
        j = self.check_asked("off")
        self.assertIn("moosefs: threads", j["strategy"])
        # 1,200 round trips of 1 ms, one after the other, are 1.2 s and more.
        self.assertLess(j["elapsed_usec"], 1200 * LATENCY, j)


class Plan(Moose):
    def test_says_when_space_comes_back(self):
        p = fixture.Proc([scratch.binary, "plan", self.tree(2, 10)], self.top)
        r = p.finish()
        self.assertEqual(r.status, 0, r)
        self.assertIn("moosefs: threads", r.out)
        self.assertIn("trash time", " ".join(r.out.split()))

    def test_begins_with_what_a_run_begins_with(self):
        tree = self.tree(2, 3)  # it ends with what it began with, before anything can be told
        r = fixture.Proc([scratch.binary, "plan", "--json=short", tree], self.top).finish()
        plan = fixture.json.loads(r.out)[0]
        ran = fixture.Proc([scratch.binary, "run", "--dry-run", "--json=short", tree], self.top).finish()
        self.assertEqual(plan["strategy"]["name"], ran.json["strategy"])
        self.assertEqual(plan["strategy"]["lanes"], 1)
        r = fixture.Proc([scratch.binary, "plan", tree], self.top).finish()
        self.assertIn("moosefs: threads, 1 lane at first; more as long as", " ".join(r.out.split()))


class Killed(cluster_case.KilledCase):
    FS = "moosefs"


class LatencyUnderDaemon(cluster_case.LatencyUnderDaemonCase):
    FS = "moosefs"


class LatencyAutoUnderDaemon(cluster_case.LatencyAutoUnderDaemonCase):
    FS = "moosefs"


class KilledUnderDaemon(cluster_case.KilledUnderDaemonCase):
    FS = "moosefs"


class Foreground(Moose):
    """Another program's stat of something that no cache has, every 20 ms."""

    def stats_during(self, busy):
        took, i = [], 0
        while busy(len(took)):
            began = time.monotonic()
            try:
                os.stat(os.path.join(self.top, "absent%d" % i))
            except FileNotFoundError:
                pass
            took.append(time.monotonic() - began)
            i += 1
            time.sleep(0.02)
        return sorted(took)

    def test_hardly_notices(self):
        quiet = self.stats_during(lambda n: n < 50)
        tree = self.tree(40, 100)
        p = self.run_words(tree)
        during = self.stats_during(lambda n: n < 50 and runs(p))
        r = p.finish()
        self.assertEqual(r.status, 0, r)
        # The median, generously: the benchmark has the p99, on a machine that does nothing else.
        self.assertLess(during[len(during) // 2], 3 * quiet[len(quiet) // 2] + 0.005)


if __name__ == "__main__":
    fixture.main()
