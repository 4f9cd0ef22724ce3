#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the benchmarks compute and make, without a disk."""
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from benchlib import dynamics, recorded, report, scratch, speeds, timeline
from benchlib.impact import Impact
from benchlib.scenarios import GIB, SCENARIOS
from benchlib.trees import MIB
from benchlib.verdict import Cell, CellVerdict, overall


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


def track(*pieces):
    """From second 0 on, sampled every 10 ms: pieces of (seconds, MiB a second)."""
    result, now, gone = speeds.Track(), 0.0, 0.0
    result.add(now, gone)
    for seconds, rate in pieces:
        for _ in range(round(seconds * 100)):
            now, gone = now + 0.01, gone + rate * MIB / 100
            result.add(now, gone)
    return result


class Speeds(unittest.TestCase):
    """When a deletion becomes slower and faster, from made-up samples."""

    def test_rates(self):
        two = track((1, 100), (1, 50))
        self.assertAlmostEqual(two.rate(0, 1) / MIB, 100)
        self.assertAlmostEqual(two.rate(0.5, 1.5) / MIB, 75)
        self.assertIsNone(two.rate(0, 2.5))
        self.assertIsNone(two.rate(1, 1.1))
        self.assertIsNone(speeds.Track().rate(0, 1))

    def test_what_comes_back_is_not_counted(self):
        one = speeds.Track()
        for time, gone in ((0, -5), (1, 10), (2, 8), (3, 20)):
            one.add(time, gone)
        self.assertEqual(one.rate(1, 2), 0)
        self.assertEqual(one.rate(0, 3), 20 / 3)

    def test_arrival(self):
        result = speeds.arrival(track((0.2, 0), (2, 400), (0.2, 400), (3, 20)), 2.2, 0.3)
        self.assertAlmostEqual(result["full_rate"] / MIB, 400, delta=5)
        self.assertAlmostEqual(result["beside_rate"] / MIB, 20, delta=5)
        # The window of a quarter second is half in the slow part, and more.
        self.assertAlmostEqual(result["backed_off_after"], 0.15, delta=0.06)

    def test_late_arrival(self):
        result = speeds.arrival(track((2, 400), (1.5, 400), (9, 20)), 2.0, 0.3)
        self.assertAlmostEqual(result["backed_off_after"], 1.45, delta=0.06)

    def test_standstill(self):
        result = speeds.arrival(track((2, 400), (0.5, 400), (0.5, 38), (4, 0)), 2.0, 1.1)
        self.assertEqual(result["beside_rate"], 0)
        self.assertAlmostEqual(result["backed_off_after"], 0.48, delta=0.06)

    def test_arrival_that_cannot_be_told(self):
        for pieces, change in ((((2, 100), (2, 60)), 2.0), (((0.1, 100), (2, 10)), 0.1),
                               (((2, 100), (0.1, 10)), 2.0), (((2, 0), (2, 0)), 2.0)):
            self.assertIsNone(speeds.arrival(track(*pieces), change, 0.3)["backed_off_after"])

    def test_departure(self):
        beside = track((2, 20), (0.7, 20), (3, 400))
        self.assertAlmostEqual(speeds.departure(beside, 2.0, 400 * MIB), 0.65, delta=0.06)
        self.assertIsNone(speeds.departure(beside, 2.0, 800 * MIB))
        self.assertIsNone(speeds.departure(beside, 2.0, None))

    def bars(self, pieces_in, pieces_out):
        """Of both directions; foreground I/O comes and goes after two seconds."""
        come = speeds.arrival(track(*pieces_in), 2.0, 0.3)
        gone = speeds.departure(track(*pieces_out), 2.0, come["full_rate"])
        alone = {"off": 10, "unsettled": 10.4, "auto": 12.9, "failure": None}
        cell = Cell(SCENARIOS["ssd-ext4"], "file", "light", (), dynamics={
            "alone": alone, "arrival": come | {"kinds": {}},
            "departure": {"lost": None, "seconds_left": 5, "full_speed_after": gone}})
        return [bar.reached for bar in dynamics.bars(cell)]

    def test_bars(self):
        self.assertEqual(self.bars(((2, 400), (0.2, 400), (5, 20)), ((2, 20), (0.9, 20), (2, 400))),
                         [True, True, True, None, True])
        self.assertEqual(self.bars(((2, 400), (0.6, 400), (5, 20)), ((2, 20), (1.3, 20), (2, 400))),
                         [True, True, False, None, False])
        self.assertEqual(self.bars(((2, 400), (5, 20)), ((2, 20), (5, 20))),
                         [True, True, True, None, False])
        self.assertEqual(self.bars(((0.1, 400), (0.2, 0)), ((2, 20), (5, 20))),
                         [True, True, None, None, None])

    def test_bars_of_the_time_alone(self):
        for unsettled, auto, reached in ((10.4, 12.9, [True, True]), (10.6, 12.9, [False, True]),
                                         (10.4, 13.1, [True, False])):
            cell = Cell(SCENARIOS["ssd-ext4"], "file", "light", (), dynamics={
                "alone": {"off": 10, "unsettled": unsettled, "auto": auto, "failure": None},
                "arrival": {"kinds": {}, "full_rate": None, "beside_rate": None},
                "departure": {"lost": None, "seconds_left": 5, "full_speed_after": None}})
            self.assertEqual([bar.reached for bar in dynamics.bars(cell)][:2], reached)


class Timeline(unittest.TestCase):
    """What is drawn."""

    def test_whole_seconds_of_all_kinds(self):
        fields = {"rounds": [{"window": 2.5, "seconds": {
            "fdatasync": [[-1, 10, 0.001, 0.002], [0, 10, 0.001, 0.5], [2, 3, 0.001, 9.0]],
            "read": [[-1, 10, 0.001, 0.004], [1, 10, 0.001, 0.003]]}}]}
        self.assertEqual(timeline.longest(fields), [(-1, 4.0), (0, 500.0), (1, 3.0)])

    def test_lines_are_named_by_their_file_only_where_a_cell_is_in_two(self):
        one = {"a": [("x", "rm", {}), ("x", "auto", {})], "b": [("y", "rm", {})]}
        self.assertFalse(timeline.repeated(one))
        self.assertTrue(timeline.repeated(one | {"a": [("x", "rm", {}), ("y", "rm", {})]}))


def impact(arm, usual=0.010, slow=None, n_slow=0, after=None, seconds=(), done=5.0):
    """A round with 1000 requests of `usual` seconds, the last n_slow of which took `slow`; and 100 in
    the window after the end, which take `after` at most."""
    requests = [usual] * (1000 - n_slow) + [slow] * n_slow
    later = [usual] * 99 + [after or usual]
    return Impact(arm, returned=done, space_back=done, done=done, window=60.0, freed_bytes=GIB,
                  latencies={"fdatasync": sorted(requests + later)},
                  after={"fdatasync": sorted(later)}, seconds={"fdatasync": list(seconds)})


def judge(*rounds, kind="fdatasync"):
    """A cell with one round of each arm."""
    cell = Cell(SCENARIOS["ssd-ext4"], "file", "light", (kind,), victim_bytes=GIB)
    for each in rounds:
        for by_kind in (each.latencies, each.after, each.seconds):
            by_kind[kind] = by_kind.pop("fdatasync")
        cell.impacts[each.arm] = [each]
    return CellVerdict(cell)


class Bars(unittest.TestCase):
    """What is to be reached, on rounds that were made up."""

    def missed(self, *rounds, kind="fdatasync"):
        """Of all bars, those that are missed, without the name of the cell."""
        verdict = judge(impact("baseline"), *rounds, kind=kind)
        return [bar.what.partition(": ")[2] for bar in verdict.bars() if bar.reached is False]

    def test_as_without_a_deletion(self):
        loop = impact("loop-2M-5ms", done=9.0)
        self.assertEqual(self.missed(impact("auto"), impact("rm"), loop), [])
        bars = list(judge(impact("baseline"), impact("auto"), impact("rm"), loop).bars())
        self.assertTrue(all(bar.reached for bar in bars))

    def test_p99_in_both_windows(self):
        self.assertEqual(self.missed(impact("auto", slow=0.016, n_slow=20)),
                         ["fdatasync p99 at most 1.5 x baseline"])
        self.assertEqual(self.missed(impact("auto", slow=0.0149, n_slow=20)), [])
        late = impact("auto")
        late.after["fdatasync"] = [0.010] * 90 + [0.016] * 10
        self.assertEqual(self.missed(late), ["fdatasync p99 after the end at most 1.5 x baseline"])

    def test_p999(self):
        self.assertEqual(self.missed(impact("auto", slow=0.031, n_slow=5)),
                         ["fdatasync p99.9 at most 3 x baseline"])

    def test_longest_after_the_end(self):
        self.assertEqual(self.missed(impact("auto", after=0.021)),
                         ["fdatasync max after the end at most 2 x baseline"])

    def test_slow_seconds(self):
        slow = impact("auto", seconds=[[-1, 10, 0.011, 0.011], [0, 10, 0.009, 0.5]])
        self.assertEqual(self.missed(slow), [])
        slow = impact("auto", seconds=[[3, 10, 0.011, 0.011]])
        self.assertEqual(self.missed(slow),
                         ["no second with a median of fdatasync above the baseline's p99"])

    def test_no_more_harm_than_rm(self):
        ours = {"slow": 0.0125, "n_slow": 500}
        self.assertEqual(self.missed(impact("auto", **ours), impact("rm", slow=0.0122, n_slow=500)),
                         ["no more harm than rm"])
        self.assertEqual(self.missed(impact("auto", **ours), impact("rm", slow=0.0125, n_slow=500)), [])

    def test_no_loop_is_as_gentle_and_faster(self):
        self.assertEqual(self.missed(impact("auto"), impact("loop-2M-5ms", done=4.0)),
                         ["no fixed loop that harms no more is faster"])

    def test_what_does_not_end_misses(self):
        stopped = impact("auto")
        stopped.stopped = "timeout"
        self.assertEqual(self.missed(stopped), ["auto deletes in time"])
        self.assertEqual(judge(impact("baseline"), stopped).worst_p99(), math.inf)

    def test_daemon_that_is_interrupted(self):
        self.assertEqual(self.missed(impact("restart"), impact("kill")), [])
        slow = impact("kill", slow=0.016, n_slow=20)
        self.assertEqual(self.missed(impact("auto"), impact("restart"), slow), ["fdatasync p99 at most 1.5 x baseline"])
        self.assertIn("kill: ", next(bar.line() for bar in judge(impact("baseline"), slow).bars()))
        failed = impact("kill")
        failed.failure = "exit status 1"
        self.assertEqual(self.missed(failed), ["kill deletes in time"])

    def test_transactions_have_a_bar_of_their_own(self):
        slow = {"slow": 0.013, "n_slow": 20}
        self.assertEqual(self.missed(impact("auto", **slow)), [])
        self.assertEqual(self.missed(impact("auto", **slow), kind="transaction"),
                         ["transaction p99 at most 1.25 x baseline"])

    def test_without_baseline_nothing_is_known(self):
        bars = list(judge(impact("auto"), impact("rm")).bars())
        self.assertEqual({bar.reached for bar in bars}, {None})
        self.assertEqual(overall([judge(impact("auto"))])[0].reached, None)

    def test_two_thirds_within_the_goal(self):
        good = judge(impact("baseline"), impact("auto", slow=0.012, n_slow=20))
        bad = judge(impact("baseline"), impact("auto", slow=0.013, n_slow=20))
        unknown = judge(impact("auto"))
        self.assertTrue(overall([good, good, bad, unknown])[0].reached)
        self.assertFalse(overall([good, bad])[0].reached)
        late = judge(impact("baseline"), impact("auto"))
        late.cell.impacts["auto"][0].after["fdatasync"] = [0.013] * 9
        late = CellVerdict(late.cell)
        self.assertFalse(overall([good, late])[0].reached)

    def test_recorded_is_judged_alike(self):
        for own in (impact("auto", slow=0.013, n_slow=20), impact("auto")):
            verdict = judge(impact("baseline"), own)
            again = recorded.RecordedVerdict(json.loads(json.dumps(verdict.as_json())))
            self.assertEqual(again.worst_p99(), verdict.worst_p99())
            self.assertEqual(overall([again])[0], overall([verdict])[0])

    def test_lines(self):
        bars = [report.Bar("a", True, "1"), report.Bar("b", False, "2"), report.Bar("c", None, "-")]
        self.assertEqual([bar.line().split(":")[0] for bar in bars], ["kept", "MISSED", "not known"])
        self.assertEqual(report.tally(bars), "bars: 1 kept, 1 missed, 1 not known")


if __name__ == "__main__":
    unittest.main(verbosity=2)
