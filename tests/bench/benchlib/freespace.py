# SPDX-License-Identifier: LGPL-2.1-or-later
"""Freespace: a filesystem that is full but for so many bytes in so many pieces.

Nothing is written: files are allocated, and some of them are deleted.
"""

import contextlib
import ctypes
import errno
import os
import subprocess

from benchlib.filesystems import run
from benchlib.scratch import Unavailable
from benchlib.trees import KIB, MIB

# Between two pieces.
BETWEEN_BYTES = 256 * KIB
ROUND_BYTES = 64 * KIB
# linux/falloc.h
KEEP_SIZE, PUNCH_HOLE = 1, 2


def allocate(path, n_bytes):
    """Whether there is room for so much in a file of its own; no part of it stays behind."""
    with contextlib.ExitStack() as stack:
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, file)
            os.posix_fallocate(file, 0, n_bytes)
            return True
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return False


def punch(path, ranges):
    """Frees (offset, length) of a file."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for offset, length in ranges:
            if libc.fallocate(file, PUNCH_HOLE | KEEP_SIZE, offset, length) < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    finally:
        os.close(file)


class FreeSpace:
    """In place of a victim: nothing is deleted, and what is free is trimmed."""

    def __init__(self, kind, mountpoint, free_bytes, pieces):
        self._kind = kind
        self._mountpoint = mountpoint
        self._pieces = pieces
        self._piece_bytes = max(ROUND_BYTES, free_bytes // pieces // ROUND_BYTES * ROUND_BYTES)
        self.what = f"{pieces:,} pieces of {self._piece_bytes / MIB:,.2f} MiB"

    def _path(self, name):
        return os.path.join(self._mountpoint, "free", name)

    def build(self, _disk):
        """Pieces and what is between them in turn; then all else is taken, and the pieces are freed."""
        os.mkdir(self._path(""))
        if self._kind.startswith("btrfs"):
            self._of_files()
        else:
            self._of_one_file()
        self._sync()

    def _of_one_file(self):
        """What was allocated at once lies together."""
        each = self._piece_bytes + BETWEEN_BYTES
        self._allocate("pieces", self._pieces * each)
        self._fill_up()
        self._sync()
        punch(self._path("pieces"), [(number * each, self._piece_bytes) for number in range(self._pieces)])

    def _of_files(self):
        """btrfs frees an extent when no part of it is in use any more."""
        for number in range(self._pieces):
            self._allocate(f"piece-{number}", self._piece_bytes)
            self._allocate(f"between-{number}", BETWEEN_BYTES)
        self._fill_up()
        self._sync()
        for number in range(self._pieces):
            os.unlink(self._path(f"piece-{number}"))
        self._sync()
        # What the kernel does by itself, but later: chunks with nothing in them are no more.
        run("btrfs", "balance", "start", "-dusage=0", self._mountpoint)

    def _allocate(self, name, n_bytes):
        if not allocate(self._path(name), n_bytes):
            raise Unavailable(f"no room for {self.what}")

    def _fill_up(self):
        status = os.statvfs(self._mountpoint)
        n_bytes, number = status.f_bfree * status.f_frsize, 0
        while n_bytes >= ROUND_BYTES:
            if not allocate(self._path(f"rest-{number}"), n_bytes):
                n_bytes //= 2
            number += 1

    def _sync(self):
        subprocess.run(["sync", "-f", self._mountpoint], check=True)
