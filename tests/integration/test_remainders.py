#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Jobs that are paused or cancelled in the midst of a large file: the remainder, which has no name
any more, is neither freed at once nor by a daemon that was told to do nothing."""
import contextlib
import glob
import os
import signal
import subprocess
import threading
import time

import fixture
from daemon_fixture import Case, user
from dbuswire import Error
from fixture import MIB, TIMEOUT, USER, command, fill, write

RATE = 16 * MIB
CONFIG = "pacing: {max-rate: 16MiB/s, min-rate: 1MiB/s}\n"
SIZE = 512 * MIB
MOST = 16  # of one user


class Remainders(Case):
    config = CONFIG
    options = "loop,nodiscard"

    def setUp(self):
        super().setUp()
        self.image = os.path.join(self.daemon.dir, "image")
        self.data = os.path.join(self.daemon.dir, "disk")
        os.mkdir(self.data)
        with open(self.image, "wb") as f:
            f.truncate(1600 * MIB)
        command("mkfs.ext4", "-q", "-F", "-N", "60000", self.image)
        command("mount", "-o", self.options, self.image, self.data)
        self.addCleanup(subprocess.run, ["umount", "-l", self.data], stderr=subprocess.DEVNULL, check=False)
        self.client = self.daemon.client()

    def large(self, name="big", size=SIZE):
        with open(self.path(name), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, size)
        return self.path(name)

    def held(self):
        """Of the files without a name that workers have open: the worker, the link to it, and its size."""
        found = []
        for worker in filter(self.has_begun, self.daemon.workers()):
            for link in glob.glob("/proc/%d/fd/*" % worker):
                try:
                    st = os.stat(link)
                    if st.st_nlink == 0 and st.st_dev == os.stat(self.data).st_dev:
                        found.append((worker, link, st.st_blocks * 512))
                except OSError:
                    pass
        return [f for f in found if f[2] >= MIB]

    @staticmethod
    def has_begun(worker):
        """Until then it is a fork of the daemon, with all that this has open."""
        with contextlib.suppress(OSError), open("/proc/%d/comm" % worker, encoding="ascii") as f:
            return f.read() != "reclaimd\n"
        return False

    def free(self):
        s = os.statvfs(self.data)
        return s.f_bfree * s.f_frsize

    def in_the_midst(self, *paths, **options):
        """A job of which part of a large file is freed."""
        n = self.client.submit(*paths or (self.large(),), **options)
        self.until(lambda: self.client.job(n)["freed"] >= 4 * MIB and self.held())
        return n

    def in_the_midst_of_a_user(self):
        os.chown(self.data, USER, USER)
        with user():
            self.large()
        self.client = self.daemon.client(USER)
        n = self.client.submit(self.path("big"))
        self.until(lambda: self.client.job(n)["freed"] >= 4 * MIB)
        return n

    def paused(self, *paths, **options):
        """A job that is paused in the midst of a large file, and what is left of that."""
        n = self.in_the_midst(*paths, **options)
        self.client.call("Pause", "at", [n])
        self.assertEqual(self.client.job(n)["state"], "paused")
        (left,) = self.held()
        self.assertGreater(left[2], SIZE // 2)
        return n, left

    @staticmethod
    def is_at_rest(worker):
        """No thread of it frees anything, nor would if it had a processor."""
        states = set()
        for task in os.listdir("/proc/%d/task" % worker):
            with open("/proc/%d/task/%s/stat" % (worker, task), encoding="ascii") as f:
                states.add(f.read().rsplit(")", 1)[1].split()[0])
        return states == {"S"}

    def settled(self):
        """What is left, once the step that was under way is over: that is not much less."""
        (first,) = now = self.held()

        def still():
            nonlocal now
            before = now
            time.sleep(0.3)  # longer than from one step to the next
            now = self.held()
            return now == before and self.is_at_rest(first[0])
        self.until(still, self.daemon.said)
        (left,) = now
        self.assertLess(first[2] - left[2], RATE * 3)
        return left

    def check_still(self, number, left, state):
        """Nothing of it is freed, and the job says nothing else, for longer than a step takes at its pace."""
        before, free = self.client.job(number), self.free()
        self.assertEqual(before["state"], state)
        time.sleep(1.5)
        self.assertEqual(self.held(), [left])
        self.assertLess(abs(self.free() - free), MIB)
        self.assertEqual(self.client.job(number), before)

    def faster(self):
        self.daemon.configure("")
        self.client.call("Reload")

    def check_goes_on(self, left):
        """At its pace, by the same worker."""
        began = time.monotonic()
        self.until(lambda: any(held[2] < left[2] for held in self.held()))
        (now,) = self.held()
        self.assertEqual(now[:2], left[:2])
        self.assertLess(left[2] - now[2], RATE * (time.monotonic() - began + 2))

    def check_stops_at_once(self):
        """Sooner than the remainder would be freed at its pace."""
        began = time.monotonic()
        self.assertEqual(self.daemon.stop(), 0)
        self.assertLess(time.monotonic() - began, 5)

    def check_ends(self, number, state="done"):
        self.faster()
        self.assertEqual(self.client.wait(number), state, self.daemon.said())
        self.assertEqual(self.held(), [])
        return self.client.job(number)


    def check_waits_and_goes_on(self):
        n, left = self.paused()
        self.check_still(n, left, "paused")
        self.client.call("Resume", "at", [n])
        self.check_goes_on(left)
        self.assertEqual(self.client.job(n)["state"], "running")
        job = self.check_ends(n)
        self.assertEqual(job["done"], 1)
        self.assertGreaterEqual(job["freed"], SIZE)
        self.assertLess(job["freed"], SIZE + MIB)


class HeadFirst(Remainders):
    """Where it is freed from its beginning on."""
    options = "loop,discard"

    def test_pause_keeps_remainder_and_resume_frees_it(self):
        self.check_waits_and_goes_on()


class Pause(Remainders):
    def test_pause_keeps_remainder_and_resume_frees_it(self):
        self.check_waits_and_goes_on()

    def test_pause_keeps_remainder_of_a_user(self):
        n = self.in_the_midst_of_a_user()
        self.client.call("Pause", "at", [n])
        (left,) = self.held()
        self.check_still(n, left, "paused")
        self.client.call("Resume", "at", [n])
        self.check_goes_on(left)
        self.client.call("Cancel", "at", [n])
        self.client.call("Cancel", "at", [n])
        self.assertEqual(self.client.job(n)["state"], "cancelled")

    def test_pause_stops_watching_the_device(self):
        n, left = self.paused()
        self.assertEqual(self.client.call("ListDevices").body[0], [])
        before = self.switches()
        self.check_still(n, left, "paused")
        self.assertLess(self.switches() - before, 30)
        self.client.call("Resume", "at", [n])
        self.check_goes_on(left)
        self.assertEqual(len(self.client.call("ListDevices").body[0]), 1)

    def switches(self):
        """How often any thread of the daemon has waited for something."""
        total = 0
        for path in glob.glob("/proc/%d/task/*/status" % self.daemon.process.pid):
            with open(path) as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith("voluntary"))
        return total

    def test_pause_lets_other_jobs_of_the_device_run(self):
        n, left = self.paused()
        self.client.call("Reload")
        fill(self.path("t"), 20)
        self.assertEqual(self.client.wait(self.client.submit(self.path("t"))), "done")
        self.check_still(n, left, "paused")

    def test_pause_and_resume_repeat(self):
        n, left = self.paused()
        for _ in range(3):
            self.client.call("Resume", "at", [n])
            self.check_goes_on(left)
            self.client.call("Pause", "at", [n])
            left = self.settled()
            self.check_still(n, left, "paused")
        self.client.call("Resume", "at", [n])
        self.assertGreaterEqual(self.check_ends(n)["freed"], SIZE)

    def test_pause_keeps_remainder_in_a_tree(self):
        """What else is in it is deleted afterwards."""
        os.mkdir(self.path("t"))
        fill(self.path("t/small"), 50)
        self.large("t/big")
        n, left = self.paused(self.path("t"))
        self.check_still(n, left, "paused")
        self.client.call("Resume", "at", [n])
        job = self.check_ends(n)
        self.assertEqual(job["done"], job["entries"] or job["done"])
        self.assertGreaterEqual(job["freed"], SIZE)

    def test_pause_keeps_remainder_of_a_job_in_place(self):
        """Of a job whose names stay where they are."""
        self.daemon.configure(CONFIG + "staging: off\n")
        self.client.call("Reload")
        n, left = self.paused()
        self.check_still(n, left, "paused")
        self.client.call("Resume", "at", [n])
        self.check_goes_on(left)
        self.client.call("Cancel", "at", [n])
        self.check_ends(n, "cancelled")

    def test_pause_holds_nothing_without_a_large_file(self):
        fill(self.path("t"), 20000)
        self.client = self.daemon.client()
        n = self.client.submit(self.path("t"))
        self.until(lambda: self.client.job(n)["done"] > 0)
        self.client.call("Pause", "at", [n])
        self.assertEqual(self.held(), [])
        self.faster()
        self.client.call("Resume", "at", [n])
        self.assertEqual(self.client.wait(n), "done")

    def test_pause_all_keeps_remainder(self):
        n = self.in_the_midst()
        self.client.call("PauseAll")
        (left,) = self.held()
        self.check_still(n, left, "queued")
        self.client.call("ResumeAll")
        self.check_goes_on(left)
        self.assertGreaterEqual(self.check_ends(n)["freed"], SIZE)

    def test_stop_is_prompt_and_keeps_the_paused_job(self):
        n, (worker, _, size) = self.paused()
        freed = self.client.job(n)["freed"]
        self.check_stops_at_once()
        self.until(lambda: not os.path.exists("/proc/%d" % worker))
        self.daemon.start()
        self.client = self.daemon.client()
        self.assertEqual(self.client.job(n)["state"], "paused")
        self.assertGreaterEqual(self.client.job(n)["freed"], freed)
        self.assertLess(self.client.job(n)["freed"], SIZE - size + MIB)
        self.client.call("Resume", "at", [n])
        self.check_ends(n)

    def test_stop_is_prompt_while_a_remainder_is_freed(self):
        n, left = self.paused()
        self.client.call("Resume", "at", [n])
        self.check_goes_on(left)
        self.check_stops_at_once()
        self.daemon.start()
        self.client = self.daemon.client()
        self.check_ends(n)

    def test_job_survives_kill_of_its_worker(self):
        """What is left of its file, too: another goes on with it."""
        for resumed in (False, True):
            self.daemon.configure(CONFIG)
            self.client.call("Reload")
            n, left = self.paused()
            if resumed:
                self.client.call("Resume", "at", [n])
                self.check_goes_on(left)
            os.kill(left[0], signal.SIGKILL)
            if not resumed:
                self.until(lambda: not self.held())
                free = self.free()
                time.sleep(0.5)  # it would be gone in less
                self.assertLess(abs(self.free() - free), MIB)
                self.assertEqual(self.client.job(n)["state"], "paused")
                self.client.call("Resume", "at", [n])
            self.until(lambda: any(held[0] != left[0] for held in self.held()))
            job = self.check_ends(n)
            self.assertGreaterEqual(job["freed"], SIZE)
            self.assertLess(job["freed"], SIZE + MIB)

    def test_job_survives_kill_of_its_deleter(self):
        """Before it was paused."""
        n = self.in_the_midst()
        ((worker, _, _),) = self.held()
        os.kill(worker, signal.SIGKILL)
        self.until(lambda: any(held[0] != worker for held in self.held()))
        job = self.check_ends(n)
        self.assertEqual(job["done"], 1)
        self.assertGreaterEqual(job["freed"], SIZE)
        self.assertLess(job["freed"], SIZE + MIB)

    def test_40_lease_broken(self):
        """I5: a process that opens it gets it soon, and as it is."""
        n, (worker, link, size) = self.paused()
        opened = []
        opener = threading.Thread(target=lambda: opened.append(os.open(link, os.O_RDONLY)), daemon=True)
        opener.start()
        opener.join(TIMEOUT / 2)
        self.assertTrue(opened, "it waits for the lease")
        with open(opened[0], "rb") as f:
            self.assertEqual(os.fstat(f.fileno()).st_blocks * 512, size)
            self.client.call("Resume", "at", [n])
            self.assertEqual(self.client.wait(n), "done")
            self.assertEqual(os.fstat(f.fileno()).st_blocks * 512, size)
        self.assertLess(self.client.job(n)["freed"], SIZE - size + MIB)

    def test_fault_12_unmounted_in_spite_of_it(self):
        n, left = self.paused()
        self.assertNotEqual(subprocess.run(["umount", self.data], stderr=subprocess.DEVNULL).returncode, 0)
        command("umount", "-l", self.data)
        self.until(lambda: not subprocess.check_output(["losetup", "-j", self.image]))
        self.assertEqual(self.client.job(n)["state"], "paused")
        command("mount", "-o", "loop,nodiscard", self.image, self.data)
        self.client.call("Resume", "at", [n])
        self.assertEqual(self.client.wait(n), "done")

    def test_remainders_of_a_user_are_bounded(self):
        """Each is a process: what is beyond that is held without one."""
        for i in range(MOST + 1):
            n = self.client.submit(self.large("f%d" % i, 64 * MIB))
            self.until(lambda: self.client.job(n)["freed"] >= MIB)
            self.client.call("Pause", "at", [n])
            self.assertEqual(self.client.job(n)["state"], "paused")
            self.until(lambda: len(self.held()) == min(i + 1, MOST))
        self.client.call("Resume", "at", [n])
        self.faster()
        self.assertEqual(self.client.wait(n), "done")
        self.assertGreaterEqual(self.client.job(n)["freed"], 64 * MIB)


class Urgent(Remainders):
    config = CONFIG + "urgent: {below: 20%, until: 30%}\n"

    def short(self):
        """Space becomes so."""
        with open(self.path("filler"), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, self.free() * 7 // 8 // MIB * MIB)

    def test_low_space_frees_remainder_fast(self):
        n, left = self.paused()
        self.short()
        self.check_still(n, left, "paused")
        self.client.call("Resume", "at", [n])
        self.check_soon(n, "done")

    def check_soon(self, n, state):
        """At its pace it would take three times as long."""
        began = time.monotonic()
        self.assertEqual(self.client.wait(n), state)
        self.assertLess(time.monotonic() - began, SIZE / RATE / 3)

    def test_low_space_frees_cancelled_remainder_fast(self):
        n = self.in_the_midst()
        self.client.call("Cancel", "at", [n])
        self.assertTrue(self.held())
        self.short()
        self.check_soon(n, "cancelled")

    def test_deadline_frees_remainder_fast(self):
        n, _ = self.paused(self.large(), deadline_usec=int((time.time() + 10) * 1000000))
        self.client.call("Resume", "at", [n])
        self.check_soon(n, "done")


class Cancel(Remainders):
    def cancelled(self):
        """A job that was cancelled in the midst of a large file, and what is left of that."""
        fill(self.path("t"), 20000)
        self.client = self.daemon.client()
        n = self.in_the_midst(self.large(), self.path("t"))
        (before,) = self.held()
        began = time.monotonic()
        self.client.call("Cancel", "at", [n])
        (left,) = self.held()
        self.assertLess(before[2] - left[2], RATE * (time.monotonic() - began + 2))
        # What has a name is back at once.
        self.assertTrue(os.listdir(self.path("t")))
        return n, left

    def test_cancel_frees_remainder_at_its_pace(self):
        n, left = self.cancelled()
        said = self.client.job(n)["freed"]
        self.check_goes_on(left)
        self.assertEqual(self.client.job(n)["state"], "running")
        self.until(lambda: self.client.job(n)["freed"] >= said + 8 * MIB)
        self.assertTrue(self.held())
        self.assertIn("still freed", self.client.get(n, "Message"))
        job = self.check_ends(n, "cancelled")
        self.assertGreaterEqual(job["freed"], SIZE)
        self.assertNotIn("still freed", self.client.get(n, "Message"))
        self.assertIn("put back", self.client.get(n, "Message"))
        self.assertTrue(os.listdir(self.path("t")))

    def test_second_cancel_releases_remainder(self):
        n, left = self.cancelled()
        self.client.call("Cancel", "at", [n])
        self.assertEqual(self.client.job(n)["state"], "cancelled")
        self.until(lambda: not self.held())
        self.assertGreaterEqual(self.client.job(n)["freed"], SIZE)

    def test_cancel_lets_other_jobs_run(self):
        n, left = self.cancelled()
        write(self.path("small"))
        self.assertEqual(self.client.wait(self.client.submit(self.path("small"))), "done")
        self.check_goes_on(left)

    def test_cancelled_remainder_pauses_and_resumes(self):
        n, _ = self.cancelled()
        self.client.call("Pause", "at", [n])
        self.assertEqual(self.client.job(n)["state"], "paused")
        left = self.settled()
        self.check_still(n, left, "paused")
        with self.assertRaises(Error) as e:
            self.client.call("Restore", "ta{sv}", n, {})
        self.assertEqual(e.exception.name, "WrongState")
        self.client.call("Resume", "at", [n])
        self.check_goes_on(left)
        self.assertEqual(self.client.job(n)["state"], "running")
        self.check_ends(n, "cancelled")

    def test_cancelled_job_ends_when_its_worker_is_killed(self):
        n, left = self.cancelled()
        self.client.call("Pause", "at", [n])
        os.kill(left[0], signal.SIGKILL)
        self.until(lambda: not self.held())
        self.assertEqual(self.client.job(n)["state"], "paused")
        self.client.call("Resume", "at", [n])
        self.check_ends(n, "cancelled")

    def test_pause_all_pauses_cancelled_remainder(self):
        n, _ = self.cancelled()
        self.client.call("PauseAll")
        left = self.settled()
        self.check_still(n, left, "queued")
        self.client.call("ResumeAll")
        self.check_goes_on(left)
        self.assertEqual(self.client.job(n)["state"], "running")
        self.check_ends(n, "cancelled")

    def test_cancel_of_a_paused_job_frees_remainder(self):
        n, left = self.paused()
        self.client.call("Cancel", "at", [n])
        self.check_goes_on(left)
        self.check_ends(n, "cancelled")

    def test_cancel_waits_for_resume_all(self):
        n = self.in_the_midst()
        self.client.call("PauseAll")
        (left,) = self.held()
        self.client.call("Cancel", "at", [n])
        self.check_still(n, left, "queued")
        self.client.call("ResumeAll")
        self.check_goes_on(left)
        self.check_ends(n, "cancelled")

    def test_cancelled_job_ends_after_stop(self):
        for paused in (False, True):
            self.daemon.configure(CONFIG)
            self.client.call("Reload")
            n, left = self.cancelled()
            if paused:
                self.client.call("Pause", "at", [n])
            names = os.listdir(self.path("t"))
            self.check_stops_at_once()
            self.daemon.start()
            self.client = self.daemon.client()
            self.check_ends(n, "cancelled")
            self.assertEqual(os.listdir(self.path("t")), names)
            command("rm", "-r", self.path("t"))

    def test_cancelled_job_ends_after_kill(self):
        n, left = self.cancelled()
        names = os.listdir(self.path("t"))
        self.daemon.kill()
        self.daemon.start()
        self.client = self.daemon.client()
        self.check_ends(n, "cancelled")
        self.assertEqual(os.listdir(self.path("t")), names)
        # If it was killed before that was on record, what has been put back is found in its place.
        self.assertRegex(self.client.get(n, "Message"), "^(1 name was|0 names were) put back.*deleted$")


class BesideFlushes(Remainders):
    def sync_often(self, ends):
        """Foreign I/O, so that flushes at jobs' ends wait."""
        with open(self.path("foreground"), "wb") as f:
            while not ends.wait(0.01):
                f.write(b"x")
                f.flush()
                os.fsync(f.fileno())

    def test_flush_of_other_jobs_ignores_remainder(self):
        """Jobs that have ended, and whose flush waits or is under way by the very process that then holds a
        remainder."""
        ends = threading.Event()
        foreground = threading.Thread(target=self.sync_often, args=(ends,))
        foreground.start()
        self.addCleanup(foreground.join)
        self.addCleanup(ends.set)
        for turn in range(4):
            others = []
            for i in range(5):
                write(self.path("t%d-%d" % (turn, i)))
                others.append(self.client.submit(self.path("t%d-%d" % (turn, i))))
            n = self.in_the_midst(self.large("big-%d" % turn, 128 * MIB))
            self.client.call("Pause", "at", [n])
            for other in others:
                self.assertEqual(self.client.wait(other), "done", self.daemon.said())
            self.assertEqual(self.client.job(n)["state"], "paused")
            self.assertEqual(len(self.held()), 1)
            for _ in range(2):
                self.client.call("Cancel", "at", [n])
            self.assertEqual(self.client.wait(n), "cancelled")


if __name__ == "__main__":
    fixture.main()
