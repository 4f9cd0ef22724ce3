# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a host that others share takes away from the processors of this machine."""


class Stolen:
    """The share of the processors' time that the machine's host kept to itself meanwhile."""

    @staticmethod
    def _ticks():
        with open("/proc/stat", encoding="ascii") as f:
            ticks = [int(n) for n in f.readline().split()[1:9]]
        return ticks[7], sum(ticks)

    def __enter__(self):
        self._before = self._ticks()
        return self

    def __exit__(self, *exception):
        stolen, all_of_it = (now - then for now, then in zip(self._ticks(), self._before))
        self.share = stolen / max(1, all_of_it)
