# SPDX-License-Identifier: LGPL-2.1-or-later
"""Installation and removal of the .deb: before, and after, the system is the same."""

import os
import tempfile
import unittest

import installation
from installation import POLICY_FILES, SETTINGS, listing
from system import attempt, command, install

JOB_DONE = "953e40d13f4e4ce79504667a23d6628a"
# What a removal that is no purge keeps: settings and jobs.
KEPT = ("/etc/reclaimd", "/var/lib/reclaimd",
        "/etc/systemd/system/multi-user.target.wants/reclaimd.service",
        "/etc/systemd/system/sockets.target.wants")


class Package(installation.Case):
    def test_deb(self):
        before = listing()
        install("deb", 1)
        self.check_installed()
        self.assertEqual(command("dpkg", "--verify", "reclaimd"), "")
        self.assertEqual(command("dpkg-query", "-f", "${Conffiles}", "-W", "reclaimd").split()[0::2],
                         [SETTINGS])
        files = command("dpkg", "--listfiles", "reclaimd").split()
        self.assertLessEqual(set(POLICY_FILES), set(map(os.path.realpath, files)))
        command("apt-get", "check")
        # What a user has enabled goes with it.
        command("systemctl", "enable", "--now", "reclaimd-metrics.timer")
        # The journal knows what its messages mean, from then on and no longer.
        self.assertIn("Subject: Job @JOB@ is done", command("journalctl", "--dump-catalog", JOB_DONE))
        command("dpkg", "--purge", "reclaimd")
        self.check_gone(before)
        self.assertNotIn("Subject:", attempt("journalctl", "--dump-catalog", JOB_DONE).stdout)

    def test_deb_removed_keeps_configuration(self):
        before = listing()
        install("deb", 1)
        command("dpkg", "--remove", "reclaimd")
        left = listing() - before
        self.assertEqual({path for path in left if not path.startswith(KEPT)}, set())
        command("dpkg", "--purge", "reclaimd")
        self.check_gone(before)

    def test_library(self):
        """A program is built with what libreclaim-dev brings along, and runs with libreclaim0."""
        before = listing()
        install("deb", 1, "reclaimd", "libreclaim0", "libreclaim-dev")
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            command("sh", "-ec", "gcc -Wall -Werror -o program /usr/share/doc/libreclaim-dev/examples/remove-file.c "
                                 "$(pkg-config --cflags --libs libreclaim)", cwd=directory)
            with open("/backups/old", "wb") as f:
                f.write(b"x")
            self.assertEqual(command(f"{directory}/program", "/backups/old"), "/backups/old: deleted\n")
        # The daemon does without it.
        command("dpkg", "--purge", "libreclaim-dev", "libreclaim0")
        self.check_installed()
        command("dpkg", "--purge", "reclaimd")
        self.check_gone(before)


if __name__ == "__main__":
    unittest.main()
