"""The allowed requests, from the one place where they are written: next to the policies' own tests."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import regorus

ROOT = Path(__file__).resolve().parents[2]
# Each example by the name it has there, and the gate that it is asked of.
EXAMPLES = {
    "promotion": "promotion",
    "faircare": "faircare",
    "telemetry": "telemetry",
    "zone": "zone",
    "to_processed": "zone",
    "from_quarantine": "zone",
    "operation": "operation",
    "minimum": "minimum",
    "serve": "serve",
}

# What may be missing without a no, by its place: it is told as a warning.
_ADVISED = {"extent", "quality/results", "provenance/code_hash", "provenance/tools", "identity/description"}
_ADVISED |= {"licence/checked", "licence/redistribution", "licence/checked_by"}
_LATE = _ADVISED | {"schema", "licence", "quality", "identity/title", "label/closed_parts", "receipt/sensitivity"}
_LATE |= {"provenance/attestation", "provenance/inputs", "receipt/inputs", "receipt/decisions"}
TOLERATED: dict[str, set[str]] = {
    "zone": _ADVISED,
    "to_processed": _LATE,
    "from_quarantine": {"provenance/inputs", "provenance"},
}


def is_tolerated(name: str, path: tuple[str | int, ...]) -> bool:
    place = "/".join(map(str, path))
    return any(place == other or place.startswith(f"{other}/") for other in TOLERATED.get(name, ()))


def _read() -> dict[str, dict[str, Any]]:
    engine = regorus.Engine()
    engine.add_policy("examples", (ROOT / "policies" / "examples_test.rego").read_text(encoding="utf-8"))
    return {name: json.loads(engine.eval_rule_as_json(f"data.kfm.examples.{name}")) for name in EXAMPLES}


_FOUND = _read()


def example(name: str) -> dict[str, Any]:
    """A question as it is handed to decide()."""
    return {"gate": EXAMPLES[name], **copy.deepcopy(_FOUND[name])}


Path_ = tuple[str | int, ...]


class Change(NamedTuple):
    path: Path_
    kind: str
    value: Any

    def apply(self, question: Any) -> bool:
        """False if what it would change is no longer there."""
        here = question
        for part in self.path[:-1]:
            if not _has(here, part):
                return False
            here = here[part]
        last = self.path[-1]
        if not _has(here, last):
            return False
        if self.kind == "removed":
            del here[last]
        else:
            here[last] = copy.deepcopy(self.value)
        return True


def _has(here: Any, part: str | int) -> bool:
    if isinstance(here, dict):
        return part in here
    return isinstance(here, list) and isinstance(part, int) and part < len(here)


def paths(value: Any, at: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every place in a question, whole parts and single values."""
    if at:
        yield at, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*at, key))


def retyped(value: Any) -> list[Any]:
    """The same said in another type: what a careless writer or reader of JSON makes of it."""
    if isinstance(value, bool):
        return [str(value).lower(), int(value), [value], {}]
    if isinstance(value, int | float):
        return [str(value), True, [value], {"value": value}]
    if isinstance(value, str):
        return [7, True, [value], {"value": value}]
    if isinstance(value, list):
        return ["[]", {str(at): item for at, item in enumerate(value)}, True, 1]
    return [[value], "{}", True, 1]


def changes(question: dict[str, Any]) -> list[Change]:
    found = []
    for path, value in paths(question):
        found.append(Change(path, "removed", None))
        found.append(Change(path, "nulled", None))
        found += [Change(path, "retyped", other) for other in retyped(value)]
    return found
