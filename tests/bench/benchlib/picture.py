# SPDX-License-Identifier: LGPL-2.1-or-later
"""Picture: ratios to the best peer as bars, for a README."""

from benchlib import plotting
from benchlib.arms import ARMS, BACKENDS

OWN_COLOURS = {"auto": "#0b5394", "threads": "#3d85c6", "uring": "#9fc5e8"}
PEER_COLOURS = {"rm": "#434343", "find": "#7f6000", "rsync": "#b45f06", "rmz": "#990000",
                "go": "#6aa84f", "perl": "#999999"}
CLIP = 3.0
GROUP_HEIGHT = 0.86
LEGEND_HEIGHT = 0.55


def draw(path, reports):
    """Write the picture; False without matplotlib, which nothing else needs."""
    pyplot = plotting.load()
    if not pyplot:
        return False
    measured = [report for report in reports if report.best_peer]
    if measured:
        _draw(pyplot, measured, path)
    return True


def _panels(reports):
    """Filesystem to its cells; ext4 with discard has one cell, which goes with ext4's."""
    panels = {}
    for report in reports:
        panels.setdefault(report.result.filesystem.partition("-")[0], []).append(report)
    return panels


def _draw(pyplot, reports, path):
    panels = _panels(reports)
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    most = max(map(len, panels.values()))
    height = rows * (0.6 + 0.75 * most) + LEGEND_HEIGHT
    figure, axes = pyplot.subplots(rows, columns, squeeze=False, figsize=(5.4 * columns, height))
    legend_share = LEGEND_HEIGHT / height
    figure.set_layout_engine("constrained", rect=(0, legend_share, 1, 1 - legend_share))
    for axis in axes.flat[len(panels):]:
        axis.set_visible(False)
    for axis, (kind, group) in zip(axes.flat, panels.items()):
        _draw_panel(axis, kind, group)
    figure.suptitle("Time to delete, as a multiple of the fastest other tool (shorter is faster)",
                    fontsize=12, fontweight="bold")
    _draw_legend(pyplot, figure, reports)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _draw_legend(pyplot, figure, reports):
    present = [name for name in _order() if any(name in report.arms for report in reports)]
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=_colour(name)) for name in present]
    labels = [f"reclaimctl, {name}" if name in BACKENDS else name for name in present]
    figure.legend(handles, labels, loc="lower center", ncol=5, frameon=False)


def _order():
    return [*BACKENDS, *(name for name, arm in ARMS.items() if not arm.own)]


def _colour(name):
    return OWN_COLOURS.get(name) or PEER_COLOURS.get(name, "#cccccc")


def _draw_panel(axis, kind, reports):
    names = [name for name in _order() if any(name in report.arms for report in reports)]
    height = GROUP_HEIGHT / len(names)
    for row, report in enumerate(reports):
        present = [name for name in names if report.ratio(name) is not None]
        top = row - height * (len(present) - 1) / 2
        for place, name in enumerate(present):
            _draw_bar(axis, top + place * height, height, report.ratio(name), _colour(name))
    axis.axvline(1.0, color="black", linewidth=1)
    axis.set_yticks(range(len(reports)), [report.result.cell.name for report in reports])
    axis.set_ylim(len(reports) - 0.5, -0.5)
    axis.set_xlim(0, CLIP)
    axis.set_title(kind, fontsize=11)
    axis.tick_params(axis="y", length=0)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _draw_bar(axis, place, height, ratio, colour):
    """Bars longer than the panel end at its edge and say how long they are."""
    axis.barh(place, min(ratio, CLIP), height=height * 0.92, color=colour)
    if ratio > CLIP:
        axis.text(CLIP - 0.03, place, f"{ratio:.1f}", va="center", ha="right", color="white",
                  fontsize=6)
