# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trimmap: what of a simulated disk was trimmed, as the disk itself has counted.

Pages that were written meanwhile are in no comparison: they were free for a part of the time only.
"""

import re

PAGE_BYTES = 4096
# As in slowdisk-trims.h.
WRITTEN = 0x80
MOST = 0x7f


def _table(wanted):
    """For bytes.translate: 1 for each value of a page that is wanted."""
    return bytes(bool(wanted(value)) for value in range(256))


_TRIMMED = _table(lambda value: value & MOST)
_FREE = _table(lambda value: value & MOST and not value & WRITTEN)
_TWICE = _table(lambda value: value & MOST > 1 and not value & WRITTEN)
_UNTOUCHED = _table(lambda value: value == 0)
_RUN = re.compile(rb"\x01+")


def _ranges(flags):
    return [(match.start() * PAGE_BYTES, match.end() * PAGE_BYTES) for match in _RUN.finditer(flags)]


class TrimMap:
    """A byte for each page: how often it was trimmed, and whether it was written."""

    def __init__(self, pages):
        self._pages = pages

    def runs(self):
        """What was trimmed: ranges of bytes, which do not touch each other."""
        return _ranges(self._pages.translate(_TRIMMED))

    def twice(self):
        """The same of what was trimmed more than once."""
        return _ranges(self._pages.translate(_TWICE))

    def trimmed_bytes(self):
        """Each counts once."""
        return self._pages.translate(_TRIMMED).count(1) * PAGE_BYTES

    def times(self):
        """How often a byte of these was trimmed, in the mean; 0 if nothing was."""
        often = sum((value & MOST) * self._pages.count(value) for value in set(self._pages))
        return often * PAGE_BYTES / (self.trimmed_bytes() or 1)

    def missing(self, other):
        """What was trimmed here and neither trimmed nor written in the other."""
        here, there = (int.from_bytes(flags, "little") for flags in (
            self._pages.translate(_FREE), other._pages.translate(_UNTOUCHED)))  # pylint: disable=protected-access
        return _ranges((here & there).to_bytes(len(self._pages), "little"))


def total(ranges):
    """Bytes."""
    return sum(end - start for start, end in ranges)


def named(ranges, most=4):
    """The first of them in words."""
    words = [f"{start}-{end - 1}" for start, end in ranges[:most]]
    return ", ".join(words) + (f" and {len(ranges) - most} more" if len(ranges) > most else "")
