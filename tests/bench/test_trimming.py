#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The trim benchmark: what it computes; what the simulated disk counts; and a small run of it, with the
reclaimctl in RECLAIMCTL and with others that leave something out or do it twice."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from benchlib import blockdev, scratch
from benchlib.filesystems import LoopFilesystem
from benchlib.scenarios import SSD, Scenario
from benchlib.slowdisk import SlowDisk
from benchlib.trees import MIB
from benchlib.trimmap import PAGE_BYTES, TrimMap, named, total
from benchlib.trimming import Trim
from benchlib.trimverdict import ALONE, BESIDE, LITTLE_BYTES, TrimCell, TrimVerdict

HERE = os.path.dirname(os.path.abspath(__file__))
# What is free lies in several chunks of a btrfs: it has no room for others in one that is trimmed.
CELLS = (("ext4,xfs", 0.02, ["fstrim", "trim"]), ("btrfs", 0.08, ["baseline", "fstrim", "trim", "trim-off"]))
PIECES = 500
# What a filesystem keeps for itself is trimmed, too: most on btrfs, its empty metadata.
SLACK_BYTES = 3072 * MIB


def pages(text):
    """A map from a digit for each page: how often it was trimmed; w: written, x: trimmed and written."""
    return TrimMap(bytes({"w": 0x80, "x": 0x81}.get(page) or int(page) for page in text))


def ranges(*numbers):
    """Of bytes, from numbers of pages."""
    return [(start * PAGE_BYTES, end * PAGE_BYTES) for start, end in numbers]


class Maps(unittest.TestCase):
    """What two maps have in common."""

    def test_runs(self):
        self.assertEqual(pages("0110x201").runs(), ranges((1, 3), (4, 6), (7, 8)))
        self.assertEqual(pages("000").runs(), [])
        self.assertEqual(pages("0110x201").trimmed_bytes(), 5 * PAGE_BYTES)

    def test_twice(self):
        self.assertEqual(pages("01222013").twice(), ranges((2, 5), (7, 8)))
        self.assertEqual(pages("11x1w").twice(), [])
        self.assertEqual(pages("0112").times(), 4 / 3)
        self.assertEqual(pages("00w").times(), 0)

    def test_missing(self):
        fstrim = pages("0111x110")
        self.assertEqual(fstrim.missing(pages("01110110")), [])
        self.assertEqual(fstrim.missing(pages("0100001w")), ranges((2, 4), (5, 6)))
        self.assertEqual(fstrim.missing(pages("0w000000")), ranges((2, 4), (5, 7)))

    def test_words(self):
        self.assertEqual(named(ranges((0, 1), (3, 5))), "0-4095, 12288-20479")
        self.assertEqual(named(ranges((0, 1), (2, 3), (4, 5)), most=1), "0-4095 and 2 more")
        self.assertEqual(total(ranges((0, 1), (3, 5))), 3 * PAGE_BYTES)


def trim(arm, slow=0.010, n_slow=0, done=20.0, trims="0111", stopped=None):
    """1000 requests of 10 ms, but for the slow ones."""
    requests = sorted([0.010] * (1000 - n_slow) + [slow] * n_slow)
    return Trim(arm, returned=done, done=done, window=done, stopped=stopped, trims=pages(trims),
                latencies={"read": requests})


class Bars(unittest.TestCase):
    """What is to be reached, on rounds that were made up."""

    def bars(self, *beside, alone=(), kind="ext4"):
        cell = TrimCell(Scenario(kind, kind, SSD, ()), 4, "light", ("read",), 0.5)
        for each in alone:
            cell.add(ALONE, each)
        for each in beside:
            cell.add(BESIDE, each)
        return {bar.what.partition(": ")[2]: bar.reached for bar in TrimVerdict(cell).bars()}

    def missed(self, *beside, **kw):
        return [what for what, reached in self.bars(trim("baseline"), *beside, **kw).items()
                if reached is False]

    def test_p99(self):
        self.assertEqual(self.missed(trim("trim", slow=0.0149, n_slow=20)), [])
        self.assertEqual(self.missed(trim("trim", slow=0.016, n_slow=20)), ["read p99 at most 1.5 x baseline"])

    def test_longest(self):
        self.assertEqual(self.missed(trim("trim", slow=0.049, n_slow=1), kind="xfs"), [])
        self.assertEqual(self.missed(trim("trim", slow=0.051, n_slow=1), kind="xfs"),
                         ["longest read at most 5 x baseline's p99"])
        self.assertEqual(self.missed(trim("trim", slow=0.113, n_slow=1)), [])
        self.assertEqual(self.missed(trim("trim", slow=0.115, n_slow=1)), [
            "longest read at most 5 x baseline's p99 and the 64.0 ms of a block group's discard"])

    def test_speed(self):
        self.assertEqual(self.missed(alone=(trim("fstrim"), trim("trim", done=21.0))), [])
        self.assertEqual(self.missed(alone=(trim("fstrim"), trim("trim", done=21.2))),
                         ["alone at least 0.95 of fstrim's speed"])
        # That of less is no faster.
        self.assertEqual(self.missed(alone=(trim("fstrim", done=11.0, trims="0100"),
                                            trim("trim", done=20.0, trims="0110"))), [])

    def test_map(self):
        alone = (trim("fstrim", trims="0111"),)
        self.assertEqual(self.missed(trim("trim", trims="011w"), alone=(*alone, trim("trim", trims="0112"))),
                         ["no byte is trimmed twice, alone"])
        alone = (trim("fstrim", trims="1" * 2000),)
        self.assertEqual(self.missed(trim("trim", trims="1" * 976 + "0" * 1024), alone=alone), [])
        self.assertEqual(self.missed(trim("trim", trims="1" * 975 + "0" * 1025), alone=alone),
                         ["all is trimmed that fstrim trims but for 4 MiB, beside foreground I/O"])

    def test_what_is_not_known(self):
        bars = self.bars(trim("trim", stopped="timeout", trims="0100"), alone=(trim("trim"),))
        self.assertEqual(sorted(what for what, reached in bars.items() if reached is not None),
                         ["no byte is trimmed twice, alone", "no byte is trimmed twice, beside foreground I/O"])

    def test_failure_misses(self):
        failed = trim("trim")
        failed.failure = "exit status 1"
        self.assertEqual(self.missed(failed), ["trim trims"])


class Root(unittest.TestCase):
    """With a simulated disk."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root can make the filesystems")
        try:
            scratch.enter_mount_namespace()
        except scratch.Unavailable as reason:
            raise unittest.SkipTest(str(reason)) from reason


class Disk(Root):
    """What it counts."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.work = scratch.Scratch(tempfile.gettempdir())
        cls.addClassCleanup(cls.work.close)
        try:
            cls.disk = SlowDisk(cls.work, SSD, 64 * MIB)
        except scratch.Unavailable as reason:
            raise unittest.SkipTest(str(reason)) from reason

    def setUp(self):
        self.disk.forget_trims()

    def punch(self, start, n_bytes):
        subprocess.run(["fallocate", "--punch-hole", "--offset", str(start), "--length", str(n_bytes),
                        self.disk.path], check=True)

    def test_what_is_trimmed_and_written(self):
        self.punch(MIB, 2 * MIB)
        self.punch(2 * MIB, 2 * MIB)
        # Two whole pages of it.
        self.punch(8 * MIB - 100, 2 * PAGE_BYTES + 200)
        trims = self.disk.trims()
        self.assertEqual(trims.runs(), [(MIB, 4 * MIB), (8 * MIB, 8 * MIB + 2 * PAGE_BYTES)])
        self.assertEqual(trims.twice(), [(2 * MIB, 3 * MIB)])
        with open(self.disk.path, "r+b", buffering=0) as disk:
            disk.seek(2 * MIB)
            disk.write(b"x" * MIB)
        self.assertEqual(self.disk.trims().twice(), [])
        self.disk.forget_trims()
        self.assertEqual(self.disk.trims().runs(), [])
        self.punch(0, 64 * MIB)
        self.assertEqual(self.disk.trims().trimmed_bytes(), 64 * MIB)

    def test_it_is_read_at_any_place(self):
        self.punch(60 * MIB, 4 * MIB)
        with open(os.path.join(self.disk.mountpoint, "trims"), "rb", buffering=0) as trims:
            size = os.fstat(trims.fileno()).st_size
            self.assertEqual(size, 64 * MIB // PAGE_BYTES)
            trims.seek(size - 3)
            self.assertEqual((trims.read(9), trims.read(9)), (b"\x01\x01\x01", b""))

    def test_discards_of_a_filesystem(self):
        filesystem = self.disk.filesystem(self.work, "ext4")
        filesystem.mount()
        self.disk.forget_trims()
        before = filesystem.discarded_bytes()
        subprocess.run(["fstrim", filesystem.mountpoint], check=True)
        discarded = filesystem.discarded_bytes() - before
        # Its blocks are smaller than pages.
        self.assertLess(discarded - self.disk.trims().trimmed_bytes(), MIB)
        self.assertLessEqual(self.disk.trims().trimmed_bytes(), discarded)
        self.assertGreater(discarded, 32 * MIB)
        filesystem.unmount()

    def test_a_limit_that_was_left_on_a_loop_device_is_taken_off(self):
        filesystem = self.disk.filesystem(self.work, "ext4")
        self.addCleanup(filesystem.destroy)
        filesystem.mount()
        device = filesystem.device
        self.addCleanup(blockdev.stop_dividing_discards, device)
        self.assertTrue(blockdev.discards_undivided(device))
        with open(os.path.join(blockdev.queue(device), "discard_max_bytes"), "w", encoding="ascii") as limit:
            limit.write(str(MIB))
        self.assertFalse(blockdev.discards_undivided(device))
        filesystem.unmount()
        filesystem.mount()
        # Another process may have taken that number meanwhile.
        if filesystem.device == device:
            self.assertTrue(blockdev.discards_undivided(device))


class Whole(Root):
    """The program itself, at a small scale."""

    def run_trim(self, reclaimctl, *words):
        """Returns what it has written and printed. Later options replace earlier ones."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = os.path.join(directory.name, "report.json")
        result = subprocess.run(
            [sys.executable, os.path.join(HERE, "trim"), "--pieces", str(PIECES), "--baseline-seconds", "1", "--min-window",
             "1", "--timeout", "4", "--timeout-alone", "120", "--json", path, "--reclaimctl", reclaimctl, *words],
            stdout=subprocess.PIPE, text=True, check=False)
        if result.returncode == 77:
            self.skipTest("not here")
        self.assertEqual(result.returncode, 0, result.stdout)
        with open(path, encoding="utf-8") as file:
            return json.load(file), result.stdout

    def test_each_filesystem(self):
        """Not how long requests took: the machine is busy."""
        reclaimctl = os.environ.get("RECLAIMCTL")
        if not reclaimctl:
            self.skipTest("RECLAIMCTL is not set")
        n_cells = 0
        for filesystems, scale, arms in CELLS:
            document, _ = self.run_trim(reclaimctl, "--filesystems", filesystems, "--scale", str(scale), "--arms", ",".join(arms))
            self.look_at_cells(document, scale, arms)
            n_cells += len(document["cells"])
        self.assertEqual(n_cells, 3)

    def look_at_cells(self, document, scale, arms):
        free_bytes = scale * document["options"]["free"]
        for cell in document["cells"]:
            with self.subTest(cell=cell["scenario"]):
                self.assertEqual(set(cell["arms"]), set(arms))
                self.assertEqual(set(cell["alone"]), set(arms) - {"baseline"})
                for arm in cell["arms"].values():
                    for kind in arm["kinds"].values():
                        self.assertGreater(kind["samples"], 0)
                reference, = cell["alone"]["fstrim"]["coverage"]
                # btrfs has some side by side.
                self.assertGreaterEqual(reference["pieces"], PIECES * scale * 0.8)
                self.assertGreaterEqual(reference["trimmed_bytes"], free_bytes * 0.9)
                self.assertLessEqual(reference["trimmed_bytes"], free_bytes + SLACK_BYTES)
                # With a canary, btrfs holds free space of its metadata in reserve, and trims none of that.
                own, = cell["alone"]["trim-off" if cell["scenario"] == "btrfs" else "trim"]["coverage"]
                self.assertLessEqual(total(own["missing"]), LITTLE_BYTES)
                self.assertEqual(own["twice"], [])
                self.assertGreater(cell["alone"]["trim"]["rounds"][0]["steps"], 0)

    def run_other(self, *lines):
        """With a reclaimctl that runs these in place of a trim; its path is in $path."""
        with tempfile.TemporaryDirectory() as directory:
            program = os.path.join(directory, "reclaimctl")
            with open(program, "w", encoding="ascii") as file:
                file.write("\n".join(["#!/bin/sh", "for path; do :; done", *lines, ""]))
            os.chmod(program, 0o755)
            return self.run_trim(program, "--filesystems", "xfs", "--arms", "fstrim,trim", "--scale", "0.01")

    def test_what_is_left_out_and_what_is_trimmed_twice_is_named(self):
        half = '"$(($(df --output=size --block-size=1 "$path" | tail -n 1) / 2))"'
        document, said = self.run_other(*2 * [f'fstrim --length {half} "$path"'])
        self.assertEqual(document["failures"], [])
        self.assertRegex(said, r"MISSED: +xfs .*: all is trimmed that fstrim trims but for 4 MiB, alone: [\d,]+ bytes: \d+-\d+")
        self.assertRegex(said, r"MISSED: +xfs .*: no byte is trimmed twice, alone: [\d,]+ bytes: \d+-\d+")


if __name__ == "__main__":
    unittest.main(verbosity=2)
