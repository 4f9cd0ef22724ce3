# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plotting: matplotlib, which nothing but the pictures needs."""


def load():
    """Its pyplot, for files and not for a screen; None where it is not installed."""
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "reclaimd"
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    return pyplot


def plain_log(*axes):
    """Axes of a plot that are logarithmic, with plain numbers also where they span less than a decade."""
    from matplotlib import ticker  # pylint: disable=import-outside-toplevel
    for each in axes:
        each.axes.set(**{each.axis_name + "scale": "log"})
        each.set_minor_locator(ticker.LogLocator(subs=(2, 5)))
        each.set_major_formatter(ticker.FormatStrFormatter("%g"))
        each.set_minor_formatter(ticker.FormatStrFormatter("%g"))
        each.set_tick_params(which="both", labelsize=7)
