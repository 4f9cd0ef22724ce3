#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The life of jobs in a real reclaimd."""
import itertools
import os
import subprocess
import time
import unittest
from xml.etree import ElementTree

import fixture
from daemon_fixture import FIELDS, FINISHED, Case, user
from dbuswire import Error, unpacked
from fixture import FULL, USER, Canary, build, fill, write

HOUR = 3600 * 1000000
NOBODY = 65534


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

    def test_caller_says_what_a_tree_takes(self):
        """It is taken where the daemon does not know; of files it does."""
        c = self.daemon.client()
        fill(self.path("t"), 3)
        write(self.path("a"), "x" * 5000)
        taken = os.stat(self.path("a")).st_blocks * 512
        for name, said, known in (("t", 12345, 12345), ("a", 12345, taken)):
            n = c.submit(self.path(name), undo_usec=HOUR, bytes=said)
            self.assertEqual(c.get(n, "Bytes"), known)
        os.mkdir(self.path("u"))
        self.assertEqual(c.get(c.submit(self.path("u"), undo_usec=HOUR, bytes=2**64 - 1), "Bytes"), 2**63 - 1)
        os.mkdir(self.path("v"))
        self.assertEqual(c.get(c.submit(self.path("v"), undo_usec=HOUR), "Bytes"), 0)

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
        self.assertIn(self.path("a") + ": something else is in its place; it is held as before", e.exception.text)
        self.assertEqual(c.job(n)["state"], "held")
        self.assertIn("could not be put back", c.get(n, "Message"))
        # What is held no longer is not deleted right after a client wanted it back.
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

    def test_history_and_queue_are_one_list(self):
        """What waits is in memory, what has finished in the store: from whatever number on, also after a
        restart."""
        c = self.daemon.client()
        for n in range(1, 8):
            write(self.path("f%d" % n))
            self.assertEqual(c.submit(self.path("f%d" % n), undo_usec=0 if n in (1, 2, 4) else HOUR), n)
            if n in (1, 2, 4):
                self.assertEqual(c.wait(n), "done")
        for again in (False, True):
            if again:
                self.daemon.stop()
                c = self.daemon.start().client()
            for since in range(9):
                with self.subTest(again=again, since=since):
                    query = {"finished": ("b", True), "since-id": ("t", since)}
                    found = c.call("ListJobs", "a{sv}", query).body[0]
                    packed = unpacked(c.call("ListJobsPacked", "a{sv}", query))
                    self.assertEqual([(j[0], j[1]) for j in found], [
                        (n, "done" if n in (1, 2, 4) else "held") for n in range(max(since, 1), 8)])
                    self.assertEqual(packed, [tuple(j) for j in found])

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

    def test_submit_reports_size(self):
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

    def test_submit_rejects_file_of_another_user(self):
        os.chmod(self.data, 0o755)
        os.chown(self.data, 0, 0)
        canary = Canary(self.path("t"))
        c = self.daemon.client(USER)
        with self.assertRaises(Error) as e:
            c.submit(self.path("t"))
        self.assertEqual(e.exception.name, "NotAuthorized")
        canary.check()
        self.assertEqual(c.jobs(finished=True), [])

    def test_submit_leaves_content_of_another_user(self):
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

    def test_job_of_another_user_is_hidden(self):
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


class Unmounting(Case):
    def test_held_job_lets_its_filesystem_be_unmounted(self):
        """And what is mounted there instead is not taken for it."""
        self.mount_disk()
        image = os.path.join(self.daemon.dir, "image")
        canary = Canary(self.path("tree"))
        c = self.daemon.client()
        n = c.submit(self.path("tree"), undo_usec=HOUR)
        staged = os.fsdecode(c.get(n, "Staging"))
        began = time.monotonic()
        fixture.unmount_when_free(self.data)
        # It took ten seconds and more as long as workers were kept for that long.
        self.assertLess(time.monotonic() - began, 9)
        fixture.command("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", self.data)
        for path, mode in ((".reclaim", 0o711), (".reclaim/0", 0o700), (staged[len(self.data) + 1:], 0o700)):
            os.mkdir(self.path(path), mode)
            os.chmod(self.path(path), mode)
        decoy = Canary(os.path.join(staged, "1"))
        with self.assertRaises(Error):
            c.call("Restore", "ta{sv}", n, {})
        decoy.check()
        self.assertFalse(os.path.exists(self.path("tree")))
        self.assertEqual(c.job(n)["state"], "held")
        fixture.unmount_when_free(self.data)
        fixture.command("mount", "-o", "loop", image, self.data)
        c.call("Restore", "ta{sv}", n, {})
        self.assertEqual(c.job(n)["state"], "restored")
        canary.check()


class Spools(Case):
    def setUp(self):
        super().setUp()
        # Not below /tmp, where every user may write: it would not be known who submits.
        fixture.command("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/mnt")
        self.addCleanup(fixture.command, "umount", "-l", "/mnt")
        self.data = "/mnt"
        self.spool = self.path("trash")
        self.daemon.configure("spools: {%s: {settle: 100ms, undo: 0s}}\n" % self.spool)
        self.client = self.daemon.client()
        self.client.call("Reload")

    def test_spool_deletes_what_is_moved_in(self):
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

    def test_introspection_tree_is_finite(self):
        paths = ["/"]
        for path in paths:
            text = self.client.call("Introspect", path=path,
                                    interface="org.freedesktop.DBus.Introspectable").body[0]
            self.assertLess(len(paths), 20, paths)
            paths += [os.path.join(path, n.get("name"))
                      for n in ElementTree.fromstring(text).findall("node")]
        self.assertIn("/org/reclaimd1/spool/_2fmnt_2ftrash", paths)

    def test_introspection_shows_jobs_to_those_who_may_see_them(self):
        def tree(client):
            text = client.call("Introspect", path="/org/reclaimd1/job",
                               interface="org.freedesktop.DBus.Introspectable").body[0]
            return [n.get("name") for n in ElementTree.fromstring(text).findall("node")]

        for name in ("a", "b"):
            write(self.path(name))
        os.chown(self.path("b"), USER, USER)
        os.chown(self.data, USER, USER)
        other = self.daemon.client(USER)
        roots = self.client.submit(self.path("a"), undo_usec=HOUR)
        theirs = other.submit(self.path("b"), undo_usec=HOUR)
        self.assertEqual(tree(self.client), [str(roots), str(theirs)])
        self.assertEqual(tree(other), [str(theirs)])
        self.client.call("Restore", "ta{sv}", theirs, {})
        self.assertEqual(tree(other), [])

    def settled(self):
        """Whatever was due in the spool before has been taken."""
        write(self.path("marker"))
        os.rename(self.path("marker"), os.path.join(self.spool, "marker"))
        self.daemon.wait_gone(os.path.join(self.spool, "marker"))

    def restored(self):
        """A tree that a job has had from the spool, and that is back."""
        self.daemon.configure("spools: {%s: {settle: 100ms, undo: 1h}}\n" % self.spool)
        self.client.call("Reload")
        canary = Canary(self.path("canary"))
        os.mkdir(self.spool, 0o700)
        os.rename(self.path("canary"), os.path.join(self.spool, "canary"))
        job = self.client.signal("JobNew").body[0]
        self.assertEqual(self.client.job(job)["state"], "held")
        self.client.call("Restore", "ta{sv}", job, {})
        canary.path = os.fsencode(os.path.join(self.spool, "canary"))
        return canary

    def test_what_is_restored_to_a_spool_stays(self):
        canary = self.restored()
        self.settled()
        canary.check()
        self.client.call("Reload")
        self.settled()
        canary.check()
        # Neither memory nor the name tell of it then.
        os.rename(canary.path, canary.path + b"2")
        os.rename(canary.path + b"2", canary.path)
        self.daemon.wait_gone(canary.path)

    def test_what_was_restored_to_a_spool_stays_after_a_restart(self):
        canary = self.restored()
        self.daemon.stop()
        self.daemon.start()
        self.client = self.daemon.client()
        self.settled()
        canary.check()
        os.utime(canary.path)
        self.daemon.wait_gone(canary.path)

    def test_what_a_spool_cannot_delete_is_not_tried_for_ever(self):
        canary = Canary(self.path("tree", "canary"))
        write(self.path("tree", "mine"))
        os.mkdir(self.spool, 0o700)
        for path in (self.path("tree"), self.spool):
            os.chown(path, NOBODY, NOBODY)
        os.rename(self.path("tree"), os.path.join(self.spool, "tree"))
        self.assertEqual(self.client.signal("JobFinished").body[2], "partial")
        canary.path = os.fsencode(os.path.join(self.spool, "tree", "canary"))
        canary.check()
        self.settled()
        self.assertEqual(self.client.signal("JobFinished").body[2], "done")
        self.assertEqual([j["state"] for j in self.client.jobs(finished=True)], ["partial", "done"])
        canary.check()
        # Nothing of it can go any more.
        self.client.call("Reload")
        self.assertEqual(self.client.signal("JobFinished").body[2], "failed")
        canary.check()

    def test_spool_makes_one_job_of_many_names(self):
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


class Hurry(Case):
    """At the pace that is configured each of these jobs takes minutes, and in a hurry longer than the
    half second within which it is told how its device is treated."""

    config = "pacing: {max-rate: 1MiB/s, min-rate: 64KiB/s}\nurgent: {below: 20%, until: 30%}\n"
    ENTRIES = 100000

    def setUp(self):
        super().setUp()
        self.mount_disk(size=512 << 20, inodes=150000)
        fill(self.path("t"), self.ENTRIES)
        self.client = self.daemon.client()

    def mode(self):
        devices = self.client.call("ListDevices").body[0]
        return devices[0][1] if devices else None

    def check_at_pace(self, number):
        """It goes on for longer than it takes to see that something is short."""
        # What devices do is asked twice a second, and told as it was then.
        self.until(lambda: self.mode() != "urgent" or self.client.job(number)["state"] in FINISHED)
        for _ in range(25):
            time.sleep(0.1)
            self.assertEqual(self.client.wait_state(number, "running"), "running")
            self.assertNotEqual(self.mode(), "urgent")
        self.client.call("Cancel", "at", [number])
        self.assertEqual(self.client.wait(number), "cancelled")

    def check_urgent(self, number):
        modes, began = set(), time.monotonic()

        def seen():
            modes.add(self.mode())
            return "urgent" in modes or self.client.job(number)["state"] not in ("queued", "running")

        self.until(seen)
        self.assertIn("urgent", modes)
        self.assertEqual(self.client.wait(number), "done")
        # At its pace it takes several times as long.
        self.assertLess(time.monotonic() - began, 60)

    def test_deadline_makes_job_urgent(self):
        self.check_at_pace(self.client.submit(self.path("t")))
        number = self.client.submit(self.path("t"), deadline_usec=int((time.time() + 1) * 1000000))
        self.client.wait_state(number, "running")
        said = self.until(lambda: self.client.get(number, "Message"))
        self.assertRegex(said, "cannot be done in time|speed goes before latency|is late")
        self.check_urgent(number)

    def test_deadline_of_running_job_is_changed(self):
        """It counts at once, and so does that there is none any more."""
        number = self.client.submit(self.path("t"))
        self.client.wait_state(number, "running")
        self.client.call("SetDeadline", "att", [number], int((time.time() + 1) * 1000000))
        self.until(lambda: self.mode() == "urgent" or self.client.job(number)["state"] != "running")
        self.assertEqual(self.mode(), "urgent")
        self.assertGreater(self.client.get(number, "DeadlineUSec"), 0)
        self.client.call("SetDeadline", "t", 0, path="/org/reclaimd1/job/%d" % number, interface="org.reclaimd1.Job")
        self.assertEqual(self.client.get(number, "Message"), "")
        self.check_at_pace(number)

    def test_low_space_makes_job_urgent(self):
        filler = self.path("filler")
        free = os.statvfs(self.data)
        with open(filler, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, free.f_bavail * free.f_frsize * 7 // 8)
        self.check_urgent(self.client.submit(self.path("t")))
        os.unlink(filler)
        fill(self.path("t"), self.ENTRIES)
        self.check_at_pace(self.client.submit(self.path("t")))


class Progress(Case):
    config = "pacing: {max-rate: 16MiB/s, min-rate: 1MiB/s}\n"
    SIZE = 96 * fixture.MIB

    def setUp(self):
        super().setUp()
        self.mount_disk(size=400 * fixture.MIB, options="loop,nodiscard")
        with open(self.path("big"), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, self.SIZE)
            self.bytes = os.fstat(f.fileno()).st_blocks * 512

    def lines(self, c, n):
        """What a subscriber is told of a job until it has ended."""
        told = []
        while not told or told[-1]["finished"] == 0:
            told += [dict(zip(FIELDS, j)) for j in c.signal("JobsChanged").body[0] if j[0] == n]
        return told

    def test_progress_is_told_to_subscriber(self):
        """How far a job is, how fast it gets on, and when it will have ended; seldom enough; without a question."""
        c, began, moment = self.daemon.client(), time.monotonic(), time.time() * 1e6
        c.call("Subscribe")
        n = c.submit(self.path("big"))
        told = self.lines(c, n)
        took = time.monotonic() - began
        self.assertEqual([state for state, _ in itertools.groupby(j["state"] for j in told)][-2:], ["running", "done"])
        running = [j for j in told if j["state"] == "running"]
        midst = [j for j in running if 0 < j["freed"] < self.SIZE // 2]
        self.assertTrue(midst, running)
        self.assertEqual([j["freed"] for j in midst], sorted(j["freed"] for j in midst))
        for j in midst:
            self.assertEqual(j["bytes"], self.bytes)
            self.assertGreater(j["rate"], 0)
            self.assertGreater(j["expected_end"], moment)
            self.assertLess(j["expected_end"], time.time() * 1e6 + 3600e6)
        self.assertEqual((told[-1]["freed"], told[-1]["rate"], told[-1]["expected_end"]), (self.bytes, 0, 0))
        self.assertEqual(c.get(n, "ProgressBytes"), self.bytes)
        self.assertEqual(c.get(n, "ProgressEntries"), 1)
        # At most two a second of progress, and one for each state.
        changed = [m for m in c.signals if m.member == "PropertiesChanged" and m.path.endswith("/job/%d" % n)]
        self.assertLess(len(changed), 2 * took + 8)
        self.assertLess(len(running), 2 * took + 8)

    def test_paused_job_has_no_rate(self):
        c = self.daemon.client()
        n = c.submit(self.path("big"))
        self.until(lambda: c.get(n, "Rate") > 0 and c.get(n, "ExpectedEndUSec") > 0)
        self.assertEqual(c.job(n)["state"], "running")
        c.call("Pause", "at", [n])
        self.assertEqual((c.get(n, "Rate"), c.get(n, "EntriesRate"), c.get(n, "ExpectedEndUSec")), (0, 0, 0))
        self.assertGreater(c.get(n, "ProgressBytes"), 0)
        c.call("Resume", "at", [n])
        self.until(lambda: c.get(n, "Rate") > 0)


class Renumbered(Case):
    def test_job_survives_renumbered_disk(self):
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
        fixture.unmount_when_free(self.data)
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


if __name__ == "__main__":
    unittest.main()
