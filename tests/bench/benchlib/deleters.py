# SPDX-License-Identifier: LGPL-2.1-or-later
"""Deleters: the arms of the interference benchmark, from no deletion to loops to reclaimctl."""

import dataclasses
import os
import re
import subprocess

from benchlib.scratch import SOURCE_DIR
from benchlib.trees import MIB

BASELINE = "baseline"
OWN = "auto"
# The same, of another build, to show what has changed since.
BEFORE = "before"
GRID = [f"loop-{size}M-{pause}ms" for size in (2, 10, 64) for pause in (5, 20, 100)]
# What is recommended where people have asked how to delete large files gently.
RECOMMENDED = ["loop-64M-50ms", "loop-128M-100ms"]
# RocksDB's deleter: 64 MiB at a time (bytes_max_delete_chunk), each with an fsync, at a rate that is configured.
ROCKSDB = "rocksdb-64MBps"
LOOPS = GRID + RECOMMENDED
NAMES = [BASELINE, "rm", "ionice", "ionice-bfq", *LOOPS, ROCKSDB, "off", BEFORE, OWN]
# By the daemon, to which something happens when a third of it is gone; by the first one nothing.
INTERRUPTED = ["daemon", "restart", "kill"]
_LOOP = re.compile(r"loop-([1-9][0-9]*)M-([0-9]+)ms")
_ROCKSDB = re.compile(r"rocksdb-([1-9][0-9]*)MBps")


@dataclasses.dataclass(frozen=True)
class Deleter:
    """A way of deleting; step and pause, or rate in bytes a second, are those of a fixed loop, else 0.
    scheduler: of the disk, while it runs; None: as it is. through_daemon: what happens to that is the name."""

    name: str
    program: str = None
    options: tuple = ()
    step_bytes: int = 0
    pause_msec: int = 0
    rate: int = 0
    scheduler: str = None
    through_daemon: bool = False

    @property
    def is_loop(self):
        """Whether its speed is fixed, so that its time can be told from a part of it."""
        return self.step_bytes > 0

    def command(self, program, victim, directory):
        """The command line, with a directory to work in; None for the baseline."""
        if self.name == BASELINE:
            return None
        if self.through_daemon:
            return [os.path.join(SOURCE_DIR, "interrupted"), self.name, directory, program,
                    str(victim.file_bytes * victim.files // 3), victim.path]
        if self.is_loop:
            return [program, str(self.step_bytes), str(victim.files_in(self.step_bytes)),
                    f"rate={self.rate}" if self.rate else str(self.pause_msec), victim.path]
        return [program, *self.options, victim.path]

    def least_seconds(self, victim_bytes):
        """What the pauses alone take."""
        if not self.is_loop:
            return 0
        if self.rate:
            return victim_bytes / self.rate
        return victim_bytes / self.step_bytes * self.pause_msec / 1000


_FIXED = {deleter.name: deleter for deleter in (
    Deleter(BASELINE),
    Deleter("rm", "rm", ("-rf",)),
    Deleter("ionice", "ionice", ("-c3", "rm", "-rf")),
    # Only this scheduler knows priorities.
    Deleter("ionice-bfq", "ionice", ("-c3", "rm", "-rf"), scheduler="bfq"),
    Deleter("off", "reclaimctl", ("run", "--quiet", "--latency=off")),
    Deleter(BEFORE, "before", ("run", "--quiet", "--latency=auto")),
    Deleter(OWN, "reclaimctl", ("run", "--quiet", "--latency=auto")),
    *(Deleter(name, "reclaimctl", through_daemon=True) for name in INTERRUPTED),
)}


def find(name):
    """The deleter of that name, or None. Loops need not be of the grid."""
    match = _LOOP.fullmatch(name)
    if match:
        return Deleter(name, "stepdelete", step_bytes=int(match[1]) * MIB,
                       pause_msec=int(match[2]))
    match = _ROCKSDB.fullmatch(name)
    if match:
        return Deleter(name, "stepdelete", step_bytes=64 * MIB, rate=int(match[1]) * 1000000)
    return _FIXED.get(name)


def expand(text):
    """Names from a list in which `grid` and `loops` stand for many."""
    groups = {"grid": GRID, "loops": LOOPS, "interrupted": INTERRUPTED, "all": NAMES}
    names = []
    for word in text.split(","):
        names += groups.get(word, [word])
    return list(dict.fromkeys(names))


class Deleters:
    """Finds the programs of the arms. before: the reclaimctl of another build, or None."""

    def __init__(self, work, programs, before=None):
        self._programs = programs
        self._before = before
        self._stepdelete = work.compile("stepdelete", ["stepdelete.c"])

    def program(self, deleter):
        """Its path, or None if it is not there; the baseline needs none, and has an empty one."""
        if deleter.is_loop:
            return self._stepdelete
        if deleter.name == BEFORE:
            return self._before
        return self._programs.find(deleter.program) if deleter.program else ""

    def versions(self, names):
        """What each build that is measured says of itself, by arm."""
        programs = {name: self.program(find(name)) for name in names if name in (OWN, BEFORE)}
        return {name: subprocess.run([program, "--version"], capture_output=True, text=True,
                                     check=False).stdout.partition("\n")[0]
                for name, program in programs.items() if program}
