#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A host of a fleet is gone for good, and another one ends what it has left: what was to be deleted anyway, as
marks of root's say, and nothing else. A daemon stands for a host; the database is a real one."""
import contextlib
import json
import os
import shutil
import signal
import subprocess

import daemon_fixture
import dbuswire
import fixture
from contents import fingerprint
from fixture import USER, build, command, fill, listing, names_in, scratch, write
from fleet_wire import PROGRAM, server_of

HOUR = 3600 * 1000 * 1000
NAME = "0123456789abcdef0123456789abcd%02x"


def tearDownModule():
    if Case.server:
        Case.server.stop()


def birth_nsec(path):
    """When it was made, as identities have it; 0: that is not kept."""
    text = command("stat", "--format=%W %w", path).split()
    if text[0] in ("0", "-"):
        return 0
    return int(text[0]) * 10**9 + int(text[2].split(".")[1])


class Case(daemon_fixture.Case):
    """Host a is to be gone one day, host b to adopt it."""

    server = None
    databases = 0

    @classmethod
    def setUpClass(cls):
        server_of(Case)

    def setUp(self):
        super().setUp()
        Case.databases += 1
        self.database = "adoption%d" % Case.databases
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

    def ctl(self, *words, daemon=None, uid=0):
        daemon = daemon or self.b
        r = subprocess.run([scratch.binary, *words, "--configuration-directory=" + os.path.join(daemon.dir, "conf")],
                           capture_output=True, text=True, check=False, user=uid, group=uid, extra_groups=[],
                           env=dict(os.environ, LC_ALL="C", RECLAIMD_RUNTIME_DIRECTORY=os.path.dirname(daemon.socket)))
        return r

    def adopt(self, *words, host="a", status=0):
        r = self.ctl("fleet", "adopt", host, "--json", *words)
        self.assertEqual(r.returncode, status, r.stdout + r.stderr + self.b.said())
        self.assertEqual(r.stderr, "")
        return {os.path.relpath(found["path"], self.part(host)): found for found in json.loads(r.stdout)}

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


class Gone(Case):
    """A host that had a job running, shared with others, and one whose undo window is not over."""

    def setUp(self):
        super().setUp()
        if not scratch.gates:
            self.skipTest("built without RECLAIM_TEST_GATES")
        b = self.joins(self.b, "b")
        b.call("PauseAll")  # it helps with nothing, so that all is left; that others would is said by hand
        self.a = self.joins(self.daemon, "a", {"RECLAIM_GATE": "unlink:x"})
        self.sql("UPDATE reclaimd.mounts SET wanted = 2 WHERE host = 'b'; NOTIFY reclaimd, 'wanted shared b 2'")
        build(self.data, "tree/x\ntree/one/y\ntree/two/z\nheld/file = must stay\nheld/sub/file = too")
        self.held_before = fingerprint(os.fsencode(self.path("held")))
        self.running = self.a.submit(self.path("tree"))
        self.worker = self.daemon.stopped_worker()
        self.mark = self.part("a", "marks", str(self.running))
        self.until(lambda: os.path.isdir(os.path.join(self.mark, "mark=1")))
        self.held = self.a.submit(self.path("held"), undo_usec=HOUR)
        self.uuids = [self.a.get(n, "Uuid").replace("-", "") for n in (self.running, self.held)]

    def marks(self):
        return names_in(self.part("a", "marks"))

    def dies(self):
        self.kill(self.daemon)
        self.lease_is_over()

    def cut_off(self):
        """Host a runs, and the fleet does not take it any more."""
        self.sql("UPDATE reclaimd.hosts SET role = 'other' WHERE name = 'a';"
                 "SELECT pg_terminate_backend(backend) FROM reclaimd.hosts WHERE name = 'a'")
        self.daemon.wait_said("The fleet does not take this host")
        self.lease_is_over()

    def cancel(self):
        """On host a, whose deleter is stopped. The serial of the call."""
        serial = self.a.send("Cancel", "at", [self.running])
        self.a.jobs()  # which is answered when that was begun with
        os.kill(self.worker, signal.SIGKILL)
        return serial

    def held_stays(self):
        at = self.part("a", "0", self.uuids[1], "1")
        self.until(lambda: os.listdir(self.part("a", "0")) == [self.uuids[1]])
        self.assertEqual(fingerprint(os.fsencode(at)), self.held_before)

    def all_is_ended(self):
        self.b.client().call("ResumeAll")
        self.until(lambda: names_in(self.part("b", "0")) == [], self.b.said)
        self.held_stays()
        self.until(lambda: self.marks() == [], self.b.said)
        self.assertEqual([n for n in listing(self.data) if not n.startswith("canary")], [])

    def test_what_was_on_its_way_is_ended(self):
        """And a host that comes back after all finds what is its own, and nothing else."""
        r = self.ctl("fleet", "adopt", "a")
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertIn("a: this host is there: only one that is gone can be adopted", r.stderr)
        self.assertIn("is there", self.ctl("fleet", "adopt", "a", "--dry-run").stderr)
        self.dies()
        running, held = (os.path.join("0", uuid) for uuid in self.uuids)
        before = fingerprint(os.fsencode(self.part("a")))
        found = self.adopt("--dry-run")
        self.assertEqual({path: f["outcome"] for path, f in found.items()}, {running: "adoptable", held: "kept"})
        self.assertEqual((found[running]["names"], found[running]["uid"], found[running]["job"]), (1, 0, None))
        self.assertEqual(fingerprint(os.fsencode(self.part("a"))), before)
        self.assertEqual(self.sql("SELECT adopted_by IS NULL FROM reclaimd.hosts WHERE name = 'a'"), "t")
        found = self.adopt(status=3)
        self.assertEqual({path: f["outcome"] for path, f in found.items()}, {running: "adopted", held: "kept"})
        self.assertIn("its undo window was not over", found[held]["why"])
        n = found[running]["job"]
        b = self.b.client()
        self.assertEqual((b.get(n, "Origin"), b.get(n, "Uid"), b.get(n, "Inplace")), ("adopt:a", 0, ""))
        self.b.wait_said("Of what a has left, 1 directory was adopted, and 1 thing stays")
        self.all_is_ended()
        self.assertEqual(b.wait(n), "done")
        # Once more: nothing is done.
        self.assertEqual({path: f["outcome"] for path, f in self.adopt(status=3).items()}, {held: "kept"})
        a = self.joins(self.daemon, "a", said='host "a" was adopted by "b", which ends its jobs')
        self.assertEqual(a.wait(self.running), "done")
        a.call("Restore", "ta{sv}", self.held, {})
        self.assertEqual(fingerprint(os.fsencode(self.path("held"))), self.held_before)
        # With what it has put back, nothing of it is left, once its directory is removed.
        self.until(lambda: not os.path.lexists(self.part("a", held)))
        self.daemon.stop()
        self.assertEqual(self.adopt(), {})
        self.assertFalse(os.path.lexists(self.part("a")))

    def test_withdrawn_a_moment_before(self):
        """A host that was cut off is asked to cancel its job, before and after another one has adopted it."""
        self.cut_off()
        serial = self.cancel()
        self.until(lambda: os.path.isdir(os.path.join(self.mark, "mark=0")))
        found = self.adopt(status=3)
        self.assertEqual({f["outcome"] for f in found.values()}, {"kept"})
        self.a.answer(serial)
        self.assertIn("tree/x", listing(self.data))
        self.held_stays()
        self.assertEqual(self.b.client().jobs(), [])

    def test_adopted_a_moment_before(self):
        self.cut_off()
        n = self.adopt(status=3)[os.path.join("0", self.uuids[0])]["job"]
        with self.assertRaises(dbuswire.Error) as e:
            self.a.answer(self.cancel())
        self.assertIn("could not be put back: another host of the fleet has adopted it", e.exception.text)
        self.assertEqual(self.a.job(self.running)["state"], "paused")
        self.assertNotIn("tree", listing(self.data))
        # Nor can it go on with it.
        self.a.call("Resume", "at", [self.running])
        self.is_adopted_says(self.a)
        self.all_is_ended()
        self.assertEqual(self.b.client().wait(n), "done")

    def is_adopted_says(self, a, what="ends it"):
        """Host a, of its job, which it has ended."""
        self.assertIn(a.wait(self.running), ("failed", "partial"), self.daemon.said())
        self.assertIn("another host of the fleet: b has adopted it, and " + what, a.get(self.running, "Message"))

    def adopts(self):
        """As long as it takes."""
        p = subprocess.Popen([scratch.binary, "fleet", "adopt", "a",
                              "--configuration-directory=" + os.path.join(self.b.dir, "conf")],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env=dict(os.environ, LC_ALL="C",
                                      RECLAIMD_RUNTIME_DIRECTORY=os.path.dirname(self.b.socket)))
        self.addCleanup(lambda: p.stdout.closed or p.communicate())
        self.addCleanup(p.kill)
        return p

    def test_withdrawn_at_that_moment(self):
        """After the mark was read, and before it is taken."""
        self.joins(self.b, "b", {"RECLAIM_GATE": "adopt:%d" % self.running})
        self.cut_off()
        adopting = self.adopts()
        worker = self.b.stopped_worker()
        serial = self.cancel()
        self.until(lambda: os.path.isdir(os.path.join(self.mark, "mark=0")))
        os.kill(worker, signal.SIGCONT)
        self.assertIn("its mark was withdrawn a moment ago", adopting.communicate()[0])
        self.assertEqual(adopting.returncode, 3)
        self.a.answer(serial)
        self.assertIn("tree/x", listing(self.data))
        self.held_stays()
        self.assertEqual(self.b.client().jobs(), [])

    def test_swapped_before_it_is_submitted(self):
        """What is in its place when its mark has been taken is another directory."""
        b = self.joins(self.b, "b", {"RECLAIM_GATE": "adopted:%d" % self.running})
        b.call("ResumeAll")
        self.dies()
        adopting = self.adopts()
        worker = self.b.stopped_worker()
        at = self.part("a", "0", self.uuids[0])
        os.rename(at, self.path("away"))
        os.mkdir(at, 0o700)
        build(at, "1/precious")
        before = [fingerprint(os.fsencode(path)) for path in (at, self.path("away"))]
        os.kill(worker, signal.SIGCONT)
        said = adopting.communicate()[0]
        self.assertEqual(adopting.returncode, 3, said)
        self.assertIn("kept: " + at, said)
        self.assertEqual(b.jobs(finished=True), [])
        self.assertEqual([fingerprint(os.fsencode(path)) for path in (at, self.path("away"))], before)

    def test_owner_ends_while_it_is_adopted(self):
        """With what cannot be deleted: its run ends, or is stopped when it looks at the mark, whichever
        comes first, and the mark stays, which is the other host's."""
        self.joins(self.b, "b", {"RECLAIM_GATE": "stage:" + self.uuids[0]})
        self.cut_off()
        adopting = self.adopts()
        worker = self.b.stopped_worker()
        two = self.part("a", "0", self.uuids[0], "1", "two")
        command("mount", "--bind", two, two)
        try:
            os.kill(self.worker, signal.SIGCONT)
            state = self.a.wait(self.running)
        finally:
            fixture.unmount(two)
        message = self.a.get(self.running, "Message")
        if "cannot go back: another host of the fleet has adopted it" in message:
            self.assertEqual(state, "partial")
        else:
            # One that is stopped at once has deleted nothing.
            self.assertIn(state, ("partial", "failed"))
            self.assertIn("another host of the fleet: b has adopted it, and ends it", message)
            self.assertIn("job %d: is stopped, as another host has adopted it" % self.running, self.daemon.said())
        self.daemon.stop()
        self.assertIn("adopted=b", os.listdir(self.mark))
        os.kill(worker, signal.SIGCONT)
        adopting.communicate()
        self.assertEqual(adopting.returncode, 3)
        self.all_is_ended()

    def test_adopted_while_it_is_deleted(self):
        """A host that is cut off, and goes on: what deletes in the job is stopped."""
        self.joins(self.b, "b", more="staging: off\n")  # it stays where its owner would go on
        self.cut_off()
        at = self.part("a", "0", self.uuids[0])
        self.assertIn("could not be moved", self.adopt(status=3)[os.path.join("0", self.uuids[0])]["why"])
        before = fingerprint(os.fsencode(at))
        self.daemon.wait_said("job %d: is stopped, as another host has adopted it" % self.running)
        os.kill(self.worker, signal.SIGKILL)
        self.is_adopted_says(self.a)
        # That its worker died is no fault, as it was stopped before.
        self.assertNotIn("was interrupted", self.daemon.said())
        self.assertEqual(fingerprint(os.fsencode(at)), before)
        self.joins(self.b, "b")
        self.all_is_ended()

    def test_fault_09_mark_is_not_durable(self):
        """A power cut could give it back to its owner: no job is begun."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        b = self.joins(self.b, "b", {"RECLAIM_GATE": "adopt:%d" % self.running})
        self.dies()
        adopting = self.adopts()
        worker = self.b.stopped_worker()
        with subprocess.Popen(["strace", "-f", "-e", "trace=fsync", "-e", "inject=fsync:error=EIO", "-P", self.mark,
                               "-p", str(worker)], stderr=subprocess.PIPE, text=True) as tracer:
            self.assertIn("attached", tracer.stderr.readline())
            os.kill(worker, signal.SIGCONT)
            said = adopting.communicate()[0]
            tracer.terminate()
            tracer.communicate()
        self.assertEqual(adopting.returncode, 3, said)
        self.assertIn("kept: %s: Input/output error" % self.part("a", "0", self.uuids[0]), said)
        self.assertEqual(b.jobs(finished=True), [])
        self.adopts().communicate()
        self.all_is_ended()

    def test_what_cannot_be_moved_is_kept(self):
        """Nothing is deleted in the area of a host that may come back."""
        b = self.joins(self.b, "b", more="staging: off\n")
        b.call("ResumeAll")
        self.dies()
        path = os.path.join("0", self.uuids[0])
        before = fingerprint(os.fsencode(self.part("a", path)))
        for _ in range(2):
            found = self.adopt(status=3)
            self.assertEqual(found[path]["outcome"], "kept")
            self.assertIn("could not be moved", found[path]["why"])
        self.assertEqual(self.b.client().jobs(finished=True), [])
        self.assertEqual(fingerprint(os.fsencode(self.part("a", path))), before)
        self.is_adopted_says(self.joins(self.daemon, "a", said='host "a" was adopted by "b"'))
        self.assertEqual(fingerprint(os.fsencode(self.part("a", path))), before)
        self.daemon.stop()
        self.joins(self.b, "b")
        self.all_is_ended()

    def test_fault_01_workers_die_before_it_is_moved(self):
        """Each job fails, and has deleted nothing; another one is begun three times, and when that is asked for."""
        b = self.joins(self.b, "b", {"RECLAIM_GATE": "stage:" + self.uuids[0], "RECLAIM_AGAIN": "1"})
        b.call("ResumeAll")
        self.dies()
        at = self.part("a", "0", self.uuids[0])
        before = fingerprint(os.fsencode(at))
        adopting = self.adopts()
        for n in range(1, 4):
            os.kill(self.b.stopped_worker(), signal.SIGKILL)
            self.until(lambda: [j["state"] for j in b.jobs(finished=True)].count("failed") == n, self.b.said)
            self.assertEqual(fingerprint(os.fsencode(at)), before)
            self.assertIn("adopted=b", os.listdir(self.mark))
        self.b.wait_said("is not tried again by itself")
        adopting.communicate()
        self.adopts()
        os.kill(self.b.stopped_worker(), signal.SIGCONT)
        self.all_is_ended()

    def test_fault_03_moved_by_the_record_alone(self):
        """A rename that a power cut has undone: nothing is deleted where it is again."""
        self.dies()
        n = self.adopt(status=3)[os.path.join("0", self.uuids[0])]["job"]
        b = self.b.client()
        os.rename(os.path.join(os.fsdecode(b.get(n, "Staging")), "1"), self.part("a", "0", self.uuids[0]))
        before = fingerprint(os.fsencode(self.part("a", "0", self.uuids[0])))
        gate = self.joins(self.b, "b", {"RECLAIM_GATE": "adopt:%d" % self.running})
        gate.call("ResumeAll")
        self.assertEqual(gate.wait(n), "failed")
        self.assertEqual(fingerprint(os.fsencode(self.part("a", "0", self.uuids[0]))), before)
        self.assertIn("adopted=b", os.listdir(self.mark))
        self.kill(self.b)
        self.joins(self.b, "b")
        self.all_is_ended()

    def adopted_and_not_begun(self):
        """Host b has it in its staging area, and is stopped. The number of the job, and its directory."""
        self.dies()
        n = self.adopt(status=3)[os.path.join("0", self.uuids[0])]["job"]
        at = os.fsdecode(self.b.client().get(n, "Staging"))
        self.b.stop()
        return n, at

    def test_fault_01_deleted_and_not_on_record(self):
        """Killed after all was deleted: it is in neither staging area, and so it is done."""
        n, at = self.adopted_and_not_begun()
        shutil.rmtree(os.path.join(at, "1"))
        b = self.joins(self.b, "b")
        b.call("ResumeAll")
        self.assertEqual((b.wait(n), b.problems(n)), ("done", []))
        self.all_is_ended()

    def test_staging_area_that_is_not_as_it_should_be(self):
        """For a while: what was adopted is waited for, as what any job has there."""
        n, at = self.adopted_and_not_begun()
        before = fingerprint(os.fsencode(at))
        os.chmod(self.part("b", "0"), 0o755)
        b = self.joins(self.b, "b")
        b.call("ResumeAll")
        self.until(lambda: "waits: the staging area on" in b.job(n)["message"], lambda: str(b.job(n)) + self.b.said())
        self.assertEqual(fingerprint(os.fsencode(at)), before)
        self.assertIn("adopted=b", os.listdir(self.mark))
        os.chmod(self.part("b", "0"), 0o700)
        os.mkdir(self.path("other"))
        fixture.attach("tmpfs", self.path("other"), "size=4k")
        self.addCleanup(fixture.unmount, self.path("other"))
        self.assertEqual(b.wait(n), "done")
        fixture.unmount(self.path("other"))
        os.rmdir(self.path("other"))
        self.all_is_ended()

    def test_cancelled_when_it_has_begun(self):
        """It goes back nowhere: it can be restored elsewhere."""
        b = self.joins(self.b, "b", {"RECLAIM_GATE": "unlink:y"})
        self.dies()
        n = self.adopt(status=3)[os.path.join("0", self.uuids[0])]["job"]
        b.call("ResumeAll")
        worker = self.b.stopped_worker()
        serial = b.send("Cancel", "at", [n])
        b.jobs()
        os.kill(worker, signal.SIGKILL)
        with self.assertRaises(dbuswire.Error) as e:
            b.answer(serial)
        self.assertIn("it was adopted from a", e.exception.text)
        self.assertEqual(b.job(n)["state"], "paused")
        command(scratch.binary, "restore", "--to=" + self.path("tree2"), str(n),
                env=dict(os.environ, RECLAIMD_RUNTIME_DIRECTORY=os.path.dirname(self.b.socket)))
        self.assertIn("tree2/1/one/y", listing(self.data))
        self.assertEqual(b.wait(n), "restored")
        self.held_stays()

    def b_is_killed_at(self, gate, joins=True):
        """In the midst of the adoption; and started again."""
        self.joins(self.b, "b", {"RECLAIM_GATE": gate})
        self.dies()
        self.adopts()
        self.b.stopped_worker()
        self.kill(self.b)
        self.held_stays_beside_the_other()
        return self.joins(self.b, "b") if joins else None

    def held_stays_beside_the_other(self):
        at = self.part("a", "0", self.uuids[1], "1")
        self.assertEqual(fingerprint(os.fsencode(at)), self.held_before)

    def goes_on(self, gate):
        b = self.b_is_killed_at(gate)
        b.call("ResumeAll")
        self.until(lambda: not os.path.lexists(self.part("a", "0", self.uuids[0])), self.b.said)
        self.until(lambda: self.marks() == [], self.b.said)
        self.all_is_ended()

    def test_fault_01_killed_before_the_mark_is_taken(self):
        self.goes_on("adopt:%d" % self.running)

    def test_fault_01_killed_when_the_mark_is_taken(self):
        self.goes_on("adopted:%d" % self.running)

    def test_fault_01_02_killed_before_it_is_moved(self):
        """The job is on record, and its directory where it was: its owner, which comes back, has none of it."""
        self.b_is_killed_at("stage:" + self.uuids[0], joins=False)
        at = self.part("a", "0", self.uuids[0])
        before = fingerprint(os.fsencode(at))
        self.is_adopted_says(self.joins(self.daemon, "a", said='host "a" was adopted by "b"'))
        self.assertEqual(fingerprint(os.fsencode(at)), before)
        self.assertNotIn("tree", listing(self.data))
        b = self.joins(self.b, "b", {"RECLAIM_AGAIN": "1", "RECLAIM_GATE": "adopt:%d" % self.running})
        n = b.jobs()[0]["id"]
        b.call("ResumeAll")
        # Nor does this one delete it there: it adopts it anew.
        self.assertEqual(b.wait(n), "failed")
        self.assertEqual(fingerprint(os.fsencode(at)), before)
        os.kill(self.b.stopped_worker(), signal.SIGCONT)
        self.until(lambda: not os.path.lexists(self.part("a", "0", self.uuids[0])), self.b.said)
        self.until(lambda: self.marks() == [], self.b.said)
        self.all_is_ended()

    def test_fault_01_02_killed_when_it_is_moved(self):
        self.goes_on("staged:" + self.uuids[0])

    def test_fault_01_02_cancelled_before_it_is_moved(self):
        """What was cancelled on this host it does not adopt once more, though a mark says that it had begun to."""
        self.b_is_killed_at("stage:" + self.uuids[0], joins=False)
        self.b.configure("")
        self.b.start()
        b = self.b.client()
        n = b.jobs()[0]["id"]
        b.wait_state(n, "queued")
        b.call("Cancel", "at", [n])
        self.assertEqual(b.get(n, "Message"), "had not been moved: it is where a had staged it")
        at = self.part("a", "0", self.uuids[0])
        before = fingerprint(os.fsencode(at))
        self.joins(self.b, "b")
        for _ in range(2):
            found = self.adopt(status=3)
            self.assertIn("was cancelled", found[os.path.join("0", self.uuids[0])]["why"])
            self.assertEqual(fingerprint(os.fsencode(at)), before)
            self.assertIn("left=b", os.listdir(self.mark))
        self.is_adopted_says(self.joins(self.daemon, "a", said='host "a" was adopted by "b"'),
                             "it was cancelled there")
        self.assertEqual(fingerprint(os.fsencode(at)), before)

    def test_cancelled_after_it_was_adopted(self):
        """It does not go back to where its owner, which comes back, would delete it; and elsewhere only when no
        other host can delete in it any more."""
        self.dies()
        n = self.adopt(status=3)[os.path.join("0", self.uuids[0])]["job"]
        b = self.b.client()
        with self.assertRaises(dbuswire.Error) as e:
            b.call("Cancel", "at", [n])
        self.assertIn("could not be put back: it was adopted from a", e.exception.text)
        self.assertEqual(b.job(n)["state"], "paused")
        at = os.fsdecode(b.get(n, "Staging"))
        before = fingerprint(os.fsencode(at))
        self.assertIn("1/1/x", listing(at))
        self.is_adopted_says(self.joins(self.daemon, "a", said='host "a" was adopted by "b"'))
        self.adopt(status=3)
        b = self.joins(self.b, "b")
        b.wait_state(n, "paused")
        self.assertEqual(fingerprint(os.fsencode(at)), before)
        with subprocess.Popen([scratch.binary, "restore", "--to=" + self.path("tree2"), str(n)],
                              stdout=subprocess.DEVNULL,
                              env=dict(os.environ, RECLAIMD_RUNTIME_DIRECTORY=os.path.dirname(self.b.socket))) as p:
            self.b.wait_said("Job %d waits before its names go back" % n)
            self.assertEqual(p.wait(), 0)
        self.assertIn("tree2/1/x", listing(self.data))
        self.assertEqual(b.wait(n), "restored")
        self.held_stays()


class Conditional(Case):
    def test_what_is_to_go_if_it_is_empty_is_not_shared(self):
        """Another host would not know of that."""
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


class ByHand(Case):
    """What a host has left, made by hand."""

    def is_gone(self, host):
        self.sql("INSERT INTO reclaimd.hosts VALUES ('%s', gen_random_uuid(), 'postgres', 'x', 'x', 0, "
                 "clock_timestamp(), '30s', clock_timestamp() - interval '1h')" % host)

    def directory(self, *names, mode=0o700, uid=0):
        at = os.path.join(self.top, *names)
        if not os.path.isdir(at):
            os.mkdir(at)
            os.chown(at, uid, uid)
            os.chmod(at, mode)
        return at

    def job(self, host, uid, k, names=("1", "2")):
        """A job's directory with trees in it."""
        self.directory("@" + host, mode=0o711)
        self.directory("@" + host, str(uid), uid=uid)
        at = self.directory("@" + host, str(uid), NAME % k, uid=uid)
        for name in names:
            build(at, "%s/file\n%s/sub/file" % (name, name))
        command("chown", "-R", "%d:%d" % (uid, uid), at)
        return at

    def left(self, host, at, job="1", **other):
        """The mark of a directory, as root would have made it; but for what is said otherwise."""
        says = {"uid": os.lstat(at).st_uid, "ino": os.lstat(at).st_ino, "birth": birth_nsec(at),
                "name": os.path.basename(at), "mark": "mark=1", "space": "default", **other}
        self.directory("@" + host, "marks")
        mark = self.directory("@" + host, "marks", job)
        for name in (says["mark"], "space=" + says["space"], "owner=%d.%d.0" % (says["uid"], says["uid"]),
                     "directory=%d.%d" % (says["ino"], says["birth"]), "name=" + says["name"]):
            os.mkdir(os.path.join(mark, name), 0o700)
        return mark


class Numbers(ByHand):
    def test_mark_of_another_job_of_that_number(self):
        """As there may be when a host has lost its job store: it says nothing of the new one."""
        if not scratch.gates:
            self.skipTest("built without RECLAIM_TEST_GATES")
        gate = {"RECLAIM_GATE": "unlink:x"}
        a = self.joins(self.daemon, "a", gate)
        os.mkdir(self.path("other"))
        build(self.data, "tree/x")
        n = a.submit(self.path("tree"))
        self.daemon.stopped_worker()
        self.left("a", self.path("other"), str(n), mark="adopted=b", name=NAME % 9)
        self.kill(self.daemon)
        a = self.joins(self.daemon, "a", gate)
        worker = self.daemon.stopped_worker()
        serial = a.send("PauseAll", "")
        a.jobs()
        os.kill(worker, signal.SIGKILL)
        a.answer(serial)
        self.kill(self.daemon)
        a = self.joins(self.daemon, "a")
        a.call("Cancel", "at", [n])
        self.assertIn("tree/x", listing(self.data))
        self.assertEqual(os.listdir(self.part("a", "marks", str(n), "adopted=b")), [])


class Rights(ByHand):
    def test_by_root_and_of_a_host_that_is_gone(self):
        self.joins(self.b, "b")
        self.joins(self.daemon, "a")
        for host, words in (("x", "there is no such host"), ("b", "is this host itself")):
            r = self.ctl("fleet", "adopt", host)
            self.assertEqual(r.returncode, 1, r.stderr)
            self.assertIn(words, r.stderr)
        self.assertIn("no such host", self.ctl("fleet", "adopt", "x", "--dry-run").stderr)
        self.assertEqual(self.ctl("fleet", "adopt", "../a").returncode, 2)
        c = self.b.client(USER)
        for dry in (True, False):
            with self.assertRaises(dbuswire.Error) as e:
                c.call("AdoptHost", "sa{sv}", "a", {"dry-run": ("b", dry)})
            self.assertIn("NotAuthorized", e.exception.name)
        # Not without the database's word, whoever calls the daemon.
        c = self.b.client()
        with self.assertRaises(dbuswire.Error) as e:
            c.call("AdoptHost", "sa{sv}", "a", {})
        self.assertIn("does not say that this host has adopted a", e.exception.text)

    def test_the_database_is_asked_last(self):
        """What could not be adopted here anyway keeps its name."""
        self.joins(self.b, "b")
        self.is_gone("gone")
        self.left("gone", self.job("gone", 0, 1))
        r = self.ctl("fleet", "adopt", "gone", uid=USER)
        self.assertEqual(r.returncode, 4, r.stdout)
        self.assertIn("only root may adopt", r.stderr)
        self.b.stop()
        self.b.configure("")
        self.b.start()
        self.sql("UPDATE reclaimd.hosts SET lease_until = clock_timestamp() + interval '1h' WHERE name = 'b'")
        r = self.adopts_of_the_fleet("gone")
        self.assertEqual(r.returncode, 1, r.stdout)
        self.assertIn("in no fleet", r.stderr)
        self.sql("UPDATE reclaimd.hosts SET lease_until = clock_timestamp() WHERE name = 'b'")
        r = self.adopts_of_the_fleet("gone")
        self.assertEqual(r.returncode, 1, r.stdout)
        self.assertIn("b: this host is not connected to that database", r.stderr)
        self.assertEqual(self.sql("SELECT adopted_by IS NULL FROM reclaimd.hosts WHERE name = 'gone'"), "t")

    def adopts_of_the_fleet(self, host):
        """By reclaimctl alone as one of the fleet: its reclaimd is in none."""
        conf = os.path.join(scratch.dir, "conf-" + self.database)
        os.makedirs(conf, exist_ok=True)
        with open(os.path.join(conf, "reclaimd.yaml"), "w", encoding="utf-8") as f:
            f.write('fleet:\n  database: "%s"\n  name: b\n  filesystems: {"%s": shared}\n'
                    % (self.server.string(self.database), self.root))
        return subprocess.run([scratch.binary, "fleet", "adopt", host, "--configuration-directory=" + conf],
                              capture_output=True, text=True, check=False,
                              env=dict(os.environ, LC_ALL="C",
                                       RECLAIMD_RUNTIME_DIRECTORY=os.path.dirname(self.b.socket)))

    def test_filesystems_that_are_not_shared_here(self):
        self.joins(self.b, "b")
        self.is_gone("gone")
        self.sql("INSERT INTO reclaimd.filesystems VALUES ('other', 'other', 'default');"
                 "INSERT INTO reclaimd.mounts VALUES ('gone', 'shared', '/x'), ('gone', 'other', '/mnt/other')")
        for words in (["--dry-run"], [], []):
            r = self.ctl("fleet", "adopt", "gone", *words)
            self.assertEqual((r.returncode, r.stderr), (0 if words else 3, ""))
            self.assertIn("kept: /mnt/other: gone had the filesystem other there, which this host does not share",
                          r.stdout)
            self.assertNotIn("nothing of gone is left", r.stdout)
            self.assertNotIn("/x", r.stdout)

    def test_in_no_fleet(self):
        self.b.start()
        with self.assertRaises(dbuswire.Error) as e:
            self.b.client().call("AdoptHost", "sa{sv}", "a", {})
        self.assertIn("in no fleet", e.exception.text)

    def test_the_database_alone_adopts_nothing(self):
        """Root has not asked for it on this host."""
        self.joins(self.b, "b")
        self.left("gone", self.job("gone", 0, 1))
        self.is_gone("gone")
        before = fingerprint(os.fsencode(self.part("gone")))
        self.sql("SELECT reclaimd.adopt('gone', 'b')")
        b = self.joins(self.b, "b")
        b.jobs()
        self.assertEqual(fingerprint(os.fsencode(self.part("gone"))), before)
        self.assertEqual({f["outcome"] for f in self.adopt(host="gone").values()}, {"adopted"})


class Hostile(ByHand):
    """Marks and directories that are not what they ought to be: all of that stays."""

    def setUp(self):
        super().setUp()
        self.joins(self.b, "b")
        self.is_gone("gone")

    def all_that_is_left(self):
        """None while something goes: what is empty goes a moment after its job has ended."""
        with contextlib.suppress(FileNotFoundError):
            return fingerprint(os.fsencode(self.top))
        return None

    def stays(self, *why, adopted=()):
        """What is in the part of that host is not touched, but for these; why is found in what is said of each."""
        keep = {k: v for k, v in fingerprint(os.fsencode(self.top)).items()
                if k.startswith(b"@gone") and k.count(b"/") > 1 and not k.startswith(b"@gone/marks")
                and not any(os.fsencode(a) in k for a in adopted)}
        found = self.adopt(host="gone", status=3 if why else 0)
        said = [f["why"] for f in found.values() if f["outcome"] == "kept"]
        self.assertEqual(len(said), len(why), found)
        for words in why:
            self.assertTrue(any(words in text for text in said), (words, said))
        self.assertEqual(sorted(os.path.basename(path) for path, f in found.items() if f["outcome"] == "adopted"),
                         sorted(adopted))
        b = self.b.client()
        for f in found.values():
            if f["job"]:
                self.assertEqual(b.wait(f["job"]), "done", self.b.said())
        after = self.until(self.all_that_is_left, self.b.said)
        for k, v in keep.items():
            self.assertEqual(after.get(k), v, k)
        self.canary.check()

    def test_good_ones_are_adopted(self):
        """Of root and of a user, each with its own rights."""
        os.chmod(self.data, 0o1777)
        at = [self.job("gone", 0, 1), self.job("gone", USER, 2)]
        for k, path in enumerate(at, 1):
            self.left("gone", path, str(k))
        # What the user could not delete itself.
        theirs = os.path.join(at[1], "1", "sub")
        os.chown(theirs, 0, 0)
        os.chmod(theirs, 0o755)
        found = self.adopt(host="gone")
        b = self.b.client()
        states = {path: (b.wait(f["job"]), b.get(f["job"], "Uid")) for path, f in found.items()}
        self.assertEqual(states, {os.path.join("0", NAME % 1): ("done", 0),
                                  os.path.join(str(USER), NAME % 2): ("partial", USER)})
        # It does not go back, and is kept with nothing but that.
        n = found[os.path.join(str(USER), NAME % 2)]["job"]
        self.assertIn("kept in " + self.part("b", str(USER)), b.job(n)["message"])
        (uuid,) = os.listdir(self.part("b", str(USER)))
        self.assertEqual(listing(self.part("b", str(USER), uuid)), ["1", "1/1", "1/1/sub", "1/1/sub/file"])
        self.until(lambda: not os.path.lexists(self.part("gone")), self.b.said)

    def test_marks_that_root_has_not_made(self):
        at = [self.job("gone", 0, k) for k in range(4)]
        marks = [self.left("gone", path, str(k + 1)) for k, path in enumerate(at)]
        os.chown(marks[0], USER, USER)
        os.chmod(marks[1], 0o755)
        elsewhere = os.path.join(self.root, "elsewhere")
        os.rename(marks[2], elsewhere)
        os.symlink(elsewhere, marks[2])
        os.mkdir(os.path.join(marks[3], "more"))
        self.stays(*4 * ["as root would have made it"], *4 * ["no mark"])

    def test_marks_of_what_is_elsewhere(self):
        """Nothing outside of the user's area can be named, nor led to."""
        area = os.path.dirname(self.job("gone", USER, 1))
        precious = self.path("precious")
        build(precious, "1/file\n1/sub/file")
        before = fingerprint(os.fsencode(precious))
        os.symlink(precious, os.path.join(area, NAME % 2))
        command("mount", "--bind", precious, self.directory("@gone", str(USER), NAME % 3, uid=USER))
        self.addCleanup(fixture.unmount, os.path.join(area, NAME % 3))
        for k, name in enumerate((NAME % 2, NAME % 3, "..", ".", "precious", "..precious"), 1):
            self.left("gone", precious, str(k), uid=USER, name=name)
        r = self.ctl("fleet", "adopt", "gone", "--json")
        found = {os.path.basename(f["path"]): f for f in json.loads(r.stdout)}
        self.assertEqual({f["outcome"] for f in found.values()}, {"kept"})
        self.assertEqual(self.b.client().jobs(finished=True), [])
        self.assertTrue(os.path.islink(os.path.join(area, NAME % 2)))
        self.assertEqual(fingerprint(os.fsencode(precious)), before)

    def test_marks_that_say_something_else(self):
        at = [self.job("gone", USER if k == 1 else 0, k) for k in range(10)]
        self.left("gone", at[0], "1", uid=USER)
        self.left("gone", at[1], "2", uid=0)
        self.left("gone", at[2], "3", ino=os.lstat(at[3]).st_ino)
        self.left("gone", at[3], "4", birth=birth_nsec(at[3]) + 1)
        self.left("gone", at[4], "5", space="other.example")
        self.left("gone", at[5], "6", mark="mark=0")
        self.left("gone", at[6], "7", mark="adopted=c")
        for job in ("8", "9"):
            self.left("gone", at[7], job)
        self.left("gone", at[8], "10", mark="left=b")
        self.left("gone", at[9], "11", mark="left=c")
        self.stays("another user", "another user", "another directory", "another directory", "other numbers", "no mark",
                   "no mark", "another host has adopted its job", "several marks", "was cancelled", "no mark",
                   "another host has adopted its job")

    def test_directories_that_no_job_has_made(self):
        area = os.path.dirname(self.job("gone", 0, 1))
        for k, name in enumerate(("x", "0", "01", "1x"), 2):
            self.left("gone", self.job("gone", 0, k, ("1", name)), str(k))
        write(os.path.join(area, NAME % 9))
        self.left("gone", os.path.join(area, NAME % 9), "9")
        good = self.job("gone", 0, 7)
        self.left("gone", good, "7")
        self.stays(*4 * ["no job has put there"], "no directory", "no mark", adopted=[os.path.basename(good)])

    def test_more_names_than_are_told(self):
        """That no mark names: they are not looked at, and others have their turn meanwhile."""
        good = self.job("gone", 0, 1)
        self.left("gone", good, "1")
        fill(self.directory("@gone", str(USER), uid=USER), 600)
        found = self.adopt(host="gone", status=3)
        self.assertEqual(found.pop(os.path.join("0", NAME % 1))["outcome"], "adopted")
        self.assertIn("344 more names are in it", found.pop(str(USER))["why"])
        self.assertEqual((len(found), {f["outcome"] for f in found.values()}), (256, {"kept"}))
        # Twice each time: when it was only looked at, too, and, when the job has ended, once more.
        self.assertIn(self.b.said().count("256 names of gone in a row needed no look"), range(4, 7))

    def test_nothing_is_looked_through_again(self):
        """When this host joins once more, if nothing that is left can be adopted."""
        self.job("gone", 0, 1)
        self.stays("no mark")
        looked = self.b.said().count("what gone has left is looked through")
        self.sql("SELECT pg_terminate_backend(backend) FROM reclaimd.hosts WHERE name = 'b'")
        self.b.wait_said("what gone has left is not looked through again")
        self.b.client().jobs()
        self.assertEqual(self.b.said().count("what gone has left is looked through"), looked)
        # Something may have changed if it is asked for.
        self.stays("no mark")

    def test_what_no_job_has_left(self):
        """The part of that host is not removed, and that is said."""
        self.directory("@gone", mode=0o711)
        self.directory("@gone", "marks")
        self.directory("@gone", "marks", ".1")
        self.directory("@gone", "marks", ".1", "mark=1")
        self.stays("has something in it")
        self.assertTrue(os.path.isdir(self.part("gone", "marks", ".1", "mark=1")))
        self.directory("@gone", "marks", "x")
        self.stays("is no mark")

    def test_user_whose_filesystem_does_not_answer(self):
        """It is asked nothing."""
        good = self.job("gone", 0, 3)
        self.left("gone", good, "3")
        area = self.directory("@gone", str(USER), uid=USER)
        for k in (1, 2):
            trigger = os.path.join(self.b.dir, "trigger-%d" % k)
            at = self.mount_hangfs(os.path.join(area, NAME % k), "look", trigger)
            if k == 1:
                self.left("gone", at, "1", uid=USER)
            write(trigger)
        # And one that has it over its whole area.
        trigger = os.path.join(self.b.dir, "trigger")
        self.mount_hangfs(self.part("gone", str(USER + 1)), "look", trigger)
        write(trigger)
        found = self.adopt(host="gone", status=3)
        self.assertEqual({os.path.basename(path): f["outcome"] for path, f in found.items()},
                         {NAME % 1: "kept", NAME % 2: "kept", NAME % 3: "adopted", str(USER + 1): "kept"})

    def test_areas_that_are_not_as_they_should_be(self):
        at = [self.job("gone", 0, 1), self.job("gone", USER, 2)]
        for k, path in enumerate(at, 1):
            self.left("gone", path, str(k))
        os.chmod(os.path.dirname(at[0]), 0o755)
        os.chown(os.path.dirname(at[1]), 0, 0)
        self.stays(*2 * ["as root would have made it"])
        os.chmod(os.path.dirname(at[0]), 0o700)
        os.chown(os.path.dirname(at[1]), USER, USER)
        os.chmod(self.part("gone"), 0o755)
        found = self.adopt(host="gone", status=3)
        self.assertEqual({f["outcome"] for f in found.values()}, {"kept"})
        self.assertEqual(sorted(os.listdir(at[0]) + os.listdir(at[1])), ["1", "1", "2", "2"])
        os.chmod(self.part("gone"), 0o711)
        self.stays(adopted=[os.path.basename(path) for path in at])
        self.until(lambda: not os.path.lexists(self.part("gone")), self.b.said)


if __name__ == "__main__":
    fixture.main()
