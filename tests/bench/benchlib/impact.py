# SPDX-License-Identifier: LGPL-2.1-or-later
"""Impact: one deletion, how long it takes, and what it does to foreground I/O.

A deletion is done when the command has returned, its space is free and what was to be trimmed is.
But the kernel still has to write back, commit and discard what the command left, so two windows
count: `all`, from the start of the deletion until `after` seconds after the command returned, and
`after`, those seconds alone. Nothing here syncs the filesystem: that would be one more disturber.
"""

import contextlib
import dataclasses
import math
import os
import signal
import subprocess
import time

from benchlib import blockdev
from benchlib.processors import StealWatch
from benchlib.stage import free_bytes

POLL_SECONDS = 0.02
LEAD_SECONDS = 1.0
SETTLE_SECONDS = 2.0
GRACE_SECONDS = 0.5
SAMPLE_SECONDS = 20.0
SPACE_BACK_SHARE = 0.98
# Trims follow each other without a pause, but the first may be as late as a commit.
TRIMMED_SHARE = 0.9
TRIMS_QUIET_SECONDS = 1.0
# With so many times the space trimmed, how long a loop takes is of no interest any more.
STORM_RATIO = 5
# A foreground program that appends has a block trimmed now and then itself.
TRIMS_NOISE_BYTES = 1 << 20
TRIMS_NONE_SECONDS = 7.0


class NoScheduler(Exception):
    """A scheduler that an arm needs is not there."""


@contextlib.contextmanager
def scheduler(device, name):
    """Has a device that scheduler for a time. None: the one it has."""
    if name is None:
        yield
        return
    queue = blockdev.queue(device)
    path = os.path.join(queue, "scheduler")
    usual = blockdev.read(queue, "scheduler").partition("[")[2].partition("]")[0]
    try:
        with open(path, "w", encoding="ascii") as to:
            to.write(name)
    except OSError as error:
        raise NoScheduler(f"the device takes no scheduler {name}") from error
    try:
        yield
    finally:
        with open(path, "w", encoding="ascii") as to:
            to.write(usual)


@dataclasses.dataclass
class Limits:
    """Seconds."""

    timeout: float
    min_window: float
    baseline: float
    after: float = 60.0  # how long after the command returned requests count
    lead: float = LEAD_SECONDS  # how long the foreground program runs before
    undisturbed: bool = False  # leave out what came due while the host took processor time
    enough: float = None  # a loop that takes longer can no longer be the better one


@dataclasses.dataclass
class Impact:
    """Times in seconds from the start; None: not reached. `estimate` is how long a loop would have
    taken for all of the victim, from the part that it was let do."""

    arm: str
    returned: float = None
    space_back: float = None
    done: float = None
    window: float = 0.0
    estimate: float = None
    stopped: str = None
    freed_bytes: int = 0
    trimmed_bytes: int = 0
    latencies: dict = dataclasses.field(default_factory=dict)
    after: dict = dataclasses.field(default_factory=dict)  # those of the window `after`
    # By kind, for each second from the start on (the lead is below 0): [second, samples, median,
    # longest].
    seconds: dict = dataclasses.field(default_factory=dict)
    unfinished: int = 0
    late: float = 0.0  # p99 of how late idle threads issued requests
    left_out: float = 0.0  # the share of requests that came due while the host took processor time
    failure: str = None

    def percentile(self, kind, share):
        """Nearest rank: with few samples the last ones are the maximum."""
        return nearest_rank(self.latencies.get(kind), share)

    def percentile_after(self, kind, share):
        """The same of the window after the end; None if there is none."""
        return nearest_rank(self.after.get(kind), share)

    def slow_seconds(self, kind, bound):
        """In how many seconds from the start on the median was above it."""
        return sum(second >= 0 and median > bound
                   for second, _, median, _ in self.seconds.get(kind, ()))

    def harm(self, kind, usual):
        """Seconds beyond what was usual, over all requests; of those left out, as of the others."""
        of_some = sum(max(0, latency - usual) for latency in self.latencies.get(kind, ()))
        return of_some / (1 - self.left_out) if self.left_out < 1 else 0


def nearest_rank(ordered, share):
    """None of nothing."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def by_second(requests, start):
    """[second, samples, median, longest] of each second in which a request came due."""
    seconds = {}
    for each in requests:
        seconds.setdefault(math.floor(each.due - start), []).append(each.latency)
    return [[second, len(found), nearest_rank(sorted(found), 0.5), max(found)]
            for second, found in sorted(seconds.items())]


class Progress:
    """What a deletion has given back so far, by looking only."""

    def __init__(self, stage, appended_per_second):
        self._stage = stage
        self._appended_per_second = appended_per_second
        self._start = time.monotonic()
        self._free = free_bytes(stage.mountpoint)
        self._trimmed = stage.filesystem.discarded_bytes()
        self._moved = self._idle = None
        self.freed_bytes = self.trimmed_bytes = self._seen_bytes = 0
        self.space_back = None

    def poll(self, returned):
        """Look; returned is when the command did, None if it did not. Seconds from the start."""
        now = time.monotonic() - self._start
        filesystem = self._stage.filesystem
        appended = self._appended_per_second * now
        self.freed_bytes = free_bytes(self._stage.mountpoint) - self._free + appended
        if self.space_back is None and self.share_free >= SPACE_BACK_SHARE:
            self.space_back = now
        self.trimmed_bytes = filesystem.discarded_bytes() - self._trimmed
        if self.trimmed_bytes - self._seen_bytes >= TRIMS_NOISE_BYTES:
            self._seen_bytes, self._moved = self.trimmed_bytes, now
        if blockdev.in_flight(filesystem.device) == 0:
            self._idle = now
        return self._done(now, returned)

    @property
    def share_free(self):
        """How much of the victim's space is free again."""
        return self.freed_bytes / self._stage.victim_bytes

    def _done(self, now, returned):
        """When all was done, or None."""
        if returned is None or self.space_back is None:
            return None
        done = max(returned, self.space_back)
        if not self._stage.scenario.discards:
            return done
        if self.trimmed_bytes < TRIMMED_SHARE * self._stage.victim_bytes:
            return done if now - max(done, self._moved or 0) > TRIMS_NONE_SECONDS else None
        # A single trim may take seconds, in which the disk is never idle.
        quiet = now - self._moved > TRIMS_QUIET_SECONDS and (self._idle or 0) >= self._moved
        return max(done, self._moved) if quiet else None


class Deletion:
    """A running deleter."""

    def __init__(self, command, output):
        self._output = output
        with open(output, "wb") as said:
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                start_new_session=True)

    def has_returned(self):
        """Whether it has."""
        return self._process.poll() is not None

    def kill(self):
        """It may take until the disk is fast again to die."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def failure(self, victim):
        """Waits for its end; what went wrong, or None."""
        status = self._process.wait()
        with open(self._output, encoding="utf-8", errors="replace") as said:
            words = " / ".join(said.read().strip().splitlines()[-3:])[-300:]
        if status != 0:
            return f"exit status {status}: {words}"
        return "the victim is still there" if os.path.lexists(victim) else None


class Observer:
    """Measures arms on one stage, with one foreground program."""

    def __init__(self, stage, foreground, deleters, limits):
        self._stage = stage
        self._foreground = foreground
        self._deleters = deleters
        self._limits = limits
        self._deletion = None

    def measure(self, deleter):
        """One arm, on a fresh disk; if it comes to nothing, no process stays on the filesystem."""
        try:
            return self._measure(deleter)
        except BaseException:
            self._kill()
            self._foreground.kill()
            raise

    def _measure(self, deleter):
        self._stage.reset()
        self._foreground.start(self._stage.mountpoint)
        impact = Impact(deleter.name)
        with StealWatch() as watch, self._stage.disk.slow(), \
                scheduler(self._stage.filesystem.device, deleter.scheduler):
            self._foreground.go()
            time.sleep(self._limits.lead)
            start = time.monotonic()
            self._run(deleter, impact)
            impact.window = time.monotonic() - start
            if not impact.stopped:
                time.sleep(GRACE_SECONDS)
            self._kill()
            self._foreground.stop()
        requests = self._foreground.reap()
        requests = [request for request in requests if request.due < start + impact.window]
        if self._limits.undisturbed:
            counting = [request for request in requests if not watch.is_near(request.due)]
            impact.left_out = 1 - len(counting) / max(1, len(requests))
            requests = counting
        self._take(impact, requests, start)
        impact.failure = self._end_deletion(impact.stopped)
        return impact

    def _end_deletion(self, stopped):
        """What went wrong, or None; of one that was stopped nothing can be said."""
        deletion, self._deletion = self._deletion, None
        failure = deletion.failure(self._stage.victim.path) if deletion else None
        return None if stopped else failure

    def _kill(self):
        if self._deletion:
            self._deletion.kill()

    def _run(self, deleter, impact):
        """Until it is done, settled, and long enough ago."""
        command = deleter.command(self._deleters.program(deleter), self._stage.victim,
                                  self._stage.work.path)
        if command is None:
            time.sleep(self._limits.baseline)
            return
        start = time.monotonic()
        progress = Progress(self._stage, self._foreground.appended_per_second)
        self._deletion = Deletion(command, os.path.join(self._stage.work.path, "output"))
        while impact.done is None and not impact.stopped:
            time.sleep(POLL_SECONDS)
            now = time.monotonic() - start
            if impact.returned is None and self._deletion.has_returned():
                impact.returned = now
            impact.done = progress.poll(impact.returned)
            if impact.done is None:
                self._consider_stopping(deleter, impact, progress, now)
        impact.space_back = progress.space_back
        if not impact.stopped:
            end = max(impact.done + SETTLE_SECONDS, impact.returned + self._limits.after,
                      self._limits.min_window)
            time.sleep(max(0, start + end - time.monotonic()))
            progress.poll(impact.returned)
        impact.freed_bytes = progress.freed_bytes
        impact.trimmed_bytes = progress.trimmed_bytes

    def _consider_stopping(self, deleter, impact, progress, now):
        """A loop that will not be done in time is not waited for: its speed is known by then."""
        if now >= self._limits.timeout:
            impact.stopped = "timeout"
        elif deleter.is_loop and self._limits.enough and now >= self._limits.enough:
            impact.stopped = "slower"
        elif not deleter.is_loop or now < SAMPLE_SECONDS:
            return
        elif progress.trimmed_bytes > STORM_RATIO * self._stage.victim_bytes:
            impact.stopped = "storm of trims"
        elif impact.returned is None:
            estimate = self._estimate(deleter, progress, now)
            if estimate > self._limits.timeout:
                impact.stopped = "sampled"
                impact.estimate = estimate if math.isfinite(estimate) else None

    def _estimate(self, deleter, progress, now):
        share = self._stage.victim.share_gone(progress.share_free)
        least = deleter.least_seconds(self._stage.victim_bytes)
        if share is None:
            return least
        return max(least, now / share if share > 0 else math.inf)

    def _take(self, impact, requests, start):
        for kind in self._foreground.kinds:
            impact.seconds[kind] = by_second([each for each in requests if each.kind == kind],
                                             start)
        requests = [each for each in requests if each.due >= start]
        for kind in self._foreground.kinds:
            of_kind = [each for each in requests if each.kind == kind]
            impact.latencies[kind] = sorted(each.latency for each in of_kind)
            if impact.returned is not None:
                ended = start + impact.returned
                impact.after[kind] = sorted(each.latency for each in of_kind if each.due >= ended)
        impact.unfinished = sum(each.unfinished for each in requests)
        impact.late = nearest_rank(sorted(each.late for each in requests), 0.99) or 0
