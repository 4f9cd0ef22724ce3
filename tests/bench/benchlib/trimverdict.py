# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trimverdict: what the trims of one filesystem come to, as tables, bars and JSON."""

import dataclasses
import statistics

from benchlib.report import Bar, align, number
from benchlib.scenarios import GIB, Scenario
from benchlib.trees import MIB
from benchlib.trimmap import TrimMap, named, total
from benchlib.trimming import BASELINE, FSTRIM, OWN
from benchlib.verdict import (LATE_SECONDS, P99_BAR, P99_TARGET, PERCENTILES, Summary, milliseconds,
                              seconds)

# No request may take longer than so many times the p99 without a trim.
LONGEST_BAR = 5
# On ext4 the kernel trims a free run to its end, which is that of the block group at the latest.
GROUP_BYTES = 128 * MIB
# Of fstrim's speed, where no other program uses the disk.
SPEED_BAR = 0.95
# Of what fstrim trims: what a filesystem uses meanwhile, as btrfs does for the metadata of a commit.
LITTLE_BYTES = 4 * MIB
BESIDE, ALONE = "beside foreground I/O", "alone"
# What a round is told by.
ROUND_FIELDS = ("window", "returned", "done", "stopped", "failure", "trimmed_bytes", "steps", "calls",
                "longest_step", "unfinished", "late", "left_out", "seconds")


@dataclasses.dataclass
class Coverage:
    """What a trim did, by the disk's map. missing: of what fstrim trimmed; None: not known."""

    times: float
    pieces: int
    trimmed_bytes: int
    twice: list
    missing: list = None

    @classmethod
    def of(cls, trims, reference):
        """reference: fstrim's map; None if there is nothing to compare with."""
        return cls(trims.times(), len(trims.runs()), trims.trimmed_bytes(), trims.twice(),
                   reference.missing(trims) if reference else None)

    def as_json(self):
        """The ranges are as long as a list of pieces at most."""
        return dataclasses.asdict(self)


@dataclasses.dataclass
class TrimCell:
    """A filesystem, its free space, and a load. trim_msec_per_mib: what a discard takes there."""

    scenario: Scenario
    pieces: int
    load: str
    kinds: tuple
    trim_msec_per_mib: float
    what: str = ""
    beside: dict = dataclasses.field(default_factory=dict)  # arm to trims
    alone: dict = dataclasses.field(default_factory=dict)
    coverage: dict = dataclasses.field(default_factory=dict)  # (how, arm) to those of its rounds
    reference: TrimMap = None
    unavailable: str = None

    @property
    def name(self):
        """As tables call it."""
        return f"{self.scenario.name} / {self.pieces} pieces / {self.load}"

    def add(self, how, trim):
        """The first fstrim without foreground I/O is what others are compared with."""
        (self.alone if how == ALONE else self.beside).setdefault(trim.arm, []).append(trim)
        if trim.arm == BASELINE or trim.failure:
            return
        if how == ALONE and trim.arm == FSTRIM and not trim.stopped and not self.reference:
            self.reference = trim.trims
        compares = self.reference if not trim.stopped else None
        self.coverage.setdefault((how, trim.arm), []).append(Coverage.of(trim.trims, compares))


class TrimVerdict:
    """A cell, summed up and judged."""

    def __init__(self, cell):
        self.cell = cell
        self.beside = {arm: Summary(trims, cell.kinds, {}) for arm, trims in cell.beside.items()}
        self.alone = {arm: Summary(trims, (), {}) for arm, trims in cell.alone.items()}

    def ratio(self, arm, kind, percentile, to="p99"):
        """To that of the baseline; None if one of them is missing."""
        values = [self.beside[each].kinds[kind][which] if each in self.beside else None
                  for each, which in ((arm, percentile), (BASELINE, to))]
        return None if None in values or values[1] <= 0 else values[0] / values[1]

    def speed(self, arm):
        """Of fstrim's, for each byte, without foreground I/O: fstrim leaves most of it out on some XFS.
        None if one of them is missing, or did not end."""
        rates = [self._rate(each) for each in (arm, FSTRIM)]
        return None if None in rates or rates[1] == 0 else rates[0] / rates[1]

    def _rate(self, arm):
        """Bytes a second."""
        summary = self.alone.get(arm)
        if not summary or summary.failure or summary.stopped:
            return None
        return statistics.median(each.trimmed_bytes for each in self.cell.coverage[ALONE, arm]) / summary.done

    def failures(self):
        """Arms that did not do what they had to."""
        return [f"{self.cell.name}: {arm}, {how}: {summary.failure}"
                for how, arms in ((BESIDE, self.beside), (ALONE, self.alone))
                for arm, summary in arms.items() if summary.failure]

    def bars(self):
        """What is to be reached by what is on by default."""
        own = self.beside.get(OWN)
        if own and own.failure:
            yield self._bar(f"{OWN} trims", False, own.failure)
        elif own:
            for kind in self.cell.kinds:
                yield self._p99_bar(kind)
                yield self._longest_bar(kind)
        if OWN in self.alone:
            speed = self.speed(OWN)
            yield self._bar(f"{ALONE} at least {SPEED_BAR} of fstrim's speed",
                            None if speed is None else speed >= SPEED_BAR, number(speed))
        for how in (BESIDE, ALONE):
            if (how, OWN) in self.cell.coverage:
                yield from self._map_bars(how, self.cell.coverage[how, OWN])

    def _bar(self, what, reached, value):
        return Bar(f"{self.cell.name}: {what}", reached, value)

    def _p99_bar(self, kind):
        ratio = self.ratio(OWN, kind, "p99")
        aim = "" if ratio is None else (f", the goal of {P99_TARGET} "
                                        f"{'' if ratio <= P99_TARGET else 'not '}reached")
        return self._bar(f"{kind} p99 at most {P99_BAR} x baseline",
                         None if ratio is None else ratio <= P99_BAR, number(ratio) + aim)

    def _longest_bar(self, kind):
        what, more = f"longest {kind} at most {LONGEST_BAR} x baseline's p99", 0
        if self.cell.scenario.kind.startswith("ext"):
            more = GROUP_BYTES / MIB * self.cell.trim_msec_per_mib / 1000
            what += f" and the {milliseconds(more)} ms of a block group's discard"
        if BASELINE not in self.beside:
            return self._bar(what, None, "no baseline")
        longest = self.beside[OWN].kinds[kind]["max"]
        usual = self.beside[BASELINE].kinds[kind]["p99"]
        if longest is None or usual is None:
            return self._bar(what, None, "no requests")
        most = LONGEST_BAR * usual + more
        return self._bar(what, longest <= most,
                         f"{milliseconds(longest)} ms, allowed {milliseconds(most)} ms")

    def _map_bars(self, how, rounds):
        twice = max((each.twice for each in rounds), key=total)
        yield self._bar(f"no byte is trimmed twice, {how}", not twice, of_map(twice))
        known = [each.missing for each in rounds if each.missing is not None]
        missing = max(known, key=total, default=None)
        yield self._bar(f"all is trimmed that fstrim trims but for {LITTLE_BYTES // MIB} MiB, {how}",
                        None if missing is None else total(missing) <= LITTLE_BYTES,
                        "not known: it was stopped, or fstrim was not measured alone"
                        if missing is None else of_map(missing))

    def as_json(self):
        """Numbers in seconds and bytes."""
        cell = self.cell
        head = {"scenario": cell.scenario.name, "victim": f"{cell.pieces} pieces", "load": cell.load}
        if cell.unavailable:
            return head | {"unavailable": cell.unavailable}
        return head | {
            "what": cell.what,
            "arms": {arm: self._arm_json(BESIDE, arm, summary) | {"kinds": summary.kinds, "ratios": {
                kind: {each: self.ratio(arm, kind, each, each) for each in PERCENTILES}
                for kind in cell.kinds}} for arm, summary in self.beside.items()},
            "alone": {arm: self._arm_json(ALONE, arm, summary) | {"speed": self.speed(arm)}
                      for arm, summary in self.alone.items()}}

    def _arm_json(self, how, arm, summary):
        return {"returned": summary.returned, "done": summary.done, "stopped": summary.stopped,
                "failure": summary.failure,
                "rounds": [{name: getattr(each, name) for name in ROUND_FIELDS}
                           for each in summary.impacts],
                "coverage": [each.as_json() for each in self.cell.coverage.get((how, arm), ())]}

    def table(self):
        """Lines of text."""
        cell = self.cell
        if cell.unavailable:
            return [cell.name, f"  not measured: {cell.unavailable}", ""]
        head = ["arm", "seconds", "trimmed", "times", "pieces", "steps", "longest step"]
        for kind in cell.kinds:
            head += [kind + " n", *PERCENTILES, "x p99", "max/p99"]
        rows = [head] + [self._row(BESIDE, arm, summary) for arm, summary in self.beside.items()]
        lines = [f"{cell.name}: {cell.what}", *align(rows), *self._doubts()]
        if self.alone:
            rows = [head[:7] + ["speed", "missing", "twice"]]
            rows += [self._row(ALONE, arm, summary) for arm, summary in self.alone.items()]
            lines += ["  alone:", *align(rows)]
        return lines + [""]

    def _row(self, how, arm, summary):
        if summary.failure:
            return [arm, "FAILED: " + summary.failure]
        took = f">{summary.returned:.0f}" if summary.stopped else seconds(summary.done)
        coverage = self.cell.coverage.get((how, arm), [])
        row = [arm, took] + ([f"{coverage[0].trimmed_bytes / GIB:.2f}", f"{coverage[0].times:.2f}",
                              f"{coverage[0].pieces:,}"] if coverage else ["-"] * 3)
        row += ["-" if None in values else f"{statistics.median(values):,.{digits}f}"
                for values, digits in (([each.steps for each in summary.impacts], 0),
                                       (milli([each.longest_step for each in summary.impacts]), 1))]
        if how == ALONE:
            return row + [number(self.speed(arm)), *self._ranges(coverage)]
        for kind, numbers in summary.kinds.items():
            row += [str(numbers["samples"])]
            row += [milliseconds(numbers[each]) for each in PERCENTILES]
            row += [number(self.ratio(arm, kind, "p99")), number(self.ratio(arm, kind, "max"))]
        return row

    @staticmethod
    def _ranges(coverage):
        known = [each.missing for each in coverage if each.missing is not None]
        return ([str(max(map(total, known))) if known else "-"] +
                [str(max(total(each.twice) for each in coverage)) if coverage else "-"])

    def _doubts(self):
        late = [f"{arm} {summary.late * 1000:.1f} ms" for arm, summary in self.beside.items()
                if summary.late > LATE_SECONDS]
        left_out = [f"{arm} {summary.left_out:.0%}" for arm, summary in self.beside.items()
                    if summary.left_out > 0]
        return (["  doubtful, as the processors were busy (p99 of issuing a request late): "
                 + ", ".join(late)] if late else []) + (
                     ["  left out, as the host took processor time when they came due: "
                      + ", ".join(left_out)] if left_out else [])


def milli(values):
    """From seconds; None stays."""
    return [None if value is None else value * 1000 for value in values]


def of_map(ranges):
    """How many bytes, and which."""
    return f"{total(ranges):,} bytes: {named(ranges)}" if ranges else "none"
