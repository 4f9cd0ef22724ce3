#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Two hosts of a fleet: a daemon stands for a host; the database is a real one."""
import contextlib
import os
import signal
import subprocess

import daemon_fixture
import dbuswire
import fixture
from contents import fingerprint
from fixture import USER, build, command, names_in, scratch, write
from fleet_wire import PROGRAM, server_of

HOUR = 3600 * 1000 * 1000


def tearDownModule():
    if Case.server:
        Case.server.stop()


class Case(daemon_fixture.Case):
    """The hosts a and b share one filesystem."""

    server = None
    databases = 0

    @classmethod
    def setUpClass(cls):
        server_of(Case)

    def setUp(self):
        super().setUp()
        Case.databases += 1
        self.database = "pair%d" % Case.databases
        self.server.psql("CREATE DATABASE %s" % self.database)
        subprocess.run([PROGRAM, "init"], check=True, capture_output=True,
                       env=dict(os.environ, RECLAIM_FLEET_DATABASE=self.server.string(self.database)))
        self.top = os.path.join(self.root, ".reclaim")
        self.canary = fixture.Canary(self.path("canary"))
        self.b = daemon_fixture.Daemon()
        self.addCleanup(self.b_stops)

    def finish(self):
        if self.daemon.process.poll():
            # What was killed has to end well once more.
            self.daemon.configure("")
            self.daemon.start()
        super().finish()

    def b_stops(self):
        if self.b.process:
            status = self.b.stop()
            self.assertNotIn("ERROR: ", self.b.said())
            self.assertEqual(status, 0, self.b.said())
        self.canary.check()

    def joins(self, daemon, host, env=None, said=None, more=""):
        if daemon.process and daemon.process.poll() is None:
            daemon.stop()
        daemon.configure(more + 'fleet:\n  database: "%s"\n  name: %s\n  filesystems: {"%s": shared}\n'
                         % (self.server.string(self.database), host, self.root))
        joined = "This host is %s in the fleet" % host
        n = daemon.said().count(joined) if os.path.exists(daemon.log) else 0
        daemon.start(dict(env or {}, SYSTEMD_LOG_LEVEL="debug"))
        if said:
            daemon.wait_said(said)
        else:
            daemon.wait_said(joined, n + 1)
        return daemon.client()

    def sql(self, statements):
        return self.server.psql(statements, self.database)

    def part(self, host, *names):
        return os.path.join(self.top, "@" + host, *names)

    def lease_is_over(self, host="a"):
        self.sql("UPDATE reclaimd.hosts SET lease_until = clock_timestamp() - interval '1s' WHERE name = '%s'" % host)

    def kill(self, daemon):
        # reclaim-fleet among them, which would take leave of the database if it saw the daemon end.
        children = daemon.workers()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        daemon.kill()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for c in daemon.clients:
            c.close()
        daemon.clients = []
        fixture.end_keepers()


class Conditional(Case):
    def test_rmdir_job_is_not_shared(self):
        """Another host would not know that it may only remove empty directories."""
        b = self.joins(self.b, "b")
        b.call("PauseAll")
        a = self.joins(self.daemon, "a", {"RECLAIM_GATE": "unlink:1"})
        os.mkdir(self.path("x"))
        n = a.submit(self.path("x"), rmdir=True)
        worker = self.daemon.stopped_worker()
        said = self.daemon.said().count("other hosts would take 2 units")
        self.sql("UPDATE reclaimd.mounts SET wanted = 2 WHERE host = 'b'; NOTIFY reclaimd, 'wanted shared b 2'")
        self.daemon.wait_said("other hosts would take 2 units", said + 1)
        # What was asked of root's worker then has been done when it has done this, too.
        write(self.path("file"))
        os.chown(self.path("file"), USER, USER)
        os.chmod(self.data, 0o1777)
        c = self.daemon.client(USER)
        c.submit(self.path("file"), undo_usec=HOUR)
        self.assertEqual(names_in(self.part("a", "marks")), [])
        os.kill(worker, signal.SIGCONT)
        self.assertEqual(a.wait(n), "done")


class DeadHost(Case):
    def test_root_moves_out_what_it_had_staged(self):
        """As docs/fleet.md describes it."""
        b = self.joins(self.b, "b")
        a = self.joins(self.daemon, "a")
        build(self.data, "held/file = must stay\nheld/sub/file = too")
        before = fingerprint(os.fsencode(self.path("held")))
        n = a.submit(self.path("held"), undo_usec=HOUR)
        self.kill(self.daemon)
        self.lease_is_over()
        self.sql("SELECT reclaimd.remove_host('a')")
        self.assertEqual(self.sql("SELECT name FROM reclaimd.hosts"), "b")
        with self.assertRaisesRegex(dbuswire.Error, "belongs to reclaimd itself"):
            b.submit(self.part("a", "0"))
        rescued = os.path.join(self.root, "rescued")
        os.mkdir(rescued, 0o700)
        command("mv", "-n", self.part("a", "0"), rescued)
        (job,) = os.listdir(os.path.join(rescued, "0"))
        (name,) = os.listdir(os.path.join(rescued, "0", job))
        self.assertEqual(fingerprint(os.fsencode(os.path.join(rescued, "0", job, name))), before)
        command("rm", "-r", self.part("a"))
        self.assertEqual(b.wait(b.submit(rescued)), "done")
        # It comes back.
        a = self.joins(self.daemon, "a")
        with self.assertRaisesRegex(dbuswire.Error, "held"):
            a.call("Cancel", "at", [n])
        self.assertEqual((a.job(n)["state"], "lost" in a.job(n)["message"]), ("failed", True), a.job(n))


if __name__ == "__main__":
    fixture.main()
