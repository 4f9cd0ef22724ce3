# SPDX-License-Identifier: LGPL-2.1-or-later
"""Recorded: reports that were written earlier, for a rig that takes longer than one sitting."""

import json
import math
import types

from benchlib.deleters import OWN
from benchlib.report import Bar


class RecordedArm:
    """As much of a verdict.Summary as a picture needs."""

    def __init__(self, fields):
        self.kinds = fields["kinds"]
        self.stopped = fields["stopped"]
        self._fields = fields

    def seconds(self):
        """As Summary.seconds."""
        fields = self._fields
        if fields["failure"]:
            return None
        return (fields["estimate"] or fields["window"]) if self.stopped else fields["done"]


class RecordedVerdict:
    """As much of a verdict.CellVerdict as a picture needs."""

    def __init__(self, cell):
        self.arms = {name: RecordedArm(fields) for name, fields in cell.get("arms", {}).items()}
        kinds = next((tuple(arm.kinds) for arm in self.arms.values()), ())
        self._ratios = cell.get("arms", {}).get(OWN, {}).get("ratios", {})
        name = f"{cell['scenario']} / {cell['victim']} / {cell['load']}"
        self.cell = types.SimpleNamespace(name=name, kinds=kinds)

    def worst_p99(self):
        """As CellVerdict.worst_p99."""
        own = self.arms.get(OWN)
        if own and (own.stopped or own.seconds() is None):
            return math.inf
        ratios = [ratio for kind in self._ratios.values()
                  for ratio in (kind["p99"], kind.get("after", {}).get("p99"))]
        return None if None in ratios or not ratios else max(ratios)


class NoReport(Exception):
    """A file that is not what --json writes."""


def read(paths):
    """Verdicts and bars of all files, in their order."""
    verdicts, bars = [], []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            verdicts += map(RecordedVerdict, document["cells"])
            bars += [Bar(**bar) for bar in document["bars"]]
        except OSError as error:
            raise NoReport(f"{path}: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise NoReport(f"{path}: no report of this benchmark") from error
    return verdicts, bars
