# SPDX-License-Identifier: LGPL-2.1-or-later
"""Verdict: what several rounds of impact come to, as tables, bars and JSON."""

import dataclasses
import math
import statistics

from benchlib.deleters import BASELINE, INTERRUPTED, OWN, find
from benchlib.report import Bar, align, number
from benchlib.scenarios import GIB, Scenario

PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
P99_BAR = 1.5
P99_TARGET = 1.25
# A transaction of a database is many requests, and what most users of it wait for.
TRANSACTION_BAR = 1.25
# Of the cells that come within the target.
TARGET_SHARE = 2 / 3
P999_BAR = 3
# After the end no request may take longer than so many times the longest without a deletion.
LONGEST_BAR = 2
TRIM_BAR = 1.5
# Two runs of the same arm differ by as much.
NOISE = 1.05
# Requests issued that late on a machine with two idle processors mean that they were not idle.
LATE_SECONDS = 0.001


def median(values):
    """Of what is known; None of nothing."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


@dataclasses.dataclass
class Cell:
    """One scenario, victim and load: the impacts of all rounds by arm."""

    scenario: Scenario
    victim: str
    load: str
    kinds: tuple
    what: str = ""
    victim_bytes: int = 0
    impacts: dict = dataclasses.field(default_factory=dict)
    dynamics: dict = None
    unavailable: str = None

    @property
    def name(self):
        """As tables call it."""
        return f"{self.scenario.name} / {self.victim} / {self.load}"


@dataclasses.dataclass
class Usual:
    """What a kind of request is like when nothing is deleted: seconds, and seconds per second."""

    median: float
    harm_per_second: float

    @classmethod
    def of(cls, impacts, kind):
        """None if it was not measured."""
        if not impacts:
            return None
        usual = median([each.percentile(kind, 0.5) for each in impacts])
        return cls(usual, median([each.harm(kind, usual) / each.window for each in impacts]))


class Summary:
    """One arm of a cell: medians over the rounds."""

    def __init__(self, impacts, kinds, usual):
        self.impacts = impacts
        self.failure = next((each.failure for each in impacts if each.failure), None)
        self.stopped = next((each.stopped for each in impacts if each.stopped), None)
        self.returned = median([each.returned for each in impacts])
        self.space_back = median([each.space_back for each in impacts])
        self.done = median([each.done for each in impacts])
        self.estimate = median([each.estimate for each in impacts])
        self.window = median([each.window for each in impacts])
        self.freed_bytes = median([each.freed_bytes for each in impacts])
        self.trimmed_bytes = median([each.trimmed_bytes for each in impacts])
        self.late = median([each.late for each in impacts])
        self.left_out = median([each.left_out for each in impacts])
        self.kinds = {kind: self._kind(kind, usual.get(kind)) for kind in kinds}

    def _kind(self, kind, usual):
        numbers = {name: median([each.percentile(kind, share) for each in self.impacts])
                   for name, share in PERCENTILES.items()}
        numbers["samples"] = sum(len(each.latencies.get(kind, ())) for each in self.impacts)
        numbers["after"] = {name: median([each.percentile_after(kind, share)
                                          for each in self.impacts])
                            for name, share in PERCENTILES.items()}
        numbers.update(self._harm(kind, usual))
        return numbers

    def _harm(self, kind, usual):
        """Per GiB freed; and the same without what there is of it when nothing is deleted."""
        known = [each for each in self.impacts if usual and each.freed_bytes > 0]
        per_gib = [(each.harm(kind, usual.median), usual.harm_per_second * each.window,
                    GIB / each.freed_bytes) for each in known]
        return {"harm_per_gib": median([harm * gib for harm, _, gib in per_gib]),
                "net_harm_per_gib": median([(harm - own) * gib for harm, own, gib in per_gib])}

    def seconds(self):
        """Until done, or as estimated, or what it has taken at least; None if it failed."""
        if self.failure:
            return None
        return (self.estimate or self.window) if self.stopped else self.done

    def as_json(self):
        """With every round."""
        names = ("returned", "space_back", "done", "estimate", "stopped", "window", "freed_bytes",
                 "trimmed_bytes", "failure", "late", "left_out", "kinds")
        fields = [field.name for field in dataclasses.fields(self.impacts[0])
                  if field.name not in ("arm", "latencies", "after")]
        return {name: getattr(self, name) for name in names} | {
            "rounds": [{name: getattr(each, name) for name in fields} for each in self.impacts]}


class CellVerdict:
    """A cell, summed up and judged."""

    def __init__(self, cell):
        self.cell = cell
        usual = {kind: Usual.of(cell.impacts.get(BASELINE), kind) for kind in cell.kinds}
        self.arms = {name: Summary(impacts, cell.kinds, usual)
                     for name, impacts in cell.impacts.items()}

    def ratio(self, name, kind, percentile):
        """To the baseline; None if one of them is missing."""
        values = [self.arms[each].kinds[kind][percentile] if each in self.arms else None
                  for each in (name, BASELINE)]
        return None if None in values or values[1] <= 0 else values[0] / values[1]

    def ratio_after(self, name, kind, percentile):
        """The window after the end to the baseline; None if one of them is missing."""
        values = [self.arms[name].kinds[kind]["after"][percentile] if name in self.arms else None,
                  self.arms[BASELINE].kinds[kind][percentile] if BASELINE in self.arms else None]
        return None if None in values or values[1] <= 0 else values[0] / values[1]

    def slow_seconds(self, name, kind):
        """Seconds from the start on in which the median was above the baseline's p99; None if
        that is not known."""
        usual = self.arms[BASELINE].kinds[kind]["p99"] if BASELINE in self.arms else None
        if usual is None or name not in self.arms:
            return None
        return median([each.slow_seconds(kind, usual) for each in self.arms[name].impacts])

    def worst_p99(self):
        """The highest ratio of ours to the baseline, of all kinds in both windows; infinite if it
        did not delete in time, None if one is not known."""
        own = self.arms.get(OWN)
        if own and (own.failure or own.stopped):
            return math.inf
        ratios = [ratio(OWN, kind, "p99") for kind in self.cell.kinds
                  for ratio in (self.ratio, self.ratio_after)]
        return None if None in ratios else max(ratios)

    def failures(self):
        """Arms that did not do what they had to."""
        return [f"{self.cell.name}: {name}: {arm.failure}"
                for name, arm in self.arms.items() if arm.failure]

    def as_json(self):
        """Numbers in seconds and bytes."""
        cell = self.cell
        head = {"scenario": cell.scenario.name, "victim": cell.victim, "load": cell.load}
        if cell.unavailable:
            return head | {"unavailable": cell.unavailable}
        ratios = {name: {kind: {each: self.ratio(name, kind, each) for each in PERCENTILES} | {
            "after": {each: self.ratio_after(name, kind, each) for each in PERCENTILES},
            "slow_seconds": self.slow_seconds(name, kind)} for kind in cell.kinds}
                  for name in self.arms}
        return head | {"what": cell.what, "victim_bytes": cell.victim_bytes, "arms": {
            name: arm.as_json() | {"ratios": ratios[name]} for name, arm in self.arms.items()},
            "dynamics": cell.dynamics}

    def table(self):
        """Lines of text."""
        cell = self.cell
        if cell.unavailable:
            return [f"{cell.name}", f"  not measured: {cell.unavailable}", ""]
        head = ["arm", "returned", "done"]
        for kind in cell.kinds:
            head += [kind + " n", "p50", "p99", "p99.9", "max", "x p99", "x p99.9", "after: p99",
                     "max", "x p99", "x max", "slow s"]
        head += ["harm/GiB", "net"] + (["trimmed"] if self._trims() else [])
        rows = [head] + [self._row(name, arm) for name, arm in self.arms.items()]
        title = f"{cell.name}: {cell.what}, {cell.victim_bytes / GIB:.2f} GiB on the disk"
        return [title, *align(rows), *self._doubts(), ""]

    def _doubts(self):
        """Arms that something else on the machine may have disturbed. Where the deletion itself
        keeps the processors busy, it is named, too."""
        late = [f"{name} {arm.late * 1000:.1f} ms" for name, arm in self.arms.items()
                if arm.late > LATE_SECONDS]
        left_out = [f"{name} {arm.left_out:.0%}" for name, arm in self.arms.items() if arm.left_out > 0]
        return (["  doubtful, as the processors were busy (p99 of issuing a request late): "
                 + ", ".join(late)] if late else []) + (
                     ["  left out, as the host took processor time when they came due: "
                      + ", ".join(left_out)] if left_out else [])

    def _trims(self):
        return any(arm.trimmed_bytes for arm in self.arms.values())

    def _row(self, name, arm):
        if arm.failure:
            return [name, "FAILED: " + arm.failure]
        row = [name, seconds(arm.returned), done(arm)]
        for kind, numbers in arm.kinds.items():
            row += [str(numbers["samples"])]
            row += [milliseconds(numbers[each]) for each in PERCENTILES]
            row += [number(self.ratio(name, kind, each)) for each in ("p99", "p99.9")]
            row += [milliseconds(numbers["after"][each]) for each in ("p99", "max")]
            row += [number(self.ratio_after(name, kind, each)) for each in ("p99", "max")]
            slow = self.slow_seconds(name, kind)
            row += ["-" if slow is None else f"{slow:g}"]
        for which in ("harm_per_gib", "net_harm_per_gib"):
            harms = [numbers[which] for numbers in arm.kinds.values()]
            row += ["-" if None in harms else f"{sum(harms):.2f}"]
        return row + ([f"{arm.trimmed_bytes / GIB:.2f}"] if self._trims() else [])

    def bars(self):
        """What is to be reached by what is on by default, and by a daemon that is interrupted."""
        if OWN in self.arms:
            yield from self._own_bars(self.arms[OWN])
        for name in INTERRUPTED:
            if name in self.arms:
                yield from self._interrupted_bars(name, self.arms[name])

    def _own_bars(self, own):
        if own.failure or own.stopped:
            yield Bar(f"{self.cell.name}: {OWN} deletes in time", False,
                      own.failure or own.stopped)
            return
        for kind in self.cell.kinds:
            yield self._ratio_bar(kind, "p99", p99_bar(kind))
            yield self._ratio_bar(kind, "p99.9", P999_BAR)
            yield self._after_bar(kind, "p99", p99_bar(kind))
            yield self._after_bar(kind, "p99.9", P999_BAR)
            yield self._after_bar(kind, "max", LONGEST_BAR)
            slow = self.slow_seconds(OWN, kind)
            yield Bar(f"{self.cell.name}: no second with a median of {kind} above the baseline's p99",
                      None if slow is None else slow == 0,
                      "no baseline" if slow is None else f"{slow:g}")
        yield self._harm_bar()
        yield self._dominated_bar(own)
        if self.cell.scenario.discards:
            ratio = own.trimmed_bytes / own.freed_bytes
            yield Bar(f"{self.cell.name}: trims at most {TRIM_BAR} x what it frees",
                      ratio <= TRIM_BAR, number(ratio))

    def _interrupted_bars(self, name, arm):
        if arm.failure or arm.stopped:
            yield Bar(f"{self.cell.name}: {name} deletes in time", False, arm.failure or arm.stopped)
            return
        for kind in self.cell.kinds:
            yield self._ratio_bar(kind, "p99", p99_bar(kind), name)
            yield self._after_bar(kind, "p99", p99_bar(kind), name)

    def _bar_name(self, arm):
        """Ours need not be named."""
        return self.cell.name if arm == OWN else f"{self.cell.name}, {arm}"

    def _ratio_bar(self, kind, percentile, most, arm=OWN):
        what = f"{self._bar_name(arm)}: {kind} {percentile} at most {most} x baseline"
        ratio = self.ratio(arm, kind, percentile)
        if ratio is None:
            return Bar(what, None, "no baseline")
        aim = ""
        if percentile == "p99":
            aim = f", the goal of {P99_TARGET} {'' if ratio <= P99_TARGET else 'not '}reached"
        return Bar(what, ratio <= most, f"{ratio:.2f}{aim}")

    def _after_bar(self, kind, percentile, most, arm=OWN):
        what = f"{self._bar_name(arm)}: {kind} {percentile} after the end at most {most} x baseline"
        ratio = self.ratio_after(arm, kind, percentile)
        if ratio is None:
            return Bar(what, None, "no baseline, or nothing after the end")
        return Bar(what, ratio <= most, f"{ratio:.2f}")

    def _harm(self, name, which):
        """Of all kinds together; None if it is not known."""
        arm = self.arms.get(name)
        harms = [kind[which] for kind in arm.kinds.values()] if arm and not arm.failure else [None]
        return None if None in harms else sum(harms)

    def _harm_bar(self):
        """Less what there is of it without a deletion, as a slow deletion has more of that; and what
        differs by as little as that does is no difference."""
        what = f"{self.cell.name}: no more harm than rm"
        own, by_rm = self._harm(OWN, "net_harm_per_gib"), self._harm("rm", "net_harm_per_gib")
        if own is None or by_rm is None:
            return Bar(what, None, "no baseline" if BASELINE not in self.arms else "rm was not measured")
        usual = self._harm(OWN, "harm_per_gib") - own
        most = max(by_rm * NOISE, by_rm, (NOISE - 1) * usual)
        return Bar(what, own <= most, f"{own:.2f} s per GiB, rm {by_rm:.2f} s")

    def _dominated_bar(self, own):
        """No loop that harms no more is faster."""
        what = f"{self.cell.name}: no fixed loop that harms no more is faster"
        loops = {name: arm for name, arm in self.arms.items()
                 if find(name).is_loop and arm.seconds() is not None}
        if not loops:
            return Bar(what, None, "no loop was measured")
        kind = {name: arm for name, arm in loops.items() if all(
            arm.kinds[each]["p99"] <= own.kinds[each]["p99"] for each in self.cell.kinds)}
        if not kind:
            return Bar(what, True, f"{own.done:.1f} s, and all loops harm more")
        best = min(kind, key=lambda name: kind[name].seconds())
        fastest = kind[best].seconds()
        return Bar(what, own.done <= fastest * NOISE,
                   f"{own.done:.1f} s, {best} {fastest:.1f} s")


def p99_bar(kind):
    """Of requests, and of transactions."""
    return TRANSACTION_BAR if kind == "transaction" else P99_BAR


def overall(verdicts):
    """What is to be reached by all cells together; those of reports that were recorded have the same
    worst_p99."""
    what = f"p99 at most {P99_TARGET} x baseline, of all kinds in both windows, in two thirds of the cells"
    worst = [verdict.worst_p99() for verdict in verdicts]
    known = [ratio for ratio in worst if ratio is not None]
    if not known:
        return [Bar(what, None, "no cell has both windows and a baseline")]
    within = sum(ratio <= P99_TARGET for ratio in known)
    unknown = f", {len(worst) - len(known)} not known" if len(known) < len(worst) else ""
    return [Bar(what, within >= TARGET_SHARE * len(known), f"{within} of {len(known)}{unknown}")]


def seconds(value):
    """A dash for what was not reached."""
    return "-" if value is None else f"{value:.1f}"


def milliseconds(value):
    """As seconds, with the digits that a disk deserves."""
    return "-" if value is None else f"{value * 1000:.1f}" if value < 1 else f"{value * 1000:.0f}"


def done(arm):
    """With ~ when it was told from a part, with > when it is not known."""
    if arm.stopped:
        return f"~{arm.estimate:.0f}" if arm.estimate else f">{arm.window:.0f}"
    return seconds(arm.done)
