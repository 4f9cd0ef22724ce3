# SPDX-License-Identifier: LGPL-2.1-or-later
"""A system without a bus: the daemon is there all the same."""

import os
import unittest

from system import attempt, command, install, submit


class NoBus(unittest.TestCase):
    def test_starts(self):
        command("systemctl", "mask", "--runtime", "--now", "dbus.socket", "dbus.service")
        install("deb", 1)
        r = attempt("systemctl", "restart", "reclaimd")
        self.assertEqual(r.returncode, 0, r.stdout + attempt("systemctl", "status", "reclaimd").stdout)
        command("fallocate", "-l", "10M", "/backups/old.tar.gz")
        submit("--wait", "/backups/old.tar.gz")
        self.assertFalse(os.path.exists("/backups/old.tar.gz"))
        self.assertIn('"done":1', command("varlinkctl", "call", "-j", "/run/reclaimd/org.reclaimd.Reclaim",
                                          "org.reclaimd.Reclaim.GetMetrics", "{}"))
        command("systemctl", "stop", "reclaimd")
        r = attempt("reclaimctl", "list")
        self.assertEqual(r.returncode, 5, r.stdout)


if __name__ == "__main__":
    unittest.main()
