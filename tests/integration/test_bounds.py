#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What one message, one user and all users together may take of memory."""
import contextlib
import os
import signal
import struct
import threading

import daemon_fixture
import fixture
from contents import fingerprint
from daemon_fixture import described
from dbuswire import Error
from fixture import FULL, MIB, USER, Canary, write

# What has been freed is not kept, where the programs are built so: memory is measured here.
os.environ["ASAN_OPTIONS"] = "quarantine_size_mb=1:" + os.environ.get("ASAN_OPTIONS", "")


def peak(pid):
    """The most memory that it has had, in bytes."""
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM:"))


class Peaks(threading.Thread):
    """The most memory of the daemon and of each worker while this runs: a worker goes a second after its last use."""

    def __init__(self, daemon):
        super().__init__()
        self.daemon_process, self.of, self.over = daemon, {}, threading.Event()

    def look(self):
        for pid in [*self.daemon_process.workers(), self.daemon_process.process.pid]:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, StopIteration):
                self.of[pid] = peak(pid)

    def run(self):
        while not self.over.wait(0.02):
            self.look()

    def __enter__(self):
        self.look()
        self.start()
        return self

    def __exit__(self, *_):
        self.look()
        self.over.set()
        self.join()


@contextlib.contextmanager
def memfd(content=b""):
    fd = os.memfd_create("names")
    try:
        with os.fdopen(os.dup(fd), "wb") as f:
            f.write(content)
        yield fd
    finally:
        os.close(fd)


def joined(names):
    return b"".join(os.fsencode(n) + b"\0" for n in names)


def records(directory, paths):
    """As the option `records` wants them."""
    out = b""
    for path in paths:
        st = os.lstat(os.path.join(directory, path))
        out += struct.pack("=QqQ", st.st_ino, 0, st.st_mode & 0o170000) + path.encode() + b"\0"
    return out


class Case(daemon_fixture.Case):
    def lists(self, client, files, **options):
        """Each of these files with names in the data directory: job, accepted, missing."""
        fds = [os.open(self.data, os.O_PATH | os.O_DIRECTORY), *files]
        try:
            m = client.call("SubmitLists", "a(hh)a{sv}", [(0, 1 + i) for i in range(len(files))],
                            described(options), fds=fds)
            return m.body[0], m.body[2], m.body[3]
        finally:
            os.close(fds[0])

    def refused(self, client, content, words, **options):
        """Nothing of it is taken in."""
        before, jobs = fingerprint(self.data), client.jobs(finished=True)
        with memfd(content) as names, self.assertRaises(Error) as e:
            self.lists(client, [names], **options)
        self.assertEqual(e.exception.name, "LimitExceeded")
        self.assertIn(words, e.exception.text)
        self.assertEqual(fingerprint(self.data), before)
        self.assertEqual(client.jobs(finished=True), jobs)

    def before(self, client):
        """The memory of the daemon, and of a worker that has looked at one name."""
        with Peaks(self.daemon) as peaks:
            self.assertEqual(client.submit_list(self.data, ["f"], dry_run=True)[1], 1)
        daemon = peaks.of.pop(self.daemon.process.pid)
        return daemon, max(peaks.of.values())

    def check_peaks(self, peaks, daemon, worker):
        self.assertLess(peaks.of.pop(self.daemon.process.pid) - daemon, 8 * MIB)
        self.assertTrue(peaks.of)
        for most in peaks.of.values():
            self.assertLess(most - worker, 8 * MIB)

    def make(self, *names, uid=None):
        for name in names:
            write(self.path(name))
            if uid:
                os.chown(self.path(name), uid, uid)


class Lists(Case):
    def test_attack_05_the_same_list_twelve_times(self):
        """12 times 8 MiB of names: what is held of them is a chunk of one."""
        c = self.daemon.client()
        self.make("f")
        daemon, worker = self.before(c)
        with memfd(b"".join(b"%0250d\0" % i for i in range(8 * MIB // 251))) as names, Peaks(self.daemon) as peaks:
            with self.assertRaises(Error) as e:
                self.lists(c, [names] * 12)
        self.assertEqual(e.exception.name, "NoSuchPath")
        self.check_peaks(peaks, daemon, worker)

    def test_attack_05_more_than_a_gibibyte_together(self):
        """The second list is too large for what the first one left of the limit."""
        c = self.daemon.client()
        self.make("f")
        with memfd(b"f\0") as first, memfd() as second:
            os.truncate(second, 1024 * MIB)
            with self.assertRaises(Error) as e:
                self.lists(c, [first, second])
        self.assertTrue(os.path.exists(self.path("f")))
        self.assertEqual(e.exception.name, "LimitExceeded")
        self.assertIn("1 GiB", e.exception.text)


class Sums(Case):
    config = "limits: {names-per-user: 1000}\n"

    def setUp(self):
        super().setUp()
        os.chmod(self.data, 0o777)
        self.canary = Canary(os.path.join(self.root, "canary"))
        self.addCleanup(self.canary.check)

    def test_attack_05_of_a_message(self):
        for uid in (0, USER):
            c = self.daemon.client(uid)
            files = ["%d-%d" % (uid, i) for i in range(1001)]
            self.make(*files, uid=uid)
            self.refused(c, joined(files), "1000 names")
            n, accepted, _ = c.submit_list(self.data, files[:990])
            self.assertEqual((accepted, c.wait(n)), (990, "done"))

    def test_attack_05_of_a_message_in_bytes(self):
        c = self.daemon.client(USER)
        files = ["%0200d" % i for i in range(400)]
        self.make(*files, uid=USER)
        self.refused(c, joined(files), "64 bytes")
        n, accepted, _ = c.submit_list(self.data, files[:300])
        self.assertEqual((accepted, c.wait(n)), (300, "done"))

    def test_attack_05_directories_count(self):
        c = self.daemon.client(USER)
        files = ["%d/f" % i for i in range(150)]
        for name in files:
            os.mkdir(self.path(os.path.dirname(name)))
            self.make(name, uid=USER)
            os.chown(self.path(os.path.dirname(name)), USER, USER)
        self.refused(c, records(self.data, files), "counts as 10", records=True)
        # No name exists any more, but the directories do.
        listed = records(self.data, files)
        for name in files:
            os.unlink(self.path(name))
        self.refused(c, listed, "counts as 10", records=True)

    def test_attack_05_a_worker_stops_when_it_is_told_to(self):
        """Two million names would be 80 MB."""
        c = self.daemon.client(USER)
        self.make("f", uid=USER)
        daemon, worker = self.before(c)
        with Peaks(self.daemon) as peaks:
            self.refused(c, b"f\0" * 2000000, "1000 names")
        self.check_peaks(peaks, daemon, worker)
        self.assertEqual(c.submit_list(self.data, ["f"])[1], 1)

    def test_attack_05_of_a_user_and_of_all(self):
        """Some stand still while their names are moved; what others have counts with them."""
        self.daemon.again_with_gate("stage:gate")
        clients, stopped = [], []

        def begin(uid, n=700):
            c = self.daemon.client(uid)
            names = ["gate"] * n
            fds = [os.open(self.data, os.O_PATH | os.O_DIRECTORY), os.memfd_create("names")]
            os.write(fds[1], joined(names))
            clients.append((c, c.send("SubmitLists", "a(hh)a{sv}", [(0, 1)], {}, fds=fds)))
            for fd in fds:
                os.close(fd)
            stopped.append(self.daemon.stopped_worker(besides=stopped))

        self.make("gate", uid=USER)
        many = joined(["gate"] * 700)
        begin(USER)
        # With another group it is another worker, but the same user.
        self.refused(self.daemon.client(USER, [USER + 7]), many, "you have more than 1000")
        os.chmod(self.data, 0o777)
        # Another has half of what is left, so that there is some for the next one: (2000 - 710) / 2.
        self.refused(self.daemon.client(USER + 1), many, "more than 645 names on the way")
        begin(USER + 1, 600)
        self.refused(self.daemon.client(USER + 2), many, "your share while other users have many")
        c = self.daemon.client(USER + 2)
        self.assertEqual(c.submit_list(self.data, ["gate"] * 300, dry_run=True)[1], 300)
        for worker in stopped:
            os.kill(worker, signal.SIGCONT)
        for c, serial in clients:
            self.assertGreater(c.answer(serial).body[0], 0)
        # What was given back can be had again.
        self.make("again", uid=USER)
        n, accepted, _ = self.daemon.client(USER).submit_list(self.data, ["again"] * 700)
        self.assertEqual(accepted, 700)


class Together(Case):
    def test_attack_18_names_and_descriptors(self):
        """Four clients of two users at the same time, each with as many descriptors as a message has
        and names in all of the lists. What they leave open is nothing, and who has not named a file
        loses none."""
        lists, names = (126, 8000) if FULL else (126, 500)
        os.chmod(self.data, 0o777)
        canary = Canary(os.path.join(self.root, "canary"))
        first = self.daemon.client()
        self.make("f")
        self.assertEqual(first.wait(first.submit(self.path("f"))), "done")
        open_before = len(os.listdir("/proc/%d/fd" % self.daemon.process.pid))
        before = peak(self.daemon.process.pid)
        clients = []
        for i, uid in enumerate((USER, USER, USER + 1, 0)):
            files = ["%d-%d" % (i, k) for k in range(names)]
            self.make(*files, uid=uid)
            clients.append((self.daemon.client(uid), joined(files)))
        done = []

        def submit(c, content):
            with memfd(content) as fd:
                done.append((c, *self.lists(c, [fd] * lists)))

        threads = [threading.Thread(target=submit, args=x) for x in clients]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(done), len(clients))
        for c, n, accepted, _ in done:
            self.assertEqual(accepted, lists * names)
            self.assertIn(c.wait(n), ("done", "partial"))
            c.close()
        self.assertEqual(os.listdir(self.data), [])
        canary.check()
        # A sanitizer keeps what is freed for a while.
        self.assertLess(peak(self.daemon.process.pid) - before, (128 if fixture.scratch.sanitized else 64) * MIB)
        self.wait_descriptors(open_before)

    def wait_descriptors(self, most):
        """Until the daemon has no more open than that, but for the staging directories of users."""
        self.until(lambda: len(os.listdir("/proc/%d/fd" % self.daemon.process.pid)) <= most + 16)


if __name__ == "__main__":
    fixture.main()
