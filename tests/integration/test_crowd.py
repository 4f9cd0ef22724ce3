# SPDX-License-Identifier: LGPL-2.1-or-later
"""Users who hold all connections that there are: who has none gets in, at their expense."""
import os
import select
import subprocess
import time

import dbuswire
from daemon_fixture import Case, user
from fixture import TIMEOUT, USER, command, main, write

ALL, EACH = 448, 64
USERS = [USER - 10 - i for i in range(ALL // EACH)]
LATE = USER - 5
SUBORDINATE = 1 << 20


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
        end = time.monotonic() + TIMEOUT
        while sum(is_open(w) for v in held.values() for w in v) != ALL - 3:
            self.assertLess(time.monotonic(), end, self.daemon.said())
            time.sleep(0.01)
        for uid in USERS:
            self.assertIsNone(self.hold(uid))
        self.assertTrue(answers(honest))
        self.assertTrue(answers(self.hold(0)))

    def test_attack_08_subordinate_ids_are_one_account(self):
        subuid = os.path.join(self.daemon.dir, "subuid")
        write(subuid, b"%d:%d:65536\n" % (USER, SUBORDINATE))
        if not os.path.exists("/etc/subuid"):
            open("/etc/subuid", "ab").close()
        command("mount", "--bind", subuid, "/etc/subuid")
        self.addCleanup(subprocess.run, ["umount", "-l", "/etc/subuid"], check=False)
        self.daemon.stop()
        self.daemon.start()
        got = [self.hold(uid) for uid in [USER] + list(range(SUBORDINATE, SUBORDINATE + EACH))]
        self.assertEqual(sum(w is not None for w in got), EACH)
        self.assertTrue(answers(self.hold(LATE)))


if __name__ == "__main__":
    main()
