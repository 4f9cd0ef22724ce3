# SPDX-License-Identifier: LGPL-2.1-or-later
"""Another version of the package comes, or it goes, while jobs are running."""

import os
import unittest

from system import (FILE, Canary, attempt, command, configure, free, full_speed, install, job_property, remove,
                    running_file, running_job, unit_property, until, upgrade_in_mid_file)


class Upgrade(unittest.TestCase):
    def setUp(self):
        install("deb", 1)
        self.canary = Canary(f"/backups/{self.id()}")
        self.addCleanup(self.canary.check)

    def test_fault_21_upgrade_and_downgrade(self):
        with running_job("/backups/large") as job:
            for release in (2, 1):
                pid = unit_property("MainPID")
                install("deb", release)
                self.assertNotEqual(unit_property("MainPID"), pid)
                self.assertEqual(unit_property("ActiveState"), "active")
                self.assertIn(job_property(job, "State"), ("queued", "running"))
            full_speed()
            command("reclaimctl", "wait", str(job))
        remove()
        self.assertFalse(os.path.exists("/var/lib/reclaimd"))
        self.assertFalse(os.path.exists("/backups/.reclaim"))

    def test_upgrade_in_mid_file(self):
        upgrade_in_mid_file(lambda: install("deb", 2))
        remove()

    def test_removal_in_mid_file(self):
        """Nothing holds the file for a program that is not there; its job stays on record."""
        with running_file("/backups/large") as job:
            before = free()
            command("dpkg", "--remove", "reclaimd")
            until(lambda: free() - before > FILE // 2)
            self.assertTrue(os.path.exists("/var/lib/reclaimd"))
            install("deb", 1)
            command("reclaimctl", "wait", str(job))
        remove()

    def test_removal_keeps_jobs(self):
        with running_job("/backups/large") as job:
            command("dpkg", "--remove", "reclaimd")
            self.assertTrue(os.path.exists("/var/lib/reclaimd"))
            configure("")
            said = command("dpkg", "--purge", "reclaimd")
            self.assertIn("/var/lib/reclaimd is kept", said)
            self.assertTrue(os.path.exists("/var/lib/reclaimd"))
            install("deb", 1)
            command("reclaimctl", "wait", str(job))
        remove()
        self.assertFalse(os.path.exists("/var/lib/reclaimd"))

    def test_what_was_stopped_stays_disabled(self):
        command("systemctl", "disable", "--now", "reclaimd")
        install("deb", 2)
        self.assertEqual(attempt("systemctl", "is-enabled", "reclaimd").stdout.strip(), "disabled")
        self.assertEqual(unit_property("ActiveState"), "inactive")
        remove()


if __name__ == "__main__":
    unittest.main()
