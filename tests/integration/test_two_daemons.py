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


class Second(Case):
    """Another daemon, with a state directory of its own, where the first has its staging directories."""

    def setUp(self):
        super().setUp()
        self.second = daemon_fixture.Daemon()
        self.addCleanup(self.second_stops)

    def second_stops(self):
        if self.second.process:
            self.assertEqual(self.second.stop(), 0, self.second.said())

    def holder(self):
        (name,) = os.listdir(os.path.join(self.top, "lock"))
        return name

    def held(self):
        """A job of the first, and its directory, empty as it is for moments at its begin and its end."""
        write(self.path("first"))
        c = self.daemon.client()
        n = c.submit(self.path("first"), undo_usec=HOUR)
        return c, n

    def in_place(self, name):
        """Submitted to the second: deleted, but never moved."""
        write(self.path(name))
        c = self.second.client()
        n = c.submit(self.path(name))
        self.assertEqual(c.wait(n), "done", self.second.said())
        self.assertIn("another reclaimd has it", c.get(n, "Inplace"))

    def test_attack_09_second_daemon_works_in_place(self):
        _, n = self.held()
        c = self.daemon.again_and_looked(os.path.join(self.top, "0"))
        # With this the mount is its own again.
        write(self.path("more"))
        more = c.submit(self.path("more"), undo_usec=HOUR)
        empty = os.path.join(self.top, "0", "0" * 32)
        os.mkdir(empty, 0o700)
        self.second.start()
        for name in ("a", "b"):
            self.in_place(name)
        self.assertEqual(self.second.said().count("another reclaimd (on "), 1)
        self.assertIn("process %d)" % self.daemon.process.pid, self.second.said())
        # It has looked for what is of no job, and what is here is none of its own.
        self.assertNotIn("of no job", self.second.said())
        self.assertEqual(sorted(os.listdir(os.path.join(self.top, "0"))),
                         sorted([os.path.basename(empty), *self.jobs_of(c)]))
        for job in (n, more):
            c.call("Restore", "ta{sv}", job, {})
        self.assertEqual([x for x in listing(self.data) if ".reclaim" not in x], ["first", "lost+found", "more"])

    @staticmethod
    def jobs_of(c):
        return [c.get(job["id"], "Uuid").replace("-", "") for job in c.jobs()]

    def test_attack_09_own_lock_after_a_crash(self):
        c, n = self.held()
        before = self.holder()
        self.daemon.kill()
        self.daemon.start()
        c = self.daemon.client()
        write(self.path("more"))
        more = c.submit(self.path("more"), undo_usec=HOUR)
        self.assertEqual(c.get(more, "Inplace"), "")
        self.assertNotEqual(self.holder(), before)
        self.assertEqual(self.holder()[:32], before[:32])
        c.call("Cancel", "at", [n, more])

    def test_attack_09_who_is_gone_has_nothing(self):
        """The second takes over from the first, which has ended; and that one's jobs still go on."""
        _, n = self.held()
        self.daemon.stop()
        self.second.start()
        c = self.second.client()
        write(self.path("a"))
        a = c.submit(self.path("a"), undo_usec=HOUR)
        self.assertEqual(c.get(a, "Inplace"), "")
        self.daemon.start()
        first = self.daemon.client()
        first.call("Restore", "ta{sv}", n, {})
        write(self.path("b"))
        b = first.submit(self.path("b"))
        self.assertEqual(first.wait(b), "done")
        self.assertIn("another reclaimd has it", first.get(b, "Inplace"))
        c.call("Cancel", "at", [a])
        self.assertEqual([x for x in listing(self.data) if ".reclaim" not in x], ["a", "first", "lost+found"])

    def test_attack_09_of_whom_nothing_is_known(self):
        """Another host, another namespace of processes, what cannot be read: in place. An earlier boot of this
        machine, or a process that is another by now: taken over."""
        _, n = self.held()
        self.daemon.stop()
        self.second.start()
        c = self.second.client()
        state, boot, machine, ns, pid, start, host = self.holder().split(".")
        state = "1" * 32
        for k, (fields, free) in enumerate(((("f" * 32, "e" * 32, ns, pid, start, host), False),
                                            (("f" * 32, machine, ns, pid, start, "another"), False),
                                            (("f" * 32, machine, ns, pid, start, host), machine != "0" * 32),
                                            ((boot, machine, "1", pid, start, host), False),
                                            ((boot, machine, ns, str(os.getpid()), "0", host), False),
                                            ((boot, machine, ns, str(os.getpid()), "1", host), True),
                                            (("nonsense",), False))):
            name = ".".join((state, *fields))
            os.rename(os.path.join(self.top, "lock", self.holder()), os.path.join(self.top, "lock", name))
            # The mount is looked at anew by who has no descriptor there.
            self.second.stop()
            self.second.start()
            c = self.second.client()
            write(self.path("file%d" % k))
            job = c.submit(self.path("file%d" % k))
            self.assertEqual(c.wait(job), "done")
            self.assertEqual(c.get(job, "Inplace") == "", free, fields)
            self.assertEqual(self.holder() != name, free, fields)
        self.daemon.start()
        self.daemon.client().call("Restore", "ta{sv}", n, {})

    def test_attack_57_lock_removed(self):
        """It is taken again before the second can take it; and if that was quicker, the second has it."""
        c, n = self.held()
        lock = os.path.join(self.top, "lock")
        shutil.rmtree(lock)
        write(self.path("more"))
        more = c.submit(self.path("more"), undo_usec=HOUR)
        self.second.start()
        self.in_place("a")
        shutil.rmtree(lock)
        write(self.path("theirs"))
        theirs = self.second.client().submit(self.path("theirs"), undo_usec=HOUR)
        self.assertEqual(self.second.clients[-1].get(theirs, "Inplace"), "")
        write(self.path("b"))
        b = c.submit(self.path("b"))
        self.assertEqual(c.wait(b), "done")
        self.assertIn("another reclaimd has it", c.get(b, "Inplace"))
        self.assertEqual(self.daemon.said().count("another reclaimd (on "), 1)
        for job in (n, more):
            c.call("Restore", "ta{sv}", job, {})
        self.second.clients[-1].call("Restore", "ta{sv}", theirs, {})
        self.assertEqual([x for x in listing(self.data) if ".reclaim" not in x],
                         ["first", "lost+found", "more", "theirs"])

    def test_attack_09_unmounts(self):
        """The lock keeps nothing busy."""
        _, n = self.held()
        fixture.unmount_when_free(self.data)
        command("mount", "-o", "loop", os.path.join(self.daemon.dir, "image"), self.data)
        self.daemon.client().call("Restore", "ta{sv}", n, {})

    def test_attack_09_both_at_once(self):
        """However they come: one has it, the other works in place, and all is gone."""
        self.second.start()
        for k in range(12):
            names = ["a%d" % k, "b%d" % k]
            for name in names:
                write(self.path(name))
            shutil.rmtree(self.top, ignore_errors=True)
            clients = [self.daemon.client(), self.second.client()]
            serials = [c.send_submit(self.path(name)) for c, name in zip(clients, names)]
            for c, serial in zip(clients, serials):
                c.wait(c.answer(serial).body[0])
            for daemon in (self.daemon, self.second):
                daemon.stop()
                daemon.start()
            self.assertEqual([x for x in listing(self.data) if ".reclaim" not in x], ["lost+found"])


if __name__ == "__main__":
    fixture.main()
