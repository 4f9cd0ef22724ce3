#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The life of jobs in a real reclaimd."""
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest
from xml.etree import ElementTree

import fixture
from daemon_fixture import Case, Daemon, user
from dbuswire import Error
from fixture import FULL, USER, Canary, build, fill, scratch, write

HOUR = 3600 * 1000000


class Life(Case):
    def test_file_is_gone_at_once_and_then_done(self):
        write(self.path("a"))
        c = self.daemon.client()
        n = c.submit(self.path("a"))
        self.assertFalse(os.path.exists(self.path("a")))
        self.assertEqual(c.wait(n), "done")
        self.assertEqual(c.job(n)["done"], 1)

    def test_tree_and_canary(self):
        canary = Canary(self.path("canary"))
        fill(self.path("t", "deep", "er"), 300)
        c = self.daemon.client()
        n = c.submit(self.path("t"))
        self.assertEqual(c.wait(n), "done")
        self.assertEqual(c.job(n)["done"], 303)
        canary.check()
        self.assertEqual(os.listdir(self.data), ["canary"])

    def test_held_and_restored(self):
        canary = Canary(self.path("t"))
        c = self.daemon.client()
        n = c.submit(self.path("t"), undo_usec=HOUR)
        self.assertEqual(c.job(n)["state"], "held")
        self.assertEqual(os.listdir(self.data), [])
        c.call("Restore", "ta{sv}", n, {})
        self.assertEqual(c.wait(n), "restored")
        canary.check()

    def test_undo_window_ends(self):
        write(self.path("a"))
        c = self.daemon.client()
        n = c.submit(self.path("a"), undo_usec=200000)
        self.assertEqual(c.wait(n), "done")

    def test_restore_never_replaces(self):
        write(self.path("a"), "old")
        c = self.daemon.client()
        n = c.submit(self.path("a"), undo_usec=HOUR)
        write(self.path("a"), "new")
        with self.assertRaises(Error) as e:
            c.call("Restore", "ta{sv}", n, {})
        self.assertEqual(e.exception.name, "WrongState")
        self.assertIn(self.path("a") + ": File exists; it is held as before", e.exception.text)
        self.assertEqual(c.job(n)["state"], "held")
        self.assertIn("could not be put back", c.get(n, "Message"))
        # What is held no longer is not deleted right after somebody wanted it back.
        c.call("Pause", "at", [n])
        with self.assertRaises(Error):
            c.call("Restore", "ta{sv}", n, {})
        self.assertEqual(c.job(n)["state"], "paused")
        fd = os.open(self.data, os.O_PATH)
        c.call("Restore", "ta{sv}", n, {"directory": ("h", 0), "name": ("ay", b"b")}, fds=[fd])
        os.close(fd)
        self.assertEqual(c.wait(n), "restored")
        for name, content in (("a", "new"), ("b", "old")):
            with open(self.path(name)) as f:
                self.assertEqual(f.read(), content)

    def test_cancel_of_a_held_job(self):
        build(self.data, "x/y/z\nw")
        c = self.daemon.client()
        n = c.submit(self.path("x"), self.path("w"), undo_usec=HOUR)
        c.call("Cancel", "at", [n])
        self.assertEqual(c.wait(n), "cancelled")
        self.assertEqual(fixture.listing(self.data), ["w", "x", "x/y", "x/y/z"])

    def test_pause_and_resume(self):
        write(self.path("a"))
        c = self.daemon.client()
        c.call("PauseAll")
        n = c.submit(self.path("a"))
        self.assertEqual(c.job(n)["state"], "queued")
        c.call("Pause", "at", [n])
        c.call("ResumeAll")
        self.assertEqual(c.job(n)["state"], "paused")
        c.call("Resume", "at", [n])
        self.assertEqual(c.wait(n), "done")

    def test_cancel_of_a_running_job(self):
        fill(self.path("t"), 50000)
        c = self.daemon.client()
        n = c.submit(self.path("t"))
        if c.wait_state(n, "running") == "running":
            try:
                c.call("Cancel", "at", [n])
            except Error as e:
                self.assertIn(e.name, ("WrongState", "NoSuchJob"))
        state = c.wait(n)
        left = len(os.listdir(self.path("t"))) if os.path.exists(self.path("t")) else 0
        self.assertEqual(state == "cancelled", left > 0)

    def test_missing(self):
        c = self.daemon.client()
        with self.assertRaises(Error) as e:
            c.submit(self.path("none"))
        self.assertEqual(e.exception.name, "NoSuchPath")
        write(self.path("a"))
        n, accepted, missing = c.submit_list(self.data, ["a", "none"])
        self.assertEqual((accepted, missing), (1, 1))
        self.assertEqual(c.wait(n), "done")
        with self.assertRaises(Error) as e:
            c.submit_list(self.data, ["none", "neither"])
        self.assertEqual((e.exception.name, e.exception.text), (
            "NoSuchPath", self.path("none") + ": does not exist, nor does any of the 2 names"))

    def test_how_much_there_is(self):
        write(self.path("a"), "x" * 100000)
        write(self.path("b"), "x" * 100000)
        os.link(self.path("b"), self.path("c"))
        build(self.data, "t/d")
        c = self.daemon.client()
        size = os.stat(self.path("a")).st_blocks * 512
        job = c.job(c.submit(self.path("a"), self.path("b"), undo_usec=HOUR))
        self.assertEqual((job["entries"], job["bytes"]), (2, size))
        job = c.job(c.submit(self.path("c"), self.path("t"), undo_usec=HOUR))
        self.assertEqual((job["entries"], job["bytes"]), (0, 0))

    def test_dry_run(self):
        write(self.path("a"))
        c = self.daemon.client()
        self.assertEqual(c.submit(self.path("a"), dry_run=True), 0)
        self.assertTrue(os.path.exists(self.path("a")))
        self.assertEqual(c.jobs(finished=True), [])

    def test_many_names(self):
        count = 1000000 if FULL else 100000
        names = ["n%d" % i for i in range(count)]
        fd = os.open(self.data, os.O_RDONLY)
        for name in names:
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        os.close(fd)
        c = self.daemon.client()
        n, accepted, _ = c.submit_list(self.data, names)
        self.assertEqual(accepted, count)
        self.assertEqual(os.listdir(self.data), [])
        self.assertEqual(c.wait(n), "done")
        self.assertEqual(c.job(n)["done"], count)


class Users(Case):
    def setUp(self):
        super().setUp()
        os.chown(self.data, USER, USER)

    def test_own_file(self):
        with user():
            write(self.path("a"))
        c = self.daemon.client(USER)
        n = c.submit(self.path("a"))
        self.assertEqual(c.wait(n), "done")

    def test_others_file(self):
        os.chmod(self.data, 0o755)
        os.chown(self.data, 0, 0)
        canary = Canary(self.path("t"))
        c = self.daemon.client(USER)
        with self.assertRaises(Error) as e:
            c.submit(self.path("t"))
        self.assertEqual(e.exception.name, "NotAuthorized")
        canary.check()
        self.assertEqual(c.jobs(finished=True), [])

    def test_others_content_is_left_in_its_place(self):
        with user():
            build(self.data, "own/mine")
        os.mkdir(self.path("own", "theirs"), 0o755)
        canary = Canary(self.path("own", "theirs", "c"))
        c = self.daemon.client(USER)
        n = c.submit(self.path("own"))
        self.assertEqual(c.wait(n), "partial")
        canary.check()
        self.assertFalse(os.path.exists(self.path("own", "mine")))
        paths = [os.fsdecode(bytes(p[0])) for p in c.problems(n)]
        self.assertTrue(paths)
        for path in paths:
            self.assertTrue(path.startswith(self.path("own", "theirs")), paths)

    def test_others_job(self):
        write(self.path("a"))
        n = self.daemon.client().submit(self.path("a"), undo_usec=HOUR)
        c = self.daemon.client(USER)
        self.assertEqual(c.jobs(), [])
        for member, signature, *args in (("Cancel", "at", [n]), ("Pause", "at", [n]),
                                         ("Resume", "at", [n]), ("Restore", "ta{sv}", n, {})):
            with self.assertRaises(Error) as e:
                c.call(member, signature, *args)
            self.assertEqual(e.exception.name, "NoSuchJob")


class InPlace(Case):
    config = "staging: off\n"

    def test_in_place(self):
        canary = Canary(self.path("canary"))
        build(self.data, "one/a/b\ntwo/c\ntwo/d")
        c = self.daemon.client()
        n = c.submit(self.path("one"), self.path("two", "c"))
        self.assertEqual(c.wait(n), "done")
        self.assertEqual(os.listdir(self.path("two")), ["d"])
        self.assertFalse(os.path.exists(self.path("one")))
        canary.check()

    def test_replaced_while_held(self):
        write(self.path("a"), "old")
        c = self.daemon.client()
        c.call("PauseAll")
        n = c.submit(self.path("a"))
        os.rename(self.path("a"), self.path("b"))
        write(self.path("a"), "new")
        c.call("ResumeAll")
        self.assertEqual(c.wait(n), "failed")
        for name, content in (("a", "new"), ("b", "old")):
            with open(self.path(name)) as f:
                self.assertEqual(f.read(), content)

    def test_directory_replaced_after_a_restart(self):
        build(self.data, "d/a")
        c = self.daemon.client()
        c.call("PauseAll")
        n = c.submit(self.path("d", "a"))
        self.daemon.kill()
        os.rename(self.path("d"), self.path("e"))
        build(self.data, "d/a")
        self.daemon.start()
        c = self.daemon.client()
        c.call("ResumeAll")
        self.assertEqual(c.wait(n), "failed")
        self.assertEqual(fixture.listing(self.data), ["d", "d/a", "e", "e/a"])


class Spools(Case):
    def setUp(self):
        super().setUp()
        # Not below /tmp, where anybody may write: nobody would know who submits.
        fixture.command("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/mnt")
        self.addCleanup(fixture.command, "umount", "-l", "/mnt")
        self.data = "/mnt"
        self.spool = self.path("trash")
        self.daemon.configure("spools: {%s: {settle: 100ms, undo: 0s}}\n" % self.spool)
        self.client = self.daemon.client()
        self.client.call("Reload")

    def test_what_is_moved_in_is_deleted(self):
        canary = Canary(self.path("canary"))
        os.mkdir(self.spool, 0o700)
        fill(self.path("many"), 1000)
        os.rename(self.path("many"), os.path.join(self.spool, "many"))
        m = self.client.signal("JobFinished")
        self.assertEqual(m.body[2], "done")
        self.assertEqual(self.client.job(m.body[0])["origin"], "spool:" + self.spool)
        self.assertEqual(self.client.job(m.body[0])["done"], 1001)
        self.assertEqual(os.listdir(self.spool), [])
        canary.check()

    def test_tree_of_objects_has_an_end(self):
        paths = ["/"]
        for path in paths:
            text = self.client.call("Introspect", path=path,
                                    interface="org.freedesktop.DBus.Introspectable").body[0]
            self.assertLess(len(paths), 20, paths)
            paths += [os.path.join(path, n.get("name"))
                      for n in ElementTree.fromstring(text).findall("node")]
        self.assertIn("/org/reclaimd1/spool/_2fmnt_2ftrash", paths)

    def test_many_at_once_are_one_job(self):
        # What has settled is taken: before that, all of it has to be moved and seen, by a slow machine too.
        count = 50000 if FULL else 10000
        self.daemon.configure("spools: {%s: {settle: 3s, undo: 0s}}\n" % self.spool)
        self.client.call("Reload")
        os.mkdir(self.spool, 0o700)
        fill(self.path("many"), count)
        source = os.open(self.path("many"), os.O_RDONLY)
        target = os.open(self.spool, os.O_RDONLY)
        for name in os.listdir(source):
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
        os.close(source)
        os.close(target)
        m = self.client.signal("JobFinished")
        self.assertEqual(m.body[2], "done", self.daemon.said())
        self.assertEqual(self.client.job(m.body[0])["done"], count, self.daemon.said())
        self.assertEqual(os.listdir(self.spool), [])
        self.assertEqual(len(self.client.jobs(finished=True)), 1)


class Limits(Case):
    config = "limits: {jobs-per-user: 3}\n"

    def test_limit(self):
        c = self.daemon.client()
        for i in range(4):
            write(self.path(str(i)))
        for i in range(3):
            c.submit(self.path(str(i)), undo_usec=HOUR)
        with self.assertRaises(Error) as e:
            c.submit(self.path("3"))
        self.assertEqual(e.exception.name, "LimitExceeded")
        self.assertTrue(os.path.exists(self.path("3")))

    def test_submits_under_way_count(self):
        c = self.daemon.client()
        for i in range(8):
            write(self.path(str(i)))
        sent = [c.send_submit(self.path(str(i)), undo_usec=HOUR) for i in range(8)]
        refused = 0
        for serial in sent:
            try:
                c.answer(serial)
            except Error as e:
                self.assertEqual(e.name, "LimitExceeded")
                refused += 1
        self.assertEqual(refused, 5)
        # Neither what is refused nor what comes to nothing counts afterwards.
        for job in c.jobs():
            c.call("Cancel", "at", [job["id"]])
        for _ in range(4):
            with self.assertRaises(Error) as e:
                c.submit(self.path("none"))
            self.assertEqual(e.exception.name, "NoSuchPath")
        for i in range(3):
            c.submit(self.path(str(i)), undo_usec=HOUR)


class Reload(Case):
    def workers(self):
        return set(fixture.workers_of(self.daemon.process.pid))

    def test_a_busy_worker_is_replaced(self):
        """Whoever was told that the new configuration is in force must not meet the old one, however
        much the worker that has it still has to do."""
        c = self.daemon.again_with_gate("stage:a")
        for name in ("a", "keep"):
            write(self.path(name))
        c.send_submit(self.path("a"))
        busy = self.daemon.stopped_worker()
        self.daemon.configure("protect: [%s]\n" % self.path("keep"))
        other = self.daemon.client()
        other.call("Reload")
        with self.assertRaises(Error) as e:
            other.submit(self.path("keep"))
        self.assertEqual(e.exception.name, "Protected")
        os.kill(busy, signal.SIGCONT)
        self.daemon.wait_said("Job 1 is done")
        self.assertEqual(os.listdir(self.data), ["keep"])

    def test_workers_are_replaced(self):
        """They have been told what is protected when they were started."""
        c = self.daemon.client()
        for name in "ab":
            write(self.path(name))
        self.assertEqual(c.wait(c.submit(self.path("a"))), "done")
        before = self.workers()
        self.assertEqual(len(before), 2)
        write(self.path("keep"))
        self.daemon.configure("protect: [%s]\n" % self.path("keep"))
        c.call("Reload")
        self.assertEqual(c.wait(c.submit(self.path("b"))), "done")
        end = time.monotonic() + fixture.TIMEOUT
        while left := before & self.workers():
            self.assertLess(time.monotonic(), end, left)
            time.sleep(0.01)
        with self.assertRaises(Error) as e:
            c.submit(self.path("keep"))
        self.assertEqual(e.exception.name, "Protected")


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
        others = [worker for worker in self.workers() if worker != stopped]
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
            self.daemon.wait_said("is of no job that is on record: kept", times)
            self.daemon.wait_gone(empty)
            self.assertEqual(self.daemon.said().count("is of no job that is on record"), times)
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
        os.kill(self.stopped_worker(killed), signal.SIGCONT)
        c.answer(serial)
        canary.check()

    def test_worker_gone_after_reload(self):
        write(self.path("a"))
        c = self.daemon.client()
        c.call("Cancel", "at", [c.submit(self.path("a"), undo_usec=HOUR)])
        c.call("Reload")
        # The look for orphans may just have replaced it.
        while "has ended: was killed" not in self.daemon.said():
            self.signal_workers(signal.SIGKILL)
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
        os.kill(self.stopped_worker(killed), signal.SIGCONT)
        self.assertEqual(c.wait(job["id"]), "done", self.daemon.said())
        self.assertEqual(os.listdir(self.data), [])

    def stopped_worker(self, killed):
        """At its gate, and another than these."""
        end = time.monotonic() + fixture.TIMEOUT
        while time.monotonic() < end:
            for child in self.workers():
                with contextlib.suppress(OSError), open("/proc/%d/stat" % child) as f:
                    if f.read().rsplit(")", 1)[1].split()[0] == "T" and child not in killed:
                        return child
            time.sleep(0.005)
        raise AssertionError("no worker has come to its gate: " + self.daemon.said())

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
        """An upgrade is for the next start: nobody knows what the new program understands."""
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
        self.daemon.wait_said("is of no job that is on record: kept")
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
        self.set_version(store, 99)
        self.daemon.start()
        c = self.daemon.client()
        self.daemon.wait_said("a newer reclaimd made it (version 99; this one knows ")
        self.daemon.wait_said("is of no job that is on record: kept")
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
        self.set_version(store, 1)
        self.daemon.start()
        c = self.daemon.client()
        self.assertEqual(c.job(n)["state"], "held")
        c.call("Restore", "ta{sv}", n, {})
        canary.check()

    @staticmethod
    def set_version(store, version):
        with contextlib.closing(sqlite3.connect(store)) as db:
            db.execute("PRAGMA user_version = %d" % version)
            db.commit()

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


class Hurry(Case):
    """At the pace that is configured each of these jobs takes minutes."""

    config = "pacing: {max-rate: 1MiB/s, min-rate: 64KiB/s}\nurgent: {below: 20%, until: 30%}\n"
    ENTRIES = 30000

    def setUp(self):
        super().setUp()
        image = os.path.join(self.daemon.dir, "image")
        self.data = os.path.join(self.daemon.dir, "disk")
        os.mkdir(self.data)
        with open(image, "wb") as f:
            f.truncate(512 << 20)
        fixture.command("mkfs.ext4", "-q", "-F", "-N", "100000", image)
        fixture.command("mount", "-o", "loop", image, self.data)
        self.addCleanup(fixture.command, "umount", "-l", self.data)
        fill(self.path("t"), self.ENTRIES)
        self.client = self.daemon.client()

    def mode(self):
        devices = self.client.call("ListDevices").body[0]
        return devices[0][1] if devices else None

    def check_at_pace(self, number):
        """It goes on for longer than it takes to see that something is short."""
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            self.assertEqual(self.client.wait_state(number, "running"), "running")
            self.assertNotEqual(self.mode(), "urgent")
        self.client.call("Cancel", "at", [number])
        self.assertEqual(self.client.wait(number), "cancelled")

    def check_urgent(self, number):
        seen = set()
        began = time.monotonic()
        while "urgent" not in seen and self.client.job(number)["state"] in ("queued", "running"):
            seen.add(self.mode())
        self.assertIn("urgent", seen)
        self.assertEqual(self.client.wait(number), "done")
        self.assertLess(time.monotonic() - began, 60)

    def test_time_is_short(self):
        self.check_at_pace(self.client.submit(self.path("t")))
        number = self.client.submit(self.path("t"), by_usec=int((time.time() + 1) * 1000000))
        self.client.wait_state(number, "running")
        said = ""
        while not said and self.client.job(number)["state"] == "running":
            said = self.client.get(number, "Message")
        self.assertRegex(said, "cannot be done in time|speed goes before latency|is late")
        self.check_urgent(number)

    def test_space_is_short(self):
        filler = self.path("filler")
        free = os.statvfs(self.data)
        with open(filler, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, free.f_bavail * free.f_frsize * 7 // 8)
        self.check_urgent(self.client.submit(self.path("t")))
        os.unlink(filler)
        fill(self.path("t"), self.ENTRIES)
        self.check_at_pace(self.client.submit(self.path("t")))


class Renumbered(Case):
    def test_disks_in_another_order(self):
        """XFS has no id but its device's number: a job is still known when that has changed."""
        image = os.path.join(self.daemon.dir, "image")
        with open(image, "wb") as f:
            f.truncate(512 << 20)
        fixture.command("mkfs.xfs", "-q", image)
        self.data = os.path.join(self.daemon.dir, "disk")
        os.mkdir(self.data)
        first = self.attach(image)
        fixture.command("mount", first, self.data)
        self.addCleanup(fixture.command, "umount", "-l", self.data)
        canary = Canary(self.path("t"))
        write(self.path("a"))
        c = self.daemon.client()
        back, gone = (c.submit(self.path(n), undo_usec=HOUR) for n in ("t", "a"))
        self.daemon.stop()
        fixture.command("umount", self.data)
        # It gets another number, as the first is free only when the second is taken.
        second = self.attach(image)
        fixture.command("losetup", "-d", first)
        self.assertNotEqual(first, second)
        fixture.command("mount", second, self.data)
        self.daemon.start()
        c = self.daemon.client()
        c.call("Restore", "ta{sv}", back, {})
        canary.check()
        c.call("Cancel", "at", [gone])
        n = c.submit(self.path("a"), undo_usec=1000)
        self.assertEqual(c.wait(n), "done")

    def attach(self, path):
        device = subprocess.check_output(["losetup", "-f", "--show", path], text=True).strip()
        self.addCleanup(subprocess.run, ["losetup", "-d", device], stderr=subprocess.DEVNULL)
        return device


class NoRoom(unittest.TestCase):
    def test_fault_04_full_state_directory(self):
        scratch.open()
        state = os.path.join(scratch.dir, "small")
        os.mkdir(state, 0o700)
        fixture.command("mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "small", state)
        daemon = Daemon(state=state).start()
        self.addCleanup(daemon.stop)
        data = os.path.join(scratch.filesystem("tmpfs"), "noroom")
        os.mkdir(data)
        for name in "abc":
            write(os.path.join(data, name))
        c = daemon.client()
        held = c.submit(os.path.join(data, "a"), undo_usec=HOUR)
        fd = os.open(os.path.join(state, "filler"), os.O_CREAT | os.O_WRONLY)
        with contextlib.suppress(OSError):
            while True:
                os.write(fd, b"x" * 4096)
        os.close(fd)
        refused = 0
        try:
            for i in range(2000):
                write(os.path.join(data, "b"))
                c.submit(os.path.join(data, "b"))
        except Error as e:
            refused = 1
            self.assertEqual(e.name, "Failed")
            self.assertIn("No space left", e.text)
        self.assertTrue(refused)
        self.assertTrue(os.path.exists(os.path.join(data, "b")))
        os.unlink(os.path.join(state, "filler"))
        self.assertEqual(c.wait(c.submit(os.path.join(data, "c"))), "done")
        c.call("Restore", "ta{sv}", held, {})
        self.assertTrue(os.path.exists(os.path.join(data, "a")))

    def test_fault_04_no_room_for_what_was_moved(self):
        """It has been accepted: which names were moved is seen in staging."""
        scratch.open()
        if not scratch.gates:
            self.skipTest("built without RECLAIM_TEST_GATES")
        state = os.path.join(scratch.dir, "smaller")
        os.mkdir(state, 0o700)
        fixture.command("mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "small", state)
        daemon = Daemon(state=state).start(env={"RECLAIM_GATE": "stage:a"})
        self.addCleanup(daemon.stop)
        data = os.path.join(scratch.filesystem("tmpfs"), "moved")
        os.mkdir(data)
        for how, undo in (("back", HOUR), ("gone", 0)):
            write(os.path.join(data, "a"))
            c = daemon.client()
            serial = c.send_submit(os.path.join(data, "a"), undo_usec=undo)
            worker = daemon.stopped_worker()
            filler = os.path.join(state, "filler")
            with open(filler, "wb", buffering=0) as f, contextlib.suppress(OSError):
                while True:
                    f.write(b"x" * 4096)
            os.kill(worker, signal.SIGCONT)
            n = c.answer(serial).body[0]
            self.assertFalse(os.path.exists(os.path.join(data, "a")))
            daemon.wait_said("cannot be written (No space left on device)")
            os.unlink(filler)
            if how == "back":
                c.call("Restore", "ta{sv}", n, {})
                self.assertTrue(os.path.exists(os.path.join(data, "a")), daemon.said())
            else:
                self.assertEqual(c.wait(n), "done", daemon.said())
                self.assertEqual(c.job(n)["done"], 1)
            daemon.stop()
            os.unlink(daemon.log)
            daemon.start(env={"RECLAIM_GATE": "stage:a"})
        top = os.path.join(os.path.dirname(data), ".reclaim", "0")
        self.assertEqual(os.listdir(top), [])


class Starting(unittest.TestCase):
    def status(self, daemon):
        p = subprocess.run(daemon.words(), stderr=subprocess.PIPE, timeout=60)
        return p.returncode, p.stderr.decode()

    def test_fault_07_state_directory_of_others(self):
        daemon = Daemon()
        os.chmod(daemon.state, 0o777)
        code, text = self.status(daemon)
        self.assertEqual(code, 1)
        self.assertIn(daemon.state, text)
        os.rmdir(daemon.state)
        code, text = self.status(daemon)
        self.assertEqual(code, 1)

    def test_configuration_errors(self):
        daemon = Daemon(config="spools: 3\nnonsense: true\n")
        code, text = self.status(daemon)
        self.assertEqual(code, 78)
        self.assertIn("reclaimd.yaml:2:", text)

    def test_bad_reload_changes_nothing(self):
        daemon = Daemon(config="").start()
        self.addCleanup(daemon.stop)
        daemon.configure("nonsense: true\n")
        c = daemon.client()
        with self.assertRaises(Error):
            c.call("Reload")
        wrong = c.call("Get", "ss", "org.reclaimd1.Manager", "ConfigurationError",
                       interface="org.freedesktop.DBus.Properties").body[0]
        self.assertIn("nonsense", wrong)
        daemon.configure("")
        c.call("Reload")


if __name__ == "__main__":
    unittest.main()
