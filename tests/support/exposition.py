"""Prometheus' text format 0.0.4, read strictly: whatever a scraper might stumble over is an error here."""

import dataclasses
import math
import re

_SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


class Malformed(Exception):
    pass


@dataclasses.dataclass
class Family:
    name: str
    help: str
    type: str = ""
    samples: dict = dataclasses.field(default_factory=dict)  # (name, ((label, value), ...)) -> value

    def label_names(self):
        """Each combination of label names that its samples have, without those of the format."""
        return {tuple(name for name, _ in labels if not (self.type == "histogram" and name == "le"))
                for _, labels in self.samples}

    def bounds(self):
        """The upper bounds of its buckets, in order."""
        return sorted({float(dict(labels)["le"]) for name, labels in self.samples if name == f"{self.name}_bucket"})

    def value(self, suffix="", **labels):
        """The value of one sample; nothing if there is none."""
        return self.samples.get((self.name + suffix, tuple(sorted(labels.items()))))


def parse(text):
    """Families by name. Raises Malformed where a line or the order of lines is wrong."""
    if text and not text.endswith("\n"):
        raise Malformed("the last line has no end")
    families, current = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, words = (line + " ").split(" ", 3)
            if name in families:
                raise Malformed(f"a second time: {line}")
            current = families[name] = Family(name, words.strip())
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if current is None or current.name != name or current.type or current.samples:
                raise Malformed(f"out of place: {line}")
            current.type = kind
        else:
            _add(current, line)
    for family in families.values():
        _check(family)
    return families


def _add(family, line):
    match = _SAMPLE.match(line)
    if family is None or not family.type or not match:
        raise Malformed(f"no sample: {line}")
    name, labels, value = match.groups()
    if name.removeprefix(family.name) not in _SUFFIXES.get(family.type, ("",)):
        raise Malformed(f"not a sample of {family.name}: {line}")
    key = (name, tuple(sorted(_labels(labels or "", line))))
    if key in family.samples:
        raise Malformed(f"a second time: {line}")
    family.samples[key] = float(value)


def _labels(text, line):
    found, at = [], 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if not match:
            raise Malformed(f"no label: {line}")
        found.append((match[1], re.sub(r'\\(.)', lambda one: "\n" if one[1] == "n" else one[1], match[2])))
        at = match.end()
    if len({name for name, _ in found}) != len(found):
        raise Malformed(f"a label twice: {line}")
    return found


def _check(family):
    if not family.samples:
        raise Malformed(f"{family.name}: no samples")
    if family.type == "counter" and min(family.samples.values()) < 0:
        raise Malformed(f"{family.name}: a counter below zero")
    if family.type == "histogram":
        _check_histogram(family)


def _check_histogram(family):
    """For each set of labels: buckets that grow up to infinity, where all are counted."""
    series = {}
    for (name, labels), value in family.samples.items():
        if name == f"{family.name}_bucket":
            bound = float(dict(labels)["le"])
            series.setdefault(tuple(one for one in labels if one[0] != "le"), []).append((bound, value))
    for labels, buckets in series.items():
        buckets.sort()
        counts = [count for _, count in buckets]
        if counts != sorted(counts) or buckets[-1][0] != math.inf:
            raise Malformed(f"{family.name}{labels}: the buckets do not grow up to infinity")
        if family.value("_count", **dict(labels)) != counts[-1] or family.value("_sum", **dict(labels)) is None:
            raise Malformed(f"{family.name}{labels}: count or sum is missing or wrong")
