# SPDX-License-Identifier: LGPL-2.1-or-later
"""The daemon as a service: what a person does with it on a machine."""

import contextlib
import glob
import json
import os
import signal
import stat
import subprocess
import time
import unittest

from system import (BUS, FILE, Canary, attempt, command, configure, free, full_speed, install, job_property, journal,
                    manager_property, running_file, running_job, signals, submit, unit_property, until)

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
STOP_SECONDS = 5
# Else the keeper of the service's own control group has them.
HAS_STORE = int(command("systemctl", "--version").split()[1]) >= 254


def setUpModule():
    install("deb", 1)


def processes():
    """The ids of all processes of the service."""
    with open(f"/sys/fs/cgroup{unit_property('ControlGroup')}/cgroup.procs", encoding="ascii") as f:
        return f.read().split()


def is_keeper(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", encoding="ascii", errors="replace") as f:
        return f.read() == "reclaim-keeper\0"
    return False


class Service(unittest.TestCase):
    def setUp(self):
        configure("")
        # It is started more often in a few seconds than the service manager likes.
        attempt("systemctl", "reset-failed", "reclaimd")
        command("systemctl", "reload-or-restart", "reclaimd")
        self.canary = Canary(f"/backups/{self.id()}")
        self.addCleanup(self.canary.check)

    def test_the_two_lines(self):
        command("systemctl", "disable", "--now", "reclaimd")
        command("fallocate", "-l", "1G", "/backups/old.tar.gz")
        command("sh", "-c", "systemctl enable reclaimd")
        # Enabled, it starts with the machine; meanwhile a client that speaks to it starts it.
        self.assertEqual(unit_property("ActiveState"), "inactive")
        said = command("sh", "-c", "reclaimctl submit /backups/old.tar.gz")
        self.assertRegex(said, r"^Job \d+: /backups/old.tar.gz\n$")
        self.assertFalse(os.path.exists("/backups/old.tar.gz"))
        self.assertEqual(unit_property("ActiveState"), "active")
        command("reclaimctl", "wait", said.split()[1].rstrip(":"))

    def test_enabled_and_started(self):
        command("systemctl", "disable", "--now", "reclaimd")
        command("fallocate", "-l", "1G", "/backups/old.tar.gz")
        free = os.statvfs("/backups").f_bavail
        for line in ("systemctl enable --now reclaimd", "reclaimctl submit --wait /backups/old.tar.gz"):
            command("sh", "-c", line)
        self.assertFalse(os.path.exists("/backups/old.tar.gz"))
        self.assertGreaterEqual((os.statvfs("/backups").f_bavail - free) * 4096, 1000 << 20)
        self.assertEqual(unit_property("ActiveState"), "active")
        self.assertNotEqual(unit_property("StatusText"), "")

    def test_service_writes_back_what_it_leaves(self):
        """In the fence of its unit it may read the device, and no more than that."""
        dev = os.stat("/backups").st_dev
        with open(f"/sys/dev/block/{os.major(dev)}:{os.minor(dev)}/uevent", encoding="ascii") as f:
            node = "/dev/" + dict(line.strip().split("=", 1) for line in f)["DEVNAME"]
        if not os.path.exists(node):
            try:
                os.mknod(node, stat.S_IFBLK | 0o600, dev)
            except PermissionError:
                self.skipTest("no device node can be made here")
            self.addCleanup(os.unlink, node)
        for i in range(20000):
            if i % 500 == 0:
                os.makedirs(f"/backups/debt/{i // 500}")
            with open(f"/backups/debt/{i // 500}/{i}", "wb"):
                pass
        command("sync", "-f", "/backups")
        submit("--wait", "/backups/debt")
        before = self.written(dev)
        command("sync", "-f", "/backups")
        # It would be five.
        self.assertLess(self.written(dev) - before, 1 << 20)

    def test_service_holds_the_discards_of_btrfs(self):
        """In the fence of its unit it may set these limits; they stay when it is stopped, and come back."""
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            device = [os.path.basename(line.split(" - ")[1].split()[1]) for line in f if line.split()[4] == "/btrfs"
                      and " - btrfs " in line]
        found = glob.glob(f"/sys/fs/btrfs/*/devices/{device[-1]}") if device else []
        if not found:
            self.skipTest("there is no btrfs here")
        attribute = found[0].rsplit("/", 2)[0] + "/discard/iops_limit"

        def limit():
            with open(attribute, encoding="ascii") as f:
                return int(f.read())

        usual = limit()
        command("fallocate", "-l", "512M", "/btrfs/large")
        command("sync", "-f", "/btrfs")
        submit("--wait", "/btrfs/large")
        until(lambda: limit() < usual)
        command("systemctl", "stop", "reclaimd")
        self.assertLess(limit(), usual)
        for comm in glob.glob("/proc/[0-9]*/comm"):
            with contextlib.suppress(OSError), open(comm, encoding="ascii", errors="replace") as f:
                if f.read().strip() == "reclaim-discard":
                    os.kill(int(comm.split("/")[2]), signal.SIGTERM)
        until(lambda: limit() == usual)

    def written(self, dev):
        with open(f"/sys/dev/block/{os.major(dev)}:{os.minor(dev)}/stat", encoding="ascii") as f:
            return int(f.read().split()[6]) * 512

    def test_line_of_a_backup_script(self):
        command("fallocate", "-l", "5G", "/backups/old.tar.gz")
        command("sh", "-c", "reclaimctl submit --wait=free:5G /backups/old.tar.gz && "
                            "fallocate -l 4G /backups/new.tar.gz")
        submit("--wait", "/backups/new.tar.gz")

    def test_attack_04_services_with_mounts_of_their_own(self):
        """What a service may not write it may not delete, by descriptor or by path, and nothing else
        is in its way. (reclaimd itself has mounts of its own.)"""
        def run(command_line, *properties):
            words = [w for p in properties for w in ("-p", p)]
            return attempt("systemd-run", "--quiet", "--wait", "--pipe", *words, "sh", "-c", command_line)

        by_path = "busctl call %s %s %s Submit 'aaya{sv}' 1 %d %s 0"

        def named(path):
            return by_path % (*BUS, len(path), " ".join(str(b) for b in path.encode()))

        command("sh", "-c", "mkdir -p /backups/d/x /backups/d/y; touch /backups/d/x/f")
        for line in ("reclaimctl submit /backups/d/x", named("/backups/d/x")):
            for read_only in ("ReadOnlyPaths=/backups", "ReadOnlyPaths=/backups/d/x", "ProtectSystem=strict"):
                r = run(line, read_only)
                self.assertNotEqual(r.returncode, 0, (line, read_only, r.stdout))
                self.assertRegex(r.stdout, "read-only|mount point")
        r = run(named("/tmp/x"), "PrivateTmp=yes", "ExecStartPre=touch /tmp/x")
        self.assertNotEqual(r.returncode, 0, r.stdout)
        self.assertTrue(os.path.exists("/backups/d/x/f"))
        for line in ("reclaimctl submit --wait %s", "reclaimctl submit --wait %s/", None):
            for properties in ((), ("PrivateTmp=yes",), ("ProtectSystem=strict", "ReadWritePaths=/backups"),
                               ("ProtectHome=read-only", "PrivateMounts=yes")):
                os.makedirs("/backups/d/y/f", exist_ok=True)
                r = run(line % "/backups/d/y" if line else named("/backups/d/y"), *properties)
                self.assertEqual(r.returncode, 0, (line, properties, r.stdout))
                self.assertFalse(os.path.exists("/backups/d/y"))

    def test_mount_unit(self):
        """What waits is not in its way; what runs is, until the filesystem is detached."""
        unit, at, kept = "srv-disk.mount", "/srv/disk", "/srv/kept"
        with open(f"/run/systemd/system/{unit}", "w", encoding="ascii") as f:
            f.write(f"[Mount]\nWhat=tmpfs\nWhere={at}\nType=tmpfs\n")
        self.addCleanup(attempt, "systemctl", "reset-failed", unit)
        for path in (at, kept):
            self.addCleanup(attempt, "umount", "-l", path)
        command("systemctl", "daemon-reload")
        command("systemctl", "start", unit)
        # Else it would be gone with what is in it.
        os.makedirs(kept)
        command("mount", "--bind", at, kept)
        command("fallocate", "-l", "1M", f"{at}/file")
        held = submit("--undo=1h", f"{at}/file")
        until(lambda: attempt("systemctl", "stop", unit).returncode == 0)
        self.assertFalse(os.path.ismount(at))
        self.assertEqual(job_property(held, "State"), "held")
        command("mount", "--bind", kept, at)
        command("reclaimctl", "restore", str(held))
        self.assertTrue(os.path.exists(f"{at}/file"))
        with running_job(f"{at}/tree", files=32) as job:
            self.assertNotEqual(attempt("systemctl", "stop", unit).returncode, 0)
            self.assertTrue(os.path.ismount(at))
            command("umount", "-l", at)
            until(lambda: job_property(job, "State") == "queued")
            self.assertIn("is not mounted; goes on when it is", job_property(job, "Message"))
            command("mount", "--bind", kept, at)
            full_speed()
            command("reclaimctl", "wait", str(job))
        self.assertFalse(os.path.exists(f"{at}/tree"))

    def test_spool(self):
        """An entry can be taken back while its time has not passed, and then it is gone."""
        spool = "/backups/.trash"
        os.mkdir(spool, 0o700)
        configure(f"spools: {{{spool}: {{settle: 1s, undo: 1h}}}}\n")
        with signals("JobNew") as came:
            command("systemctl", "reload", "reclaimd")
            command("fallocate", "-l", "10M", "/backups/old")
            os.rename("/backups/old", f"{spool}/old")
            came()
        job = json.loads(command("reclaimctl", "list", "--json=short"))[0]
        self.assertEqual((job["state"], job["path"]), ("held", f"{spool}/old"))
        self.assertIn(spool, command("reclaimctl", "spools"))
        command("reclaimctl", "restore", str(job["id"]), "--to=/backups/had-back")
        self.assertEqual(os.path.getsize("/backups/had-back"), 10 << 20)
        with signals("JobFinished") as went:
            configure(f"spools: {{{spool}: {{settle: 1s}}}}\n")
            command("systemctl", "reload", "reclaimd")
            os.rename("/backups/had-back", f"{spool}/again")
            went()
        self.assertEqual(os.listdir(spool), [])
        os.rmdir(spool)

    def test_a_user(self):
        os.mkdir("/backups/user")
        os.chown("/backups/user", 65534, 65534)
        command(*NOBODY, "fallocate", "-l", "64M", "/backups/user/own")
        command(*NOBODY, "reclaimctl", "submit", "--wait", "/backups/user/own")
        self.assertEqual(os.listdir("/backups/user"), [])
        r = attempt(*NOBODY, "reclaimctl", "submit", f"{self.canary.top}/canary/a")
        self.assertIn(r.returncode, (1, 4), r.stdout)

    def test_reload(self):
        configure(f"protect: [{self.canary.top}]\n")
        command("systemctl", "reload", "reclaimd")
        refused = attempt("reclaimctl", "submit", f"{self.canary.top}/canary/a")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        # It has been read when systemctl returns, however often and whatever else goes on.
        for n in range(20):
            configure(f"spools: {{/backups/spool-{n}: {{}}}}\n")
            command("systemctl", "reload", "reclaimd")
            self.assertIn(f"/backups/spool-{n}", command("reclaimctl", "spools"))
        configure(f"protect: [{self.canary.top}]\n")
        command("systemctl", "reload", "reclaimd")
        # What is wrong fails the reload, says where, and changes nothing: the daemon is not told.
        for wrong, where in (("protekt: [/srv]\n", "50-test.yaml:1:1"), ("undo: 5\n", "50-test.yaml:1:7"),
                             (f"policies: {{p: {{path: {self.canary.top}/canary, match: x, max-age: 1d,"
                              " schedule: sometimes}}\n", "expected when")):
            configure(wrong)
            failed = attempt("systemctl", "reload", "reclaimd")
            self.assertNotEqual(failed.returncode, 0, failed.stdout)
            self.assertIn(where, command("journalctl", "-o", "cat", "-u", "reclaimd"))
            self.assertEqual(manager_property("ConfigurationError"), "")
            self.assertEqual(unit_property("ActiveState"), "active")
            refused = attempt("reclaimctl", "submit", f"{self.canary.top}/canary/a")
            self.assertEqual(refused.returncode, 1, refused.stdout)
        # Who is not asked is told.
        configure("protekt: [/srv]\n")
        self.assertIn("has errors", command("reclaimctl", "status"))
        command("systemctl", "kill", "--signal=HUP", "--kill-who=main", "reclaimd")
        while "50-test.yaml:1:1" not in manager_property("ConfigurationError"):
            pass
        self.assertTrue(journal("-u", "reclaimd", "MESSAGE_ID=92c8040e1bb849ba892fc6af6c35c1d4"))
        refused = attempt("reclaimctl", "submit", f"{self.canary.top}/canary/a")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        configure("")
        command("systemctl", "reload", "reclaimd")
        self.assertEqual(manager_property("ConfigurationError"), "")

    def test_wrong_configuration_at_start(self):
        configure("protekt: [/srv]\n")
        self.assertNotEqual(attempt("systemctl", "restart", "reclaimd").returncode, 0)
        self.assertEqual(unit_property("ExecMainStatus"), "78")
        self.assertEqual(unit_property("ActiveState"), "failed")
        self.assertIn("50-test.yaml:1:1", command("journalctl", "-o", "cat", "-u", "reclaimd"))

    def test_restart_in_mid_job(self):
        with running_job("/backups/large") as job:
            pid = unit_property("MainPID")
            command("systemctl", "restart", "reclaimd")
            self.assertNotEqual(unit_property("MainPID"), pid)
            full_speed()
            command("reclaimctl", "wait", str(job))
        self.assertEqual(job_property(job, "State"), "done")

    def test_killed_in_mid_job(self):
        with running_job("/backups/large") as job:
            configure("")
            killed = processes()
            command("systemctl", "kill", "--signal=KILL", "reclaimd")
            # Some kernels kill what is cloned into a cgroup on which cgroup.kill was used (seen with Linux 6.18).
            # The service manager removes the cgroup with its last process.
            until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in killed))
            # Asking starts it, if it is not there again by itself by then.
            command("systemctl", "start", "reclaimd")
            command("reclaimctl", "wait", str(job))
        self.assertEqual(job_property(job, "State"), "done")
        self.assertEqual(unit_property("ActiveState"), "active")

    def check_file_survives(self, restart):
        """What is left of a large file is freed as slowly as it was; all of it counts."""
        with running_file("/backups/large") as job:
            before = free()
            restart()
            self.assertLess(free() - before, FILE // 2)
            until(lambda: job_property(job, "State") == "running")
            began, freed = time.monotonic(), job_property(job, "ProgressBytes")
            until(lambda: job_property(job, "ProgressBytes") >= freed + (16 << 20))
            self.assertLess(job_property(job, "ProgressBytes"), freed + (8 << 20) * (time.monotonic() - began + 4))
            full_speed()
            command("reclaimctl", "wait", str(job))
        self.assertEqual(job_property(job, "State"), "done")
        self.assertGreaterEqual(job_property(job, "ProgressBytes"), FILE)
        self.assertLess(job_property(job, "ProgressBytes"), FILE + (1 << 20))
        until(lambda: free() - before > FILE // 2)
        if HAS_STORE:
            until(lambda: unit_property("NFileDescriptorStore") == "0")

    def test_restart_in_mid_file(self):
        self.check_file_survives(lambda: command("systemctl", "restart", "reclaimd"))

    def test_stop_in_mid_file(self):
        def restart():
            command("systemctl", "stop", "reclaimd")
            time.sleep(1)  # it would be gone in less
            command("systemctl", "start", "reclaimd")

        self.check_file_survives(restart)

    def test_killed_in_mid_file(self):
        """With all its processes; but the keeper, where there is one, is one of them."""
        def restart():
            killed = [pid for pid in processes() if not is_keeper(pid)]
            for pid in killed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in killed))
            command("systemctl", "start", "reclaimd")

        self.check_file_survives(restart)

    @unittest.skipUnless(HAS_STORE, "systemd keeps no descriptors while a service is stopped")
    def test_stopped_in_mid_file_and_cleaned(self):
        with running_file("/backups/large") as job:
            before = free()
            command("systemctl", "stop", "reclaimd")
            self.assertEqual(unit_property("NFileDescriptorStore"), "2")
            self.assertIn("systemd holds them", command("journalctl", "-o", "cat", "-u", "reclaimd"))
            command("systemctl", "clean", "--what=fdstore", "reclaimd")
            until(lambda: free() - before > FILE // 2)
            command("systemctl", "start", "reclaimd")
            command("reclaimctl", "wait", str(job))

    @unittest.skipUnless(HAS_STORE, "only systemd's store can be so small")
    def test_more_files_than_are_kept(self):
        drop_in = "/run/systemd/system/reclaimd.service.d"
        os.makedirs(drop_in)
        self.addCleanup(command, "systemctl", "daemon-reload")
        self.addCleanup(command, "rm", "-r", drop_in)
        with open(f"{drop_in}/store.conf", "w", encoding="utf-8") as f:
            f.write("[Service]\nFileDescriptorStoreMax=2\n")
        command("systemctl", "daemon-reload")
        command("systemctl", "restart", "reclaimd")
        with running_file("/backups/kept") as kept:
            command("reclaimctl", "pause", str(kept))
            with running_file("/backups/released") as released:
                before = free()
                command("systemctl", "restart", "reclaimd")
                until(lambda: free() - before > FILE // 2)
                self.assertEqual(job_property(kept, "State"), "paused")
                self.assertIn("are kept over a restart", command("journalctl", "-o", "cat", "-u", "reclaimd"))
                full_speed()
                command("reclaimctl", "resume", str(kept))
                command("reclaimctl", "wait", str(kept), str(released))
        self.assertGreaterEqual(job_property(kept, "ProgressBytes"), FILE)
        self.assertLess(job_property(released, "ProgressBytes"), FILE)

    def test_stop_with_a_full_queue(self):
        with running_job("/backups/large") as job:
            jobs = [job]
            for n in range(200):
                path = f"/backups/queued-{n}"
                with open(path, "wb") as f:
                    f.write(b"x" * 10_000)
                jobs.append(submit(path))
            began = time.monotonic()
            command("systemctl", "stop", "reclaimd")
            self.assertLess(time.monotonic() - began, STOP_SECONDS)
            self.assertEqual(unit_property("Result"), "success")
            configure("")
            command("systemctl", "start", "reclaimd")
            command("reclaimctl", "wait", *map(str, jobs))
        shown = json.loads(command("reclaimctl", "show", "--json=short", *map(str, jobs)))
        self.assertEqual({job["id"]: job["state"] for job in shown}, dict.fromkeys(jobs, "done"))

    def test_journal(self):
        path = "/backups/said"
        command("fallocate", "-l", "10M", path)
        job = submit("--wait", path)
        # Not only the last one, but whatever became of the job is found by its number.
        records = journal("-u", "reclaimd", f"JOB={job}")
        self.assertGreaterEqual(len(records), 1)
        for record in records:
            self.assertRegex(record["MESSAGE_ID"], "^[0-9a-f]{32}$")
            self.assertEqual(record["PATH"], path)
        self.assertIn(f"Subject: Job {job} is done",
                      command("journalctl", "--catalog", "-u", "reclaimd", f"JOB={job}"))
        self.assertTrue(any(int(record.get("FREED_BYTES", 0)) >= 10 << 20 for record in records), records)

    def test_metrics(self):
        """What node_exporter reads: also that there is no daemon, which is not started for that."""
        collected = "/var/lib/prometheus/node-exporter"
        command("systemctl", "start", "reclaimd-metrics.service")
        self.assertEqual(unit_property("ConditionResult", "reclaimd-metrics.service"), "no")
        os.makedirs(collected)
        self.addCleanup(command, "rm", "-r", "/var/lib/prometheus")
        for wanted, before in ((1, "is-active"), (0, "stop")):
            command("systemctl", before, "reclaimd")
            command("systemctl", "start", "reclaimd-metrics.service")
            self.assertEqual(unit_property("Result", "reclaimd-metrics.service"), "success")
            with open(f"{collected}/reclaimd.prom", encoding="utf-8") as f:
                self.assertIn(f"\nreclaimd_up {wanted}\n", f.read())
            self.assertEqual(os.listdir(collected), ["reclaimd.prom"])
        self.assertEqual(unit_property("ActiveState"), "inactive")

    def test_activation(self):
        command("systemctl", "stop", "reclaimd")
        self.assertTrue(manager_property("Version"))
        self.assertEqual(unit_property("ActiveState"), "active")

    def test_private_socket(self):
        command("systemctl", "is-active", "reclaimd")
        said = command(*NOBODY, "reclaimctl", "status", "--runtime-directory=/run/reclaimd")
        self.assertTrue(said)

    def test_bus_refuses_others(self):
        shown = command(*NOBODY, "busctl", "introspect", *BUS[:2])
        self.assertIn("org.reclaimd1.Manager", shown)
        path = f"{self.canary.top}/mine"
        with open(path, "wb") as f:
            f.write(b"x")
        job = submit("--undo=1h", path)
        r = attempt(*NOBODY, "busctl", "call", *BUS, "Cancel", "at", "1", str(job))
        self.assertIn("there is no unfinished job", r.stdout)
        command("reclaimctl", "restore", str(job))
        self.assertTrue(os.path.exists(path))
        os.unlink(path)


class Shell(unittest.TestCase):
    def test_exit_status_without_daemon(self):
        command("systemctl", "mask", "--runtime", "--now", "reclaimd")
        self.addCleanup(command, "systemctl", "unmask", "--runtime", "reclaimd")
        r = subprocess.run(["reclaimctl", "list"], check=False, capture_output=True, text=True)
        self.assertEqual(r.returncode, 5, r.stderr)


if __name__ == "__main__":
    unittest.main()
