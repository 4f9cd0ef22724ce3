#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimctl metrics, and what the dashboard makes of it."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

import daemon_fixture
import dbuswire
import fixture
from contents import big_file
import openmetrics
from fixture import FS_IMMUTABLE_FL, Proc, fill, scratch, set_flag, write
from test_pacing import Foreground

# Where the distribution has the reference implementation of the format.
sys.path.append("/usr/lib/python3/dist-packages")
try:
    from prometheus_client.openmetrics import parser as reference
except ImportError:
    reference = None

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DASHBOARD = os.path.join(TOP, "contrib/grafana/reclaimd.json")


def promtool(*words, text=None):
    """Prometheus' own tool, where there is one, has nothing against it."""
    if shutil.which("promtool"):
        r = subprocess.run(["promtool", *words], input=text, text=True, check=False,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert r.returncode == 0, r.stdout


class Case(daemon_fixture.Case):
    def ctl(self, *args, status=0):
        env = {"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket)}
        p = Proc([scratch.binary, *args], self.data, env=env)
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, status, r)
        return r

    def metrics(self):
        text = self.ctl("metrics").out
        if reference:
            list(reference.text_string_to_metric_families(text))
        return openmetrics.parse(text)

    def value(self, name, **labels):
        return self.metrics()[name][tuple(sorted(labels.items()))]


class Daemon(Case):
    config = 'spools: {/nowhere/a"b\\c: {settle: 1s}}\n'

    def test_jobs(self):
        fill(self.path("t"), 20)
        write(self.path("f"))
        write(self.path("held"))
        write(self.path("back"))
        self.ctl("submit", "--wait", "t", "f")
        self.ctl("submit", "--undo=1h", "held")
        self.ctl("submit", "--undo=1h", "back")
        self.ctl("cancel", "3")
        m = self.metrics()
        states = {dict(k)["state"]: v for k, v in m["reclaimd_jobs"].items()}
        self.assertEqual(states, {"accepted": 0, "held": 1, "queued": 0, "running": 0, "paused": 0})
        ends = {dict(k)["state"]: v for k, v in m["reclaimd_jobs_finished_total"].items()}
        self.assertEqual(ends, {"done": 1, "partial": 0, "failed": 0, "cancelled": 1, "restored": 0})
        self.assertEqual(m["reclaimd_freed_entries_total"][()], 22)
        self.assertEqual(m["reclaimd_freed_bytes_total"][()], 4096)
        self.assertEqual(m["reclaimd_interruptions_total"][()], 0)
        self.assertEqual([m["reclaimd_" + n][()] for n in ("up", "paused", "store_error",
                                                          "configuration_error")], [1, 0, 0, 0])

    def test_what_is_wrong(self):
        self.ctl("pause", "--all")
        self.daemon.configure("spool: {}\n")
        with self.assertRaises(dbuswire.Error):
            self.daemon.client().call("Reload")
        m = self.metrics()
        self.assertEqual([m["reclaimd_" + n][()] for n in ("paused", "configuration_error")], [1, 1])

    def test_spools_with_strange_names(self):
        # Characters that labels have escapes for come out as the text that people are shown.
        self.assertEqual(self.value("reclaimd_spool_watched", path=r'/nowhere/a\"b\\\\c'), 0)

    def test_the_older_format(self):
        text = self.ctl("metrics", "--format=prometheus").out
        self.assertIn("# TYPE reclaimd_freed_bytes_total counter\n", text)
        self.assertNotIn("# EOF", text)
        self.assertNotIn("# UNIT", text)
        promtool("check", "metrics", text=text)

    def test_a_file_is_replaced_as_a_whole(self):
        target = self.path("reclaimd.prom")
        write(target, "old")
        with open(target) as old:
            self.ctl("metrics", "--output=reclaimd.prom")
            self.assertEqual(old.read(), "old")
        with open(target) as f:
            self.assertEqual(openmetrics.parse(f.read())["reclaimd_up"][()], 1)
        self.assertEqual(os.stat(target).st_mode & 0o777, 0o644)
        self.assertEqual(os.listdir(self.data), ["reclaimd.prom"])
        r = self.ctl("metrics", "--output=nowhere/x", status=1)
        self.assertEqual(r.err, "reclaimctl: nowhere/x: cannot be written: No such file or directory\n")
        os.mkdir(self.path("directory"))
        self.ctl("metrics", "--output=directory", status=1)
        self.assertEqual(sorted(os.listdir(self.data)), ["directory", "reclaimd.prom"])

    def test_no_daemon(self):
        self.daemon.stop()
        r = self.ctl("metrics", status=5)
        self.assertEqual((r.out, r.err.count("\n")), ("", 1))
        r = self.ctl("metrics", "-q", "--output=m", status=5)
        self.assertEqual((r.out, r.err), ("", ""))
        with open(self.path("m")) as f:
            self.assertEqual(openmetrics.parse(f.read()), {"reclaimd_up": {(): 0}})

    def test_usage(self):
        for words in (["--format=json"], ["--output="], ["--json"], ["x"]):
            self.assertEqual(self.ctl("metrics", *words, status=2).out, "")


class Running(Case):
    """A job that takes some seconds."""

    config = "pacing: {max-rate: 4MiB/s, min-rate: 64KiB/s}\n"

    def setUp(self):
        super().setUp()
        self.mount_disk()

    def test_what_runs_is_counted_as_it_goes(self):
        fill(self.path("t"), 4000)
        self.daemon.client().submit(self.path("t"))
        seen = [0]
        while seen[-1] < 4001:
            seen.append(self.value("reclaimd_freed_entries_total"))
        self.assertEqual(seen, sorted(seen))
        self.assertGreater(len({n for n in seen if 0 < n < 4001}), 1, seen)


class Device(Case):
    def setUp(self):
        super().setUp()
        self.mount_disk()

    def freed(self):
        """Of the only device: its name, entries and bytes."""
        m = self.metrics()
        ((labels, entries),) = m["reclaimd_device_freed_entries_total"].items()
        (size,) = m["reclaimd_device_freed_bytes_total"].values()
        return dict(labels)["device"], entries, size

    def test_counts_stay_when_the_device_is_not_in_use_any_more(self):
        fill(self.path("t"), 1000)
        big_file(self.path("t/big"), 8)
        self.ctl("submit", "--wait", "t")
        device, entries, size = self.freed()
        for name in device.split("+"):
            self.assertTrue(os.path.exists("/sys/class/block/" + name), device)
        # The directory itself goes last, and alone.
        self.assertIn(entries, (1001, 1002))
        self.assertGreaterEqual(size, 8 << 20)
        fill(self.path("t"), 500)
        self.ctl("submit", "--wait", "t")
        self.assertEqual(self.freed()[0], device)
        self.assertIn(self.freed()[1] - entries, (500, 501))

    def test_last_hour_tells_bursts_from_gaps(self):
        """Also when the device is not in use any more; without foreground I/O there is nothing to tell."""
        def rows():
            return self.daemon.client().call("ListLatencies").body[0]

        def seen():
            fill(self.path("t"), 5000)
            self.ctl("submit", "--wait", "t")
            return {r[1:3] for r in rows()} == {(of, deleting) for of in ("reads", "syncs") for deleting in (False, True)}

        self.assertEqual(rows(), [])
        before = time.time()
        with Foreground(self.path("file")):
            fixture.until(seen)
        self.assertEqual(len({r[0] for r in rows()}), 1)
        for _, _, _, begin, count, half, most in rows():
            self.assertGreater(begin, (before - 61) * 1e6)
            self.assertLessEqual(begin, time.time() * 1e6)
            self.assertGreater(count, 0)
            self.assertLessEqual(half, most)
            self.assertGreater(half, 0)

    def test_errors_by_kind(self):
        fill(self.path("t"), 3)
        set_flag(self.path("t/f00001"), FS_IMMUTABLE_FL)
        self.addCleanup(self.unset, self.path("t/f00001"))
        self.ctl("submit", "--wait", "t", status=3)
        self.assertEqual(self.metrics()["reclaimd_errors_total"], {(("kind", "EPERM"),): 1})
        self.assertEqual(self.value("reclaimd_jobs_finished_total", state="partial"), 1)

    def unset(self, path):
        if os.path.exists(path):
            set_flag(path, FS_IMMUTABLE_FL, on=False)


class Dashboard(Case):
    """contrib/grafana/reclaimd.json: Grafana itself is not to be had here."""

    def setUp(self):
        super().setUp()
        with open(DASHBOARD) as f:
            self.dashboard = json.load(f)

    def expressions(self):
        return [t["expr"] for p in self.dashboard["panels"] for t in p["targets"]]

    def test_every_metric_exists_and_is_shown(self):
        exist = set(re.findall("^# TYPE (\\S+)", self.ctl("metrics", "--format=prometheus").out, re.M))
        shown = set(re.findall("reclaimd_[a-z_]+", " ".join(self.expressions())))
        shown = {re.sub("_bucket$", "", name) for name in shown}
        # Spools, policies and a fleet, of which none is configured here.
        policies = {"reclaimd_policy_" + name for name in (
            "last_run_timestamp_seconds", "last_success_timestamp_seconds",
            "oldest_kept_timestamp_seconds", "failed", "refused_entries", "excess_entries",
            "deleted_entries_total", "freed_bytes_total")}
        fleet = {"reclaimd_fleet_" + name for name in (
            "connected", "since_timestamp_seconds", "published_units_total", "claimed_units_total", "done_units_total",
            "done_entries_total", "done_bytes_total", "others_units_total", "others_entries_total", "others_bytes_total")}
        self.assertEqual(shown - exist, {"reclaimd_spool_waiting"} | policies | fleet)
        self.assertEqual(exist - shown, {"reclaimd_build_info", "reclaimd_device_mode",
                                         "reclaimd_device_freed_entries_total"})

    def test_every_expression_is_one(self):
        rules = ["groups: [{name: dashboard, rules: ["]
        for i, expression in enumerate(self.expressions()):
            expression = expression.replace("$__rate_interval", "5m")
            rules.append("{record: 'r%d', expr: %s}," % (i, json.dumps(expression)))
        write(self.path("rules.yaml"), "\n".join([*rules, "]}]\n"]))
        promtool("check", "rules", self.path("rules.yaml"))

    def test_panels(self):
        panels = self.dashboard["panels"]
        self.assertEqual(len({p["id"] for p in panels}), len(panels))
        taken = set()
        for p in panels:
            g = p["gridPos"]
            cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
            self.assertTrue(g["x"] + g["w"] <= 24 and not cells & taken, p["title"])
            taken |= cells
            self.assertTrue(p["title"] and p["description"])
        known = {"$" + v["name"] for v in self.dashboard["templating"]["list"]} | {"$__rate_interval"}
        self.assertEqual(set(re.findall(r"\$\w+", " ".join(self.expressions()))) - known, set())


if __name__ == "__main__":
    fixture.main()
