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

from benchlib.scratch import Unavailable
from benchlib.trees import MIB

# Kind, when it was due (monotonic), how long after that it was done, in seconds; late: issued by an
# idle thread.
Request = collections.namedtuple("Request", "kind due latency unfinished late")
READ_FILE_BYTES = 2048 * MIB
KIND_NAMES = {"append": "fdatasync", "read": "read"}


class OpenLoop:
    """Appends with fdatasync and direct reads at a fixed rate (foreground.c)."""

    kinds = ("fdatasync", "read")

    def __init__(self, work, load, seconds):
        self.name = load.name
        self._load = load
        self._seconds = seconds
        self._log = os.path.join(work.path, "requests")
        self._program = work.compile("foreground", ["foreground.c"], ["-lpthread"])
        self._process = None
        work.undo(self.kill)

    @property
    def appended_per_second(self):
        """Space it takes while a deletion gives some back."""
        return self._load.syncs * 8192

    @staticmethod
    def prepare(mountpoint):
        """Its two files; zeros are on the disk as well as anything."""
        with open(os.path.join(mountpoint, "append"), "wb") as file:
            os.fsync(file.fileno())
        subprocess.run(["dd", "if=/dev/zero", "of=" + os.path.join(mountpoint, "read"), "bs=32M",
                        f"count={READ_FILE_BYTES >> 25}", "oflag=direct", "status=none"],
                       check=True)

    def calibrate(self, stage):
        """Its rate is given."""

    def start(self, mountpoint):
        """Ready to go."""
        command = [self._program, mountpoint, self._log, str(self._seconds),
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
