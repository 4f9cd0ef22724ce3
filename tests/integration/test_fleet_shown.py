#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What users see of a fleet, with a real database: a daemon stands for one host, and the others are played."""
import json
import os
import re
import signal
import time
import unittest

import daemon_fixture
import fixture
import openmetrics
import terminal
from fixture import Proc, build, fill, names_in, scratch
from fleet_wire import PROGRAM, Companion, regular, server_of


class Case(daemon_fixture.Case):
    """The daemon is host a, on a disk of its own, and hardly deletes anything before a test has it go on."""

    server = None
    databases = 0

    @classmethod
    def setUpClass(cls):
        server_of(Case)

    def setUp(self):
        super().setUp()
        self.mount_disk()
        Case.databases += 1
        self.database = "shown%d" % Case.databases
        self.server.psql("CREATE DATABASE %s" % self.database)
        self.hosts = []
        self.addCleanup(self.hosts_end)
        r = self.ctl("fleet", "init", "--database=" + self.string())
        self.assertEqual(r.err, "")

    def hosts_end(self):
        for c in self.hosts:
            c.process.kill()
            c.process.communicate()
            c.socket.close()

    def string(self):
        return self.server.string(self.database)

    def close_database(self):
        """No host is connected any more, and none can connect."""
        self.server.psql("ALTER DATABASE %s ALLOW_CONNECTIONS false; SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                         "WHERE datname = '%s'" % (self.database, self.database))

    def sql(self, statements):
        return self.server.psql(statements, self.database)

    def ctl(self, *words, status=0, daemon=None, user=None):
        env = {"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname((daemon or self.daemon).socket), "COLUMNS": "200"}
        p = Proc([scratch.binary, *words], "/" if user else self.data, env=env, user=user)
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, status, r)
        return r

    def configuration(self, string=None, host="a"):
        return 'fleet: {database: "%s", name: %s, filesystems: {%s: scratch}}\n' % (string or self.string(), host, self.data)

    def join(self, string=None):
        """The daemon is host a from now on."""
        self.daemon.stop()
        self.daemon.configure("pacing: {max-rate: 64KiB/s, min-rate: 64KiB/s}\n" + self.configuration(string))
        self.daemon.start({"SYSTEMD_LOG_LEVEL": "debug"})
        if not string:
            self.daemon.wait_said("This host is a in the fleet")

    def go_on(self):
        self.daemon.configure(self.configuration())
        self.daemon.client().call("Reload")

    def played(self, host, mount="/mnt/scratch", identity="scratch"):
        """Another host; nothing of it deletes anything."""
        c = Companion(PROGRAM, host)
        self.hosts.append(c)
        c.join(self.string(), filesystems=(("scratch", identity, mount),), uid_space="default")
        c.expect("JOINED")
        return c

    def play(self, host, units):
        """Another host on the same filesystem, which wants so many units."""
        at = os.path.join(self.data, ".reclaim", "id")
        self.until(lambda: names_in(at))
        c = self.played(host, identity=os.listdir(at)[0])
        if units:
            c.capacity(units)
            self.daemon.wait_said("fleet: other hosts would take %d units on scratch" % units)
        return c

    def tree(self):
        for d in range(30):
            fill(self.path("t/d%02d" % d), 100)
        return self.path("t")

    def begin(self, host):
        """A job with three units that are open, as that host is stopped."""
        os.kill(host.process.pid, signal.SIGSTOP)
        job = self.daemon.client().submit(self.tree())
        self.until(lambda: self.shown(job)["units_open"] == 3)
        return job

    def claims(self, host):
        """It has them, and wants no more."""
        os.kill(host.process.pid, signal.SIGCONT)
        claims = [host.expect("CLAIMED") for _ in range(3)]
        host.capacity(0)
        return claims

    def shown(self, job):
        """As of now, not of the last renewal of a lease."""
        self.sql("SELECT pg_notify('reclaimd', 'job a')")
        return json.loads(self.ctl("show", "--json", str(job)).out)[0]

    def line(self, job):
        said = [line for line in self.ctl("show", str(job)).out.splitlines() if line.startswith("     Fleet: ")]
        return said[0][len("     Fleet: "):] if said else None


def tearDownModule():
    if Case.server:
        Case.server.stop()


class Show(Case):
    KEYS = ("units_open", "others_claimed", "others_units", "others_entries", "others_bytes")

    def seen(self, job, *values):
        self.until(lambda: tuple(self.shown(job)[k] for k in self.KEYS) == values,
                   lambda: "%r: %s" % (self.shown(job), self.daemon.said()))

    def test_what_other_hosts_do(self):
        self.join()
        b = self.play("b", 3)
        job = self.begin(b)
        self.assertEqual(self.line(job), "0 parts at other hosts, 3 open")
        claims = self.claims(b)
        self.seen(job, 0, 3, 0, 0, 0)
        self.assertEqual(self.line(job), "3 parts at other hosts, 0 open (reclaimctl fleet units)")
        b.finish(claims[0], entries=1000000, nbytes=5 << 20)
        self.seen(job, 0, 2, 1, 1000000, 5 << 20)
        self.assertEqual(self.line(job), "2 parts at other hosts, 0 open; 1 part done by them, 1,000,000 entries, 5.0 MiB freed "
                         "(reclaimctl fleet units)")
        client = self.daemon.client()
        self.assertEqual([client.get(job, k) for k in ("UnitsOpen", "OthersClaimed", "OthersUnits", "OthersEntries", "OthersBytes")],
                         [0, 2, 1, 1000000, 5 << 20])
        self.assertGreaterEqual(client.get(job, "ProgressEntries"), 1000000)
        for claim in claims[1:]:
            b.finish(claim, entries=10, nbytes=0)
        self.seen(job, 0, 0, 3, 1000020, 5 << 20)
        self.go_on()
        self.assertEqual(client.wait(job), "done")
        ended = "3 parts done by other hosts, 1,000,020 entries, 5.0 MiB freed"
        self.assertEqual(self.line(job), ended)
        # Also from the record, and of another job there is nothing to say.
        self.daemon.stop()
        self.daemon.start()
        self.assertEqual(self.line(job), ended)
        os.mkdir(self.path("other"))
        other = self.daemon.client().submit(self.path("other"))
        self.daemon.client().wait(other)
        self.assertIsNone(self.line(other))

    def test_own_units_are_not_others(self):
        """What this host does of its own units counts once, and is not told of other hosts."""
        self.join()
        b = self.play("b", 3)
        job = self.begin(b)
        client = self.daemon.client()
        self.hosts_end()
        self.hosts.clear()
        self.go_on()
        self.assertEqual(client.wait(job), "done")
        self.assertEqual([client.get(job, k) for k in ("OthersUnits", "OthersEntries", "ProgressEntries")], [0, 0, 3031])
        freed = client.call("Get", "ss", "org.reclaimd1.Manager", "EntriesFreed",
                            interface="org.freedesktop.DBus.Properties").body[0]
        self.assertEqual(freed, 3031)

    def test_without_the_database(self):
        """What is not known any more is not told."""
        self.join()
        b = self.play("b", 3)
        job = self.begin(b)
        self.claims(b)
        self.seen(job, 0, 3, 0, 0, 0)
        self.close_database()
        self.until(lambda: self.daemon.client().get(job, "OthersClaimed") == 0)


class Metrics(Case):
    def fleet(self, daemon=None):
        """Those of a fleet, by what is behind their common beginning."""
        found = openmetrics.parse(self.ctl("metrics", daemon=daemon).out)
        return {name[len("reclaimd_fleet_"):]: values[()] for name, values in found.items() if name.startswith("reclaimd_fleet_")}

    def counts(self, daemon=None):
        found = self.fleet(daemon)
        return [int(found[name + "_total"]) for name in ("published_units", "claimed_units", "done_units", "done_entries",
                                                         "done_bytes", "others_units", "others_entries", "others_bytes")]

    def test_none_without_a_fleet(self):
        self.assertEqual(self.fleet(), {})
        self.ctl("metrics", "--format=prometheus")

    def test_connection(self):
        before = time.time()
        self.join()
        self.assertEqual(self.fleet()["connected"], 1)
        since = self.fleet()["since_timestamp_seconds"]
        self.assertTrue(before <= since <= time.time(), since)
        self.close_database()
        self.until(lambda: self.fleet()["connected"] == 0)
        self.assertGreater(self.fleet()["since_timestamp_seconds"], since)

    def test_of_an_owner(self):
        self.join()
        b = self.play("b", 3)
        job = self.begin(b)
        self.assertEqual(self.counts(), [3, 0, 0, 0, 0, 0, 0, 0])
        claims = self.claims(b)
        b.finish(claims[0], entries=1000, nbytes=4096)
        b.finish(claims[1], entries=10, nbytes=0, ended=0)
        self.until(lambda: self.shown(job)["others_entries"] == 1010)
        self.assertEqual(self.counts(), [3, 0, 0, 0, 0, 1, 1010, 4096])
        # What was counted before the start is not counted again.
        self.daemon.stop()
        self.daemon.start({"SYSTEMD_LOG_LEVEL": "debug"})
        self.assertEqual(self.counts(), [0] * 8)
        b.capacity(2)
        another = b.expect("CLAIMED")
        b.finish(claims[2], entries=5, nbytes=1)
        self.until(lambda: self.shown(job)["others_entries"] == 1015)
        self.assertEqual(self.counts()[5:], [1, 5, 1])
        b.capacity(0)
        b.finish(another, entries=0, nbytes=0)
        self.go_on()
        self.assertEqual(self.daemon.client().wait(job), "done")
        self.assertEqual(self.daemon.client().get(job, "OthersEntries"), 1015)
        self.assertEqual(self.counts()[5:], [2, 5, 1])

    def test_of_both(self):
        """What one host has done for the other is the same on both."""
        self.join()
        b = daemon_fixture.Daemon(config=self.configuration(host="b"))
        self.addCleanup(b.stop)
        b.start()
        b.wait_said("This host is b in the fleet")
        self.daemon.wait_said("fleet: other hosts would take 1 units on scratch")
        job = self.daemon.client().submit(self.tree())
        self.until(lambda: self.counts(b)[2] > 3, lambda: b.said() + self.daemon.said())
        self.go_on()
        client = self.daemon.client()
        self.assertEqual(client.wait(job), "done")
        published, *claimed, units, entries, freed = self.counts()
        self.assertEqual(claimed, [0] * 4)
        self.assertEqual([units, entries, freed], self.counts(b)[2:5])
        self.assertEqual([client.get(job, k) for k in ("OthersUnits", "OthersEntries", "OthersBytes")], [units, entries, freed])
        self.assertGreaterEqual(published, 4)
        self.assertGreaterEqual(self.counts(b)[1], units)
        self.assertGreater(entries, 3)
        found = openmetrics.parse(self.ctl("metrics", daemon=b).out)
        self.assertEqual(found["reclaimd_freed_entries_total"][()], entries)


class Status(Case):
    def lines(self):
        return [line[len("         Fleet: "):] for line in self.ctl("status").out.splitlines()
                if line.startswith("         Fleet: ")]

    def status(self):
        return json.loads(self.ctl("status", "--json").out)

    def test_in_no_fleet(self):
        self.assertEqual(self.lines(), [])
        s = self.status()
        self.assertEqual([s["fleet_" + k] for k in ("host", "connected", "since_usec", "error")], ["", False, 0, ""])

    def test_connected_and_lost(self):
        before = time.time_ns() // 1000
        self.join()
        (line,) = self.lines()
        self.assertRegex(line, r"^connected to its database as a since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(.*\)$")
        s = self.status()
        self.assertEqual([s["fleet_" + k] for k in ("host", "connected", "error")], ["a", True, ""])
        self.assertGreaterEqual(s["fleet_since_usec"], before)
        client = self.daemon.client()
        self.close_database()
        self.until(lambda: not self.status()["fleet_connected"])
        changed = set()
        while changed != {"FleetConnected", "FleetSinceUSec", "FleetError"}:
            changed |= set(client.signal("PropertiesChanged").body[1]) & {"FleetConnected", "FleetSinceUSec", "FleetError"}
        self.until(lambda: self.status()["fleet_error"])
        (line,) = self.lines()
        self.assertRegex(line, r"^not connected to its database as a since .*\): The database of the fleet cannot be reached: .")
        self.assertGreater(self.status()["fleet_since_usec"], s["fleet_since_usec"])
        # Out of the fleet, there is nothing to tell any more.
        self.daemon.configure("")
        client.call("Reload")
        self.assertEqual(self.lines(), [])

    def test_refused(self):
        self.join(string=self.server.string())
        self.until(lambda: self.status()["fleet_error"])
        (line,) = self.lines()
        self.assertTrue(line.endswith("): The fleet does not take this host: the database has no schema reclaimd: run reclaimctl "
                                      "fleet init"), line)

    def test_other_numbers(self):
        """Users of the hosts that are there have other numbers, as it is configured."""
        at = os.path.join(self.data, ".reclaim", "id")
        self.join()
        self.until(lambda: names_in(at))
        self.played("b", identity=os.listdir(at)[0])
        self.daemon.configure(self.configuration().replace("name: a", "name: a, uid-space: ldap"))
        self.daemon.client().call("Reload")
        self.until(lambda: self.status()["fleet_error"])
        (line,) = self.lines()
        self.assertTrue(line.endswith('): The fleet does not take this host: users of "scratch" have the numbers of "default" on '
                                      'other hosts, and of "ldap" here'), line)

    def test_one_is_not_mounted(self):
        """The fleet helps on the other one."""
        self.daemon.stop()
        self.daemon.configure("pacing: {max-rate: 64KiB/s, min-rate: 64KiB/s}\n" +
                              self.configuration().replace("{%s:" % self.data, "{/nowhere: other, %s:" % self.data))
        self.daemon.start({"SYSTEMD_LOG_LEVEL": "debug"})
        self.daemon.wait_said("This host is a in the fleet")
        b = self.play("b", 3)
        job = self.begin(b)
        self.claims(b)
        self.until(lambda: self.shown(job)["others_claimed"] == 3)
        self.assertNotIn("reclaim-fleet, which speaks", self.daemon.said())

    def test_nothing_is_mounted(self):
        self.daemon.stop()
        self.daemon.configure('fleet: {database: "%s", name: a, filesystems: {/nowhere: scratch}}\n' % self.string())
        self.daemon.start()
        (line,) = self.lines()
        self.assertTrue(line.endswith("): none of its filesystems is mounted"), line)


class List(Case):
    def list(self, *words, **how):
        return self.ctl("list", "--fleet", "--database=" + self.string(), *words, **how)

    def rows(self, *words, **how):
        return [line.split() for line in self.list(*words, **how).out.splitlines()]

    def test_jobs_of_all_hosts(self):
        self.join()
        self.assertEqual(self.rows(), [["No", "jobs", "that", "are", "shared", "now"]])
        b = self.play("b", 3)
        job = self.begin(b)
        os.kill(b.process.pid, signal.SIGCONT)
        b.publish(1, job=7, uid=54321)
        b.expect("PUBLISHED")
        # What is not shared is of no host.
        other = self.path("other")
        os.mkdir(other)
        self.daemon.client().submit(other, undo_usec=3600 * 1000000)
        titles, own, others, _, total = self.rows()
        self.assertEqual(titles, ["HOST", "JOB", "STATE", "USER", "ENTRIES", "FREED", "WHEN", "PATH"])
        self.assertEqual((own[:4], own[-1]), (["a", str(job), "running", "root"], self.path("t")))
        self.assertEqual(others, ["b", "7", "running", "54321", "0", "0B", "(on", "scratch)"])
        self.assertEqual(total, ["2", "jobs", "shared", "now"])
        self.assertEqual(self.rows("--user=54321", "--no-legend"), [others])
        self.assertEqual(self.rows("-n", "1", "--no-legend"), [others])
        first, second = json.loads(self.list("--json").out)
        self.assertEqual((first["host"], first["path"], first["present"], first["filesystem"]),
                         ("a", self.path("t"), True, "scratch"))
        self.assertEqual(second, {"host": "b", "id": 7, "uid": 54321, "entries_done": 0, "bytes_freed": 0, "errors": 0,
                                  "filesystem": "scratch", "units_open": 1, "units_claimed": 0, "present": True})
        b.end()
        self.assertEqual(self.rows("--user=54321", "--no-legend")[0][2], "gone")
        # What the daemon does not show this user is as a job of another host.
        (line,) = [row for row in self.rows("--no-legend", user=fixture.USER) if row[0] == "a"]
        self.assertEqual(line[-2:], ["(on", "scratch)"])

    def test_usage(self):
        for words, said in ((["--fleet", "--all"], "--all and --state= do not go with --fleet"),
                            (["--fleet", "--state=done"], "--all and --state= do not go with --fleet"),
                            (["--database=x"], "--database= and --configuration-directory= go with --fleet"),
                            (["--fleet", "-M", "m"], "--fleet asks the database of this machine, not of that of --machine")):
            self.assertIn(said, self.ctl("list", *words, status=2).err)
        r = self.ctl("list", "--fleet", "--database=nonsense", status=1)
        self.assertIn("the connection string: ", r.err)


class Rate(Case):
    """Of all hosts together, max-rate of the filesystem: this host has its part."""

    rate = 1 << 20

    def configuration(self, string=None, host="a"):
        plain = super().configuration(string, host)
        return plain.replace(": scratch}", ": {name: scratch, max-rate: %dKiB/s}}" % (self.rate >> 10)) if self.rate else plain

    def joins(self):
        self.daemon.stop()
        self.daemon.configure(self.configuration())
        self.daemon.start({"SYSTEMD_LOG_LEVEL": "debug"})
        self.daemon.wait_said("This host is a in the fleet")

    def begins(self):
        """A job that takes some seconds at that rate."""
        return self.daemon.client().submit(self.tree())

    def at_most(self, rate, times=1):
        self.until(lambda: self.daemon.said().count(": at most %d bytes/s (0: no limit) from now on" % rate) == times,
                   lambda: self.daemon.said()[-3000:])

    def parts(self):
        """What the database has of each host."""
        _, *lines = self.ctl("fleet", "hosts", "--database=" + self.string()).out.splitlines()
        return {line.split()[0]: line.partition(" scratch at ")[2].partition(" ")[2] for line in lines}

    def works(self):
        return self.sql("SELECT works FROM reclaimd.mounts WHERE host = 'a'")

    def ends(self, job):
        """As soon as there is no bound any more."""
        self.rate = 0
        self.daemon.configure(self.configuration())
        self.daemon.client().call("Reload")
        self.assertEqual(self.daemon.client().wait(job), "done")

    def test_part_of_a_host(self):
        self.joins()
        job = self.begins()
        self.daemon.wait_said(", at most %d (0: no limit)" % self.rate)
        self.until(lambda: self.works() == "t")
        b = self.play("b", 0)
        b.capacity(0, works=1, rate=6 << 20)
        self.at_most(self.rate // 2)
        c = self.play("c", 0)
        c.capacity(0, works=1)
        self.at_most(self.rate // 3)
        self.until(lambda: self.parts()["a"] == "(341.3 KiB/s of 1.0 MiB/s)", self.parts)
        self.assertEqual(self.parts(), {"a": "(341.3 KiB/s of 1.0 MiB/s)", "b": "(2.0 MiB/s of 6.0 MiB/s)", "c": ""})
        b.end()
        self.at_most(self.rate // 2, times=2)
        self.until(lambda: self.parts()["b"] == "", self.parts)
        # As it is configured now, in the database, too.
        self.rate *= 2
        self.daemon.configure(self.configuration())
        self.daemon.client().call("Reload")
        self.at_most(self.rate // 2)
        self.until(lambda: self.sql("SELECT max_rate FROM reclaimd.mounts WHERE host = 'a'") == str(self.rate))
        # Without the database the part stays as it was.
        self.close_database()
        self.until(lambda: not json.loads(self.ctl("status", "--json").out)["fleet_connected"])
        self.assertNotIn("at most %d bytes/s" % self.rate, self.daemon.said())
        self.ends(job)
        self.at_most(0)

    def test_host_that_begins(self):
        """It has its part from the first moment on, and is counted until it has ended."""
        self.joins()
        b = self.play("b", 0)
        b.capacity(0, works=1)
        self.daemon.wait_said("fleet: other hosts that delete on scratch: 1")
        job = self.begins()
        self.daemon.wait_said(", at most %d (0: no limit)" % (self.rate // 2))
        b.expect("WORKING", hosts=1)
        self.ends(job)
        b.expect("WORKING", hosts=0)
        self.until(lambda: self.works() == "f")

    def joins_at_gate(self, host, daemon=None):
        """Its jobs stand still in the midst, and it is not long before others know that it has crashed."""
        said, times = "This host is %s in the fleet" % host, 1
        if daemon:
            times += daemon.said().count(said)
        else:
            daemon = daemon_fixture.Daemon(config=self.configuration(host=host))
        daemon.start({"SYSTEMD_LOG_LEVEL": "debug", "RECLAIM_LEASE": "5000", "RECLAIM_GATE": "unlink:x"})
        self.addCleanup(daemon.stop)
        daemon.wait_said(said, times)
        return daemon

    def begins_at_gate(self, name, daemon):
        build(self.data, name + "/x")
        return daemon.client().submit(self.path(name)), daemon.stopped_worker()

    @staticmethod
    def ends_at_gate(daemon, job):
        os.kill(daemon.stopped_worker(), signal.SIGCONT)
        return daemon.client().wait(job)

    @staticmethod
    def goes_by(daemon):
        """The bound that it had last, by its log."""
        return int((["0"] + re.findall(r"at most (\d+)(?: bytes/s)? \(0: no limit\)", daemon.said()))[-1])

    def told(self):
        """Of the hosts that are there and delete, as users see it."""
        told = json.loads(self.ctl("fleet", "hosts", "--json", "--database=" + self.string()).out)
        present = {host["name"] for host in told["hosts"] if host["present"]}
        return {row["host"]: row["rate"] for row in told["filesystems"] if row["host"] in present and row["works"]}

    def sum_is_right(self, **hosts):
        """Each of these has its part, and all of them together no more than there is."""
        parts = dict.fromkeys(hosts, self.rate // len(hosts))
        self.assertLessEqual(sum(parts.values()), self.rate)

        def of_each():
            return {host: self.goes_by(daemon) for host, daemon in hosts.items()}

        self.until(lambda: of_each() == self.told() == parts, lambda: "%r and %r, not %r" % (of_each(), self.told(), parts))

    def test_sum_of_hosts(self):
        """They begin, crash, come back and end."""
        if not scratch.gates:
            self.skipTest("built without RECLAIM_TEST_GATES")
        self.daemon.stop()
        self.daemon.configure(self.configuration())
        a = self.joins_at_gate("a", self.daemon)
        b, c = self.joins_at_gate("b"), self.joins_at_gate("c")
        of_a, _ = self.begins_at_gate("of-a", a)
        self.sum_is_right(a=a)
        of_b, worker = self.begins_at_gate("of-b", b)
        self.sum_is_right(a=a, b=b)
        of_c, _ = self.begins_at_gate("of-c", c)
        self.sum_is_right(a=a, b=b, c=c)
        b.kill()
        os.kill(worker, signal.SIGKILL)
        self.sum_is_right(a=a, c=c)
        self.joins_at_gate("b", b)
        b.stopped_worker()
        self.sum_is_right(a=a, b=b, c=c)
        self.assertEqual(self.ends_at_gate(c, of_c), "done")
        self.sum_is_right(a=a, b=b)
        for daemon, job in ((a, of_a), (b, of_b)):
            self.assertEqual(self.ends_at_gate(daemon, job), "done")

    def test_what_no_fleet_has(self):
        """Whatever the database says, a host is not slower than a 64th of it, and not faster than as it is configured."""
        self.joins()
        job = self.begins()
        self.daemon.wait_said(", at most %d (0: no limit)" % self.rate)
        self.sql("SELECT pg_notify('reclaimd', 'works scratch h' || n || ' 1') FROM generate_series(1, 1000) AS n")
        self.daemon.wait_said("fleet: other hosts that delete on scratch: 1000")
        rates = [int(n) for n in re.findall(r": at most (\d+) bytes/s", self.daemon.said())]
        self.assertEqual((min(rates), max(rates)), (self.rate // 64, self.rate // 2))
        self.ends(job)


class Units(Case):
    @unittest.skipUnless(terminal.pyte, "there is no pyte, which is a terminal")
    def test_narrow_terminal(self):
        """No line is longer than it is wide, whatever is in the database."""
        b = self.played("node0173.rack07.example", "/mnt/a-filesystem-whose-mount-point-has-a-rather-long-name/scratch")
        for i in range(3):
            b.publish(i, job=1234567 + i, directory_="1/" + "d" * 100, names=[("name%05d" % k, regular(k + 1)) for k in range(200)])
            b.expect("PUBLISHED", serial=i)
        b.publish(3, job=5, names=(("alone", regular(9)),))
        b.expect("PUBLISHED", serial=3)
        b.publish(4, job=5, names=(), slice_=6, slices=64)
        b.expect("PUBLISHED", serial=4)
        for what in ("hosts", "units"):
            t = terminal.Terminal([scratch.binary, "fleet", what, "--database=" + self.string()],
                                  {"NO_COLOR": "1", "SYSTEMD_PAGER": "cat"}, columns=80)
            self.addCleanup(t.close)
            self.assertEqual(t.finish(), 0)
            said = t.last.decode().replace("\r\n", "\n")
            self.assertLessEqual(max(map(len, said.splitlines())), 80, said)
        self.assertRegex(said, r"(?m)^ *\d+ +node0173.rack07.example +5 +- +0 +alone$")
        self.assertIn(" slice 7 of 64\n", said)
        self.assertRegex(said, r"(?m)^node0173.rack07.example +1234567 ")
        # A pipe gets all of it.
        said = self.ctl("fleet", "units", "--database=" + self.string()).out
        self.assertIn("1/" + "d" * 100 + ": 200 names: name00000 name00001 ", said)

    def test_progress(self):
        """While a unit goes on, its entries are seen to go."""
        self.join()
        b = daemon_fixture.Daemon(config="pacing: {max-rate: 64KiB/s, min-rate: 64KiB/s}\n" + self.configuration(host="b"))
        self.addCleanup(b.stop)
        b.start({"RECLAIM_LEASE": "6000"})
        b.wait_said("This host is b in the fleet")
        self.daemon.wait_said("fleet: other hosts would take 1 units on scratch")
        self.daemon.client().submit(self.tree())
        self.until(lambda: any(u["host"] == "b" and u["entries"] > 0 for u in
                               json.loads(self.ctl("fleet", "units", "--json", "--database=" + self.string()).out)["units"]))


if __name__ == "__main__":
    fixture.main()
