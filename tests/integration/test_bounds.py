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


class Held(Case):
    """Many jobs that are held, with paths of almost 4 KiB."""

    jobs = 20000 if FULL else 2000
    at_once = 32

    def setUp(self):
        super().setUp()
        self.deep = os.path.join(self.data, *["d" * 250] * 14)
        os.makedirs(self.deep)
        os.chown(self.deep, USER, USER)

    def hold(self, kind, jobs, undo_usec=3600 * 10**6):
        """Submits that many files as a job each; returns the client, the names and the numbers of the jobs."""
        c, pending, numbers = self.daemon.client(USER), [], []
        names = ["%s-%05d-" % (kind, i) + "n" * 140 for i in range(jobs)]
        for name in names:
            write(os.path.join(self.deep, name), b"x")
            os.chown(os.path.join(self.deep, name), USER, USER)
            pending.append(c.send_submit(os.path.join(self.deep, name), undo_usec=undo_usec))
            if len(pending) == self.at_once:
                numbers.append(c.answer(pending.pop(0)).body[0])
        return c, names, numbers + [c.answer(serial).body[0] for serial in pending]

    def check_peak(self, before):
        """Each job may take 300 bytes, with what a sanitizer puts around it, and all together 2 MiB."""
        self.assertLess(peak(self.daemon.process.pid) - before, 2 * MIB + 600 * self.jobs)

    def test_attack_51_held_jobs_take_no_memory_for_their_paths(self):
        self.hold("first", 500)
        before = peak(self.daemon.process.pid)
        c, names, numbers = self.hold("held", self.jobs)
        self.check_peak(before)
        self.assertEqual(len(set(numbers)), self.jobs)
        self.assertEqual(os.listdir(self.deep), [])
        # The daemon reads from the store what it has not in memory, also after a start.
        for at in (0, self.jobs // 2):
            self.assertEqual([(j["id"], j["path"], j["state"]) for j in c.jobs(ids=[numbers[at], numbers[-1]])],
                             [(numbers[i], os.path.join(self.deep, names[i]).encode(), "held") for i in (at, -1)])
            self.assertEqual(len(c.jobs(limit=100)), 100)
            c.call("Restore", "ta{sv}", numbers[at], {})
            self.assertEqual(c.job(numbers[at])["state"], "restored")
            self.assertIn(names[at], os.listdir(self.deep))
            self.daemon.stop()
            self.daemon.start()
            c = self.daemon.client(USER)
            self.check_peak(before)
        self.assertEqual(len(os.listdir(self.deep)), 2)

    def test_attack_53_all_held_jobs_are_cancelled_by_one_call(self):
        c, _, numbers = self.hold("first", 200)
        c.call("Cancel", "at", numbers)
        c, names, numbers = self.hold("held", self.jobs)
        before = peak(self.daemon.process.pid)
        c.call("Cancel", "at", numbers)
        self.assertEqual(sorted(n for n in os.listdir(self.deep) if n.startswith("held")), names)
        self.check_peak(before)
        self.assertEqual(c.jobs(), [])

    def test_attack_53_no_job_begins_that_is_about_to_be_cancelled(self):
        """The first one of many cannot be put back yet; and jobs may begin."""
        self.daemon.again_with_gate("restore:gate")
        root = self.daemon.client()
        root.call("PauseAll")
        c, numbers = self.daemon.client(USER), []
        names = ["gate"] + ["n%03d" % i for i in range(150)]
        self.make(*names, uid=USER)
        os.chown(self.data, USER, USER)
        numbers = [c.submit(self.path(name)) for name in names]
        serial = c.send("Cancel", "at", numbers)
        worker = self.daemon.stopped_worker()
        root.call("ResumeAll")
        self.make("other")
        self.assertEqual(root.wait(root.submit(self.path("other"))), "done")
        self.assertEqual({j["state"] for j in root.jobs(ids=numbers, finished=True)}, {"paused", "queued"})
        os.kill(worker, signal.SIGCONT)
        c.answer(serial)
        self.assertEqual(sorted(os.listdir(self.data)), sorted([*names, "d" * 250]))

    def test_attack_53_the_windows_of_all_held_jobs_end_together(self):
        c, _, numbers = self.hold("held", self.jobs, undo_usec=10**6)
        self.until(lambda: not c.jobs(limit=1))
        self.assertEqual({j["state"] for j in c.jobs(ids=numbers[-100:], finished=True)}, {"done"})
        self.assertEqual(os.listdir(self.deep), [])


class Shares(Case):
    """What the jobs of all users together take."""

    config = "limits: {jobs-per-user: 300}\n"

    def setUp(self):
        super().setUp()
        os.chmod(self.data, 0o777)

    def fill(self, client, uid, most):
        """Holds jobs until one is refused; returns how many were accepted, and why no more."""
        for i in range(most + 1):
            path = self.path("%d-%d" % (uid, i))
            self.make(os.path.basename(path), uid=uid)
            try:
                client.submit(path, undo_usec=3600 * 10**6)
            except Error as e:
                self.assertEqual(e.name, "LimitExceeded")
                self.assertTrue(os.path.exists(path))
                return i, e.text
        return most + 1, ""

    def test_attack_52_users_together_have_twice_what_one_may_have(self):
        had = []
        for uid, words in ((USER, "the limit"), (USER + 1, "its share"), (USER + 2, "its share")):
            n, why = self.fill(self.daemon.client(uid), uid, 300)
            had.append(n)
            self.assertIn(words, why)
        self.assertEqual(had, [300, 150, 100])
        self.make("root")
        self.assertGreater(self.daemon.client().submit(self.path("root"), undo_usec=3600 * 10**6), 0)
        # Also those on record count.
        self.daemon.stop()
        self.daemon.start()
        for uid in (USER, USER + 1, USER + 2):
            self.assertEqual(self.fill(self.daemon.client(uid), uid, 1)[0], 0)

    def test_attack_52_an_account_has_few_sets_of_groups(self):
        accepted = 0
        for i in range(12):
            self.make("g%d" % i, uid=USER)
            with daemon_fixture.user(USER, groups=list(range(100000 + i, 150000 + i))):
                c = daemon_fixture.Client(self.daemon)
            try:
                accepted += c.submit(self.path("g%d" % i), undo_usec=3600 * 10**6) > 0
            except Error as e:
                self.assertEqual(e.name, "LimitExceeded")
                self.assertIn("too many different groups", e.text)
                self.assertTrue(os.path.exists(self.path("g%d" % i)))
            c.close()
        self.assertEqual(accepted, 5)
        # With the same groups as before there is room.
        self.make("same", uid=USER)
        with daemon_fixture.user(USER, groups=list(range(100000, 150000))):
            c = daemon_fixture.Client(self.daemon)
        self.assertGreater(c.submit(self.path("same"), undo_usec=3600 * 10**6), 0)
        c.close()


if __name__ == "__main__":
    fixture.main()
