#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimctl devices: the right devices are found, and their counters are what happens on them."""
import contextlib
import os
import re
import stat
import struct
import subprocess
import threading
import unittest

import fixture
import json_page
from contents import fingerprint
from fixture import Case, DISKS, MIB, Proc, USER, command, matrix, scratch, unmount, write
from test_plan import MUTATING, OPENING

# It has no backend; the matrix runs once for each filesystem.
plain = (None,)

COMMITS = {"ext4": "jbd2", "xfs": "xfs", "btrfs": "btrfs"}


def start(w, *args, wrapper=(), **kw):
    p = Proc([*wrapper, scratch.binary, "devices", *args], w.dir, **kw)
    w.procs.append(p)
    return p


def text(w, *args, **kw):
    return start(w, *args, **kw).finish()


def devices(w, *args, status=0, **kw):
    """Runs it with --json, looking once unless told otherwise. Returns the array."""
    r = start(w, "--json", "--interval=0", *args, **kw).finish()
    if r.status != status:
        raise AssertionError("status %d expected: %r" % (status, r))
    return r.json


def mount_source(path):
    """The device that is mounted at a path, as mountinfo has it."""
    with open("/proc/self/mountinfo") as f:
        for line in f:
            left, right = line.split(" - ")
            if left.split()[4] == path:
                return os.path.basename(right.split()[1])
    raise AssertionError("%s is not mounted" % path)


def number(name):
    with open("/sys/class/block/%s/dev" % name) as f:
        return f.read().strip()


def sync_write(path, size=MIB):
    """Content that is on the device when this returns."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        os.write(fd, b"x" * size)
        os.fsync(fd)
    finally:
        os.close(fd)


def write_until(end, path):
    while not end.is_set():
        sync_write(path, 64 << 10)


def sync_all(path):
    """So that nothing of what other tests did is still on its way."""
    command("sync", "-f", path)


@contextlib.contextmanager
def loop_device(image):
    with open(image, "wb") as f:
        f.truncate(512 * MIB)
    device = command("losetup", "--find", "--show", image).strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "-d", device])


def partition_table(image, size):
    """An MBR with one partition, 1 MiB from the start."""
    entry = struct.pack("<B3xB3xII", 0, 0x83, MIB // 512, size // 512)
    with open(image, "r+b") as f:
        f.seek(446)
        f.write(entry + bytes(48) + b"\x55\xaa")


@contextlib.contextmanager
def mounted(w, device, *words):
    at = w.path("at")
    os.mkdir(at)
    command("mount", *words, device, at)
    try:
        yield at
    finally:
        unmount(at)


class Found(Case):
    @matrix(backends=plain, fs=DISKS)
    def test_the_loop_device(self, w):
        (d,) = devices(w)
        loop = mount_source(scratch.filesystem(w.fs))
        self.assertEqual(d["path"], ".")
        self.assertEqual(d["filesystem"], {"type": w.fs, "upper_type": None})
        self.assertIsNone(d["none"])
        self.assertEqual(d["span_usec"], 0)
        found = d["devices"][0]
        self.assertEqual((found["name"], found["number"]), (loop, number(loop)))
        self.assertEqual(found["backing_file"], os.path.join(scratch.dir, w.fs + ".img"))
        self.assertTrue(found["top"] and found["counts"])
        self.assertFalse(found["whole_disk"])
        self.assertIsNone(found["now"])
        self.assertEqual(d["commits"]["kind"], COMMITS[w.fs])
        # A file, and a symbolic link to elsewhere, which is followed.
        write(w.path("file"), "x")
        os.symlink(w.path("file"), "/run/reclaim-test-link-%d" % os.getpid())
        try:
            for path in (w.path("file"), "/run/reclaim-test-link-%d" % os.getpid()):
                (e,) = devices(w, path)
                self.assertEqual(e["key"], d["key"])
                self.assertEqual(e["commits"]["kind"], COMMITS[w.fs])
        finally:
            os.unlink("/run/reclaim-test-link-%d" % os.getpid())

    @matrix(backends=plain, fs=("tmpfs", "overlay"))
    def test_no_device(self, w):
        (d,) = devices(w)
        self.assertEqual(d["devices"], [])
        self.assertEqual(d["none"], "in memory")
        self.assertTrue(d["key"].startswith("none:"), d["key"])
        self.assertIsNone(d["commits"])
        r = text(w, "--interval=0")
        self.assertEqual(r.status, 0)
        words = {"tmpfs": "tmpfs", "overlay": "overlay over tmpfs"}[w.fs]
        self.assertEqual(r.out, ".: %s, in memory: the time of each step itself is used instead of "
                                "a device's\n" % words)

    @matrix(backends=plain, fs=DISKS)
    def test_an_overlay_is_where_its_upper_directory_is(self, w):
        for d in ("upper dir", "work", "view"):
            os.mkdir(w.path(d))
        lower = scratch.filesystem("tmpfs")
        command("mount", "-t", "overlay", "-o", "lowerdir=%s,upperdir=%s,workdir=%s"
                % (lower, w.path("upper dir"), w.path("work")), "overlay", w.path("view"))
        try:
            over, below = devices(w, "view", ".")
        finally:
            unmount(w.path("view"))
        self.assertEqual(over["filesystem"], {"type": "overlay", "upper_type": w.fs})
        self.assertEqual(over["key"], below["key"])
        self.assertEqual([d["name"] for d in over["devices"]], [d["name"] for d in below["devices"]])
        self.assertEqual(over["commits"]["kind"], COMMITS[w.fs])

    @matrix(backends=plain, fs=DISKS)
    def test_a_loop_device_on_a_loop_device(self, w):
        # btrfs gives the file a device number that is no device's.
        (outer,) = devices(w)
        with loop_device(w.path("image")) as device:
            command("mkfs.ext4", "-q", "-F", device)
            with mounted(w, device) as at:
                (d,) = devices(w, at)
        self.assertEqual([e["name"] for e in d["devices"]],
                         [os.path.basename(device)] + [e["name"] for e in outer["devices"]])
        self.assertEqual([e["top"] for e in d["devices"]][:2], [True, False])
        self.assertFalse(d["devices"][0]["leaf"])
        # Who judges by the leaves is judged together with what is on the outer device.
        self.assertEqual(d["key"], outer["key"])

    @matrix(backends=plain, fs=("tmpfs",))
    def test_btrfs_on_two_devices(self, w):
        with loop_device(w.path("one")) as one, loop_device(w.path("two")) as two:
            command("mkfs.btrfs", "-q", "-f", one, two)
            with mounted(w, one, "-o", "device=" + two) as at:
                (d,) = devices(w, at)
        names = sorted(os.path.basename(n) for n in (one, two))
        self.assertEqual(sorted(e["name"] for e in d["devices"]), names)
        self.assertTrue(all(e["top"] and e["leaf"] for e in d["devices"]))
        self.assertEqual(d["key"], "+".join(sorted((e["number"] for e in d["devices"]),
                                                   key=lambda n: [int(x) for x in n.split(":")])))

    @matrix(backends=plain, fs=("tmpfs",))
    def test_a_partition(self, w):
        # The loop driver makes nodes of partitions in the /dev that the system has.
        with loop_device(w.path("image")) as device:
            partition_table(w.path("image"), 256 * MIB)
            p = subprocess.run(["partx", "--add", device], capture_output=True)
            if p.returncode:
                raise unittest.SkipTest("no partitions here: %r" % p.stderr)
            try:
                part = device + "p1"
                if not os.path.exists(part):
                    raise unittest.SkipTest("there is no node %s" % part)
                command("mkfs.ext4", "-q", "-F", part)
                with mounted(w, part) as at:
                    (d,) = devices(w, at)
                    r = text(w, "--interval=0", at)
            finally:
                subprocess.run(["partx", "--delete", device], capture_output=True)
        self.assertEqual([(e["name"], e["whole_disk"]) for e in d["devices"]],
                         [(os.path.basename(part), False), (os.path.basename(device), True)])
        self.assertEqual(d["key"], d["devices"][1]["number"])
        self.assertEqual(d["commits"]["kind"], "jbd2")
        self.assertRegex(r.out, r"(?m)^%s .*, whole disk " % os.path.basename(device))


class Counted(Case):
    @matrix(backends=plain, fs=DISKS)
    def test_a_synced_write_is_counted(self, w):
        sync_all(w.dir)
        (before,) = devices(w)
        sync_write(w.path("large"), 8 * MIB)
        sync_all(w.dir)
        (after,) = devices(w)
        a, b = (x["devices"][0]["boot"] for x in (before, after))
        self.assertGreater(b["write"]["count"], a["write"]["count"])
        self.assertGreaterEqual(b["write"]["bytes"] - a["write"]["bytes"], 8 * MIB)
        self.assertGreater(b["flush"]["count"], a["flush"]["count"])
        self.assertGreater(after["commits"]["count"], before["commits"]["count"])
        if w.fs == "ext4":
            self.assertGreater(after["commits"]["recent_usec"], 0)
        if w.fs == "xfs":
            self.assertGreater(after["commits"]["log_bytes"], before["commits"]["log_bytes"])

    @matrix(backends=plain, fs=DISKS)
    def test_makes_no_mutating_call(self, w):
        log = os.path.join(scratch.dir, "log")
        before = fingerprint(w.dir)
        devices(w, wrapper=("strace", "-f", "-qq", "-o", log, "-e",
                            "trace=%s,%s" % (MUTATING, OPENING)),
                env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.assertEqual(fingerprint(w.dir), before)
        with open(log) as f:
            # The thread sanitizer opens and removes a file of its own.
            lines = [line for line in f.read().split("\n") if "/tsan." not in line]
        self.assertTrue(any("openat(" in line for line in lines), "nothing was traced")
        for line in lines:
            self.assertNotIn(re.sub(r"^\d+ +", "", line).split("(")[0], MUTATING.split(","), line)
            # The pressure is opened for asking the kernel for a trigger.
            if '"/proc/pressure/io"' not in line:
                self.assertNotRegex(line, "O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")

    @matrix(backends=plain, fs=DISKS)
    def test_counts_activity_of_the_interval(self, w):
        end = threading.Event()
        writer = threading.Thread(target=write_until, args=(end, w.path("file")))
        writer.start()
        try:
            # On a busy machine there may be no commit in a short time.
            for interval in ("300ms", "3s", "30s"):
                d, other = text(w, "--json", "--interval=" + interval, ".", scratch.dir).json
                if d["commits"]["now"]["count"] > 0:
                    break
        finally:
            end.set()
            writer.join()
        self.assertGreaterEqual(d["span_usec"], 300000)
        now = d["devices"][0]["now"]
        self.assertGreater(now["write"]["count"], 0)
        self.assertGreater(now["write"]["bytes"], 64 << 10)
        self.assertLess(now["write"]["count"], d["devices"][0]["boot"]["write"]["count"])
        self.assertGreater(d["commits"]["now"]["count"], 0)
        if d["pressure"]:
            self.assertGreaterEqual(d["pressure"]["now"]["some_usec"], 0)
        self.assertGreater(other["span_usec"], 0)

    @matrix(backends=plain, fs=("ext4",))
    def test_discards_are_counted(self, w):
        write(w.path("file"), b"x" * 8 * MIB)
        sync_all(w.dir)
        (before,) = devices(w)
        os.unlink(w.path("file"))
        command("fstrim", scratch.filesystem(w.fs))
        (after,) = devices(w)
        a, b = (x["devices"][0]["boot"]["discard"] for x in (before, after))
        self.assertGreater(b["count"], a["count"])
        self.assertGreaterEqual(b["bytes"] - a["bytes"], 8 * MIB)

    @matrix(backends=plain, fs=("ext4", "ext4-discard", "xfs", "btrfs", "btrfs-async"))
    def test_discard_setup_is_told(self, w):
        (d,) = devices(w)
        setup, kind = d["discard_setup"], w.fs.split("-")[0]
        queue = "/sys/class/block/%s/queue/discard_" % mount_source(scratch.filesystem(w.fs))
        for key, name in (("granularity_bytes", "granularity"), ("max_bytes", "max_bytes")):
            with open(queue + name) as f:
                self.assertEqual(setup[key], int(f.read()))
        gentlest = "asynchronous" if kind == "btrfs" else "none"
        mode = {"discard": "online", "async": "asynchronous"}.get(w.fs.rpartition("-")[2], "none")
        self.assertEqual((setup["possible"], setup["mode"], setup["gentlest"]), (True, mode, gentlest))
        if mode == gentlest:
            self.assertIsNone(setup["fstab"])
        else:
            option = "discard=async" if kind == "btrfs" else "nodiscard"
            self.assertRegex(setup["fstab"], r"^/dev/loop\d+  %s  %s  defaults,%s  0 [02]$" % (
                scratch.filesystem(w.fs), kind, option))
            self.assertIn(setup["fstab"], text(w, "--interval=0").out)
        self.assertRegex(text(w, "--interval=0").out, r"\nDiscards: %s: .* up to .* at once, in units of" % mode)

    @matrix(backends=plain, fs=("ext4",))
    def test_cost_of_a_discard_is_what_is_counted(self, w):
        """A loop device counts on when it is used again: there may have been discards before."""
        def check():
            (d,) = devices(w)
            counted, cost = d["devices"][0]["boot"]["discard"], d["discard_setup"]["usec_per_mib"]
            told = re.search(r"\nDiscards: .*; (?:a MiB takes (\S+)|the time per MiB is not measured yet)\n",
                             text(w, "--interval=0").out)[1]
            if counted["bytes"] < 4 * MIB:
                self.assertEqual((cost, told), (None, None))
            else:
                self.assertAlmostEqual(cost, counted["total_msec"] * 1000 / (counted["bytes"] / MIB), delta=1)
                self.assertEqual(told, "%.2fms" % (cost / 1000))
            return counted["bytes"]

        check()
        write(w.path("file"), b"x" * 8 * MIB)
        sync_all(w.dir)
        os.unlink(w.path("file"))
        command("fstrim", scratch.filesystem(w.fs))
        self.assertGreaterEqual(check(), 8 * MIB)

    @matrix(backends=plain, fs=("ext4", "xfs", "tmpfs"))
    def test_keys_are_those_of_the_page(self, w):
        """But for what is not known here."""
        found = json_page.printed(devices(w, "--interval=10ms"))
        self.assertLessEqual(found, json_page.described("devices"))
        self.assertLessEqual({"devices", "commits", "pressure", "discard_setup", "daemon"}, found)

    @matrix(backends=plain, fs=("tmpfs",))
    def test_without_devices_there_is_no_discard_setup(self, w):
        (d,) = devices(w)
        self.assertIsNone(d["discard_setup"])

    @matrix(backends=plain, fs=("ext4",))
    def test_a_device_that_counts_nothing(self, w):
        switch = "/sys/class/block/%s/queue/iostats" % mount_source(scratch.filesystem(w.fs))
        with open(switch, "w") as f:
            f.write("0")
        try:
            (d,) = devices(w)
            r = text(w, "--interval=0")
        finally:
            with open(switch, "w") as f:
                f.write("1")
        self.assertFalse(d["devices"][0]["counts"])
        self.assertIn("counts nothing (queue/iostats is 0): the time of each step itself is used "
                      "instead", r.out)


class Shown(Case):
    @matrix(backends=plain, fs=DISKS)
    def test_a_table(self, w):
        loop = mount_source(scratch.filesystem(w.fs))
        r = text(w, "--interval=10ms")
        self.assertEqual((r.status, r.err), (0, ""))
        lines = r.out.split("\n")
        self.assertEqual(lines[0], ".: %s, device set %s" % (w.fs, devices(w)[0]["key"]))
        self.assertRegex(lines[1],
                         r"^DEVICE +KIND +OPERATION +SINCE BOOT +MEAN +IN \d+ms +MEAN$")
        self.assertRegex(lines[2], r"^%s +(?:solid|rotating)(?:, discard)? +read +[\d,]+ +\S+ +[\d,]+ +\S+$" % loop)
        for line, name in zip(lines[3:], ("write", "flush", "discard", "in flight")):
            self.assertRegex(line, r"^ +%s +[\d,]+" % name)
        self.assertRegex(r.out, r"(?m)^ Commits: [\d,]+ .*since it was mounted.* just now$")
        # Columns stand under their heads.
        for line in lines[2:6]:
            self.assertEqual(len(line), len(lines[1]), r)
        once = text(w, "--interval=0").out
        self.assertNotIn("IN ", once)
        self.assertNotIn("just now", once)
        self.assertEqual(text(w, "-q", "--interval=0").out, "")

    @matrix(backends=plain, fs=("ext4",))
    def test_pretty_json_is_the_same(self, w):
        r = text(w, "--json=pretty", "--interval=0")
        self.assertGreater(r.out.count("\n"), 20)
        self.assertEqual(text(w, "--json=off", "--interval=0").out[:2], ".:")

    @matrix(backends=plain, fs=("tmpfs",))
    def test_an_ordinary_user(self, w):
        r = text(w, "--interval=0", user=USER)
        self.assertEqual((r.status, r.err), (0, ""))


class Refused(Case):
    @matrix(backends=plain, fs=("tmpfs",))
    def test_bad_paths(self, w):
        r = text(w, "--interval=0", "missing")
        self.assertEqual((r.status, r.out), (1, ""))
        self.assertEqual(r.err, "reclaimctl: missing: No such file or directory\n")
        r = text(w, "--interval=0", b"a\x1b[31m\n")
        self.assertEqual(r.err, "reclaimctl: a\\x1b[31m\\n: No such file or directory\n")
        self.assertEqual(text(w, "").err, "reclaimctl: '': No such file or directory\n")
        r = text(w, "--interval=0", "missing", ".")
        self.assertEqual(r.status, 3, r)
        self.assertIn(".: tmpfs", r.out)
        self.assertEqual(len(devices(w, "missing", ".", status=3)), 1)

    @matrix(backends=plain, fs=("tmpfs",))
    def test_a_block_device_is_not_what_is_on_it(self, w):
        os.mknod(w.path("sda"), stat.S_IFBLK | 0o600, os.makedev(8, 0))
        r = text(w, "sda")
        self.assertEqual(r.status, 1)
        self.assertIn("sda: is a block device", r.err)

    @matrix(backends=plain, fs=("tmpfs",))
    def test_usage(self, w):
        for wrong in ("--interval=soon", "--interval=-1", "--interval=2h", "--json=loud", "--dry-run",
                      "--latency=off"):
            r = text(w, wrong)
            self.assertEqual((r.status, r.out), (2, ""), wrong)
            self.assertIn("reclaimctl: ", r.err)


if __name__ == "__main__":
    fixture.main()
