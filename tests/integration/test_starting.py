#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""How a daemon starts, reads its configuration again, and does without room for its state."""
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import fixture
from daemon_fixture import Case, Daemon
from dbuswire import Error
from fixture import scratch, write

HOUR = 3600 * 1000000


class Reload(Case):
    def workers(self):
        return set(fixture.workers_of(self.daemon.process.pid))

    def test_reload_replaces_busy_worker(self):
        """A client that was told that the new configuration is in force must not meet the old one,
        however much the worker that has it still has to do."""
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

    def test_reload_replaces_workers(self):
        """They have been told what is protected when they were started."""
        c = self.daemon.client()
        for name in "ab":
            write(self.path(name))
        self.assertEqual(c.wait(c.submit(self.path("a"))), "done")
        before = self.workers()
        # An intake worker for each filesystem that was looked at, and the deleter.
        self.assertGreaterEqual(len(before), 2)
        write(self.path("keep"))
        self.daemon.configure("protect: [%s]\n" % self.path("keep"))
        c.call("Reload")
        self.assertEqual(c.wait(c.submit(self.path("b"))), "done")
        self.until(lambda: not before & self.workers())
        with self.assertRaises(Error) as e:
            c.submit(self.path("keep"))
        self.assertEqual(e.exception.name, "Protected")

    def test_directory_is_protected_while_a_job_waits(self):
        """The job ends, and is not tried again for ever."""
        self.mount_disk()
        for staging in ("off", "auto"):
            os.mkdir(self.path(staging))
            write(self.path(staging, "f"))
            self.daemon.configure("staging: %s\n" % staging)
            c = self.daemon.client()
            c.call("Reload")
            c.call("PauseAll")
            job = c.submit(self.path(staging, "f"))
            self.daemon.configure("staging: %s\nprotect: [%s]\n" % (staging, self.data))
            c.call("Reload")
            c.call("ResumeAll")
            self.assertEqual(c.wait(job), "failed")
            self.assertEqual([(path.decode(), what) for path, what, _, _ in c.problems(job)],
                             [(self.path(staging, "f"), "is protected by the configuration")])
            self.assertEqual(os.listdir(self.path(staging)), ["f"])


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


class Crowded(unittest.TestCase):
    """A state directory without room, and something else that takes what there is."""

    config = ""
    SIZE = "4m"

    def setUp(self):
        scratch.open()
        if not scratch.gates:
            self.skipTest("built without RECLAIM_TEST_GATES")
        self.state = tempfile.mkdtemp(prefix="crowded", dir=scratch.dir)
        fixture.command("mount", "-t", "tmpfs", "-o", "mode=0700,size=" + self.SIZE, "small", self.state)
        self.daemon = Daemon(state=self.state, config=self.config)
        self.addCleanup(self.finish)
        self.root = os.path.join(self.daemon.dir, "fs")
        os.mkdir(self.root)
        fixture.command("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", self.root)
        self.data = os.path.join(self.root, "data")
        os.mkdir(self.data)

    def finish(self):
        self.daemon.stop()
        fixture.command("umount", "-l", self.root)
        self.assertNotIn("ERROR: ", self.daemon.said())

    def path(self, name):
        return os.path.join(self.data, name)

    def fill(self, reserve=False):
        """With the reserve, or what is given up of it, as well."""
        if reserve:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.state, "reserve"))
        with open(os.path.join(self.state, "filler"), "ab", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(b"x" * 4096)

    def empty(self):
        os.unlink(os.path.join(self.state, "filler"))

    def send_names(self, client, names, undo_usec):
        fds = [os.open(self.data, os.O_PATH | os.O_DIRECTORY), os.memfd_create("names")]
        with os.fdopen(os.dup(fds[1]), "wb") as f:
            f.write(b"".join(os.fsencode(n) + b"\0" for n in names))
        serial = client.send("SubmitLists", "a(hh)a{sv}", [(0, 1)], {"undo-usec": ("t", undo_usec)}, fds=fds)
        for fd in fds:
            os.close(fd)
        return serial

    def unrecorded(self, crash):
        """More names than even the reserve has room for are moved, but what comes after it is recorded:
        nothing is taken for gone, or for back, that is in staging."""
        names = ["a"] + ["f%05d" % i for i in range(12000)]
        for how in ("back", "gone"):
            self.daemon.start(env={"RECLAIM_GATE": "stage:a"})
            write(self.path("a"))
            fixture.fill(self.data, 12000)
            c = self.daemon.client()
            c.call("PauseAll", "")
            serial = self.send_names(c, names, HOUR if how == "back" else 0)
            worker = self.daemon.stopped_worker()
            self.fill(reserve=True)
            os.kill(worker, signal.SIGCONT)
            n = c.answer(serial).body[0]
            self.daemon.wait_said("cannot be written (No space left on device)")
            self.empty()
            c.call("Pause", "at", [n])
            if crash:
                self.daemon.kill()
                self.daemon.start()
                c = self.daemon.client()
            self.assertEqual(c.job(n)["state"], "paused")
            if how == "back":
                c.call("Restore", "ta{sv}", n, {})
                self.assertEqual(sorted(os.listdir(self.data)), names)
            else:
                c.call("Resume", "at", [n])
                c.call("ResumeAll", "")
                self.assertEqual(c.wait(n), "done")
                self.assertEqual(c.job(n)["done"], len(names))
            self.daemon.stop()
            # Of those that are finished there are too many for the next.
            for name in os.listdir(self.state):
                os.unlink(os.path.join(self.state, name))
            os.truncate(self.daemon.log, 0)
        self.assertEqual(os.listdir(self.root + "/.reclaim/0"), [])

    def test_fault_04_no_room_for_what_was_moved(self):
        self.unrecorded(crash=False)

    def test_attack_10_no_room_for_what_was_moved_and_a_crash(self):
        self.unrecorded(crash=True)

    def test_attack_10_ends_are_recorded(self):
        """Though there is no room left for anything: in what was kept for that."""
        self.daemon.start()
        c = self.daemon.client()
        c.call("PauseAll", "")
        names = ["n%d" % i for i in range(5)]
        for name in names:
            write(self.path(name))
        jobs = [c.submit(self.path(name)) for name in names]
        # What its log has is a part of the database then.
        self.daemon.stop()
        self.daemon.start()
        self.fill()
        c = self.daemon.client()
        c.call("ResumeAll", "")
        self.assertEqual({c.wait(n) for n in jobs}, {"done"})
        self.assertNotIn("cannot be written", self.daemon.said())
        write(self.path("more"))
        with self.assertRaises(Error) as e:
            c.submit(self.path("more"))
        self.assertIn(self.state, e.exception.text)
        self.assertIn("make room there", e.exception.text)
        self.assertEqual(os.listdir(self.data), ["more"])
        self.daemon.kill()
        self.daemon.start()
        c = self.daemon.client()
        self.assertEqual({c.job(n)["state"] for n in jobs}, {"done"})
        self.empty()
        # It finds by itself that there is room, and a reserve can be kept again.
        self.assertEqual(c.wait(c.submit(self.path("more"))), "done", self.daemon.said())
        self.assertTrue(os.path.exists(os.path.join(self.state, "reserve")))

    def test_attack_10_no_size_is_stated(self):
        """A filesystem without a limit has neither blocks nor free ones, and is not full."""
        for kind, options in (("tmpfs", "size=0,mode=0700"), ("ramfs", "mode=0700")):
            with self.subTest(kind):
                fixture.command("mount", "-t", kind, "-o", options, "none", self.state)
                try:
                    self.assertEqual(os.statvfs(self.state).f_blocks, 0)
                    self.daemon.start()
                    c = self.daemon.client()
                    write(self.path("a"))
                    self.assertEqual(c.wait(c.submit(self.path("a"))), "done")
                    self.assertTrue(os.path.exists(os.path.join(self.state, "reserve")))
                finally:
                    self.daemon.stop()
                    fixture.command("umount", "-l", self.state)

    def test_attack_10_a_reserve_that_cannot_be_made(self):
        """Though there is room: nothing is refused for it, and it is told of once."""
        os.mkdir(os.path.join(self.state, "reserve"))
        self.daemon.start()
        c = self.daemon.client()
        for name in "ab":
            write(self.path(name))
            self.assertEqual(c.wait(c.submit(self.path(name))), "done")
        self.assertEqual(self.daemon.said().count("reserve cannot be made: File exists"), 1)

    def test_attack_10_the_log_is_bounded(self):
        self.daemon.start()
        c = self.daemon.client()
        c.call("PauseAll", "")
        most = 0
        for _ in range(150):
            write(self.path("a"))
            c.submit(self.path("a"), undo_usec=HOUR)
            most = max(most, os.path.getsize(os.path.join(self.state, "reclaimd.db-wal")))
        self.assertLess(most, 400000)

    def test_attack_10_a_start_without_room(self):
        """It waits for it, with a database and without one; and ends when it is told to."""
        for before in (False, True):
            if before:
                self.daemon.start()
                c = self.daemon.client()
                c.call("PauseAll", "")
                write(self.path("a"))
                n = c.submit(self.path("a"))
                self.daemon.stop()
            self.fill(reserve=True)
            thread = threading.Thread(target=self.daemon.start)
            if before:
                self.daemon.start()
                c = self.daemon.client()
                self.assertEqual(c.job(n)["state"], "queued")
                write(self.path("b"))
                with self.assertRaises(Error):
                    c.submit(self.path("b"))
                self.empty()
                c.call("ResumeAll", "")
                self.assertEqual(c.wait(n), "done", self.daemon.said())
                self.assertEqual(c.wait(c.submit(self.path("b"))), "done", self.daemon.said())
            else:
                process = subprocess.Popen(self.daemon.words(), stderr=subprocess.PIPE)
                self.assertIn(b"waits until there is some", process.stderr.readline())
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(fixture.TIMEOUT), 0)
                process.stderr.close()
                thread.start()
                fixture.until(lambda: os.path.exists(self.daemon.log) and "waits until" in self.daemon.said())
                self.empty()
                thread.join()
                self.daemon.stop()

    def test_attack_10_spools_are_served_again(self):
        """Without a restart, and sooner than they look again by themselves."""
        # Not below /tmp, where every user may write.
        fixture.command("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/mnt")
        self.addCleanup(fixture.command, "umount", "-l", "/mnt")
        os.mkdir("/mnt/trash", 0o700)
        self.daemon.configure("spools: {/mnt/trash: {settle: 0s, undo: 0s}}\n")
        self.daemon.start()
        c = self.daemon.client()
        self.fill(reserve=True)
        write("/mnt/trash/a")
        self.daemon.wait_said("not accepted")
        began = time.monotonic()
        self.empty()
        self.assertEqual(c.signal("JobFinished").body[2], "done")
        self.assertLess(time.monotonic() - began, 30)

    def test_attack_49_history_makes_room(self):
        fixture.command("mount", "-o", "remount,size=12m", self.state)
        self.daemon.start()
        c = self.daemon.client()
        store = os.path.join(self.state, "reclaimd.db")
        names = ["%05d%s" % (i, "n" * 245) for i in range(4000)]
        largest = 0
        for _ in range(15):
            for name in names:
                write(self.path(name))
            n = c.answer(self.send_names(c, names, 0)).body[0]
            self.assertEqual(c.wait(n), "done", self.daemon.said())
            largest = max(largest, os.path.getsize(store))
        self.assertGreater(largest, 4 << 20)
        jobs = [job["id"] for job in c.jobs(finished=True)]
        self.assertEqual(jobs[-1], n)
        self.assertNotIn(1, jobs)
        self.daemon.configure("history: 0\n")
        c.call("Reload")
        fixture.until(lambda: os.path.getsize(store) < 1 << 20)
        self.assertEqual(c.jobs(finished=True), [])


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
