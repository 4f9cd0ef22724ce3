# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads OpenMetrics 1.0 text, and refuses what the specification does not allow, as far as reclaimctl
could do it."""
import math
import re

NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(r"(%s)(?:\{(%s(?:,%s)*)\})? ([0-9.]+(?:e[+-]?[0-9]+)?|\+Inf)\Z" % (NAME, LABEL, LABEL))
SUFFIXES = {"gauge": ("",), "counter": ("_total",), "info": ("_info",), "stateset": ("",),
            "histogram": ("_bucket", "_sum", "_count")}


class Family:
    def __init__(self, name):
        self.name, self.kind, self.unit, self.help = name, None, None, None
        self.samples = {}


def require(condition, *what):
    if not condition:
        raise AssertionError("no OpenMetrics: %r" % (what,))


def describe(families, line):
    word, name, text = line[2:].split(" ", 2)
    require(word in ("TYPE", "UNIT", "HELP") and re.fullmatch(NAME, name), line)
    if not families or families[-1].name != name:
        require(name not in [f.name for f in families], "a family in two places", line)
        families.append(Family(name))
    family = families[-1]
    field = {"TYPE": "kind", "UNIT": "unit", "HELP": "help"}[word]
    require(not family.samples and getattr(family, field) is None, "described late or twice", line)
    setattr(family, field, text)
    require(word != "TYPE" or text in SUFFIXES, line)
    require(word != "UNIT" or name.endswith("_" + text), line)


def take(family, line):
    m = SAMPLE.match(line)
    require(m and family.kind, line)
    require(m.group(1) in [family.name + s for s in SUFFIXES[family.kind]], line)
    labels = re.findall(LABEL, m.group(2) or "")
    require(len(dict(labels)) == len(labels), "a label twice", line)
    key = (m.group(1), tuple(sorted(labels)))
    require(key not in family.samples, "a sample twice", line)
    value = float(m.group(len(m.groups())))
    require(family.kind not in ("info", "stateset") or value in (0, 1), line)
    require(family.kind != "stateset" or family.name in dict(labels), line)
    family.samples[key] = value


def check_histogram(family):
    series = {}
    for (name, labels), value in family.samples.items():
        rest = tuple(pair for pair in labels if pair[0] != "le")
        series.setdefault(rest, {})[name[len(family.name):], dict(labels).get("le")] = value
    for parts in series.values():
        buckets = [(float(le), n) for (suffix, le), n in parts.items() if suffix == "_bucket"]
        require(buckets == sorted(buckets) and buckets[-1][0] == math.inf, "buckets", family.name)
        counts = [n for _, n in buckets]
        require(counts == sorted(counts), "counts must grow", family.name)
        require(parts["_count", None] == counts[-1] and ("_sum", None) in parts, family.name)


def parse(text):
    """Returns {name: {labels: value}} of all samples; labels are a tuple of pairs."""
    families = []
    require(text.endswith("\n# EOF\n"), "the end")
    for line in text[:-len("# EOF\n")].splitlines():
        if line.startswith("#"):
            describe(families, line)
        else:
            take(families[-1], line)
    values = {}
    for family in families:
        require(family.kind and family.help, "not described", family.name)
        if family.kind == "histogram":
            check_histogram(family)
        for (name, labels), value in family.samples.items():
            values.setdefault(name, {})[labels] = value
    return values
