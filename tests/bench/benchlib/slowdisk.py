# SPDX-License-Identifier: LGPL-2.1-or-later
"""Slowdisk: a simulated disk with a filesystem on it.

The disk sleeps as a real one would, so what is measured on it does not depend on how fast the
machine's own disk is. While a scenario is being prepared it can be fast.
"""

import contextlib
import os
import signal
import subprocess
import time

from benchlib.filesystems import LoopFilesystem, unmount_patiently
from benchlib.scratch import Unavailable
from benchlib.trimmap import TrimMap

SOURCES = ["slowdisk.c", "slowdisk-model.c", "slowdisk-options.c", "slowdisk-queue.c",
           "slowdisk-store.c", "slowdisk-trims.c"]
# A signal is asynchronous; nothing tells when it has been obeyed, but it is soon.
OBEY_SECONDS = 0.05


def fuse_flags():
    """What the compiler has to be told about libfuse 3."""
    try:
        result = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"],
                                capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise Unavailable("libfuse 3 or pkg-config is not installed") from error
    return result.stdout.split()


class SlowDisk:
    """A running slowdisk; options are those of its command line."""

    simulated = True

    def __init__(self, scratch, options, size_bytes):
        self.size_bytes = size_bytes
        program = scratch.compile("slowdisk", SOURCES, [*fuse_flags(), "-lm", "-lpthread"])
        self.mountpoint = scratch.dir("slowdisk")
        self._statistics = os.path.join(scratch.path, "slowdisk.stat")
        with open(self._statistics, "w", encoding="ascii") as statistics:
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                [program, *options, f"--size={size_bytes}", "--start-off", "--die-with-parent",
                 self.mountpoint],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=statistics, text=True,
                start_new_session=True)
        scratch.undo(self.close)
        if self._process.stdout.readline().strip() != "ready":
            self._process.wait()
            raise Unavailable("slowdisk: " + self._said())

    @property
    def path(self):
        """The file that is the disk."""
        return os.path.join(self.mountpoint, "disk")

    def delays(self, on):
        """Make it slow, or fast."""
        self._process.send_signal(signal.SIGUSR2 if on else signal.SIGUSR1)
        time.sleep(OBEY_SECONDS)

    @contextlib.contextmanager
    def slow(self):
        """Slow within the with, fast again behind it."""
        self.delays(True)
        try:
            yield
        finally:
            self.delays(False)

    @property
    def _trims(self):
        return os.path.join(self.mountpoint, "trims")

    def forget_trims(self):
        """What was trimmed and written so far does not count."""
        map_fd = os.open(self._trims, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(map_fd, b"\0")
        finally:
            os.close(map_fd)

    def trims(self):
        """How often each page was trimmed since then: a TrimMap."""
        with open(self._trims, "rb") as pages:
            return TrimMap(pages.read())

    def close(self):
        """Ends it; returns its statistics. Harmless when it has ended."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        self._process.stdout.close()
        if os.path.ismount(self.mountpoint):
            unmount_patiently(self.mountpoint)
        return self._said()

    def _said(self):
        with contextlib.suppress(FileNotFoundError):
            with open(self._statistics, encoding="utf-8") as statistics:
                return statistics.read().strip()
        return ""

    def filesystem(self, scratch, kind):
        """A new filesystem on the disk, not yet mounted."""
        filesystem = LoopFilesystem(scratch, kind, None, backing=self.path, direct_io=True)
        filesystem.format()
        return filesystem
