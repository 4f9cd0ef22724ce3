# SPDX-License-Identifier: LGPL-2.1-or-later
"""Filesystems: real ones, on loop devices backed by sparse files, and tmpfs."""

import contextlib
import os
import subprocess
import time

from benchlib import blockdev
from benchlib.scratch import Unavailable, memory_available

DISCARDS_QUIET_SECONDS = 0.3

# kind: mkfs command and mount options. ext4's lazy initialisation would go on in the background
# while the first rounds are measured; everything else is what an administrator gets by default.
MKFS_EXT4 = ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]
KINDS = {
    "ext4": (MKFS_EXT4, ""),
    "ext4-discard": (MKFS_EXT4, "discard"),
    "xfs": (["mkfs.xfs", "-q", "-f", "-K"], ""),
    "btrfs": (["mkfs.btrfs", "-q", "-f", "-K"], ""),
    "tmpfs": (None, ""),
}


def run(*command):
    """Run a command that has to work; what it says on failure is the reason."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Unavailable(f"{command[0]} is not installed") from error
    if result.returncode != 0:
        raise Unavailable(f"{' '.join(command)}: {result.stderr.strip() or result.returncode}")
    return result.stdout


class Tmpfs:
    """A tmpfs without the default limits on size and inodes."""

    kind = "tmpfs"
    freezes = False
    device = None

    def __init__(self, scratch, size_bytes):
        self._size_bytes = size_bytes
        self.mountpoint = scratch.dir("mnt")
        scratch.undo(self.unmount)

    def mount(self):
        """Refuses to hand out memory that the machine does not have."""
        if memory_available() < self._size_bytes:
            raise Unavailable(f"less than {self._size_bytes >> 20} MiB of memory")
        run("mount", "-t", "tmpfs", "-o", f"size={self._size_bytes},nr_inodes=0", "tmpfs",
            self.mountpoint)

    def unmount(self):
        """Harmless when nothing is mounted."""
        if os.path.ismount(self.mountpoint):
            unmount_patiently(self.mountpoint)

    def destroy(self):
        """Everything is gone with the mount."""
        self.unmount()

    def discarded_bytes(self):
        """Nothing to discard on."""
        return None


class BlockFilesystem:
    """A filesystem on a block device, which _attach provides and _detach lets go of."""

    def __init__(self, scratch, kind):
        self.kind = kind
        self.freezes = kind == "xfs"
        self.device = None
        self.mountpoint = scratch.dir("mnt")
        scratch.undo(self.destroy)

    def _attach(self):
        """The device's path."""
        raise NotImplementedError

    def _detach(self, device):
        """What is mounted stays usable."""
        raise NotImplementedError

    def format(self):
        """Make the filesystem."""
        device = self._attach()
        try:
            run(*KINDS[self.kind][0], device)
        finally:
            self._detach(device)

    def mount(self):
        """Mount, with the options of its kind."""
        options = KINDS[self.kind][1]
        device = self._attach()
        try:
            run("mount", "-t", self.kind.partition("-")[0], "-o", options or "defaults", device,
                self.mountpoint)
        finally:
            self._detach(device)
        self.device = device

    def unmount(self):
        """Harmless when nothing is mounted."""
        if os.path.ismount(self.mountpoint):
            unmount_patiently(self.mountpoint)
        self.device = None

    def destroy(self):
        """Harmless when already done."""
        self.unmount()

    def discarded_bytes(self):
        """What has been trimmed so far."""
        return blockdev.discarded_bytes(self.device)

    def wait_for_discards(self):
        """Wait until trimming has stopped; returns the time (monotonic) when it last went on.

        ext4 trims in a worker after the commit that frees, and no call waits for that worker.
        """
        last_change = time.monotonic()
        seen = None
        while time.monotonic() - last_change < DISCARDS_QUIET_SECONDS:
            now = (self.discarded_bytes(), blockdev.in_flight(self.device))
            if now != seen or now[1] > 0:
                seen = now
                last_change = time.monotonic()
            time.sleep(0.005)
        return last_change


class LoopFilesystem(BlockFilesystem):
    """A filesystem on a loop device over a file, by default a sparse one of its own.

    The loop device is set to detach itself with the last mount as soon as it is mounted. It is a
    new one each time, so no block stays cached over an unmount and a mount.
    """

    def __init__(self, scratch, kind, size_bytes, backing=None, direct_io=False):
        super().__init__(scratch, kind)
        self._direct_io = direct_io
        self._backing = backing or os.path.join(scratch.dir("images"), kind + ".img")
        self._own_backing = backing is None
        if self._own_backing:
            with open(self._backing, "wb") as image:
                image.truncate(size_bytes)

    def destroy(self):
        """Unmount and give the space back."""
        self.unmount()
        if self._own_backing:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._backing)

    def _attach(self):
        direct_io = "on" if self._direct_io else "off"
        device = run("losetup", "--find", "--show", f"--direct-io={direct_io}",
                     self._backing).strip()
        try:
            blockdev.stop_dividing_discards(device)
        except OSError as error:
            self._detach(device)
            raise Unavailable(f"{device}: a limit of its discards stays: {error}") from error
        return device

    def _detach(self, device):
        """The kernel does it after the unmount."""
        run("losetup", "--detach", device)


def unmount_patiently(mountpoint):
    """A program killed a moment ago may still hold the mount; in the end detach it lazily."""
    for _ in range(50):
        result = subprocess.run(["umount", mountpoint], capture_output=True, check=False)
        if result.returncode == 0:
            return
        time.sleep(0.1)
    subprocess.run(["umount", "--lazy", mountpoint], check=False)


def make(scratch, kind, size_bytes, memory_bytes):
    """A new, mounted filesystem; memory_bytes is what a tmpfs may need of the machine."""
    if kind == "tmpfs":
        filesystem = Tmpfs(scratch, memory_bytes)
    else:
        filesystem = LoopFilesystem(scratch, kind, size_bytes)
        filesystem.format()
    filesystem.mount()
    return filesystem
