#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is exchanged between two steps of ours stays."""
import os
import signal
import unittest

import fixture
from daemon_fixture import user
from dbuswire import Error
from fixture import USER, Canary, scratch, write
from test_safety import Safety


class Races(Safety):
    def gated(self, gate):
        """The daemon again, and its workers with a gate."""
        if not scratch.gates:
            raise unittest.SkipTest("built without gates")
        self.daemon.stop()
        self.daemon.start(env={"RECLAIM_GATE": gate})
        return self.daemon.client(USER)

    def stopped(self):
        """The worker that stands at its gate."""
        return self.until(lambda: next(filter(fixture.is_stopped, fixture.workers_of(self.daemon.process.pid)), None))

    def sent(self, c, path):
        fd = os.open(os.path.dirname(path), os.O_PATH)
        serial = c.send("SubmitFiles", "aha(uay)a{sv}", [0], [(0, os.path.basename(path).encode())], {},
                        fds=[fd])
        os.close(fd)
        return serial

    def swapped(self, mode):
        """Submits own/x, which becomes root's directory of that mode between look and staging;
        returns the client and the serial of the submit, and the canary in it."""
        self.own("own/x")
        os.chmod(self.path("own"), 0o777)
        os.mkdir(self.path("theirs"))
        os.chmod(self.path("theirs"), mode)
        precious = Canary(self.path("theirs", "c"))
        c = self.gated("stage:x")
        serial = self.sent(c, self.path("own", "x"))
        pid = self.stopped()
        os.rename(self.path("own", "x"), self.path("own", "y"))
        os.rename(self.path("theirs"), self.path("own", "x"))
        os.kill(pid, signal.SIGCONT)
        return c, serial, precious

    def swapped_back(self, precious):
        os.rename(self.path("own", "x"), self.path("theirs"))
        precious.check()
        self.assertTrue(os.path.exists(self.path("own", "y")))
        self.assertEqual(self.staged(), [])

    def test_08_swapped_between_look_and_staging(self):
        """What can be moved goes back at once."""
        c, serial, precious = self.swapped(0o777)
        with self.assertRaises(Error) as e:
            c.answer(serial)
        self.assertEqual(e.exception.name, "IdentityChanged", e.exception.text)
        self.swapped_back(precious)

    def test_08_swapped_for_what_cannot_be_moved(self):
        c, serial, precious = self.swapped(0o755)
        n = c.answer(serial).body[0]
        self.assertEqual(c.wait(n), "failed")
        self.assertIn("no longer what it was", str(c.problems(n)))
        self.swapped_back(precious)

    def test_08_swapped_for_another_file(self):
        """Of the same kind, and one that the submitter might have moved."""
        self.own("own/x")
        write(self.path("roots"), "precious")
        c = self.gated("stage:x")
        serial = self.sent(c, self.path("own", "x"))
        pid = self.stopped()
        os.rename(self.path("own", "x"), self.path("own", "y"))
        os.rename(self.path("roots"), self.path("own", "x"))
        os.kill(pid, signal.SIGCONT)
        with self.assertRaises(Error) as e:
            c.answer(serial)
        self.assertEqual(e.exception.name, "IdentityChanged", e.exception.text)
        with open(self.path("own", "x"), encoding="ascii") as f:
            self.assertEqual(f.read(), "precious")
        self.assertEqual(self.staged(), [])

    def test_08_swapped_for_a_link_at_depth(self):
        self.own("t/d/x\nt/d/y")
        c = self.gated("descend:d")
        n = c.answer(self.sent(c, self.path("t"))).body[0]
        pid = self.stopped()
        (job,) = os.listdir(os.path.join(self.root, ".reclaim", str(USER)))
        tree = os.path.join(self.root, ".reclaim", str(USER), job, "1")
        os.rename(tree + "/d", self.path("d-moved"))
        os.symlink(self.path("canary"), tree + "/d")
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(c.wait(n), "failed")
        self.assertEqual(sorted(os.listdir(self.path("d-moved"))), ["x", "y"])

    def test_11_replaced_between_submit_and_start(self):
        """In staging, by the submitter himself: nothing that he could not delete."""
        self.own("mine")
        c = self.daemon.client(USER)
        self.daemon.client().call("PauseAll")
        n = c.submit(self.path("mine"))
        (job,) = os.listdir(os.path.join(self.root, ".reclaim", str(USER)))
        at = os.path.join(self.root, ".reclaim", str(USER), job)
        os.rename(at + "/1", at + "/kept")
        os.symlink(self.path("canary"), at + "/1")
        self.daemon.client().call("ResumeAll")
        self.assertIn(c.wait(n), ("failed", "partial"))
        self.assertTrue(any("no longer what it was" in str(p) for p in c.problems(n)), c.problems(n))
        self.assertTrue(os.path.exists(at + "/kept"))
        self.daemon.stop()

    def test_11_the_jobs_directory_replaced(self):
        self.own("mine")
        c = self.daemon.client(USER)
        self.daemon.client().call("PauseAll")
        n = c.submit(self.path("mine"))
        top = os.path.join(self.root, ".reclaim", str(USER))
        (job,) = os.listdir(top)
        os.rename(os.path.join(top, job), os.path.join(top, "aside"))
        os.symlink(self.path("canary"), os.path.join(top, job))
        self.daemon.client().call("ResumeAll")
        self.assertEqual(c.wait_state(n, "paused"), "paused")
        os.unlink(os.path.join(top, job))
        with user():
            os.mkdir(os.path.join(top, job), 0o700)
            write(os.path.join(top, job, "1"))
        c.call("Resume", "at", [n])
        self.assertEqual(c.wait_state(n, "paused"), "paused")
        self.assertTrue(os.path.exists(os.path.join(top, job, "1")))
        # After a crash it is no other.
        self.daemon.kill()
        self.daemon.start()
        self.assertTrue(os.path.exists(os.path.join(top, job, "1")))
        self.assertTrue(os.path.exists(os.path.join(top, "aside", "1")))


if __name__ == "__main__":
    unittest.main()
