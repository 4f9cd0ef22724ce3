# SPDX-License-Identifier: LGPL-2.1-or-later
"""Installation and removal of the .deb and of the .rpm: before, and after, the system is the same."""

import os
import unittest

from system import attempt, command, install

# What may be there after a removal: the package manager's and the service manager's own records.
RECORDS = ("/var/lib/dpkg", "/var/lib/rpm", "/root/.rpmdb", "/var/log", "/var/lib/systemd", "/var/cache",
           "/var/lib/polkit-1", "/var/tmp/systemd-private", "/etc/.pwd.lock")
# What runs policies by their schedules.
POLICY_FILES = ("/usr/lib/systemd/system-generators/reclaimd-generator",
                "/usr/lib/systemd/system/reclaimd-policy@.service")
CATALOG = "/usr/lib/systemd/catalog/reclaimd.catalog"
JOB_DONE = "953e40d13f4e4ce79504667a23d6628a"
# What a removal that is no purge keeps: settings and jobs.
KEPT = ("/etc/reclaimd", "/var/lib/reclaimd",
        "/etc/systemd/system/multi-user.target.wants/reclaimd.service",
        "/etc/systemd/system/sockets.target.wants")
SETTINGS = "/etc/reclaimd/reclaimd.yaml"
LOOKED_AT = ("/etc", "/usr", "/var", "/root", "/backups", "/home", "/srv")


def listing():
    found = set()
    for top in LOOKED_AT:
        for directory, names, files in os.walk(top):
            names[:] = [n for n in names if not os.path.join(directory, n).startswith(RECORDS)]
            found.update(os.path.join(directory, n) for n in names + files)
    return {path for path in found if not path.startswith(RECORDS)}


class Package(unittest.TestCase):
    def check_installed(self):
        self.assertIn("reclaimctl", command("reclaimctl", "--version"))
        self.assertEqual(command("systemctl", "show", "--value", "-p", "LoadState", "reclaimd").strip(),
                         "loaded")
        self.assertEqual([os.stat(path).st_mode & 0o777 for path in POLICY_FILES], [0o755, 0o644])

    def check_gone(self, before):
        self.assertEqual(sorted(listing() - before), [])
        self.assertEqual(sorted(before - listing()), [])
        self.assertEqual(command("systemctl", "show", "--value", "-p", "LoadState", "reclaimd").strip(),
                         "not-found")
        self.assertFalse(os.path.exists("/run/reclaimd"))

    def test_deb(self):
        before = listing()
        install("deb", 1)
        self.check_installed()
        self.assertEqual(command("dpkg", "--verify", "reclaimd"), "")
        self.assertEqual(command("dpkg-query", "-f", "${Conffiles}", "-W", "reclaimd").split()[0::2],
                         [SETTINGS])
        self.assertLessEqual(set(POLICY_FILES), set(command("dpkg", "--listfiles", "reclaimd").split()))
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

    def test_rpm(self):
        command("rpm", "--initdb")
        before = listing()
        install("rpm", 1)
        self.check_installed()
        self.assertEqual(command("rpm", "--verify", "--nodeps", "reclaimd"), "")
        self.assertEqual(command("rpm", "--query", "--configfiles", "reclaimd"), SETTINGS + "\n")
        self.assertLessEqual({CATALOG, *POLICY_FILES}, set(command("rpm", "--query", "--list",
                                                                    "reclaimd").split()))
        self.assertEqual(command("systemctl", "is-enabled", "reclaimd").strip(), "enabled")
        command("rpm", "--erase", "reclaimd")
        self.check_gone(before)


if __name__ == "__main__":
    unittest.main()
