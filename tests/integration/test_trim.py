#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimctl trim: the disk has holes where fstrim would make them, each is made once, and nothing else is
touched, however it ends.

Each disk is a file without holes under a loop device, in which discards punch them."""
import contextlib
import functools
import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import fixture
import json_page
from fixture import Case, MIB, Proc, command, machine, scratch, until
from test_pacing import Foreground

# Else the kernel zeroes inode tables once it is mounted, which makes holes, too.
NOT_LATER = "nodiscard,lazy_itable_init=0"
MKFS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", NOT_LATER),
    "ext4-1k": ("mkfs.ext4", "-q", "-F", "-E", NOT_LATER, "-b", "1024"),
    "ext4-meta_bg": ("mkfs.ext4", "-q", "-F", "-E", NOT_LATER, "-O", "meta_bg,^resize_inode"),
    "ext4-bigalloc": ("mkfs.ext4", "-q", "-F", "-E", NOT_LATER, "-O", "bigalloc"),
    "ext2": ("mke2fs", "-q", "-F", "-t", "ext2", "-E", NOT_LATER),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
    "btrfs": ("mkfs.btrfs", "-q", "-f", "-K"),
}
FSCK = {"ext": ("e2fsck", "-fn"), "xfs": ("xfs_repair", "-n"), "btrfs": ("btrfs", "check")}
ALL = tuple(MKFS)
DISKS = ("ext4", "xfs", "btrfs")
PROCESS = "reclaim-trim"
SIZE, SMALL = 600 * MIB, 300 * MIB
# What a filesystem writes meanwhile, and devices round off.
LITTLE = 4 * MIB


def fill(top, n=400):
    """Files with holes between them."""
    source = random.Random(1)
    for i in range(n):
        with open(os.path.join(top, "f%d" % i), "wb") as f:
            f.write(source.randbytes(source.randrange(1, 800000)))
    fixture.sync(top)
    for i in range(0, n, 3):
        os.unlink(os.path.join(top, "f%d" % i))
    fixture.sync(top)


def sums(top):
    found = {}
    for name in sorted(os.listdir(top)):
        with contextlib.suppress(IsADirectoryError), open(os.path.join(top, name), "rb") as f:
            found[name] = hashlib.sha256(f.read()).hexdigest()
    return found


def holes(image):
    """The disk's own map: [(start, end)]."""
    found, at = [], 0
    with open(image, "rb") as f:
        end = os.fstat(f.fileno()).st_size
        while at < end:
            hole = os.lseek(f.fileno(), at, os.SEEK_HOLE)
            if hole >= end:
                break
            try:
                at = os.lseek(f.fileno(), hole, os.SEEK_DATA)
            except OSError:
                at = end
            found.append((hole, at))
    return found


def total(ranges):
    return sum(end - start for start, end in ranges)


def missing(ranges, others):
    """Bytes of these ranges that are in none of the others."""
    lost, left = 0, list(others)
    for start, end in ranges:
        lost += end - start - sum(max(0, min(end, e) - max(start, s)) for s, e in left)
    return lost


@functools.cache
def prepared(kind, size):
    """The file of a filesystem that was used; what it is copied to has no holes."""
    return Disk(kind, size, where=scratch.dir).image


class Disk:
    """A file without a hole, or with nothing else, with a filesystem that was used."""

    def __init__(self, kind, size=SIZE, image=None, where=None):
        self.kind, self.family = kind, kind.split("-")[0]
        self.top = tempfile.mkdtemp(prefix="trim", dir=where or scratch.dir)
        self.image, self.dir = os.path.join(self.top, "image"), os.path.join(self.top, "m")
        os.mkdir(self.dir)
        if image:
            command("cp", "--sparse=never", image, self.image)
            return
        if not shutil.which(MKFS[kind][0]):
            raise fixture.unittest.SkipTest("%s is not installed" % MKFS[kind][0])
        with open(self.image, "wb") as f:
            if where:
                f.truncate(size)
            else:
                for _ in range(size // MIB):
                    f.write(b"\xff" * MIB)
        command(*MKFS[kind], self.image)
        self.mount()
        fill(self.dir)
        self.unmount()

    def mount(self, options="nodiscard,noatime"):
        if self.family == "xfs":
            options += ",nouuid"
        try:
            command("mount", "-t", self.family, "-o", "loop," + options, self.image, self.dir)
        except RuntimeError as e:
            raise fixture.unittest.SkipTest(str(e)) from e
        self.device = command("findmnt", "-no", "SOURCE", self.dir).strip()
        self.start = self.counted()
        return self

    def unmount(self):
        fixture.unmount_when_free(self.dir)

    def counted(self):
        """Bytes that were written and discarded, ever."""
        with open("/sys/block/%s/stat" % os.path.basename(self.device), encoding="ascii") as f:
            stat = f.read().split()
        return int(stat[6]) * 512, int(stat[13]) * 512

    def written(self):
        """Bytes, since it was mounted."""
        return self.counted()[0] - self.start[0]

    def discarded(self):
        """Bytes, since it was mounted."""
        return self.counted()[1] - self.start[1]

    def free(self):
        s = os.statvfs(self.dir)
        return s.f_bfree * s.f_frsize

    def check(self):
        """As fsck sees it, not mounted."""
        family = "ext" if self.family.startswith("ext") else self.family
        command(*FSCK[family], self.image)

    def close(self):
        fixture.unmount_beneath(self.top + "/")
        shutil.rmtree(self.top, ignore_errors=True)


def helpers(pid):
    """The process that trims."""
    found = []
    with contextlib.suppress(OSError), open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        for child in map(int, f.read().split()):
            with contextlib.suppress(OSError), open("/proc/%d/comm" % child, encoding="ascii") as comm:
                if comm.read().strip() == PROCESS:
                    found.append(child)
    return found


def each(kinds):
    """Runs a test for each kind of disk."""
    def decorate(test):
        @functools.wraps(test)
        def every(self):
            for kind in kinds:
                with self.subTest(kind=kind):
                    test(self, kind)
        return every
    return decorate


class TrimCase(Case):
    def setUp(self):
        scratch.open()
        turn = contextlib.ExitStack()
        turn.enter_context(machine.shared())
        self.addCleanup(turn.close)

    def disk(self, kind, size=SIZE, anew=False):
        """Anew if another one with the same UUID is mounted at the same time. The kernel may take a copy of a btrfs
        for the one before, or for one that is too old."""
        copied = not anew and kind != "btrfs"
        d = Disk(kind, size, image=prepared(kind, size) if copied else None)
        self.addCleanup(d.close)
        return d

    def two(self, kind):
        """The same twice, without the holes that mkfs has made."""
        of = self.disk(kind) if kind == "btrfs" else None
        copies = [Disk(kind, image=of.image if of else prepared(kind, SIZE)) for _ in range(2)]
        if of:
            of.close()
        for d in copies:
            self.addCleanup(d.close)
        return copies

    def start(self, *args, wrapper=(), **kw):
        kw["env"] = {"STATE_DIRECTORY": scratch.dir, **(kw.get("env") or {})}
        p = Proc(list(wrapper) + [scratch.binary, "trim", *args], scratch.dir, **kw)
        self.addCleanup(p.close)
        self.addCleanup(p.kill)
        return p

    def trim(self, *args, status=0, **kw):
        r = self.start(*args, **kw).finish()
        self.assertEqual(r.status, status, r)
        return r

    def check_sound(self, d, before):
        self.assertEqual(sums(d.dir), before)
        d.unmount()
        d.check()


class Whole(TrimCase):
    @each(ALL)
    def test_it_trims_what_fstrim_trims_and_each_byte_once(self, kind):
        ours, theirs = self.two(kind)
        theirs.mount()
        command("fstrim", theirs.dir)
        theirs.unmount()
        before, mapped = sums(ours.mount().dir), holes(ours.image)
        # Not what the metadata of btrfs that a canary writes keeps from being trimmed.
        r = self.trim("--json", *["--latency=off"] * (kind == "btrfs"), ours.dir).json
        discarded, free = ours.discarded(), ours.free()
        self.check_sound(ours, before)
        made = holes(ours.image)
        lost = [hole for hole in holes(theirs.image) if missing([hole], made)]
        self.assertLessEqual(missing(lost, made), 64 * 1024, (lost, r))
        # Once: there is a hole for each discard.
        self.assertLessEqual(discarded, total(made) - total(mapped) + LITTLE)
        self.assertLess(abs(r["trimmed_bytes"] - discarded), LITTLE)
        self.assertEqual(r["filesystems"][0]["outcome"], "trimmed")
        ours.close()
        theirs.close()

    def test_what_ext4_knows_to_be_trimmed_costs_nothing(self):
        d = self.disk("ext4").mount()
        self.trim(d.dir)
        first = d.discarded()
        self.trim(d.dir)
        command("fstrim", d.dir)
        self.assertLess(d.discarded() - first, LITTLE)

    @each(("ext4", "xfs"))
    def test_least_size_is_that_of_fstrim(self, kind):
        ours, theirs = self.two(kind)
        theirs.mount()
        command("fstrim", "--minimum", "300K", theirs.dir)
        theirs.unmount()
        ours.mount()
        self.trim("--min=300K", ours.dir)
        ours.unmount()
        self.assertLessEqual(missing(holes(theirs.image), holes(ours.image)), 64 * 1024)
        self.assertLessEqual(missing(holes(ours.image), holes(theirs.image)), LITTLE)
        ours.close()
        theirs.close()

    def test_block_groups_where_runs_are_not_known(self):
        d = self.disk("ext4-meta_bg").mount()
        self.assertEqual(self.trim("--json", d.dir).json["filesystems"][0]["bound"], "by-group")
        # Nor where the device cannot be opened.
        d.unmount()
        d = self.disk("ext4").mount()
        r = self.trim("--json", d.dir, wrapper=["unshare", "-m", "sh", "-c",
                                                "mount -t tmpfs none /dev && exec \"$@\"", "sh"]).json
        self.assertEqual(r["filesystems"][0]["bound"], "by-group")
        self.assertGreater(d.discarded(), d.free() - LITTLE)


class BesideForeground(TrimCase):
    @each(DISKS + ("ext4-1k",))
    def test_it_trims_the_same_in_small_steps_beside_foreground_io(self, kind):
        ours = self.disk(kind, size=SMALL)
        mapped, before = holes(ours.image), sums(ours.mount().dir)
        with Foreground(os.path.join(ours.dir, "file")):
            done = self.trim("--json", "--log-level=debug", ours.dir)
        r = done.json
        discarded, written, free = ours.discarded(), ours.written(), ours.free()
        os.unlink(os.path.join(ours.dir, "file"))
        self.check_sound(ours, before)
        made = total(holes(ours.image)) - total(mapped)
        self.assertRegex(done.err, r"trim: \d+ bytes in \d+ us \(paced\)")
        self.assertNotIn("trim: 0 bytes in 0 us", done.err, "it rested after the last step, to find that it was the last")
        if kind == "xfs":  # elsewhere a step is a free run, or a chunk
            self.assertGreater(r["steps"], 8, "it went at full speed beside foreground I/O")
        # A hole into which something is written meanwhile is none any more.
        self.assertLessEqual(discarded, made + written + 2 * LITTLE, "something was trimmed twice")
        if kind != "btrfs":  # which keeps what is free of a chunk that it allocates from
            self.assertGreaterEqual(made, free - 2 * LITTLE, "something was left")
        ours.close()

    @each(("ext4", "ext4-1k"))
    def test_ext4_knows_what_was_trimmed_in_small_steps(self, kind):
        d = self.disk(kind, size=SMALL).mount()
        with Foreground(os.path.join(d.dir, "file")):
            # Of a file, so that there is no canary, which frees its blocks in the end.
            done = self.trim("--log-level=debug", os.path.join(d.dir, "f1"))
            self.assertRegex(done.err, r"trim: \d+ bytes in \d+ us \(paced\)")
            first = d.discarded()
            self.assertLess(abs(first - d.free()), LITTLE)
            command("fstrim", d.dir)
            self.assertLess(d.discarded() - first, LITTLE)
            # And not what it is told with another least size.
            command("fstrim", "--minimum", "1M", d.dir)
            self.assertLess(d.discarded() - first, LITTLE)
        d.unmount()
        d.check()
        d.close()


class Interrupted(TrimCase):
    """In the middle: one step is done, and the next one is to come."""

    def midway(self, kind, *options, gate="trim:next"):
        d = self.disk(kind)
        self.before = sums(d.mount().dir)
        p = self.start("--json", *options, d.dir, gate=gate).meet()
        pid, = helpers(p.pid)
        return d, p, pid

    def goes_on(self, d):
        """A further run does the rest."""
        self.trim(d.dir)
        if d.kind != "btrfs":
            self.assertGreater(total(holes(d.image)), d.free() - LITTLE)
        self.check_sound(d, self.before)
        d.close()

    @each(DISKS)
    def test_signal_stops_within_a_step(self, kind):
        d, p, _ = self.midway(kind)
        done = d.discarded()
        r = p.go_on(signal.SIGINT).finish()
        self.assertEqual(r.status, 3, r)
        self.assertEqual(r.json["filesystems"][0]["outcome"], "stopped")
        self.assertGreater(r.json["trimmed_bytes"], 0)
        self.assertLess(d.discarded(), d.free() - LITTLE)
        self.assertGreaterEqual(d.discarded(), done)
        self.goes_on(d)

    @each(DISKS)
    def test_process_that_is_killed_is_said(self, kind):
        d, p, pid = self.midway(kind)
        os.kill(pid, signal.SIGKILL)
        r = p.go_on().finish()
        self.assertEqual(r.status, 3, r)
        self.assertIn("the process that trims was killed: run it again", r.err)
        self.assertEqual(r.json["filesystems"][0]["outcome"], "failed")
        self.goes_on(d)

    def test_process_that_hangs_holds_nothing_up(self):
        d, p, pid = self.midway("ext4", "--log-level=debug")
        os.kill(pid, signal.SIGSTOP)
        p.go_on()
        until(lambda: b"a step takes long" in os.pread(p.err.fileno(), 1 << 20, 0))
        began = time.monotonic()
        os.kill(p.pid, signal.SIGTERM)
        r = p.finish()
        self.assertEqual(r.status, 3, r)
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual(r.json["filesystems"][0]["outcome"], "stopped")
        until(lambda: not os.path.exists("/proc/%d" % pid))
        self.goes_on(d)

    def test_killed_itself_it_leaves_nothing_behind(self):
        d, p, pid = self.midway("ext4")
        p.kill()
        until(lambda: not os.path.exists("/proc/%d" % pid) or fixture.is_stopped(pid))
        self.assertFalse(os.path.exists("/proc/%d" % pid))
        self.goes_on(d)

    @each(DISKS)
    def test_frozen_filesystem_is_only_waited_for(self, kind):
        d, p, _ = self.midway(kind)
        command("fsfreeze", "--freeze", d.dir)
        try:
            r = p.go_on(signal.SIGTERM).finish()
        finally:
            command("fsfreeze", "--unfreeze", d.dir)
        self.assertIn(r.status, (0, 3), r)
        self.goes_on(d)

    @each(DISKS)
    def test_mount_that_becomes_read_only_or_goes_away(self, kind):
        for how in (("mount", "-o", "remount,ro"), ("umount", "-l")):
            with self.subTest(how=how):
                # A canary writes, and keeps it from becoming read-only.
                d, p, _ = self.midway(kind, "--latency=off", gate="trim:first")
                command(*how, d.dir)
                r = p.go_on().finish()
                self.assertIn(r.status, (0, 3), r)
                fixture.unmount_beneath(d.top + "/")
                until(lambda: subprocess.run(["losetup", "-j", d.image], stdout=subprocess.PIPE,
                                             check=True).stdout == b"")
                d.mount()
                self.goes_on(d)


class Given(TrimCase):
    def small(self, kind="ext4", **kw):
        return self.disk(kind, size=SMALL, **kw)

    def test_each_filesystem_once(self):
        d = self.small().mount()
        os.mkdir(os.path.join(d.dir, "sub"))
        other = os.path.join(d.top, "other")
        os.mkdir(other)
        command("mount", "--bind", os.path.join(d.dir, "sub"), other)
        r = self.trim("-v", "--json", d.dir, os.path.join(d.dir, "sub"), other, os.path.join(d.dir, "f1"))
        self.assertEqual(len(r.json["filesystems"]), 1)
        self.assertEqual(r.err.count("is on the same filesystem as"), 3, r)
        self.assertLessEqual(d.discarded(), d.free() + LITTLE)

    def test_a_file_will_do(self):
        d = self.small().mount()
        self.trim(os.path.join(d.dir, "f1"))
        self.assertGreater(d.discarded(), d.free() - LITTLE)

    def record(self, d):
        """The result that trim keeps for status, or None."""
        for name in glob.glob(os.path.join(scratch.dir, "trim@*.json")):
            with open(name, encoding="ascii") as f:
                record = json.load(f)
            if record["mount"] == d.dir:
                return record
        return None

    def test_result_is_recorded(self):
        d = self.small().mount()
        r = self.trim("--json", d.dir).json["filesystems"][0]
        keys = ("outcome", "why", "trimmed_bytes", "steps", "elapsed_usec", "longest_step_usec")
        record = self.record(d)
        self.assertEqual([record[k] for k in keys], [r[k] for k in keys])
        self.assertAlmostEqual(record["finished_usec"] / 1e6, time.time(), delta=60)

    def test_dry_run_records_nothing(self):
        d = self.small().mount()
        self.trim("--dry-run", d.dir)
        self.assertIsNone(self.record(d))

    def configured(self, d, text, *args, **kw):
        conf = os.path.join(scratch.dir, "conf")
        os.makedirs(conf, exist_ok=True)
        with open(os.path.join(conf, "reclaimd.yaml"), "w", encoding="utf-8") as f:
            f.write(text % d.dir)
        return self.trim("--configured", "--configuration-directory=" + conf, *args, **kw)

    def test_configured_filesystems_are_trimmed(self):
        d = self.small().mount()
        r = self.configured(d, "trim: {filesystems: [%s]}\n", "--json").json
        self.assertEqual([f["path"] for f in r["filesystems"]], [d.dir])
        self.assertGreater(d.discarded(), d.free() - LITTLE)

    def test_configured_filesystem_with_a_schedule_of_its_own(self):
        text = "trim: {filesystems: {%s: {schedule: daily, min: 4M}}}\n"
        d = self.small().mount()
        r = self.configured(d, text, status=1)
        self.assertIn("has a schedule of its own", r.err)
        self.assertEqual(d.discarded(), 0)
        self.configured(d, text, d.dir)
        # Free extents below the configured minimum stay.
        self.assertLess(0, d.discarded())
        self.assertLess(d.discarded(), d.free() - LITTLE)

    def test_configured_refuses_another_mount_point(self):
        d = self.small().mount()
        r = self.configured(d, "trim: {filesystems: [%s/other]}\n", d.dir, status=1)
        self.assertIn("does not name this mount point; nothing was trimmed", r.err)
        self.assertEqual(d.discarded(), 0)

    def test_subvolumes_are_one_filesystem(self):
        d = self.small("btrfs").mount()
        command("btrfs", "subvolume", "create", os.path.join(d.dir, "s"))
        r = self.trim("--json", d.dir, os.path.join(d.dir, "s")).json
        self.assertEqual(len(r["filesystems"]), 1)

    def test_output_forms(self):
        d = self.small().mount()
        r = self.trim(d.dir)
        self.assertRegex(r.out, r"(?m)^ *TRIMMED +TIME +LONGEST STEP +FILESYSTEM$")
        self.assertRegex(r.out, r"(?m)^ *[\d.]+ MiB +\S+ +[\d.]+ms +%s$" % re.escape(d.dir))
        self.assertRegex(r.out, r"(?m)^Trimmed [\d.]+ MiB on 1 filesystem in \S+, in \d+ steps? of at most [\d.]+ms$")
        self.assertEqual(r.err, "")
        r = self.trim("-q", d.dir)
        self.assertEqual((r.out, r.err), ("", ""))
        r = self.trim("-v", "--latency=off", d.dir)
        self.assertRegex(r.err, r"(?m)^loop\d+: .* trimmed in \d+ steps?; the last one: \S+ \S+ in [\d.]+ms; longest: [\d.]+ms$")
        keys = {"path", "type", "device", "outcome", "why", "size_bytes", "free_bytes", "bound", "backing_file",
                "trimmed_bytes", "steps", "calls", "elapsed_usec", "longest_step_usec"}
        told = self.trim("--json", d.dir).json
        self.assertEqual(set(told["filesystems"][0]), keys)
        self.assertEqual(json_page.printed(told), json_page.described("trim"))

    def test_on_a_terminal_progress_names_the_device(self):
        d = self.small().mount()
        said = command("script", "-qec", "%s trim %s" % (scratch.binary, d.dir), "/dev/null", stdin=subprocess.DEVNULL)
        self.assertRegex(said, r"\[#+\.*\] +\d+%% [\d.]+ MiB trimmed on %s\r" % os.path.basename(d.device))
        # Nothing of it is left in the line of the table's head.
        self.assertRegex(said, r"\r\x1b\[K(\x1b\[\d*m)* *TRIMMED")

    @each(DISKS)
    def test_dry_run_trims_nothing(self, kind):
        d = self.small(kind).mount()
        words = ["strace", "-f", "-qq", "-e", "trace=ioctl"] if shutil.which("strace") else []
        r = self.trim("--dry-run", d.dir, wrapper=words, env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.assertNotIn("FITRIM", r.err)
        self.assertIn("nothing was trimmed", r.out)
        self.assertIn("punches holes into " + d.image, re.sub(r"\s+", " ", r.out))
        self.assertEqual(d.discarded(), 0)
        d.close()

    def test_all_has_each_device_once_and_what_can_be_trimmed(self):
        """Looking only: the machine has filesystems of its own."""
        d, ro, one = self.small().mount(), self.small(anew=True), self.small("btrfs").mount()
        ro.mount("ro,nodiscard")
        for name in ("x", "y"):
            os.mkdir(os.path.join(d.top, name))
            command("mount", "--bind", d.dir, os.path.join(d.top, name))
        r = self.trim("--all", "--dry-run", "--json", "-v")
        found = [f["path"] for f in r.json["filesystems"]]
        ours = [path for path in found if path.startswith(scratch.dir)]
        self.assertEqual(sorted(ours), sorted([d.dir, one.dir]))
        self.assertEqual(len(found), len(set(found)))
        self.assertIn("%s: left out: read-only" % ro.dir, r.err)
        self.assertIn("/proc: left out: no block device", r.err)
        self.assertEqual(self.trim("--all", "--dry-run", "--json").err, "")

    def test_one_that_fails_does_not_stop_the_others(self):
        d, e = self.small().mount(), self.small("xfs").mount()
        gone = os.path.join(d.top, "gone")
        r = self.trim("--json", gone, d.dir, "/proc", e.dir, status=3)
        self.assertIn("reclaimctl: %s: No such file or directory" % gone, r.err)
        self.assertIn("reclaimctl: /proc: cannot be trimmed", r.err)
        self.assertEqual([f["outcome"] for f in r.json["filesystems"]], ["trimmed", "failed", "trimmed"])
        self.assertEqual(r.json["errors"], 2)
        self.trim(gone, "/proc", status=1)

    def test_device_that_does_not_discard_is_no_error(self):
        """A loop device upon a filesystem that punches no holes."""
        top = tempfile.mkdtemp(dir=scratch.dir)
        command("mount", "-t", "ramfs", "ramfs", top)
        self.addCleanup(fixture.unmount_beneath, top)
        image, at = os.path.join(top, "image"), os.path.join(top, "m")
        os.mkdir(at)
        with open(image, "wb") as f:
            f.truncate(64 * MIB)
        command("mkfs.ext4", "-q", "-F", image)
        command("mount", "-o", "loop", image, at)
        r = self.trim(at)
        self.assertRegex(r.out, r"^%s: nothing to trim: loop\d+ does not discard\n$" % re.escape(at))
        self.assertEqual(r.err, "")
        self.assertEqual(self.trim("--json", at).json["skipped"], 1)
        fixture.unmount_beneath(top + "/")

    def test_places_without_a_device_are_said(self):
        d = self.small().mount()
        for name in ("upper", "work", "view"):
            os.mkdir(os.path.join(d.dir, name))
        view = os.path.join(d.dir, "view")
        command("mount", "-t", "overlay", "-o", "lowerdir=%s,upperdir=%s/upper,workdir=%s/work" % (d.top, d.dir, d.dir),
                "overlay", view)
        ro = self.small(anew=True)
        ro.mount("ro,nodiscard")
        os.mkfifo(os.path.join(d.dir, "fifo"))
        for path, why in ((view, "an overlay has no space of its own"),
                          (scratch.dir, "no block device here (in memory)"),
                          ("/proc", "no block device here"),
                          (ro.dir, "mounted read-only"),
                          (d.device, "is a block device: give a path on the filesystem that is on it"),
                          (os.path.join(d.dir, "fifo"), "is neither a directory nor a file"),
                          ("", "No such file or directory"),
                          (os.path.join(d.dir, "f1/x"), "Not a directory")):
            with self.subTest(path=path):
                r = self.trim(path, status=1)
                self.assertIn(why, re.sub(r"\s+", " ", r.err), r)
                self.assertEqual(r.err.count("reclaimctl: "), 1, r)
        self.assertEqual(d.discarded() + ro.discarded(), 0)

    def test_sizes_that_make_no_sense(self):
        d = self.small().mount()
        for size in ("abc", "0", "-1", "", "1X", "99999999999999999999"):
            with self.subTest(size=size):
                r = self.trim("--min=" + size, d.dir, status=2)
                self.assertIn("is not accepted by --min: give a size above 0, such as 1M", r.err)
        r = self.trim("--min=1T", d.dir, status=1)
        self.assertIn("--min=1.0 TiB is more than the filesystem has", r.err)
        for kind in ("ext4", "xfs"):
            d = self.small(kind, anew=True).mount()
            r = self.trim("--min=200M", d.dir, status=None)
            self.assertIn(r.status, (0, 1))
            self.assertLessEqual(d.discarded(), d.free())
        self.assertIn("no PATH given, nor --all", self.trim(status=2).err)
        self.assertIn("give either PATHs or --all", self.trim("--all", "/", "--dry-run", status=2).err)

    def trim(self, *args, status=0, **kw):
        r = self.start(*args, **kw).finish()
        if status is not None:
            self.assertEqual(r.status, status, r)
        return r


class Rights(TrimCase):
    def test_only_root_may(self):
        d = self.disk("ext4", size=SMALL).mount()
        os.chmod(d.top, 0o755)
        os.chmod(scratch.dir, 0o755)
        r = self.trim(d.dir, status=4, user=fixture.USER)
        self.assertIn("only root may trim", r.err)
        self.assertIn("nothing was trimmed", r.err)
        self.assertEqual(r.out, "")
        # Looking needs no right.
        r = self.trim("--dry-run", "--json", d.dir, user=fixture.USER).json
        self.assertEqual(r["filesystems"][0]["bound"], "by-run")
        self.assertEqual(d.discarded(), 0)

    @each(DISKS)
    def test_process_opens_nothing_for_writing_and_only_trims(self, kind):
        """I1: what it has, it has for reading, and one capability."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        d = self.disk(kind, size=SMALL).mount()
        trace = os.path.join(scratch.dir, "calls")
        self.trim("--latency=off", d.dir, wrapper=["strace", "-f", "-qq", "-o", trace],
                  env={"ASAN_OPTIONS": "detect_leaks=0"})
        with open(trace, encoding="utf-8", errors="replace") as f:
            calls = [line.split(None, 1) for line in f]
        pid, = {pid for pid, call in calls if 'PR_SET_NAME, "%s"' % PROCESS in call}
        mine = [call for each, call in calls if each == pid]
        mine = mine[next(i for i, call in enumerate(mine) if PROCESS in call):]
        names = {re.match(r"\w+", call)[0] for call in mine if re.match(r"\w+\(", call)}
        self.assertLessEqual(names, {"prctl", "dup2", "close_range", "capget", "capset", "openat", "close", "fstat",
                                     "newfstatat", "ioctl", "mmap", "seccomp", "pread64", "sendto", "recvfrom",
                                     "exit_group", "sigaltstack", "munmap",
                                     *(["madvise"] if scratch.sanitized_threads else [])})
        for call in mine:
            if call.startswith("openat("):
                self.assertRegex(call, r'openat\(AT_FDCWD, "/dev/[^"]*", O_RDONLY\|O_NONBLOCK\|O_CLOEXEC\b')
        behind = mine[next(i for i, call in enumerate(mine) if call.startswith("seccomp(")) + 1:]
        self.assertTrue([call for call in behind if "FITRIM" in call])
        for call in [call for call in behind if not call.startswith("<...")]:
            self.assertRegex(call, r"^(ioctl\(1, (FITRIM|FS_IOC_GETFSMAP|_IOC\(_IOC_READ\|_IOC_WRITE, 0x58, 0x3b)"
                                   r"|pread64\(|sendto\(0,|recvfrom\(0,|exit_group\(|sigaltstack\(|munmap\(|\+\+\+)")
        d.close()

    def test_process_has_one_capability(self):
        d = self.disk("ext4").mount()
        p = self.start(d.dir, gate="trim:next").meet()
        pid, = helpers(p.pid)
        with open("/proc/%d/status" % pid, encoding="ascii") as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        for name in ("CapPrm", "CapEff"):
            self.assertEqual(int(status[name], 16), 1 << 21, name)
        for name in ("CapInh", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["Seccomp"], "2")
        p.go_on().finish()


if __name__ == "__main__":
    fixture.main()
