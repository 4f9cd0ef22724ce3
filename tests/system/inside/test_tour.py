# SPDX-License-Identifier: LGPL-2.1-or-later
"""docs/tour.md: the first hour of an administrator is as it says."""

import os
import time
import unittest

import installation
from installation import listing
from page import Page
from system import command, remove

DAY_SECONDS = 86400


class Tour(installation.Case):
    def test_page(self):
        self.addCleanup(remove)
        before = listing()
        os.makedirs("/backups/dumps")
        for night in range(30):
            made = time.time() - night * DAY_SECONDS
            path = time.strftime("/backups/dumps/billing-%Y-%m-%d.dump", time.localtime(made))
            command("fallocate", "-l", "8M", path)
            os.utime(path, (made, made))
        for n in range(50):
            os.makedirs(f"/backups/build-17/{n}")
            for k in range(20):
                with open(f"/backups/build-17/{n}/{k}.o", "wb"):
                    pass
        command("fallocate", "-l", "2G", "/backups/old.tar.gz")
        Page(self, "tour", "/packages").follow()
        self.assertEqual(sorted(os.listdir("/backups/build-17")), sorted(map(str, range(50))))
        self.assertEqual(len(os.listdir("/backups/dumps")), 30)
        command("rm", "-r", "/backups/build-17", "/backups/dumps")
        self.check_gone(before)


if __name__ == "__main__":
    unittest.main()
