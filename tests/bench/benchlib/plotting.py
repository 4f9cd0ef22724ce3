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
