# SPDX-License-Identifier: LGPL-2.1-or-later
"""Timeline: the longest request of each second, from before a deletion until after it; a row for
each cell, a line for each arm of each report.

It reads reports written with --json, so that versions can be compared: each report is named by its
file.
"""

import json
import os

from benchlib import plotting
from benchlib.deleters import BASELINE, OWN

COLOURS = ("#0b5394", "#cc0000", "#38761d", "#b45f06", "#674ea7", "#7f7f7f")
ROW_INCHES = 1.7


def draw(path, reports):
    """Write the picture; False without matplotlib, which nothing else needs."""
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
        _draw(pyplot, cells, path, len(reports) > 1)
    return True


def _longest(fields):
    """Second to the longest request of any kind, of the first round, in ms."""
    longest = {}
    for seconds in fields["rounds"][0].get("seconds", {}).values():
        for second, _, _, most in seconds:
            longest[second] = max(longest.get(second, 0), most * 1000)
    return sorted(longest.items())


def _draw(pyplot, cells, path, several):
    figure, axes = pyplot.subplots(len(cells), 1, squeeze=False, layout="constrained",
                                   figsize=(9, ROW_INCHES * len(cells) + 0.8))
    colours = {}
    for axis, (title, lines) in zip(axes.flat, cells.items()):
        usual = 0
        for name, arm, fields in lines:
            points = _longest(fields)
            if arm == BASELINE:
                usual = max([usual] + [longest for _, longest in points])
                continue
            label = f"{'reclaimctl' if arm == OWN else arm}{f' ({name})' if several else ''}"
            colour = colours.setdefault(label, COLOURS[len(colours) % len(COLOURS)])
            if points:
                axis.plot(*zip(*points), color=colour, linewidth=1.1, label=label)
            if fields["returned"] is not None:
                axis.axvline(fields["returned"], color=colour, linewidth=0.7, linestyle="--")
        if usual:
            axis.axhspan(0, usual, color="#009e73", alpha=0.15, linewidth=0)
        axis.set_yscale("log")
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_title(title, fontsize=9, loc="left")
        axis.tick_params(labelsize=7)
        axis.set_ylabel("ms", fontsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[-1][0].set_xlabel("seconds since the deletion began", fontsize=8)
    handles = [pyplot.Line2D([], [], color=colour) for colour in colours.values()]
    figure.legend(handles, list(colours), loc="outside lower center", ncol=3, fontsize=8,
                  frameon=False)
    figure.suptitle("The longest request of a foreground program in each second\n(dashed: the "
                    "command has returned; green: nothing is deleted)", fontsize=10)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
