#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Filesystems that are unmounted while jobs are on them: what does not run keeps nothing of one open, and what
runs is stopped by umount -l, waits, and goes on when the filesystem is mounted again."""
import contextlib
import os
import signal
import subprocess

import fixture
import test_remainders
from dbuswire import Error
from fixture import MIB, Canary, command, write

HOUR = 3600 * 1000000
FILES = 400  # of a MiB each: half a minute at the pace that is set


def mount_of(pid, fd):
    """The mount by which a process has something open, as a number."""
    with open("/proc/%s/fdinfo/%s" % (pid, fd), encoding="ascii") as f:
        return int(f.read().split("mnt_id:")[1].split()[0])


class Unmounting(test_remainders.Remainders):
    def tree(self, name="tree"):
        os.mkdir(self.path(name))
        for i in range(FILES):
            with open(self.path(name, str(i)), "wb") as f:
                os.posix_fallocate(f.fileno(), 0, MIB)
        return self.path(name)

    def begun(self, path):
        n = self.client.submit(path)
        self.until(lambda: self.client.job(n)["freed"] >= 4 * MIB)
        return n

    def mount(self):
        command("mount", "-o", self.options, self.image, self.data)

    def detached(self):
        """Lazily, and all that is open of it is closed: its loop device goes with it."""
        command("umount", "-l", self.data)
        self.until(lambda: not subprocess.check_output(["losetup", "-j", self.image]))

    def begun_again(self):
        """Has the daemon, or a worker, something open there, and all of it by the mount that is there now?"""
        at = os.open(self.data, os.O_PATH)
        now, opened = mount_of("self", at), set()
        for pid in (self.daemon.process.pid, *self.daemon.workers()):
            with contextlib.suppress(FileNotFoundError):
                for fd in os.listdir("/proc/%d/fd" % pid):
                    with contextlib.suppress(FileNotFoundError):
                        if os.stat("/proc/%d/fd/%s" % (pid, fd)).st_dev == os.fstat(at).st_dev:
                            opened.add(mount_of(pid, fd))
        os.close(at)
        return opened == {now}

    def waits(self, *numbers):
        for n in numbers:
            self.assertEqual(self.client.job(n)["state"], "queued")
        self.assertRegex(self.client.get(numbers[0], "Message"), "^waits: .*/disk is not mounted; goes on when it is$")

    def ended(self, *numbers):
        self.faster()
        for n in numbers:
            self.assertEqual(self.client.wait(n), "done", self.daemon.said())


class Staged(Unmounting):
    def test_fault_12_lazily_among_many_names(self):
        n = self.begun(self.tree())
        self.detached()
        self.waits(n)
        self.assertIn("Job %d waits: %s is not mounted" % (n, self.data), self.daemon.said())
        self.mount()
        self.ended(n)
        self.until(lambda: not os.listdir(self.path(".reclaim", "0")))

    def test_fault_12_lazily_in_mid_file(self):
        """Another job waits behind it."""
        write(self.path("small"))
        canary = Canary(self.path("canary"))
        n, second = self.begun(self.large()), self.client.submit(self.path("small"))
        self.detached()
        self.waits(n, second)
        self.mount()
        self.ended(n, second)
        canary.check()

    def test_fault_12_lazily_while_a_remainder_is_freed(self):
        """It is all that is left of the job."""
        n, _ = self.paused()
        self.client.call("Resume", "at", [n])
        self.detached()
        self.assertEqual(self.client.wait(n), "done")
        self.assertIn("a large file was still held: it is let go of", self.daemon.said())

    def test_fault_12_lazily_and_mounted_again_at_once(self):
        """It goes on in what is mounted now, and keeps nothing of what was."""
        n = self.begun(self.tree())
        command("umount", "-l", self.data)
        self.mount()
        self.until(self.begun_again)
        self.assertNotEqual(self.client.job(n)["state"], "done")
        self.ended(n)
        fixture.unmount_when_free(self.data)
        self.until(lambda: not subprocess.check_output(["losetup", "-j", self.image]))

    def test_fault_12_lazily_while_it_pauses(self):
        n = self.begun(self.tree())
        self.client.call("Pause", "at", [n])
        command("umount", "-l", self.data)
        self.mount()
        self.client.call("Resume", "at", [n])
        self.until(self.begun_again)
        self.ended(n)

    def test_jobs_that_do_not_run_keep_nothing_open(self):
        for name in ("done", "held", "paused", "queued"):
            write(self.path(name))
        done = self.client.submit(self.path("done"))
        self.assertEqual(self.client.wait(done), "done")
        held = self.client.submit(self.path("held"), undo_usec=HOUR)
        self.client.call("PauseAll")
        paused, queued = self.client.submit(self.path("paused")), self.client.submit(self.path("queued"))
        self.client.call("Pause", "at", [paused])
        states = [self.client.job(n)["state"] for n in (held, paused, queued)]
        self.assertEqual(states, ["held", "paused", "queued"])
        fixture.unmount_when_free(self.data)
        self.client.call("ResumeAll")
        self.until(lambda: self.client.get(queued, "Message").startswith("waits: "))
        self.waits(queued)
        self.mount()
        self.ended(queued)
        self.client.call("Restore", "ta{sv}", held, {})
        self.assertTrue(os.path.exists(self.path("held")))

    def test_what_measures_leaves_with_the_job(self):
        """Another job goes on for long on the same disk, but another filesystem."""
        small, large = (self.another(name) for name in ("small", "large"))
        first = self.begun(self.large(os.path.join(small, "f"), 320 * MIB))
        second = self.begun(self.large(os.path.join(large, "f"), 512 * MIB))
        self.client.call("Cancel", "at", [first])
        with contextlib.suppress(Error):  # it may have ended by itself
            self.client.call("Cancel", "at", [first])
        fixture.unmount_when_free(small)
        self.assertEqual(self.client.job(second)["state"], "running")

    def another(self, name):
        """A filesystem in a file on the disk."""
        image, at = self.path(name + ".image"), os.path.join(self.daemon.dir, name)
        with open(image, "wb") as f:
            f.truncate(700 * MIB)
        command("mkfs.ext4", "-q", "-F", image)
        os.mkdir(at)
        command("mount", "-o", self.options, image, at)
        self.addCleanup(subprocess.run, ["umount", "-l", at], stderr=subprocess.DEVNULL, check=False)
        return at


class Returning(Unmounting):
    """Two jobs whose names are going back at once."""

    def setUp(self):
        super().setUp()
        self.client = self.daemon.again_with_gate("restore:a")
        self.canaries = [Canary(self.path(name)) for name in "ab"]
        write(self.path("other"))
        *self.both, self.other = (self.client.submit(self.path(name), undo_usec=HOUR) for name in ("a", "b", "other"))

    def ask(self):
        return self.client.send("Cancel", "at", self.both[:1]), self.client.send("Restore", "ta{sv}", self.both[1], {})

    def detached(self, mounts):
        """While the worker that puts them back stands before the first of them."""
        serials, stopped = self.ask(), self.daemon.stopped_worker()
        command("umount", "-l", self.data)
        if mounts:
            self.mount()
        self.known()
        return serials, stopped

    def known(self):
        """Each is answered when it is on record: then both have been asked for, and mounts have been read."""
        self.client.call("Pause", "at", [self.other])
        self.client.call("Resume", "at", [self.other])

    def states(self):
        return [self.client.job(n)["state"] for n in self.both]

    def are_back(self, *serials):
        """Another worker stands at its gate, too."""
        def ended():
            for worker in filter(fixture.is_stopped, self.daemon.workers()):
                os.kill(worker, signal.SIGCONT)
            return self.states() == ["cancelled", "restored"]

        self.until(ended)
        for serial in serials:
            self.client.answer(serial)
        for canary in self.canaries:
            canary.check()
        fixture.unmount_when_free(self.data)

    def test_fault_12_lazily_and_mounted_again(self):
        serials, _ = self.detached(mounts=True)
        self.are_back(*serials)

    def test_fault_12_lazily_and_the_worker_dies(self):
        serials, stopped = self.detached(mounts=True)
        os.kill(stopped, signal.SIGKILL)
        self.are_back(*serials)

    def test_fault_12_lazily_and_not_mounted_yet(self):
        serials, stopped = self.detached(mounts=False)
        os.kill(stopped, signal.SIGKILL)
        for serial in serials:
            with self.assertRaisesRegex(Error, "its filesystem is not mounted; it is held as before"):
                self.client.answer(serial)
        self.mount()
        self.known()
        self.are_back(*self.ask())


class InPlace(Unmounting):
    config = test_remainders.CONFIG + "staging: off\n"

    def test_fault_12_lazily_among_many_names(self):
        """What has the path without the mount is kept."""
        write(self.path("second"))
        n, second = self.begun(self.tree()), self.client.submit(self.path("second"))
        self.detached()
        self.waits(n, second)
        canary = Canary(self.path("tree"))
        # Mounts change, and that one is not there yet.
        other = os.path.join(self.daemon.dir, "other")
        os.mkdir(other)
        command("mount", "-t", "tmpfs", "tmpfs", other)
        self.addCleanup(fixture.unmount, other)
        self.client.jobs()
        self.waits(n, second)
        canary.check()
        self.mount()
        self.ended(n, second)
        self.assertFalse(os.path.exists(self.path("tree")))
        fixture.unmount_when_free(self.data)
        canary.check()


if __name__ == "__main__":
    fixture.main()
