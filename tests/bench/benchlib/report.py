# SPDX-License-Identifier: LGPL-2.1-or-later
"""Report: medians, ratios to the best peer, tables, JSON, and the bars that are to be reached."""

import dataclasses
import datetime
import json
import math
import os
import platform
import statistics

from benchlib.arms import ARMS, BACKENDS

NOISE = 1.05
# What is gone in two milliseconds: starting the program counts.
LARGE_BAR = 1.1
MEAN_BAR = 0.88
BACKENDS_BAR = 1.05
CALLS_BAR = 1.02
# Of 64 large files, starting the program is most of the calls; and they are shrunk, not just
# unlinked.
CALLS_EXEMPT = ("large",)


def summary(measurements):
    """What several rounds of one arm come to."""
    failed = [each.failure for each in measurements if each.failure]
    good = [each for each in measurements if not each.failure]
    if failed or not good:
        return {"failure": failed[0] if failed else "never ran"}
    trims = [each.discarded_bytes for each in good if each.discarded_bytes is not None]
    return {
        "seconds": statistics.median(each.elapsed for each in good),
        "min_seconds": min(each.elapsed for each in good),
        "max_seconds": max(each.elapsed for each in good),
        "settled_seconds": statistics.median(each.settled for each in good),
        "cpu_seconds": statistics.median(each.user + each.system for each in good),
        "peak_mib": max(each.peak_mib for each in good),
        "discarded_bytes": statistics.median(trims) if trims else None,
    }


class CellReport:
    """One cell on one filesystem, summed up."""

    def __init__(self, result):
        self.result = result
        self.arms = {name: summary(rounds) for name, rounds in result.measurements.items()}
        self.best_peer = self._best(lambda arm: not arm.own)

    def _best(self, wanted):
        times = {name: arm["seconds"] for name, arm in self.arms.items()
                 if "seconds" in arm and wanted(ARMS[name])}
        return min(times, key=times.get) if times else None

    def ratio(self, name, to=None):
        """Time of an arm as a multiple of the best peer's, or of another arm's; None if unknown."""
        to = to or self.best_peer
        if to is None or any("seconds" not in self.arms.get(each, {}) for each in (name, to)):
            return None
        return self.arms[name]["seconds"] / self.arms[to]["seconds"]

    def better_backend(self):
        """The faster of the two things auto can choose from."""
        return self._best(lambda arm: arm.name in ("threads", "uring"))

    def calls(self, name, which):
        """Calls per entry, or None when they were not counted."""
        counted = self.result.calls.get(name)
        return counted["per_entry"][which] if counted else None

    def as_json(self):
        """With every round, so that a reader can judge the spread."""
        result = self.result
        if result.unavailable:
            return {"cell": result.cell.name, "filesystem": result.filesystem,
                    "unavailable": result.unavailable}
        return {
            "cell": result.cell.name, "filesystem": result.filesystem, "entries": result.entries,
            "files": result.files, "directories": result.directories, "bytes": result.bytes,
            "best_peer": self.best_peer,
            "arms": {name: arm | {
                "ratio": self.ratio(name), "calls": result.calls.get(name),
                "rounds": [dataclasses.asdict(each) for each in result.measurements[name]],
            } for name, arm in self.arms.items()},
        }

    def table(self, to=None):
        """Lines of text; ratios to the best peer or to another arm."""
        result = self.result
        title = f"{result.name}: {result.cell.what}"
        if result.unavailable:
            return [title, f"  not measured: {result.unavailable}", ""]
        trims = any(arm.get("discarded_bytes") is not None for arm in self.arms.values())
        title += f" (removed here: {result.entries:,} entries, {result.bytes >> 20:,} MiB)"
        rows = [["arm", "median", "min", "settled", "cpu", "calls", "ring", "peak MiB", "ratio"]
                + (["trimmed MiB"] if trims else [])]
        rows += [self._row(name, to, trims) for name in self.arms]
        return [title, *align(rows), ""]

    def _row(self, name, to, trims):
        arm = self.arms[name]
        if "failure" in arm:
            return [name, "FAILED: " + arm["failure"]]
        return [name, f"{arm['seconds']:.3f}", f"{arm['min_seconds']:.3f}",
                f"{arm['settled_seconds']:.3f}", f"{arm['cpu_seconds']:.3f}",
                number(self.calls(name, "unlink_family")),
                number(self.calls(name, "io_uring_enter")), f"{arm['peak_mib']:.1f}",
                number(self.ratio(name, to)),
                *([f"{int(arm['discarded_bytes']) >> 20:,}"] if trims else [])]


def number(value):
    """Two digits, or a dash for what is not known."""
    return "-" if value is None else f"{value:.2f}"


def align(rows):
    """First column to the left, numbers to the right; a row may end early with a text."""
    full = [row for row in rows if len(row) == len(rows[0])]
    widths = [max(len(row[column]) for row in rows if len(row) > column and
                  (row in full or column == 0)) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        if row in full:
            cells += [text.rjust(width) for text, width in zip(row[1:], widths[1:])]
        else:
            cells += row[1:]
        lines.append("  " + "  ".join(cells))
    return lines


@dataclasses.dataclass
class Bar:
    """Something to be reached: in words, whether it was (None: not known), and the number."""

    what: str
    reached: bool
    value: str

    def line(self):
        """As the report prints it."""
        state = {True: "kept", False: "MISSED", None: "not known"}[self.reached]
        return f"{state + ':':10} {self.what}: {self.value}"


def tally(all_bars):
    """How many are kept, in one line."""
    counts = [sum(bar.reached is reached for bar in all_bars) for reached in (True, False, None)]
    return "bars: {} kept, {} missed, {} not known".format(*counts)


def geometric_mean(values):
    """None of nothing."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def bars(reports):
    """All bars, in the order in which they are promised."""
    return [*_cell_bars(reports), _mean_bar(reports), *_backend_bars(reports), _calls_bar(reports)]


def _failed(report):
    """A time that was not reached by deleting reaches no bar, and must not just be left out."""
    return "failure" in report.arms.get("auto", {})


def _cell_bars(reports):
    for report in reports:
        ratio = report.ratio("auto")
        large = report.result.cell.name == "large"
        most = LARGE_BAR if large else NOISE
        what = (f"{{}}: auto at most {LARGE_BAR} x the best peer" if large else
                f"{{}}: auto at most 1.00 x the best peer, {NOISE - 1:.0%} noise")
        if _failed(report):
            yield Bar(what.format(report.result.name), False, "auto failed")
        elif ratio is not None:
            yield Bar(what.format(report.result.name), ratio <= most,
                      f"{ratio:.2f} ({report.best_peer})")


def _mean_bar(reports):
    known = [report for report in reports if report.ratio("auto") is not None]
    mean = geometric_mean([report.ratio("auto") for report in known])
    what = f"geometric mean over the cells of auto to the best peer at most {MEAN_BAR}"
    if mean is None:
        return Bar(what, None, "no cell has both")
    # One cell where others are slower by an order of magnitude must not hide the rest.
    plain = geometric_mean([report.ratio("auto") for report in known
                            if report.result.filesystem != "ext4-discard"])
    failed = sum(map(_failed, reports))
    return Bar(what, mean <= MEAN_BAR and not failed,
               f"{mean:.3f} over {len(known)} cells, {number(plain)} without discard"
               + (f", auto failed on {failed} others" if failed else ""))


def _backend_bars(reports):
    what = f"{{}}: auto at most {BACKENDS_BAR} x the better of its backends"
    for report in reports:
        better = report.better_backend()
        ratio = report.ratio("auto", to=better) if better else None
        if ratio is not None:
            yield Bar(what.format(report.result.name), ratio <= BACKENDS_BAR,
                      f"{ratio:.2f} ({better})")


def _calls_bar(reports):
    what = f"threads makes at most {CALLS_BAR} calls per file to unlink it and look at it"
    calls = {report.result.name: report.calls("threads", "unlink_family") for report in reports
             if report.result.cell.name not in CALLS_EXEMPT}
    calls = {name: count for name, count in calls.items() if count is not None}
    if not calls:
        return Bar(what, None, "system calls were not counted")
    over = [f"{name} {count:.3f}" for name, count in calls.items() if count > CALLS_BAR]
    return Bar(what, not over, f"at most {max(calls.values()):.3f}"
               + (" (" + ", ".join(over) + ")" if over else ""))


def machine():
    """What the numbers depend on."""
    return {
        "kernel": platform.release(), "architecture": platform.machine(),
        "cpus": os.cpu_count(), "cpu": cpu_model(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def cpu_model():
    """As the processor calls itself; empty where /proc/cpuinfo says nothing."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as cpuinfo:
        for line in cpuinfo:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""


def failures(reports):
    """Names of the arms that did not do what they had to."""
    return [f"{report.result.name}: {name}: {arm['failure']}" for report in reports
            for name, arm in report.arms.items() if "failure" in arm]


def write_json(path, reports, all_bars, facts):
    """Everything; `facts` is what else the benchmark knows (options, versions)."""
    document = {"machine": machine(), **facts, "cells": [each.as_json() for each in reports],
                "bars": [dataclasses.asdict(each) for each in all_bars],
                "failures": failures(reports), "arms": {
                    name: {"program": arm.program, "own": arm.own} for name, arm in ARMS.items()},
                "backends": list(BACKENDS)}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
