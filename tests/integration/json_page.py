# SPDX-License-Identifier: LGPL-2.1-or-later
"""The section JSON of reclaimctl(1): which keys the output of a verb has."""
import os
import re

PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "man/reclaimctl.1.scd")


def described(verb, besides=()):
    """All that are named of it, at whatever depth; `besides` are words that are no keys."""
    with open(PAGE, encoding="utf-8") as f:
        section = re.search(r"(?ms)^# JSON$(.*?)^# ", f.read())[1]
    (text,) = [text for heads, text in re.findall(r"(?m)^(\*.*)\n((?:\t.*\n)+)", section)
               if "*%s*" % verb in heads.split(", ")]
    return set(re.findall(r"\*([a-z_]+)\*", text)) - set(besides)


def printed(value):
    """The keys of a value and of all that is in it."""
    if isinstance(value, list):
        return set().union(*map(printed, value))
    return set(value).union(*map(printed, value.values())) if isinstance(value, dict) else set()
