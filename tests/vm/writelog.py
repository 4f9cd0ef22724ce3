# SPDX-License-Identifier: LGPL-2.1-or-later
"""Logs of device mapper's target log-writes: what was on a disk when. A write that was not flushed by a
certain moment comes after all that belong to it; so the log up to there is the disk as it is if the power
fails then, with nothing in it that did not have to be."""
import struct

SUPER = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")
MAGIC = 0x6A736677736872
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


class Log:
    """Entries as (sector, sectors, where its data are); what of them there was at which mark."""

    def __init__(self, path):
        self.file = open(path, "rb")  # pylint: disable=consider-using-with
        self.close = self.file.close
        magic, _, n, self.sector = SUPER.unpack(self.file.read(SUPER.size))
        assert magic == MAGIC, "%s is no log of writes" % path
        self.entries = []
        self.marks = {}  # number: how many entries there were, at each time it was set
        self.durable = []  # after each flush: how many entries, and the last mark
        self.read(n)

    def read(self, n):
        at, last = self.sector, 0
        for _ in range(n):
            self.file.seek(at)
            sector, sectors, flags, length = ENTRY.unpack(self.file.read(ENTRY.size))
            at += self.sector
            if flags & MARK:
                word = self.file.read(length)
                if word.isdigit():  # the last is device mapper's own
                    last = int(word)
                    self.marks.setdefault(last, []).append(len(self.entries))
            elif sectors:
                self.entries.append((sector, sectors, None if flags & DISCARD else at))
                at += 0 if flags & DISCARD else sectors * self.sector
            if flags & (FLUSH | FUA | MARK):
                self.durable.append((len(self.entries), last))

    def replay(self, image, begin, end):
        """Writes what is between into an open image."""
        for sector, sectors, at in self.entries[begin:end]:
            image.seek(sector * self.sector)
            if at is None:
                # What is discarded may read as anything: as it was.
                continue
            self.file.seek(at)
            image.write(self.file.read(sectors * self.sector))
        image.flush()


def moments(logs):
    """Each state that the disks could be found in: how many entries of each log, and the first and the last
    mark for which that is so."""
    found = {}
    if len(logs) == 1:
        times = [((n,), mark) for n, mark in logs[0].durable]
    else:
        times = []
        for mark in logs[0].marks:
            all_set = [log.marks.get(mark, []) for log in logs]
            # Did the first stay as it was until the last was marked?
            if all(len(s) == 2 for s in all_set) and all(s[0] == s[1] for s in all_set[:-1]):
                times.append((tuple(s[0] for s in all_set), mark))
    for state, mark in times:
        first, last = found.get(state, (mark, mark))
        found[state] = (min(first, mark), max(last, mark))
    return sorted(((state, *marks) for state, marks in found.items()), key=lambda m: m[1:])
