# SPDX-License-Identifier: LGPL-2.1-or-later
"""Dynamics: what is on by default, without foreground I/O, and when that begins or ends."""

import dataclasses
import os
import time

from benchlib import speeds
from benchlib.deleters import BASELINE, OWN, find
from benchlib.impact import Deletion, Progress, nearest_rank
from benchlib.measure import Meter
from benchlib.report import Bar
from benchlib.trees import MIB
from benchlib.verdict import P99_BAR, median

ROUNDS = 3
ROUNDS_SHORT = 1
POLL_SECONDS = 0.01
# When foreground I/O begins or ends: with much of the deletion still ahead.
MID_SHARE = 0.25
MID_SECONDS = 5.0
NOTICE_SECONDS = 0.3
SAMPLES_MIN = 20
SPEED_BAR = 0.95
# Of the time that it takes without pacing, until all that it leaves is written back, too.
DEBT_BAR = 1.3
CALM_SECONDS_MOST = 120
CALM_SECONDS_SHORT = 1
RESUME_BAR_SECONDS = 1.0


def wait_for_calm(seconds_most):
    """Until no task has waited for I/O for a while: setting the stage was I/O too, and a run that
    starts right after it has reason to listen first whether it goes on."""
    end = time.monotonic() + seconds_most
    while time.monotonic() < end:
        try:
            with open("/proc/pressure/io", encoding="ascii") as pressure:
                if " avg10=0.00 " in pressure.readline():
                    return
        except OSError:
            return
        time.sleep(1)


class Lone:
    """How long a deletion takes without foreground I/O, off and on by default."""

    def __init__(self, stage, arms, timeout, short):
        self._stage = stage
        self._arms = arms
        self._rounds = ROUNDS_SHORT if short else ROUNDS
        self._calm_seconds = CALM_SECONDS_SHORT if short else CALM_SECONDS_MOST
        self._meter = Meter(stage.work, stage.filesystem, timeout)

    def run(self, name, *options):
        """Seconds until it returned, and until all that it left to the filesystem was done."""
        deleter = find(name)
        deleter = dataclasses.replace(deleter, options=(*deleter.options, *options))
        self._stage.reset()
        wait_for_calm(self._calm_seconds)
        with self._stage.disk.slow():
            measured = self._meter.run(
                deleter.command(self._arms.program(deleter), self._stage.victim, self._stage.work.path))
            ended = time.monotonic()
            if self._stage.scenario.discards:
                # The meter waits where it knows of them; then this adds nothing.
                measured.settled += max(0, self._stage.filesystem.wait_for_discards() - ended)
        return measured

    def compare(self):
        """In turn, not paced, paced without what it writes back in the end, and paced; seconds, medians."""
        rounds = [(self.run("off"), self.run(OWN, "--no-settle"), self.run(OWN))
                  for _ in range(self._rounds)]
        failure = next((each.failure for some in rounds for each in some if each.failure), None)
        off, unsettled, own = zip(*rounds)
        return {"off": median([each.settled for each in off]),
                "unsettled": median([each.settled for each in unsettled]),
                "auto": median([each.settled for each in own]),
                "auto_returned": median([each.elapsed for each in own]), "failure": failure}


class Midway:
    """A deletion in whose course something happens."""

    def __init__(self, stage, foreground, arms, timeout):
        self._stage = stage
        self._foreground = foreground
        self._timeout = timeout
        self._deletion = self._track = None
        deleter = find(OWN)
        self._command = deleter.command(arms.program(deleter), stage.victim, stage.work.path)

    def run(self, from_start):
        """Foreground I/O is there first and ends (from_start), or begins. Returns when that was,
        the share that was deleted by then, when the command returned, the requests, and the track of
        what was gone when."""
        try:
            return self._run(from_start)
        except BaseException:
            if self._deletion:
                self._deletion.kill()
            self._foreground.kill()
            raise

    def _run(self, from_start):
        self._stage.reset()
        self._foreground.start(self._stage.mountpoint)
        with self._stage.disk.slow():
            if from_start:
                self._foreground.go()
                time.sleep(1)
            progress = Progress(self._stage, self._foreground.appended_per_second)
            self._track = speeds.Track()
            self._deletion = deletion = Deletion(
                self._command, os.path.join(self._stage.work.path, "output"))
            share = self._wait(deletion, progress, MID_SHARE, MID_SECONDS)
            change = time.monotonic()
            if from_start:
                self._foreground.stop()
            else:
                self._foreground.go()
            self._wait(deletion, progress, None, self._timeout)
            returned = time.monotonic() if deletion.has_returned() else None
            deletion.kill()
            if not from_start:
                time.sleep(0.5)
                self._foreground.stop()
        requests = self._foreground.reap()
        deletion.failure(self._stage.victim.path)
        return change, share, returned, requests, self._track

    def _wait(self, deletion, progress, share_wanted, seconds):
        """Until it has returned, or has come as far as wanted; the share, None if not known."""
        end = time.monotonic() + seconds
        share = None
        while not deletion.has_returned() and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
            progress.poll(None)
            gone = self._stage.victim.bytes_gone(progress.freed_bytes)
            if gone is not None:
                self._track.add(time.monotonic(), gone)
                share = gone / self._stage.victim_bytes
            if share_wanted is not None and share is not None and share >= share_wanted:
                break
        return share


def settles_after(requests, kind, change, bound):
    """Seconds after which the p99 of all that came due later is within the bound, or None."""
    for step in range(200):
        after = step * 0.05
        later = sorted(each.latency for each in requests
                       if each.kind == kind and each.due >= change + after)
        if len(later) < SAMPLES_MIN:
            return None
        if nearest_rank(later, 0.99) <= bound:
            return after
    return None


def _arrival(cell, midway):
    """By kind: how long it took until foreground I/O was as well off as it has to be; and until the
    deletion had become slower."""
    change, share, returned, requests, track = midway.run(from_start=False)
    during = [each for each in requests if returned is None or each.due < returned]
    result = {"share": share, "seconds_left": returned and returned - change, "kinds": {},
              **speeds.arrival(track, change, NOTICE_SECONDS)}
    for kind in cell.kinds:
        usual = median([each.percentile(kind, 0.99) for each in cell.impacts.get(BASELINE, ())])
        later = sorted(each.latency for each in during
                       if each.kind == kind and each.due >= change + NOTICE_SECONDS)
        result["kinds"][kind] = {
            "samples": len(later),
            "p99": nearest_rank(later, 0.99),
            "bound": usual and usual * P99_BAR,
            "settles_after": usual and settles_after(during, kind, change, usual * P99_BAR)}
    return result


def _departure(midway, full_seconds, full_rate):
    """How much longer the rest took than it does at full speed, and how soon it was at full speed."""
    change, share, returned, _, track = midway.run(from_start=True)
    result = {"share": share, "seconds_left": returned and returned - change, "lost": None,
              "full_speed_after": speeds.departure(track, change, full_rate)}
    if returned is not None and share is not None and share < 1 and full_seconds:
        result["lost"] = returned - change - (1 - share) * full_seconds
    return result


def measure(cell, stage, foreground, arms, options):
    """All three, of one cell."""
    if arms.program(find(OWN)) is None:
        return
    alone = Lone(stage, arms, options.timeout, options.short).compare()
    midway = Midway(stage, foreground, arms, options.timeout)
    arrival = _arrival(cell, midway)
    cell.dynamics = {"alone": alone, "arrival": arrival,
                     "departure": _departure(midway, alone["auto_returned"], arrival["full_rate"])}


def bars(cell):
    """What is to be reached."""
    if not cell.dynamics:
        return
    yield from _alone_bars(cell)
    for kind, numbers in cell.dynamics["arrival"]["kinds"].items():
        yield _arrival_bar(cell, kind, numbers)
    yield _back_off_bar(cell)
    yield _departure_bar(cell)
    yield _full_speed_bar(cell)


def _alone_bars(cell):
    speed_bar = f"{cell.name}: without foreground I/O, at least {SPEED_BAR} of the speed"
    debt_bar = f"{cell.name}: with what is written back, at most {DEBT_BAR} x the time"
    alone = cell.dynamics["alone"]
    if alone["failure"]:
        yield Bar(speed_bar, False, alone["failure"])
        return
    speed = alone["off"] / alone["unsettled"]
    yield Bar(speed_bar, speed >= SPEED_BAR,
              f"{speed:.2f} ({alone['unsettled']:.2f} s, off {alone['off']:.2f} s)")
    times = alone["auto"] / alone["off"]
    yield Bar(debt_bar, times <= DEBT_BAR,
              f"{times:.2f} ({alone['auto']:.2f} s, off {alone['off']:.2f} s)")


def _back_off_bar(cell):
    what = f"{cell.name}: slower at most {NOTICE_SECONDS:.1f} s after foreground I/O began"
    arrival = cell.dynamics["arrival"]
    full, beside = arrival["full_rate"], arrival["beside_rate"]
    if not full or beside is None:
        return Bar(what, None, "too short to tell")
    speed = f"{full / MIB:.0f} MiB/s, beside it {beside / MIB:.0f} MiB/s"
    if full < speeds.APART * beside:
        return Bar(what, None, f"hardly slower: {speed}")
    after = arrival["backed_off_after"]
    if after is None:
        return Bar(what, False, f"never; {speed}")
    return Bar(what, after <= NOTICE_SECONDS, f"{after:.2f} s; {speed}")


def _full_speed_bar(cell):
    what = (f"{cell.name}: at {speeds.FULL_SHARE} of full speed at most {RESUME_BAR_SECONDS:.0f} s "
            "after foreground I/O ended")
    after = cell.dynamics["departure"]["full_speed_after"]
    left = cell.dynamics["departure"]["seconds_left"]
    if after is not None:
        return Bar(what, after <= RESUME_BAR_SECONDS, f"{after:.2f} s")
    if not cell.dynamics["arrival"]["full_rate"] or left is not None and left < RESUME_BAR_SECONDS:
        return Bar(what, None, "too short to tell")
    return Bar(what, False, "never")


def _arrival_bar(cell, kind, numbers):
    what = f"{cell.name}: {kind} p99 in bounds {NOTICE_SECONDS:.1f} s after foreground I/O began"
    if numbers["samples"] < SAMPLES_MIN or not numbers["bound"]:
        return Bar(what, None, f"only {numbers['samples']} requests before it was done")
    after = numbers["settles_after"]
    return Bar(what, numbers["p99"] <= numbers["bound"],
               f"{numbers['p99'] * 1000:.1f} ms, bound {numbers['bound'] * 1000:.1f} ms, reached "
               + ("never" if after is None else f"after {after:.2f} s"))


def _departure_bar(cell):
    what = f"{cell.name}: at most {RESUME_BAR_SECONDS:.0f} s lost when foreground I/O ends"
    departure = cell.dynamics["departure"]
    if departure["lost"] is None:
        return Bar(what, None, "done, or not to be told")
    return Bar(what, departure["lost"] <= RESUME_BAR_SECONDS,
               f"{departure['lost']:.2f} s of {departure['seconds_left']:.2f} s")
