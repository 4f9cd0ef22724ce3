# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stage: a disk with a filesystem, a victim and the foreground program's files on it.

Every arm finds the very same disk, and no arm inherits what another one left. A simulated disk is set
up once; then what was on it is copied back, in a second where making it again takes a minute. On a
disk of the user's all is made again for each arm.
"""

import contextlib
import os
import subprocess

from benchlib import blockdev
from benchlib.scenarios import DISK_BYTES
from benchlib.slowdisk import SlowDisk


def free_bytes(mountpoint):
    """As df counts it, but without what is kept for root."""
    status = os.statvfs(mountpoint)
    return status.f_bfree * status.f_frsize


class Stage:
    """What all arms of one scenario and victim have in common."""

    def __init__(self, work, scenario, victim, foreground, scale, own_disk=None):
        self.work = work
        self.scenario = scenario
        self._image = os.path.join(work.path, "disk.img")
        self._diskcopy = work.compile("diskcopy", ["diskcopy.c"], ["-lpthread"])
        self._files_of = foreground
        self.disk = own_disk or SlowDisk(work, scenario.disk, DISK_BYTES)
        self.filesystem = self.disk.filesystem(work, scenario.kind)
        # However it is mounted, unlinked inodes are freed behind its back.
        self.filesystem.freezes = scenario.kind.startswith("xfs")
        self.victim = victim(work, scenario.kind, self.mountpoint, scale)
        self._fresh = True  # nothing has been deleted on it yet
        try:
            self._fill()
            if self.disk.simulated:
                self._copy("save")
            foreground.calibrate(self)
        except BaseException:
            # The next stage may need the same device.
            foreground.kill()
            self.close()
            raise

    @property
    def mountpoint(self):
        """Where the filesystem is mounted, between reset and unmount."""
        return self.filesystem.mountpoint

    def _sync(self):
        subprocess.run(["sync", "-f", self.mountpoint], check=True)

    def _fill(self):
        """All that an arm finds, on a new filesystem."""
        self.filesystem.mount()
        self._files_of.prepare(self.mountpoint, self.disk)
        self.victim_bytes = self._build_victim()
        self.filesystem.unmount()

    def _build_victim(self):
        """Returns the space it takes."""
        self._sync()
        before = free_bytes(self.mountpoint)
        self.victim.build(self.disk)
        self._sync()
        return before - free_bytes(self.mountpoint)

    def _copy(self, direction):
        subprocess.run([self._diskcopy, direction, self.disk.path, self._image], check=True)

    def reset(self):
        """Everything as it was in the beginning, and nothing of the victim in any cache."""
        self.filesystem.unmount()
        if self.disk.simulated:
            self._copy("restore")
        else:
            if not self._fresh:
                self.filesystem.format()
                self._fill()
            self.disk.rest()
        self._fresh = False
        self.filesystem.mount()
        self._read_bitmaps()

    def _read_bitmaps(self):
        """Some seconds after a mount ext4 reads all block bitmaps in one go. On ext3, where each is
        a seek away, that hurts as much as a deletion, and it would hurt one arm but not the next.
        To show this file, the kernel reads what it has not read yet."""
        name = os.path.basename(blockdev.sysfs(self.filesystem.device))
        with contextlib.suppress(FileNotFoundError):
            with open(f"/proc/fs/ext4/{name}/mb_groups", "rb") as groups:
                groups.read()

    def close(self):
        """Make room for the next one."""
        self.filesystem.unmount()
        self.disk.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._image)
