#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimctl top, in a terminal: keys are pressed, and the screen is read."""
import os
import re
import shutil
import signal
import unittest

import daemon_fixture
import fixture
import terminal
from fixture import Proc, fill, scratch, write
from terminal import Terminal


@unittest.skipUnless(terminal.pyte, "there is no pyte, which is a terminal")
class Case(daemon_fixture.Case):
    @classmethod
    def setUpClass(cls):
        scratch.open()
        # As in a build tree, beside reclaimctl.
        shutil.copy(os.path.join(os.path.dirname(os.environ["RECLAIMCTL"]), "reclaim-top"), scratch.dir)

    def env(self):
        return {"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket), "TZ": "UTC"}

    def top(self, env=None, **how):
        t = Terminal([scratch.binary, "top", "--interval=100ms"], self.env() | (env or {}), **how)
        self.addCleanup(t.close)
        return t

    def hold(self, *names):
        """Each becomes a job that can be acted on for as long as the test takes."""
        c = self.daemon.client()
        for name in names:
            write(os.path.join(os.fsencode(self.data), os.fsencode(name)))
            c.submit(os.path.join(os.fsencode(self.data), os.fsencode(name)), undo_usec=3600 * 1000000)

    def line(self, text, number):
        """Of a job, without the selection's bar."""
        return next((row for row in text.splitlines() if row.split()[:1] == [str(number)]), "")

    def wait_all(self, t, *wanted):
        """Until all of these are on the screen at once: a screen comes in pieces."""
        return t.wait(lambda text: all(re.search(w, text, re.M) for w in wanted))

    def wait_state(self, t, number, state, said=""):
        return t.wait(lambda text: self.line(text, number).split()[1:2] == [state] and said in text)


class Screens(Case):
    def test_what_is_on_it(self):
        self.hold("a", "esc\x1b[31m", "c")
        t = self.top()
        # Of a long path the end is shown, and what could move the cursor is told in words.
        self.wait_all(t, r"\Areclaimd \S+  3 held; deleted 0 entries, 0 B$", r"^ +1 held ",
                      r"^ +2 held .*/data/esc\\x1b\[31m$", r"^ +3 held ", r"^ p pause .*\Z")
        t.press("q")
        self.assertEqual(t.finish(), 0)

    def test_attack_63_in_a_locale_without_utf8(self):
        self.hold("ä", "日本", b"\xff")
        self.wait_all(self.top(env={"LC_ALL": "C"}), r"^ +1 held .*data/\\xc3\\xa4$",
                      r"^ +2 held .*data/\\xe6\\x97\\xa5\\xe6\\x9c\\xac$", r"^ +3 held .*data/\\xff$")

    def test_several_names(self):
        for name in ("a", "b", "c"):
            write(self.path(name))
        self.daemon.client().submit_list(self.data, ["a", "b", "c"], undo_usec=3600 * 1000000)
        self.wait_all(self.top(), r"^ +1 held .*/data/a \+2 more$")

    def test_nothing_to_do(self):
        t = self.top()
        self.wait_all(t, r"  no jobs; ", r"^No jobs that have not finished$")
        for key in "jkprcy":
            t.press(key)
        # A key that shows: those before it have been read then, or y would answer for the job to come.
        t.press("P")
        t.wait("nothing is deleted until R is pressed")
        t.press("R")
        self.hold("a")
        self.wait_state(t, 1, "held")

    def test_another_size(self):
        self.hold(*("f%02d" % n for n in range(30)))
        t = self.top(columns=100, lines=14)
        t.wait("/f00")
        # The selected one stays in sight, however far it is.
        t.press("j" * 29)
        t.wait(lambda text: "/f29" in text and "/f00" not in text)
        t.resize(120, 40)
        self.wait_all(t, r"/f00$", r"/f29$", r"^ p pause .*\Z")
        t.resize(40, 8)
        t.wait(lambda s: s.splitlines()[-1].startswith(" p pause") and "     1" not in s)
        t.resize(5, 2)
        t.resize(100, 40)
        t.wait("/f29")
        t.press("q")
        self.assertEqual(t.finish(), 0)

    def test_a_plain_terminal(self):
        self.hold("a")
        t = self.top(term="vt100")
        self.wait_state(t, 1, "held")

    def test_it_ends_as_it_began(self):
        for end in ("q", "\x03", signal.SIGTERM):
            t = self.top()
            t.wait("no jobs")
            if isinstance(end, str):
                t.press(end)
            else:
                t.process.send_signal(end)
            self.assertEqual(t.finish(), 0)
            # The screen from before comes back, and the cursor.
            self.assertTrue(t.last.find(b"\x1b[?1049l") >= 0 and t.last.find(b"\x1b[?25h") >= 0, t.last)


class Keys(Case):
    def test_pause_and_resume(self):
        self.hold("a", "b")
        t = self.top()
        self.wait_state(t, 2, "held")
        t.press("jp")
        self.wait_state(t, 2, "paused", "Job 2 paused")
        # It is shown elsewhere now, but is still the selected one.
        t.press("r")
        self.wait_state(t, 2, "held", "Job 2 resumed")
        self.wait_state(t, 1, "held")

    def test_cancel_asks(self):
        self.hold("a", "b")
        t = self.top()
        self.wait_state(t, 2, "held")
        t.press("c")
        self.wait_all(t, r"^Cancel job 1\?$", r"^ y yes ")
        t.press("n")
        t.wait("p pause")
        self.assertFalse(os.path.exists(self.path("a")))
        t.press("c")
        t.wait("Cancel job 1?")
        t.press("y")
        t.wait(lambda text: "Job 1 cancelled" in text and not self.line(text, 1))
        self.assertEqual(os.listdir(self.data), ["a"])

    def test_all(self):
        t = self.top()
        t.wait("no jobs")
        t.press("P")
        t.wait("nothing is deleted until R is pressed")
        write(self.path("a"))
        number = self.daemon.client().submit(self.path("a"))
        self.wait_state(t, number, "queued")
        t.press("R")
        t.wait("deleted 1 entry,")

    def test_what_cannot_be_done_is_told(self):
        self.hold("a")
        t = self.top()
        self.wait_state(t, 1, "held")
        t.press("c")
        t.wait("Cancel job 1?")
        self.hold("b")
        self.daemon.client().call("Cancel", "at", [1])
        # By now another one is selected, about which there was no question.
        t.wait(lambda text: not self.line(text, 1) and self.line(text, 2))
        t.press("y")
        t.wait("there is no unfinished job 1")
        self.wait_state(t, 2, "held")


class Work(Case):
    config = "pacing: {latency: 5ms, max-rate: 4MiB/s, min-rate: 64KiB/s}\n"

    def test_a_job_runs(self):
        self.mount_disk()
        fill(self.path("t"), 6000)
        self.daemon.client().submit(self.path("t"))
        t = self.top(columns=110)
        self.wait_state(t, 1, "running")
        self.wait_all(t, r"^ +1 running +[1-9][0-9,]* +\S+ +[1-9][0-9,]*/s ",
                      r"^\S+ +(fast|check|paced) +\S+ +5.0ms .* +[\d,]+/s +\S+ \S+/s$")
        t.wait("deleted 6,001 entries")
        t.wait("No jobs")

    def test_a_large_file_gets_on(self):
        self.mount_disk()
        with open(self.path("large"), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, 32 << 20)
        w = Terminal([scratch.binary, "submit", "--wait", self.path("large")], self.env())
        self.addCleanup(w.close)
        t = self.top(columns=110, term="linux")  # what pyte is
        self.wait_all(t, r"^ +1 running +\[#+\.+\] +[1-9]\d*% +\S+M ")
        w.wait(lambda text: re.search(r"^\[#+\.+\] +[1-9]\d*% 0 of 1 entries, \S+ MiB of 32.0 MiB, "
                                      r"\S+ MiB/s, \S+s left$", text, re.M))
        t.wait("deleted 1 entry, 32.0 MiB")
        w.wait("Job 1 done: 1 entry, 32.0 MiB")


class Without(Case):
    def test_no_daemon(self):
        self.daemon.stop()
        t = self.top()
        self.assertEqual(t.finish(), 5)
        self.assertIn("no daemon to talk to", t.text().replace("\n", ""))

    def test_the_daemon_ends_and_comes_back(self):
        self.hold("a")
        t = self.top()
        self.wait_state(t, 1, "held")
        self.daemon.stop()
        t.wait("reclaimd has ended; waiting for it to come back")
        # What is pressed meanwhile is not done later.
        t.press("p")
        self.daemon.start()
        t.wait("reclaimd is there again")
        self.wait_state(t, 1, "held")

    def test_no_terminal(self):
        p = Proc([scratch.binary, "top"], self.data, env=self.env())
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual((r.status, r.out), (1, ""))
        self.assertEqual(r.err, "reclaimctl: top: needs a terminal: without one, see reclaimctl status\n")

    def test_unknown_terminal(self):
        t = self.top(term="no-such-terminal")
        self.assertEqual(t.finish(), 1)
        self.assertIn("needs a terminal", t.text())

    def test_usage(self):
        for words in (["x"], ["--json"]):
            p = Proc([scratch.binary, "top", *words], self.data, env=self.env())
            self.addCleanup(p.close)
            self.assertEqual(p.finish().status, 2)


if __name__ == "__main__":
    fixture.main()
