"""The bans of the project for the modules of the Node runner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.project.bans import MODULE_NAMES, ROOT, Finding

MAX_WIDTH = 130
GENERATED = "node/generated/"


class ModuleBan(NamedTuple):
    """What no module may mention, but for those that may."""

    pattern: re.Pattern[str]
    why: str
    allowed: tuple[str, ...] = ()


BANS = (
    ModuleBan(
        re.compile(r"\bDate\.now\b|\bnew Date\b|\bperformance\.now\b|\bprocess\.hrtime\b"),
        "only clock.mjs reads the time; take a Clock",
        ("node/clock.mjs",),
    ),
    ModuleBan(
        re.compile(r"\bprocess\.env\b"),
        "only the entry reads the environment; take it as an argument",
        ("node/clock.mjs", "updater.mjs"),
    ),
    ModuleBan(
        re.compile(r"\bprocess\.exit\b"),
        "only the entry ends the process; throw",
        ("updater.mjs", "node/store/driver.mjs"),
    ),
    ModuleBan(
        re.compile(r"\bMath\.random\b|\brandomUUID\b"),
        "nothing here is left to chance",
        ("node/engine/scratch.mjs",),  # the name of a file that is gone at once
    ),
    ModuleBan(
        re.compile(r"\beval\(|\bnew Function\b|node:vm\b|node:child_process\b"), "turns text into code or commands"
    ),
    ModuleBan(
        re.compile(r"\bcreateRequire\b|\brequire\("),
        "import it, so that it is seen here",
        ("node/patterns.mjs", "node/store/database.mjs"),  # the packages: re2js late, and better-sqlite3
    ),
    ModuleBan(re.compile(r"\bconsole\."), "only the screen speaks; log an event"),
    ModuleBan(
        re.compile(
            r"\bfs\.(?:write|append|copy|cp|rename|link|symlink|unlink|rm|truncate|ftruncate|mkdtemp|createWriteStream)"
            r"\w*|\bO_(?:WRONLY|RDWR|CREAT|APPEND|TRUNC)\b"
        ),
        "only the durable writers change files",
        # As in Python: the publisher has its own, a place is tried out in a scratch folder, sorting spills to a file
        # that nobody sees; the screen writes to descriptors that are open.
        (
            "node/store/fsio.mjs", "node/store/filesystem_check.mjs", "node/store/locks.mjs",
            "node/sinks/folder_publisher.mjs",
            "node/render.mjs", "node/engine/scratch.mjs", "node/sinks/github_actions.mjs",
        ),
    ),
)  # fmt: skip
_COMMENT = re.compile(r"^\s*(?:\*|/\*|//)")
_IMPORT = re.compile(r"^import\s+(?P<names>[^;\"']+?)\s+from\s+[\"'](?P<source>[^\"']+)[\"'];", re.M)
_IMPORT_LATE = re.compile(r"const (?P<names>\{[^}]*\}) = await import\(\"(?P<source>[^\"]+)\"\)")
_EXPORT = re.compile(r"^export (?:default )?(?:const|let|class|(?:async )?function\*?) ?([\w$]+)", re.M)
_EXPORTED_LIST = re.compile(r"^export \{([^}]*)\}", re.M)
_PASSED_ON = re.compile(r"^export \* from \"([^\"]+)\"", re.M)
_NAME = re.compile(r"(?:\*\s+as\s+|[\w$]+\s+as\s+)?([\w$]+)")


def check_module(path: str, text: str) -> Iterator[Finding]:
    """Findings in one module of the product; `path` is relative to the repository."""
    if path.startswith(GENERATED):
        return  # compared with what the code of Python makes today
    lines = text.split("\n")
    stem = path.rpartition("/")[2].removesuffix(".mjs")
    if stem in MODULE_NAMES:
        yield Finding(path, 1, f"a module called {stem} says nothing; name it after what it does")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_WIDTH and not re.search(r"[\"'`][^\"'`]{80,}[\"'`]", line):
            yield Finding(path, number, f"{len(line)} characters wide; {MAX_WIDTH} is the most")
        if line != line.rstrip() or "\t" in line:
            yield Finding(path, number, "a tab, or a space at the end of the line")
        if _COMMENT.match(line):
            continue
        for ban in BANS:
            if path not in ban.allowed and (found := ban.pattern.search(line)):
                yield Finding(path, number, f"{found.group()}: {ban.why}")
    yield from _check_imports(path, text)


def _check_imports(path: str, text: str) -> Iterator[Finding]:
    for found in _IMPORT.finditer(text):
        number = text.count("\n", 0, found.start()) + 1
        source = found["source"]
        if not source.startswith(("node:", "./", "../")) and source not in ("better-sqlite3", "re2js"):
            yield Finding(path, number, f"{source}: the runner depends on better-sqlite3 and re2js, and nothing else")
        yield from _check_exported(path, number, source, found["names"])
        rest = text[: found.start()] + text[found.end() :]
        for part in re.split(r"[{},]", found["names"]):
            name = _NAME.fullmatch(part.strip())
            if name and not re.search(rf"(?:(?<![\w$.])|(?<=\.\.\.)){re.escape(name[1])}(?![\w$])", rest):
                yield Finding(path, number, f"{name[1]} is imported and not used")
    for found in _IMPORT_LATE.finditer(text):
        yield from _check_exported(path, text.count("\n", 0, found.start()) + 1, found["source"], found["names"])


def _check_exported(path: str, number: int, source: str, names: str) -> Iterator[Finding]:
    """What is imported from a module of ours must be there: Node notices only when the module is loaded."""
    if not source.startswith("."):
        return
    target = (ROOT / path).parent / source
    if not target.is_file():
        yield Finding(path, number, f"{source} does not exist")
        return
    exported = exports(target)
    listed = re.search(r"\{(.*)\}", names, re.S)
    for part in listed[1].split(",") if listed else []:
        if part.strip() and part.split()[0] not in exported:
            yield Finding(path, number, f"{source} exports no {part.split()[0]}")


def exports(module: Path) -> set[str]:
    """The names a module gives, those of other modules that it passes on too."""
    text = module.read_text(encoding="utf-8")
    found = set(_EXPORT.findall(text))
    for group in _EXPORTED_LIST.findall(text):
        found |= {part.split()[-1] for part in group.split(",") if part.strip()}
    for source in _PASSED_ON.findall(text):
        found |= exports(module.parent / source)
    return found
