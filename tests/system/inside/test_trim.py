# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trims as a machine runs them: by timers, in the sandbox of their units."""

import json
import os
import unittest

from system import attempt, command, configure, install, remove, until, unit_property

TIMER = "reclaimd-trim-scheduled.timer"
SERVICE = "reclaimd-trim-scheduled.service"


def setUpModule():
    install("deb", 1)


def trims():
    """The last trims that status shows, by mount point."""
    return {t["mount"]: t for t in json.loads(command("reclaimctl", "status", "--json=short"))["trims"]}


def fill_and_empty(mount):
    command("fallocate", "-l", "256M", f"{mount}/large")
    command("sync", "-f", mount)
    os.unlink(f"{mount}/large")
    command("sync", "-f", mount)


def start_at_once(timer):
    """Takes the random delay out of a timer."""
    directory = f"/etc/systemd/system/{timer}.d"
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/test.conf", "w", encoding="ascii") as f:
        f.write("[Timer]\nAccuracySec=1us\nRandomizedDelaySec=0\n")


class Trim(unittest.TestCase):
    def test_unit_trims_in_its_sandbox(self):
        self.assertNotIn("cap_sys_admin", unit_property("CapabilityBoundingSet").split())
        mounts = list(filter(os.path.ismount, ("/backups", "/btrfs")))
        configure("trim: {filesystems: [%s]}\n" % ", ".join(mounts))
        self.addCleanup(configure, "")
        for mount in mounts:
            fill_and_empty(mount)
        command("systemctl", "start", SERVICE)
        for mount in mounts:
            with self.subTest(mount=mount):
                trim = trims()[mount]
                self.assertEqual(trim["outcome"], "trimmed")
                self.assertGreater(trim["trimmed_bytes"], 256 << 20)
                self.assertGreater(trim["longest_step_usec"], 0)

    def test_unit_trims_a_filesystem_below_a_protected_directory(self):
        """ProtectSystem= makes /boot read-only for the unit."""
        command("mount", "--bind", "/backups", "/boot")
        self.addCleanup(command, "umount", "/boot")
        configure("trim: {filesystems: {/boot: {schedule: weekly}}}\n")
        self.addCleanup(configure, "")
        fill_and_empty("/boot")
        command("systemctl", "start", "reclaimd-trim-scheduled@boot.service")
        self.assertEqual(trims()["/boot"]["outcome"], "trimmed")
        self.assertGreater(trims()["/boot"]["trimmed_bytes"], 256 << 20)

    def test_unit_fails_if_a_filesystem_cannot_be_trimmed(self):
        configure("trim: {filesystems: [/proc]}\n")
        self.addCleanup(configure, "")
        self.assertNotEqual(attempt("systemctl", "start", SERVICE).returncode, 0)
        self.addCleanup(command, "systemctl", "reset-failed", SERVICE)

    def test_timer_trims_and_status_reports_both_timers(self):
        start_at_once(TIMER)
        configure("trim: {schedule: '*:*:0/2', filesystems: [/backups]}\n")
        self.addCleanup(configure, "")
        self.addCleanup(command, "systemctl", "stop", TIMER)
        not_active = "trim: schedule: its timer is not active"
        self.assertIn(not_active, command("reclaimctl", "check-config"))
        before = trims().get("/backups", {}).get("finished_usec", 0)
        command("systemctl", "daemon-reload")
        command("systemctl", "start", "timers.target", TIMER)
        until(lambda: trims().get("/backups", {}).get("finished_usec", 0) > before)
        self.assertIn(TIMER, command("reclaimctl", "status", "--no-pager"))
        self.assertNotIn(not_active, command("reclaimctl", "check-config"))
        # In a container fstrim.timer is not active unless its condition is removed.
        os.makedirs("/etc/systemd/system/fstrim.timer.d", exist_ok=True)
        with open("/etc/systemd/system/fstrim.timer.d/test.conf", "w", encoding="ascii") as f:
            f.write("[Unit]\nConditionVirtualization=\n")
        command("systemctl", "daemon-reload")
        command("systemctl", "start", "fstrim.timer")
        self.addCleanup(command, "systemctl", "stop", "fstrim.timer")
        self.assertIn("fstrim.timer is active too", command("reclaimctl", "status", "--no-pager"))
        self.assertIn("trim: schedule: fstrim.timer is active, too", command("reclaimctl", "check-config"))
        timers = json.loads(command("reclaimctl", "status", "--json=short"))["trim_timers"]
        self.assertEqual(timers, {"fstrim": True, "reclaimd": True, "units": [TIMER]})

    def test_filesystem_with_a_schedule_of_its_own(self):
        timer = "reclaimd-trim-scheduled@backups.timer"
        start_at_once("reclaimd-trim-scheduled@.timer")
        self.addCleanup(command, "rm", "-r", "/etc/systemd/system/reclaimd-trim-scheduled@.timer.d")
        configure("trim: {filesystems: {/backups: {schedule: '*:*:0/2'}, /boot: {}}}\n")
        self.addCleanup(configure, "")
        self.addCleanup(command, "systemctl", "stop", timer)
        not_active = "trim: filesystems: /backups: schedule: its timer is not active"
        self.assertIn(not_active, command("reclaimctl", "check-config"))
        before = trims().get("/backups", {}).get("finished_usec", 0)
        command("systemctl", "daemon-reload")
        command("systemctl", "start", "timers.target", timer)
        until(lambda: trims().get("/backups", {}).get("finished_usec", 0) > before)
        self.assertIn(timer, command("reclaimctl", "status", "--no-pager"))
        self.assertNotIn(not_active, command("reclaimctl", "check-config"))
        # Without a schedule the timer elapses at once and does not fail.
        configure("")
        command("systemctl", "daemon-reload")
        self.assertNotIn(timer, command("reclaimctl", "status", "--no-pager"))
        self.assertEqual(attempt("systemctl", "is-failed", "--quiet", timer).returncode, 1)

    def test_zz_removed_package_leaves_no_timer(self):
        remove()
        self.assertNotEqual(attempt("systemctl", "is-active", TIMER).returncode, 0)
