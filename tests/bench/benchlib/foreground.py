# SPDX-License-Identifier: LGPL-2.1-or-later
"""Foreground: the program whose I/O must not suffer, and how long each of its requests took.

prepare makes its files and calibrate finds out what the disk can serve, both once; start, on a
fast disk, gets it ready; go starts it; stop, on the slow disk, ends it; reap, when the disk is fast
again, returns its requests.
"""

import collections
import os
import signal
import subprocess

from benchlib import filling
from benchlib.scratch import Unavailable
from benchlib.trees import MIB

# Kind, when it was due (monotonic), how long after that it was done, in seconds; late: issued by an
# idle thread.
Request = collections.namedtuple("Request", "kind due latency unfinished late")
READ_FILE_BYTES = 2048 * MIB
OVERWRITE_FILE_BYTES = 512 * MIB
# The files take no more than such a share of a small disk.
FILE_SHARE = 16
# What is written, and what its requests are called in reports.
APPEND, OVERWRITE = "append", "overwrite"
WRITES = (APPEND, OVERWRITE)
KIND_NAMES = {APPEND: "fdatasync", OVERWRITE: "overwrite", "read": "read"}


class OpenLoop:
    """Appends with fdatasync, or writes with O_DSYNC at random places, and direct reads, at a fixed
    rate (foreground.c). files: what the writers of all programs that share its files need."""

    def __init__(self, work, load, seconds, writes=APPEND, files=(APPEND,)):
        self.name = load.name if writes == APPEND else f"{load.name}-{writes}"
        self.kinds = (KIND_NAMES[writes], "read")
        self._writes = writes
        self._files = files
        self._load = load
        self._seconds = seconds
        self._log = os.path.join(work.path, "requests")
        self._program = work.compile("foreground", ["foreground.c"], ["-lpthread"])
        self._process = None
        work.undo(self.kill)

    @property
    def appended_per_second(self):
        """Space it takes while a deletion gives some back."""
        return self._load.syncs * 8192 if self._writes == APPEND else 0

    def prepare(self, mountpoint, disk):
        """Its files, in the beginning of the disk."""
        most = disk.size_bytes // FILE_SHARE // MIB * MIB
        if APPEND in self._files:
            with open(os.path.join(mountpoint, APPEND), "wb") as file:
                os.fsync(file.fileno())
        if OVERWRITE in self._files:
            filling.write(os.path.join(mountpoint, OVERWRITE), min(OVERWRITE_FILE_BYTES, most),
                          disk.simulated)
        filling.write(os.path.join(mountpoint, "read"), min(READ_FILE_BYTES, most), disk.simulated)

    def calibrate(self, stage):
        """Its rate is given."""

    def start(self, mountpoint):
        """Ready to go."""
        command = [self._program, mountpoint, self._log, str(self._seconds), self._writes,
                   str(self._load.syncs), str(self._load.reads)]
        self._process = subprocess.Popen(  # pylint: disable=consider-using-with
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._expect("ready")

    def _expect(self, word):
        said = self._process.stdout.readline().strip()
        if said != word:
            self.kill()
            raise Unavailable(f"foreground: {said or 'died'}")

    def go(self):
        """From now on it keeps its pace."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def stop(self):
        """What has not been done by now counts with the time that it has waited."""
        self._process.send_signal(signal.SIGTERM)
        self._expect("done")

    def reap(self):
        """All requests that came due."""
        self.kill()
        requests = []
        with open(self._log, encoding="ascii") as lines:
            for line in lines:
                kind, due, latency, unfinished, late = line.split()
                requests.append(Request(KIND_NAMES[kind], int(due) / 1e9, int(latency) / 1e9,
                                        unfinished == "1", int(late) / 1e9))
        return requests

    def kill(self):
        """Harmless when it is gone."""
        process, self._process = self._process, None
        if process:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
