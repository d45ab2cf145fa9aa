"""The Node runner is as small as its purpose: what is reached, in layers, and how much of it is written by hand.

The rule, in CONTRIBUTING.md: node/ holds only what `updater.mjs run` and `webhook verify` reach. What both
languages list (records, errors, settings, words, tables) is made from the code of Python into node/generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.project.bans import ROOT, Finding

ENTRY = "updater.mjs"
GENERATED = "node/generated/"
TESTS = "node/tests/"
MOST_LINES = 16_200  # by hand: node/ and updater.mjs, without node/generated and node/tests

# Each sees itself and what stands below it; of edges each sees itself alone.
DOORS = ("cli", "command_session", "render", "run_command", "runner", "sinks/github_actions", "webhook_verify")
EDGES = ("config", "environment", "log", "sinks/", "sources/", "store/", "updaters/")
DURABLE = ("store/database", "store/fsio", "store/locks", "store/system")  # how files are written: ground for all

_IMPORT = re.compile(r"^(?:import|export)\s+(?:(?P<names>[^;\"]+?)\s+from\s+)?\"(?P<source>\.[^\"]+)\"", re.M)
_LATE = re.compile(
    r"(?:\{(?P<names>[^{}]*)\}\s*=\s*)?\(?(?:await\s+)?import\(\"(?P<source>\.[^\"]+)\"\)\)?(?:\.(?P<one>\w+))?"
)
_EXPORT = re.compile(r"^export (?:async )?(?:function\*?|class|const|let) ([\w$]+)", re.M)
_METHOD = re.compile(r"^  (?:static )?(?:async )?\*?(?:get |set )?(#?[\w$]+)\([^\n]*\) \{$", re.M)
_KEYWORDS = {"constructor", "if", "for", "while", "switch", "catch"}
_CALLED_BY_NODE = {"_read", "_write", "_final", "_destroy"}  # of a stream


def modules(root: Path = ROOT) -> dict[str, str]:
    """Every module of the product by its path, and its text."""
    paths = [root / ENTRY, *sorted((root / "node").rglob("*.mjs"))]
    names = {path.relative_to(root).as_posix(): path for path in paths}
    return {
        name: path.read_text(encoding="utf-8")
        for name, path in names.items()
        if not name.startswith(TESTS) and "node_modules" not in name
    }


def imports(name: str, text: str) -> Iterator[tuple[str, set[str]]]:
    """What a module imports: from where, and which names; `*` for all of them."""
    for found in [*_IMPORT.finditer(text), *_LATE.finditer(text)]:
        source = (Path("/") / name).parent / found["source"]
        target = source.resolve().relative_to("/").as_posix()
        said = found["names"] or ""
        names = set(re.findall(r"([\w$]+)(?:\s+as\s+[\w$]+)?", re.sub(r"^[^{]*\{|\}[^}]*$", "", said)))
        if whole := re.search(r"\*(?:\s+as\s+([\w$]+))?", said):
            names = set(re.findall(rf"\b{whole[1]}\.([\w$]+)", text)) if whole[1] else {"*"}
        if found.re is _LATE and not said:
            names = {found["one"]} if found["one"] else {"*"}
        yield target, names


def reached(there: dict[str, str]) -> set[str]:
    found: set[str] = set()
    left = [ENTRY]
    while left:
        name = left.pop()
        if name not in found and name in there:
            found.add(name)
            left += [target for target, _ in imports(name, there[name])]
    return found


def check_reached(there: dict[str, str]) -> Iterator[Finding]:
    """Modules, exported names and methods that neither `run` nor `webhook verify` could come to."""
    alive = reached(there)
    for name in sorted(there.keys() - alive):
        yield Finding(name, 1, f"{ENTRY} does not reach it: remove it")
    asked: dict[str, set[str]] = {}
    for name in alive:
        for target, names in imports(name, there[name]):
            asked.setdefault(target, set()).update(names)
    whole = "\n".join(there[name] for name in alive)
    for name in sorted(alive):
        if name.startswith(GENERATED):
            continue
        text = there[name]
        for export in _EXPORT.findall(text):
            used = asked.get(name, set())
            times = len(re.findall(rf"(?<![\w$]){re.escape(export)}(?![\w$])", text))
            if export not in used and "*" not in used and times < 2:
                yield Finding(name, 1, f"nobody asks for {export}: remove it")
        for method in set(_METHOD.findall(text)) - _KEYWORDS - _CALLED_BY_NODE:
            if not re.search(rf"\.{re.escape(method)}(?![\w$])", whole):
                yield Finding(name, 1, f"nobody calls {method}(): remove it")


def layer(name: str) -> tuple[int, str]:
    """How high a module stands, and in which room."""
    inside = name.removeprefix("node/").removesuffix(".mjs")
    if name == ENTRY or inside in DOORS:
        return 4, "door"
    if inside in DURABLE:
        return 0, "ground"
    if inside == "runtime":
        return 3, "runtime"
    for edge in EDGES:
        if inside == edge or (edge.endswith("/") and inside.startswith(edge)):
            return 2, "config" if edge == "environment" else edge
    return (1, "engine/") if inside.startswith("engine/") else (0, "ground")


def check_layers(there: dict[str, str]) -> Iterator[Finding]:
    """Doors see the runtime, the runtime all below it, edges the ground alone, the engine the ground."""
    for name, text in sorted(there.items()):
        here, room = layer(name)
        for target, _ in imports(name, text):
            there_is, other = layer(target)
            seen = there_is == 0 or here == 3 or (here == 4 and other in ("runtime", "config"))
            if other != room and (there_is > here or not seen):
                yield Finding(name, 1, f"{room} may not see {target}")


def by_hand(there: dict[str, str]) -> int:
    return sum(text.count("\n") for name, text in there.items() if not name.startswith(GENERATED))
