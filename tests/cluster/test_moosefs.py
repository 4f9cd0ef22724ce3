#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is so on a real MooseFS: what its master is asked for, that its end is survived, and that
others hardly notice. The tests of what must never happen run on it, too: see CMakeLists.txt."""
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import fixture
from daemon_fixture import Case as DaemonCase
from fixture import Canary, Case, fill, scratch

LATENCY = 1000  # of the network, in microseconds


def cluster():
    """One for all tests of this file."""
    scratch.open()
    if "moosefs" not in scratch.mounted:
        at = os.path.join(scratch.dir, "moosefs")
        os.mkdir(at)
        scratch.mounted["moosefs"] = scratch.cluster("moosefs", at, latency_usec=LATENCY).mountpoint
    return scratch.clusters[0]


def until(what, ready):
    """What is awaited has no event of its own."""
    end = time.monotonic() + fixture.TIMEOUT
    while not ready():
        if time.monotonic() > end:
            raise AssertionError("%s: never" % what)
        time.sleep(0.01)


def runs(p):
    """Has it not ended? It is left for whoever waits for it."""
    return os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


class Moose(Case):
    def setUp(self):
        self.cluster = cluster()
        self.top = os.path.join(self.cluster.mountpoint, self.id().rsplit(".", maxsplit=1)[-1])
        os.mkdir(self.top)

    def tree(self, directories, files):
        """Empty files in directories; its path."""
        path = os.path.join(self.top, "tree")
        for d in range(directories):
            fill(os.path.join(path, "d%03d" % d), files)
        return path

    def asked(self, before):
        """What the kernel or the client has asked for since then."""
        now = self.cluster.operations()
        return {k.removeprefix("fuse_ops."): now[k] - before.get(k, 0) for k in now}

    def run_words(self, *args):
        """A reclaimctl on its way."""
        return fixture.Proc([scratch.binary, "run", "--json=short", *args], self.top)


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


class Killed(Moose):
    def master_killed_during(self, left):
        """Kills the master when there is less than `left()` began with, and starts it again: it then
        knows nothing of its clients, and reads what it had logged first."""
        whole = left()
        until("some are gone", lambda: left() < whole)
        self.cluster.kill("master", signal.SIGKILL)
        self.cluster.start_master()

    def test_run_waits_for_the_master(self):
        canary = Canary(os.path.join(self.top, "canary"))
        tree = self.tree(4, 400)
        p = self.run_words(tree)
        names = [os.path.join(tree, d) for d in os.listdir(tree)]
        self.master_killed_during(lambda: len([n for n in names if os.path.exists(n)]))
        self.assertTrue(runs(p))
        r = p.finish()
        self.assertEqual(r.status, 0, r)
        self.assertEqual(r.json["entries"], 4 * 400 + 5, r)
        self.assertFalse(os.path.exists(tree))
        until("the client knows again", lambda: os.path.exists(os.path.join(canary.path, b"file")))
        canary.check()


class KilledUnderDaemon(DaemonCase):
    def test_job_waits_for_the_master(self):
        moose = cluster()
        top = os.path.join(moose.mountpoint, "daemon")
        os.mkdir(top)
        canary = Canary(os.path.join(top, "canary"))
        for d in range(4):
            fill(os.path.join(top, "tree", "d%d" % d), 400)
        client = self.daemon.client()
        job = client.submit(os.path.join(top, "tree"))
        until("some are gone", lambda: client.job(job)["done"] > 0)
        moose.kill("master", signal.SIGKILL)
        moose.start_master()
        self.assertEqual(client.wait(job), "done")
        self.assertEqual(client.job(job)["done"], 4 * 400 + 5)
        self.assertFalse(os.path.exists(os.path.join(top, "tree")))
        canary.check()


class Bystander(Moose):
    """Somebody else's stat of something that no cache has, every 20 ms."""

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
