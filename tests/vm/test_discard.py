#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What ext4 trims of what is freed, on the emulated machine's kernel: as contrib/kernel/README.md says, which
the order of deletion relies on."""
import os
import re
import subprocess
import sys
import unittest

REPRODUCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../contrib/kernel/reproduce")
SKIPPED, AGAIN_AND_AGAIN = 77, 1
ONCE = re.compile("head|ascending")
CHANGED = "this kernel has it no longer: contrib/kernel/README.md, and the order on ext4 with discard, can change"


class Discard(unittest.TestCase):
    def test_reproducer_of_contrib_kernel(self):
        subprocess.run(["modprobe", "-d", os.environ["RECLAIM_KERNEL"], "ext4"], check=True)
        p = subprocess.run([REPRODUCE, "--check"], stdout=subprocess.PIPE, text=True, check=False)
        print(p.stdout, flush=True)
        if p.returncode == SKIPPED:
            self.skipTest("discards cannot be counted")
        rows = re.findall(r"^(\S.*\S) +\d+ MiB +\d+ MiB +([\d.]+)$", p.stdout, re.M)
        self.assertEqual(len(rows), 5)
        for name, ratio in rows:
            with self.subTest(name=name):
                if ONCE.search(name):
                    self.assertLess(float(ratio), 3)
                else:
                    self.assertGreater(float(ratio), 3, CHANGED)
        self.assertEqual(p.returncode, AGAIN_AND_AGAIN, CHANGED)


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    sys.exit(SKIPPED if result.skipped else not result.wasSuccessful())
