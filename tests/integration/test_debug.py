#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The debug log: each decision with its numbers where it was asked for, and nothing where not."""
import os
import re

import daemon_fixture
import fixture
from contents import big_file
from fixture import Case, fill, matrix, write
from test_pacing import Foreground


class Run(Case):
    @matrix(fs=("ext4",), backends=("threads",))
    def test_run_tells_decisions(self, w):
        os.mkdir(w.path("d"))
        fill(w.path("d"), 20000)
        big_file(w.path("big"), 300)
        w.settle()
        with Foreground(w.path("file")):
            r = w.run("d", "big", env={"SYSTEMD_LOG_LEVEL": "debug"})
        self.check_gone(w, r, "file")
        for decision in (r"pacing \d+:\d+: begins check: processes have waited for I/O in the last 10 s",
                         r"check -> paced: \d+ requests of other processes in \d+ us while ours rested",
                         r"quantum \d+ entries, \d+ bytes",
                         r"lanes: \d+ on threads to begin with, \d+ at most, \d+ CPUs",
                         r"large file big: unlinked, and freed in steps"):
            self.assertRegex(r.err, decision)
        for line in r.err.splitlines():
            self.assertRegex(line, r"^reclaimctl\[\d+\]: \S")

    @matrix(fs=("ext4",), backends=("threads",))
    def test_level_is_taken_and_checked(self, w):
        for level, env, on in (("debug", {}, True), ("7", {}, True), ("info", {"SYSTEMD_LOG_LEVEL": "debug"}, False),
                               (None, {}, False)):
            os.mkdir(w.path("d"))
            r = w.run(*["--log-level=" + level] if level else [], "d", env=env)
            self.check_gone(w, r)
            (self.assertIn if on else self.assertNotIn)("lanes:", r.err)
            if not on:
                self.assertEqual(r.err, "")
        w.build("d/f")
        self.check_refused(w, ["--log-level=loud", "d"], "--log-level", name="loud", status=2)

    @matrix(fs=("ext4",), backends=("threads",))
    def test_names_are_escaped(self, w):
        name = "x\n\x1b[31m"
        big_file(w.path(name), 300)
        w.settle()
        r = w.run("--log-level=debug", "--latency=off", name)
        self.check_gone(w, r)
        self.assertIn(r"large file x\n\x1b[31m: ", r.err)


class Daemon(daemon_fixture.Case):
    def submitted(self):
        """A job of one directory with some names in it."""
        c = self.daemon.client()
        os.mkdir(self.path("d"))
        for i in range(100):
            write(self.path("d", "f%d" % i))
        n = c.submit(self.path("d"))
        self.assertEqual(c.wait(n), "done")
        return n

    def test_job_can_be_followed(self):
        self.mount_disk()
        self.daemon.stop()
        self.daemon.start(env={"SYSTEMD_LOG_LEVEL": "debug"})
        n = self.submitted()
        said = self.daemon.said()
        self.assertRegex(said, r"(?m)^reclaimd\[\d+\]: job %d: 1 of 1 names moved to staging$" % n)
        self.assertRegex(said, r"(?m)^reclaimd\[\d+\]: pacing \d+:\d+: begins ")
        self.assertRegex(said, r"(?m)^reclaim-worker\[\d+\]: lanes: ")

    def test_debug_log_tells_jobs_in_place(self):
        self.daemon.configure("staging: off\n")
        self.daemon.stop()
        self.daemon.start(env={"SYSTEMD_LOG_LEVEL": "debug"})
        self.submitted()
        self.assertIn("0 of 1 names moved to staging; the rest is deleted in place: `staging: off`", self.daemon.said())

    def test_journal_gets_the_level(self):
        st = os.stat(self.daemon.log)
        self.daemon.stop()
        self.daemon.start(env={"SYSTEMD_LOG_LEVEL": "7", "JOURNAL_STREAM": "%d:%d" % (st.st_dev, st.st_ino)})
        self.submitted()
        self.assertRegex(self.daemon.said(), r"(?m)^<7>reclaimd\[\d+\]: job ")
        self.assertRegex(self.daemon.said(), r"(?m)^<7>reclaim-worker\[\d+\]: lanes: ")

    def test_debug_log_is_silent_when_off(self):
        self.submitted()
        self.assertFalse(re.search(r"(?m)^(<7>)?[a-z-]+\[\d+\]: ", self.daemon.said()), self.daemon.said())


if __name__ == "__main__":
    fixture.main()
