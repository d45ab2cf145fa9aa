"""A strict reader of the Prometheus text format, version 0.0.4."""

from __future__ import annotations

import re
from typing import NamedTuple

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
SUFFIXES = ("_bucket", "_sum", "_count")


class Family(NamedTuple):
    kind: str
    help: str
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]

    def value(self, suffix: str = "", **labels: str) -> float:
        (found,) = [
            value
            for (name, has), value in self.samples.items()
            if name.endswith(suffix) and set(labels.items()) <= set(has)
        ]
        return found


def read(text: str) -> dict[str, Family]:
    """The families by name. AssertionError for anything that the format does not allow."""
    assert text.endswith("\n")
    families: dict[str, Family] = {}
    said, current = "", ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            current, _, said = line.removeprefix("# HELP ").partition(" ")
            assert NAME.fullmatch(current) and current not in families and said, line
        elif line.startswith("# TYPE "):
            name, _, kind = line.removeprefix("# TYPE ").partition(" ")
            assert name == current and kind in ("counter", "gauge", "histogram"), line
            assert kind != "counter" or name.endswith("_total"), line
            families[name] = Family(kind, said, {})
        else:
            _sample(line, current, families)
    for name, family in families.items():
        if family.kind == "histogram":
            _histogram(name, family)
    return families


def _sample(line: str, current: str, families: dict[str, Family]) -> None:
    found = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)", line)
    assert found, line
    name, inside, number = found[1], found[2], found[3]
    labels = LABEL.findall(inside or "")
    assert ",".join(f'{label}="{value}"' for label, value in labels) == (inside or ""), line
    assert len(dict(labels)) == len(labels), line
    family = families[current]
    allowed = {current + suffix for suffix in SUFFIXES} if family.kind == "histogram" else {current}
    assert name in allowed, line
    key = name, tuple(sorted(labels))
    assert key not in family.samples, line
    family.samples[key] = float(number)


def _histogram(name: str, family: Family) -> None:
    series: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    for (sample, labels), value in family.samples.items():
        if sample == f"{name}_bucket":
            rest = tuple(each for each in labels if each[0] != "le")
            series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
    for labels, buckets in series.items():
        assert buckets == sorted(buckets) and buckets[-1][0] == float("inf")
        counts = [count for _, count in buckets]
        assert counts == sorted(counts)
        assert family.samples[f"{name}_count", labels] == counts[-1]
        assert f"{name}_sum" and (f"{name}_sum", labels) in family.samples
