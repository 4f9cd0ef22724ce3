# SPDX-License-Identifier: LGPL-2.1-or-later
"""Rounds: every arm on a fresh tree in every round, interleaved and rotated.

The filesystem is made once for all arms of a cell. A new one for each tree would measure the first
use of everything; this one ages, but for all arms alike, and rotating the order keeps any arm from
always following the same other one, whose leftovers (journal, delayed frees) it might have to pay.
"""

import sys

from benchlib.measure import Measurement, calls_per_entry
from benchlib.trees import Trees

# Enough that what a program does once, at its start, does not count; strace takes a long time.
CALLS_ENTRIES = 40_000


class Cell:
    """One cell on one filesystem: its arms and what they were measured to cost."""

    def __init__(self, cell, filesystem_kind):
        self.cell = cell
        self.filesystem = filesystem_kind
        self.entries = self.files = self.directories = self.bytes = 0
        self.measurements = {}
        self.calls = {}
        self.unavailable = None

    @property
    def name(self):
        """How the cell is called in tables."""
        return f"{self.cell.name} / {self.filesystem}"


class Rounds:
    """Runs the arms of one cell; `programs` is where they are, `prepare` what to do before each."""

    def __init__(self, scratch, filesystem, programs, meter, result, prepare=None):
        self._scratch = scratch
        self._filesystem = filesystem
        self._programs = programs
        self._meter = meter
        self._result = result
        self._prepare = prepare or (lambda: None)

    def run(self, arms, n_rounds, scale):
        """All rounds; one tree before them warms up what any filesystem sets up on first use."""
        cell = self._result.cell
        trees = Trees(self._scratch, cell, self._filesystem.mountpoint, scale)
        trees.build()
        self._result.entries = trees.entries
        self._result.files = trees.files
        self._result.directories = trees.directories
        self._result.bytes = trees.bytes
        trees.remove()
        for number in range(n_rounds):
            shift = number % max(1, len(arms))
            for arm in arms[shift:] + arms[:shift]:
                measurement = self._measure(arm, trees)
                self._result.measurements.setdefault(arm.name, []).append(measurement)
                _progress(self._result, number, arm, measurement)

    def count_calls(self, arms, scale):
        """System calls per entry, on a smaller tree of the same shape."""
        strace = self._programs.find("strace")
        if not strace:
            return
        cell = self._result.cell
        scale *= min(1, CALLS_ENTRIES / self._result.entries)
        trees = Trees(self._scratch, cell, self._filesystem.mountpoint, scale)
        for arm in arms:
            trees.build()
            calls = self._meter.count_calls(strace, self._command(arm, trees))
            if calls is not None and trees.check() is None:
                self._result.calls[arm.name] = {
                    "entries": trees.entries, "calls": calls,
                    "per_entry": calls_per_entry(calls, trees.entries)}
            trees.remove()

    def _command(self, arm, trees):
        return arm.command(self._result.cell, trees, self._programs.find(arm.program))

    def _measure(self, arm, trees):
        trees.build()
        self._prepare()
        measurement = self._meter.run(self._command(arm, trees))
        wrong = trees.check()
        if wrong and not measurement.failure:
            measurement = Measurement(failure=wrong)
        trees.remove()
        return measurement


def _progress(result, number, arm, measurement):
    """On stderr, so that the report can be redirected."""
    what = measurement.failure or f"{measurement.elapsed:.3f} s"
    print(f"{result.name}, round {number + 1}, {arm.name}: {what}", file=sys.stderr, flush=True)
