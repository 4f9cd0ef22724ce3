# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the service manager, the bus and polkit say to the files of the package."""

import json
import os
import re
import socket
import unittest

from system import attempt, command, install

# In tenths, as systemd-analyze counts.
EXPOSURE_LIMIT = 20
MOOSEFS_PORT = 9420


def setUpModule():
    install("deb", 1)


class Units(unittest.TestCase):
    def test_verify(self):
        if not os.path.exists("/usr/sbin/reclaimd"):
            self.skipTest("this build has no daemon")
        self.assertEqual(command("systemd-analyze", "verify", "--man=no", "reclaimd.service",
                                 "reclaimd.slice", "reclaimd-policy@x.service", "reclaimd-varlink.socket",
                                 "reclaimd-metrics.service", "reclaimd-metrics.timer", "reclaimd-trim-scheduled.service",
                                 "reclaimd-trim-scheduled@srv.service"), "")

    def test_security(self):
        r = attempt("systemd-analyze", "security", "--no-pager", f"--threshold={EXPOSURE_LIMIT}",
                    "reclaimd.service")
        print(r.stdout.strip().splitlines()[-1])
        self.assertEqual(r.returncode, 0, r.stdout)

    def test_what_must_not_be_set(self):
        # Each of these breaks deleting; none of them may be there, but for what is no place to delete in.
        shown = dict(line.split("=", 1) for line in command(
            "systemctl", "show", "reclaimd.service", "-p",
            "ReadWritePaths,ProtectHome,PrivateTmp,ProtectSystem,RestrictSUIDSGID,NoNewPrivileges,"
            "OOMPolicy,Slice,RestartPreventExitStatus,KillMode").splitlines())
        self.assertEqual(shown, {
            "ReadWritePaths": "-/sys/fs/btrfs", "ProtectHome": "no", "PrivateTmp": "no", "ProtectSystem": "full",
            "RestrictSUIDSGID": "no", "NoNewPrivileges": "yes", "OOMPolicy": "continue",
            "Slice": "reclaimd.slice", "RestartPreventExitStatus": "78", "KillMode": "process"})

    def test_settings_of_the_kernel(self):
        """None can be written but the limits of btrfs' discards."""
        command("systemctl", "start", "reclaimd")
        self.addCleanup(command, "systemctl", "stop", "reclaimd")
        pid = command("systemctl", "show", "--value", "-p", "MainPID", "reclaimd.service").strip()
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as f:
            mounts = {words[4]: words[5].split(",") for words in map(str.split, f)}
        self.assertIn("ro", mounts["/sys"])
        if os.path.isdir("/sys/fs/btrfs"):
            self.assertIn("rw", mounts["/sys/fs/btrfs"])

    def test_system_calls(self):
        allowed = set(command("systemctl", "show", "--value", "-p", "SystemCallFilter",
                              "reclaimd.service").split())
        needed = {
            "io_uring_setup", "io_uring_enter", "io_uring_register", "openat2", "renameat2", "unlinkat",
            "fallocate", "ftruncate", "fcntl", "statx", "getdents64", "name_to_handle_at",
            "open_by_handle_at", "landlock_create_ruleset", "landlock_add_rule",
            "landlock_restrict_self", "setresuid", "setgroups", "capset", "prctl", "pidfd_open",
            "inotify_add_watch", "recvmsg", "execve", "sync_file_range", "cachestat"}
        self.assertEqual(needed - allowed, set())
        self.assertEqual(allowed & {"mount", "ptrace", "init_module", "reboot", "bpf"}, set())

    def test_enabled(self):
        self.assertEqual(command("systemctl", "is-enabled", "reclaimd").strip(), "enabled")
        self.assertEqual(attempt("systemctl", "is-enabled", "reclaimd-metrics.timer").stdout.strip(), "disabled")


class Probe(unittest.TestCase):
    """The sandbox itself, with a probe in the place of the daemon."""

    def probe(self, script):
        directory = "/run/systemd/system/reclaimd.service.d"
        command("mkdir", "-p", directory)
        with open(f"{directory}/probe.conf", "w", encoding="ascii") as f:
            f.write("[Service]\nType=oneshot\nRestart=no\nWatchdogSec=0\nExecStart=\n"
                    f"ExecStart=/usr/bin/python3 /inside/{script}\n")
        self.addCleanup(command, "systemctl", "daemon-reload")
        self.addCleanup(command, "rm", "-r", directory)
        command("systemctl", "daemon-reload")
        r = attempt("systemctl", "restart", "reclaimd.service")
        self.assertEqual(r.returncode, 0, command("journalctl", "-o", "cat", "-u", "reclaimd.service"))

    def test_deleting_works_in_it(self):
        self.probe("probe.py")

    def example(self, name):
        """A drop-in that the package brings along, put where its own words say."""
        at = "/etc/systemd/system/reclaimd.service.d"
        command("install", "-D", "-m", "644", f"/usr/share/doc/reclaimd/examples/{name}", "-t", at)
        self.addCleanup(command, "systemctl", "daemon-reload")
        self.addCleanup(command, "rm", "-r", at)

    def test_mounts_of_moosefs_can_be_spoken_to(self):
        with socket.create_server(("127.0.0.1", MOOSEFS_PORT)) as listener:
            listener.settimeout(10)
            with self.assertRaises(AssertionError):
                self.probe("probe_mount.py")
            self.doCleanups()
            self.example("moosefs-snapshots.conf")
            self.probe("probe_mount.py")
            peer, _ = listener.accept()
            with peer:
                self.assertEqual(peer.recv(10), b"here")
        self.assertEqual(command("systemd-analyze", "verify", "--man=no", "reclaimd.service"), "")
        shown = command("systemctl", "show", "reclaimd.service", "-p",
                        "PrivateNetwork,RestrictAddressFamilies,IPAddressDeny,IPAddressAllow")
        self.assertEqual(dict((line.split("=", 1)[0], set(line.split("=", 1)[1].split()))
                              for line in shown.splitlines()),
                         {"PrivateNetwork": {"no"}, "RestrictAddressFamilies": {"AF_UNIX", "AF_INET"},
                          "IPAddressDeny": {"0.0.0.0/0", "::/0"}, "IPAddressAllow": {"127.0.0.0/8", "::1/128"}})


class Bus(unittest.TestCase):
    def test_45_only_root_owns_the_name(self):
        ask = ["busctl", "call", "org.freedesktop.DBus", "/org/freedesktop/DBus",
               "org.freedesktop.DBus", "RequestName", "su", "org.reclaimd1", "4"]
        command("systemctl", "stop", "reclaimd.service")
        self.assertEqual(command(*ask), "u 1\n")
        self.assertIn("Access denied", attempt("setpriv", "--reuid=65534", "--clear-groups", *ask).stdout)

    def test_name_can_be_activated(self):
        names = json.loads(command("busctl", "call", "--json=short", "org.freedesktop.DBus",
                                   "/org/freedesktop/DBus", "org.freedesktop.DBus",
                                   "ListActivatableNames"))["data"][0]
        self.assertIn("org.reclaimd1", names)


class Polkit(unittest.TestCase):
    def test_actions(self):
        for action in ("manage-others", "restore-others", "pause-all", "reload", "plan-policy", "run-policy"):
            said = command("pkaction", "--verbose", "--action-id", "org.reclaimd1." + action)
            self.assertEqual(re.findall(r"implicit \w+: +(\S+)", said), ["auth_admin"] * 3, said)
        self.assertEqual(command("pkaction").count("org.reclaimd1."), 6)


if __name__ == "__main__":
    unittest.main()
