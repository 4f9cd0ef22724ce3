#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the benchmarks compute and make, without a disk."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from benchlib import recorded, scratch, timeline


def contents(root):
    """Names to sizes, of directories None."""
    found = {}
    for directory, directories, files in os.walk(root):
        for name in directories:
            found[os.path.relpath(os.path.join(directory, name), root)] = None
        for name in files:
            path = os.path.join(directory, name)
            found[os.path.relpath(path, root)] = os.path.getsize(path)
    return found


class Writers(unittest.TestCase):
    """maketree --writers."""

    @classmethod
    def setUpClass(cls):
        cls.work = scratch.Scratch(tempfile.gettempdir())
        cls.addClassCleanup(cls.work.close)
        cls.maketree = cls.work.compile("maketree", ["maketree.c"], ["-lm"])

    def make(self, name, *words):
        """Returns what it has said, and what it has made."""
        root = os.path.join(self.work.path, name)
        said = subprocess.run([self.maketree, *words[:-1], root, *words[-1]], check=True,
                              capture_output=True, text=True).stdout
        return said, contents(root)

    def test_four_writers_make_the_same_tree_as_one(self):
        for shape, numbers in (("wide", ["7", "9", "5000"]), ("spread", ["5", "2", "0"]),
                               ("flat", ["23"])):
            one = self.make(f"{shape}-1", shape, numbers)
            four = self.make(f"{shape}-4", "--writers=4", shape, numbers)
            self.assertEqual(one, four)
            self.assertGreater(len(four[1]), 9)

    def test_each_of_four_writers_makes_a_share(self):
        """The inode numbers of one directory's files are apart if it is made by several."""
        _, made = self.make("shared", "--writers=4", "flat", ["400"])
        root = os.path.join(self.work.path, "shared")
        order = sorted(made, key=lambda name: os.stat(os.path.join(root, name)).st_ino)
        self.assertNotEqual(order, sorted(made))

    def test_a_writer_that_fails_is_told(self):
        """It may write no file of that size."""
        root = os.path.join(self.work.path, "taken")
        limited = f"ulimit -f 1; exec {self.maketree} --writers=4 wide {root} 4 1 9000"
        result = subprocess.run(["sh", "-c", limited], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("maketree: ", result.stderr)

    def test_wrong_numbers_of_writers(self):
        root = os.path.join(self.work.path, "none")
        for words in (["--writers=0", "flat", root, "2"], ["--writers=x", "flat", root, "2"],
                      ["--writers=65", "flat", root, "2"], ["--writers=-1", "flat", root, "2"],
                      ["--writers=2", "large", root, "2", "4096"]):
            result = subprocess.run([self.maketree, *words], check=False, capture_output=True)
            self.assertEqual(result.returncode, 2, words)
            self.assertFalse(os.path.exists(root))


def run_interference(*words):
    """Without root, it gets as far as its options."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "interference")
    return subprocess.run([sys.executable, program, *words], capture_output=True, text=True,
                          check=False)


class Options(unittest.TestCase):
    """What is no input is told in one line, and not by a traceback."""

    def test_bad_values(self):
        for words in (["--scale", "nan"], ["--scale", "x"], ["--rounds", "0"], ["--lead", "-1"],
                      ["--after", "inf"], ["--arms", "before"], ["--arms", "loop-0M-1ms"],
                      ["--before", "/dev/null"], ["--json", "/nonexistent/x"],
                      ["--foreground", "nothing"], ["--scenarios", "ssd-fat"]):
            result = run_interference(*words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn("interference: error: ", result.stderr.splitlines()[-1])

    def test_what_is_no_report(self):
        with tempfile.TemporaryDirectory() as directory:
            for number, text in enumerate(("", "7", "[]", "{}", '{"cells": 7}',
                                           '{"cells": [7], "bars": []}')):
                path = os.path.join(directory, str(number))
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                result = run_interference("--recorded", path)
                self.assertEqual(result.returncode, 2, text)
                self.assertEqual(result.stderr, f"interference: {path}: no report of this benchmark\n")
        with self.assertRaises(recorded.NoReport):
            recorded.read(["/nonexistent"])


class Timeline(unittest.TestCase):
    """What is drawn."""

    def test_whole_seconds_of_all_kinds(self):
        fields = {"rounds": [{"window": 2.5, "seconds": {
            "fdatasync": [[-1, 10, 0.001, 0.002], [0, 10, 0.001, 0.5], [2, 3, 0.001, 9.0]],
            "read": [[-1, 10, 0.001, 0.004], [1, 10, 0.001, 0.003]]}}]}
        self.assertEqual(timeline.longest(fields), [(-1, 4.0), (0, 500.0), (1, 3.0)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
