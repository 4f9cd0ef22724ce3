#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A week of a new user's policies, under systemd in an emulated machine, whose clock can be set: week.py is what
happens there. The power cut on its last day ends the first machine; the second one has the same disks.

  RECLAIM_BUILD   what is installed there
  RECLAIM_STEPS   only so many steps of three hours, an even number, without the power cut, to try something"""
import os
import shutil
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import fixture
import machine
import week
from fixture import MIB, command, scratch

POWER_CUT = max(week.ACCIDENTS)
SIZES = (128, 256, 256, 256)


class Week(unittest.TestCase):
    def install(self):
        """Where a package of the administrator's own goes."""
        command("cmake", "--install", os.environ["RECLAIM_BUILD"], env=os.environ | {"DESTDIR": self.layer})
        # Where the bus looks.
        bus, manager = (os.path.join(self.layer, "etc", name) for name in ("dbus-1/system.d", "systemd/system.conf.d"))
        os.makedirs(bus)
        shutil.copy(os.path.join(HERE, "../../conf/org.reclaimd1.conf"), bus)
        # In the service's sandbox leaks cannot be looked for.
        os.makedirs(manager)
        with open(os.path.join(manager, "test.conf"), "w", encoding="ascii") as f:
            f.write("[Manager]\nDefaultEnvironment=ASAN_OPTIONS=detect_leaks=0\n")

    def disks(self):
        for number, mib in enumerate(SIZES):
            path = os.path.join(scratch.dir, "disk-%d" % number)
            with open(path, "wb") as f:
                f.truncate(mib * MIB)
            command("mkfs.ext4", "-q", "-F", "-m", "0", path)
            yield path

    def run_machine(self, part, step, clock, disks):
        with open(os.path.join(scratch.dir, "said-" + part), "w+", encoding="utf-8", errors="replace") as said:
            p = machine.run([sys.executable, os.path.join(HERE, "week.py"), part, str(step)], disks, timeout=1500,
                            layer=self.layer, clock=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(clock)),
                            stdout=said)
            said.seek(0)
            p.stdout = said.read()
        if p.returncode == machine.SKIPPED:
            self.skipTest("there is no emulated machine")
        print(p.stdout, file=sys.stderr)
        return p

    def test_a_week(self):
        scratch.open()
        self.layer = os.path.join(scratch.dir, "layer")
        self.install()
        disks = list(self.disks())
        steps = int(os.environ.get("RECLAIM_STEPS", "0"))
        p = self.run_machine("until", steps or POWER_CUT, week.START, disks)
        if steps:
            self.assertEqual(p.returncode, 0)
            return
        self.assertEqual(p.returncode, machine.ENDED)
        self.assertIn("power cut", p.stdout.splitlines()[-1])
        p = self.run_machine("from", POWER_CUT, week.START + POWER_CUT * week.STEP, disks)
        self.assertEqual(p.returncode, 0)


if __name__ == "__main__":
    fixture.main()
