# SPDX-License-Identifier: LGPL-2.1-or-later
"""Timeline: the longest request of each second, from before a deletion until after it; a row for
each cell, a line for rm, the version before and now.

It reads reports written with --json. Where several have the same cell, each has lines of its own, which are
named by its file.
"""

import json
import os

from benchlib import plotting
from benchlib.deleters import BASELINE, BEFORE, OWN

# What is drawn, in this order, and how it is called. Loops would hide the rest.
LABELS = {"rm": "rm", BEFORE: "reclaimctl, before", OWN: "reclaimctl, now"}
# Told apart by brightness, too, and by people who see fewer colours (Okabe and Ito).
COLOURS = ("#d55e00", "#8c8c8c", "#0072b2", "#e69f00", "#cc79a7", "#56b4e9")
GREEN = "#009e73"
ROW_INCHES = 1.7
# Of the highest and the lowest point, so that no line lies on the frame.
MARGIN = 1.4


def draw(path, reports, labels=None, deed=("deletion", "deleted")):
    """Write the picture; False without matplotlib, which nothing else needs. labels: the arms that are
    drawn; deed: what begins, and what nothing is in the baseline."""
    pyplot = plotting.load()
    if not pyplot:
        return False
    cells = {}
    for report in reports:
        with open(report, encoding="utf-8") as file:
            document = json.load(file)
        name = os.path.splitext(os.path.basename(report))[0]
        for cell in document["cells"]:
            title = f"{cell['scenario']} / {cell['victim']} / {cell['load']}"
            for arm, fields in cell.get("arms", {}).items():
                cells.setdefault(title, []).append((name, arm, fields))
    if cells:
        _Timeline(labels or LABELS, deed, cells).draw(pyplot, path)
    return True


def repeated(cells):
    """Whether a cell is in more than one report, so that an arm's name does not tell its lines apart."""
    return any(len({name for name, _, _ in lines}) > 1 for lines in cells.values())


def longest(fields):
    """Second to the longest request of any kind, of the first round, in ms; whole seconds alone."""
    first = fields["rounds"][0]
    most_of = {}
    for seconds in first.get("seconds", {}).values():
        for second, _, _, most in seconds:
            if second + 1 <= first["window"]:
                most_of[second] = max(most_of.get(second, 0), most * 1000)
    return sorted(most_of.items())


class _Timeline:
    """Cells with their lines, and how these are called."""

    def __init__(self, labels, deed, cells):
        self._labels = labels
        self._deed = deed
        self._cells = cells
        self._several = repeated(cells)
        self._colours = self._by_label()

    def _label(self, arm, name):
        return f"{self._labels[arm]} ({name})" if self._several else self._labels[arm]

    def _by_label(self):
        """Colours, in the order of the labels; the same arm has the same colour in all rows."""
        labels = dict.fromkeys(self._label(arm, name) for arm in self._labels
                               for lines in self._cells.values()
                               for name, known, _ in lines if known == arm)
        return {label: COLOURS[number % len(COLOURS)] for number, label in enumerate(labels)}

    def _draw_row(self, axis, title, lines):
        drawn = [(self._colours[self._label(arm, name)], fields["returned"], longest(fields))
                 for name, arm, fields in lines if arm in self._labels]
        for colour, returned, points in drawn:
            if points:
                # The last one ends where its second does.
                seconds, most = zip(*points, (points[-1][0] + 1, points[-1][1]))
                axis.step(seconds, most, where="post", color=colour, linewidth=1.1)
            if returned is not None:
                axis.axvline(returned, color=colour, linewidth=0.8, linestyle="--")
        usual = [most for _, arm, fields in lines if arm == BASELINE for _, most in longest(fields)]
        shown = [most for _, _, points in drawn for _, most in points] + usual
        if shown:
            plotting.plain_log(axis.yaxis)
            axis.set_ylim(min(shown) / MARGIN, max(shown) * MARGIN)
        if usual:
            axis.axhspan(axis.get_ylim()[0], max(usual), color=GREEN, alpha=0.15, linewidth=0)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_title(title, fontsize=9, loc="left")
        axis.tick_params(axis="x", labelsize=7)
        axis.set_ylabel("ms", fontsize=8)
        axis.margins(x=0.01)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)

    def draw(self, pyplot, path):
        """A row for each cell."""
        figure, axes = pyplot.subplots(len(self._cells), 1, squeeze=False, layout="constrained",
                                       figsize=(9, ROW_INCHES * len(self._cells) + 1))
        for axis, (title, lines) in zip(axes.flat, self._cells.items()):
            self._draw_row(axis, title, lines)
        what, done = self._deed
        axes[-1][0].set_xlabel(f"seconds since the {what} began", fontsize=8)
        handles = [pyplot.Line2D([], [], color=colour) for colour in self._colours.values()]
        figure.legend(handles, list(self._colours), loc="outside lower center", ncol=3, fontsize=8,
                      frameon=False)
        figure.suptitle("The longest request of a foreground program in each second\n(dashed: the "
                        f"command has returned; green: up to the longest when nothing is {done})",
                        fontsize=10)
        figure.savefig(path, dpi=120)
        pyplot.close(figure)
