#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaim-fleet with a real database: several of them, each with a reclaimd that this test plays."""
import json
import os
import random
import select
import signal
import subprocess
import time
import unittest

import fixture
from fixture import scratch
from fleet_wire import PROGRAM, Companion, directory, encode, regular, server_of


class Case(unittest.TestCase):
    """A database for each test, all of one server."""

    server = None
    databases = 0
    counted = True

    @classmethod
    def setUpClass(cls):
        server_of(Case)

    def setUp(self):
        Case.databases += 1
        self.database = "fleet%d" % Case.databases
        self.server.psql("CREATE DATABASE %s" % self.database)
        self.companions = []
        r = self.verb("init")
        self.assertEqual((r.returncode, r.stderr), (0, ""))

    def tearDown(self):
        for c in self.companions:
            if c.process.returncode is None:
                c.process.kill()
                c.process.communicate()
            c.socket.close()
        # What jobs say of their units holds whatever has happened.
        if self.counted:
            self.assertEqual(self.sql("SELECT * FROM reclaimd.jobs j WHERE units <> (SELECT count(*) FROM reclaimd.units u "
                                      "WHERE u.owner = j.owner AND u.job = j.job)"), "")

    def string(self, user="postgres"):
        return self.server.string(self.database, user)

    def verb(self, *words, user="postgres", string=None):
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False,
                              env=dict(os.environ, RECLAIM_FLEET_DATABASE=string or self.string(user)))

    def sql(self, statements):
        return self.server.psql(statements, self.database)

    def start(self, host):
        c = Companion(PROGRAM, host)
        self.companions.append(c)
        return c

    def joined(self, host, **options):
        c = self.start(host)
        c.join(self.string(), **options)
        c.expect("JOINED")
        return c

    def ended(self, c):
        """Its reclaimd is gone; it has nothing to complain about."""
        self.assertEqual(c.end(), (0, ""))


def tearDownModule():
    if Case.server:
        Case.server.stop()


class Units(Case):
    def test_unit_goes_from_one_host_to_the_other(self):
        a, b = self.joined("a"), self.joined("b", lease=1000)
        b.capacity(2)
        a.expect("DEMAND", filesystem="scratch", units=2)
        names = (("x y", regular(11, -5)), (os.fsdecode(b"\xff\n'\"\\{},"), directory(12, 1 << 62)))
        a.publish(7, job=3, names=names, directory_="a/b\\c", parent=directory(2**64 - 1, 99), uid=4242)
        self.assertEqual(a.expect("PUBLISHED").__dict__, {"name": "PUBLISHED", "serial": 7, "published": 1, "items": []})
        got = b.expect("CLAIMED")
        self.assertEqual((got.owner, got.job, got.uid, got.filesystem, got.directory, got.parent, got.slices),
                         ("a", 3, 4242, "scratch", "a/b\\c", directory(2**64 - 1, 99), 0))
        self.assertEqual(tuple(got.items), names)
        a.expect("DEMAND", units=1)
        b.say("PROGRESS", token=got.token, entries=5, bytes=6)
        fixture.until(lambda: self.sql("SELECT entries FROM reclaimd.units") == "5")
        self.sql("SELECT pg_notify('reclaimd', 'job a')")
        a.expect("JOB", job=3, open=0, claimed=1, entries=5, bytes=6, others_claimed=1, others_units=0, others_entries=5,
                 others_bytes=6)
        b.finish(got, entries=10, nbytes=1 << 40, errors=1, problems=((os.fsdecode(b"a/\xfe"), "unlink", 13),))
        p = a.expect("PROBLEM")
        self.assertEqual((p.job, p.path, p.what, p.error), (3, os.fsdecode(b"a/\xfe"), "unlink", 13))
        a.expect("JOB", job=3, open=0, claimed=0, entries=10, bytes=1 << 40, errors=1, others_claimed=0, others_units=1,
                 others_entries=10, others_bytes=1 << 40)
        a.say("FORGET", job=3)
        fixture.until(lambda: self.sql("SELECT count(*) FROM reclaimd.jobs") == "0")
        self.ended(a)
        self.ended(b)

    def test_slices_and_many(self):
        """More than one statement has; none is lost, none done twice, also with three hosts."""
        owner = self.joined("owner")
        others = [self.joined("h%d" % i) for i in range(3)]
        for i in range(300):
            owner.publish(i, job=1, names=(), slice_=i, slices=300)
        for i in range(300):
            owner.expect("PUBLISHED", serial=i, published=1)
        done = []
        for c in others:
            c.capacity(30)
        while len(done) < 300:
            for c in others:
                m = self.next_claim(c)
                if m:
                    done.append(m.slice)
                    c.finish(m)
        self.assertEqual(sorted(done), list(range(300)))
        owner.expect("JOB", job=1, open=0, claimed=0, entries=300, bytes=3000)
        self.assertEqual(self.sql("SELECT count(*) FROM reclaimd.units"), "0")

    @staticmethod
    def next_claim(c):
        """A claim that is there already."""
        while select.select([c.socket], [], [], 0.01)[0]:
            m = c.receive()
            if m.name == "CLAIMED":
                return m
        return None

    def test_parts_of_a_claimed_unit(self):
        """A host that does a unit gives a part of it away, in the owner's name; with no claim it cannot."""
        a, b = self.joined("a"), self.joined("b")
        b.capacity(1)
        a.publish(1, job=1)
        got = b.expect("CLAIMED")
        b.publish(2, job=1, owner="a", token=got.token, directory_="deep", names=(("p", regular(3)),))
        b.expect("PUBLISHED", serial=2, published=1)
        b.publish(3, job=1, owner="a", token=got.token + 1)
        b.expect("PUBLISHED", serial=3, published=0)
        b.publish(4, job=2, owner="a", token=got.token)
        b.expect("PUBLISHED", serial=4, published=0)
        b.finish(got)
        part = b.expect("CLAIMED")
        self.assertEqual((part.owner, part.directory, part.uid), ("a", "deep", 1000))
        b.publish(5, job=1, owner="a", token=got.token)
        b.expect("PUBLISHED", serial=5, published=0)
        b.finish(part)
        a.expect("JOB", job=1, open=0, claimed=0, entries=2)

    def test_given_back(self):
        """What a host gives back another one does; the same is not asked again."""
        a, b = self.joined("a"), self.joined("b")
        b.capacity(1)
        a.publish(1, job=1)
        got = b.expect("CLAIMED")
        b.finish(got, entries=2, ended=0)
        a.expect("JOB", job=1, open=1, claimed=0, entries=2, others_units=0, others_entries=2)
        c = self.joined("c")
        c.capacity(1)
        again = c.expect("CLAIMED")
        self.assertEqual(again.unit, got.unit)
        self.assertGreater(again.token, got.token)
        self.assertNotIn("CLAIMED", [m.name for m in b.heard[b.heard.index(got) + 1:]])
        c.finish(again)
        a.expect("JOB", job=1, open=0, claimed=0, entries=3)

    def test_own_units(self):
        a = self.joined("a")
        a.publish(1, job=1)
        a.expect("PUBLISHED")
        a.capacity(1)
        got = a.expect("CLAIMED")
        self.assertEqual(got.owner, "a")
        self.sql("SELECT pg_notify('reclaimd', 'job a')")
        a.expect("JOB", job=1, open=0, claimed=1, others_claimed=0)
        a.finish(got)
        a.expect("JOB", job=1, open=0, claimed=0, entries=1, others_units=0, others_entries=0)

    def test_recall(self):
        a, b = self.joined("a"), self.joined("b")
        b.capacity(1)
        for i in range(3):
            a.publish(i, job=1, directory_="d%d" % i)
        got = b.expect("CLAIMED")
        a.say("RECALL", job=1)
        b.expect("REVOKED", unit=got.unit, token=got.token, lost=0)
        a.expect("JOB", job=1, open=0, claimed=1)
        b.publish(9, job=1, owner="a", token=got.token)
        b.expect("PUBLISHED", serial=9, published=0)
        b.finish(got, entries=4, ended=0)
        a.expect("JOB", job=1, open=0, claimed=0, entries=4)
        # And on again.
        a.publish(5, job=1)
        b.finish(b.expect("CLAIMED"))
        a.expect("JOB", job=1, open=0, claimed=0, entries=5)

    def test_capacity_goes_down(self):
        a, b = self.joined("a"), self.joined("b")
        b.capacity(3)
        a.expect("DEMAND", units=3)
        b.capacity(0)
        a.expect("DEMAND", units=0)
        a.publish(1)
        a.expect("PUBLISHED")
        b.capacity(1)
        b.expect("CLAIMED")
        self.assertEqual([m.name for m in b.heard], ["JOINED", "WORKING", "CLAIMED"])


class Leases(Case):
    def test_stopped_host_loses_its_units(self):
        """Any other host sees to that. What it says of them later changes nothing."""
        a, b, c, _ = self.joined("a"), self.joined("b", lease=1000), self.joined("c"), self.joined("d", lease=1000)
        b.capacity(1)
        a.publish(1, job=1)
        got = b.expect("CLAIMED")
        os.kill(b.process.pid, signal.SIGSTOP)
        c.capacity(1)
        again = c.expect("CLAIMED")
        self.assertEqual(again.unit, got.unit)
        taken = float(self.sql("SELECT extract(epoch FROM u.claimed - (h.lease_until - h.lease)) "
                               "FROM reclaimd.units u, reclaimd.hosts h WHERE h.name = 'b'"))
        self.assertGreater(taken, 1)
        # Whatever a host says, the token and its life have to fit.
        for host, token in (("b", got.token), ("c", got.token), ("b", again.token)):
            self.assertEqual(self.sql(
                "SELECT reclaimd.finish(life, '{%d}', '{5}', '{5}', '{0}', '{t}', '{}', '{}', '{}', '{}') "
                "FROM reclaimd.hosts WHERE name = '%s'" % (token, host)), "0")
        self.assertEqual(self.sql("SELECT host FROM reclaimd.units"), "c")
        b.finish(got, entries=1000)
        os.kill(b.process.pid, signal.SIGCONT)
        # One of the two was first; neither counts.
        c.finish(again, entries=7)
        a.expect("JOB", job=1, open=0, claimed=0, entries=7)
        self.assertEqual(self.sql("SELECT entries FROM reclaimd.jobs"), "7")

    def test_host_is_told_what_it_lost(self):
        a, b, c, _ = self.joined("a"), self.joined("b", lease=1000), self.joined("c"), self.joined("d", lease=1000)
        b.capacity(1)
        a.publish(1, job=1)
        got = b.expect("CLAIMED")
        os.kill(b.process.pid, signal.SIGSTOP)
        c.capacity(1)
        c.expect("CLAIMED")
        os.kill(b.process.pid, signal.SIGCONT)
        b.expect("REVOKED", unit=got.unit, token=got.token, lost=1)
        b.finish(got)
        # It has room again.
        a.publish(2, job=1, directory_="other")
        self.assertEqual(b.expect("CLAIMED").directory, "other")

    def test_lease_is_told(self):
        """From when it was asked for; and not while the database is gone."""
        a = self.start("a")
        begun = time.clock_gettime(time.CLOCK_BOOTTIME) * 1e6
        a.join(self.string(), lease=1200)
        told = [a.expect("LEASE").until_usec for _ in range(3)]
        now = time.clock_gettime(time.CLOCK_BOOTTIME) * 1e6
        self.assertEqual(told, sorted(set(told)))
        self.assertGreater(told[0], begun + 1200e3 - 1)
        self.assertLess(told[-1], now + 1200e3)
        self.server.kill()
        while a.receive().name != "LOST":
            pass
        self.server.start()
        self.assertEqual(a.receive().name, "JOINED")
        a.expect("LEASE")

    def test_what_a_stopped_host_wants(self):
        """It does not want it while it is stopped, and wants it again then."""
        a, b, _ = self.joined("a"), self.joined("b", lease=1000), self.joined("d", lease=1000)
        b.capacity(2)
        a.expect("DEMAND", units=2)
        os.kill(b.process.pid, signal.SIGSTOP)
        a.expect("DEMAND", units=0)
        os.kill(b.process.pid, signal.SIGCONT)
        a.expect("DEMAND", units=2)
        a.publish(1)
        b.expect("CLAIMED")

    def test_ended_host_gives_back_at_once(self):
        """Not after its lease, which is long."""
        a, b = self.joined("a"), self.joined("b")
        b.capacity(1)
        a.publish(1, job=1)
        got = b.expect("CLAIMED")
        self.ended(b)
        c = self.joined("c")
        c.capacity(1)
        self.assertEqual(c.expect("CLAIMED").unit, got.unit)

    def test_host_that_begins_anew(self):
        """The daemon was killed: what its life before has claimed is open again, its jobs are told of."""
        a, b = self.joined("a"), self.joined("b")
        b.capacity(1)
        a.publish(1, job=1)
        a.publish(2, job=1, directory_="second")
        a.expect("PUBLISHED", serial=2)
        got = b.expect("CLAIMED")
        for c in (a, b):
            c.process.kill()
            c.process.communicate()
        for pid in self.sql("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'reclaim-fleet%'").split():
            fixture.until(lambda pid=pid: self.sql("SELECT count(*) FROM pg_stat_activity WHERE pid = %s" % pid) == "0")
        b = self.joined("b")
        b.capacity(2)
        units = {b.expect("CLAIMED").unit, b.expect("CLAIMED").unit}
        self.assertIn(got.unit, units)
        a = self.joined("a")
        a.expect("JOB", job=1, open=0, claimed=2)

    def statements(self):
        """What was asked of this test's database, with the time in milliseconds."""
        with open(self.server.log, encoding="utf-8", errors="replace") as f:
            words = [line.rstrip("\n").split(" ", 3) for line in f if line.startswith(self.database + " ")]
        return [(float(w[1]) * 1000, w[3]) for w in words if len(w) == 4 and "execute <unnamed>: " in w[3]]

    def test_nothing_but_renewals_while_idle(self):
        self.sql("ALTER DATABASE %s SET log_statement = 'all'" % self.database)
        a, b = self.joined("a", lease=1200), self.joined("b", lease=1200)
        b.capacity(4)
        a.expect("DEMAND", units=4)
        before = len(self.statements())
        fixture.until(lambda: len(self.statements()) >= before + 12)
        for _, statement in self.statements()[before:]:
            self.assertIn("reclaimd.renew", statement)

    def test_statements_of_a_busy_host(self):
        self.sql("ALTER DATABASE %s SET log_statement = 'all'" % self.database)
        a = self.joined("a")
        a.capacity(1)
        for i in range(120):
            a.publish(i, directory_="d%d" % i)
        for _ in range(120):
            a.finish(a.expect("CLAIMED"))
        a.expect("JOB", open=0, claimed=0, entries=120)
        said = self.statements()
        self.assertGreater(len(said), 240)
        self.assertLessEqual(len(said), 50 * ((said[-1][0] - said[0][0]) / 1000 + 1))


class Working(Case):
    """Each host hears how many others delete on a filesystem: it has its part of what all may do together."""

    def test_hosts_that_come_and_go(self):
        a, b, c = self.joined("a"), self.joined("b"), self.joined("c")
        for host in (a, b, c):
            host.expect("WORKING", filesystem="scratch", hosts=0)
        a.capacity(0, works=1, rate=1 << 40)
        for host in (b, c):
            host.expect("WORKING", hosts=1)
        b.capacity(2, works=1)
        a.expect("WORKING", hosts=1)
        c.expect("WORKING", hosts=2)
        # One that comes is told at once.
        self.joined("d").expect("WORKING", hosts=2)
        self.assertEqual(self.sql("SELECT host, works, max_rate FROM reclaimd.mounts ORDER BY host"),
                         "a|t|1099511627776\nb|t|\nc|f|\nd|f|")
        self.ended(b)
        a.expect("WORKING", hosts=0)
        c.expect("WORKING", hosts=1)
        a.capacity(0, rate=1 << 30)
        c.expect("WORKING", hosts=0)
        fixture.until(lambda: self.sql("SELECT works, max_rate FROM reclaimd.mounts WHERE host = 'a'") == "f|1073741824")
        # A host that begins anew has no rate before it says one.
        self.ended(a)
        self.joined("a")
        self.assertEqual(self.sql("SELECT works, max_rate FROM reclaimd.mounts WHERE host = 'a'"), "f|")

    def test_hosts_with_claims(self):
        a, b = self.joined("a"), self.joined("b")
        a.expect("WORKING", hosts=0)
        b.capacity(1)
        for i in range(2):
            a.publish(i, directory_="d%d" % i)
        got = b.expect("CLAIMED")
        a.expect("WORKING", hosts=1)
        for i in range(3):
            b.publish(i, owner="a", token=got.token, directory_="part%d" % i)
            b.expect("PUBLISHED", serial=i, published=1)
        self.assertEqual(self.sql("SELECT works FROM reclaimd.mounts WHERE host = 'b'"), "t")
        b.finish(got)
        for _ in range(4):
            b.finish(b.expect("CLAIMED"))
        # Not between two of them.
        a.expect("WORKING", hosts=0)
        self.assertEqual([m.hosts for m in a.heard if m.name == "WORKING"], [0, 1, 0])
        self.assertEqual([m.hosts for m in b.heard if m.name == "WORKING"], [0])

    def test_host_that_is_stopped(self):
        a, b, _ = self.joined("a"), self.joined("b", lease=1000), self.joined("d", lease=1000)
        b.capacity(0, works=1)
        a.expect("WORKING", hosts=1)
        os.kill(b.process.pid, signal.SIGSTOP)
        a.expect("WORKING", hosts=0)
        os.kill(b.process.pid, signal.SIGCONT)
        a.expect("WORKING", hosts=1)

    def test_database_is_restarted(self):
        a, b = self.joined("a"), self.joined("b")
        b.capacity(0, works=1)
        a.expect("WORKING", hosts=1)
        before = len(a.heard)
        self.server.kill()
        a.expect("LOST")
        # What was told last may still be so.
        self.assertNotIn("WORKING", [m.name for m in a.heard[before:]])
        self.server.start()
        a.expect("JOINED")
        a.expect("WORKING", hosts=1)

    def test_filesystems_are_apart(self):
        both = (("scratch", "id-of-scratch", "/mnt/scratch"), ("home", "id-of-home", "/home"))
        a, b = self.joined("a", filesystems=both), self.joined("b", filesystems=both)
        b.capacity(0, filesystem="home", works=1)
        a.expect("WORKING", filesystem="home", hosts=1)
        self.assertEqual([m.hosts for m in a.heard if m.name == "WORKING" and m.filesystem == "scratch"], [0])
        b.capacity(0, filesystem="home")
        b.capacity(0, works=1)
        a.expect("WORKING", filesystem="scratch", hosts=1)
        c = self.joined("c", filesystems=both)
        c.expect("WORKING", filesystem="scratch", hosts=1)
        c.expect("WORKING", filesystem="home", hosts=0)

    def test_notices_that_are_none(self):
        """Any role may send some."""
        a = self.joined("a")
        a.expect("WORKING", hosts=0)
        for notice in ("works", "works scratch", "works scratch b", "works scratch b 2", "works scratch b -1", "works nowhere b 1",
                       "works scratch a 1", "works scratch .. 1", "works scratch b 99999999999999999999"):
            self.sql("SELECT pg_notify('reclaimd', '%s')" % notice)
        self.sql("SELECT pg_notify('reclaimd', 'works scratch c 1')")
        a.expect("WORKING", hosts=1)
        self.sql("SELECT pg_notify('reclaimd', 'works scratch c 0')")
        a.expect("WORKING", hosts=0)
        self.assertEqual([m.hosts for m in a.heard if m.name == "WORKING"], [0, 1, 0])


class Losses(Case):
    def test_database_is_killed_and_restarted(self):
        a, b = self.joined("a"), self.joined("b")
        b.capacity(1)
        a.publish(1, job=1)
        got = b.expect("CLAIMED")
        self.server.kill()
        a.expect("LOST")
        b.expect("LOST")
        a.publish(2, job=1, directory_="meanwhile")
        a.expect("PUBLISHED", serial=2, published=0)
        b.finish(got, entries=9)
        self.server.start()
        b.expect("JOINED")
        a.expect("JOINED")
        a.expect("JOB", job=1, open=0, claimed=0, entries=9)
        self.assertEqual([m.name for m in b.heard].count("LOST"), 1)
        self.assertNotIn("REVOKED", [m.name for m in b.heard])

    def test_connection_is_cut(self):
        a, b = self.joined("a"), self.joined("b")
        b.capacity(1)
        self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'reclaim-fleet%'")
        a.expect("LOST")
        a.expect("JOINED")
        b.expect("JOINED")
        a.publish(1)
        b.expect("CLAIMED")

    def test_database_is_another_one(self):
        """As after it was restored: this host's life is not known there."""
        a, b = self.joined("a"), self.joined("b", lease=1000)
        b.capacity(1)
        a.publish(1, job=1)
        got = b.expect("CLAIMED")
        self.sql("UPDATE reclaimd.hosts SET life = gen_random_uuid() WHERE name = 'b'")
        b.expect("REVOKED", token=got.token, lost=1)

    def test_no_server(self):
        c = self.start("a")
        c.join("host=%s dbname=x" % scratch.dir)
        self.assertIn("connection to server", c.expect("LOST").text)
        self.ended(c)


class Faults(Case):
    """Hosts are killed, stopped and cut off at any moment, and so is the database: each unit ends, and what was
    done of it counts once."""

    UNITS = 1500 if fixture.FULL else 300
    HOSTS = ("b", "c", "d")

    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("RECLAIM_SEED", 0)) or random.randrange(1 << 32)
        self.random = random.Random(self.seed)
        self.hosts = {}
        self.stopped = set()

    def begin(self, name):
        c = self.start(name)
        c.join(self.string(), lease=500)
        c.capacity(4)
        c.claims = []
        self.hosts[name] = c

    def hear(self, seconds=0.02):
        """What all of them say. A claim is done after a while, or given back."""
        ready, _, _ = select.select([c.socket for c in self.hosts.values()], [], [], seconds)
        for c in self.hosts.values():
            while c.socket in ready and select.select([c.socket], [], [], 0)[0]:
                m = c.receive()
                self.assertIsNotNone(m, "%s has ended; seed %d" % (c.host, self.seed))
                if m.name == "CLAIMED":
                    c.claims.append(m)
                elif m.name == "REVOKED":
                    c.claims = [k for k in c.claims if k.token != m.token]
                    c.finish(m, entries=0, ended=0)
        for c in self.hosts.values():
            for m in [m for m in c.claims if self.random.random() < 0.1]:
                c.claims.remove(m)
                ended = self.random.random() < 0.9
                c.finish(m, entries=int(ended), ended=ended)

    def fault(self):
        name = self.random.choice(self.HOSTS)
        c = self.hosts[name]
        kind = self.random.choice(("kill", "kill", "stop", "stop", "cut", "cut", "cut", "database"))
        if name in self.stopped:
            self.stopped.remove(name)
            c.process.send_signal(signal.SIGCONT)
        elif kind == "kill":
            c.process.kill()
            c.process.communicate()
            c.socket.close()
            self.begin(name)
        elif kind == "stop":
            c.process.send_signal(signal.SIGSTOP)
            self.stopped.add(name)
        elif kind == "cut":
            self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'reclaim-fleet %s'" % name)
        else:
            self.server.kill()
            self.hear()
            self.server.start()

    def test_any_moment(self):
        owner = self.joined("a")
        owner.claims = []
        # reclaimd neither waits to say something nor stops listening; here one follows the other.
        for first in range(0, self.UNITS, 50):
            for i in range(first, first + 50):
                owner.publish(i, names=(), slice_=i, slices=self.UNITS)
            for i in range(first, first + 50):
                owner.expect("PUBLISHED", serial=i, published=1)
        for name in self.HOSTS:
            self.begin(name)
        left = self.UNITS
        while left > self.UNITS // 10:
            self.fault()
            for _ in range(10):
                self.hear()
            left = int(self.sql("SELECT count(*) FROM reclaimd.units"))
        for name in self.stopped:
            self.hosts[name].process.send_signal(signal.SIGCONT)
        # What every host has given back once is for the owner.
        owner.capacity(64)
        self.hosts["a"] = owner

        def ended():
            self.hear()
            return self.sql("SELECT count(*) FROM reclaimd.units") == "0"
        fixture.until(ended, lambda: "seed %d" % self.seed)
        self.assertEqual(self.sql("SELECT entries FROM reclaimd.jobs"), str(self.UNITS), "seed %d" % self.seed)


class Refused(Case):
    """Each in words that name it, and the host works alone."""

    def refused(self, host="a", string=None, **options):
        c = self.start(host)
        c.join(string or self.string(), **options)
        return c.expect("REFUSED").text

    def test_connection_string(self):
        self.assertIn('the connection string of the database: ', self.refused(string="nonsense"))
        self.assertIn('invalid connection option "hots"', self.refused(string="hots=x"))

    def test_no_schema(self):
        self.assertEqual(self.refused(string=self.server.string("postgres")),
                         "the database has no schema reclaimd: run reclaimctl fleet init")

    def test_schema_of_another_version(self):
        self.sql("INSERT INTO reclaimd.version (number) VALUES (99)")
        self.assertIn("has version 99 of the schema, and this reclaimd takes version 1: update this host", self.refused())
        r = self.verb("init")
        self.assertEqual(r.returncode, 1)
        self.assertIn("version 99", r.stderr)

    def test_no_permission(self):
        self.sql("DROP ROLE IF EXISTS stranger; CREATE ROLE stranger LOGIN")
        self.assertIn("permission denied for schema reclaimd: expected a role that is in reclaimd_host",
                      self.refused(string=self.string("stranger")))

    def test_name_of_another_host(self):
        a = self.joined("a", boot="one")
        self.assertEqual(self.refused(boot="two"),
                         'another host is called "a", and is there: give each host a name of its own')
        # Two daemons of one host.
        self.assertIn('another host is called "a"', self.refused(boot="one"))
        a.publish(1)
        a.expect("PUBLISHED", published=1)

    def test_name_is_free_when_its_host_has_ended(self):
        self.ended(self.joined("a", boot="one"))
        self.joined("a", boot="two")

    def test_filesystem_under_two_names(self):
        self.joined("a")
        self.assertEqual(self.refused("b", filesystems=(("other", "id-of-scratch", "/srv"),)),
                         'the filesystem at /srv is called "scratch" by other hosts, and "other" by this one')

    def test_two_filesystems_under_one_name(self):
        self.joined("a")
        self.assertEqual(self.refused("b", filesystems=(("scratch", "id-of-another", "/srv"),)),
                         'the filesystem "scratch" of other hosts is id-of-scratch, and that at /srv is id-of-another')

    def test_uid_spaces_that_differ(self):
        self.joined("a", uid_space="ldap one")
        self.assertEqual(self.refused("b", uid_space="ldap two"),
                         'users of "scratch" have the numbers of "ldap one" on other hosts, and of "ldap two" here')

    def test_other_role(self):
        self.sql("DROP ROLE IF EXISTS rack1; DROP ROLE IF EXISTS rack2; CREATE ROLE rack1 LOGIN IN ROLE reclaimd_host; "
                 "CREATE ROLE rack2 LOGIN IN ROLE reclaimd_host")
        a = self.start("a")
        a.join(self.string("rack1"))
        a.expect("JOINED")
        self.ended(a)
        self.assertEqual(self.refused(string=self.string("rack2")),
                         'host "a" joins with the role "rack1" of the database, and this is role "rack2"')

    def test_refused_is_told_once_and_asked_again(self):
        a = self.joined("a", boot="one")
        c = self.start("a")
        c.join(self.string(), boot="two", lease=600)
        c.expect("REFUSED")
        self.ended(a)
        c.expect("JOINED")
        self.assertEqual([m.name for m in c.heard], ["REFUSED", "JOINED"])

    def test_messages_that_are_none(self):
        """It ends; reclaimd starts it anew."""
        for data in (b"", b"x", encode("JOIN", version=2, database="", host="a", boot="b", uid_space="c", lease_msec=0),
                     encode("FORGET", job=1), encode("CAPACITY", filesystem="scratch", units=1, works=0, rate=0)):
            c = self.start("a")
            c.socket.send(data or b"\0")
            self.assertIsNone(c.receive())
            self.assertEqual(c.end()[0], 1)
        for say in (lambda c: c.capacity(1, "unknown"), lambda c: c.publish(1, names=()),
                    lambda c: c.publish(1, directory_="../x"), lambda c: c.publish(1, slices=70000, names=()),
                    lambda c: c.publish(1, names=((".", regular(1)),)), lambda c: c.publish(1, job=0),
                    lambda c: c.publish(1, parent=regular(1)), lambda c: c.join(self.string()),
                    lambda c: c.say("RECALL", job=0)):
            c = self.joined("b")
            say(c)
            while c.receive():
                pass
            self.assertEqual(c.end()[0], 1)
            fixture.until(lambda: self.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE "
                                           "'reclaim-fleet%' AND datname = current_database()") == "0")


class Rights(Case):
    def test_hosts_claim_and_report_and_do_not_alter(self):
        self.sql("DROP ROLE IF EXISTS rack1; CREATE ROLE rack1 LOGIN IN ROLE reclaimd_host")
        self.joined("a")
        for statement in ("UPDATE reclaimd.units SET job = 1", "DELETE FROM reclaimd.jobs", "SELECT life FROM reclaimd.hosts",
                          "INSERT INTO reclaimd.version VALUES (5)", "SELECT reclaimd.remove_host('a')",
                          "SELECT reclaimd.release('a')", "SELECT reclaimd.news_of('a')", "CREATE TABLE reclaimd.x (y int)",
                          "DROP FUNCTION reclaimd.leave(uuid)", "TRUNCATE reclaimd.units",
                          "SELECT nextval('reclaimd.tokens')"):
            with self.assertRaisesRegex(RuntimeError, "permission denied|must be owner"):
                self.server.psql(statement, self.database, "rack1")
        self.assertEqual(self.server.psql("SELECT name FROM reclaimd.show_hosts", self.database, "rack1"), "a")

    def test_sandbox(self):
        c = self.joined("a")
        with open("/proc/%d/status" % c.process.pid, encoding="ascii") as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        self.assertEqual({status[k] for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}, {"0" * 16})
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))


class Removed(Case):
    def removes(self, host):
        try:
            self.sql("SELECT reclaimd.remove_host('%s')" % host)
        except RuntimeError as e:
            return str(e)
        return ""

    def test_dead_host(self):
        """Its jobs and units go with it, and hosts that have one of them give it back. It can join again."""
        b = self.joined("b")
        b.capacity(1)
        a = self.joined("a", boot="one")
        a.publish(1, job=1)
        b.expect("CLAIMED")
        self.assertIn('host "a" is in the fleet: stop its reclaimd first', self.removes("a"))
        self.assertIn('there is no host "x"', self.removes("x"))
        self.ended(a)
        self.assertEqual(self.removes("a"), "")
        b.expect("REVOKED")
        for table in ("units", "jobs", "mounts WHERE host = 'a'", "hosts WHERE name = 'a'"):
            self.assertEqual(self.sql("SELECT count(*) FROM reclaimd." + table), "0", table)
        self.joined("a", boot="two")


class Verbs(Case):
    def test_init_again(self):
        self.assertEqual(json.loads(self.verb("init").stdout), {"version": 1, "before": 1})

    def test_init_without_permission(self):
        self.sql("DROP ROLE IF EXISTS stranger; CREATE ROLE stranger LOGIN")
        self.server.psql("CREATE DATABASE empty%s" % self.database)
        r = self.verb("init", string=self.server.string("empty" + self.database, "stranger"))
        self.assertEqual(r.returncode, 1)
        self.assertTrue(r.stderr.startswith("reclaim-fleet: permission denied for database"), r)

    def test_show(self):
        a, b = self.joined("a"), self.joined("b")
        a.publish(1, job=5, directory_="x/y", names=(("n1", regular(1)), ("n 2", regular(2))))
        a.publish(2, job=5, names=(), slice_=1, slices=4)
        a.expect("PUBLISHED", serial=2)
        b.capacity(1)
        b.expect("CLAIMED")
        r = self.verb("hosts")
        self.assertEqual(r.stderr, "")
        hosts = json.loads(r.stdout)
        self.assertEqual([(h["name"], h["present"], h["claimed"], h["jobs"]) for h in hosts["hosts"]],
                         [("a", True, 0, 1), ("b", True, 1, 0)])
        self.assertEqual([(f["name"], f["host"], f["path"]) for f in hosts["filesystems"]],
                         [("scratch", "a", "/mnt/scratch"), ("scratch", "b", "/mnt/scratch")])
        units = json.loads(self.verb("units").stdout)
        self.assertEqual([(u["job"], u["directory"], u["what"], u["host"]) for u in units["units"]],
                         [(5, "x/y", "n1 n 2", "b"), (5, "", "slice 2 of 4", None)])
        self.assertEqual([(j["owner"], j["job"], j["open"], j["claimed"]) for j in units["jobs"]], [("a", 5, 1, 1)])

    def test_check(self):
        self.assertEqual(self.verb("check").returncode, 0)
        for verb in ("check", "parse"):
            r = self.verb(verb, string="nonsense")
            self.assertEqual((r.returncode, r.stdout), (1, ""))
            self.assertTrue(r.stderr.startswith("reclaim-fleet: the connection string: "), r)
        # That is known without asking any server.
        self.assertEqual(self.verb("parse", string="host=/nonexistent").returncode, 0)
        self.assertEqual(self.verb("check", string="host=/nonexistent").returncode, 1)

    def test_usage(self):
        for words in (["x"], ["init", "a"], ["hosts", "a", "b"], ["parse", "a"]):
            self.assertEqual(self.verb(*words).returncode, 2)
        self.assertEqual(subprocess.run([PROGRAM, "init"], stderr=subprocess.DEVNULL, check=False).returncode, 2)
        r = subprocess.run([PROGRAM], capture_output=True, text=True, check=False)
        self.assertEqual(r.returncode, 1)


class Reclaimctl(Case):
    """reclaimctl fleet, and the database as contrib/fleet/set-up-database makes it."""

    def ctl(self, *words, config=None):
        directory = os.path.join(scratch.dir, "etc-" + self.database)
        os.makedirs(directory, exist_ok=True)
        fixture.write(os.path.join(directory, "reclaimd.yaml"), config or "")
        return subprocess.run([os.environ["RECLAIMCTL"], "fleet", *words, "--configuration-directory=" + directory],
                              capture_output=True, text=True, check=False, env=dict(os.environ, COLUMNS="200"))

    def configured(self, name="b"):
        return 'fleet: {database: "%s", name: %s, filesystems: {/mnt: scratch}}' % (self.string(), name)

    def test_tables(self):
        r = self.ctl("hosts", config=self.configured())
        self.assertEqual((r.returncode, r.stdout, r.stderr), (0, "no host has joined yet\n", ""))
        a, b = self.joined("a"), self.joined("b")
        a.publish(1, job=5, directory_="x/y", names=((os.fsdecode(b"n\xff\x1b"), regular(1)),))
        a.expect("PUBLISHED", serial=1)
        b.capacity(1)
        b.expect("CLAIMED")
        r = self.ctl("hosts", config=self.configured())
        self.assertEqual(r.stderr, "")
        self.assertEqual([line.split() for line in r.stdout.splitlines()],
                         [["HOST", "STATE", "JOBS", "CLAIMED", "FILESYSTEMS"],
                          ["a", "present", "1", "0", "scratch", "at", "/mnt/scratch"],
                          ["b", "present", "0", "1", "scratch", "at", "/mnt/scratch"]])
        r = self.ctl("units", config=self.configured())
        self.assertEqual([line.split() for line in r.stdout.splitlines()],
                         [["OWNER", "JOB", "FILESYSTEM", "OPEN", "CLAIMED", "ENTRIES", "BYTES", "ERRORS"],
                          ["a", "5", "scratch", "0", "1", "0", "0", "B", "0"], [],
                          ["UNIT", "OWNER", "JOB", "HOST", "ENTRIES", "WHAT"],
                          ["1", "a", "5", "b", "0", "x/y:", "n\\377\\x1b"]])
        r = self.ctl("units", "--json", config=self.configured())
        self.assertEqual(json.loads(r.stdout)["jobs"][0]["claimed"], 1)
        self.assertEqual(self.ctl("units", "--quiet", config=self.configured()).stdout, "")

    def test_what_is_wrong_is_said(self):
        for words, config, status, said in (
                (["hosts"], "", 1, "this host is in no fleet: see fleet in reclaimd.yaml(5), or give --database="),
                (["hosst"], "", 2, "no such command of fleet: did you mean hosts?"),
                ([], "", 2, "give hosts, units or init"),
                (["hosts", "a"], "", 2, "hosts, units and init take no arguments"),
                (["hosts", "--database=nonsense"], "", 1, "the connection string: "),
                (["hosts", "--database=host=/nonexistent"], "", 1, "connection to server"),
                (["hosts"], "fleet: {}\nfleet: {}", 1, "has errors, so the fleet is not known"),
                (["hosts", "--database=" + self.server.string("postgres")], "", 1, "run reclaimctl fleet init")):
            r = self.ctl(*words, config=config)
            self.assertEqual(r.returncode, status, (words, r))
            self.assertIn(said, " ".join(r.stderr.split()))

    def test_check_config_asks_the_database(self):
        """Of the configuration of the system; that it cannot be used now is no error."""
        made = not os.path.exists("/etc/reclaimd")
        directory = os.path.join(scratch.dir, "system-" + self.database)
        os.mkdir(directory)
        os.makedirs("/etc/reclaimd", exist_ok=True)
        fixture.command("mount", "--bind", directory, "/etc/reclaimd")
        try:
            for string, said in ((self.string(), ""), (self.server.string("postgres"), "warning: fleet: database: (now) the "
                                 "database has no schema reclaimd: run reclaimctl fleet init")):
                fixture.write(os.path.join(directory, "reclaimd.yaml"),
                              'fleet: {database: "%s", name: a, filesystems: {%s: s}}' % (string, scratch.dir))
                r = subprocess.run([os.environ["RECLAIMCTL"], "check-config"], capture_output=True, text=True, check=False)
                self.assertEqual(r.returncode, 0)
                self.assertIn(said, " ".join(r.stderr.split()))
                self.assertEqual("database: (now)" in " ".join(r.stderr.split()), said != "")
        finally:
            fixture.command("umount", "/etc/reclaimd")
            if made:
                os.rmdir("/etc/reclaimd")

    def test_set_up(self):
        script = os.path.join(os.path.dirname(fixture.HERE), "..", "contrib", "fleet", "set-up-database")
        directory = os.path.join(scratch.dir, "passwords-" + self.database)
        os.mkdir(directory)
        env = dict(os.environ, PGHOST=self.server.dir, PGUSER="postgres", PATH=":".join(
            (os.path.dirname(os.environ["RECLAIMCTL"]), self.server.programs, os.environ["PATH"])))
        for hosts, said in ((["rack1", "rack2"], "now"), (["rack1", "rack3"], "already")):
            p = subprocess.run([script, directory, *hosts], capture_output=True, text=True, check=False, env=env)
            self.assertEqual((p.returncode, p.stderr), (0, ""))
            self.assertIn(said, p.stdout.splitlines()[0])
        self.assertEqual(sorted(os.listdir(directory)), ["rack1.pass", "rack2.pass", "rack3.pass"])
        with open(os.path.join(directory, "rack1.pass"), encoding="ascii") as f:
            self.assertRegex(f.read(), "^[*]:[*]:reclaimd:rack1:[0-9a-f]{48}\n$")
        self.assertEqual(os.stat(os.path.join(directory, "rack1.pass")).st_mode & 0o777, 0o600)
        a, b = self.start("rack1"), self.start("rack2")
        a.join(self.server.string("reclaimd", "rack1"))
        b.join(self.server.string("reclaimd", "rack2"))
        a.expect("JOINED")
        b.expect("JOINED")
        b.capacity(1)
        a.publish(1)
        b.finish(b.expect("CLAIMED"))
        a.expect("JOB", open=0, claimed=0, entries=1)
        # The name of a daemon that has ended is free at once, although its session is another role's.
        c = self.start("rack1")
        c.join(self.server.string("reclaimd", "rack1"))
        self.assertIn('another host is called "rack1"', c.expect("REFUSED").text)
        for words in (["x"], ["-h"], [directory, "Rack"]):
            self.assertEqual(subprocess.run([script, *words], env=env, stderr=subprocess.DEVNULL, check=False).returncode, 2)


class Hostile(Case):
    """Whatever the database says: what is no unit does not come to reclaimd, and nothing ends."""

    counted = False
    # Without what keeps the tables in shape.
    LOOSE = """
        ALTER TABLE reclaimd.units DROP CONSTRAINT units_owner_job_fkey, DROP CONSTRAINT units_directory_check,
            DROP CONSTRAINT units_parent_check, DROP CONSTRAINT units_slice_check, DROP CONSTRAINT units_slices_check,
            DROP CONSTRAINT units_names_check, DROP CONSTRAINT units_identities_check;
        ALTER TABLE reclaimd.jobs DROP CONSTRAINT jobs_uid_check, DROP CONSTRAINT jobs_job_check;
        ALTER TABLE reclaimd.problems DROP CONSTRAINT problems_path_check, DROP CONSTRAINT problems_what_check,
            DROP CONSTRAINT problems_error_check;
    """
    COLUMNS = {
        "directory": (r"'\x2f'", r"'\x2e2e'", r"'\x612f2e2e'", r"'\x6100'", "repeat('a', 5000)::bytea", r"'\x612f'"),
        "parent": ("''", "'x'", "'5:1:f'", "repeat('9', 1000)", "'-1:1:d'", "E'5:1:d\\n'"),
        "slice": ("-1", "7", "2147483647"),
        "slices": ("-1", "1", "2147483647"),
        "names": (r"'\x'", r"'\x61'", r"'\x2e00'", r"'\x2e2e00'", r"'\x612f6200'", r"'\x610062'", r"'\x6100620063'",
                  r"'\x00'", "repeat('a', 300)::bytea || '\\x00'::bytea", "repeat('a', 1000000)::bytea"),
        "identities": ("''", "'1'", "'11:1:f 12:1:f'", "'0:1:f'", "'11:1:q'", "repeat('11:1:f ', 100000)"),
    }

    GOOD = {"directory": r"'\x61'", "parent": "'5:1:d'", "slice": "0", "slices": "0", "names": r"'\x6100'",
            "identities": "'11:1:f'"}

    def test_units_of_every_shape(self):
        a, b = self.joined("a"), self.joined("b")
        self.sql(self.LOOSE)
        b.capacity(1)
        a.publish(1)
        b.finish(b.expect("CLAIMED"))
        for column, values in self.COLUMNS.items():
            for value in values:
                row = dict(self.GOOD, **{column: value})
                self.sql("INSERT INTO reclaimd.units (owner, job, filesystem, %s) VALUES ('a', 1, 'scratch', %s); "
                         "SELECT pg_notify('reclaimd', 'open scratch')" % (", ".join(row), ", ".join(row.values())))
                fixture.until(lambda: self.sql("SELECT count(*) FROM reclaimd.units") == "0",
                              lambda column=column, value=value: "%s = %s" % (column, value))
        # It goes on as if nothing had been.
        a.publish(2)
        b.finish(b.expect("CLAIMED"))
        self.assertEqual([m.name for m in b.heard].count("CLAIMED"), 2)
        self.assertEqual(b.end(), (0, "reclaim-fleet: a unit that the database has is none, ignoring it and further "
                                      "ones\n"))

    def test_jobs_of_every_shape(self):
        a, b = self.joined("a"), self.joined("b")
        self.sql(self.LOOSE)
        for i, change in enumerate(("uid = -1", "uid = 4294967295", "uid = 9223372036854775807", "entries = -5",
                                    "bytes = -1", "errors = -9223372036854775808"), 1):
            a.publish(i, job=i)
            a.expect("PUBLISHED", serial=i)
            self.sql("UPDATE reclaimd.jobs SET %s WHERE job = %d" % (change, i))
        b.capacity(3)
        fixture.until(lambda: self.sql("SELECT count(*) FROM reclaimd.units u, reclaimd.jobs j WHERE u.job = j.job "
                                       "AND (j.uid < 0 OR j.uid >= 4294967295)") == "0")
        for _ in range(3):
            m = b.expect("CLAIMED")
            self.assertEqual(m.uid, 1000)
            b.finish(m)
        for m in a.heard:
            if m.name == "JOB":
                self.assertLess(max(m.entries, m.bytes, m.errors), 1 << 63)
        self.ended(a)

    def test_problems_of_every_shape(self):
        a = self.joined("a", lease=600)
        self.sql(self.LOOSE)
        a.publish(1, job=1)
        a.expect("PUBLISHED")
        for path, what, error in ((r"'\x6100'", "'x'", "1"), ("repeat('a', 9999)::bytea", "'x'", "1"),
                                  (r"'\x61'", "E'\\x1b[2J'", "1"), (r"'\x61'", "repeat('x', 99999)", "1"),
                                  (r"'\x61'", "'x'", "-1"), (r"'\x61'", "'x'", "99999"), (r"'\x61'", "'good'", "2")):
            self.sql("INSERT INTO reclaimd.problems (owner, job, path, what, error) VALUES ('a', 1, %s, %s, %s)" %
                     (path, what, error))
        p = a.expect("PROBLEM")
        self.assertEqual((p.path, p.what, p.error), ("a", "good", 2))
        self.assertEqual([m.name for m in a.heard].count("PROBLEM"), 1)

    def test_notices_of_every_shape(self):
        """Which any user of the database can send."""
        a, b = self.joined("a"), self.joined("b")
        b.capacity(1)
        a.publish(1, job=1)
        got = b.expect("CLAIMED")
        for payload in ("", " ", "open", "open ../x", "wanted", "wanted scratch", "wanted scratch b", "wanted scratch b -1",
                        "wanted scratch b 99999999999999999999", "wanted scratch " + "x" * 7000 + " 1",
                        "wanted scratch ../b 5", "job", "job a", "job " + "a" * 100, "revoke", "revoke a", "revoke a x",
                        "revoke b 1", "revoke a 2", "%s%n%d", "\u00e4"):
            self.sql("SELECT pg_notify('reclaimd', %s)" % ("'" + payload + "'"))
        # A host that is none can ask for much; it is only asked for.
        for i in range(50):
            self.sql("SELECT pg_notify('reclaimd', 'wanted scratch made-up-%d 2000000000')" % i)
        a.expect("DEMAND", units=50 * 4096)
        b.expect("DEMAND", units=50 * 4096)
        self.assertEqual({m.name for m in b.heard}, {"JOINED", "WORKING", "CLAIMED", "DEMAND"})
        b.finish(got)
        a.expect("JOB", open=0, claimed=0)
        self.ended(a)
        self.ended(b)

    def test_functions_of_every_shape(self):
        """A schema that was altered is refused, and no more."""
        for function, body in (("claim(uuid, text[], int[], int[], bigint[]) RETURNS SETOF text", "SELECT 'x'::text"),
                               ("schema_version() RETURNS text", "SELECT '1x'::text"),
                               ("schema_version() RETURNS SETOF int", "SELECT 1 WHERE false"),
                               ("join_fleet(text, uuid, text, text, text, bigint, text[], text[], text[]) "
                                "RETURNS TABLE (what text, name text, host text, number bigint)",
                                "SELECT 'life'::text, repeat('x', 100000), NULL::text, 1::bigint"),
                               ("join_fleet(text, uuid, text, text, text, bigint, text[], text[], text[]) "
                                "RETURNS TABLE (what text, name text, host text, number bigint)",
                                "SELECT NULL::text, NULL::text, NULL::text, NULL::bigint FROM generate_series(1, 1000)")):
            name = function.split("(")[0]
            self.sql("DROP FUNCTION reclaimd.%s CASCADE; CREATE FUNCTION reclaimd.%s LANGUAGE sql AS $$ %s $$" %
                     (name, function, body))
            c = self.start("a")
            c.join(self.string())
            c.capacity(1)
            self.assertIn(c.expect("REFUSED").text, (
                "the database answers what was not asked: its schema reclaimd was altered",
                'column "unit" does not exist'))
            self.ended(c)
            self.sql("DROP SCHEMA reclaimd CASCADE")
            self.assertEqual(self.verb("init").returncode, 0)


if __name__ == "__main__":
    fixture.main()
