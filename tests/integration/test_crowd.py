# SPDX-License-Identifier: LGPL-2.1-or-later
"""Users who hold all connections that there are: who has none gets in, at their expense."""
import os
import select
import signal
import subprocess
import time

import dbuswire
from daemon_fixture import Case, user
from fixture import TIMEOUT, USER, command, main, write

ALL, EACH = 448, 64
USERS = [USER - 10 - i for i in range(ALL // EACH)]
LATE = USER - 5
SUBORDINATE = 1 << 20
HOUR = 3600 * 10**6
INTAKES_MOST = 8


def is_open(wire):
    p = select.poll()
    p.register(wire.socket, select.POLLRDHUP)
    return not p.poll(0)


def answers(wire):
    try:
        wire.call("ListJobs", "a{sv}", {})
    except (OSError, EOFError, dbuswire.Error):
        return False
    return True


def with_subordinates(case):
    """USER has ids from SUBORDINATE on, and so has root some after these."""
    subuid = os.path.join(case.daemon.dir, "subuid")
    write(subuid, b"%d:%d:65536\n0:%d:65536\n" % (USER, SUBORDINATE, SUBORDINATE + 65536))
    if not os.path.exists("/etc/subuid"):
        open("/etc/subuid", "ab").close()
    command("mount", "--bind", subuid, "/etc/subuid")
    case.addCleanup(subprocess.run, ["umount", "-l", "/etc/subuid"], check=False)
    case.daemon.stop()
    case.daemon.start()


class Crowd(Case):
    def setUp(self):
        super().setUp()
        self.held = []
        self.addCleanup(lambda: [w.close() for w in self.held])

    def hold(self, uid):
        """A connection that is let in, or None."""
        with user(uid):
            try:
                self.held.append(dbuswire.Connection(self.daemon.socket, timeout=TIMEOUT))
            except (OSError, EOFError, AssertionError, dbuswire.Error):
                return None
        return self.held[-1]

    def hold_most(self, uid, n=EACH):
        """As many as the user is given, of n."""
        return [w for w in (self.hold(uid) for _ in range(n)) if w]

    def test_attack_08_seven_users_hold_all_connections(self):
        held = {uid: self.hold_most(uid) for uid in USERS}
        self.assertEqual({len(v) for v in held.values()}, {EACH})
        # Who has one is left in peace by all of what follows.
        honest = None
        for i, uid in enumerate((LATE, LATE - 1, LATE - 2)):
            began = time.monotonic()
            late = self.hold(uid)
            self.assertTrue(late and answers(late), self.daemon.said())
            print("user %d gets in after %.0f ms" % (i + 1, (time.monotonic() - began) * 1000))
            honest = honest or late
        self.assertTrue(answers(honest))
        # Each came at the expense of one who had most, and shares are smaller now.
        self.until(lambda: sum(is_open(w) for v in held.values() for w in v) == ALL - 3)
        for uid in USERS:
            self.assertIsNone(self.hold(uid))
        self.assertTrue(answers(honest))
        self.assertTrue(answers(self.hold(0)))

    def test_attack_08_subordinate_ids_are_one_account(self):
        with_subordinates(self)
        got = [self.hold(uid) for uid in [USER] + list(range(SUBORDINATE, SUBORDINATE + EACH))]
        self.assertEqual(sum(w is not None for w in got), EACH)
        self.assertTrue(answers(self.hold(LATE)))


class Account(Case):
    """An account with its subordinate ids has the limits of one user, and each id its own jobs."""

    config = "limits: {jobs-per-user: 3, names-per-user: 1000}\n"

    def setUp(self):
        super().setUp()
        os.chmod(self.data, 0o777)
        with_subordinates(self)

    def keep(self, uid):
        """A file of that user's that is held as a job of its own; the job's number."""
        path = self.path("%d-%d" % (uid, len(os.listdir(self.data))))
        write(path)
        os.chown(path, uid, uid)
        return self.daemon.client(uid).submit(path, undo_usec=HOUR)

    def refused(self, uid, limit):
        with self.assertRaises(dbuswire.Error) as e:
            self.keep(uid)
        self.assertEqual(e.exception.name, "LimitExceeded")
        self.assertIn(limit, e.exception.text)

    def check_three(self):
        for uid in (USER, SUBORDINATE, SUBORDINATE + 1, SUBORDINATE + 9):
            self.refused(uid, "uid %d has 3 unfinished jobs" % USER)

    def test_attack_05_jobs_of_subordinate_ids_are_their_account_s(self):
        numbers = {uid: self.keep(uid) for uid in (USER, SUBORDINATE, SUBORDINATE + 1)}
        self.check_three()
        self.keep(LATE)
        # Also those that were on record when the daemon was started.
        self.daemon.stop()
        self.daemon.start()
        self.check_three()
        # What is root's by subuid(5) is not root, and has limits of its own.
        for _ in range(3):
            self.keep(SUBORDINATE + 65536)
        self.refused(SUBORDINATE + 65537, "uid %d has 3" % (SUBORDINATE + 65536))
        # Limits are all that they share.
        for uid, number in numbers.items():
            c = self.daemon.client(uid)
            self.assertEqual([(j["id"], j["uid"]) for j in c.jobs()], [(number, uid)])
            for other in set(numbers.values()) - {number}:
                with self.assertRaises(dbuswire.Error) as e:
                    c.call("Cancel", "at", [other])
                self.assertEqual(e.exception.name, "NoSuchJob")
        self.daemon.client(SUBORDINATE).call("Cancel", "at", [numbers[SUBORDINATE]])
        self.keep(SUBORDINATE + 2)

    def test_attack_05_names_of_subordinate_ids_are_their_account_s(self):
        self.daemon.again_with_gate("stage:gate")
        write(self.path("gate"))
        os.chown(self.path("gate"), USER, USER)
        c = self.daemon.client(USER)
        fds = [os.open(self.data, os.O_PATH | os.O_DIRECTORY), os.memfd_create("names")]
        os.write(fds[1], b"gate\0" * 700)
        serial = c.send("SubmitLists", "a(hh)a{sv}", [(0, 1)], {}, fds=fds)
        for fd in fds:
            os.close(fd)
        worker = self.daemon.stopped_worker()
        for uid, n in ((SUBORDINATE, 700), (SUBORDINATE + 1, 300)):
            with self.assertRaises(dbuswire.Error) as e:
                self.daemon.client(uid).submit_list(self.data, ["gate"] * n, dry_run=True)
            self.assertEqual(e.exception.name, "LimitExceeded")
            self.assertIn("you have more than 1000", e.exception.text)
        self.assertEqual(self.daemon.client(LATE).submit_list(self.data, ["gate"] * 600, dry_run=True)[1], 600)
        os.kill(worker, signal.SIGCONT)
        self.assertGreater(c.answer(serial).body[0], 0)

    def test_attack_05_processes_of_subordinate_ids_are_their_account_s(self):
        write(self.path("f"))
        c = self.daemon.client(SUBORDINATE)
        self.assertEqual(c.jobs(), [])
        before = set(self.daemon.workers())  # with the one that stands between this client and the daemon
        c.submit_list(self.data, ["f"], dry_run=True)
        (first,) = set(self.daemon.workers()) - before
        ended = os.pidfd_open(first)
        self.addCleanup(os.close, ended)
        for uid in range(SUBORDINATE + 1, SUBORDINATE + 1 + INTAKES_MOST):
            self.daemon.client(uid).submit_list(self.data, ["f"], dry_run=True)
        p = select.poll()
        p.register(ended, select.POLLIN)
        # That is much sooner than what ends for having nothing to do.
        self.assertTrue(p.poll(15000), "the first process is still there beside %d" % INTAKES_MOST)


if __name__ == "__main__":
    main()
