#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What breaks beneath a real reclaimd: the faults that tests/safety-list names, by number. After each of them
what must live lives, and every job that was acknowledged is done, goes on, or says why not."""
import array
import contextlib
import fcntl
import glob
import os
import re
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time

import dbuswire
import fixture
from contents import fingerprint
from daemon_fixture import FINISHED, Case, described, user
from dbuswire import Error
from fixture import FULL, TIMEOUT, USER, Canary, build, command, fill, scratch, write

SECOND = 1000000
HOUR = 3600 * SECOND
TEN_YEARS = 10 * 365 * 24 * HOUR
SHUTDOWN = 0x8004587d  # EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN: as if the device were gone


class Faults(Case):
    def setUp(self):
        super().setUp()
        self.canary = Canary(self.path("canary"))

    def finish(self):
        self.canary.check()
        super().finish()

    def again(self):
        self.daemon.kill()
        self.daemon.start()
        return self.daemon.client()

    def disk(self, options="loop,nodiscard"):
        """A small ext4 of its own, with a directory for data; its root."""
        image, at = os.path.join(self.daemon.dir, "image"), os.path.join(self.daemon.dir, "disk")
        with open(image, "wb") as f:
            f.truncate(400 << 20)
        command("mkfs.ext4", "-q", "-F", image)
        os.mkdir(at)
        command("mount", "-o", options, image, at)
        self.addCleanup(subprocess.run, ["umount", "-l", at], stderr=subprocess.DEVNULL, check=False)
        self.image, self.data = image, os.path.join(at, "data")
        os.mkdir(self.data)
        return at

    def others_go_on(self, client):
        write(os.path.join(self.root, "other"))
        self.assertEqual(client.wait(client.submit(os.path.join(self.root, "other"))), "done")


def changed_nsec(path):
    """0: it is not there."""
    try:
        return os.lstat(path).st_ctime_ns
    except FileNotFoundError:
        return 0


def stat_of(pid):
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rsplit(")", 1)[1].split()[0]


class Killed(Faults):
    GATES = ("staging:get", "stage:t", "opened:d", "descend:d", "unlink:x", "shrink:step")

    def at_gate(self, gate):
        """Submits a tree with a large file, and stops on the way. The serial, and who stands there."""
        c = self.daemon.again_with_gate(gate)
        build(self.data, "t/d/a\nt/e/x")
        with open(self.path("t", "d", "large"), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, 256 << 20)
        return c, c.send_submit(self.path("t")), self.daemon.stopped_worker()

    @contextlib.contextmanager
    def let_go_on(self):
        """Those that come after stand at the same gate, if they come there at all."""
        over = threading.Event()

        def every_now_and_then():
            while not over.wait(0.02):
                for worker in self.daemon.workers():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGCONT)

        thread = threading.Thread(target=every_now_and_then)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def check_done(self, c):
        """Nothing is lost between here and there."""
        for job in c.jobs():
            self.assertEqual(c.wait(job["id"]), "done", self.daemon.said())
        if os.path.exists(self.path("t")):
            self.assertEqual(fixture.listing(self.path("t")), ["d", "d/a", "d/large", "e", "e/x"])
            fixture.remove(self.path("t"))

    def test_fault_01_worker_at_every_step(self):
        self.disk()
        for gate in self.GATES:
            c, serial, worker = self.at_gate(gate)
            os.kill(worker, signal.SIGKILL)
            with self.let_go_on():
                self.assertEqual(c.wait(c.answer(serial).body[0]), "done", (gate, self.daemon.said()))
            self.assertFalse(os.path.exists(self.path("t")), gate)
        self.assertEqual(self.staged(), [])

    def test_fault_01_daemon_at_every_step(self):
        self.disk()
        for gate in self.GATES:
            self.at_gate(gate)
            self.check_done(self.again())
        self.assertEqual(self.staged(), [])

    def test_fault_01_no_worker_outlives_the_daemon(self):
        """Not even one that hears nothing: it stands at its gate when the daemon is killed."""
        self.disk()
        for gate in ("stage:t", "unlink:x"):
            _, _, worker = self.at_gate(gate)
            pidfd = os.pidfd_open(worker)
            try:
                self.daemon.kill()
                self.assertTrue(select.select([pidfd], [], [], TIMEOUT)[0], gate)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                os.close(pidfd)
            self.check_done(self.again())

    def stop_at(self, phase, do):
        """The daemon stops where a job enters this phase (src/daemon/jobs/job-life.c), and is killed there."""
        self.daemon.stop()
        self.daemon.start(env={"RECLAIM_GATE": "life:" + phase})
        c = self.daemon.client()
        do(c)
        self.until(lambda: stat_of(self.daemon.process.pid) == "T", lambda: (phase, self.daemon.said()))
        self.daemon.kill()
        return self.again()

    def test_fault_01_daemon_at_each_phase_of_a_jobs_life(self):
        """It ends as it would have: deleted where nothing else was asked for, else back in its place."""
        def submit(c):
            c.send_submit(self.path("t"))

        def hold(c):
            c.send_submit(self.path("t"), undo_usec=HOUR)

        def asked(what):
            def do(c):
                n = c.submit(self.path("t"), undo_usec=HOUR)
                c.send(what, "ta{sv}" if what == "Restore" else "at", *((n, {}) if what == "Restore" else ([n],)))
            return do

        for phase, do, left in (
                ("moving", submit, None), ("queued", submit, None), ("running", submit, None),
                ("leaving", submit, None), ("done", submit, None), ("held", hold, ["held"]),
                # Not on record yet, so not asked for; the caller has not been answered.
                ("paused", asked("Pause"), ["held"]), ("returning", asked("Cancel"), ["held"]),
                ("cancelled", asked("Cancel"), []), ("restored", asked("Restore"), [])):
            build(self.data, "t/a\nt/d/x")
            c = self.stop_at(phase, do)
            self.until(lambda: [job["state"] for job in c.jobs()] == (left or []),
                       lambda: (phase, c.jobs(), self.daemon.said()))
            if left:
                c.call("Cancel", "at", [job["id"] for job in c.jobs()])
            if left is None:
                self.assertFalse(os.path.exists(self.path("t")), phase)
            else:
                self.assertEqual(fixture.listing(self.path("t")), ["a", "d", "d/x"], phase)
                fixture.remove(self.path("t"))
            self.canary.check()
        self.assertEqual(self.staged(), [])

    def test_fault_02_between_rename_and_record(self):
        for name in "ab":
            write(self.path(name), name)
        c = self.daemon.again_with_gate("stage:b")
        fd = os.open(self.data, os.O_PATH)
        c.send("SubmitFiles", "aha(uay)a{sv}", [0], [(0, b"a"), (0, b"b")], {}, fds=[fd])
        os.close(fd)
        self.daemon.stopped_worker()
        self.assertEqual([os.path.exists(self.path(n)) for n in "ab"], [False, True])
        c = self.again()
        for job in c.jobs():
            self.assertEqual(c.wait(job["id"]), "done")
        # Both, or neither.
        self.assertEqual(len({os.path.exists(self.path(n)) for n in "ab"}), 1)
        self.assertEqual(self.staged(), [])


class Store(Faults):
    def test_fault_06_rolled_back(self):
        """What the older record says of names that are back, or were never heard of."""
        for name in ("a", "b"):
            write(self.path(name))
        build(self.data, "later/kept")
        c = self.daemon.client()
        back, gone = (c.submit(self.path(n), undo_usec=HOUR) for n in "ab")
        self.daemon.stop()
        shutil.copytree(self.daemon.state, self.daemon.dir + "/older")
        self.daemon.start()
        c = self.daemon.client()
        c.call("Restore", "ta{sv}", back, {})
        later = c.submit(self.path("later"), undo_usec=HOUR)
        self.daemon.stop()
        shutil.rmtree(self.daemon.state)
        os.rename(self.daemon.dir + "/older", self.daemon.state)
        self.daemon.start()
        c = self.daemon.client()
        self.assertEqual([c.job(n)["state"] for n in (back, gone)], ["held", "held"])
        self.daemon.wait_said("of no job that is on record")
        # The number is given a second time; what lies there under it stays.
        write(self.path("new"))
        again = c.submit(self.path("new"))
        self.assertEqual(again, later)
        self.assertEqual(c.wait(again), "done")
        with contextlib.suppress(Error):
            c.call("Restore", "ta{sv}", back, {})
        c.call("Restore", "ta{sv}", gone, {})
        self.assertEqual(fixture.listing(self.data)[:2], ["a", "b"])
        # An empty one may be left of a job that ends just now.
        left = [fixture.listing(os.path.join(self.root, ".reclaim", d)) for d in self.staged()]
        self.assertEqual([found for found in left if found], [["1", "1/kept"]])


class Disks(Faults):
    config = "pacing: {latency: off}\n"  # whose measuring keeps a file open there

    def running(self):
        """A job on a disk of its own that stands still before its first unlink."""
        at = self.disk()
        c = self.daemon.again_with_gate("unlink:f00000")
        fill(self.path("t"), 1)
        build(self.data, "t/d/x\nt/d/y")
        n = c.submit(self.path("t"))
        return at, c, n, self.daemon.stopped_worker()

    def test_fault_09_no_more_commits_before_the_flush(self):
        """What is unlinked will be there again; the filesystem just says that it is read-only."""
        at = self.disk("loop,nodiscard,errors=remount-ro")
        c = self.daemon.again_with_gate("shrink:step")
        with open(self.path("t"), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, 256 << 20)
        fixture.sync(at)
        n = c.submit(self.path("t"))
        worker = self.daemon.stopped_worker()
        source = command("findmnt", "-no", "SOURCE", at).strip()
        write("/sys/fs/ext4/%s/trigger_fs_error" % os.path.basename(source), "1")
        os.kill(worker, signal.SIGCONT)
        self.until(lambda: "ead-only" in c.get(n, "Message") or c.job(n)["state"] in FINISHED)
        self.assertNotIn(c.job(n)["state"], FINISHED)
        command("umount", "-l", at)
        self.others_go_on(c)

    def test_fault_10_read_only_remount(self):
        at, c, n, worker = self.running()
        command("mount", "-o", "remount,ro", at)
        os.kill(worker, signal.SIGCONT)
        self.assertIn(c.wait_state(n, "queued", "paused"), ("partial", "failed", "queued", "paused"))
        self.assertIn("ead-only", str(c.problems(n)) + c.get(n, "Message"))
        self.others_go_on(c)
        command("mount", "-o", "remount,rw", at)

    def test_attack_24_read_only_remount_and_back(self):
        """With staging on it, and what was put there by another job that waits: nothing is lost, and with
        the filesystem writable again both come to their ends."""
        at, c, n, worker = self.running()
        build(self.data, "held/a\nheld/b")
        before = fingerprint(self.path("held"))
        held = c.submit(self.path("held"), undo_usec=HOUR)
        write(self.path("late"))
        command("mount", "-o", "remount,ro", at)
        os.kill(worker, signal.SIGCONT)
        state = c.wait_state(n, "queued", "paused")
        self.assertIn(state, ("partial", "failed", "queued", "paused"))
        self.assertIn("ead-only", str(c.problems(n)) + c.get(n, "Message"))
        with self.assertRaises(Error):
            c.call("Restore", "ta{sv}", held, {})
        # What is accepted meanwhile waits, or says why not; it stays where it is.
        with contextlib.suppress(Error):
            late = c.submit(self.path("late"))
            self.assertNotEqual(c.wait_state(late, "queued", "paused"), "done")
        self.assertTrue(os.path.exists(self.path("late")))
        self.others_go_on(c)
        self.daemon.kill()
        self.daemon.start()
        c = self.daemon.client()
        self.assertIn(c.job(held)["state"], ("held", "paused"))
        command("mount", "-o", "remount,rw", at)
        c.call("Restore", "ta{sv}", held, {})
        self.assertEqual(fingerprint(self.path("held")), before)
        # What could not go on is in its place, or goes on when it is told to.
        if state not in FINISHED:
            c.call("Resume", "at", [n])
            self.assertEqual(c.wait(n), "done", self.daemon.said())
            self.assertFalse(os.path.exists(self.path("t")))

    def test_attack_24_the_state_directory_turns_read_only(self):
        """An error of its disk does that. What was accepted goes on, nothing new is accepted, and after a
        restart with the disk as it should be nothing is lost."""
        self.daemon.stop()
        image = os.path.join(self.daemon.dir, "state.image")
        with open(image, "wb") as f:
            f.truncate(16 << 20)
        command("mkfs.ext4", "-q", "-F", image)
        options = ("mount", "-o", "loop,errors=remount-ro", image, self.daemon.state)
        command(*options)
        self.addCleanup(subprocess.run, ["umount", "-l", self.daemon.state], stderr=subprocess.DEVNULL,
                        check=False)
        os.chmod(self.daemon.state, 0o700)
        c = self.daemon.again_with_gate("unlink:x")
        build(self.data, "t/x\nheld/a\nnew")
        held = c.submit(self.path("held"), undo_usec=HOUR)
        n = c.submit(self.path("t"))
        worker = self.daemon.stopped_worker()
        source = command("findmnt", "-no", "SOURCE", self.daemon.state).strip()
        write("/sys/fs/ext4/%s/trigger_fs_error" % os.path.basename(source), "1")
        os.kill(worker, signal.SIGCONT)
        with self.assertRaises(Error) as e:
            c.submit(self.path("new"))
        self.assertIn(self.daemon.state, e.exception.text)
        self.daemon.wait_gone(self.path("t"))
        self.assertTrue(os.path.exists(self.path("new")))
        self.daemon.kill()
        fixture.unmount_when_free(self.daemon.state)
        subprocess.run(["e2fsck", "-fp", image], stdout=subprocess.DEVNULL, check=False)
        command(*options)
        self.daemon.start()
        c = self.daemon.client()
        self.assertEqual(c.wait(n), "done", self.daemon.said())
        c.call("Restore", "ta{sv}", held, {})
        self.assertTrue(os.path.exists(self.path("held", "a")))
        self.assertEqual(c.wait(c.submit(self.path("new"))), "done")
        self.daemon.stop()

    def test_fault_11_device_gone(self):
        at, c, n, worker = self.running()
        fd = os.open(at, os.O_RDONLY)
        fcntl.ioctl(fd, SHUTDOWN, (2).to_bytes(4, "little"))
        os.close(fd)
        os.kill(worker, signal.SIGCONT)
        self.assertIn(c.wait_state(n, "queued", "paused"), ("partial", "failed", "queued", "paused"))
        self.assertTrue(c.problems(n) or c.get(n, "Message"))
        self.others_go_on(c)

    def test_fault_12_unmount_in_mid_job(self):
        at, c, n, worker = self.running()
        write(self.path("held"))
        held = c.submit(self.path("held"), undo_usec=HOUR)
        serial = c.send("Pause", "at", [n])
        os.kill(worker, signal.SIGCONT)
        c.answer(serial)
        self.assertEqual(c.wait_state(n, "paused"), "paused")
        fixture.unmount_when_free(at)
        self.others_go_on(c)
        command("mount", "-o", "loop,nodiscard", self.image, at)
        c.call("Resume", "at", [n])
        # Another worker comes to the gate, unless the first was past it before it was told to stop.
        def done():
            for other in filter(fixture.is_stopped, self.daemon.workers()):
                os.kill(other, signal.SIGCONT)
            return c.job(n)["state"] == "done"

        self.until(done)
        c.call("Restore", "ta{sv}", held, {})
        self.assertTrue(os.path.exists(self.path("held")))

    def test_fault_13_another_filesystem_on_resume(self):
        at = self.disk()
        build(self.data, "t/a")
        c = self.daemon.client()
        c.call("PauseAll")
        n = c.submit(self.path("t"))
        (job,) = os.listdir(os.path.join(at, ".reclaim/0"))
        self.daemon.stop()
        fixture.unmount_when_free(at)
        command("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", at)
        self.addCleanup(command, "umount", "-l", at)
        build(at, ".reclaim/0/%s/1/precious" % job)
        for directory in (".reclaim/0", ".reclaim/0/" + job):
            os.chmod(os.path.join(at, directory), 0o700)
        before = fingerprint(at)
        self.daemon.start()
        c = self.daemon.client()
        c.call("ResumeAll")
        c.wait_state(n, "paused", "failed", "queued")
        self.others_go_on(c)
        self.assertNotIn(c.job(n)["state"], ("done", "running"))
        self.assertTrue(c.get(n, "Message") or c.problems(n))
        self.assertEqual(fingerprint(at), before)

    def test_fault_13_another_filesystem_when_names_go_back(self):
        """It has staging, too; what is not in that is not back yet."""
        at = self.disk()
        canary = Canary(self.path("t"))
        c = self.daemon.client()
        n = c.submit(self.path("t"), undo_usec=HOUR)
        fixture.unmount_when_free(at)
        command("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", at)
        write(os.path.join(at, "x"))
        self.assertEqual(c.wait(c.submit(os.path.join(at, "x"))), "done")
        for call in (("Restore", "ta{sv}", n, {}), ("Cancel", "at", [n])):
            with self.assertRaisesRegex(Error, "could not be put back"):
                c.call(*call)
        self.assertEqual(c.job(n)["state"], "held")
        fixture.unmount_when_free(at)
        command("mount", "-o", "loop,nodiscard", self.image, at)
        c.call("Restore", "ta{sv}", n, {})
        canary.check()

    def test_fault_13_another_filesystem_after_a_crash_in_mid_submit(self):
        """Its staging, if it has one, does not tell that nothing was moved."""
        c = self.daemon.again_with_gate("staged:t")
        at = self.disk()
        canary = Canary(self.path("t"))
        c.send_submit(self.path("t"), undo_usec=HOUR)
        worker = self.daemon.stopped_worker()
        self.daemon.kill()
        os.kill(worker, signal.SIGKILL)
        self.assertFalse(os.path.exists(self.path("t")))
        fixture.unmount_when_free(at)
        for modes in ((), ((".reclaim", 0o711), (".reclaim/0", 0o700))):
            if self.daemon.process.poll() is None:
                self.daemon.stop()
                fixture.unmount_when_free(at)
            command("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", at)
            for directory, mode in modes:
                os.mkdir(os.path.join(at, directory))
                os.chmod(os.path.join(at, directory), mode)
            self.daemon.start()
            c = self.daemon.client()
            (job,) = c.jobs()
            self.until(lambda c=c, n=job["id"]: c.job(n)["state"] != "accepted" or c.get(n, "Message"))
            self.assertEqual(c.job(job["id"])["state"], "accepted")
            self.assertIn("another filesystem seems to be mounted there", c.get(job["id"], "Message"))
            self.others_go_on(c)
        fixture.unmount_when_free(at)
        command("mount", "-o", "loop,nodiscard", self.image, at)
        self.assertEqual(c.wait_state(job["id"], "held"), "held")
        self.assertEqual(c.get(job["id"], "Inplace"), "")
        c.call("Restore", "ta{sv}", job["id"], {})
        canary.check()

    def test_fault_01_nothing_moved_and_its_directory_gone(self):
        """The filesystem itself tells then that it is the one."""
        c = self.daemon.again_with_gate("stage:t")
        at = self.disk()
        build(self.data, "d/t")
        c.send_submit(self.path("d", "t"))
        worker = self.daemon.stopped_worker()
        self.daemon.kill()
        os.kill(worker, signal.SIGKILL)
        shutil.rmtree(self.path("d"))
        staging = os.path.join(at, ".reclaim", "0")
        for name in os.listdir(staging):
            os.rmdir(os.path.join(staging, name))
        self.daemon.start()
        c = self.daemon.client()
        for job in c.jobs():
            self.assertIn(c.wait(job["id"]), ("done", "failed"))


class Power(Faults):
    """The store is on another disk than what is deleted, and had its record flushed."""
    config = "pacing: {latency: off}\n"

    def staged_on_a_disk(self, *before):
        """A job that waits, on a disk where all that was done since is not durable yet."""
        self.at = self.disk()
        build(self.data, "t/d/x\nt/y")
        c = self.daemon.client()
        for name in before:
            write(self.path(name))
            self.assertEqual(c.wait(c.submit(self.path(name))), "done")
        fixture.sync(self.at)
        c.call("PauseAll")
        n = c.submit(self.path("t"))
        self.assertFalse(os.path.exists(self.path("t")))
        self.daemon.stop()
        return n

    def lose_power(self):
        fd = os.open(self.at, os.O_RDONLY)
        fcntl.ioctl(fd, SHUTDOWN, (2).to_bytes(4, "little"))
        os.close(fd)
        fixture.unmount_when_free(self.at)
        command("mount", "-o", "loop,nodiscard", self.image, self.at)

    def start_again(self):
        self.daemon.start()
        return self.daemon.client()

    def resumed(self):
        c = self.start_again()
        c.call("ResumeAll")
        return c

    def test_fault_03_a_rename_is_lost(self):
        """The name is where it was, and neither the job's directory nor staging is there."""
        n = self.staged_on_a_disk()
        self.lose_power()
        self.assertTrue(os.path.exists(self.path("t")), "was durable after all")
        self.assertEqual(self.resumed().wait(n), "done")
        self.assertEqual(os.listdir(self.data), [])

    def test_fault_03_a_rename_is_lost_and_staging_is_not(self):
        n = self.staged_on_a_disk("before")
        self.lose_power()
        self.assertTrue(os.path.exists(self.path("t")), "was durable after all")
        self.assertEqual(self.resumed().wait(n), "done")
        self.assertEqual(os.listdir(self.data), [])

    def test_fault_03_a_rename_is_lost_and_the_name_asked_for(self):
        """What was asked for back is not deleted where it is when its time is over."""
        n = self.staged_on_a_disk()
        self.lose_power()
        c = self.start_again()
        with contextlib.suppress(Error):
            c.call("Restore", "ta{sv}", n, {})
        c.call("ResumeAll")
        self.assertIn(c.wait_state(n, "paused"), ("paused", "restored"))
        self.assertEqual(fixture.listing(self.path("t")), ["d", "d/x", "y"])

    def test_fault_03_what_is_done_is_done(self):
        self.at = self.disk()
        build(self.data, "t/d/x\nt/y")
        fixture.sync(self.at)
        c = self.daemon.client()
        self.assertEqual(c.wait(c.submit(self.path("t"))), "done")
        self.daemon.stop()
        self.lose_power()
        self.assertEqual(os.listdir(self.data), [])
        self.assertEqual([f for _, _, files in os.walk(self.at + "/.reclaim") for f in files], [])

    def test_fault_03_what_is_missing_stays_so(self):
        """Another process removed it: it is on record as gone, and not only in memory."""
        n = self.staged_on_a_disk()
        fixture.sync(self.at)
        (job,) = glob.glob(self.at + "/.reclaim/0/*")
        shutil.rmtree(job + "/1")
        self.assertEqual(self.resumed().wait(n), "done")
        self.daemon.stop()
        self.lose_power()
        self.assertEqual([f for _, _, files in os.walk(self.at + "/.reclaim") for f in files], [])

    def test_fault_03_what_was_fetched_from_staging_is_kept(self):
        """Who was moved is not taken for who never was, nor for gone."""
        n = self.staged_on_a_disk()
        (job,) = glob.glob(self.at + "/.reclaim/0/*")
        os.rename(job + "/1", self.path("t"))
        before = fingerprint(self.path("t"))
        c = self.resumed()
        self.assertEqual(c.wait_state(n, "paused"), "failed")
        self.assertIn("was moved or changed since", str(c.problems(n)))
        self.others_go_on(c)
        self.assertEqual(fingerprint(self.path("t")), before)


class Descriptors(Faults):
    def test_fault_15_none_left(self):
        """More connections than there are descriptors for: who is in goes on, or is told; the others
        wait until there is room."""
        self.daemon.stop()
        words = self.daemon.words()
        self.daemon.words = lambda: ["prlimit", "--nofile=64:64", *words]
        self.daemon.start()
        c = self.daemon.client()
        c.jobs()
        with contextlib.ExitStack() as stack:
            many = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(100)]
            for s in many:
                s.connect(self.daemon.socket)
            # One is sent away, or they are left waiting.
            self.until(lambda: select.select(many, [], [], 0)[0] or "have to wait" in self.daemon.said())
            write(self.path("a"))
            with contextlib.suppress(Error, OSError):
                c.submit(self.path("a"))
        c = self.patient_client()
        for job in c.jobs():
            self.assertEqual(c.wait(job["id"]), "done")
        self.others_go_on(c)
        self.assertEqual(self.staged(), [])

    def test_44_a_bad_header_leaves_no_descriptors(self):
        """Messages that are dropped without an answer take with them what came with them."""
        good = dbuswire.message(1, {dbuswire.PATH: "/org/reclaimd1", dbuswire.MEMBER: "ListJobs",
                                    dbuswire.INTERFACE: "org.reclaimd1.Manager"}, "a{sv}", {})
        self.daemon.client().jobs()
        before = self.descriptors()
        fds = array.array("i", [os.open("/", os.O_PATH) for _ in range(50)])
        for bad in (good, good.replace(b"a{sv}\0", b"a{s\0\0\0"), good.replace(b"List", b"L.st")):
            for _ in range(20):
                c = self.patient_client()
                with contextlib.suppress(OSError):
                    c.wire.socket.sendmsg([bad], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
                    c.jobs()
                c.close()
        for fd in fds:
            os.close(fd)
        self.until(lambda: self.descriptors() <= before, lambda: "%d, not %d" % (self.descriptors(), before))

    def patient_client(self):
        """Until there is room again."""
        def let_in():
            with contextlib.suppress(OSError):
                c = self.daemon.client()
                c.jobs()
                return c
            return None

        return self.until(let_in)

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.daemon.process.pid))


class Identity(Faults):
    config = "staging: off\n"

    def test_fault_16_inode_number_reused(self):
        self.disk()
        write(self.path("a"))
        number = os.lstat(self.path("a")).st_ino
        c = self.daemon.client()
        c.call("PauseAll")
        n = c.submit(self.path("a"))
        os.unlink(self.path("a"))
        write(self.path("a"), "precious")
        self.assertEqual(os.lstat(self.path("a")).st_ino, number, "ext4 gives the lowest free one")
        c.call("ResumeAll")
        self.assertEqual(c.wait(n), "failed")
        with open(self.path("a"), encoding="ascii") as f:
            self.assertEqual(f.read(), "precious")


class Stopped(Faults):
    def test_attack_07_fault_20_a_submit_whose_worker_has_died(self):
        """The process that moved names is dead, and the one that looks at what became of them has not
        answered, when the daemon is to end."""
        os.chmod(self.data, 0o777)
        names = ["a", "b", "c"]
        with user():
            for name in names:
                write(self.path(name), name)
        self.daemon.again_with_gate("stage:b,staging:list")
        c = self.daemon.client(USER)
        fd = os.open(self.data, os.O_PATH)
        self.addCleanup(os.close, fd)
        c.send("SubmitFiles", "aha(uay)a{sv}", [0], [(0, name.encode()) for name in names], {}, fds=[fd])
        moves = self.daemon.stopped_worker()
        os.kill(moves, signal.SIGKILL)
        self.daemon.stopped_worker(besides=(moves,))
        self.assertEqual(self.daemon.stop(), 0, self.daemon.said())
        self.daemon.start()
        c = self.daemon.client()
        for job in c.jobs():
            self.assertIn(c.wait(job["id"]), FINISHED, self.daemon.said())
        # The caller was not answered: all is where it was.
        self.assertEqual([n for n in fixture.listing(self.data) if n in names], names)


class Clock(Faults):
    def shifted(self, usec):
        """As if the clock had been set while the daemon was down: what is on record lies elsewhere."""
        self.daemon.stop()
        with contextlib.closing(sqlite3.connect(self.daemon.state + "/reclaimd.db")) as db:
            for column in ("created", "held_until", "by_time", "started", "finished"):
                db.execute("UPDATE jobs SET {0} = {0} + ? WHERE {0} > 0".format(column), (usec,))
            db.commit()
        self.daemon.start()
        return self.daemon.client()

    def held(self):
        write(self.path("a"))
        return self.daemon.client().submit(self.path("a"), undo_usec=HOUR)

    def test_fault_17_ten_years_back(self):
        n = self.held()
        c = self.shifted(TEN_YEARS)
        self.assertEqual(c.job(n)["state"], "held")
        self.others_go_on(c)
        c.call("Restore", "ta{sv}", n, {})
        self.assertTrue(os.path.exists(self.path("a")))

    def test_fault_17_ten_years_on(self):
        n = self.held()
        self.assertEqual(self.shifted(-TEN_YEARS).wait(n), "done")
        self.others_go_on(self.daemon.client())


class ClockSet(Faults):
    """The clock is set while the daemon runs; what it reads is moved by a file, as the host's is not
    a test's to set."""

    def setUp(self):
        super().setUp()
        if not scratch.gates:
            self.skipTest("built without RECLAIM_TEST_GATES")
        self.clock = os.path.join(self.daemon.dir, "clock")
        self.set(0)
        self.daemon.stop()
        self.daemon.start(env={"RECLAIM_CLOCK": self.clock})

    def set(self, usec):
        write(self.clock + "-new", str(usec))
        os.rename(self.clock + "-new", self.clock)

    def held_through(self, usec):
        """What is held for an hour is so, and what was held for a moment is done with."""
        c = self.daemon.client()
        write(self.path("a"))
        n = c.submit(self.path("a"), undo_usec=HOUR)
        until = c.job(n)["held_until"]
        write(self.path("b"))
        short = c.submit(self.path("b"), undo_usec=SECOND)
        self.set(usec)
        self.assertEqual(c.wait(short), "done")
        now = c.job(n)
        self.assertEqual(now["state"], "held")
        self.assertAlmostEqual(now["held_until"] - until, usec, delta=5 * SECOND)
        # A submit after it has its own hour; and both are on record.
        write(self.path("c"))
        later = c.submit(self.path("c"), undo_usec=HOUR)
        self.daemon.stop()
        self.daemon.start(env={"RECLAIM_CLOCK": self.clock})
        c = self.daemon.client()
        for number, name in ((n, "a"), (later, "c")):
            self.assertEqual(c.job(number)["state"], "held")
            c.call("Restore", "ta{sv}", number, {})
            self.assertTrue(os.path.exists(self.path(name)))
        self.others_go_on(c)

    def test_fault_17_a_retry_and_a_clock_set_on(self):
        """The clock is set while a worker dies for the third time: a second is waited, as was said."""
        self.disk()
        build(self.data, "tree/x")
        self.daemon.stop()
        self.daemon.start(env={"RECLAIM_GATE": "unlink:x", "RECLAIM_CLOCK": self.clock})
        c = self.daemon.client()
        n = c.submit(self.path("tree"))
        killed = []
        for i in range(3):
            killed.append(self.daemon.stopped_worker(besides=killed))
            if i == 2:
                self.set(TEN_YEARS)
            os.kill(killed[i], signal.SIGKILL)
        self.daemon.wait_said("is tried again at")
        at = re.search(r"is tried again at ([^,]*), in 1\.0s", self.daemon.said())
        at = time.mktime(time.strptime(at.group(1), "%Y-%m-%d %H:%M:%S"))
        self.assertAlmostEqual(at, time.time() + TEN_YEARS / 10**6, delta=TIMEOUT)
        os.kill(self.daemon.stopped_worker(besides=killed), signal.SIGCONT)
        self.assertEqual(c.wait(n), "done", self.daemon.said())

    def test_attack_19_undo_windows_and_a_clock_set_on(self):
        self.held_through(TEN_YEARS)

    def test_attack_19_undo_windows_and_a_clock_set_back(self):
        self.held_through(-TEN_YEARS // 10)

    def test_attack_19_a_submit_that_is_refused_meanwhile(self):
        """Its undo window is moved, and then there is no job any more."""
        self.daemon.stop()
        self.daemon.start(env={"RECLAIM_CLOCK": self.clock, "RECLAIM_GATE": "stage:a"})
        build(self.data, "a\nb\nz")
        c, other = self.daemon.client(), self.daemon.client()
        other.jobs()
        fds = [os.open(self.data, os.O_PATH), os.memfd_create("names")]
        os.write(fds[1], b"a\0b\0")
        serial = c.send("SubmitLists", "a(hh)a{sv}", [(0, 1)], described({"undo_usec": HOUR}), fds=fds)
        for fd in fds:
            os.close(fd)
        worker = self.daemon.stopped_worker()
        # One of the names is another file now: all is refused, and put back.
        os.rename(self.path("b"), self.path("was b"))
        write(self.path("b"))
        moved = os.lstat(self.path("a")).st_ctime_ns
        pid = self.daemon.process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            self.set(-100 * SECOND)
            other.send_submit(self.path("z"))
            os.kill(worker, signal.SIGCONT)
            self.until(lambda: changed_nsec(self.path("a")) > moved)
        finally:
            os.kill(pid, signal.SIGCONT)
        with self.assertRaises(Error) as e:
            c.answer(serial)
        self.assertEqual(e.exception.name, "IdentityChanged")
        self.others_go_on(other)


class Full(Faults):
    COUNT = 100000 if FULL else 300
    config = "limits: {jobs-per-user: %d}\n" % COUNT

    def test_33_a_queue_that_is_full(self):
        os.chmod(self.data, 0o777)
        c = self.daemon.client(USER)
        with user():
            fill(self.path("t"), self.COUNT + 1)
        names = sorted(os.listdir(self.path("t")))
        for name in names[:-1]:
            c.submit(self.path("t", name), undo_usec=HOUR)
        with self.assertRaises(Error) as e:
            c.submit(self.path("t", names[-1]), undo_usec=HOUR)
        self.assertEqual(e.exception.name, "LimitExceeded")
        self.assertEqual(os.listdir(self.path("t")), names[-1:])
        self.others_go_on(self.daemon.client())
        (first,) = c.jobs(limit=1)
        c.call("Cancel", "at", [first["id"]])
        self.assertEqual(c.wait(first["id"]), "cancelled")
        # It counts until that is on record.
        def accepted():
            with contextlib.suppress(Error):
                return c.submit(self.path("t", names[-1]))
            return None

        self.assertEqual(c.wait(self.until(accepted)), "done")


if __name__ == "__main__":
    fixture.main()
