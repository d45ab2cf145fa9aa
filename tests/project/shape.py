"""How the code is built: no function too long, no file too long, and no modules that import each other in a circle.

Every import counts, also one inside a function or under `TYPE_CHECKING`: a circle that only shows late is a circle.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from tests.project.bans import ROOT, Finding, repository_files, statements

MAX_LINES = 600
MAX_FUNCTION = 80
Graph = dict[str, set[str]]

# Where a function of a module begins, as the project writes them: `function name(`, a method, or a name given to one.
_BEGINS = re.compile(
    r"^(?P<indent> *)(?:export )?(?:default )?(?:"
    r"(?:async )?function\*? ?(?P<name>[\w$]*)\(|"
    r"(?:static |async |get |set )*\*?(?P<method>[#\w$]+)\((?!.*;$).*\) \{$|"
    r"(?:const|let) (?P<given>[\w$]+) = (?:async )?(?:\([^)]*\)|[\w$]+) => \{$)"
)
_NOT_METHODS = {"if", "for", "while", "switch", "catch", "with", "function"}
_FROM = re.compile(r"(?:\bfrom |\bimport |\bimport\()[\"'](\.{1,2}/[^\"']+)[\"']")


def check_lengths(path: str, text: str) -> Iterator[Finding]:
    """Findings in one file of Python or JavaScript, of the product or of its tests."""
    lines = text.count("\n")
    if lines > MAX_LINES:
        yield Finding(path, MAX_LINES, f"{lines} lines; split it by concern, {MAX_LINES} is the most")
    functions = python_functions(text) if path.endswith(".py") else module_functions(text)
    for name, first, length in functions:
        if length > MAX_FUNCTION:
            yield Finding(path, first, f"{name} is {length} lines long; {MAX_FUNCTION} is the most")


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def module_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, first line and length of each: it ends where a line with its indent closes it."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        found = _BEGINS.match(line)
        if not found or found["method"] in _NOT_METHODS:
            continue
        closing = found["indent"] + "}"
        end = next((n for n in range(number + 1, len(lines)) if lines[n].startswith(closing)), number)
        if "}" in line and line.rstrip().endswith(("}", "};")):
            end = number
        yield found["name"] or found["method"] or found["given"] or "a function", number + 1, end - number + 1


def python_imports(source: Path) -> Graph:
    """Which module of ours imports which, wherever in the file it does."""
    files = {}
    for file in source.rglob("*.py"):
        parts = file.relative_to(source).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    graph: Graph = {}
    for name, file in files.items():
        asked: set[str] = set()
        for node in statements(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                asked |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
                above = package[: len(package) - node.level + 1] if node.level else []
                origin = ".".join([*above, *([node.module] if node.module else [])])
                asked |= {f"{origin}.{a.name}" if f"{origin}.{a.name}" in files else origin for a in node.names}
        graph[name] = (asked & set(files)) - {name}
    return graph


def module_imports(root: Path, names: Iterable[str]) -> Graph:
    graph: Graph = {}
    for name in names:
        asked = _FROM.findall((root / name).read_text(encoding="utf-8"))
        graph[name] = {_beside(name, each) for each in asked}
    return {name: asked & set(graph) for name, asked in graph.items()}


def _beside(name: str, asked: str) -> str:
    parts: list[str] = []
    for part in (PurePosixPath(name).parent / asked).parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


def circles(graph: Graph) -> list[list[str]]:
    """The sets of modules that reach each other, each sorted; none where every import goes one way."""
    left = dict(graph)
    while True:
        ends = {name for name, asked in left.items() if not asked & set(left)}
        starts = set(left) - set().union(*(left[name] for name in left)) if left else set()
        if not ends | starts:
            break
        left = {name: asked for name, asked in left.items() if name not in ends | starts}
    found = []
    while left:
        first = min(left)
        circle = {name for name in _reached(left, first) if first in _reached(left, name)}
        if len(circle) > 1:
            found.append(sorted(circle))
        left = {name: asked for name, asked in left.items() if name not in circle | {first}}
    return found


def _reached(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph.get(waiting.pop(), ()):
            if name in graph and name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def code_files() -> list[str]:
    """Every file of Python and JavaScript that is or may be committed, but for those that are generated."""
    return [
        name
        for name in repository_files()
        if name.endswith((".py", ".mjs")) and "generated" not in name and not name.startswith("docs/")
    ]


def check_shape() -> Iterator[Finding]:
    for name in code_files():
        yield from check_lengths(name, (ROOT / name).read_text(encoding="utf-8"))
    modules = [name for name in code_files() if name.endswith(".mjs")]
    for graph in (python_imports(ROOT / "src"), module_imports(ROOT, modules)):
        for circle in circles(graph):
            yield Finding(circle[0], 1, f"an import cycle: {', '.join(circle)}")
