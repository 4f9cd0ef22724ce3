#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""How a daemon starts, reads its configuration again, and does without room for its state."""
import contextlib
import os
import signal
import subprocess
import tempfile
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
        self.data = os.path.join(scratch.filesystem("tmpfs"), self.id().rsplit(".", 1)[-1])
        os.mkdir(self.data)

    def finish(self):
        self.daemon.stop()
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

    def test_attack_10_names_whose_way_into_staging_is_not_recorded(self):
        """What comes after it is: nothing is taken for gone, or for back, that is in staging."""
        for how in ("back", "gone"):
            self.daemon.start(env={"RECLAIM_GATE": "stage:a"})
            write(self.path("a"))
            c = self.daemon.client()
            c.call("PauseAll", "")
            serial = c.send_submit(self.path("a"), undo_usec=HOUR if how == "back" else 0)
            worker = self.daemon.stopped_worker()
            self.fill(reserve=True)
            os.kill(worker, signal.SIGCONT)
            n = c.answer(serial).body[0]
            self.daemon.wait_said("cannot be written (No space left on device)")
            self.empty()
            c.call("Pause", "at", [n])
            self.daemon.kill()
            os.unlink(self.daemon.log)
            self.daemon.start()
            c = self.daemon.client()
            while c.job(n)["state"] == "accepted":
                pass
            self.assertEqual(c.job(n)["state"], "paused")
            if how == "back":
                c.call("Restore", "ta{sv}", n, {})
                self.assertEqual(os.listdir(self.data), ["a"])
                os.unlink(self.path("a"))
            else:
                c.call("Resume", "at", [n])
                c.call("ResumeAll", "")
                self.assertEqual(c.wait(n), "done")
                self.assertEqual(c.job(n)["done"], 1)
            self.daemon.stop()
        self.assertEqual(os.listdir(os.path.dirname(self.data) + "/.reclaim/0"), [])


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
