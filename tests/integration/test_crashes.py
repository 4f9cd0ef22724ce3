#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What becomes of jobs when the daemon or its workers die, or are stopped."""
import contextlib
import os
import random
import shutil
import signal
import threading
import sqlite3
import unittest

import fixture
from daemon_fixture import Case, user
from fixture import FULL, USER, Canary, build, fill, scratch, write

HOUR = 3600 * 1000000


class Crashes(Case):
    def again(self):
        self.daemon.kill()
        self.daemon.start()
        return self.daemon.client()

    def workers(self):
        return list(fixture.workers_of(self.daemon.process.pid))

    def signal_workers(self, number):
        for worker in self.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, number)

    def test_held_job_lives(self):
        canary = Canary(self.path("t"))
        c = self.daemon.client()
        n = c.submit(self.path("t"), undo_usec=HOUR)
        c = self.again()
        self.assertEqual(c.wait_state(n, "held"), "held")
        c.call("Restore", "ta{sv}", n, {})
        canary.check()

    def test_paused_and_queued_jobs_live(self):
        for name in "ab":
            write(self.path(name))
        c = self.daemon.client()
        c.call("PauseAll")
        a, b = c.submit(self.path("a")), c.submit(self.path("b"))
        c.call("Pause", "at", [a])
        c = self.again()
        self.assertEqual(c.wait_state(a, "paused"), "paused")
        self.assertEqual(c.wait_state(b, "queued"), "queued")
        c.call("ResumeAll")
        self.assertEqual(c.wait(b), "done")
        self.assertEqual(c.job(a)["state"], "paused")

    def test_fault_01_running_job_goes_on(self):
        fill(self.path("t"), 60000)
        c = self.daemon.client()
        n = c.submit(self.path("t"))
        c.wait_state(n, "running")
        c = self.again()
        self.assertEqual(c.wait(n), "done")
        self.assertEqual(self.staged(), [])

    def test_fault_01_14_worker_killed(self):
        fill(self.path("t"), 60000)
        c = self.daemon.client()
        n = c.submit(self.path("t"))
        c.wait_state(n, "running")
        self.signal_workers(signal.SIGKILL)
        self.assertEqual(c.wait(n), "done")
        self.assertEqual(self.staged(), [])

    def kill_at_gates(self, n, killed):
        """So many workers, each where it stands."""
        for _ in range(n):
            killed.append(self.stopped_worker(killed))
            os.kill(killed[-1], signal.SIGKILL)

    def start_with_gate(self, where):
        if not scratch.gates:
            self.skipTest("built without RECLAIM_TEST_GATES")
        self.daemon.stop()
        self.daemon.start(env={"RECLAIM_GATE": where})
        return self.daemon.client()

    def test_worker_dies_again_and_again(self):
        """However often: what was accepted is done, only later and later."""
        self.start_with_gate("unlink:1")
        write(self.path("a"))
        c = self.daemon.client()
        n = c.submit(self.path("a"))
        killed = []
        self.kill_at_gates(3, killed)
        self.assertEqual(c.wait_state(n, "queued"), "queued")
        self.assertIn("3 times without getting any further", c.get(n, "Message"))
        self.kill_at_gates(1, killed)
        self.daemon.wait_said("4 times without getting any further")
        c.call("Resume", "at", [n])  # not in two seconds, but now
        os.kill(self.stopped_worker(killed), signal.SIGCONT)
        self.assertEqual(c.wait(n), "done", self.daemon.said())
        self.assertEqual(self.staged(), [])

    def test_fault_01_worker_dies_on_the_way(self):
        """As long as jobs get further in between, nothing waits."""
        self.daemon.configure("staging: off\n")
        c = self.start_with_gate("unlink:a")
        paths = [self.path(d, "a") for d in "abcd"]
        build(self.data, "\n".join(d + "/a" for d in "abcd"))
        n = c.submit(*paths)
        killed = []
        for _ in paths:
            self.kill_at_gates(2, killed)
            killed.append(self.stopped_worker(killed))
            os.kill(killed[-1], signal.SIGCONT)
        self.assertEqual(c.wait(n), "done", self.daemon.said())
        self.assertNotIn("without getting any further", self.daemon.said())

    def test_worker_killed_while_it_looks(self):
        write(self.path("a"))
        write(self.path("b"))
        c = self.daemon.client()
        self.assertEqual(c.wait(c.submit(self.path("a"))), "done")
        self.signal_workers(signal.SIGSTOP)
        serial = c.send_submit(self.path("b"))
        c.jobs()  # answered after the other has begun
        self.signal_workers(signal.SIGKILL)
        self.assertEqual(c.wait(c.answer(serial).body[0]), "done")
        self.assertEqual(self.staged(), [])

    def submit_until_staging_is_made(self):
        """Where root's worker, then stopped, is to make it; the submitter's own has looked."""
        self.start_with_gate("staging:get")
        os.chown(self.data, USER, USER)
        with user():
            write(self.path("a"))
        c = self.daemon.client(USER)
        return c, c.send_submit(self.path("a"), undo_usec=HOUR), self.stopped_worker([])

    def is_moved_and_comes_back(self, c, serial):
        n = c.answer(serial).body[0]
        self.assertFalse(os.path.exists(self.path("a")))
        c.call("Cancel", "at", [n])
        self.assertTrue(os.path.exists(self.path("a")))

    def test_roots_worker_dies_before_names_are_moved(self):
        """Whatever died: once more."""
        c, serial, stopped = self.submit_until_staging_is_made()
        os.kill(stopped, signal.SIGKILL)
        os.kill(self.stopped_worker([stopped]), signal.SIGCONT)
        self.is_moved_and_comes_back(c, serial)

    def test_submitters_worker_dies_before_names_are_moved(self):
        c, serial, stopped = self.submit_until_staging_is_made()
        others = [worker for worker in self.workers()
                  if worker != stopped and os.stat("/proc/%d" % worker).st_uid == USER]
        self.assertEqual(len(others), 1)
        os.kill(others[0], signal.SIGKILL)
        self.daemon.wait_said("for uid %d has ended" % USER)
        os.kill(stopped, signal.SIGCONT)
        self.is_moved_and_comes_back(c, serial)

    def test_worker_dies_when_staging_is_tidied(self):
        """What is empty goes all the same, and not only at the next start."""
        c = self.start_with_gate("staging:remove")
        write(self.path("a"))
        killed = []
        n = c.submit(self.path("a"))
        self.kill_at_gates(3, killed)
        os.kill(self.stopped_worker(killed), signal.SIGCONT)
        self.assertEqual(c.wait(n), "done")
        self.assertEqual(self.staged(), [])

    def test_workers_die_while_orphans_are_looked_for(self):
        c = self.daemon.client()
        write(self.path("a"))
        write(self.path("b"))
        c.submit(self.path("b"), undo_usec=HOUR)
        self.assertEqual(c.wait(c.submit(self.path("a"))), "done")
        empty = os.path.join(self.root, ".reclaim", "0", "0" * 32)
        kept = os.path.join(self.root, ".reclaim", "0", "1" * 32)
        for times, gate in enumerate(("staging:list", "staging:get", "staging:remove"), 1):
            self.daemon.stop()
            for path in empty, kept:
                os.makedirs(path, 0o700, exist_ok=True)
            write(os.path.join(kept, "x"))
            self.start_with_gate(gate)
            killed = []
            self.kill_at_gates(3, killed)
            os.kill(self.stopped_worker(killed), signal.SIGCONT)
            self.daemon.wait_said("of no job that is on record", times)
            self.daemon.wait_gone(empty)
            self.assertEqual(self.daemon.said().count("of no job that is on record"), times)
        self.assertEqual(len(self.staged()), 2)

    def test_waits_and_is_cancelled(self):
        c = self.start_with_gate("unlink:1")
        write(self.path("a"))
        n = c.submit(self.path("a"))
        self.kill_at_gates(3, [])
        self.assertEqual(c.wait_state(n, "queued"), "queued")
        c.call("Cancel", "at", [n])
        self.assertEqual(c.wait(n), "cancelled")
        self.assertEqual(os.listdir(self.data), ["a"])
        self.assertEqual(self.staged(), [])

    def test_staging_cannot_be_opened_while_names_go_back(self):
        c = self.start_with_gate("staging:get")
        canary = Canary(self.path("t"))
        serial = c.send_submit(self.path("t"), undo_usec=HOUR)
        os.kill(self.stopped_worker([]), signal.SIGCONT)
        n = c.answer(serial).body[0]
        c = self.start_with_gate("staging:get")
        killed = []
        serial = c.send("Restore", "ta{sv}", n, {})
        self.kill_at_gates(3, killed)
        # The look for orphans may stand there as well.
        with self.gates_open():
            c.answer(serial)
        canary.check()

    def test_stops_while_a_worker_in_place_is_stopped(self):
        """No signal ends its wait in time: it is ended with the daemon, which does not fail for it."""
        self.daemon.configure("staging: off\n")
        c = self.start_with_gate("unlink:a")
        write(self.path("a"))
        c.submit(self.path("a"))
        self.stopped_worker([])
        self.assertEqual(self.daemon.stop(), 0, self.daemon.said())
        c = self.again()
        for job in c.jobs():
            self.assertEqual(c.wait(job["id"]), "done")
        self.assertEqual(os.listdir(self.data), [])

    def test_worker_gone_after_reload(self):
        write(self.path("a"))
        c = self.daemon.client()
        c.call("Cancel", "at", [c.submit(self.path("a"), undo_usec=HOUR)])
        c.call("Reload")
        # The look for orphans may just have replaced it; or it has ended by itself, and another is needed.
        def killed():
            if not self.workers():
                c.call("Cancel", "at", [c.submit(self.path("a"), undo_usec=HOUR)])
            self.signal_workers(signal.SIGKILL)
            return "has ended: was killed" in self.daemon.said()

        self.until(killed)
        self.assertEqual(c.wait(c.submit(self.path("a"))), "done")

    def test_fault_01_ends_before_there_is_staging(self):
        self.submit_without_staging()
        c = self.again()
        (_, job) = sorted(j["id"] for j in c.jobs(finished=True))  # it may be done already
        self.assertEqual(c.wait(job), "done", self.daemon.said())
        self.assertEqual(os.listdir(self.data), [])

    def test_workers_die_while_staging_is_looked_for(self):
        self.submit_without_staging()
        if not scratch.gates:
            self.skipTest("built without RECLAIM_TEST_GATES")
        self.daemon.kill()
        self.daemon.start(env={"RECLAIM_GATE": "staging:get"})
        killed = []
        for _ in range(4):
            killed.append(self.stopped_worker(killed))
            os.kill(killed[-1], signal.SIGKILL)
        c = self.daemon.client()
        (job,) = c.jobs()
        self.assertEqual(job["state"], "accepted")
        with self.gates_open():
            self.assertEqual(c.wait(job["id"]), "done", self.daemon.said())
        self.assertEqual(os.listdir(self.data), [])

    @contextlib.contextmanager
    def gates_open(self):
        """Meanwhile each worker that comes to its gate goes on: there is one for each filesystem."""
        over = threading.Event()

        def go_on():
            while not over.wait(0.005):
                for child in filter(fixture.is_stopped, self.workers()):
                    with contextlib.suppress(OSError):
                        os.kill(child, signal.SIGCONT)

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def stopped_worker(self, killed):
        """At its gate, and another than these."""
        return self.until(lambda: next((w for w in self.workers() if w not in killed and fixture.is_stopped(w)), None))

    def submit_without_staging(self):
        """Only root's worker makes staging directories; it stands still until the daemon is killed."""
        write(self.path("of root"))
        watcher = self.daemon.client()
        self.assertEqual(watcher.wait(watcher.submit(self.path("of root"))), "done")
        os.chown(self.data, USER, USER)
        with user():
            write(self.path("a"))
        c = self.daemon.client(USER)
        self.signal_workers(signal.SIGSTOP)
        c.send_submit(self.path("a"))
        while not self.is_written(self.path("a")):
            self.assertIsNone(self.daemon.process.poll())
        watcher.jobs(finished=True)  # read after the record was committed

    def is_written(self, text):
        with open(os.path.join(self.daemon.state, "reclaimd.db-wal"), "rb") as f:
            return text.encode() in f.read()

    def test_another_worker_is_installed(self):
        """An upgrade is for the next start: it is not known what the new program understands."""
        self.daemon.stop()
        other = self.daemon.worker
        self.daemon.worker = os.path.join(self.daemon.dir, "reclaim-worker")
        shutil.copy(other, self.daemon.worker)
        self.daemon.start()
        write(self.daemon.worker + ".new", "#!/bin/false\n")
        os.chmod(self.daemon.worker + ".new", 0o755)
        os.rename(self.daemon.worker + ".new", self.daemon.worker)
        self.signal_workers(signal.SIGKILL)
        self.daemon.wait_said("has ended: was killed")
        write(self.path("a"))
        c = self.daemon.client()
        self.assertEqual(c.wait(c.submit(self.path("a"))), "done")

    def test_fault_01_at_any_moment(self):
        rng = random.Random(7)
        canary = Canary(self.path("canary"))
        acknowledged = []
        for turn in range(100 if FULL else 12):
            names = [self.path("t%d-%d" % (turn, i)) for i in range(20)]
            for name in names:
                fill(name, 30)
            c = self.daemon.client()
            serials = [c.send_submit(name) for name in names]
            for serial in serials[:rng.randrange(len(serials))]:
                acknowledged.append(c.answer(serial).body[0])
            c = self.again()
        for n in acknowledged:
            self.assertEqual(c.wait(n), "done", self.daemon.said())
        for job in c.jobs():
            c.wait(job["id"])
        canary.check()
        self.assertEqual(self.staged(), [])

    def test_fault_03_staging_without_a_record_is_kept(self):
        write(self.path("a"))
        c = self.daemon.client()
        c.submit(self.path("a"), undo_usec=HOUR)
        self.daemon.kill()
        for name in os.listdir(self.daemon.state):
            os.unlink(os.path.join(self.daemon.state, name))
        self.daemon.start()
        c = self.daemon.client()
        self.assertEqual(c.jobs(), [])
        self.daemon.wait_said("of no job that is on record")
        self.assertEqual(c.call("Get", "ss", "org.reclaimd1.Manager", "Orphans",
                                interface="org.freedesktop.DBus.Properties").body[0], 1)
        self.assertEqual(len(self.staged()), 1)

    def test_fault_05_store_of_a_newer_version(self):
        """It is put aside, with what to do; nothing that it knows of is deleted, then or later."""
        canary = Canary(self.path("t"))
        c = self.daemon.client()
        n = c.submit(self.path("t"), undo_usec=HOUR)
        store = os.path.join(self.daemon.state, "reclaimd.db")
        self.daemon.stop()
        known = self.set_version(store, 99)
        self.daemon.start()
        c = self.daemon.client()
        self.daemon.wait_said("a newer reclaimd made it (version 99; this one knows ")
        self.daemon.wait_said("of no job that is on record")
        self.assertEqual(c.jobs(finished=True), [])
        (aside,) = [n for n in os.listdir(self.daemon.state)
                    if n.startswith("reclaimd.db.") and not n.endswith(("-wal", "-shm"))]
        self.assertIn("It is kept as " + aside, self.daemon.said())
        write(self.path("a"))
        self.assertEqual(c.wait(c.submit(self.path("a"))), "done")
        self.assertEqual(len(self.staged()), 1)
        # As the message says, it can be gone back to: by the newer one, or after a mistake.
        for name in os.listdir(self.daemon.state):
            if name.startswith("reclaimd.db") and name != aside:
                os.unlink(os.path.join(self.daemon.state, name))
        os.rename(os.path.join(self.daemon.state, aside), store)
        self.set_version(store, known)
        self.daemon.start()
        c = self.daemon.client()
        self.assertEqual(c.job(n)["state"], "held")
        c.call("Restore", "ta{sv}", n, {})
        canary.check()

    @staticmethod
    def set_version(store, version):
        with contextlib.closing(sqlite3.connect(store)) as db:
            (before,) = db.execute("PRAGMA user_version").fetchone()
            db.execute("PRAGMA user_version = %d" % version)
            db.commit()
        return before

    def test_fault_20_stops_in_seconds_and_keeps_its_queue(self):
        fill(self.path("t"), 60000)
        for i in range(50):
            write(self.path("f%d" % i))
        c = self.daemon.client()
        jobs = [c.submit(self.path("t"))] + [c.submit(self.path("f%d" % i)) for i in range(50)]
        self.assertEqual(self.daemon.stop(timeout=10), 0)
        self.daemon.start()
        c = self.daemon.client()
        for n in jobs:
            self.assertEqual(c.wait(n), "done")


if __name__ == "__main__":
    unittest.main()
