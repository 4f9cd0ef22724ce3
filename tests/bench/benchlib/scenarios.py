# SPDX-License-Identifier: LGPL-2.1-or-later
"""Scenarios: the disk and its filesystem, what is deleted on it, and who else is there."""

import dataclasses
import os

from benchlib import filesystems, filling
from benchlib.trees import KIB, MIB, Cell, Trees

GIB = 1 << 30
HDD = ("--model=hdd", "--seek-ms=4", "--mbps=180")
# A slower one: a full seek and half a turn.
HDD_SLOW = ("--model=hdd", "--seek-ms=8", "--mbps=150")
SSD = ("--model=ssd",)
# A journal is sized by its disk, so the disk is not made smaller with the victim.
DISK_BYTES = 64 * GIB

_EXTENDED = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
# Filesystems that only matter where deleting is slow; peers does not know them.
filesystems.KINDS |= {
    "ext3": (["mkfs.ext3", "-q", "-F", "-E", _EXTENDED], ""),
    "xfs-discard": (["mkfs.xfs", "-q", "-f", "-K"], "discard"),
    # What btrfs does without being told depends on the kernel: since 6.2 the first of both, on any
    # disk that discards.
    "btrfs-async": (["mkfs.btrfs", "-q", "-f", "-K"], "discard=async"),
    "btrfs-nodiscard": (["mkfs.btrfs", "-q", "-f", "-K"], "nodiscard"),
}


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A filesystem on a disk; `loads` are those that the disk can serve at all."""

    name: str
    kind: str
    disk: tuple
    loads: tuple

    @property
    def discards(self):
        """Whether space that is free again is trimmed soon. What btrfs does by itself is spread
        over minutes on purpose, and not waited for."""
        return self.kind.endswith("-discard")

    @property
    def mounted(self):
        """The options that it is mounted with."""
        return filesystems.KINDS[self.kind][1] or "defaults"


SCENARIOS = {scenario.name: scenario for scenario in (
    Scenario("hdd-ext3", "ext3", HDD, ("light",)),
    Scenario("hdd-ext4", "ext4", HDD, ("light",)),
    Scenario("hdd-xfs", "xfs", HDD, ("light",)),
    Scenario("slow-ext4", "ext4", HDD_SLOW, ("light",)),
    Scenario("slow-xfs", "xfs", HDD_SLOW, ("light",)),
    # A hard disk has no discards; the simulated one would.
    Scenario("slow-btrfs", "btrfs-nodiscard", HDD_SLOW, ("light",)),
    Scenario("ssd-ext4", "ext4", SSD, ("light", "heavy")),
    Scenario("ssd-ext4-discard", "ext4-discard", SSD, ("light", "heavy")),
    Scenario("ssd-xfs-discard", "xfs-discard", SSD, ("light", "heavy")),
    Scenario("ssd-btrfs", "btrfs-async", SSD, ("light", "heavy")),
    Scenario("ssd-btrfs-nodiscard", "btrfs-nodiscard", SSD, ("light", "heavy")),
)}


# On a disk of the user's a scenario is a filesystem, and called like that.
OWN_DISK_KINDS = ("ext3", "ext4", "ext4-discard", "xfs", "xfs-discard", "btrfs-async",
                  "btrfs-nodiscard")


def of_own_disk(disk):
    """Those that it can have, by name."""
    loads = ("light",) if disk.rotates else ("light", "heavy")
    return {kind: Scenario(kind, kind, (disk.path,), loads) for kind in OWN_DISK_KINDS
            if disk.discards or not kind.endswith(("-discard", "-async"))}


@dataclasses.dataclass(frozen=True)
class Load:
    """Requests per second of the foreground program."""

    name: str
    syncs: float
    reads: float


LOADS = {load.name: load for load in (Load("light", 10, 30), Load("heavy", 100, 300))}


class FileVictim:
    """One large file, written: unwritten extents are freed without being trimmed on some."""

    name = "file"
    @staticmethod
    def space_bytes(kind, scale):
        """What it takes of a disk."""
        return max(64, round((40 if kind == "ext3" else 20) * 1024 * scale)) * MIB

    def __init__(self, _work, kind, mountpoint, scale):
        self.path = os.path.join(mountpoint, "victim")
        self.file_bytes = self.space_bytes(kind, scale)
        self._frees_late = kind.startswith("btrfs")
        self.what = f"a file of {self.file_bytes / GIB:.1f} GiB"
        self.files = 1

    def build(self, disk):
        """Around the page cache, in large pieces: as fast as the disk takes them."""
        filling.write(self.path, self.file_bytes, disk.simulated)

    def share_gone(self, _free_share):
        """How much of it is deleted, 0 to 1; from its size, as some free later."""
        try:
            return 1 - os.stat(self.path).st_size / self.file_bytes
        except FileNotFoundError:
            return 1.0

    def bytes_gone(self, freed_bytes):
        """As free space tells, None if that is late: reclaimctl takes its name away first, and to look
        at it by another way would be one more reference, under which nothing is shrunk."""
        return None if self._frees_late else freed_bytes

    def files_in(self, _step_bytes):
        """For deleters that count files."""
        return 1


class SmallVictim:
    """Many small files in many directories."""

    name = "small"
    file_bytes = 8 * KIB
    cell = Cell("small", "400 directories of 500 files of 8 KiB", "wide", (400, 500, 8 * KIB))
    _made = ""

    @classmethod
    def space_bytes(cls, _kind, scale):
        """What it takes of a disk, with inodes and directories."""
        n_directories, n_files, _ = cls.cell.scaled(scale)
        return n_directories * n_files * (cls.file_bytes + 4 * KIB)

    def __init__(self, work, kind, mountpoint, scale):
        self._trees = Trees(work, self.cell, mountpoint, scale)
        self._frees_late = kind.startswith("btrfs")
        self.path = self._trees.root
        self.files = None
        self.what = None

    def build(self, _disk):
        """The tree that peers uses, too."""
        self._trees.build()
        self.files = self._trees.files
        self.what = f"{self.files:,} files of 8 KiB{self._made}"

    def share_gone(self, free_share):
        """How much of it is deleted, as far as the filesystem's free space tells; None if not."""
        return None if self._frees_late else free_share

    def bytes_gone(self, freed_bytes):
        """As free space tells; None if that is late."""
        return None if self._frees_late else freed_bytes

    def files_in(self, step_bytes):
        """How many files come to so many bytes."""
        return max(1, step_bytes // self.file_bytes)


class SmallVictimOfFour(SmallVictim):
    """The same files, made by four writers at once: neighbours by name are none on the disk."""

    name = "small-4"
    cell = dataclasses.replace(SmallVictim.cell, writers=4)
    _made = ", made by four writers"


VICTIMS = {victim.name: victim for victim in (FileVictim, SmallVictim, SmallVictimOfFour)}
