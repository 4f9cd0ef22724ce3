# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trimming: one trim of a filesystem on a simulated disk, beside foreground I/O or alone."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import time

from benchlib import blockdev
from benchlib.impact import GRACE_SECONDS, Impact, by_second, nearest_rank
from benchlib.measure import ends_within
from benchlib.processors import StealWatch
from benchlib.scratch import Unavailable
from benchlib.trimmap import TrimMap

BASELINE, FSTRIM, OWN, OFF = NAMES = ("baseline", "fstrim", "trim", "trim-off")
# For a step, and a discard of a gibibyte, after SIGINT.
STOP_SECONDS = 30
# XFS does not wait for its last discards.
QUIET_SECONDS = 0.3
POLL_SECONDS = 0.005


def command(arm, reclaimctl, path):
    """Of an arm; None for the baseline."""
    return {BASELINE: None, FSTRIM: ["fstrim", path], OWN: [reclaimctl, "trim", "--json", path],
            OFF: [reclaimctl, "trim", "--json", "--latency=off", path]}[arm]


@dataclasses.dataclass
class Trim(Impact):
    """done: with the last discard. steps, calls and longest_step (seconds): as reclaimctl tells."""

    trims: TrimMap = None
    steps: int = None
    calls: int = None
    longest_step: float = None


class Process:
    """A command that trims."""

    def __init__(self, words, output):
        self._output = output
        self._stopped = False
        with open(output, "wb") as said:
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                words, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                start_new_session=True)

    def run(self, seconds):
        """Whether it has ended by itself in that time; else it is stopped as by Ctrl-C."""
        if ends_within(self._process, seconds):
            return True
        self._stopped = True
        os.killpg(self._process.pid, signal.SIGINT)
        ends_within(self._process, STOP_SECONDS)
        return False

    def kill(self):
        """Harmless when it has ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self, trim):
        """What it has said; and why it failed, if it did."""
        self.kill()
        status = self._process.wait()
        with open(self._output, encoding="utf-8", errors="replace") as said:
            words = said.read().strip()
        if status != 0 and not self._stopped:
            trim.failure = f"exit status {status}: {' / '.join(words.splitlines()[-3:])[-300:]}"
        with contextlib.suppress(ValueError, TypeError, KeyError, IndexError):
            document = json.loads(words[words.index("{"):])
            filesystem, = document["filesystems"]
            trim.steps, trim.calls = filesystem["steps"], filesystem["calls"]
            trim.longest_step = filesystem["longest_step_usec"] / 1e6


class Trimmer:
    """Measures arms on one stage."""

    def __init__(self, stage, reclaimctl, limits, timeout_alone=None):
        """timeout_alone: in seconds, as limits.timeout if None."""
        self._stage = stage
        self._reclaimctl = reclaimctl
        self._limits = limits
        self._timeout_alone = timeout_alone or limits.timeout
        self._process = None

    def beside(self, arm, foreground):
        """On a fresh disk, with foreground I/O; if it comes to nothing, no process stays."""
        try:
            return self._beside(arm, foreground)
        except BaseException:
            foreground.kill()
            raise
        finally:
            self._kill()

    def alone(self, arm):
        """The same, and no other program uses the disk."""
        trim = Trim(arm)
        self._reset()
        try:
            with self._stage.disk.slow():
                self._run(trim, self._timeout_alone)
        finally:
            self._kill()
        self._end(trim)
        return trim

    def _reset(self):
        self._stage.reset()
        self._stage.disk.forget_trims()

    def _beside(self, arm, foreground):
        trim = Trim(arm)
        self._reset()
        foreground.start(self._stage.mountpoint)
        with StealWatch() as watch, self._stage.disk.slow():
            foreground.go()
            time.sleep(self._limits.lead)
            start = time.monotonic()
            self._run(trim, self._limits.timeout)
            time.sleep(max(0, start + self._limits.min_window - time.monotonic()))
            trim.window = time.monotonic() - start
            if not trim.stopped:
                time.sleep(GRACE_SECONDS)
            self._stop(trim, foreground)
        if not trim.failure:
            self._take(trim, foreground, start, watch)
        self._end(trim)
        return trim

    @staticmethod
    def _stop(trim, foreground):
        """btrfs has no room for others in a chunk while that is trimmed."""
        try:
            foreground.stop()
        except Unavailable as reason:
            trim.failure = f"beside it: {reason}"

    def _run(self, trim, timeout):
        words = command(trim.arm, self._reclaimctl, self._stage.mountpoint)
        if words is None:
            time.sleep(self._limits.baseline)
            return
        start = time.monotonic()
        self._process = Process(words, os.path.join(self._stage.work.path, "output"))
        if not self._process.run(timeout):
            trim.stopped = "timeout"
        trim.returned = time.monotonic() - start
        trim.done = max(trim.returned, self._last_discard() - start)

    def _last_discard(self):
        """Waits until there are no more of them; returns when (monotonic) the last one was seen."""
        filesystem = self._stage.filesystem
        seen, changed, began = filesystem.discarded_bytes(), 0, time.monotonic()
        while True:
            now, discarded = time.monotonic(), filesystem.discarded_bytes()
            if discarded != seen:
                seen, changed = discarded, now
            # One of many gibibytes takes longer than that.
            if now - max(changed, began) >= QUIET_SECONDS and blockdev.in_flight(filesystem.device) == 0:
                return changed
            time.sleep(POLL_SECONDS)

    def _take(self, trim, foreground, start, watch):
        requests = [each for each in foreground.reap() if each.due < start + trim.window]
        if self._limits.undisturbed:
            counting = [each for each in requests if not watch.is_near(each.due)]
            trim.left_out = 1 - len(counting) / max(1, len(requests))
            requests = counting
        for kind in foreground.kinds:
            of_kind = [each for each in requests if each.kind == kind]
            trim.seconds[kind] = by_second(of_kind, start)
            trim.latencies[kind] = sorted(each.latency for each in of_kind if each.due >= start)
        requests = [each for each in requests if each.due >= start]
        trim.unfinished = sum(each.unfinished for each in requests)
        trim.late = nearest_rank(sorted(each.late for each in requests), 0.99) or 0

    def _kill(self):
        if self._process:
            self._process.kill()

    def _end(self, trim):
        process, self._process = self._process, None
        if process:
            process.end(trim)
        trim.trims = self._stage.disk.trims()
        trim.trimmed_bytes = trim.trims.trimmed_bytes()
