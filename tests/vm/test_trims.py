#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trims of what other machines that tests run on need not have: filesystems of other families, dm-crypt, thin
volumes. In the emulated machine, whose kernel is Debian's."""
import glob
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import fixture
import test_trim
from fixture import MIB, command
from test_lost import modprobe
from test_pacing import Foreground
from test_trim import LITTLE, Disk, TrimCase, each, holes, missing, sums, total

# How it is made, looked at, and mounted; and how a step is bounded.
FAMILIES = {
    "vfat": (("mkfs.vfat", "-F", "32", "-s", "4"), ("fsck.vfat", "-n"), "noatime", "by-size"),
    "exfat": (("mkfs.exfat",), ("fsck.exfat", "-n"), "noatime", "by-size"),
    "ntfs3": (("mkfs.ntfs", "-q", "-F", "-f"), ("ntfsfix", "-n"), "nodiscard,noatime", "by-size"),
    "f2fs": (("mkfs.f2fs", "-q", "-f", "-t", "0"), ("fsck.f2fs", "--dry-run"), "nodiscard,noatime", "unbounded"),
}
# That of Debian 12 has no ntfs3.
KINDS = [k for k in FAMILIES if glob.glob(os.environ.get("RECLAIM_KERNEL", "") + "/lib/modules/*/kernel/fs/*/%s.ko*" % k)]
SIZE, DELETED = 256 * MIB, 64 * MIB
NO_UDEV = dict(os.environ, DM_DISABLE_UDEV="1")


def setUpModule():
    for kind, (mkfs, fsck, _, _) in FAMILIES.items():
        test_trim.MKFS[kind], test_trim.FSCK[kind] = mkfs, fsck
    # What mounting vfat asks for by itself is not found here.
    for module in (*KINDS, "nls_cp437", "nls_ascii", "nls_utf8", "ext4", "dm_crypt", "ecb", "crypto_null", "dm_thin_pool"):
        modprobe(module)


class Other(Disk):
    def mount(self, options=None):
        try:
            return super().mount(options or FAMILIES[self.kind][2])
        except fixture.unittest.SkipTest as e:
            raise AssertionError("this kernel has it") from e


class Families(TrimCase):
    def made(self, kind, **kw):
        d = Other(kind, **kw)
        self.addCleanup(d.close)
        return d

    @each(KINDS)
    def test_it_trims_what_fstrim_trims_and_each_byte_once(self, kind):
        ours = self.made(kind, size=SIZE)
        theirs = self.made(kind, image=ours.image).mount()
        command("fstrim", theirs.dir)
        theirs.unmount()
        theirs_made = holes(theirs.image)
        theirs.close()
        before, mapped = sums(ours.mount().dir), holes(ours.image)
        r = self.trim("--json", ours.dir).json
        discarded = ours.discarded()
        self.check_sound(ours, before)
        made = holes(ours.image)
        self.assertGreater(total(theirs_made), SIZE // 8)
        self.assertLessEqual(missing(theirs_made, made), LITTLE)
        self.assertLessEqual(discarded, total(made) - total(mapped) + LITTLE)
        self.assertEqual((r["filesystems"][0]["outcome"], r["filesystems"][0]["bound"]),
                         ("trimmed", FAMILIES[kind][3]))
        ours.close()

    @each(KINDS)
    def test_it_trims_the_same_beside_foreground_io(self, kind):
        d = self.made(kind, size=SIZE)
        mapped, before = total(holes(d.image)), sums(d.mount().dir)
        with Foreground(os.path.join(d.dir, "file")):
            # That of f2fs is one step, after which there would be a rest of minutes.
            r = self.trim("--json", d.dir).json
        discarded = d.discarded()
        os.unlink(os.path.join(d.dir, "file"))
        self.check_sound(d, before)
        self.assertGreater(total(holes(d.image)) - mapped, SIZE // 8)
        self.assertLessEqual(discarded, total(holes(d.image)) - mapped + 2 * LITTLE, "something was trimmed twice")
        self.assertEqual(r["filesystems"][0]["outcome"], "trimmed")
        d.close()


class Mapped(TrimCase):
    """Upon a loop device, what lies between a filesystem and its device."""

    def setUp(self):
        super().setUp()
        self.image = os.path.join(fixture.scratch.dir, "image")
        with open(self.image, "wb") as f:
            f.truncate(SIZE)
        self.addCleanup(os.unlink, self.image)
        self.loop = command("losetup", "--find", "--show", self.image).strip()
        self.addCleanup(command, "losetup", "--detach", self.loop)
        self.sectors = SIZE // 512

    def map(self, name, table, *words):
        command("dmsetup", "create", name, *words, "--table", table, env=NO_UDEV)
        self.addCleanup(command, "dmsetup", "remove", "--retry", name, env=NO_UDEV)
        return "/dev/mapper/" + name

    def mounted(self, device):
        command("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", device)
        at = os.path.join(fixture.scratch.dir, "m")
        os.makedirs(at, exist_ok=True)
        command("mount", "-o", "nodiscard", device, at)
        self.addCleanup(fixture.unmount_when_free, at)
        path = os.path.join(at, "large")
        with open(path, "wb") as f:
            f.write(b"\xff" * DELETED)
        fixture.sync(at)
        os.unlink(path)
        fixture.sync(at)
        return at

    def crypt(self, *options):
        """As cryptsetup names it; the cipher is no matter."""
        words = "%d %s" % (len(options), " ".join(options)) if options else ""
        return self.map("crypt", "0 %d crypt cipher_null-ecb - 0 %s 0 %s" % (self.sectors, self.loop, words),
                        "--uuid", "CRYPT-PLAIN-crypt")

    def allocated(self):
        return os.stat(self.image).st_blocks * 512

    def test_dm_crypt_without_allow_discards_is_said(self):
        at = self.mounted(self.crypt())
        before = self.allocated()
        for words in ((), ("--dry-run",)):
            said = " ".join(self.trim(*words, at).out.split())
            self.assertIn("dm-crypt passes no discards on unless it is opened with allow-discards", said)
        self.assertGreaterEqual(self.allocated(), before)

    def test_dm_crypt_with_it_passes_them_on(self):
        at = self.mounted(self.crypt("allow_discards"))
        before = self.allocated()
        self.assertGreater(before, DELETED)
        self.trim(at)
        self.assertLess(self.allocated(), before - DELETED + LITTLE)

    def test_thin_volume_gives_the_space_back_to_its_pool(self):
        metadata = self.map("metadata", "0 32768 linear %s 0" % self.loop)
        data = self.map("data", "0 %d linear %s 32768" % (self.sectors - 32768, self.loop))
        pool = self.map("pool", "0 %d thin-pool %s %s 128 0" % (self.sectors - 32768, metadata, data))
        command("dmsetup", "message", "pool", "0", "create_thin 0", env=NO_UDEV)
        at = self.mounted(self.map("thin", "0 %d thin %s 0" % (self.sectors, pool)))

        def used():
            """Of its data, in blocks of 64 KiB."""
            return int(command("dmsetup", "status", "pool").split()[5].split("/")[0])

        before = used()
        self.assertGreater(before, DELETED >> 16)
        r = self.trim("--json", at).json
        self.assertEqual(r["filesystems"][0]["outcome"], "trimmed")
        self.assertLess(used(), before - (DELETED - LITTLE >> 16))


if __name__ == "__main__":
    fixture.main()
