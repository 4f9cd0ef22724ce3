#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimd-generator: which units it makes of which policies, and what systemd thinks of them."""
import os
import shutil
import subprocess
import tempfile
import unittest

from fixture import Proc, listing, write

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GENERATOR = os.environ["RECLAIMD_GENERATOR"]
CONFIG = """policies:
  backups: {path: /srv/b, match: "*.gz", max-age: 90d, schedule: daily}
  a_b-c: {path: /srv/c, match: "*", max-age: 1d, schedule: "Mon *-*-* 04:00:00"}
  watched: {path: /srv/d, match: "*", min-free: 10%}
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="reclaim-generator-")
        self.addCleanup(shutil.rmtree, self.dir)
        for name in ("conf", "normal", "early", "late"):
            os.mkdir(self.path(name))

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def generate(self, text, *dirs, status=0):
        write(self.path("conf/reclaimd.yaml"), text)
        p = Proc([GENERATOR, "--configuration-directory=" + self.path("conf"), *dirs], self.dir)
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, status, r)
        return r

    def text(self, *names):
        with open(self.path(*names)) as f:
            return f.read()

    def test_timers(self):
        self.generate(CONFIG, *map(self.path, ("normal", "early", "late")))
        names = ["reclaimd-policy@a_b-c.timer", "reclaimd-policy@backups.timer"]
        self.assertEqual(listing(self.path("early")) + listing(self.path("late")), [])
        wants = "timers.target.wants"
        self.assertEqual(sorted(os.listdir(self.path("normal"))), [*names, wants])
        self.assertEqual(sorted(os.listdir(self.path("normal", wants))), names)
        for name in names:
            self.assertEqual(os.readlink(self.path("normal", wants, name)), "../" + name)
            self.assertIn("SourcePath=%s\n" % self.path("conf/reclaimd.yaml"),
                          self.text("normal", name))
        self.assertIn("\nOnCalendar=daily\n", self.text("normal", names[1]))
        self.assertIn("\nOnCalendar=Mon *-*-* 04:00:00\n", self.text("normal", names[0]))

    def test_trim_timer(self):
        name, wants = "reclaimd-trim-scheduled.timer", "timers.target.wants"
        for off in ("", "trim: {schedule: off, min: 1M}\n"):
            self.generate(off, self.path("normal"))
            self.assertEqual(os.listdir(self.path("normal")), [])
        self.generate("trim: {schedule: weekly}\n", self.path("normal"))
        self.assertEqual(sorted(os.listdir(self.path("normal"))), [name, wants])
        self.assertEqual(os.readlink(self.path("normal", wants, name)), "../" + name)
        self.assertIn("\nOnCalendar=weekly\nPersistent=yes\n", self.text("normal", name))
        self.assertIn("SourcePath=%s\n" % self.path("conf/reclaimd.yaml"), self.text("normal", name))

    def test_trim_timers_of_single_filesystems(self):
        """Named as systemd-escape --path names them; that of all others only where there are others."""
        for text, made in (("{/srv/a-b: {schedule: daily}, /: {}}", {"": "weekly", "@srv-a\\x2db": "daily"}),
                           ("{/: {schedule: daily}}", {"@-": "daily"}),
                           ("{/: {schedule: off}}", {}),
                           ("{/: {schedule: off}, /srv: }", {"": "weekly"})):
            shutil.rmtree(self.path("normal"))
            os.mkdir(self.path("normal"))
            self.generate("trim: {schedule: weekly, filesystems: %s}\n" % text, self.path("normal"))
            names = {"reclaimd-trim-scheduled%s.timer" % at: when for at, when in made.items()}
            found = {name for name in os.listdir(self.path("normal")) if name.endswith(".timer")}
            self.assertEqual(found, set(names), text)
            for name, when in names.items():
                self.assertIn("\nOnCalendar=%s\n" % when, self.text("normal", name))
                self.assertEqual(os.readlink(self.path("normal/timers.target.wants", name)), "../" + name)

    def test_systemd_takes_them(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("there is no systemd-analyze")
        self.generate(CONFIG, self.path("normal"))
        # What the template starts, and needs, is installed elsewhere.
        with open(os.environ["RECLAIMD_POLICY_SERVICE"]) as f:
            template = f.read()
        lines = [line for line in template.splitlines() if "reclaimd.service" not in line]
        service = "\n".join("ExecStart=/bin/true %i" if line.startswith("ExecStart=") else line
                            for line in lines)
        write(self.path("normal/reclaimd-policy@.service"), service + "\n")
        # Of a policy that has no schedule any more.
        shutil.copy(os.path.join(TOP, "systemd", "reclaimd-policy@.timer"), self.path("normal"))
        r = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                            self.path("normal/reclaimd-policy@backups.timer"),
                            self.path("normal/reclaimd-policy@a_b-c.timer"),
                            self.path("normal/reclaimd-policy@.timer")],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           env=dict(os.environ, SYSTEMD_UNIT_PATH=self.path("normal") + ":"))
        self.assertEqual((r.returncode, r.stdout), (0, b""))

    def test_percent_signs_and_backslashes(self):
        self.generate("policies: {p: {path: /srv/b, match: x, max-age: 1d, schedule: 'a%ib'}}\n",
                      self.path("normal"))
        self.assertIn("\nOnCalendar=a%%ib\n", self.text("normal/reclaimd-policy@p.timer"))
        r = self.generate("policies: {q: {path: /srv/b, match: x, max-age: 1d, schedule: 'a\\'}}\n",
                          self.path("early"), status=1)
        self.assertIn('reclaimd.yaml:1:63: policies: q: schedule: found "a\\\\", expected', r.err)
        self.assertEqual(listing(self.path("early")), [])

    def test_what_is_wrong(self):
        r = self.generate("policies: {p: {schedule: daily}}\n", self.path("normal"), status=1)
        self.assertIn("reclaimd.yaml:1:12: policies: p: has no path", r.err)
        self.assertEqual(listing(self.path("normal")), [])
        self.generate("", self.path("normal"))
        self.assertEqual(listing(self.path("normal")), [])
        self.assertIn("No such file", self.generate(CONFIG, self.path("none"), status=1).err)
        self.generate(CONFIG, status=1)
        # Something is there already: it stays as it is.
        write(self.path("normal/reclaimd-policy@backups.timer"), "mine")
        self.assertIn("exists", self.generate(CONFIG, self.path("normal"), status=1).err)
        self.assertEqual(self.text("normal/reclaimd-policy@backups.timer"), "mine")


if __name__ == "__main__":
    unittest.main(verbosity=2)
