# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trims as a machine runs them: by the units, in their sandbox, and by the timer."""

import json
import os
import unittest

from system import attempt, command, configure, install, journal, remove, signals, unit_property

SOCKET = "reclaimd-trim.socket"
TIMER = "reclaimd-trim-scheduled.timer"
DROP_IN = f"/etc/systemd/system/{TIMER}.d"


def setUpModule():
    install("deb", 1)


def jobs():
    return [j for j in json.loads(command("reclaimctl", "list", "--all", "--json=short")) if j["kind"] == "trim"]


def fill_and_empty(mount):
    command("fallocate", "-l", "256M", f"{mount}/large")
    command("sync", "-f", mount)
    os.unlink(f"{mount}/large")
    command("sync", "-f", mount)


class Trim(unittest.TestCase):
    def test_unit_trims_in_its_sandbox(self):
        self.assertNotIn("cap_sys_admin", unit_property("CapabilityBoundingSet").split())
        self.assertEqual(unit_property("ActiveState", SOCKET), "active")
        for mount in filter(os.path.ismount, ("/backups", "/btrfs")):
            with self.subTest(mount=mount):
                fill_and_empty(mount)
                said = command("reclaimctl", "trim", "--submit", "--wait", mount)
                self.assertIn(f"trims {mount}", said)
                job = jobs()[-1]
                self.assertEqual((job["state"], job["path"], job["uid"]), ("done", mount, 0))
                self.assertGreater(job["bytes_freed"], 256 << 20)
                ended = journal("JOB=%d" % job["id"])[-1]
                self.assertEqual((ended["KIND"], ended["TRIMMED_BYTES"]), ("trim", str(job["bytes_freed"])))
                self.assertGreater(int(ended["LONGEST_STEP_USEC"]), 0)
        # The unit's processes have gone.
        self.assertEqual(command("systemctl", "list-units", "--no-legend", "--plain", "reclaimd-trim@*.service"), "")

    def test_what_is_read_only_for_the_service_alone_is_trimmed(self):
        """ProtectSystem= makes /boot read-only there."""
        command("mount", "--bind", "/backups", "/boot")
        self.addCleanup(command, "systemctl", "restart", "reclaimd")
        self.addCleanup(command, "umount", "/boot")
        command("systemctl", "restart", "reclaimd")
        fill_and_empty("/boot")
        command("reclaimctl", "trim", "--submit", "--wait", "/boot")
        self.assertEqual((jobs()[-1]["state"], jobs()[-1]["path"]), ("done", "/boot"))
        self.assertGreater(jobs()[-1]["bytes_freed"], 256 << 20)

    def test_without_the_socket_it_fails_and_says_so(self):
        command("systemctl", "stop", SOCKET)
        self.addCleanup(command, "systemctl", "start", SOCKET)
        r = attempt("reclaimctl", "trim", "--submit", "--wait", "/backups")
        self.assertEqual(r.returncode, 1, r.stdout)
        shown = command("reclaimctl", "show", "--no-pager", str(jobs()[-1]["id"]))
        self.assertIn(SOCKET, shown)

    def test_socket_is_for_root_only(self):
        self.assertEqual(os.stat("/run/reclaimd/trim").st_mode & 0o777, 0o600)
        command("systemctl", "restart", "reclaimd")
        self.assertTrue(os.path.exists("/run/reclaimd/trim"))

    def test_the_timer_trims_and_status_names_both(self):
        os.makedirs(DROP_IN, exist_ok=True)
        with open(f"{DROP_IN}/test.conf", "w", encoding="ascii") as f:
            f.write("[Timer]\nAccuracySec=1us\nRandomizedDelaySec=0\n")
        configure("trim: {schedule: '*:*:0/2', filesystems: [/backups]}\n")
        self.addCleanup(configure, "")
        self.addCleanup(command, "systemctl", "stop", TIMER)
        not_active = "trim: schedule: its timer is not active"
        self.assertIn(not_active, command("reclaimctl", "check-config"))
        before = len(jobs())
        with signals("JobFinished") as finished:
            command("systemctl", "daemon-reload")
            command("systemctl", "reload-or-restart", "reclaimd")
            command("systemctl", "start", "timers.target", TIMER)
            finished()
        job = jobs()[before]
        self.assertEqual((job["state"], job["path"]), ("done", "/backups"))
        self.assertIn("reclaimd-trim-scheduled.timer", command("reclaimctl", "status", "--no-pager"))
        self.assertNotIn(not_active, command("reclaimctl", "check-config"))
        # Which does not begin in a container by itself.
        os.makedirs("/etc/systemd/system/fstrim.timer.d", exist_ok=True)
        with open("/etc/systemd/system/fstrim.timer.d/test.conf", "w", encoding="ascii") as f:
            f.write("[Unit]\nConditionVirtualization=\n")
        command("systemctl", "daemon-reload")
        command("systemctl", "start", "fstrim.timer")
        self.addCleanup(command, "systemctl", "stop", "fstrim.timer")
        self.assertIn("twice", command("reclaimctl", "status", "--no-pager"))
        self.assertIn("trim: schedule: fstrim.timer is active, too", command("reclaimctl", "check-config"))
        timers = json.loads(command("reclaimctl", "status", "--json=short"))["trim_timers"]
        self.assertEqual(timers, {"fstrim": True, "reclaimd": True, "units": [TIMER]})

    def test_filesystem_with_a_schedule_of_its_own(self):
        timer, at = "reclaimd-trim-scheduled@backups.timer", "/etc/systemd/system/reclaimd-trim-scheduled@.timer.d"
        os.makedirs(at, exist_ok=True)
        self.addCleanup(command, "rm", "-r", at)
        with open(f"{at}/test.conf", "w", encoding="ascii") as f:
            f.write("[Timer]\nAccuracySec=1us\nRandomizedDelaySec=0\n")
        configure("trim: {filesystems: {/backups: {schedule: '*:*:0/2'}, /boot: {}}}\n")
        self.addCleanup(configure, "")
        self.addCleanup(command, "systemctl", "stop", timer)
        not_active = "trim: filesystems: /backups: schedule: its timer is not active"
        self.assertIn(not_active, command("reclaimctl", "check-config"))
        before = len(jobs())
        with signals("JobFinished") as finished:
            command("systemctl", "daemon-reload")
            command("systemctl", "reload-or-restart", "reclaimd")
            command("systemctl", "start", "timers.target", timer)
            finished()
        made = jobs()[before:]
        self.assertEqual((made[0]["state"], {j["path"] for j in made}), ("done", {"/backups"}))
        self.assertIn(f"by {timer}\n", command("reclaimctl", "status", "--no-pager"))
        self.assertNotIn(not_active, command("reclaimctl", "check-config"))
        # Without its schedule the timer is over at once, and has not failed.
        configure("")
        command("systemctl", "daemon-reload")
        self.assertNotIn(timer, command("reclaimctl", "status", "--no-pager"))
        self.assertEqual(attempt("systemctl", "is-failed", "--quiet", timer).returncode, 1)

    def test_zz_removed_package_leaves_no_socket(self):
        remove()
        self.assertNotEqual(attempt("systemctl", "is-active", SOCKET).returncode, 0)
