# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is the same for every kind of package: what is there after an installation, and after a removal."""

import os
import unittest

from system import command

# What may be there after a removal: the package manager's and the service manager's own records.
RECORDS = ("/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/root/.rpmdb", "/var/log", "/var/lib/systemd", "/var/cache",
           "/var/lib/polkit-1", "/var/tmp/systemd-private", "/etc/.pwd.lock")
# What runs policies by their schedules.
POLICY_FILES = ("/usr/lib/systemd/system-generators/reclaimd-generator",
                "/usr/lib/systemd/system/reclaimd-policy@.service",
                "/usr/lib/systemd/user-generators/reclaimd-generator",
                "/usr/lib/systemd/user/reclaimd-policy@.service")
SETTINGS = "/etc/reclaimd/reclaimd.yaml"
LOOKED_AT = ("/etc", "/usr", "/var", "/root", "/backups", "/home", "/srv")


def listing():
    found = set()
    for top in LOOKED_AT:
        for directory, names, files in os.walk(top):
            names[:] = [n for n in names if not os.path.join(directory, n).startswith(RECORDS)]
            found.update(os.path.join(directory, n) for n in names + files)
    return {path for path in found if not path.startswith(RECORDS)}


class Case(unittest.TestCase):
    def check_installed(self):
        self.assertIn("reclaimctl", command("reclaimctl", "--version"))
        self.assertEqual(command("systemctl", "show", "--value", "-p", "LoadState", "reclaimd").strip(),
                         "loaded")
        self.assertEqual([os.stat(path).st_mode & 0o777 for path in POLICY_FILES], [0o755, 0o644] * 2)

    def check_gone(self, before):
        self.assertEqual(sorted(listing() - before), [])
        self.assertEqual(sorted(before - listing()), [])
        self.assertEqual(command("systemctl", "show", "--value", "-p", "LoadState", "reclaimd").strip(),
                         "not-found")
        self.assertFalse(os.path.exists("/run/reclaimd"))
