#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Two daemons, each with a state directory of its own, on one filesystem; and what another process does
in staging."""
import os
import shutil
import signal

import daemon_fixture
import fixture
from fixture import build, command, listing, write

HOUR = 3600 * 1000 * 1000


class Case(daemon_fixture.Case):
    def setUp(self):
        super().setUp()
        self.mount_disk()
        self.top = self.path(".reclaim")

    def job_dir(self):
        at = os.path.join(self.top, "0")
        (job,) = os.listdir(at)
        return os.path.join(at, job)


class Removed(Case):
    """The job's directory is removed by another process, at each stage."""

    def submitted(self):
        c = self.daemon.client()
        c.call("PauseAll")
        build(self.data, "dir/a\ndir/b/c\ndir/stays")
        n = c.submit(self.path("dir", "a"), self.path("dir", "b"))
        return c, n

    def go_on(self, c, n):
        c.call("ResumeAll")
        return c.wait_state(n, "paused")

    def test_attack_09_with_all_that_was_in_it(self):
        """Nothing is left to be done, which is certain: the job is done, and says what it found."""
        c, n = self.submitted()
        shutil.rmtree(self.job_dir())
        self.assertEqual(self.go_on(c, n), "done", self.daemon.said())
        self.assertIn("is not there any more; nothing of it is left", c.get(n, "Message"))
        self.assertEqual(listing(self.path("dir")), ["stays"])

    def test_attack_09_after_a_restart(self):
        c, n = self.submitted()
        self.daemon.kill()
        shutil.rmtree(self.job_dir())
        self.daemon.start()
        self.assertEqual(self.go_on(self.daemon.client(), n), "done", self.daemon.said())

    def test_attack_09_another_has_the_name(self):
        """What has come to a name since is not the job's: it stays."""
        c, n = self.submitted()
        shutil.rmtree(self.job_dir())
        write(self.path("dir", "a"), "another")
        self.assertEqual(self.go_on(c, n), "done", self.daemon.said())
        self.assertEqual(listing(self.path("dir")), ["a", "stays"])

    def test_attack_09_it_is_only_called_otherwise(self):
        """It is there, with all that is in it: in doubt."""
        c, n = self.submitted()
        job = self.job_dir()
        os.rename(job, job + ".saved")
        self.assertEqual(self.go_on(c, n), "paused")
        self.assertEqual(listing(job + ".saved"), ["1", "2", "2/c"])

    def test_attack_09_where_the_names_were_is_gone_too(self):
        """Whether this is the filesystem that they were on cannot be told: in doubt."""
        c, n = self.submitted()
        shutil.rmtree(self.job_dir())
        os.rename(self.path("dir"), self.path("elsewhere"))
        self.assertEqual(self.go_on(c, n), "paused")
        os.rename(self.path("elsewhere"), self.path("dir"))
        c.call("Resume", "at", [n])
        self.assertEqual(c.wait(n), "done")

    def removed_at(self, gate):
        """While a worker stands there."""
        c = self.daemon.again_with_gate(gate)
        build(self.data, "dir/a\ndir/stays")
        serial = c.send_submit(self.path("dir", "a"))
        return c, serial, self.daemon.stopped_worker()

    def test_attack_09_before_anything_is_moved(self):
        c, serial, worker = self.removed_at("stage:a")
        os.rmdir(self.job_dir())
        os.kill(worker, signal.SIGCONT)
        n = c.answer(serial).body[0]
        self.assertEqual(c.wait(n), "done", self.daemon.said())
        self.assertEqual(listing(self.path("dir")), ["stays"])

    def test_attack_09_before_it_is_flushed(self):
        """All of it was deleted, and the daemon is killed: it does not know."""
        c, serial, worker = self.removed_at("flush:jobs")
        n = c.answer(serial).body[0]
        os.rmdir(self.job_dir())
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.daemon.client().wait(n), "done", self.daemon.said())
        self.assertEqual(listing(self.path("dir")), ["stays"])

    def test_attack_09_when_it_is_empty(self):
        c, serial, worker = self.removed_at("flush:jobs")
        n = c.answer(serial).body[0]
        os.rmdir(self.job_dir())
        os.kill(worker, signal.SIGCONT)
        self.assertEqual(c.wait(n), "done", self.daemon.said())


if __name__ == "__main__":
    fixture.main()
