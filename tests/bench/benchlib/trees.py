# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trees: what is deleted. A cell is a tree, and whether all of it or a list of names goes."""

import dataclasses
import os
import subprocess

KIB = 1 << 10
MIB = 1 << 20
TREE_FILESYSTEMS = ("ext4", "xfs", "btrfs", "tmpfs")
# tmpfs has no layout on a disk.
DISK_FILESYSTEMS = ("ext4", "xfs", "btrfs")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One of the benchmark's situations; counts[0] and those in `scales` shrink with --scale."""

    name: str
    what: str
    shape: str
    counts: tuple
    scales: tuple = (0,)
    listed: bool = False
    filesystems: tuple = TREE_FILESYSTEMS
    space_bytes: int = 0
    writers: int = 1

    def scaled(self, scale):
        """The numbers for maketree; never so small that the tree loses its shape."""
        return tuple(max(2, round(count * scale)) if index in self.scales else count
                     for index, count in enumerate(self.counts))

    def dirs_and_files(self, scale):
        """Of a flat or wide tree: how many directories, how many files in each."""
        counts = self.scaled(scale)
        return (None, counts[0]) if self.shape == "flat" else counts[:2]


CELLS = {cell.name: cell for cell in (
    Cell("flat", "200,000 empty files in one directory", "flat", (200_000,)),
    Cell("wide", "400 directories of 500 empty files", "wide", (400, 500, 0)),
    Cell("deep", "500 chains of 40 directories with 5 empty files each", "deep", (500, 40, 5)),
    Cell("source", "a source tree: 20,000 files of about 5 KiB in 1,500 directories", "source",
         (1500, 20_000), scales=(0, 1), space_bytes=300 * MIB),
    Cell("large", "64 files of 64 MiB", "large", (64, 64 * MIB), space_bytes=4096 * MIB),
    Cell("list-flat", "every other one of 200,000 empty files in one directory, from a list",
         "flat", (200_000,), listed=True),
    Cell("list-tree", "every other one of 196 empty files in each of 1,024 directories, from a "
         "list", "wide", (1024, 196, 0), listed=True),
    # Which writer made them decides which files are neighbours on the disk.
    Cell("one-writer", "200 directories of 500 empty files, made by one writer", "wide",
         (200, 500, 0), filesystems=DISK_FILESYSTEMS),
    Cell("four-writers", "200 directories of 500 empty files, made by four writers at once",
         "wide", (200, 500, 0), filesystems=DISK_FILESYSTEMS, writers=4),
    Cell("discard-small", "60 directories of 1,000 files of 32 KiB, mounted with discard", "wide",
         (60, 1000, 32 * KIB), filesystems=("ext4-discard",), space_bytes=60 * 1000 * 32 * KIB),
)}


class Trees:
    """Builds a cell's tree in a filesystem, and says afterwards whether the right things went."""

    def __init__(self, scratch, cell, mountpoint, scale):
        self._cell = cell
        self._counts = cell.scaled(scale)
        self._dirs_and_files = cell.dirs_and_files(scale) if cell.listed else None
        self._maketree = scratch.compile("maketree", ["maketree.c"], ["-lm"])
        self.root = os.path.join(mountpoint, "tree")
        self.list = os.path.join(scratch.path, "list")
        self.list0 = os.path.join(scratch.path, "list0")
        self.empty = scratch.dir("empty")
        self.files = 0
        self.directories = 0
        self.bytes = 0
        self._n_listed = self._write_lists() if cell.listed else None

    @property
    def entries(self):
        """How many names an arm has to remove."""
        return self._n_listed or self.files + self.directories

    def build(self, _disk=None):
        """A fresh tree, on disk: what an arm is timed on must not include writing it back."""
        command = [self._maketree, f"--writers={self._cell.writers}", self._cell.shape, self.root,
                   *map(str, self._counts)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise RuntimeError(result.stderr.strip())
        self.files, self.directories, self.bytes = map(int, result.stdout.split())
        subprocess.run(["sync", "-f", os.path.dirname(self.root)], check=True)

    def check(self):
        """What is wrong with the result of an arm, or None."""
        if self._cell.listed:
            return self._check_listed()
        # rsync empties the directory and leaves it.
        if os.path.exists(self.root) and os.listdir(self.root):
            return "the tree is still there"
        return None

    def remove(self):
        """Whatever an arm left, by a program that works."""
        subprocess.run(["rm", "-rf", self.root], check=True)
        subprocess.run(["sync", "-f", os.path.dirname(self.root)], check=True)

    def _files(self):
        n_dirs, n_files = self._dirs_and_files
        dirs = [""] if n_dirs is None else [f"d{number:05}" for number in range(n_dirs)]
        for directory in dirs:
            for number in range(n_files):
                yield os.path.join(directory, f"f{number:06}.dat")

    def _listed(self):
        return (name for index, name in enumerate(self._files()) if index % 2 == 0)

    def _write_lists(self):
        """In name order, which is also the order of creation: the best case of those that unlink
        in the order of the list."""
        paths = [os.path.join(self.root, name) for name in self._listed()]
        with open(self.list, "w", encoding="ascii") as lines:
            lines.writelines(path + "\n" for path in paths)
        with open(self.list0, "w", encoding="ascii") as lines:
            lines.writelines(path + "\0" for path in paths)
        return len(paths)

    def _check_listed(self):
        left = {os.path.relpath(os.path.join(directory, name), self.root)
                for directory, _, names in os.walk(self.root) for name in names}
        listed = set(self._listed())
        not_removed = len(left & listed)
        missing = len(set(self._files()) - listed - left)
        if not_removed or missing:
            return f"{not_removed} listed files are left, {missing} others are gone"
        return None
