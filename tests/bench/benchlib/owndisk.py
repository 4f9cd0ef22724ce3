# SPDX-License-Identifier: LGPL-2.1-or-later
"""Owndisk: a block device of the user's in place of the simulated disk.

It is overwritten, so it is looked at first: in use it is refused, and one that holds data is refused
unless the user names it twice. Until then it is opened for reading alone.
"""

import contextlib
import errno
import fcntl
import glob
import os
import stat
import struct
import subprocess
import sys
import time

from benchlib import blockdev
from benchlib.filesystems import BlockFilesystem
from benchlib.scratch import Unavailable
from benchlib.trees import MIB

GIB = 1 << 30
BLKDISCARD = 0x1277
# Each end of the device is looked at, and wiped.
END_BYTES = MIB
# Programs that look at a new device (udev) close it soon.
OPEN_SECONDS = 3
# What a device still does for itself after much was written; nothing tells when it has done it.
REST_SECONDS = 3


class Refused(Exception):
    """Why a device is not used; nothing was written to it."""


class OwnDisk:
    """The device. `again`: the name once more, for one that holds data."""

    simulated = False

    def __init__(self, work, name, again):
        self._work = work
        self._name = name
        self.path = os.path.realpath(name)
        self._will_wipe = False
        check_kind(name, self.path)
        self._identity = self._identify()
        self.size_bytes = blockdev.size_bytes(self.path)
        self.discards = blockdev.discards(self.path)
        self.rotates = blockdev.rotates(self.path)
        check_use(name, self.path)
        data = held_data(name, self.path, self.size_bytes)
        if data and again != name:
            raise Refused(f"{name}: holds data ({data}); with --destroy {name} it is overwritten")

    def _identify(self):
        """What another device that gets the name later does not have."""
        number = os.stat(self.path).st_rdev
        return number, blockdev.read(blockdev.sysfs(self.path), "diskseq")

    def require(self, n_bytes):
        """Refuses a device that has not so many."""
        if self.size_bytes < n_bytes:
            raise Refused(f"{self._name}: {self.size_bytes / GIB:.1f} GiB are too few, this takes "
                          f"{n_bytes / GIB:.1f} (see --scale)")

    def facts(self):
        """What figures depend on, for the report."""
        directory = blockdev.sysfs(self.path)
        queue = blockdev.queue(self.path)
        whole = os.path.dirname(queue)
        return {"name": self._name, "bytes": self.size_bytes, "rotates": self.rotates,
                "discards": self.discards, "model": blockdev.read(whole, "device/model"),
                "partition": bool(blockdev.read(directory, "partition")),
                "scheduler": blockdev.read(queue, "scheduler"),
                "write_cache": blockdev.read(queue, "write_cache")}

    def slow(self):
        """It is as slow as it is."""
        return contextlib.nullcontext()

    def close(self):
        """Of one stage: the next one makes another filesystem."""

    def rest(self):
        """After all was written that an arm finds."""
        time.sleep(REST_SECONDS)

    @contextlib.contextmanager
    def claimed(self):
        """A descriptor for writing that no mount, no other device and no other claim is beside."""
        try:
            if self._identify() != self._identity:
                raise Unavailable(f"{self._name} is another device now")
            descriptor = os.open(self.path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
        except OSError as error:
            raise Unavailable(f"{self._name}: {error.strerror}") from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def empty(self, descriptor):
        """As new, as far as a device can be made that: an arm shall not pay for another one's trims."""
        if self.discards:
            with contextlib.suppress(OSError):
                fcntl.ioctl(descriptor, BLKDISCARD, struct.pack("QQ", 0, self.size_bytes))
        for offset in (0, self.size_bytes - END_BYTES):
            os.pwrite(descriptor, bytes(END_BYTES), offset)
        os.fsync(descriptor)

    def _wipe(self):
        """In the end, so that the next run finds no data, and no system a filesystem of ours."""
        try:
            with self.claimed() as descriptor:
                self.empty(descriptor)
        except (OSError, Unavailable) as error:
            print(f"interference: {self._name} keeps a filesystem: {error}", file=sys.stderr)

    def filesystem(self, work, kind):
        """A new one, not yet mounted."""
        if not self._will_wipe:
            self._will_wipe = True
            self._work.undo(self._wipe)
        filesystem = OwnFilesystem(work, kind, self)
        filesystem.format()
        return filesystem


class OwnFilesystem(BlockFilesystem):
    """A filesystem on it."""

    def __init__(self, scratch, kind, disk):
        super().__init__(scratch, kind)
        self._disk = disk

    def _attach(self):
        return self._disk.path

    def _detach(self, device):
        """It was there before, and stays."""

    def format(self):
        """Claimed and emptied first; mkfs claims it again, which fails where it is in use by then."""
        with self._disk.claimed() as descriptor:
            self._disk.empty(descriptor)
        super().format()


def check_kind(name, path):
    """A block device that can be written to."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise Refused(f"{name}: {error.strerror}") from error
    if not stat.S_ISBLK(mode):
        raise Refused(f"{name}: no block device")
    if blockdev.read(blockdev.sysfs(path), "ro") == "1":
        raise Refused(f"{name}: read-only")


def check_use(name, path):
    """Nothing but this program uses it: always refused, however often it is named."""
    users = holders(path)
    if users:
        raise Refused(f"{name}: in use by {', '.join(users)}")
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise Refused(f"{name}: in use (mounted, swap, or part of another device)") from error
        raise Refused(f"{name}: {error.strerror}") from error
    end = time.monotonic() + OPEN_SECONDS
    while users := openers(path):
        if time.monotonic() > end:
            raise Refused(f"{name}: in use by {users[0]}")
        time.sleep(0.1)


def partitions(path):
    """The directories of its partitions."""
    directory = blockdev.sysfs(path)
    return [os.path.dirname(each) for each in glob.glob(f"{glob.escape(directory)}/*/partition")]


def holders(path):
    """Devices that it, or a partition of it, is a part of. A loop device claims none."""
    found = []
    for directory in (blockdev.sysfs(path), *partitions(path)):
        with contextlib.suppress(OSError):
            found += sorted(os.listdir(os.path.join(directory, "holders")))
    ours = device_numbers(path)
    for backing in glob.glob("/sys/block/*/loop/backing_file"):
        with contextlib.suppress(OSError):
            status = os.stat(blockdev.read(os.path.dirname(backing), "backing_file"))
            if stat.S_ISBLK(status.st_mode) and status.st_rdev in ours:
                found.append(backing.split("/")[3])
    return found


def device_numbers(path):
    """Of it and of its partitions."""
    numbers = {os.stat(path).st_rdev}
    for directory in partitions(path):
        major, _, minor = blockdev.read(directory, "dev").partition(":")
        if minor:
            numbers.add(os.makedev(int(major), int(minor)))
    return numbers


def openers(path):
    """Processes that have it or a partition of it open, without a claim: a virtual machine's disk."""
    ours = device_numbers(path)
    found = []
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        # Processes and descriptors go; what is not in /dev is not asked, as it may hang.
        with contextlib.suppress(OSError):
            if os.readlink(link).startswith("/dev/"):
                status = os.stat(link)
                if stat.S_ISBLK(status.st_mode) and status.st_rdev in ours:
                    pid = link.split("/")[2]
                    found.append(f"process {pid} ({blockdev.read('/proc/' + pid, 'comm')})")
    return found


def held_data(name, path, size_bytes):
    """What is on it, in words; empty if nothing is to be seen."""
    found = ["partitions"] if partitions(path) else []
    try:
        said = subprocess.run(["wipefs", "--no-act", "--parsable", path], capture_output=True,
                              text=True, check=True, env=os.environ | {"LC_ALL": "C"}).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise Refused(f"{name}: wipefs cannot tell what it holds") from error
    found += [line.rpartition(",")[2] for line in said.splitlines() if not line.startswith("#")]
    if not found and not ends_are_zero(name, path, size_bytes):
        found = ["bytes that are not zero"]
    return ", ".join(dict.fromkeys(found))


def ends_are_zero(name, path, size_bytes):
    """Whether its first and its last MiB are."""
    try:
        with open(path, "rb", buffering=0) as device:
            for offset in (0, max(0, size_bytes - END_BYTES)):
                device.seek(offset)
                if any(device.read(END_BYTES)):
                    return False
    except OSError as error:
        raise Refused(f"{name}: {error.strerror}") from error
    return True
