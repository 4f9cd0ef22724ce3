# SPDX-License-Identifier: LGPL-2.1-or-later
"""Curves: harm against time, a panel for each cell; who is further left and further down is better.

The loops that no other loop beats in both draw the curve that reclaimctl has to stay below.
"""

from benchlib import plotting
from benchlib.deleters import BASELINE, OWN, find
from benchlib.verdict import P99_BAR

COLOURS = {"fdatasync": "#0b5394", "overwrite": "#674ea7", "read": "#b45f06", "transaction": "#38761d"}
COLUMNS_MAX = 4


def draw(path, verdicts):
    """Write the picture; False without matplotlib, which nothing else needs."""
    pyplot = plotting.load()
    if not pyplot:
        return False
    measured = [verdict for verdict in verdicts if len(verdict.arms) > 1]
    if measured:
        _draw(pyplot, measured, path)
    return True


def _draw(pyplot, verdicts, path):
    columns = min(COLUMNS_MAX, len(verdicts))
    rows = -(-len(verdicts) // columns)
    figure, axes = pyplot.subplots(rows, columns, squeeze=False, layout="constrained",
                                   figsize=(4.6 * columns, 3.6 * rows + 0.5))
    for axis in axes.flat[len(verdicts):]:
        axis.set_visible(False)
    for axis, verdict in zip(axes.flat, verdicts):
        _draw_panel(axis, verdict)
    figure.suptitle("p99 of foreground requests against the time a deletion takes\n"
                    "(line: the best fixed loops; triangle: not run to the end; "
                    f"dotted: no deletion; dashed: {P99_BAR} times that; star: reclaimctl)",
                    fontsize=11)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _points(verdict, kind):
    """Name to (seconds, p99 in ms), for arms of which both are known."""
    points = {}
    for name, arm in verdict.arms.items():
        p99 = arm.kinds[kind]["p99"]
        time = arm.seconds()
        if name != BASELINE and p99 and time:
            points[name] = (time, p99 * 1000)
    return points


def frontier(points):
    """Those that no other beats in both, by time."""
    best, chosen = None, []
    for time, harm in sorted(points):
        if best is None or harm < best:
            chosen.append((time, harm))
            best = harm
    return chosen


def _draw_panel(axis, verdict):
    for kind in verdict.cell.kinds:
        colour = COLOURS[kind]
        points = _points(verdict, kind)
        loops = [point for name, point in points.items() if find(name).is_loop]
        if loops:
            axis.plot(*zip(*frontier(loops)), color=colour, linewidth=1, label=kind)
        for name, point in points.items():
            _mark(axis, name, point, colour, verdict.arms[name].stopped)
        if BASELINE in verdict.arms:
            usual = verdict.arms[BASELINE].kinds[kind]["p99"] * 1000
            axis.axhline(usual, color=colour, linewidth=0.8, linestyle=":")
            axis.axhline(usual * P99_BAR, color=colour, linewidth=0.8, linestyle="--")
    plotting.plain_log(axis.xaxis, axis.yaxis)
    axis.set_title(verdict.cell.name, fontsize=9)
    axis.set_xlabel("seconds until done", fontsize=8)
    axis.set_ylabel("p99, ms", fontsize=8)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=7, frameon=False)


def _mark(axis, name, point, colour, stopped):
    if find(name).is_loop:
        axis.plot(*point, ">" if stopped else "o", color=colour, markersize=3)
        return
    own = name == OWN
    axis.plot(*point, "*" if own else "x", color=colour, markersize=13 if own else 5,
              markeredgecolor="black" if own else colour, markeredgewidth=0.6 if own else 1.2)
    if not own:
        axis.annotate(name, point, fontsize=6, xytext=(3, 3), textcoords="offset points")
