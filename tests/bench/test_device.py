#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""interference --device: what it refuses, and that nothing is written then; a run on a loop device.

Needs root. RECLAIMCTL is the program that is measured."""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from benchlib import filesystems, scratch
from benchlib.filesystems import run

EXIT_SKIP = 77
EXIT_USAGE = 2
MIB = 1 << 20
INTERFERENCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "interference")
QUICK = ["--scenarios", "ext4", "--victims", "file", "--loads", "light", "--arms", "baseline,rm",
         "--scale", "0.001", "--baseline-seconds", "1", "--min-window", "1", "--after", "0"]


class Loops(unittest.TestCase):
    """Loop devices in a scratch directory."""

    def setUp(self):
        self.work = scratch.Scratch(scratch.choose_base(4 << 30))
        self.addCleanup(self.work.close)

    def image(self, n_bytes=64 * MIB, name="disk"):
        """A sparse file."""
        path = os.path.join(self.work.path, name)
        with open(path, "wb") as file:
            file.truncate(n_bytes)
        return path

    def loop(self, image, *options):
        """A loop device on it, or on a device."""
        device = run("losetup", "--find", "--show", *options, image).strip()
        self.work.undo(subprocess.run, ["losetup", "--detach", device])
        return device

    def interference(self, *words, program=()):
        """Runs it, in directories of its own."""
        return subprocess.run([*program, sys.executable, INTERFERENCE, *QUICK, "--scratch",
                               self.work.dir("scratch"), *words],
                              capture_output=True, text=True, check=False)


def checksum(path):
    """Of all that is in a file or a device."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(MIB):
            digest.update(piece)
    return digest.hexdigest()


def write_partition_table(path):
    """A DOS one, with a partition from the first MiB to the last."""
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0x83, b"\0\2\0", MIB // 512,
                        (os.path.getsize(path) - 2 * MIB) // 512)
    with open(path, "r+b") as file:
        file.seek(446)
        file.write(entry + bytes(48) + b"\x55\xaa")


class Refused(Loops):
    """One line says why, and the device is as it was."""

    def refused(self, device, reason, *words, image=None):
        """Returns nothing; fails if it is not refused for that reason."""
        before = checksum(image or device)
        result = self.interference("--device", device, *words)
        self.assertEqual(result.stderr, f"interference: {device}: {reason}\n")
        self.assertEqual(result.returncode, EXIT_USAGE)
        self.assertEqual(result.stdout, "")
        self.assertEqual(checksum(image or device), before)

    def again(self, device, held):
        """Refused, as it holds that, and also if another name is given the second time."""
        self.refused(device, f"holds data ({held}); with --destroy {device} it is overwritten")
        result = self.interference("--device", device, "--destroy", device + "1")
        self.assertEqual(result.returncode, EXIT_USAGE)
        self.assertIn("--destroy has to repeat the name", result.stderr)

    def busy(self, device, reason):
        """However often it is named."""
        self.refused(device, reason)
        self.refused(device, reason, "--destroy", device)

    def test_no_block_device(self):
        image = self.image()
        self.refused(image, "no block device")
        self.refused(image, "no block device", "--destroy", image)
        for name, reason in (("/dev/null", "no block device"),
                             (self.work.path, "no block device"),
                             ("/nonexistent", "No such file or directory")):
            result = self.interference("--device", name, "--destroy", name)
            self.assertEqual(result.stderr, f"interference: {name}: {reason}\n")
            self.assertEqual(result.returncode, EXIT_USAGE)

    def test_destroy_alone(self):
        device = self.loop(self.image())
        before = checksum(device)
        result = self.interference("--destroy", device)
        self.assertEqual(result.returncode, EXIT_USAGE)
        self.assertIn("--destroy has to repeat the name", result.stderr)
        self.assertEqual(checksum(device), before)

    def test_read_only(self):
        device = self.loop(self.image(), "--read-only")
        self.busy(device, "read-only")

    def test_too_small(self):
        device = self.loop(self.image())
        self.refused(device, "0.1 GiB are too few, this takes 1.1 (see --scale)")
        self.refused(device, "0.1 GiB are too few, this takes 1.1 (see --scale)", "--destroy", device)

    def test_signatures(self):
        for kind, command in (("ext4", ["mkfs.ext4", "-q"]), ("btrfs", ["mkfs.btrfs", "-q"]),
                              ("swap", ["mkswap"])):
            with self.subTest(kind):
                image = self.image(256 * MIB, kind)
                run(*command, image)
                self.again(self.loop(image), kind)

    def test_partition_table(self):
        image = self.image()
        write_partition_table(image)
        self.again(self.loop(image), "dos")

    def test_partitions(self):
        image = self.image()
        write_partition_table(image)
        device = self.loop(image, "--partscan")
        name = os.path.basename(device)
        if not os.path.exists(f"/sys/block/{name}/{name}p1"):
            self.skipTest("the kernel reads no partitions here")
        self.again(device, "partitions, dos")

    def test_bytes_without_a_signature(self):
        for offset in (4097, 64 * MIB - 1):
            image = self.image(name=f"bytes-{offset}")
            with open(image, "r+b") as file:
                file.seek(offset)
                file.write(b"x")
            self.again(self.loop(image), "bytes that are not zero")

    def test_mounted(self):
        image = self.image()
        run("mkfs.ext4", "-q", image)
        device = self.loop(image)
        mountpoint = self.work.dir("mounted")
        run("mount", "-o", "ro", device, mountpoint)
        self.work.undo(filesystems.unmount_patiently, mountpoint)
        self.busy(device, "in use (mounted, swap, or part of another device)")

    def test_claimed(self):
        device = self.loop(self.image())
        claim = os.open(device, os.O_RDONLY | os.O_EXCL)
        self.addCleanup(os.close, claim)
        self.busy(device, "in use (mounted, swap, or part of another device)")

    def test_open(self):
        """As the disk of a virtual machine is, without a claim."""
        device = self.loop(self.image())
        descriptor = os.open(device, os.O_RDONLY)
        self.addCleanup(os.close, descriptor)
        with open("/proc/self/comm", encoding="ascii") as comm:
            self.busy(device, f"in use by process {os.getpid()} ({comm.read().strip()})")

    def test_beneath_another_loop_device(self):
        device = self.loop(self.image())
        above = self.loop(device)
        self.busy(device, f"in use by {os.path.basename(above)}")

    def test_what_cannot_look(self):
        """Without wipefs a device that looks empty is not taken for one."""
        device = self.loop(self.image())
        before = checksum(device)
        result = self.interference("--device", device, program=["env", "PATH=/nonexistent"])
        self.assertEqual(result.stderr, f"interference: {device}: wipefs cannot tell what it holds\n")
        self.assertEqual(result.returncode, EXIT_USAGE)
        self.assertEqual(checksum(device), before)

    def test_scenarios_are_filesystems(self):
        device = self.loop(self.image())
        result = self.interference("--device", device, "--scenarios", "ssd-ext4")
        self.assertEqual(result.returncode, EXIT_USAGE)
        self.assertIn("ssd-ext4 is none of ext3, ext4, ", result.stderr)


class Whole(Loops):
    """A run to the end."""

    def test_a_device_named_twice(self):
        """It is overwritten, measured, and in the end holds no data."""
        image = self.image(1200 * MIB)
        run("mkfs.ext4", "-q", "-L", "precious", image)
        device = self.loop(image)
        report = os.path.join(self.work.path, "report.json")
        result = self.interference("--device", device, "--destroy", device, "--json", report)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(report, encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual([cell["scenario"] for cell in document["cells"]], ["ext4"])
        self.assertEqual(set(document["cells"][0]["arms"]), {"baseline", "rm"})
        self.assertEqual(document["disk"]["bytes"], 1200 * MIB)
        self.assertGreater(document["cells"][0]["victim_bytes"], 60 * MIB)
        self.assertEqual(run("wipefs", "--no-act", device), "")
        with open("/proc/self/mountinfo", encoding="ascii") as mounts:
            self.assertNotIn(device + " ", mounts.read())
        # Nothing is left that refuses the next one.
        self.assertEqual(self.interference("--device", device).returncode, 0)


class Mounted(Loops):
    """Scenarios say what btrfs does with discards, and do not leave it to the kernel."""

    def test_options(self):
        from benchlib import scenarios  # pylint: disable=import-outside-toplevel
        for name, expected in (("ssd-btrfs", "discard=async"), ("ssd-btrfs-nodiscard", None),
                               ("slow-btrfs", None)):
            kind = scenarios.SCENARIOS[name].kind
            filesystem = filesystems.LoopFilesystem(self.work, kind, 256 * MIB)
            filesystem.format()
            filesystem.mount()
            with open("/proc/self/mounts", encoding="ascii") as mounts:
                options = next(line.split()[3] for line in mounts
                               if line.split()[1] == filesystem.mountpoint)
            filesystem.destroy()
            found = [word for word in options.split(",") if word.startswith("discard")]
            self.assertEqual(found, [expected] if expected else [], name)


def main():
    """Skips where there are no loop devices."""
    if os.geteuid() != 0:
        print("only root can make loop devices")
        return EXIT_SKIP
    for tool in ("losetup", "wipefs", "mkfs.ext4", "mkfs.btrfs"):
        if not shutil.which(tool):
            print(f"{tool} is not installed")
            return EXIT_SKIP
    try:
        scratch.enter_mount_namespace()
    except scratch.Unavailable as reason:
        print(reason)
        return EXIT_SKIP
    unittest.main(verbosity=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
