# SPDX-License-Identifier: LGPL-2.1-or-later
"""What files and trees contain, in a form that can be compared."""
import errno
import os
import stat
import zlib

MIB = 1 << 20

# What a cluster says of a directory may have been so a while ago: its names are looked at instead.
stale_directories = False  # pylint: disable=invalid-name


def big_file(path, mib=256):
    """A large file that can be told from any other and costs little: mostly preallocated, with
    written blocks at both ends and every 16 MiB. Returns the digest of every byte of it."""
    with open(path, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, mib * MIB)
        for at in range(0, mib, 16):
            os.pwrite(f.fileno(), os.urandom(64) * 64, at * MIB)
        os.pwrite(f.fileno(), b"the end", mib * MIB - 7)
        os.fsync(f.fileno())
        f.seek(0)
    with open(path, "rb") as f:
        return digest(f)


DIGEST_BLOCK = 64 << 10
ZEROS = bytes(DIGEST_BLOCK)


def checksum(blocks):
    """Of all blocks of DIGEST_BLOCK that hold anything but zeros, and where they are; the length."""
    crc, at = 0, 0
    for block in blocks:
        if block is None:
            at += DIGEST_BLOCK
            continue
        if block != ZEROS[:len(block)]:
            crc = zlib.crc32(block, zlib.crc32(at.to_bytes(8, "little"), crc))
        at += len(block)
    return crc, at


def digest(f, offset=0):
    """A checksum of all that can be read from an open file, from an offset on, and its length. Where
    there is a hole, or what was never written, the kernel is believed that these are zeros."""
    fd = f if isinstance(f, int) else f.fileno()

    def blocks():
        at, size = offset, os.fstat(fd).st_size
        while at < size:
            try:
                data = os.lseek(fd, at, os.SEEK_DATA)
            except OSError as e:
                if e.errno != errno.ENXIO:
                    raise
                data = size
            while at + DIGEST_BLOCK <= data:
                at += DIGEST_BLOCK
                yield None
            block = os.pread(fd, DIGEST_BLOCK, at)
            at += len(block)
            if not block:
                return
            yield block

    return checksum(blocks())


def fingerprint(path):
    """Names, types, modes, owners, link counts, times, contents."""
    path = os.fsencode(path)
    prints = {}
    entries = [path]
    for d, dirs, files in os.walk(path):
        entries += [os.path.join(d, n) for n in dirs + files]
    for e in entries:
        st = os.lstat(e)
        content = b""
        if stat.S_ISREG(st.st_mode):
            with open(e, "rb") as f:
                content = digest(f)
        elif stat.S_ISLNK(st.st_mode):
            content = os.readlink(e)
        figures = (st.st_nlink, st.st_size, st.st_mtime_ns)
        if stale_directories and stat.S_ISDIR(st.st_mode):
            figures = (0, 0, 0)
        prints[os.path.relpath(e, path)] = (st.st_mode, st.st_uid, st.st_gid, *figures, content)
    return prints
