# SPDX-License-Identifier: LGPL-2.1-or-later
"""Recorded: reports that were written earlier, for a rig that takes longer than one sitting."""

import json
import types

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
        name = f"{cell['scenario']} / {cell['victim']} / {cell['load']}"
        self.cell = types.SimpleNamespace(name=name, kinds=kinds)


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
