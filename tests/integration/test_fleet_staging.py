#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hosts of a fleet on one filesystem: each stages in its own part of .reclaim, finds its jobs again whatever
the configuration says by then, and takes no other host's for orphans. A daemon stands for a host."""
import contextlib
import itertools
import os
import signal
import sqlite3
import stat

import contents
import daemon_fixture
import dbuswire
import fixture
from daemon_fixture import user
from fixture import USER, build, command, listing, write

HOUR = 3600 * 1000 * 1000
EMPTY = "0" * 32


def is_withdrawn(mark):
    """Says the mark of a job that no other host is to delete in it, or is it not there any more?"""
    try:
        return os.listdir(mark) == ["mark=0"]
    except FileNotFoundError:
        return True


def fleet(host, *mounts):
    return 'fleet:\n  database: "host=/nowhere"\n  name: %s\n  filesystems: {%s}\n' % (
        host, ", ".join('"%s": shared%d' % (mount, i) for i, mount in enumerate(mounts)))


class Case(daemon_fixture.Case):
    """The first host is called a."""

    def setUp(self):
        super().setUp()
        self.top = os.path.join(self.root, ".reclaim")
        self.second = daemon_fixture.Daemon()
        self.addCleanup(self.second_stops)
        self.called("a")

    def second_stops(self):
        if self.second.process:
            self.assertEqual(self.second.stop(), 0, self.second.said())

    def called(self, host, daemon=None):
        """From its next life on; None: it is in no fleet."""
        daemon = daemon or self.daemon
        if daemon.process:
            daemon.stop()
        daemon.configure(fleet(host, self.root) if host else "")
        daemon.start()
        return daemon

    def held(self, name, daemon=None, uid=0):
        write(self.path(name))
        if uid:
            os.chown(self.path(name), uid, uid)
        c = (daemon or self.daemon).client(uid)
        return c, c.submit(self.path(name), undo_usec=HOUR)

    def part(self, host):
        return os.path.join(self.top, "@" + host) if host else self.top

    def make_top(self):
        """A host that joins makes it, too."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.top, 0o711)

    def staged_in(self, host, uid=0):
        at = os.path.join(self.part(host), str(uid))
        return sorted(os.listdir(at)) if os.path.isdir(at) else []


class Part(Case):
    def test_is_roots_and_its_users(self):
        c, n = self.held("mine")
        self.assertEqual(self.staged_in("a"), [c.get(n, "Uuid").replace("-", "")])
        self.assertEqual(c.get(n, "Inplace"), "")
        self.assertEqual(c.get(n, "Staging"), os.path.join(self.part("a"), "0", self.staged_in("a")[0]).encode())
        os.chmod(self.data, 0o1777)
        self.held("users", uid=USER)
        self.assertEqual(set(os.listdir(self.top)) - {"id"}, {"@a"})
        self.assertEqual(sorted(os.listdir(self.part("a"))), ["0", str(USER), "lock"])
        for path, uid, mode in ((self.top, 0, 0o711), (self.part("a"), 0, 0o711),
                                (os.path.join(self.part("a"), str(USER)), USER, 0o700)):
            st = os.stat(path)
            self.assertEqual((st.st_uid, stat.S_IMODE(st.st_mode)), (uid, mode), path)
        with user():
            for path in (self.part("b"), os.path.join(self.part("a"), "0"), os.path.join(self.part("a"), "@b")):
                with self.assertRaises(PermissionError):
                    os.mkdir(os.path.join(path, "x") if os.path.isdir(path) else path)
        c.call("Restore", "ta{sv}", n, {})
        self.assertEqual(listing(self.data), ["mine"])

    def test_deletes(self):
        build(self.data, "dir/a/b\ndir/c\nstays")
        c = self.daemon.client()
        self.assertEqual(c.wait(c.submit(self.path("dir"))), "done", self.daemon.said())
        self.daemon.wait_gone(os.path.join(self.part("a"), "0", "x"))
        self.until(lambda: self.staged_in("a") == [])
        self.assertEqual(listing(self.data), ["stays"])

    def test_only_on_its_filesystems(self):
        self.mount_disk()
        write(self.path("file"))
        c = self.daemon.client()
        n = c.submit(self.path("file"), undo_usec=HOUR)
        self.assertEqual(os.listdir(os.path.join(self.data, ".reclaim", "0")), [c.get(n, "Uuid").replace("-", "")])
        c.call("Restore", "ta{sv}", n, {})

    def test_is_protected(self):
        """By every name, for root, too."""
        c, n = self.held("mine")
        before = contents.fingerprint(os.fsencode(self.top))
        other = os.path.join(self.daemon.dir, "other")
        os.mkdir(other)
        command("mount", "--bind", self.part("a"), other)
        self.addCleanup(fixture.unmount, other)
        job = self.staged_in("a")[0]
        for path in (self.top, self.part("a"), os.path.join(self.part("a"), "0"), os.path.join(self.part("a"), "lock"),
                     os.path.join(self.part("a"), "0", job), os.path.join(self.part("a"), "0", job, "1"),
                     os.path.join(other, "0"), os.path.join(other, "0", job)):
            with self.assertRaises(dbuswire.Error) as e:
                c.submit(path)
            self.assertIn("belongs to reclaimd itself", e.exception.text, path)
        self.assertEqual(contents.fingerprint(os.fsencode(self.top)), before)
        c.call("Restore", "ta{sv}", n, {})

    def in_place(self, name):
        c, n = self.held(name)
        self.assertIn("no staging area on this mount", c.get(n, "Inplace"), name)
        c.call("Cancel", "at", [n])
        os.unlink(self.path(name))

    def test_of_another_is_not_used(self):
        """What is called so is believed only if it is as root would have made it."""
        at = self.part("a")
        self.make_top()
        os.mkdir(os.path.join(self.data, "elsewhere"), 0o711)
        os.symlink(os.path.join(self.data, "elsewhere"), at)
        self.in_place("link")
        os.unlink(at)
        os.mkdir(at)
        os.chmod(at, 0o777)
        self.in_place("mode")
        os.chmod(at, 0o711)
        os.chown(at, USER, USER)
        self.in_place("owner")
        os.chown(at, 0, 0)
        command("mount", "-t", "tmpfs", "-o", "mode=0711", "tmpfs", at)
        self.in_place("mount")
        command("umount", at)
        command("setfacl", "-m", "u:%d:rwx" % USER, at)
        self.in_place("acl")
        command("setfacl", "-b", at)
        os.chmod(at, 0o711)
        self.assertEqual(listing(self.data), ["elsewhere"])
        self.assertEqual(os.listdir(at), [])
        c, n = self.held("mine")
        self.assertEqual(c.get(n, "Inplace"), "")
        c.call("Restore", "ta{sv}", n, {})

    def test_unfinished(self):
        """The machine went down while it was made."""
        self.make_top()
        os.mkdir(self.part("a"), 0)
        c, n = self.held("mine")
        self.assertEqual(c.get(n, "Inplace"), "")
        c.call("Restore", "ta{sv}", n, {})


class Hosts(Case):
    def test_attack_09_hosts_do_not_meet(self):
        self.called("b", self.second)
        for _ in range(3):
            serials = []
            for daemon in (self.daemon, self.second):
                c = daemon.client()
                for k in range(4):
                    name = "%s%d" % ("first" if daemon is self.daemon else "second", k)
                    build(self.data, name + "/x/y")
                    serials.append((c, c.send_submit(self.path(name))))
            for c, serial in serials:
                n = c.answer(serial).body[0]
                self.assertEqual((c.wait(n), c.get(n, "Inplace")), ("done", ""))
            for daemon in (self.daemon, self.second):
                daemon.stop()
                daemon.start()
        for daemon in (self.daemon, self.second):
            self.assertNotIn("of no job", daemon.said())
            self.assertNotIn("another reclaimd", daemon.said())
        self.assertEqual(listing(self.data), [])

    def test_attack_09_no_others_orphans(self):
        """Not of a host that runs, that was killed, or that has left no lock."""
        _, n = self.held("first")
        self.daemon.again_and_looked(os.path.join(self.part("a"), "0"))
        empty = os.path.join(self.part("a"), "0", EMPTY)
        os.mkdir(empty, 0o700)
        before = contents.fingerprint(os.fsencode(self.part("a")))

        def restarts():
            self.called("b", self.second)
            _, m = self.held("second", self.second)
            self.second.client().call("Restore", "ta{sv}", m, {})
            os.unlink(self.path("second"))
            self.assertEqual(self.second.stop(), 0, self.second.said())
            self.assertEqual(contents.fingerprint(os.fsencode(self.part("a"))), before)
            self.assertNotIn("of no job", self.second.said())

        restarts()
        self.daemon.kill()
        restarts()
        lock, aside = os.path.join(self.part("a"), "lock"), os.path.join(self.daemon.dir, "aside")
        command("mv", lock, aside)
        before = contents.fingerprint(os.fsencode(self.part("a")))
        restarts()
        command("mv", aside, lock)
        self.daemon.start()
        self.daemon.client().call("Restore", "ta{sv}", n, {})
        self.assertEqual(listing(self.data), ["first"])
        self.until(lambda: not os.path.exists(empty))  # its own, and of no job

    def test_attack_09_two_of_one_name(self):
        _, n = self.held("first")
        self.called("a", self.second)
        c, m = self.held("second", self.second)
        self.assertIn("another reclaimd has it", c.get(m, "Inplace"))
        self.second.wait_said("is called a in the fleet, too")
        self.assertIn("process %d)" % self.daemon.process.pid, self.second.said())
        self.assertIn("%s/lock" % self.part("a"), self.second.said())
        self.assertNotIn("of no job", self.second.said())
        c.call("Cancel", "at", [m])
        self.daemon.client().call("Restore", "ta{sv}", n, {})
        self.assertEqual(listing(self.data), ["first", "second"])

    def test_attack_09_beside_one_in_no_fleet(self):
        _, n = self.held("first")
        self.called(None, self.second)
        c, m = self.held("second", self.second)
        self.assertEqual(c.get(m, "Inplace"), "")
        self.assertEqual(len(self.staged_in("")), 1)
        for daemon in (self.daemon, self.second):
            daemon.stop()
            daemon.start()
            self.assertNotIn("of no job", daemon.said())
        self.daemon.client().call("Restore", "ta{sv}", n, {})
        self.second.client().call("Restore", "ta{sv}", m, {})
        self.assertEqual(listing(self.data), ["first", "second"])


class Rate(Case):
    def test_of_what_is_not_mounted(self):
        """It holds nowhere, and not on the disk beneath; as soon as it is mounted, it holds."""
        if not fixture.scratch.gates:
            self.skipTest("built without RECLAIM_TEST_GATES")
        below = self.path("below")
        os.mkdir(below)
        self.daemon.stop()
        self.daemon.configure(fleet("a", below).replace("shared0", "{name: shared0, max-rate: 1MiB/s}"))
        self.daemon.start({"RECLAIM_GATE": "unlink:x", "SYSTEMD_LOG_LEVEL": "debug"})
        build(self.data, "tree/x")
        c = self.daemon.client()
        n = c.submit(self.path("tree"))
        worker = self.daemon.stopped_worker()
        self.daemon.wait_said(", at most 0 (0: no limit)")
        command("mount", "--bind", below, below)
        self.addCleanup(fixture.unmount, below)
        self.daemon.wait_said(": at most 1048576 bytes/s (0: no limit) from now on")
        fixture.unmount_when_free(below)
        self.daemon.wait_said(": at most 0 bytes/s (0: no limit) from now on")
        os.kill(worker, signal.SIGCONT)
        self.assertEqual(c.wait(n), "done")


class Marked(Case):
    """A job that other hosts may have parts of, as its mark tells: it is all that the next daemon knows."""

    WAITS = "waits before its names go back"

    def paused(self):
        """A job that has begun to delete; its directory of marks."""
        c = self.daemon.again_with_gate("unlink:x")
        build(self.data, "tree/a/x\ntree/b/y")
        n = c.submit(self.path("tree"))
        worker = self.daemon.stopped_worker()
        serial = c.send("Pause", "at", [n])
        c.jobs()  # which is answered when that was begun with
        os.kill(worker, signal.SIGKILL)
        c.answer(serial)
        self.assertEqual(c.job(n)["state"], "paused")
        self.daemon.stop()
        return n, os.path.join(self.part("a"), "marks", str(n))

    def is_back(self):
        self.assertIn("tree/a/x", listing(self.data))

    def test_names_wait_for_other_hosts(self):
        """Also over a stop and a crash in the midst, which lose nothing."""
        n, mark = self.paused()
        os.makedirs(os.path.join(mark, "mark=1"), 0o700)
        os.chmod(os.path.dirname(mark), 0o700)
        os.chmod(mark, 0o700)
        self.daemon.start()
        self.daemon.client().send("Cancel", "at", [n])
        for times, ends in enumerate((self.daemon.stop, self.daemon.kill), 1):
            self.daemon.wait_said("Job %d %s" % (n, self.WAITS), times)
            self.until(lambda: os.listdir(mark) == ["mark=0"])
            self.assertIn(self.WAITS, self.daemon.client().job(n)["message"])
            ends()
            self.assertEqual(listing(self.data), [])
            self.daemon.start()
        self.assertNotIn("did not come to an end in time", self.daemon.said())
        self.assertEqual(self.daemon.client().wait(n), "cancelled")
        self.is_back()
        self.until(lambda: os.listdir(os.path.dirname(mark)) == [])

    def marked(self, n, mark):
        """What stands for a job that has run with other hosts."""
        os.makedirs(os.path.join(mark, "mark=1"), 0o700)
        os.chmod(os.path.dirname(mark), 0o700)
        os.chmod(mark, 0o700)
        return n

    def test_what_pauses_is_not_shared(self):
        """Also if it has not run since the daemon was started."""
        n, mark = self.paused()
        self.marked(n, mark)
        self.daemon.start()
        c = self.daemon.client()
        self.assertEqual(c.job(n)["state"], "paused")
        self.until(lambda: is_withdrawn(mark))
        # In the queue, where a span of the week lets nothing begin.
        self.daemon.configure(fleet("a", self.root) + 'pacing: {windows: {"00:00..24:00": {rate: paused}}}\n')
        c.call("Reload")
        c.call("Resume", "at", [n])
        for act in (("Pause", "at", [n]), ("PauseAll",)):
            self.kill_marked(n, mark)
            c = self.daemon.client()
            self.assertEqual(c.job(n)["state"], "queued")
            self.assertEqual(os.listdir(mark), ["mark=1"])
            c.call(*act)
            self.until(lambda: is_withdrawn(mark))
            if act[0] == "Pause":
                c.call("Resume", "at", [n])
        # All pauses when it begins.
        self.kill_marked(n, mark)
        self.until(lambda: is_withdrawn(mark))
        c = self.daemon.client()
        self.assertEqual(c.job(n)["state"], "queued")
        c.call("Cancel", "at", [n])
        self.is_back()

    def kill_marked(self, n, mark):
        """The daemon, which then begins with what has a mark."""
        self.daemon.kill()
        with contextlib.suppress(FileNotFoundError):
            fixture.remove(mark)
        self.marked(n, mark)
        self.daemon.start()

    def test_withdrawn_later(self):
        """What cannot be withdrawn when a job pauses is tried again while it does."""
        n, mark = self.paused()
        self.marked(n, mark)
        os.chmod(os.path.dirname(mark), 0o755)
        self.daemon.start({"SYSTEMD_LOG_LEVEL": "debug"})
        self.daemon.wait_said("job %d: its mark cannot be withdrawn: " % n)
        self.assertEqual(os.listdir(mark), ["mark=1"])
        os.chmod(os.path.dirname(mark), 0o700)
        self.until(lambda: is_withdrawn(mark))
        c = self.daemon.client()
        self.assertEqual(c.job(n)["state"], "paused")
        c.call("Cancel", "at", [n])
        self.is_back()

    def test_of_jobs_that_have_ended(self):
        """The daemon was killed after a job had ended, and before its mark was removed."""
        self.called("b", self.second)
        self.held("others", self.second)
        self.second.stop()
        c, n = self.held("mine")
        self.daemon.stop()
        there, gone = "1" * 32, "2" * 32
        build(os.path.join(self.part("a"), "0", there), "1")
        os.mkdir(os.path.join(self.part("a"), "0", EMPTY), 0o700)

        def mark(number, *names, host="a"):
            at = os.path.join(self.part(host), "marks", str(number))
            for path in (at, *(os.path.join(at, name) for name in names)):
                os.makedirs(path, 0o700)
            os.chmod(os.path.dirname(at), 0o700)

        # Whichever way they are listed, the last one that is looked at goes.
        mark(901, "mark=0", "owner=0.0.0", "name=" + gone)
        mark(n, "mark=0", "owner=0.0.0", "name=" + gone)
        mark(902, "mark=0", "owner=0.0.0", "name=" + there)
        mark(903, "mark=0", "owner=0.0.0")
        mark(904)
        mark(905, "mark=1", "owner=0.0.0", "name=" + EMPTY)
        mark(906, "mark=0", "owner=%d.0.0" % USER, "name=" + there)
        mark(901, "mark=0", "owner=0.0.0", "name=" + gone, host="b")
        self.daemon.start()
        self.until(lambda: sorted(os.listdir(os.path.join(self.part("a"), "marks"))) == sorted((str(n), "902", "903")))
        self.assertEqual(os.listdir(os.path.join(self.part("b"), "marks", "901", "mark=0")), [])
        c = self.daemon.client()
        c.call("Restore", "ta{sv}", n, {})
        self.assertIn("mine", listing(self.data))

    def test_without_a_mark_nothing_is_waited_for(self):
        n, _ = self.paused()
        self.daemon.start()
        self.daemon.client().call("Cancel", "at", [n])
        self.is_back()
        self.assertNotIn(self.WAITS, self.daemon.said())

    def test_marks_that_cannot_be_read(self):
        """What is not root's is no mark, and tells nothing: no name goes back."""
        n, mark = self.paused()
        os.mkdir(os.path.dirname(mark), 0o755)
        os.chmod(os.path.dirname(mark), 0o755)
        self.daemon.start()
        c = self.daemon.client()
        with self.assertRaises(dbuswire.Error):
            c.call("Cancel", "at", [n])
        self.assertEqual(c.job(n)["state"], "paused")
        self.assertEqual(listing(self.data), [])
        os.chmod(os.path.dirname(mark), 0o700)
        c.call("Cancel", "at", [n])
        self.is_back()


class Renamed(Case):
    """A host joins a fleet, leaves it, is called otherwise: its jobs go on where they are."""

    ORDERS = tuple(itertools.permutations((None, "a", "b"), 2))

    def begin(self, host, k):
        """One that is held, and one that is queued."""
        build(self.data, "held%d/x\nqueued%d/y/z" % (k, k))
        c = self.daemon.client()
        c.call("PauseAll")
        held = c.submit(self.path("held%d" % k), undo_usec=HOUR)
        queued = c.submit(self.path("queued%d" % k))
        for n in (held, queued):
            self.assertEqual(c.get(n, "Inplace"), "")
            self.assertIn(c.get(n, "Uuid").replace("-", ""), self.staged_in(host))
        return held, queued

    def end(self, host, held, queued, k):
        c = self.daemon.client()
        self.assertEqual(os.path.dirname(os.path.dirname(c.get(held, "Staging"))).decode(), self.part(host))
        self.assertEqual((c.job(held)["state"], c.job(queued)["state"]), ("held", "queued"))
        c.call("ResumeAll")
        self.assertEqual(c.wait(queued), "done", self.daemon.said())
        self.assertEqual(c.get(queued, "Message"), "")
        c.call("Restore", "ta{sv}", held, {})
        self.assertEqual(listing(self.path("held%d" % k)), ["x"])
        self.until(lambda: self.staged_in(host) == [])

    def test_every_order_over_a_restart(self):
        for k, (before, after) in enumerate(self.ORDERS):
            self.called(before)
            held, queued = self.begin(before, k)
            if k % 2:
                self.daemon.kill()
            self.called(after)
            # What comes now is elsewhere, beside it.
            more = self.begin(after, 100 + k)
            self.end(before, held, queued, k)
            self.daemon.client().call("PauseAll")
            self.end_again(after, *more, 100 + k)
        self.assertNotIn("of no job", self.daemon.said())

    def end_again(self, host, held, queued, k):
        """The queued one went on with the others."""
        c = self.daemon.client()
        c.call("ResumeAll")
        self.assertEqual(c.wait(queued), "done", self.daemon.said())
        c.call("Restore", "ta{sv}", held, {})
        self.assertEqual(listing(self.path("held%d" % k)), ["x"])
        self.until(lambda: self.staged_in(host) == [])

    def test_every_order_over_a_reload(self):
        for k, (before, after) in enumerate(self.ORDERS):
            self.called(before)
            held, queued = self.begin(before, k)
            self.daemon.configure(fleet(after, self.root) if after else "")
            c = self.daemon.client()
            c.call("Reload")
            more, _ = self.begin(after, 100 + k)
            c.call("Restore", "ta{sv}", more, {})
            self.end(before, held, queued, k)
        self.assertNotIn("of no job", self.daemon.said())

    def test_every_order_while_names_are_moved(self):
        """Some are in staging, and the record does not say which."""
        for k, (before, after) in enumerate(self.ORDERS):
            self.daemon.configure(fleet(before, self.root) if before else "")
            c = self.daemon.again_with_gate("stage:b")
            build(self.data, "d%d/a\nd%d/b" % (k, k))
            fd = os.open(self.path("d%d" % k), os.O_PATH)
            c.send("SubmitFiles", "aha(uay)a{sv}", [0], [(0, b"a"), (0, b"b")],
                   daemon_fixture.described({"undo_usec": HOUR}), fds=[fd])
            os.close(fd)
            worker = self.daemon.stopped_worker()
            self.assertEqual(listing(self.path("d%d" % k)), ["b"])
            self.daemon.kill()
            os.kill(worker, signal.SIGKILL)
            self.called(after)
            c = self.daemon.client()
            (job,) = c.jobs()
            self.assertEqual(c.wait_state(job["id"], "held"), "held", self.daemon.said())
            c.call("Restore", "ta{sv}", job["id"], {})
            self.assertEqual(listing(self.path("d%d" % k)), ["a", "b"])
            self.until(lambda: self.staged_in(before) == [])
        self.assertNotIn("of no job", self.daemon.said())

    def test_orphans_of_an_earlier_name(self):
        """Told of, because the lock there shows that they are of this state directory."""
        _, n = self.held("mine")
        self.daemon.again_and_looked(os.path.join(self.part("a"), "0"))
        orphan = os.path.join(self.part("a"), "0", "1" * 32)
        build(orphan, "1")
        os.mkdir(os.path.join(self.part("a"), "0", EMPTY), 0o700)
        for host in ("b", None, "a"):
            told = self.daemon.said().count("of no job")
            self.called(host)
            self.daemon.wait_said("of no job", told + 1)
            self.assertIn("%s/0 has 1 directory of no job" % self.part("a"), self.daemon.said())
        self.assertEqual(listing(orphan), ["1"])
        self.assertFalse(os.path.exists(os.path.join(self.part("a"), "0", EMPTY)))
        self.daemon.client().call("Restore", "ta{sv}", n, {})


if __name__ == "__main__":
    fixture.main()
