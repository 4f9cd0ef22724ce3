#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Jobs that trim, with the real daemon, and loop devices whose image tells what was trimmed.

The daemon has no CAP_SYS_ADMIN, as in its unit, but where a test is about one that has. What systemd does
for reclaimd-trim.socket is done here: a process for each connection, whose steps a test can hold."""
import contextlib
import errno
import json
import os
import select
import socket
import struct
import subprocess
import threading
import unittest

import dbuswire
import fixture
import json_page
from daemon_fixture import Case, Daemon
from fixture import MIB, USER, command, is_stopped, scratch, until

JOB = "org.reclaimd1.Job"
SIZE = 2048 * MIB
FULL = 64 * MIB  # of an image is allocated, at its end, which a trim comes to last


def allocated(path):
    return os.stat(path).st_blocks * 512


class Unit:
    """The socket and its processes; what is said passes through here."""

    def __init__(self, path, program):
        self.path, self.program = path, program
        self.processes = []
        self.steps = 0  # that were asked for
        self.hold_from = None  # steps from this one on are not passed on
        self.changed = threading.Condition()
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listening.bind(path)
        self.listening.listen(8)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                theirs, _ = self.listening.accept()
            except OSError:
                return
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with its:
                self.processes.append(subprocess.Popen([self.program], stdin=its, stdout=subprocess.DEVNULL))
            threading.Thread(target=self.relay, args=(theirs, ours), daemon=True).start()

    def relay(self, theirs, ours):
        requests = 0
        with theirs, ours:
            while True:
                for ready in select.select([theirs, ours], [], [])[0]:
                    try:
                        packet = ready.recv(65536)
                    except OSError:
                        packet = b""
                    if not packet:
                        return
                    if ready is theirs:
                        requests += 1
                        if requests > 1 and not self.pass_step(theirs):
                            return
                    with contextlib.suppress(OSError):
                        (ours if ready is theirs else theirs).send(packet)

    def pass_step(self, theirs):
        """Waits while steps are held; False if who asked has gone."""
        with self.changed:
            self.steps += 1
            self.changed.notify_all()
            while self.hold_from is not None and self.steps >= self.hold_from:
                self.changed.wait(0.05)
                if select.select([theirs], [], [], 0)[0]:
                    return False
        return True

    def hold(self, step):
        with self.changed:
            self.hold_from = step

    def wait_steps(self, n):
        with self.changed:
            if not self.changed.wait_for(lambda: self.steps >= n, fixture.TIMEOUT):
                raise AssertionError("only %d steps were asked for" % self.steps)

    def close(self):
        self.hold(None)
        self.listening.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        for p in self.processes:
            p.kill()
            p.wait()


class TrimCase(Case):
    capable = False

    def setUp(self):
        words = Daemon.words
        if not self.capable:
            self.addCleanup(setattr, Daemon, "words", words)
            Daemon.words = lambda daemon: ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"] + words(daemon)
        super().setUp()
        self.unit = None
        self.disk = self.make_disk("disk")
        self.client = self.daemon.client()

    def start_unit(self):
        self.unit = Unit(os.path.join(self.daemon.dir, "run", "trim"),
                         os.path.join(os.path.dirname(os.environ["RECLAIMD"]), "reclaim-trim"))
        self.addCleanup(self.unit.close)

    def image(self, name):
        return os.path.join(self.daemon.dir, name + ".img")

    def make_disk(self, name):
        at = os.path.join(self.daemon.dir, name)
        os.mkdir(at)
        self.make_image(name)
        command("mount", "-o", "loop,nodiscard", self.image(name), at)
        self.addCleanup(fixture.unmount, at)
        return at

    def make_image(self, name):
        with open(self.image(name), "wb") as f:
            os.posix_fallocate(f.fileno(), SIZE - FULL, FULL)
        command("mkfs.ext4", "-q", "-F", "-N", "8000", "-E", "nodiscard", self.image(name))
        return self.image(name)

    def trim(self, at=None, client=None, **options):
        kinds = {"min_bytes": "t"}
        described = {k.replace("_", "-"): (kinds[k], v) for k, v in options.items()}
        return (client or self.client).call("Trim", "aya{sv}", os.fsencode(at or self.disk), described).body[0]

    def refused(self, error, words, *args, **kw):
        with self.assertRaises(dbuswire.Error) as e:
            self.trim(*args, **kw)
        self.assertEqual(e.exception.name, error)
        self.assertIn(words, str(e.exception))

    def act(self, verb, job):
        return self.client.call(verb, "at", [job])

    def is_trimmed(self, name="disk"):
        return allocated(self.image(name)) < FULL // 2

    def held_midway(self, step=3):
        self.unit.hold(step)
        job = self.trim()
        self.unit.wait_steps(step)
        self.assertEqual(self.client.job(job)["state"], "running")
        return job


class Trims(TrimCase):
    def setUp(self):
        super().setUp()
        self.start_unit()

    def test_trim_job_gives_back_all_that_is_free(self):
        self.assertFalse(self.is_trimmed())
        job = self.trim()
        self.assertEqual(self.client.wait(job), "done", self.daemon.said())
        self.assertTrue(self.is_trimmed(), allocated(self.image("disk")))
        self.assertEqual(self.client.get(job, "Kind"), "trim")
        self.assertGreater(self.client.get(job, "LongestStepUSec"), 0)
        line = self.client.job(job)
        self.assertEqual((line["uid"], line["origin"], line["path"]), (0, "submit", os.fsencode(self.disk)))
        self.assertGreater(line["freed"], SIZE // 2)
        self.assertEqual(self.client.problems(job), [])
        self.assertIn("trimmed, in steps of at most", self.daemon.said())

    def test_trim_job_is_paused_midway_and_goes_on(self):
        job = self.held_midway()
        self.act("Pause", job)
        self.assertEqual(self.client.job(job)["state"], "paused")
        self.assertFalse(self.is_trimmed())
        self.unit.hold(None)
        self.act("Resume", job)
        self.assertEqual(self.client.wait(job), "done", self.daemon.said())
        self.assertTrue(self.is_trimmed())

    def test_trim_job_is_cancelled_midway(self):
        job = self.held_midway()
        self.act("Cancel", job)
        self.assertEqual(self.client.wait(job), "cancelled")
        self.assertFalse(self.is_trimmed())
        until(lambda: self.unit.processes[0].poll() is not None)

    def test_trim_job_waits_while_all_pauses(self):
        job = self.held_midway()
        self.client.call("PauseAll", "")
        self.assertEqual(self.client.job(job)["state"], "queued")
        self.unit.hold(None)
        self.client.call("ResumeAll", "")
        self.assertEqual(self.client.wait(job), "done")

    def test_trim_job_cannot_be_restored(self):
        job = self.held_midway()
        with self.assertRaises(dbuswire.Error) as e:
            self.client.call("Restore", "ta{sv}", job, {})
        self.assertEqual(e.exception.name, "WrongState")
        self.assertIn("trims free space", str(e.exception))
        self.act("Cancel", job)
        self.client.wait(job)

    def test_trim_job_goes_on_after_the_daemon_was_killed(self):
        job = self.held_midway()
        self.daemon.kill()
        self.daemon.clients.clear()
        self.unit.hold(None)
        self.daemon.start()
        self.client = self.daemon.client()
        self.assertEqual(self.client.wait(job), "done", self.daemon.said())
        self.assertTrue(self.is_trimmed())
        self.assertEqual(self.client.get(job, "Kind"), "trim")

    def test_trim_job_is_queued_when_the_daemon_stops(self):
        job = self.held_midway()
        self.daemon.stop()
        self.unit.hold(None)
        self.daemon.start()
        self.client = self.daemon.client()
        self.assertEqual(self.client.wait(job), "done", self.daemon.said())

    def test_trim_of_another_filesystem_mounted_there_fails(self):
        job = self.held_midway()
        self.act("Pause", job)
        self.unit.hold(None)
        until(lambda: all(p.poll() is not None for p in self.unit.processes))
        fixture.unmount(self.disk)
        other = self.make_image("other")
        command("mount", "-o", "loop,nodiscard", other, self.disk)
        before = allocated(other)
        self.act("Resume", job)
        self.assertEqual(self.client.wait(job), "failed")
        self.assertIn("another filesystem is mounted there", self.client.get(job, "Message"))
        self.assertEqual(allocated(other), before)
        self.assertEqual(len(self.unit.processes), 1)

    def test_trim_of_what_was_unmounted_fails(self):
        job = self.held_midway()
        self.act("Pause", job)
        self.unit.hold(None)
        until(lambda: all(p.poll() is not None for p in self.unit.processes))
        fixture.unmount(self.disk)
        self.act("Resume", job)
        self.assertEqual(self.client.wait(job), "failed")
        self.assertIn("not mounted there any more", self.client.get(job, "Message"))

    def test_second_trim_is_answered_with_the_first(self):
        job = self.held_midway()
        self.assertEqual(self.trim(), job)
        self.act("Pause", job)
        self.assertEqual(self.trim(), job)
        self.unit.hold(None)
        self.act("Resume", job)
        self.client.wait(job)
        again = self.trim()
        self.assertGreater(again, job)
        self.assertEqual(self.client.wait(again), "done")

    def test_two_trims_at_once_are_one(self):
        second = self.daemon.client()
        args = ("Trim", "aya{sv}", os.fsencode(self.disk), {})
        self.unit.hold(1)
        serials = [(c, c.send(*args)) for c in (self.client, second)]
        answers = {c.answer(serial).body[0] for c, serial in serials}
        self.assertEqual(len(answers), 1)
        self.unit.hold(None)
        self.assertEqual(self.client.wait(answers.pop()), "done")

    def test_deletions_there_go_on_beside_a_trim(self):
        job = self.held_midway()
        files = [os.path.join(self.disk, "file-%d" % i) for i in range(3)]
        for path in files:
            with open(path, "wb") as f:
                f.write(b"x" * 100000)
        self.assertEqual(self.client.wait(self.client.submit(*files)), "done")
        self.assertFalse(any(map(os.path.exists, files)))
        self.assertEqual(self.client.job(job)["state"], "running")
        self.unit.hold(None)
        self.assertEqual(self.client.wait(job), "done")

    def test_process_that_dies_is_started_again(self):
        job = self.held_midway()
        self.unit.processes[0].kill()
        self.unit.hold(None)
        self.assertEqual(self.client.wait(job), "done", self.daemon.said())
        self.assertTrue(self.is_trimmed())
        self.assertIn("was interrupted", self.daemon.said())

    def test_user_may_not_trim(self):
        user = self.daemon.client(USER)
        self.refused("NotAuthorized", "only root", client=user)
        job = self.held_midway()
        self.refused("NotAuthorized", "only root", client=user)
        self.act("Cancel", job)
        self.client.wait(job)

    def test_bad_mount_points_are_refused(self):
        inside = os.path.join(self.disk, "lost+found")
        self.refused("InvalidPath", "no mount point", at=inside)
        self.refused("InvalidPath", "no mount point", at="relative")
        self.refused("InvalidPath", "no mount point", at=os.path.join(self.daemon.dir, "absent"))
        self.refused("Unsupported", "read-only", at=self.read_only())
        self.assertEqual(self.client.jobs(finished=True), [])

    def read_only(self):
        command("mount", "-o", "remount,ro", self.disk)
        return self.disk

    def test_tmpfs_fails_and_says_why(self):
        job = self.trim(at=self.root)
        self.assertEqual(self.client.wait(job), "failed")
        self.assertIn("on no block device", self.client.get(job, "Message"))

    def test_least_size_leaves_smaller_pieces(self):
        job = self.trim(min_bytes=1 << 40)
        self.assertEqual(self.client.wait(job), "done")
        self.assertEqual(self.client.job(job)["freed"], 0)
        self.assertFalse(self.is_trimmed())

    def test_ctl_shows_it(self):
        job = self.held_midway()
        show = scratch_ctl(self.daemon, "list", "--no-pager")
        self.assertRegex(show, r"KIND")
        self.assertRegex(show, r"%d +running +trim" % job)
        self.unit.hold(None)
        self.assertEqual(self.client.wait(job), "done")
        self.assertRegex(scratch_ctl(self.daemon, "show", "--no-pager", str(job)), r"Trimmed: .* in steps of at most")
        self.assertIn('"kind":"trim"', scratch_ctl(self.daemon, "show", "--json", str(job)))


class Alone(TrimCase):
    """There is no such unit."""

    def test_without_the_right_it_fails_and_says_so(self):
        job = self.trim()
        self.assertEqual(self.client.wait(job), "failed")
        self.assertIn("reclaimd-trim.socket", self.client.get(job, "Message"))
        self.assertFalse(self.is_trimmed())


class Capable(TrimCase):
    capable = True

    def test_trims_by_a_process_of_its_own(self):
        job = self.trim()
        self.assertEqual(self.client.wait(job), "done", self.daemon.said())
        self.assertTrue(self.is_trimmed())

    def test_killed_daemon_leaves_no_process(self):
        self.client = self.daemon.again_with_gate("trim:first")
        job = self.trim()
        until(lambda: is_stopped(self.daemon.process.pid))
        children = self.daemon.workers() or threads_children(self.daemon.process.pid)
        self.assertTrue(children)
        self.daemon.kill()
        self.daemon.clients.clear()
        until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in children))
        self.daemon.start()
        self.client = self.daemon.client()
        self.assertEqual(self.client.wait(job), "done", self.daemon.said())


class UnitProgram(TrimCase):
    """reclaim-trim itself, asked by a client that says what is not so."""

    def ask(self, mount, dev, size=None):
        """What its first report has for an error; 0: it serves. And the process."""
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(ours.close)
        with its:
            p = subprocess.Popen([os.path.join(os.path.dirname(os.environ["RECLAIMD"]), "reclaim-trim")], stdin=its,
                                 stdout=subprocess.DEVNULL)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        request = struct.pack("=QQ4096s", dev, 0, os.fsencode(mount))
        ours.settimeout(fixture.TIMEOUT)
        ours.send(request[:size])
        # Five numbers of 64 bits, and then the error.
        return -struct.unpack_from("=i", ours.recv(4096), 40)[0], p

    def test_unit_refuses_what_is_not_meant(self):
        dev = os.stat(self.disk).st_dev
        link = os.path.join(self.daemon.dir, "link")
        os.symlink(self.disk, link)
        for mount, number, error in ((self.disk, dev + 1, errno.ESTALE),
                                     (os.path.join(self.disk, "lost+found"), dev, errno.ENOENT),
                                     (link, dev, errno.ENOTDIR), (self.disk + "/absent", dev, errno.ENOENT),
                                     ("relative", dev, errno.EBADMSG)):
            with self.subTest(mount=mount):
                said, process = self.ask(mount, number)
                self.assertEqual(said, error, os.strerror(said))
                self.assertEqual(process.wait(fixture.TIMEOUT), 1)
        self.assertEqual(self.ask(self.disk, dev, size=100)[0], errno.EBADMSG)
        self.assertFalse(self.is_trimmed())

    def test_unit_keeps_one_right(self):
        said, process = self.ask(self.disk, os.stat(self.disk).st_dev)
        self.assertEqual(said, 0)
        with open("/proc/%d/status" % process.pid, encoding="ascii") as f:
            status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
        self.assertEqual(int(status["CapPrm"], 16), 1 << 21)
        self.assertEqual((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"))

    def test_unit_is_not_started_by_hand(self):
        r = subprocess.run([os.path.join(os.path.dirname(os.environ["RECLAIMD"]), "reclaim-trim")],
                           stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(r.returncode, 1)
        self.assertIn("reclaimd-trim.socket", r.stderr)


class After(TrimCase):
    """`after:` of the configuration, and what metrics tell."""

    def setUp(self):
        super().setUp()
        self.start_unit()

    def deletes(self, size, at=None):
        path = os.path.join(at or self.disk, "large")
        with open(path, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, size)
        self.assertEqual(self.client.wait(self.client.submit(path)), "done")

    def configured(self, text):
        self.daemon.configure(text)
        self.client.call("Reload", "")

    def trims(self):
        return [j for j in self.client.jobs(finished=True) if j["origin"] == "trim:after"]

    def test_it_is_trimmed_when_jobs_have_freed_so_much(self):
        self.configured("trim: {after: 30M}\n")
        self.deletes(20 * MIB)
        self.assertEqual(self.trims(), [])
        self.deletes(20 * MIB)
        until(self.trims)
        self.assertEqual(self.client.wait(self.trims()[0]["id"]), "done")
        self.assertTrue(self.is_trimmed())
        # It is counted anew.
        self.deletes(20 * MIB)
        self.assertEqual(len(self.trims()), 1)

    def test_not_elsewhere_and_not_where_discard_is_on(self):
        other = self.make_disk("other")
        command("mount", "-o", "remount,discard", self.disk)
        self.configured("trim: {after: 1M, filesystems: [%s]}\n" % self.disk)
        self.deletes(8 * MIB)
        self.deletes(8 * MIB, at=other)
        self.assertEqual(self.trims(), [])

    def test_each_filesystem_after_as_much_as_it_says(self):
        other = self.make_disk("other")
        self.configured("trim: {after: 1G, filesystems: {%s: {after: 30M}, %s: {}}}\n" % (self.disk, other))
        self.deletes(40 * MIB, at=other)
        self.deletes(40 * MIB)
        until(self.trims)
        self.assertEqual([j["path"] for j in self.trims()], [os.fsencode(self.disk)])

    def test_cost_of_the_first_step_is_told(self):
        """By devices, also after a pause, and until the daemon ends."""
        def told():
            (device,) = json.loads(scratch_ctl(self.daemon, "devices", "--interval=0", "--json", self.disk))
            return device["discard_setup"]["first_step_usec_per_mib"]

        with open(os.path.join(self.disk, "file"), "w", encoding="ascii"):
            pass
        self.assertIsNone(told())
        self.client.wait(self.trim())
        cost = told()
        self.assertGreater(cost, 0)
        self.assertRegex(scratch_ctl(self.daemon, "devices", "--interval=0", self.disk),
                         r"; a MiB takes %.2fms \(first step of a trim" % (cost / 1000))
        self.daemon.stop()
        self.daemon.start()
        self.assertIsNone(told())

    def test_metrics_of_trims(self):
        def metrics():
            return scratch_ctl(self.daemon, "metrics")

        self.assertNotIn("reclaimd_trims_total{", metrics())
        self.client.wait(self.trim())
        at = '{filesystem="%s"} ' % self.disk
        said = metrics()
        self.assertIn('reclaimd_trims_total{state="done"} 1\n', said)
        self.assertRegex(said, r"reclaimd_trimmed_bytes_total%s[1-9]\d{8,}\n" % at)
        self.assertRegex(said, r"reclaimd_trim_longest_step_seconds%s0\.\d+\n" % at)
        last = r"reclaimd_trim_last_done_timestamp_seconds%s[1-9]\d{8,}\.\d+\n" % at
        self.assertRegex(said, last)
        # Of these, one lasts.
        self.daemon.stop()
        self.daemon.start()
        self.client = self.daemon.client()
        said = metrics()
        self.assertIn("reclaimd_trimmed_bytes_total%s0\n" % at, said)
        self.assertRegex(said, last)


class Submit(TrimCase):
    """reclaimctl trim --submit."""

    def setUp(self):
        super().setUp()
        self.start_unit()

    def ctl(self, *words):
        return subprocess.run([scratch.binary, "trim", "--submit", "--runtime-directory=" + os.path.join(self.daemon.dir, "run"),
                               "--configuration-directory=" + os.path.join(self.daemon.dir, "conf"), *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)

    def test_path_inside_stands_for_its_filesystem(self):
        r = self.ctl("--wait", os.path.join(self.disk, "lost+found"))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("Job 1: trims " + self.disk, r.stdout)
        self.assertTrue(self.is_trimmed())
        self.assertEqual(self.client.job(1)["state"], "done")

    def test_configured_filesystems_are_trimmed(self):
        other = self.make_disk("other")
        self.daemon.configure("trim: {filesystems: [%s]}\n" % other)
        r = self.ctl("--configured", "--wait", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn('"jobs":[1]', r.stdout)
        self.assertLessEqual(json_page.printed(json.loads(r.stdout.splitlines()[0])),
                             json_page.described("trim --submit", besides=("wait",)))
        self.assertTrue(self.is_trimmed("other"))
        self.assertFalse(self.is_trimmed())

    def test_configured_filesystem_with_a_schedule_of_its_own(self):
        """Is trimmed when it is named, and not with the others."""
        other = self.make_disk("other")
        self.daemon.configure("trim: {filesystems: {%s: {schedule: daily, min: 1T}, %s: {}}}\n" % (other, self.disk))
        self.assertEqual(self.ctl("--configured", "--wait").returncode, 0)
        self.assertTrue(self.is_trimmed())
        self.assertFalse(self.is_trimmed("other"))
        r = self.ctl("--configured", "--wait", other)
        self.assertEqual(r.returncode, 1)
        self.assertIn("more than the filesystem has", r.stderr)
        self.daemon.configure("trim: {filesystems: {%s: {schedule: daily}}}\n" % other)
        self.assertIn("has a schedule of its own", self.ctl("--configured").stderr)
        self.assertIn("is none of the mount points", self.ctl("--configured", self.disk).stderr)
        self.assertEqual(self.ctl("--configured", "--wait", other).returncode, 0)
        self.assertTrue(self.is_trimmed("other"))

    def test_one_that_fails_is_told_and_the_others_are_done(self):
        command("mount", "-o", "remount,ro", self.make_disk("other"))
        r = self.ctl("--wait", os.path.join(self.daemon.dir, "other"), self.disk)
        self.assertEqual(r.returncode, 3, r.stdout)
        self.assertIn("read-only", r.stderr)
        self.assertTrue(self.is_trimmed())

    def test_waiting_fails_with_the_job(self):
        self.unit.hold(3)
        p = subprocess.Popen([scratch.binary, "trim", "--submit", "--wait", "--quiet",
                              "--runtime-directory=" + os.path.join(self.daemon.dir, "run"), self.disk])
        self.unit.wait_steps(3)
        self.assertIsNone(p.poll())
        self.act("Cancel", 1)
        self.assertEqual(p.wait(fixture.TIMEOUT), 1)

    def test_words_that_do_not_go_together(self):
        for words in (["--all", self.disk], ["--configured", "--all"], ["--dry-run", self.disk],
                      ["--latency=5ms", self.disk], []):
            self.assertEqual(self.ctl(*words).returncode, 2, words)
        self.assertEqual(self.client.jobs(finished=True), [])

    def test_user_is_not_authorized(self):
        r = subprocess.run(["setpriv", "--reuid=%d" % USER, "--clear-groups", scratch.binary, "trim", "--submit",
                            "--runtime-directory=" + os.path.join(self.daemon.dir, "run"), self.disk],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(r.returncode, 4, r.stderr)


def threads_children(pid):
    found = []
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/children" % (pid, task), encoding="ascii") as f:
            found += map(int, f.read().split())
    return found


def scratch_ctl(daemon, verb, *words):
    return command(scratch.binary, verb, "--runtime-directory=" + os.path.join(daemon.dir, "run"), *words)


if __name__ == "__main__":
    unittest.main()
