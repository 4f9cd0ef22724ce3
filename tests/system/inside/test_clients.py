# SPDX-License-Identifier: LGPL-2.1-or-later
"""busctl, gdbus and dasbus as clients of a user's on the system bus: each reads, acts on a job and follows it. (So does
varlinkctl in test_varlink.) And promtool, on the metrics and on the alerts."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
import unittest

from system import BUS, TIMEOUT_SECONDS, attempt, command, configure, full_speed, install, signals

try:
    from dasbus.connection import SystemMessageBus
    from dasbus.error import DBusError
    from dasbus.typing import UInt64, get_variant
    from gi.repository import GLib
except ImportError:
    SystemMessageBus = None

USER = 65534
AS_USER = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
JOB = "org.reclaimd1.Job"
HOUR_USEC = 3600 * 1000 * 1000
ALERTS = "/usr/share/doc/reclaimd/examples/prometheus/reclaimd.yaml"


def setUpModule():
    install("deb", 1)


class Client(unittest.TestCase):
    def setUp(self):
        self.top = f"/backups/{self.id()}"
        os.mkdir(self.top)
        self.addCleanup(shutil.rmtree, self.top)
        os.chown(self.top, USER, USER)
        # A name that is UTF-8, and none of ASCII.
        self.path = f"{self.top}/cänary".encode()
        with open(self.path, "wb") as f:
            f.write(b"x" * 5000)
        os.chown(self.path, USER, USER)

    def check_back(self):
        self.assertEqual(os.path.getsize(self.path), 5000)

    def test_busctl(self):
        def busctl(verb, *arguments):
            said = command(*AS_USER, "busctl", verb, "--json=short", BUS[0], *arguments)
            return json.loads(said)["data"] if said else None

        with signals("Completed") as completed:
            job, where = busctl("call", *BUS[1:], "Submit", "aaya{sv}", "1", str(len(self.path)), *map(str, self.path),
                                "1", "undo-usec", "t", str(HOUR_USEC))
            self.assertFalse(os.path.exists(self.path))
            self.assertIn(where, command(*AS_USER, "busctl", "tree", BUS[0]))
            self.assertEqual(busctl("get-property", *BUS[1:], "Jobs")["held"], 1)
            self.assertEqual(bytes(busctl("get-property", where, JOB, "Path")), self.path + b"\0")
            for verb, state in (("Pause", "paused"), ("Resume", "held"), ("Cancel", "cancelled")):
                busctl("call", *BUS[1:], verb, "at", "1", str(job))
                self.assertEqual(busctl("get-property", where, JOB, "State"), state)
            completed()
        self.check_back()

    @unittest.skipUnless(shutil.which("gdbus"), "there is no gdbus")
    def test_gdbus(self):
        def gdbus(verb, where, *arguments):
            return command(*AS_USER, "gdbus", verb, "--system", "--dest", BUS[0], "--object-path", where, *arguments,
                           env=dict(os.environ, LC_ALL="C.UTF-8"))

        shown = f"b'{self.top}/c\\303\\244nary'"
        with subprocess.Popen(["timeout", str(TIMEOUT_SECONDS), *AS_USER, "gdbus", "monitor", "--system", "--dest",
                               BUS[0]], stdout=subprocess.PIPE, text=True) as told, contextlib.ExitStack() as stack:
            stack.callback(told.terminate)
            # That it listens, and to whom.
            self.assertIn(BUS[0], told.stdout.readline())
            self.assertIn("owned by", told.stdout.readline())
            said = gdbus("call", BUS[1], "--method", f"{BUS[2]}.Submit", f"[{shown}]",
                         f"{{'undo-usec': <uint64 {HOUR_USEC}>}}")
            where = re.search(r"objectpath '(\S+)'", said)[1]
            self.assertFalse(os.path.exists(self.path))
            self.assertIn(f"readonly ay Path = {shown};", gdbus("introspect", where))
            self.assertIn(shown, gdbus("call", BUS[1], "--method", f"{BUS[2]}.ListJobs", "{}"))
            for verb, state in (("Pause", "paused"), ("Resume", "held"), ("Cancel", "cancelled")):
                gdbus("call", where, "--method", f"{JOB}.{verb}")
                said = gdbus("call", where, "--method", "org.freedesktop.DBus.Properties.Get", JOB, "State")
                self.assertEqual(said, f"(<'{state}'>,)\n")
            for word in ("Completed ('cancelled',)", "JobFinished"):
                while word not in (line := told.stdout.readline()):
                    self.assertTrue(line, f"no {word} came")
        self.check_back()

    @unittest.skipUnless(SystemMessageBus, "there is no dasbus")
    def test_dasbus(self):
        bus = SystemMessageBus()
        os.setegid(USER)
        os.seteuid(USER)
        try:
            self.assertTrue(bus.check_connection())
        finally:
            os.seteuid(0)
            os.setegid(0)
        heard = []

        def until(condition):
            end = time.monotonic() + TIMEOUT_SECONDS
            wake = GLib.timeout_add(100, lambda: True)
            while not condition():
                GLib.MainContext.default().iteration(True)
                self.assertLess(time.monotonic(), end, heard)
            GLib.source_remove(wake)

        manager = bus.get_proxy(*BUS[:2])
        manager.JobsChanged.connect(lambda jobs: heard.extend(("listed", j[0], j[1]) for j in jobs))
        manager.Subscribe()
        number, where = manager.Submit([self.path], {"undo-usec": get_variant(UInt64, HOUR_USEC)})
        self.assertFalse(os.path.exists(self.path))
        job = bus.get_proxy(BUS[0], where)
        job.PropertiesChanged.connect(lambda _, changed, __: heard.extend(v.unpack() for v in changed.values()))
        job.Completed.connect(lambda state: heard.append(("completed", state)))
        self.assertEqual(bytes(job.Path), self.path + b"\0")
        self.assertEqual(manager.Jobs["held"], 1)
        self.assertIn(where, manager.GetManagedObjects())
        (listed,) = manager.ListJobs({})
        self.assertEqual((listed[0], listed[1], bytes(listed[5])), (number, "held", self.path + b"\0"))
        job.Pause()
        until(lambda: "paused" in heard and ("listed", number, "paused") in heard)
        self.assertEqual(job.State, "paused")
        manager.Resume([number])
        self.assertEqual(job.State, "held")
        job.Cancel()
        until(lambda: ("completed", "cancelled") in heard and ("listed", number, "cancelled") in heard)
        self.check_back()
        with self.assertRaises(DBusError) as caught:
            manager.Pause([number])
        self.assertEqual(caught.exception.dbus_name, "org.reclaimd1.Error.NoSuchJob")

    @unittest.skipUnless(SystemMessageBus, "there is no PyGObject")
    def test_example(self):
        """The program of docs/api.md shows jobs, and what becomes of them."""
        with open("/docs/api.md", encoding="utf-8") as f:
            program = re.search(r"^```python\n(from gi.*?)^```$", f.read(), re.M | re.S)[1]
        said = json.loads(command(*AS_USER, "reclaimctl", "submit", "--json=short", "--undo=1h", self.path.decode()))
        (job,) = said["jobs"]
        with subprocess.Popen(["timeout", str(TIMEOUT_SECONDS), *AS_USER, "python3", "-u", "-c", program],
                              stdout=subprocess.PIPE, text=True) as shown:
            for state, verb in (("held", "pause"), ("paused", "resume"), ("held", "cancel"), ("cancelled", "show")):
                while not (line := shown.stdout.readline()).startswith(f"{job} {state} {self.path} "):
                    self.assertTrue(line, f"it is not shown as {state}")
                command(*AS_USER, "reclaimctl", verb, str(job))
            shown.terminate()
        self.check_back()


def promtool(*arguments, text=""):
    """It has found nothing wrong."""
    r = subprocess.run(["promtool", *arguments], input=text, text=True, check=False, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS)
    assert r.returncode == 0, r.stdout


FLEET = "reclaimd_fleet_connected"


@unittest.skipUnless(shutil.which("promtool"), "there is no promtool")
class Alerts(unittest.TestCase):
    """What the daemon tells in one state for an hour, and then in another for three days: what Prometheus would make of
    it. Minutes count from the change."""

    DAY_MINUTES = 24 * 60
    IN_TIME = f"0+60x{4 * DAY_MINUTES}"  # when the file was written

    def setUp(self):
        self.top = f"/backups/{self.id()}"
        os.makedirs(f"{self.top}/spool")
        self.addCleanup(shutil.rmtree, self.top)
        self.addCleanup(full_speed)
        with open(ALERTS, encoding="utf-8") as f:
            self.wanted = set(re.findall(r"\breclaimd_\w+", f.read()))
        configure(f"spools: {{{self.top}/spool: {{}}}}\npolicies: {{p: {{path: {self.top}, match: '*.gz', keep: {{last: 1}},"
                  " max-delete: 100%}}\n")
        command("systemctl", "reload-or-restart", "reclaimd")
        self.make("0.gz", "1.gz")
        command("reclaimctl", "policy", "run", "--wait", "p")

    def make(self, *names):
        for age, name in enumerate(names):
            os.makedirs(os.path.dirname(f"{self.top}/{name}"), exist_ok=True)
            with open(f"{self.top}/{name}", "w", encoding="ascii"):
                os.utime(f"{self.top}/{name}", (age, age))

    def sample(self):
        """Values by the names of their series. The time is that of the test's clock: one hour."""
        attempt("reclaimctl", "metrics", "--quiet", "--format=prometheus", "--output=/run/reclaimd.prom")
        with open("/run/reclaimd.prom", encoding="utf-8") as f:
            text = f.read()
        promtool("check", "metrics", text=text)
        samples = re.findall(r"^((reclaimd_\w+)(?:\{.*\})?) (\S+)$", text, re.M)
        return {series: float(value) - ("_timestamp_" in name and time.time() - 3600)
                for series, name, value in samples if name in self.wanted}

    def check(self, before, after, written, *expected):
        """Each expected is so many minutes, and the alerts that are firing then."""
        series = {name: f"{before.get(name, '_')}x60 {after.get(name, '_')}x{4 * self.DAY_MINUTES}" for name in before}
        series['node_textfile_mtime_seconds{file="/var/lib/prometheus/node-exporter/reclaimd.prom"}'] = written
        test = {"rule_files": [ALERTS], "evaluation_interval": "1m", "tests": [{
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [{
                "expr": 'group by (alertname) (ALERTS{alertstate="firing"})', "eval_time": f"{60 + minutes}m",
                "exp_samples": [{"labels": f'{{alertname="Reclaimd{name}"}}', "value": 1} for name in names]}
                for minutes, *names in expected]}]}
        with open("/run/alerts.json", "w", encoding="utf-8") as f:
            json.dump(test, f)
        promtool("test", "rules", "/run/alerts.json")

    def test_rules(self):
        promtool("check", "rules", "--lint-fatal", ALERTS)
        # This host is in no fleet.
        self.assertEqual(self.wanted - {name.split("{")[0] for name in self.sample()}, {FLEET})

    def test_nothing_is_wrong(self):
        now = self.sample()
        self.check(now, now, self.IN_TIME, (1,), (90,), (self.DAY_MINUTES + 30,),
                   # The policy did not run again.
                   (2 * self.DAY_MINUTES + 30, "PolicyOld"))

    def test_much_is_wrong(self):
        before = self.sample()
        self.make("1.gz", "2.gz", "tree/goes", "tree/stays")
        command("chattr", "+i", f"{self.top}/1.gz", f"{self.top}/tree/stays")
        self.addCleanup(command, "chattr", "-R", "-i", self.top)
        self.assertEqual(attempt("reclaimctl", "submit", "--wait", f"{self.top}/tree").returncode, 3)
        self.assertNotEqual(attempt("reclaimctl", "policy", "run", "--wait", "p").returncode, 0)
        os.rmdir(f"{self.top}/spool")
        command("systemctl", "reload", "reclaimd")
        configure("protekt: []\n")
        command("reclaimctl", "pause", "--all")
        self.addCleanup(command, "reclaimctl", "resume", "--all")
        after = dict(self.sample(), reclaimd_store_error=1)
        self.check(before, after, self.IN_TIME,
                   (5, "Configuration", "JobFailed", "PolicyFailed", "Store"),
                   (90, "Configuration", "PolicyFailed", "Spool", "Store"),
                   (self.DAY_MINUTES + 30, "Configuration", "Paused", "PolicyFailed", "Spool", "Store"))

    def test_no_daemon(self):
        before = self.sample()
        command("systemctl", "stop", "reclaimd")
        self.addCleanup(command, "systemctl", "start", "reclaimd")
        after = self.sample()
        self.assertEqual(after, {"reclaimd_up": 0})
        self.check(before, after, self.IN_TIME, (1,), (30, "Down"))

    def test_no_fleet(self):
        """As a host of a fleet tells it."""
        now = self.sample()
        self.check({**now, FLEET: 1}, {**now, FLEET: 0}, self.IN_TIME, (10,), (30, "Fleet"))

    def test_nothing_is_written_any_more(self):
        now = self.sample()
        self.check(now, now, f"0+60x60 3600x{4 * self.DAY_MINUTES}", (1,), (30, "MetricsOld"))


if __name__ == "__main__":
    unittest.main()
