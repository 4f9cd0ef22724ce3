# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a host with other machines takes away from the processors of this one."""

import bisect
import threading
import time


class Stolen:
    """The share of the processors' time that the machine's host kept to itself meanwhile."""

    @staticmethod
    def ticks():
        """What was taken, and all, of all processors."""
        with open("/proc/stat", encoding="ascii") as f:
            ticks = [int(n) for n in f.readline().split()[1:9]]
        return ticks[7], sum(ticks)

    def __enter__(self):
        self._before = self.ticks()
        return self

    def __exit__(self, *exception):
        stolen, all_of_it = (now - then for now, then in zip(self.ticks(), self._before))
        self.share = stolen / max(1, all_of_it)


class StealWatch:
    """When it kept some of it, by the monotonic clock: a thread looks twenty times a second. What came due
    near such a moment is left out, whatever became of it: to ask how long it took would leave out the
    slow ones."""

    EVERY_SECONDS = 0.05
    NEAR_SECONDS = 0.1

    def __init__(self):
        self._moments = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self):
        before = Stolen.ticks()[0]
        while not self._ends.wait(self.EVERY_SECONDS):
            now = Stolen.ticks()[0]
            if now != before:
                self._moments.append(time.monotonic())
            before = now

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._ends.set()
        self._thread.join()

    def is_near(self, due):
        """Whether some was taken shortly before or after that."""
        at = bisect.bisect_left(self._moments, due - self.NEAR_SECONDS)
        return at < len(self._moments) and self._moments[at] <= due + self.NEAR_SECONDS + self.EVERY_SECONDS
