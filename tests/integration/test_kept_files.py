#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The daemon ends in the midst of a large file, which has no name any more: what is left of it is held by
the keeper, and the next daemon goes on with it at its pace. (With systemd: system/inside/test_daemon.py.)"""
import contextlib
import glob
import os
import signal
import subprocess
import threading
import time

import fixture
from daemon_fixture import user
from fixture import MIB, TIMEOUT, USER, command, write
from test_remainders import CONFIG, RATE, SIZE, Remainders


class Kept(Remainders):
    def setUp(self):
        super().setUp()
        self.empty = self.free()
        self.started = 0.0  # when what was kept could go on first

    def held_by_keepers(self):
        """As held()."""
        found = []
        for keeper in fixture.keepers():
            for link in glob.glob("/proc/%d/fd/*" % keeper):
                with contextlib.suppress(OSError):
                    st = os.stat(link)
                    if st.st_nlink == 0 and st.st_dev == os.stat(self.data).st_dev:
                        found.append((keeper, link, st.st_blocks * 512))
        return [f for f in found if f[2] >= MIB]

    def has_canary(self):
        """Does the process that measures syncs have its file on the disk?"""
        for comm in glob.glob("/proc/[0-9]*/comm"):
            with contextlib.suppress(OSError):
                with open(comm, encoding="utf-8") as f:
                    if f.read() != "reclaim-canary\n":
                        continue
                fds = glob.glob(os.path.dirname(comm) + "/fd/*")
                if any(os.stat(fd).st_dev == os.stat(self.data).st_dev for fd in fds):
                    return True
        return False

    def kill(self):
        """The daemon and its workers, as the kernel does it if memory is out."""
        # It would start another worker for what the first one was at.
        self.daemon.process.send_signal(signal.SIGSTOP)
        self.until(lambda: fixture.is_stopped(self.daemon.process.pid))
        workers = self.daemon.workers()
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        self.daemon.kill()
        self.gone(workers)

    def stop(self):
        workers = self.daemon.workers()
        self.check_stops_at_once()
        self.gone(workers)

    def gone(self, workers):
        self.until(lambda: not any(os.path.exists("/proc/%d" % w) for w in workers))

    def start(self):
        self.started = time.monotonic()
        self.daemon.start()
        self.client = self.daemon.client()

    def check_kept(self):
        """Nothing is freed of it while no daemon runs. Returns how much is left."""
        self.until(self.held_by_keepers)
        ((_, _, left),) = self.held_by_keepers()
        self.assertGreater(left, SIZE // 2)
        before = self.free()
        time.sleep(0.5)  # it would be gone in less
        self.assertEqual(self.held_by_keepers()[0][2], left)
        self.assertLess(abs(self.free() - before), MIB)
        return left

    def check_goes_on_after(self, number, left):
        """At its pace, from where it was, and all is counted."""
        now = self.until(lambda: next((held for held in self.held() if held[2] <= left - 8 * MIB), None))
        self.assertLess(left - now[2], RATE * (time.monotonic() - self.started + 2))
        self.assertGreaterEqual(self.client.job(number)["freed"], SIZE - left)
        job = self.check_ends(number)
        self.assertEqual(job["done"], 1)
        self.check_counted(job)

    def check_counted(self, job):
        self.assertGreaterEqual(job["freed"], SIZE)
        self.assertLess(job["freed"], SIZE + MIB)

    def check_nothing_held(self):
        """By no process; and with the daemon its keeper ends."""
        self.until(lambda: not self.held_by_keepers())
        self.daemon.stop()
        self.until(lambda: not fixture.keepers())

    def check_survives_kill(self):
        n = self.in_the_midst()
        self.kill()
        left = self.check_kept()
        self.start()
        self.check_goes_on_after(n, left)


class Restarts(Kept):
    def test_restart_goes_on(self):
        n = self.in_the_midst()
        self.stop()
        left = self.check_kept()
        self.assertIn("has the kernel free them", self.daemon.said())
        self.start()
        self.assertGreaterEqual(self.client.job(n)["freed"], SIZE - left)
        self.check_goes_on_after(n, left)
        self.check_nothing_held()

    def test_kill_goes_on(self):
        self.check_survives_kill()
        self.check_nothing_held()

    def test_kill_of_the_daemon_alone_goes_on(self):
        """Its workers see that it is gone before the kernel ends them: they do not let go of the file."""
        n = self.in_the_midst()
        for _ in range(3):
            workers = self.daemon.workers()
            self.daemon.kill()
            self.gone(workers)
            left = self.check_kept()
            self.start()
            self.until(lambda: any(held[2] <= left - 4 * MIB for held in self.held()))
        self.check_goes_on_after(n, left)

    def test_pace_knows_as_much_after_kill(self):
        """What a sync costs is measured then, too: else its steps would be larger than before."""
        n = self.in_the_midst()
        self.until(self.has_canary)
        self.kill()
        left = self.check_kept()
        self.until(lambda: not self.has_canary())
        self.start()
        self.until(self.has_canary)
        self.check_goes_on_after(n, left)

    def test_pace_knows_more_with_the_next_job(self):
        """In a user's directory nothing is measured: the second job has staging, and what a sync costs is measured there."""
        self.daemon.configure(CONFIG + "staging: off\n")
        self.client.call("Reload")
        roots = self.client
        first = self.in_the_midst(self.large("in-place"))
        self.assertFalse(self.has_canary())
        self.daemon.configure(CONFIG)
        self.client.call("Reload")
        second = self.in_the_midst_of_a_user()
        self.until(self.has_canary)
        self.assertEqual([roots.job(n)["state"] for n in (first, second)], ["running"] * 2)
        self.client = roots
        self.faster()
        self.assertEqual({self.client.wait(n) for n in (first, second)}, {"done"})

    def test_kill_again_and_again(self):
        n = self.in_the_midst()
        for _ in range(3):
            self.kill()
            left = self.check_kept()
            self.start()
            self.until(lambda: any(held[2] <= left - 4 * MIB for held in self.held()))
        self.stop()
        left = self.check_kept()
        self.start()
        self.check_goes_on_after(n, left)

    def test_kill_keeps_several_of_a_tree(self):
        """Also what the job has besides them."""
        os.mkdir(self.path("t"))
        for i in range(3):
            self.large("t/big-%d" % i, SIZE // 2)
            write(self.path("t/small-%d" % i))
        n = self.in_the_midst(self.path("t"))
        self.kill()
        self.assertTrue(self.held_by_keepers())
        self.start()
        self.faster()
        self.assertEqual(self.client.wait(n), "done")
        self.assertFalse(os.path.exists(self.path("t")))
        self.check_nothing_held()

    def test_kill_keeps_that_of_a_job_in_place(self):
        self.daemon.configure(CONFIG + "staging: off\n")
        self.client.call("Reload")
        self.check_survives_kill()

    @staticmethod
    def is_users(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open("/proc/%d/status" % pid, encoding="ascii") as f:
                return "\nUid:\t%d\t%d\t%d\t%d\n" % ((USER,) * 4) in f.read()
        return False

    def test_kill_keeps_that_of_a_user(self):
        """Whose process goes on with it."""
        n = self.in_the_midst_of_a_user()
        self.kill()
        left = self.check_kept()
        self.start()
        # Between fork and exec it is the daemon itself still.
        self.until(lambda: any(self.is_users(pid) for pid, *_ in self.held()))
        self.check_goes_on_after(n, left)

    def test_stop_keeps_a_paused_job(self):
        n, _ = self.paused()
        self.stop()
        left = self.check_kept()
        self.start()
        self.assertEqual(self.client.job(n)["state"], "paused")
        freed = self.client.job(n)["freed"]
        time.sleep(1)  # longer than from one step to the next
        self.assertEqual(self.held_by_keepers()[0][2], left)
        self.assertEqual(self.client.job(n)["freed"], freed)
        self.started = time.monotonic()
        self.client.call("Resume", "at", [n])
        self.check_goes_on_after(n, left)

    def test_stop_while_a_remainder_is_freed(self):
        n, left = self.paused()
        self.client.call("Resume", "at", [n])
        self.check_goes_on(left)
        self.stop()
        left = self.check_kept()
        self.start()
        self.check_goes_on_after(n, left)

    def test_kill_keeps_a_cancelled_job(self):
        n = self.in_the_midst()
        self.client.call("Cancel", "at", [n])
        self.kill()
        left = self.check_kept()
        self.start()
        self.until(lambda: any(held[2] <= left - 4 * MIB for held in self.held()))
        self.assertEqual(self.client.job(n)["state"], "running")
        self.check_counted(self.check_ends(n, "cancelled"))
        self.check_nothing_held()

    def test_released_after_a_restart(self):
        """Cancelled, and once more."""
        n, _ = self.paused()
        self.kill()
        self.check_kept()
        self.start()
        for _ in range(2):
            self.client.call("Cancel", "at", [n])
        self.assertEqual(self.client.wait(n), "cancelled")
        self.check_counted(self.client.job(n))
        self.check_nothing_held()

    def test_keeper_has_no_rights(self):
        self.in_the_midst()
        self.until(self.held_by_keepers)
        (keeper,) = fixture.keepers()
        with open("/proc/%d/status" % keeper, encoding="ascii") as f:
            status = dict(line.split(":", 1) for line in f)
        for held in ("CapPrm", "CapEff", "CapBnd"):
            self.assertEqual(int(status[held], 16), 0, held)
        self.assertEqual((status["Seccomp"].strip(), status["NoNewPrivs"].strip()), ("2", "1"))
        with user(), self.assertRaises(PermissionError):
            os.stat(os.path.join(self.daemon.state, "keeper"))

    def test_keeper_killed(self):
        """Then it is as after rm, and the job goes on."""
        n = self.in_the_midst()
        self.kill()
        self.check_kept()
        fixture.end_keepers()
        self.until(lambda: self.free() > self.empty - 16 * MIB)
        self.start()
        self.assertEqual(self.client.wait(n), "done")
        self.assertLess(self.client.job(n)["freed"], SIZE)


class HeadFirst(Kept):
    """Where it is freed from its beginning on."""
    options = "loop,discard"

    def test_kill_goes_on(self):
        self.check_survives_kill()


class Doubt(Kept):
    """What comes back is not what it was."""

    def test_without_a_job(self):
        """The job store is lost: nothing is truncated, and the kernel does as after rm."""
        self.in_the_midst()
        self.kill()
        self.check_kept()
        for path in glob.glob(os.path.join(self.daemon.state, "reclaimd.db*")):
            os.unlink(path)
        pin = os.open(self.held_by_keepers()[0][1], os.O_PATH)
        before = os.stat(pin)
        self.start()
        self.until(lambda: not self.held_by_keepers())
        self.daemon.wait_said("left to the kernel, as after rm")
        self.assertEqual((os.stat(pin).st_size, os.stat(pin).st_blocks), (before.st_size, before.st_blocks))
        os.close(pin)
        self.until(lambda: self.free() > self.empty - 16 * MIB)

    def test_40_lease_broken_while_no_daemon_runs(self):
        """I5: it was opened meanwhile, and stays as it is for who has opened it."""
        n = self.in_the_midst()
        self.kill()
        left = self.check_kept()
        link = self.held_by_keepers()[0][1]
        opened = []
        opener = threading.Thread(target=lambda: opened.append(os.open(link, os.O_RDONLY)), daemon=True)
        opener.start()
        with self.assertRaises(BlockingIOError):
            while True:  # until that is waiting for the lease
                os.close(os.open(link, os.O_RDONLY | os.O_NONBLOCK))
        self.start()
        opener.join(TIMEOUT / 2)
        self.assertTrue(opened, "it waits for the lease")
        self.assertEqual(self.client.wait(n), "done")
        with open(opened[0], "rb") as f:
            self.assertEqual(os.fstat(f.fileno()).st_blocks * 512, left)
        self.assertLess(self.client.job(n)["freed"], SIZE - left + MIB)

    def test_40_lease_broken_of_a_paused_job(self):
        """Sooner than the kernel takes it away by force."""
        n, _ = self.paused()
        self.stop()
        left = self.check_kept()
        self.start()
        began = time.monotonic()
        with open(self.held_by_keepers()[0][1], "rb") as f:
            with open("/proc/sys/fs/lease-break-time", encoding="ascii") as limit:
                self.assertLess(time.monotonic() - began, int(limit.read()) / 2)
            self.assertEqual(os.fstat(f.fileno()).st_blocks * 512, left)
            self.client.call("Resume", "at", [n])
            self.assertEqual(self.client.wait(n), "done")
            self.assertEqual(os.fstat(f.fileno()).st_blocks * 512, left)

    def test_fault_12_unmounted_while_no_daemon_runs(self):
        """Nothing of a paused job is held any more once a daemon runs."""
        n, _ = self.paused()
        self.kill()
        self.check_kept()
        command("umount", "-l", self.data)
        self.start()
        self.until(lambda: not subprocess.check_output(["losetup", "-j", self.image]))
        command("mount", "-o", self.options, self.image, self.data)
        self.client.call("Resume", "at", [n])
        self.assertEqual(self.client.wait(n), "done")

    def test_fault_12_unmounted_after_a_restart(self):
        """Of a paused job, whose file has come back."""
        n, _ = self.paused()
        self.stop()
        self.start()
        self.assertTrue(self.held_by_keepers())
        command("umount", "-l", self.data)
        self.until(lambda: not subprocess.check_output(["losetup", "-j", self.image]))
        command("mount", "-o", self.options, self.image, self.data)
        self.client.call("Resume", "at", [n])
        self.assertEqual(self.client.wait(n), "done")


if __name__ == "__main__":
    fixture.main()
