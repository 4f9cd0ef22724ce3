# SPDX-License-Identifier: LGPL-2.1-or-later
"""Filling: large files, written around the page cache as fast as the disk takes them."""

import mmap
import os

from benchlib.trees import MIB

PIECE_BYTES = 32 * MIB


def write(path, n_bytes, zeros):
    """A new file of so many bytes, a multiple of a MiB. Zeros do on a simulated disk, which does not
    store them; a disk of its own may leave them out, or compress them, and then frees nothing."""
    piece = mmap.mmap(-1, PIECE_BYTES)
    if not zeros:
        piece.write(os.urandom(PIECE_BYTES))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT | os.O_CLOEXEC, 0o644)
    try:
        while n_bytes > 0:
            n_bytes -= os.write(file, memoryview(piece)[:min(PIECE_BYTES, n_bytes)])
    finally:
        os.close(file)
