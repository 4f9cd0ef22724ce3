#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Deleting with a user's and a project's quota used up, on ext4 and XFS, in the emulated machine, whose
kernel has quotas. Its first disk is ours."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import fixture
from daemon_fixture import user
from fixture import USER, Canary, command
from test_full import Room, use_bytes, use_names
from test_lost import modprobe

DISK = "/dev/vda"
MKFS = {"ext4": ("mkfs.ext4", "-q", "-F", "-I", "256", "-O", "quota,project", "-E",
                 "quotatype=usrquota:prjquota", DISK),
        "xfs": ("mkfs.xfs", "-q", "-f", DISK)}
PROJECT = 4711


class Quota(Room):
    def disk(self, fs):
        at = os.path.join(self.daemon.dir, "quota")
        if os.path.ismount(at):
            # Who works there lets go of it.
            self.daemon.stop()
            command("umount", at)
            self.daemon.start()
        command(*MKFS[fs])
        os.makedirs(at, exist_ok=True)
        command("mount", "-t", fs, "-o", "usrquota,prjquota", DISK, at)
        if self.kind == "project":
            self.make_project(fs, at)
        self.data = os.path.join(at, "data")
        os.mkdir(self.data)
        os.chown(self.data, USER, USER)
        self.canary = Canary(os.path.join(at, "aside"))
        return at

    def finish(self):
        super().finish()
        command("umount", os.path.join(self.daemon.dir, "quota"))

    @staticmethod
    def limit(fs, at, kind, kib, inodes):
        who = USER if kind == "user" else PROJECT
        if fs == "xfs":
            command("xfs_quota", "-x", "-c", "limit %s bhard=%dk ihard=%d %d" % (
                "-u" if kind == "user" else "-p", kib, inodes, who), at)
        else:
            command("setquota", "-u" if kind == "user" else "-P", who, 0, kib, 0, inodes, at)

    @staticmethod
    def make_project(fs, at):
        """Of all that is made there, staging as well: nothing is renamed into another project."""
        if fs == "xfs":
            command("xfs_quota", "-x", "-c", "project -s -p %s %d" % (at, PROJECT), at)
        else:
            command("chattr", "-p", PROJECT, "+P", at)

    def delete_without_room(self, fs, kind, kib, inodes):
        self.kind = kind
        at = self.begun(fs)
        self.limit(fs, at, kind, kib, inodes)
        with user():
            fixture.write(self.path("filler"))
            self.use_up(self.data, use_names, use_bytes, use_names)
        # It is not the disk that is full.
        self.assertGreater(os.statvfs(os.path.join(at, "aside") if kind == "user" else "/").f_bavail, 1000)
        self.delete_all(USER, 3)

    def check(self, fs):
        modprobe(fs)
        modprobe("quota_v2")
        for kind in ("user", "project"):
            for kib, inodes in ((2000, 100000), (100000, 60)):
                with self.subTest(kind=kind, kib=kib, inodes=inodes):
                    self.delete_without_room(fs, kind, kib, inodes)

    def test_attack_06_quotas_of_ext4(self):
        self.check("ext4")

    def test_attack_06_quotas_of_xfs(self):
        self.check("xfs")


if __name__ == "__main__":
    fixture.main()
