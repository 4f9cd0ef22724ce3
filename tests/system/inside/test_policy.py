# SPDX-License-Identifier: LGPL-2.1-or-later
"""Retention policies as a machine runs them: by timers, and by free space."""

import contextlib
import glob
import json
import os
import pwd
import subprocess
import time
import unittest

from system import (Canary, allocate, attempt, command, configure, install, job_property, journal, remove, signals,
                    unit_property, until)

DAY_SECONDS = 86400
GIB = 1 << 30
ACCURACY = "/etc/systemd/system/reclaimd-policy@.timer.d"


def setUpModule():
    install("deb", 1)


def make(path, days, size="1M"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    allocate(path, size)
    then = time.time() - days * DAY_SECONDS
    os.utime(path, (then, then))


def free():
    st = os.statvfs("/backups")
    return st.f_bavail * st.f_frsize


def jobs_of(policy):
    listed = json.loads(command("reclaimctl", "list", "--all", "--json=short"))
    return [job for job in listed if job["origin"] == f"policy:{policy}"]


@contextlib.contextmanager
def holder(*words):
    """A process of another user, which holds something until this ends. It has it when it says so."""
    with subprocess.Popen(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield
        process.stdin.close()


class Policy(unittest.TestCase):
    def setUp(self):
        self.canary = Canary(f"/backups/{self.id()}")
        self.addCleanup(self.canary.check)

    def test_schedule(self):
        """The timer that the generator makes fires. What other processes have open or locked stays, although
        the service may see little else of them."""
        base = "/backups/nightly"
        for name in ("old-1", "old-2", "open", "deep/old", "locked/old"):
            make(f"{base}/{name}.gz", 5)
        make(f"{base}/new.gz", 0)
        for directory in ("", "/deep", "/locked"):
            os.chown(base + directory, 65534, 65534)
            os.chmod(base + directory, 0o700)
        os.chown(f"{base}/open.gz", 65534, 65534)
        os.makedirs(ACCURACY, exist_ok=True)
        # The manager collects what is due within a minute, if it is not told otherwise.
        with open(f"{ACCURACY}/test.conf", "w", encoding="ascii") as f:
            f.write("[Timer]\nAccuracySec=10ms\n")
        configure("policies:\n"
                  f"  nightly: {{path: {base}, match: '**/*.gz', max-age: 1d, max-delete: 100%,"
                  " schedule: '*:*:0/3'}\n")
        hold = "echo held; read line"
        with (holder("sh", "-c", f"exec 3<{base}/open.gz; {hold}"),
              holder("flock", f"{base}/locked", "sh", "-c", hold),
              signals("JobFinished") as finished):
            command("systemctl", "daemon-reload")
            # As it is at boot.
            command("systemctl", "start", "timers.target")
            timers = command("systemctl", "list-timers", "--no-pager")
            finished()
        print("\n" + timers)
        self.assertRegex(timers, r"reclaimd-policy@nightly\.timer +reclaimd-policy@nightly\.service")
        left = glob.glob(f"{base}/**/*.gz", recursive=True)
        self.assertEqual(sorted(os.path.relpath(path, base) for path in left),
                         ["locked/old.gz", "new.gz", "open.gz"])
        (job,) = jobs_of("nightly")
        self.assertEqual((job["state"], job["entries"]), ("done", 3))
        self.assertIn("policy:nightly", command("reclaimctl", "list", "--all"))
        records = journal("-u", "reclaimd", "ORIGIN=policy:nightly")
        self.assertEqual({record["JOB"] for record in records}, {str(job["id"])})
        # The job may have ended before the program that submitted it has said so.
        until(lambda: f"Job {job['id']}: 3 entries of nightly" in
              command("journalctl", "-o", "cat", "-u", "reclaimd-policy@nightly"))
        said = command("journalctl", "-o", "cat", "-u", "reclaimd-policy@nightly")
        self.assertNotIn("could not be seen", said)
        # Without its schedule it is not run any more, and that is no failure.
        configure("")
        command("systemctl", "daemon-reload")
        self.assertEqual(unit_property("ActiveState", "reclaimd-policy@nightly.timer"), "inactive")
        self.assertNotIn("reclaimd-policy@", command("systemctl", "list-units", "--failed", "--no-pager"))

    def test_free_space(self):
        """The daemon, in its sandbox, has the service started when space is short."""
        base = "/backups/cache"
        configure("policies:\n"
                  f"  cache: {{path: {base}, match: '*', min-free: {{below: 5G, until: 6G}},"
                  " max-delete: 100%}\n")
        command("systemctl", "reload", "reclaimd")
        with signals("JobFinished") as finished:
            n = 0
            while free() >= 5 * GIB:
                make(f"{base}/{n:02}", 1 - n / 100, "256M")
                n += 1
            finished()
        left = sorted(os.listdir(base))
        self.assertEqual(left, [f"{i:02}" for i in range(n - len(left), n)])
        self.assertGreaterEqual(free(), 6 * GIB)
        self.assertLess(free(), 6 * GIB + (512 << 20))
        (job,) = jobs_of("cache")
        self.assertEqual(job["state"], "done")
        # As above.
        until(lambda: f"Job {job['id']}: " in command("journalctl", "-o", "cat", "-u", "reclaimd-policy@cache"))
        until(lambda: unit_property("ActiveState", "reclaimd-policy@cache.service") == "inactive")
        self.assertEqual(unit_property("Result", "reclaimd-policy@cache.service"), "success")


class Failures(unittest.TestCase):
    """A policy that does not delete all that was to go fails its unit, and is seen."""

    UNIT = "reclaimd-policy@p.service"
    DROP_IN = "/etc/systemd/system/reclaimd-policy@.service.d"

    def setUp(self):
        self.base = f"/backups/{self.id()}"
        self.addCleanup(attempt, "systemctl", "reset-failed", self.UNIT)
        for name in ("a", "b", "c"):
            make(f"{self.base}/{name}", 5)
        self.configure("")

    def configure(self, more):
        configure(f"policies: {{p: {{path: {self.base}, match: '*', max-age: 1d, max-delete: 100%{more}}}}}\n")
        command("systemctl", "reload", "reclaimd")

    def immutable(self, name):
        command("chattr", "+i", f"{self.base}/{name}")
        self.addCleanup(attempt, "chattr", "-R", "-i", "/backups/.reclaim", self.base)

    def test_immutable_file(self):
        """It stops nothing else; OnFailure= is started; the next run is well again."""
        os.makedirs(self.DROP_IN, exist_ok=True)
        with open(f"{self.DROP_IN}/test.conf", "w", encoding="ascii") as f:
            f.write("[Unit]\nOnFailure=told.service\n")
        with open("/etc/systemd/system/told.service", "w", encoding="ascii") as f:
            f.write("[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n")
        command("systemctl", "daemon-reload")
        self.immutable("b")
        self.assertNotEqual(attempt("systemctl", "start", self.UNIT).returncode, 0)
        self.assertEqual(os.listdir(self.base), ["b"])
        self.assertEqual(unit_property("ExecMainStatus", self.UNIT), "3")
        self.assertIn(self.UNIT, command("systemctl", "--failed", "--no-pager"))
        while unit_property("ActiveState", "told.service") != "active":
            pass
        said = command("journalctl", "-o", "cat", "-u", self.UNIT)
        self.assertIn(f"{self.base}/b: not deleted: is immutable", said)
        for words in (("policy", "list"), ("status",), ("check-config",)):
            self.assertIn("partial", command("reclaimctl", *words), words)
        self.assertIn('reclaimd_policy_failed{policy="p"} 1', command("reclaimctl", "metrics"))
        command("chattr", "-i", f"{self.base}/b")
        command("systemctl", "start", self.UNIT)
        self.assertEqual(os.listdir(self.base), [])
        self.assertIn("p: done", command("reclaimctl", "status"))
        self.assertIn('reclaimd_policy_failed{policy="p"} 0', command("reclaimctl", "metrics"))

    def test_the_unit_lasts_until_its_job_has_ended(self):
        """And through a restart of the daemon; what becomes partial then fails it."""
        command("reclaimctl", "pause", "--all")
        with signals("JobNew") as came:
            command("systemctl", "start", "--no-block", self.UNIT)
            came()
        job = jobs_of("p")[-1]
        self.assertEqual(unit_property("ActiveState", self.UNIT), "activating")
        command("systemctl", "restart", "reclaimd")
        self.assertEqual(unit_property("ActiveState", self.UNIT), "activating")
        command("sh", "-c", "find /backups/.reclaim -type f | head -n 1 | xargs chattr +i")
        self.addCleanup(attempt, "chattr", "-R", "-i", "/backups/.reclaim", self.base)
        command("reclaimctl", "resume", "--all")
        self.assertEqual(attempt("reclaimctl", "wait", str(job["id"])).returncode, 3)
        while unit_property("ActiveState", self.UNIT) == "activating":
            pass
        self.assertEqual(unit_property("ExecMainStatus", self.UNIT), "3")
        self.assertEqual(unit_property("ActiveState", self.UNIT), "failed")

    def test_run_that_records_nothing(self):
        """It cannot say what became of it, but its service does, until the next run."""
        configure("policies: {p: {max-age: 1}}\n")
        self.assertNotEqual(attempt("systemctl", "start", self.UNIT).returncode, 0)
        self.configure("")
        for words in (("policy", "list"), ("status",), ("check-config",)):
            said = command("reclaimctl", *words)
            self.assertIn("failed", said, words)
            self.assertIn("its service has failed: journalctl -u reclaimd-policy@p", said, words)
        command("systemctl", "start", self.UNIT)
        self.assertIn("p: done", command("reclaimctl", "status"))

    def test_stopped_it_has_not_failed(self):
        command("reclaimctl", "pause", "--all")
        with signals("JobNew") as came:
            command("systemctl", "start", "--no-block", self.UNIT)
            came()
        command("systemctl", "stop", self.UNIT)
        self.assertEqual(unit_property("ActiveState", self.UNIT), "inactive")
        command("reclaimctl", "resume", "--all")
        job = jobs_of("p")[-1]
        command("reclaimctl", "wait", str(job["id"]))

    def test_next_run(self):
        self.configure(", schedule: '*-*-* 03:00'")
        command("systemctl", "daemon-reload")
        self.assertIn("its timer is not active", command("reclaimctl", "check-config"))
        self.assertIn("next: no timer", command("reclaimctl", "status"))
        command("systemctl", "start", "timers.target")
        (p,) = json.loads(command("reclaimctl", "policy", "list", "--json"))
        self.assertLess(time.time(), p["next_usec"] / 1e6)
        self.assertLess(p["next_usec"] / 1e6, time.time() + 2 * DAY_SECONDS)
        self.assertNotIn("timer", command("reclaimctl", "check-config"))
        self.configure("")
        command("systemctl", "daemon-reload")
        command("systemctl", "stop", "reclaimd-policy@p.timer")


class Hooks(unittest.TestCase):
    """The manager starts them, with what became of the job."""

    TOLD = "/run/told"

    def setUp(self):
        self.base = f"/backups/{self.id()}"
        self.addCleanup(attempt, "systemctl", "reset-failed")
        os.makedirs(self.TOLD, exist_ok=True)
        self.unit("tell@", "EnvironmentFile=/run/reclaimd/jobs/%i.env\nUser=nobody\n"
                  f"ExecStart=+/bin/sh -c 'env | grep ^RECLAIMD_ | sort >{self.TOLD}/new; mv {self.TOLD}/new {self.TOLD}/%i'")
        self.unit("broken@", "ExecStart=/bin/false")
        command("systemctl", "daemon-reload")
        for name in ("a", "b"):
            make(f"{self.base}/{name}", 5)

    @staticmethod
    def unit(name, service):
        with open(f"/etc/systemd/system/{name}.service", "w", encoding="ascii") as f:
            f.write(f"[Service]\nType=oneshot\n{service}\n")

    def run_policy(self, hooks):
        """Returns its job, which has ended."""
        configure(f"policies: {{p: {{path: {self.base}, match: '*', max-age: 1d, max-delete: 100%, {hooks}}}}}\n")
        command("systemctl", "reload", "reclaimd")
        attempt("systemctl", "start", "reclaimd-policy@p.service")
        return jobs_of("p")[-1]["id"]

    def told(self, job):
        path = f"{self.TOLD}/{job}"
        until(lambda: os.path.exists(path))
        with open(path, encoding="ascii") as f:
            return dict(line.rstrip("\n").split("=") for line in f)

    def test_success(self):
        job = self.run_policy("on-success: tell@.service, on-failure: broken@.service")
        told = self.told(job)
        self.assertEqual((told["RECLAIMD_JOB"], told["RECLAIMD_RESULT"], told["RECLAIMD_POLICY"]), (str(job), "done", "p"))
        self.assertEqual((told["RECLAIMD_NAMES"], told["RECLAIMD_ENTRIES"], told["RECLAIMD_BYTES"]), ("2", "2", str(2 << 20)))
        self.assertEqual(unit_property("ActiveState", f"broken@{job}.service"), "inactive")
        self.assertNotIn("on-success", command("reclaimctl", "check-config"))

    def test_failure(self):
        os.mkdir(f"{self.base}/tree")
        make(f"{self.base}/tree/f", 5)
        command("chattr", "+i", f"{self.base}/tree/f")
        self.addCleanup(attempt, "chattr", "-R", "-i", "/backups/.reclaim", self.base)
        configure(f"spools: {{{self.base}: {{settle: 0, on-failure: tell@.service}}}}\n")
        command("systemctl", "reload", "reclaimd")

        def failed():
            listed = json.loads(command("reclaimctl", "list", "--all", "--json=short"))
            return [j["id"] for j in listed if j["origin"] == f"spool:{self.base}" and j["state"] == "partial"]

        until(failed)
        told = self.told(failed()[0])
        self.assertEqual(told["RECLAIMD_RESULT"], "partial")
        self.assertGreaterEqual(int(told["RECLAIMD_ERRORS"]), 1)

    def test_hook_that_fails(self):
        """It fails by itself; its job is done."""
        job = self.run_policy("on-success: broken@.service")
        until(lambda: unit_property("ActiveState", f"broken@{job}.service") == "failed")
        self.assertEqual(job_property(job, "State"), "done")

    def test_hook_that_is_not_there(self):
        job = self.run_policy("on-success: nothing@.service")
        until(lambda: any("its hook" in r["MESSAGE"] for r in journal("-u", "reclaimd")))
        said = [r["MESSAGE"] for r in journal("-u", "reclaimd") if "its hook" in r["MESSAGE"]]
        self.assertEqual(len(said), 1, said)
        self.assertIn(f"Job {job}: its hook nothing@{job}.service could not be started: Unit nothing@", said[0])
        self.assertIn("on-success: nothing@.service: systemd has no such unit",
                      attempt("reclaimctl", "check-config").stdout)


class OfAUser(unittest.TestCase):
    def test_schedule(self):
        """The service manager of a user has the timers of this user's policies, which run with this user's rights."""
        command("useradd", "--create-home", "alice")
        uid = pwd.getpwnam("alice").pw_uid
        base, settings = "/backups/alice", "/home/alice/.config"
        make(f"{base}/old", 5)
        for name in ("reclaimd", "systemd/user/reclaimd-policy@.timer.d"):
            os.makedirs(f"{settings}/{name}")
        with open(f"{settings}/reclaimd/policies.yaml", "w", encoding="ascii") as f:
            f.write(f"policies: {{p: {{path: {base}, match: '*', max-age: 1d, max-delete: 100%, schedule: '*:*:0/3'}}}}\n")
        with open(f"{settings}/systemd/user/reclaimd-policy@.timer.d/test.conf", "w", encoding="ascii") as f:
            f.write("[Timer]\nAccuracySec=10ms\n")
        command("chown", "-R", "alice:", base, settings)
        self.addCleanup(attempt, "systemctl", "stop", f"user@{uid}.service")
        with signals("JobFinished") as finished:
            command("systemctl", "start", f"user@{uid}.service")
            finished()
        listed = json.loads(command("reclaimctl", "list", "--all", "--json=short"))
        (job,) = [j for j in listed if j["origin"] == "user-policy:p"]
        self.assertEqual((job["state"], job["uid"], job["entries_done"]), ("done", uid, 1))
        self.assertEqual(os.listdir(base), [])
        said = command("runuser", "-u", "alice", "--", "env", f"XDG_RUNTIME_DIR=/run/user/{uid}", "HOME=/home/alice",
                       "systemctl", "--user", "list-timers", "--no-pager")
        self.assertIn("reclaimd-policy@p.timer", said)


class Removal(unittest.TestCase):
    def test_timers_go_with_the_package_and_come_with_it(self):
        configure("policies: {p: {path: /backups, match: none, max-age: 1d, schedule: daily}}\n")
        command("systemctl", "daemon-reload")
        command("systemctl", "start", "timers.target")
        self.assertIn("reclaimd-policy@p.timer", command("systemctl", "list-timers", "--no-pager"))
        remove()
        self.assertNotIn("reclaimd", command("systemctl", "list-timers", "--all", "--no-pager"))
        install("deb", 1)
        self.assertEqual(unit_property("ActiveState", "reclaimd-policy@p.timer"), "active")


if __name__ == "__main__":
    unittest.main()
