# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stage: a simulated disk with a filesystem, a victim and the foreground program's files on it.

It is set up once; then every arm finds the very same disk, as what was on it is copied back. That
takes a second where making it again takes a minute, and no arm inherits what another one left.
"""

import contextlib
import os
import subprocess

from benchlib.scenarios import DISK_BYTES
from benchlib.slowdisk import SlowDisk


def free_bytes(mountpoint):
    """As df counts it, but without what is kept for root."""
    status = os.statvfs(mountpoint)
    return status.f_bfree * status.f_frsize


class Stage:
    """What all arms of one scenario and victim have in common."""

    def __init__(self, work, scenario, victim, foreground, scale):
        self.work = work
        self.scenario = scenario
        self._image = os.path.join(work.path, "disk.img")
        self._diskcopy = work.compile("diskcopy", ["diskcopy.c"], ["-lpthread"])
        self.disk = SlowDisk(work, scenario.disk, DISK_BYTES)
        self.filesystem = self.disk.filesystem(work, scenario.kind)
        # However it is mounted, unlinked inodes are freed behind its back.
        self.filesystem.freezes = scenario.kind.startswith("xfs")
        self.filesystem.mount()
        self.victim = victim(work, scenario.kind, self.mountpoint, scale)
        foreground.prepare(self.mountpoint, self.disk)
        self.victim_bytes = self._build_victim()
        self.filesystem.unmount()
        self._copy("save")
        foreground.calibrate(self)

    @property
    def mountpoint(self):
        """Where the filesystem is mounted, between reset and unmount."""
        return self.filesystem.mountpoint

    def _sync(self):
        subprocess.run(["sync", "-f", self.mountpoint], check=True)

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
        self._copy("restore")
        self.filesystem.mount()
        self._read_bitmaps()

    def _read_bitmaps(self):
        """Some seconds after a mount ext4 reads all block bitmaps in one go. On ext3, where each is
        a seek away, that hurts as much as a deletion, and it would hurt one arm but not the next.
        To show this file, the kernel reads what it has not read yet."""
        name = os.path.basename(self.filesystem.device)
        with contextlib.suppress(FileNotFoundError):
            with open(f"/proc/fs/ext4/{name}/mb_groups", "rb") as groups:
                groups.read()

    def close(self):
        """Make room for the next one."""
        self.filesystem.unmount()
        self.disk.close()
        os.unlink(self._image)
