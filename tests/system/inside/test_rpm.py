# SPDX-License-Identifier: LGPL-2.1-or-later
"""Installation, upgrade and removal of the .rpm: before, and after, the system is the same."""

import os
import unittest

import installation
from installation import POLICY_FILES, SETTINGS, listing
from system import attempt, command, full_speed, install, package, running_job, unit_property, upgrade_in_mid_file

CATALOG = "/usr/lib/systemd/catalog/reclaimd.catalog"
# What belongs to other packages of a distribution with .rpm, and is not there on Debian.
DIRECTORIES = ("/usr/lib64/cmake", "/usr/lib64/pkgconfig", "/usr/share/licenses")


def setUpModule():
    command("rpm", "--initdb")
    command("mkdir", "-p", *DIRECTORIES)


class Package(installation.Case):
    def test_all(self):
        before = listing()
        install("rpm", 1, "reclaimd", "reclaimd-libs", "reclaimd-devel")
        self.check_installed()
        self.assertEqual(command("rpm", "--verify", "--nodeps", "reclaimd", "reclaimd-libs", "reclaimd-devel"), "")
        self.assertEqual(command("rpm", "--query", "--configfiles", "reclaimd"), SETTINGS + "\n")
        self.assertLessEqual({CATALOG, *POLICY_FILES}, set(command("rpm", "--query", "--list", "reclaimd").split()))
        # As the presets of this machine have it: the package has none of its own.
        self.assertEqual(command("systemctl", "is-enabled", "reclaimd").strip(), "enabled")
        command("rpm", "--erase", "reclaimd", "reclaimd-libs", "reclaimd-devel")
        self.check_gone(before)

    def test_upgrade(self):
        install("rpm", 1)
        self.addCleanup(attempt, "rpm", "--erase", "reclaimd")
        with running_job("/backups/large") as job:
            pid = unit_property("MainPID")
            command("rpm", "--upgrade", "--nodeps", package("rpm", 2))
            self.assertNotEqual(unit_property("MainPID"), pid)
            full_speed()
            command("reclaimctl", "wait", str(job))
        command("rpm", "--erase", "reclaimd")
        self.assertFalse(os.path.exists("/var/lib/reclaimd"))

    def test_upgrade_in_mid_file(self):
        install("rpm", 1)
        self.addCleanup(attempt, "rpm", "--erase", "reclaimd")
        upgrade_in_mid_file(lambda: command("rpm", "--upgrade", "--nodeps", package("rpm", 2)))


if __name__ == "__main__":
    unittest.main()
