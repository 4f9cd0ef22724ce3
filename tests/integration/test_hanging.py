# SPDX-License-Identifier: LGPL-2.1-or-later
"""A filesystem that does not answer, frozen or served by a process that hangs, holds up nothing but
what is on it: two users, three filesystems."""
import contextlib
import fcntl
import os
import signal
import subprocess
import time
import unittest

import dbuswire
from daemon_fixture import Case, described, user
from fixture import FULL, TIMEOUT, USER, command, main, scratch, write

FIFREEZE, FITHAW = 0xc0045877, 0xc0045878
OTHER = USER - 1


def unmounted(path):
    subprocess.run(["umount", "-l", path], check=False)


class Hanging(Case):
    def setUp(self):
        super().setUp()
        # Where only root may write above it, so that spools are served.
        command("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/mnt")
        self.addCleanup(unmounted, "/mnt")
        self.at = {name: self.mount_ext4(name) for name in "abc"}
        for at in self.at.values():
            os.mkdir(os.path.join(at, ".trash"), 0o755)
        self.daemon.configure("".join(
            ["spools:\n"] + ["  %s/.trash: {settle: 0s}\n" % at for at in self.at.values()] +
            ["policies:\n"] + ["  of-%s: {path: %s/data, match: '*', min-free: 1%%}\n" % (name, at)
                               for name, at in self.at.items()]))
        self.daemon.client().call("Reload", "")

    @staticmethod
    def is_stuck(pid):
        with open("/proc/%d/status" % pid, encoding="ascii") as f:
            return "State:\tD" in f.read()

    def mount_ext4(self, name):
        image, at = os.path.join(self.daemon.dir, name + ".image"), os.path.join("/mnt", name)
        os.mkdir(at)
        with open(image, "wb") as f:
            f.truncate(32 << 20)
        command("mkfs.ext4", "-q", "-F", "-N", "2000", image)
        command("mount", "-o", "loop", image, at)
        self.addCleanup(unmounted, at)
        os.chmod(at, 0o755)
        os.mkdir(os.path.join(at, "data"))
        os.chmod(os.path.join(at, "data"), 0o1777)
        return at

    def mount_fuse(self, name, kind):
        """A filesystem of the user's, which hangs from hang() on."""
        return self.mount_hangfs(os.path.join(self.daemon.dir, name), kind, os.path.join(self.daemon.dir, "trigger"))

    def hang(self):
        trigger = os.path.join(self.daemon.dir, "trigger")
        write(trigger)
        self.addCleanup(lambda: os.path.exists(trigger) and os.unlink(trigger))

    def file(self, where, name, uid=0):
        path = os.path.join(self.at[where], "data", name)
        with user(uid) if uid else contextlib.nullcontext():
            write(path)
        return path

    def freeze(self, where):
        fd = os.open(self.at[where], os.O_RDONLY)
        self.addCleanup(os.close, fd)
        alive, tell = os.pipe()
        self.addCleanup(os.close, tell)
        if os.fork() == 0:  # thaws it even if this process is killed
            os.close(tell)
            os.setsid()
            os.read(alive, 1)
            self.thaw(fd)
            os._exit(0)
        os.close(alive)
        fcntl.ioctl(fd, FIFREEZE, 0)
        self.addCleanup(self.thaw, fd)
        return fd

    @staticmethod
    def thaw(fd):
        with contextlib.suppress(OSError):
            fcntl.ioctl(fd, FITHAW, 0)

    def ctl_does(self, *words):
        options = {"plan": [],
                   "policy": ["--configuration-directory=" + os.path.join(self.daemon.dir, "conf")]}
        options = options.get(words[0], [
            "--no-pager", "--runtime-directory=" + os.path.join(self.daemon.dir, "run")])
        p = subprocess.run([scratch.binary, *words, *options], capture_output=True, text=True,
                           timeout=TIMEOUT, check=False)
        self.assertEqual(p.returncode, 0, p.stderr)

    def goes_on(self, *where, uids=(0, USER)):
        """Submits, what is shown, cancelled, put back, spools, plans: all of it, and before any process
        that waits for what hangs has been given up."""
        for place in where:
            for uid in uids:
                name, c = "of-%d" % uid, self.daemon.client(uid)
                path = self.file(place, name, uid)
                self.assertEqual(c.wait(c.submit(path)), "done")
                self.file(place, name, uid)
                n = c.submit(path, undo_usec=3600 * 10**6)
                self.assertFalse(os.path.lexists(path))
                self.assertEqual(c.job(n)["state"], "held")
                c.call("Cancel", "at", [n])
                self.assertEqual(c.wait(n), "cancelled")
                self.assertTrue(os.path.lexists(path))
            moved = os.path.join(self.at[place], ".trash", "moved")
            os.rename(path, moved)
            self.daemon.wait_gone(moved)
            self.ctl_does("plan", os.path.join(self.at[place], ".trash"))
            self.ctl_does("wait", "--free=1K", self.at[place])
            self.ctl_does("policy", "plan", "of-" + place)
        for words in (("list",), ("status",), ("spools",), ("devices",)):
            self.ctl_does(*words)
        self.daemon.client().call("Reload", "")
        self.assertNotIn("does not answer", self.daemon.said())


class Frozen(Hanging):
    def test_attack_07_frozen_filesystem_holds_up_only_itself(self):
        mine, roots = self.file("a", "mine", USER), self.file("a", "roots")
        self.freeze("a")
        for uid, path in ((USER, mine), (0, roots)):
            self.daemon.client(uid).send_submit(path)
        self.goes_on("b", "c")

    def test_attack_07_stopped_while_frozen(self):
        """What waits in the kernel cannot be killed: the daemon ends without it, and begins anew."""
        c = self.daemon.client()
        c.call("PauseAll", "")
        numbers = [self.daemon.client(uid).submit(self.file("a", "job-%d" % uid, uid))
                   for uid in (0, USER)]
        fd = self.freeze("a")
        c.call("ResumeAll", "")
        self.goes_on("b")
        began = time.monotonic()
        self.daemon.stop()
        self.assertLess(time.monotonic() - began, 15)
        self.daemon.start()
        self.goes_on("b", "c")
        self.thaw(fd)
        c = self.daemon.client()
        for n in numbers:
            self.assertEqual(c.wait(n), "done", self.daemon.said())

    def late_rename(self, end):
        """A worker waits in a rename into staging, and the daemon begins anew before that is done."""
        for name in "abc":
            self.file("a", name, USER)
        data = os.path.join(self.at["a"], "data")
        c = self.daemon.again_with_gate("stage:b") and self.daemon.client(USER)
        dirfd = os.open(data, os.O_PATH)
        self.addCleanup(os.close, dirfd)
        c.send("SubmitFiles", "aha(uay)a{sv}", [0], [(0, n) for n in (b"a", b"b", b"c")],
               described({"undo_usec": 3600 * 10**6}), fds=[dirfd])
        worker = self.daemon.stopped_worker()
        fd = self.freeze("a")
        os.kill(worker, signal.SIGCONT)
        self.until_waiting(worker)
        end()
        self.daemon.start()
        c = self.daemon.client()
        self.daemon.wait_said("Job 1 waits: a worker of reclaimd that has been given up")
        (job,) = c.jobs()
        self.goes_on("b")
        self.assertEqual(c.job(1)["state"], job["state"])
        self.thaw(fd)
        return c, job["state"]

    def until_waiting(self, pid):
        self.until(lambda: self.is_stuck(pid))

    def all_in_place(self):
        self.assertEqual(sorted(os.listdir(os.path.join(self.at["a"], "data"))), ["a", "b", "c"], self.daemon.said())
        top = os.path.join(self.at["a"], ".reclaim", str(USER))
        for name in os.listdir(top):
            self.daemon.wait_gone(os.path.join(top, name))

    def test_attack_07_12_late_rename_of_what_is_withdrawn(self):
        c, state = self.late_rename(self.daemon.stop)
        self.assertEqual(state, "paused")
        self.assertEqual(c.wait(1), "cancelled")
        self.all_in_place()

    def test_attack_07_late_rename_of_what_goes_on(self):
        c, state = self.late_rename(self.daemon.kill)
        self.assertEqual(state, "accepted")
        self.until(lambda: c.job(1)["state"] == "held")
        c.call("Restore", "ta{sv}", 1, {})
        self.assertEqual(c.wait(1), "restored")
        self.all_in_place()


class Signals(Hanging):
    """A process has its user's uid: the user may stop it."""

    def stop_deleters(self, *uids):
        """Each has a job on the same disk, whose process stands still. Returns them and the jobs."""
        paths = {uid: self.file("a", "stop-%d" % uid, uid) for uid in uids}
        jobs, stopped = {}, {}
        for uid, path in paths.items():
            c = self.daemon.client(uid)
            jobs[uid] = c.submit(path)
            stopped[uid] = self.daemon.stopped_worker(besides=stopped.values())
            with user(uid):
                os.kill(stopped[uid], signal.SIGSTOP)
        return jobs, stopped

    def setUp(self):
        super().setUp()
        self.daemon.again_with_gate("unlink:1")  # in staging, names are numbers
        self.addCleanup(self.let_go)

    def let_go(self):
        with contextlib.suppress(OSError):
            for worker in self.daemon.workers():
                os.kill(worker, signal.SIGCONT)

    def test_attack_07_stopped_deleters_leave_the_device(self):
        jobs, stopped = self.stop_deleters(USER, OTHER)
        for uid in (0, OTHER - 1):
            path = self.file("a", "mine-%d" % uid, uid)
            c = self.daemon.client(uid)
            n = c.submit(path)
            # Its process comes to the gate, too, past the two that stand there.
            os.kill(self.daemon.stopped_worker(besides=stopped.values()), signal.SIGCONT)
            self.assertEqual(c.wait(n), "done", self.daemon.said())
        for uid, n in jobs.items():
            self.assertEqual(self.daemon.client(uid).job(n)["state"], "running")
            os.kill(stopped[uid], signal.SIGCONT)
            self.assertEqual(self.daemon.client(uid).wait(n), "done")

    @unittest.skipUnless(FULL, "waits until the process is given up")
    def test_attack_07_stopped_deleters_are_given_up(self):
        jobs, stopped = self.stop_deleters(USER)
        again = self.daemon.stopped_worker(besides=stopped.values())
        self.assertIn("was stopped by a signal", self.daemon.said())
        self.assertFalse(os.path.exists("/proc/%d" % stopped[USER]))
        os.kill(again, signal.SIGCONT)
        self.assertEqual(self.daemon.client(USER).wait(jobs[USER]), "done")


class Fuse(Hanging):
    def test_attack_07_hung_fuse_holds_up_only_itself(self):
        """The user looks at it, which hangs; root does, too."""
        at = self.mount_fuse("fuse", "look")
        fd = os.open(at, os.O_PATH)
        self.addCleanup(os.close, fd)
        self.hang()
        for uid in (USER, 0):
            self.daemon.client(uid).send("SubmitFiles", "aha(uay)a{sv}", [0], [(0, b"tree")], {},
                                         fds=[fd])
        self.goes_on("b", "c")

    def test_attack_07_hung_jobs_leave_room(self):
        """More jobs hang than may run at a time."""
        ats = [self.mount_fuse("fuse-%d" % i, "unlink") for i in range(9)]
        self.hang()
        c = self.daemon.client(USER)
        for at in ats:
            with user():
                c.submit(os.path.join(at, "tree"))
        self.goes_on("b", "c", uids=(0, OTHER))

    def test_attack_07_hung_processes_are_bounded(self):
        at = self.mount_fuse("fuse", "look")
        fd = os.open(at, os.O_PATH)
        self.addCleanup(os.close, fd)
        self.hang()
        c, root = self.daemon.client(USER), self.daemon.client()
        arguments = ("SubmitFiles", "aha(uay)a{sv}", [0], [(0, b"tree")], {})
        # A process that goes by an old configuration gets nothing new; it is one of theirs yet.
        for _ in range(8):
            c.send(*arguments, fds=[fd])
            self.assertEqual(c.jobs(), [])
            root.call("Reload", "")
        with self.assertRaises(dbuswire.Error) as e:
            self.daemon.client(USER).call(*arguments, fds=[fd])
        self.assertEqual(e.exception.name, "LimitExceeded")
        self.assertIn(at, e.exception.text)
        self.goes_on("b", uids=(0, OTHER))

    @unittest.skipUnless(FULL, "waits until processes are given up")
    def test_attack_07_stuck_processes_are_bounded(self):
        """Those that were given up are not reaped: where four are, no more are sent after them, but for
        one that is on its way."""
        at = self.mount_fuse("fuse", "look")
        fd = os.open(at, os.O_PATH)
        self.addCleanup(os.close, fd)
        self.hang()
        c = self.daemon.client(USER)
        said = []
        for _ in range(5):
            with self.assertRaises(dbuswire.Error) as e:
                c.call("SubmitFiles", "aha(uay)a{sv}", [0], [(0, b"tree")], {}, fds=[fd])
            said.append(e.exception.name)
        self.assertIn("LimitExceeded", said)
        self.assertLessEqual(len([w for w in self.daemon.workers() if self.is_stuck(w)]), 5)
        c = self.daemon.client(USER)
        path = self.file("b", "mine", USER)
        self.assertEqual(c.wait(c.submit(path)), "done")


if __name__ == "__main__":
    main()
