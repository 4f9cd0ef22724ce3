# SPDX-License-Identifier: LGPL-2.1-or-later
"""Speeds: how fast a deletion goes on, from samples of what is gone, and how soon that changes.

Nothing here knows a disk or a clock. A rate is that over a window, as a deletion works in steps.
"""

import bisect

WINDOW_SECONDS = 0.25
STEP_SECONDS = 0.01
# Of the full speed; the rest is noise of a window.
FULL_SHARE = 0.8
# Speeds that are closer than that cannot be told apart from windows.
APART = 2


class Track:
    """Bytes that are gone, over time."""

    def __init__(self):
        self._times = []
        self._bytes = []

    def add(self, time, n_bytes):
        """A sample, not before the last one. What comes back (of metadata) does not count."""
        self._times.append(time)
        self._bytes.append(max(n_bytes, self._bytes[-1] if self._bytes else 0))

    @property
    def end(self):
        """When the last sample was taken; None without one."""
        return self._times[-1] if self._times else None

    def begin(self):
        """When something was gone for the first time; None if nothing was."""
        return next((time for time, gone in zip(self._times, self._bytes) if gone > 0), None)

    def _at(self, time):
        """Between two samples, as if it went evenly."""
        place = bisect.bisect_right(self._times, time)
        if place == 0:
            return self._bytes[0]
        if place == len(self._times):
            return self._bytes[-1]
        before, after = self._times[place - 1], self._times[place]
        share = (time - before) / (after - before)
        return self._bytes[place - 1] + share * (self._bytes[place] - self._bytes[place - 1])

    def rate(self, start, end):
        """Bytes a second between the two; None if that is too short, or not all of it was sampled."""
        if not self._times or start is None or end is None or end - start < WINDOW_SECONDS * 0.99:
            return None
        if start < self._times[0] or end > self._times[-1]:
            return None
        return (self._at(end) - self._at(start)) / (end - start)

    def first(self, change, accepts):
        """How long after the change a window begins whose rate is accepted; None if there is none."""
        step = 0
        while (rate := self.rate(change + step * STEP_SECONDS,
                                 change + step * STEP_SECONDS + WINDOW_SECONDS)) is not None:
            if accepts(rate):
                return step * STEP_SECONDS
            step += 1
        return None


def arrival(track, change, notice):
    """Foreground I/O came at `change`: full speed before, speed beside it (from `notice` seconds after), and
    after how many seconds it was nearer to the second. None: not known."""
    full = track.rate(track.begin(), change)
    beside = track.rate(change + notice, track.end) if track.end is not None else None
    result = {"full_rate": full, "beside_rate": beside, "backed_off_after": None}
    if full and beside is not None and full >= APART * beside:
        # Half way in the sense of a factor; of a standstill, a tenth is near enough.
        limit = max((full * beside) ** 0.5, full / 10)
        result["backed_off_after"] = track.first(change, lambda rate: rate <= limit)
    return result


def departure(track, change, full):
    """It went at `change`: after how many seconds the deletion was at full speed; None: not known."""
    if not full:
        return None
    return track.first(change, lambda rate: rate >= FULL_SHARE * full)
