# SPDX-License-Identifier: LGPL-2.1-or-later
"""What tests on every cluster filesystem need, and what must be so on each."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "integration"))

# pylint: disable=wrong-import-position
import daemon_fixture
import fixture
from fixture import Canary, fill, scratch

LATENCY = 1000  # of the network, in microseconds

# Of the tree under which the metadata server is killed. The last that a master of MooseFS answered may
# not have been in its log yet: those names are back, and are removed, and counted, once more.
KILLED_DIRECTORIES, KILLED_FILES = 4, 400
ENTRIES = KILLED_DIRECTORIES * (KILLED_FILES + 1) + 1


def cluster(name):
    """One for all tests of a file."""
    scratch.open()
    if name not in scratch.mounted:
        at = os.path.join(scratch.dir, name)
        os.mkdir(at)
        scratch.mounted[name] = scratch.cluster(name, at, latency_usec=LATENCY).mountpoint
    return scratch.clusters[0]


def until(what, ready):
    """What is awaited has no event of its own."""
    end = time.monotonic() + fixture.TIMEOUT
    while not ready():
        if time.monotonic() > end:
            raise AssertionError("%s: never" % what)
        time.sleep(0.01)


def runs(p):
    """Has it not ended? It is left to be waited for."""
    return os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def fill_tree(path, directories, files):
    """Empty files in directories; the path."""
    for d in range(directories):
        fill(os.path.join(path, "d%03d" % d), files)
    return path


class Case(fixture.Case):
    """A directory of each test on the cluster."""

    FS = None

    def setUp(self):
        self.cluster = cluster(self.FS)
        self.top = os.path.join(self.cluster.mountpoint, self.id().rsplit(".", maxsplit=1)[-1])
        os.mkdir(self.top)

    def tree(self, directories, files):
        return fill_tree(os.path.join(self.top, "tree"), directories, files)

    def asked(self, before):
        """What was asked for since then."""
        now = self.cluster.operations()
        return {k.removeprefix("fuse_ops."): now[k] - before.get(k, 0) for k in now}

    def run_words(self, *args):
        """A reclaimctl on its way."""
        return fixture.Proc([scratch.binary, "run", "--json=short", *args], self.top)


class KilledCase(Case):
    def test_run_waits_for_the_metadata_server(self):
        canary = Canary(os.path.join(self.top, "canary"))
        tree = self.tree(KILLED_DIRECTORIES, KILLED_FILES)
        p = self.run_words(tree)
        names = [os.path.join(tree, d) for d in os.listdir(tree)]
        until("one is gone", lambda: not all(map(os.path.exists, names)))
        self.cluster.lose_metadata_server()
        self.cluster.start_metadata_server()
        self.assertTrue(runs(p))
        r = p.finish()
        self.assertEqual(r.status, 0, r)
        self.assertGreaterEqual(r.json["entries"], ENTRIES, r)
        self.assertFalse(os.path.exists(tree))
        until("the client knows again", lambda: os.path.exists(os.path.join(canary.path, b"file")))
        canary.check()


def lanes_of_job(case, name):
    """With how many a job of the daemon's begins: gone before it could have been found out how many pay.
    And what it says of its way."""
    top = os.path.join(cluster(case.FS).mountpoint, name)
    os.mkdir(top)
    client = case.daemon.client()
    job = client.submit(fill_tree(os.path.join(top, "tree"), 16, 2))
    case.assertEqual(client.wait(job), "done")
    strategy = client.get(job, "Strategy")
    return int(re.match(case.FS + r": threads, (\d+) lane", strategy).group(1)), strategy


class LatencyUnderDaemonCase(daemon_fixture.Case):
    """Without a bound a job begins with as many lanes as pay behind a server, and it says what was not
    counted."""

    FS = None
    config = "pacing: {latency: off}\n"

    def test_job_without_a_bound(self):
        lanes, strategy = lanes_of_job(self, "unbound")
        self.assertGreaterEqual(lanes, 16)
        self.assertIn("bytes not counted", strategy)


class LatencyAutoUnderDaemonCase(daemon_fixture.Case):
    """By default a job behind a server holds to what an operation takes alone: it has fewer lanes than
    one without a bound begins with."""

    FS = None

    def test_job_with_the_bound_of_auto(self):
        lanes, strategy = lanes_of_job(self, "auto")
        self.assertLess(lanes, 16, strategy)


class KilledUnderDaemonCase(daemon_fixture.Case):
    FS = None

    def test_job_waits_for_the_metadata_server(self):
        own = cluster(self.FS)
        top = os.path.join(own.mountpoint, "daemon")
        os.mkdir(top)
        canary = Canary(os.path.join(top, "canary"))
        tree = fill_tree(os.path.join(top, "tree"), KILLED_DIRECTORIES, KILLED_FILES)
        client = self.daemon.client()
        job = client.submit(tree)
        until("some are gone", lambda: client.job(job)["done"] > 0)
        own.lose_metadata_server()
        own.start_metadata_server()
        self.assertEqual(client.wait(job), "done")
        self.assertGreaterEqual(client.job(job)["done"], ENTRIES)
        self.assertFalse(os.path.exists(tree))
        canary.check()
