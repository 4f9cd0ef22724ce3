#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Other programs and people that remove, rename or replace staged data."""
import os
import shutil
import signal

import daemon_fixture
import fixture
from dbuswire import Error
from fixture import write

HOUR = 3600 * 1000 * 1000
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Case(daemon_fixture.Case):
    def setUp(self):
        super().setUp()
        self.client = self.daemon.client()
        self.reclaim = os.path.join(self.root, ".reclaim")
        self.own = os.path.join(self.reclaim, "0")

    def staged(self, number, *name):
        return os.path.join(self.own, self.client.get(number, "Uuid").replace("-", ""), *name)

    def held(self, *names):
        for name in names:
            write(self.path(name), name)
        return self.client.submit(*[self.path(name) for name in names], undo_usec=HOUR)

    def again(self, change):
        """Makes the change while no daemon runs."""
        self.daemon.stop()
        change()
        self.daemon.start()
        self.client = self.daemon.client()

    def take_back(self, verb, number):
        if verb == "Cancel":
            self.client.call("Cancel", "at", [number])
        else:
            self.client.call("Restore", "ta{sv}", number, {})

    def problems_of(self, number):
        """The first about each name."""
        return {os.path.relpath(p[0].decode(), self.data): p[1] for p in reversed(self.client.problems(number))}

    def there(self):
        return sorted(os.listdir(self.data))

    def assert_lost(self, verb, number, *lost, back=()):
        with self.assertRaises(Error) as e:
            self.take_back(verb, number)
        self.assertEqual(e.exception.name, "NoSuchPath", e.exception.text)
        self.assertNotIn("--to", e.exception.text)
        for name in lost:
            self.assertIn(self.path(name), e.exception.text)
        self.assertIn("%d of %d name" % (len(lost), len(lost) + len(back)), e.exception.text)
        job = self.client.job(number)
        self.assertEqual((job["state"], job["freed"], job["done"]), ("failed", 0, 0))
        self.assertIn("lost", job["message"])
        self.assertEqual(set(self.problems_of(number)), set(lost))
        self.assertEqual(self.there(), sorted(back))
        for name in back:
            with open(self.path(name)) as f:
                self.assertEqual(f.read(), name)


class Restored(Case):
    """What restore and cancel report when staged data are gone."""

    def both(self):
        """Each verb, also when the daemon was down meanwhile."""
        for verb in ("Restore", "Cancel"):
            for down in (False, True):
                yield verb, lambda change, down=down: self.again(change) if down else change()

    def test_attack_55_all_of_reclaim(self):
        for verb, do in self.both():
            n = self.held("a", "b")
            do(lambda: shutil.rmtree(self.reclaim))
            self.assert_lost(verb, n, "a", "b")

    def test_attack_55_directory_of_the_user(self):
        n = self.held("a")
        shutil.rmtree(self.own)
        self.assert_lost("Restore", n, "a")

    def test_attack_55_directory_of_the_job(self):
        for verb, do in self.both():
            n, other = self.held("a", "b"), self.held("c")
            staged = self.staged(n)
            do(lambda staged=staged: shutil.rmtree(staged))
            self.assert_lost(verb, n, "a", "b")
            self.take_back(verb, other)
            self.assertEqual(self.there(), ["c"])
            os.unlink(self.path("c"))

    def test_attack_55_some_of_its_names(self):
        for verb, do in self.both():
            n = self.held("a", "b", "c")
            staged = self.staged(n, "2")
            do(lambda staged=staged: os.unlink(staged))
            self.assert_lost(verb, n, "b", back=("a", "c"))
            for name in ("a", "c"):
                os.unlink(self.path(name))

    def test_attack_55_staging_has_another_name(self):
        """Nobody can find out that the data are there still."""
        for verb, do in self.both():
            n = self.held("a")
            do(lambda: os.rename(self.reclaim, self.path("elsewhere")))
            with self.assertRaises(Error):
                self.take_back(verb, n)
            self.assertEqual(self.client.job(n)["state"], "failed")
            shutil.rmtree(self.path("elsewhere"))

    def test_attack_55_replaced(self):
        """A name is lost if another file has its number, which stays where it is."""
        for verb, do in self.both():
            n = self.held("a", "b")
            staged = self.staged(n, "1")

            def replace(staged=staged):
                write(staged + ".new", "another")
                os.rename(staged + ".new", staged)

            do(replace)
            self.assert_lost(verb, n, "a", back=("b",))
            with open(staged) as f:
                self.assertEqual(f.read(), "another")
            os.unlink(self.path("b"))

    def test_attack_55_where_it_was_is_gone_too(self):
        os.mkdir(self.path("d"))
        n = self.held("d/a")
        os.rmdir(self.path("d"))
        shutil.rmtree(self.staged(n))
        with self.assertRaises(Error) as e:
            self.take_back("Restore", n)
        self.assertEqual(e.exception.name, "NoSuchPath", e.exception.text)
        self.assertEqual(self.client.job(n)["state"], "failed")

    def test_attack_55_into_another_directory(self):
        """--to= does not help, and is not advised."""
        n = self.held("a")
        os.mkdir(self.path("to"))
        os.unlink(self.staged(n, "1"))
        fd = os.open(self.path("to"), os.O_PATH)
        with self.assertRaises(Error) as e:
            self.client.call("Restore", "ta{sv}", n, {"directory": ("h", 0)}, fds=[fd])
        os.close(fd)
        self.assertNotIn("--to", e.exception.text)
        self.assertEqual(self.client.job(n)["state"], "failed")

    def test_attack_55_some_are_lost_and_some_in_the_way(self):
        """The job stays as long as something of it can go back, and then reports what is lost once."""
        n = self.held("a", "b")
        os.unlink(self.staged(n, "1"))
        write(self.path("b"), "another")
        with self.assertRaises(Error) as e:
            self.take_back("Restore", n)
        self.assertIn("--to", e.exception.text)
        self.assertIn("lost: " + self.path("a"), e.exception.text)
        self.assertEqual(self.client.job(n)["state"], "held")
        os.unlink(self.path("b"))
        with self.assertRaises(Error) as e:
            self.take_back("Restore", n)
        self.assertEqual(self.client.job(n)["state"], "failed")
        self.assertEqual(self.there(), ["b"])
        self.assertEqual([p[1] for p in self.client.problems(n) if p[0].decode() == self.path("a")],
                         ["is lost: another process removed it from the staging area"])

    def test_attack_55_lost_and_there_again(self):
        n = self.held("a", "b")
        os.rename(self.staged(n, "1"), self.path("saved"))
        write(self.path("b"), "another")
        with self.assertRaises(Error):
            self.take_back("Restore", n)
        os.rename(self.path("saved"), self.staged(n, "1"))
        os.unlink(self.path("b"))
        self.take_back("Restore", n)
        self.assertEqual(self.client.job(n)["state"], "restored")
        self.assertEqual(self.there(), ["a", "b"])

    def test_attack_55_another_filesystem(self):
        """Nothing is lost if another filesystem is mounted over it."""
        n = self.held("a")
        fixture.command("mount", "-t", "tmpfs", "none", self.root)
        with self.assertRaises(Error) as e:
            self.take_back("Restore", n)
        self.assertNotIn("--to", e.exception.text)
        self.assertEqual(self.client.job(n)["state"], "held")
        fixture.command("umount", self.root)
        self.take_back("Restore", n)
        self.assertEqual(self.there(), ["a"])

    def test_crash_before_it_was_recorded(self):
        """A name that is back is not lost."""
        n = self.held("a", "b")
        os.rename(self.staged(n, "1"), self.path("a"))
        self.take_back("Restore", n)
        self.assertEqual(self.client.job(n)["state"], "restored")
        self.assertEqual(self.there(), ["a", "b"])

    def test_cancelled_after_a_crash(self):
        """What a run has deleted, and could not record, is not lost."""
        c = self.daemon.again_with_gate("unlink:2")
        for name in ("a", "b", "c"):
            write(self.path(name), name)
        n = c.submit(*[self.path(name) for name in ("a", "b", "c")])
        worker = self.daemon.stopped_worker()
        self.daemon.kill()
        os.kill(worker, signal.SIGKILL)
        # Nothing runs at any time.
        self.daemon.configure("pacing: {windows: {Mon..Sun: {rate: paused}}}\n")
        self.daemon.start()
        self.client = self.daemon.client()
        self.assertEqual(sorted(os.listdir(self.staged(n))), ["2", "3"])
        self.take_back("Cancel", n)
        self.assertEqual(self.client.wait(n), "cancelled")
        self.assertEqual(self.there(), ["b", "c"])
        self.assertEqual(self.client.problems(n), [])


class Due(Case):
    """What a job reports that is to delete what is gone."""

    def waiting(self, *names):
        self.client.call("PauseAll")
        for name in names:
            write(self.path(name), name)
        return self.client.submit(*[self.path(name) for name in names])

    def assert_gone(self, n, gone, names, done):
        self.client.call("ResumeAll")
        self.assertEqual(self.client.wait(n), "done", self.daemon.said())
        job = self.client.job(n)
        self.assertIn("%d of %d name" % (gone, names), job["message"])
        self.assertIn("already gone", job["message"])
        self.assertNotIn("interruption", job["message"])
        self.assertEqual(job["done"], done)
        self.assertEqual(job["freed"] > 0, done > 0)

    def test_attack_56_all_of_reclaim(self):
        n = self.waiting("a", "b")
        shutil.rmtree(self.reclaim)
        self.assert_gone(n, 2, 2, 0)

    def test_attack_56_while_the_daemon_was_down(self):
        n = self.waiting("a", "b")
        self.again(lambda: shutil.rmtree(self.reclaim))
        self.assert_gone(n, 2, 2, 0)

    def test_attack_56_directory_of_the_job(self):
        n = self.waiting("a", "b")
        shutil.rmtree(self.staged(n))
        self.assert_gone(n, 2, 2, 0)

    def test_attack_56_one_name(self):
        n = self.waiting("a", "b", "c")
        os.unlink(self.staged(n, "2"))
        self.assert_gone(n, 1, 3, 2)

    def test_attack_56_replaced(self):
        n = self.waiting("a", "b")
        staged = self.staged(n, "1")
        write(staged + ".new", "another")
        os.rename(staged + ".new", staged)
        self.client.call("ResumeAll")
        self.assertEqual(self.client.wait(n), "partial")
        self.assertEqual(self.client.job(n)["done"], 1)
        self.assertIn("no longer what it was", self.problems_of(n)["a"])
        with open(staged) as f:
            self.assertEqual(f.read(), "another")

    def test_attack_56_another_filesystem(self):
        """It waits for its own."""
        n = self.waiting("a")
        fixture.command("mount", "-t", "tmpfs", "none", self.root)
        self.client.call("ResumeAll")
        self.until(lambda: self.client.job(n)["message"].startswith("waits: "))
        fixture.command("umount", self.root)
        self.assertEqual(self.client.wait(n), "done")
        self.assertEqual(self.client.job(n)["message"], "")



class Tmpfiles(daemon_fixture.Case):
    """The systemd-tmpfiles of this machine, with the file that is installed, in a tree of its own."""

    def setUp(self):
        super().setUp()
        if not shutil.which("systemd-tmpfiles"):
            self.skipTest("no systemd-tmpfiles")
        # As /tmp is: a mount of its own.
        self.tree = os.path.join(self.daemon.dir, "tree")
        self.rules = os.path.join(self.tree, "usr/lib/tmpfiles.d")
        os.makedirs(self.rules)
        for name in ("tmp", "var/tmp"):
            os.makedirs(os.path.join(self.tree, name))
        self.data = os.path.join(self.tree, "tmp")
        fixture.attach("tmpfs", self.data, "mode=1777")
        self.addCleanup(fixture.detach, self.data)
        self.canary = os.path.join(self.data, "old")

    def clean(self, shipped):
        """As when all of it is too old. Something else is there, which goes."""
        write(os.path.join(self.rules, "tmp.conf"), "d /tmp 1777 0 0 0\nd /var/tmp 1777 0 0 0\n")
        if shipped:
            shutil.copy(os.path.join(TOP, "systemd/tmpfiles.d/reclaimd.conf"), self.rules)
        write(self.canary)
        fixture.command("systemd-tmpfiles", "--root=" + self.tree, "--clean")
        self.assertFalse(os.path.exists(self.canary))

    def held(self):
        """A job that is held, while no daemon runs."""
        os.makedirs(self.path("t/in"))
        write(self.path("t/in/a"), "content")
        n = self.daemon.client().submit(self.path("t"), undo_usec=HOUR)
        self.daemon.stop()
        return n

    def test_attack_58_shipped_rules(self):
        n = self.held()
        self.clean(shipped=True)
        self.daemon.start()
        self.daemon.client().call("Restore", "ta{sv}", n, {})
        with open(self.path("t/in/a")) as f:
            self.assertEqual(f.read(), "content")

    def test_attack_58_without_them(self):
        """All is removed, so the test above shows something."""
        n = self.held()
        self.clean(shipped=False)
        self.daemon.start()
        with self.assertRaises(Error):
            self.daemon.client().call("Restore", "ta{sv}", n, {})

    def test_attack_58_in_use(self):
        """What the rules do not mention is locked while the daemon uses it."""
        c = self.daemon.again_with_gate("stage:b")
        for name in ("a", "b"):
            write(self.path(name), name)
        fd = os.open(self.data, os.O_PATH)
        serial = c.send("SubmitFiles", "aha(uay)a{sv}", [0], [(0, b"a"), (0, b"b")],
                        daemon_fixture.described({"undo_usec": HOUR}), fds=[fd])
        os.close(fd)
        worker = self.daemon.stopped_worker()
        self.clean(shipped=False)
        os.kill(worker, signal.SIGCONT)
        n = c.answer(serial).body[0]
        c.call("Restore", "ta{sv}", n, {})
        self.assertEqual(sorted(x for x in os.listdir(self.data) if x != ".reclaim"), ["a"])


if __name__ == "__main__":
    fixture.main()
