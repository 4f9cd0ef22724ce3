# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a distribution runs when the package has changed: debian/tests, on the installed packages."""

import glob
import subprocess
import unittest

from system import attempt, package

TIMEOUT_SECONDS = 400
NAMES = ("reclaimd", "libreclaim0", "libreclaim-dev")


class Autopkgtest(unittest.TestCase):
    def test_all(self):
        """In this system itself, which can be thrown away."""
        self.addCleanup(attempt, "dpkg", "--purge", *NAMES)
        r = subprocess.run(["autopkgtest", "--ignore-restrictions=isolation-machine,isolation-container,breaks-testbed",
                            *(package("deb", 1, name) for name in NAMES), *glob.glob("/packages/*-1.dsc"),
                            "--", "null"], check=False, text=True, errors="replace", stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS)
        self.assertEqual(r.returncode, 0, r.stdout)
        for name in ("booted", "library"):
            self.assertRegex(r.stdout, rf"(?m)^{name} +PASS")


if __name__ == "__main__":
    unittest.main()
