#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Jobs that end together are made durable together: fewer commits, and none is told done before one
that began after its end."""
import contextlib
import fcntl
import glob
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import fixture
from daemon_fixture import FINISHED, Case, user
from dbuswire import Error
from fixture import TIMEOUT, USER, command, write
from test_pacing import Foreground

SHUTDOWN = 0x8004587d  # EXT4_IOC_SHUTDOWN: what is not durable is lost
JOBS = 60


def commits(at):
    """How many commits the filesystem has made since it was mounted."""
    source = os.path.basename(command("findmnt", "-no", "SOURCE", at).strip())
    for path in glob.glob("/proc/fs/jbd2/%s-8/info" % source):
        with open(path, encoding="ascii") as f:
            return int(f.read().split()[0])
    for path in glob.glob("/sys/fs/btrfs/*/devices/" + source):
        with open(path.rsplit("/", 2)[0] + "/commit_stats", encoding="ascii") as f:
            return int(re.search(r"commits (\d+)", f.read()).group(1))
    raise unittest.SkipTest("its commits are not counted")


class Flushes(Case):
    def disk(self, kind, *options):
        image, at = (os.path.join(self.daemon.dir, name) for name in ("image", "disk"))
        with open(image, "wb") as f:
            f.truncate(400 << 20)
        command("mkfs." + kind, *{"ext4": ["-qF"], "btrfs": ["-qf", "-m", "single"]}[kind], *options, image)
        os.mkdir(at)
        command("mount", "-o", "loop,nodiscard", image, at)
        self.addCleanup(subprocess.run, ["umount", "-l", at], stderr=subprocess.DEVNULL, check=False)
        self.image, self.at, self.data = image, at, os.path.join(at, "data")
        os.mkdir(self.data)
        return at

    def submitted(self, c, *names):
        for name in names:
            write(self.path(name))
        return [c.submit(self.path(name)) for name in names]

    def in_job(self):
        """What of the jobs is in staging still."""
        return [f for _, _, files in os.walk(os.path.join(self.at, ".reclaim")) for f in files]

    def shut_down(self):
        """Nothing gets to the disk any more."""
        fd = os.open(self.at, os.O_RDONLY)
        fcntl.ioctl(fd, SHUTDOWN, (2).to_bytes(4, "little"))
        os.close(fd)

    def unmount(self):
        """Without a daemon."""
        self.daemon.stop()
        fixture.unmount_when_free(self.at)

    def power_returns(self):
        self.unmount()
        command("mount", "-o", "loop,nodiscard", self.image, self.at)
        self.back = len(self.in_job())
        self.daemon.start()
        return self.daemon.client()


class ManyNames(Flushes):
    config = "pacing: {latency: off}\n"  # a quantum beside foreign I/O is synced by itself

    def test_job_of_many_names_takes_few_commits(self):
        """Names go in chunks of 16,384; what each leaves in the journal is much the same blocks. A flush of each would
        be eight commits."""
        count = 8 * 16384
        at = self.disk("ext4", "-N", "150000", "-J", "size=128")
        # No commit but those that are asked for.
        command("mount", "-o", "remount,commit=300", at)
        c = self.daemon.client()
        fixture.fill(self.path("many"), count)
        c.call("PauseAll")
        n, _, _ = c.submit_list(self.path("many"), sorted(os.listdir(self.path("many"))))
        fixture.sync(self.at)
        before = commits(at)
        c.call("ResumeAll")
        self.assertEqual(c.wait(n), "done")
        self.assertLess(commits(at) - before, 5)
        self.assertEqual(c.job(n)["done"], count)
        self.assertEqual(self.in_job(), [])


class Together(Flushes):
    def backlog_takes_few_commits(self, kind):
        at = self.disk(kind)
        # No commit but those that are asked for: the kernel's own are more the longer it takes.
        command("mount", "-o", "remount,commit=300", at)
        c = self.daemon.client()
        c.call("PauseAll")
        jobs = self.submitted(c, *map(str, range(JOBS)))
        fixture.sync(self.at)
        before = commits(at)
        c.call("ResumeAll")
        self.assertEqual({c.wait(n) for n in jobs}, {"done"})
        self.assertLess(commits(at) - before, JOBS // 3)

    def test_backlog_takes_few_commits_on_ext4(self):
        self.backlog_takes_few_commits("ext4")

    def test_backlog_takes_few_commits_on_btrfs(self):
        self.backlog_takes_few_commits("btrfs")

    def test_flush_is_prompt_on_an_idle_disk(self):
        """There is no foreign I/O: each is flushed at once, and nothing lingers."""
        self.disk("ext4")
        c = self.daemon.client()
        self.assertEqual(c.wait(*self.submitted(c, "first")), "done")
        began = time.monotonic()
        for name in map(str, range(10)):
            self.assertEqual(c.wait(*self.submitted(c, name)), "done")
        self.assertLess(time.monotonic() - began, 5)

    def test_flush_spares_foreground_syncs(self):
        """Jobs that come one after another, each when the last has ended: without foreign I/O each
        has a commit of its own, but a program that syncs is not to meet them all. (On btrfs foreign
        syncs are no commits.)"""
        at = self.disk("btrfs")
        c = self.daemon.client()
        with Foreground(os.path.join(at, "file")):
            self.assertEqual(c.wait(*self.submitted(c, "first")), "done")
            time.sleep(1)
            before, jobs, end = commits(at), [], time.monotonic() + 4
            while time.monotonic() < end:
                jobs += self.submitted(c, str(len(jobs)))
            made = commits(at) - before
        self.assertEqual({c.wait(n) for n in jobs}, {"done"})
        self.assertLess(made, len(jobs) // 4)


class Canaries(Flushes):
    config = "pacing: {max-rate: 20M}\n"

    def canaries(self):
        found = []
        for p in self.daemon.workers():
            with contextlib.suppress(OSError), open("/proc/%d/comm" % p, encoding="ascii") as f:
                found += [p] if f.read() == "reclaim-canary\n" else []
        return found

    def test_fault_14_killed_in_mid_sync(self):
        """The process that measures what a sync takes: its device is deleted on all the same."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        at = self.disk("ext4")
        c = self.daemon.client()
        os.mkdir(self.path("tree"))
        fixture.fill(self.path("tree"), 12000)
        with Foreground(os.path.join(at, "file")):
            n = c.submit(self.path("tree"))
            self.until(self.canaries)
            tracer = subprocess.run(["strace", "-e", "inject=fdatasync:signal=KILL", "-p",
                                     str(self.canaries()[0])],
                                    stderr=subprocess.PIPE, timeout=TIMEOUT, check=False)
            self.assertIn(b"killed by SIGKILL", tracer.stderr)
            self.assertNotIn(c.job(n)["state"], FINISHED)
            self.assertEqual(c.wait(n), "done")


class Order(Flushes):
    config = "pacing: {latency: off}\n"

    @contextlib.contextmanager
    def slow_flushes(self, c):
        """Each of the worker's takes two seconds longer, while it does all else as it would."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        self.assertEqual(c.wait(*self.submitted(c, "first")), "done")
        workers = [w for p in fixture.workers_of(self.daemon.process.pid) for w in ("-p", str(p))]
        tracer = subprocess.Popen(["strace", "-f", "-e", "trace=fsync", "-e",
                                   "inject=fsync:delay_enter=2s", *workers],
                                  stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            for _ in range(len(workers) // 2):
                self.assertIn("attached", tracer.stderr.readline())
            yield tracer
        finally:
            tracer.terminate()
            tracer.communicate()

    def waiting_for_the_next(self, c):
        """One job whose flush is under way, and more that have ended meanwhile."""
        (a,) = self.submitted(c, "a")
        self.until(lambda: not self.in_job())
        rest = self.submitted(c, "b", "c", "d")
        self.until(lambda: not self.in_job())
        self.assertEqual({c.job(n)["state"] for n in (a, *rest)}, {"running"})
        return a, rest

    def test_flush_covers_no_job_that_ended_later(self):
        self.disk("ext4")
        c = self.daemon.client()
        with self.slow_flushes(c):
            a, rest = self.waiting_for_the_next(c)
            self.assertEqual(c.wait(a), "done")
            self.assertEqual({c.job(n)["state"] for n in rest}, {"running"})
            self.assertEqual({c.wait(n) for n in rest}, {"done"})

    def test_failed_flush_fails_all_its_jobs(self):
        """The power fails before: none is told done, and after it all is done again."""
        self.disk("ext4")
        c = self.daemon.client()
        with self.slow_flushes(c):
            c.call("PauseAll")
            jobs = self.submitted(c, *"abcd")
            fixture.sync(self.at)
            c.call("ResumeAll")
            self.until(lambda: not self.in_job())
            self.assertEqual({c.job(n)["state"] for n in jobs}, {"running"})
            self.shut_down()
            for n in jobs:
                self.daemon.wait_said("Job %d was interrupted" % n)
                self.assertNotIn(c.job(n)["state"], FINISHED)
        c = self.power_returns()
        self.assertEqual({c.wait(n) for n in jobs}, {"done"})
        self.assertEqual(os.listdir(self.data), [])
        self.assertEqual(self.in_job(), [], self.daemon.said())

    def test_done_job_survives_power_loss(self):
        """For each user, together or alone: when the power fails right after, nothing is there again."""
        for uid in (0, USER):
            for names in ("a", "bcd"):
                with self.subTest(uid=uid, names=names):
                    self.disk("ext4")
                    os.chown(self.data, uid, uid)
                    c = self.daemon.client(uid)
                    self.daemon.client().call("PauseAll")
                    with user(uid):
                        jobs = self.submitted(c, *names)
                    fixture.sync(self.at)
                    self.assertEqual(len(self.in_job()), len(jobs))
                    self.daemon.client().call("ResumeAll")
                    self.assertEqual({c.wait(n) for n in jobs}, {"done"})
                    self.shut_down()
                    self.power_returns()
                    self.assertEqual(self.in_job(), [], self.daemon.said())
                    self.unmount()
                    os.rmdir(self.at)
                    self.daemon.start()

    def test_names_that_are_owed_a_flush_are_not_on_record(self):
        """The power fails before the one flush of three chunks: what is there again is deleted.

        That is all of them, unless another program calls sync(2) meanwhile."""
        count = 40000
        at = self.disk("ext4", "-N", "60000", "-J", "size=128")
        command("mount", "-o", "remount,commit=300", at)
        c = self.daemon.again_with_gate("flush:job")
        fixture.fill(self.path("many"), count)
        c.call("PauseAll")
        n, _, _ = c.submit_list(self.path("many"), sorted(os.listdir(self.path("many"))))
        fixture.sync(self.at)
        c.call("ResumeAll")
        worker = self.daemon.stopped_worker()
        self.assertEqual(self.in_job(), [])
        self.shut_down()
        self.daemon.kill()
        os.kill(worker, signal.SIGKILL)
        c = self.power_returns()
        self.assertEqual(c.wait(n), "done")
        self.assertEqual(self.in_job(), [], self.daemon.said())
        self.assertEqual(c.job(n)["done"], self.back)

    def test_flush_covers_removed_directory(self):
        """An administrator has removed the job's before it could be flushed."""
        self.disk("ext4")
        c = self.daemon.again_with_gate("flush:jobs")
        c.call("PauseAll")
        (n,) = self.submitted(c, "a")
        fixture.sync(self.at)
        (staged,) = [d for d, _, files in os.walk(os.path.join(self.at, ".reclaim")) if files]
        c.call("ResumeAll")
        worker = self.daemon.stopped_worker()
        os.rmdir(staged)
        os.kill(worker, signal.SIGCONT)
        self.assertEqual(c.wait(n), "done")
        self.shut_down()
        self.power_returns()
        self.assertFalse(os.path.exists(staged), self.daemon.said())

    def test_stop_is_no_flush(self):
        """What a run stopped at once does not look at is gone, by the run whose flush was in vain."""
        self.disk("ext4")
        c = self.daemon.again_with_gate("flush:jobs")
        write(self.path("a"))
        fixture.sync(self.at)
        c.call("PauseAll")
        n = c.submit(self.path("a"))
        fixture.sync(self.at)
        c.call("ResumeAll")
        worker = self.daemon.stopped_worker()
        self.assertEqual(self.in_job(), [])
        self.shut_down()
        os.kill(worker, signal.SIGCONT)
        self.daemon.wait_said("Job %d was interrupted" % n)
        for _ in range(50):
            serials = [c.send(verb, "at", [n]) for verb in ("Pause", "Resume")]
            for serial in serials:
                with contextlib.suppress(Error):
                    c.answer(serial)
        self.assertNotIn(c.job(n)["state"], FINISHED)
        c = self.power_returns()
        # The last of these may have come while it was still being stopped.
        with contextlib.suppress(Error):
            c.call("Resume", "at", [n])
        self.assertEqual(c.wait(n), "done")
        self.assertEqual(self.in_job(), [])

    def test_cancel_ends_wait_for_flush(self):
        self.disk("ext4")
        c = self.daemon.client()
        with self.slow_flushes(c):
            _, rest = self.waiting_for_the_next(c)
            c.call("Cancel", "at", rest[:1])
            self.assertIn(c.wait(rest[0]), ("cancelled", "done"))
            self.assertEqual({c.wait(n) for n in rest[1:]}, {"done"})

    def test_flush_survives_worker_replacement(self):
        """After a reload the next job has another one, which flushes what the last one did not."""
        self.disk("ext4")
        c = self.daemon.client()
        with self.slow_flushes(c):
            (a,) = self.submitted(c, "a")
            self.until(lambda: not self.in_job())
            c.call("Reload")
            (b,) = self.submitted(c, "b")
            self.assertEqual({c.wait(n) for n in (a, b)}, {"done"})
        self.assertNotIn("interrupted", self.daemon.said())

    def test_flush_survives_worker_death(self):
        self.disk("ext4")
        c = self.daemon.client()
        with self.slow_flushes(c):
            a, rest = self.waiting_for_the_next(c)
            for pid in fixture.workers_of(self.daemon.process.pid):
                os.kill(pid, 9)
            self.assertEqual({c.wait(n) for n in (a, *rest)}, {"done"})
        self.assertEqual(self.in_job(), [])


if __name__ == "__main__":
    unittest.main()
