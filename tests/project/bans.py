"""What may not be in the source, and where the few exceptions are.

`make lint` runs this file, and with it the shape of the project (shape.py); it prints one `path:line: what` for each
finding and exits 1 if there are any.
"""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Finding(NamedTuple):
    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


class Ban(NamedTuple):
    """Dotted names that may not be mentioned, and the files that may all the same."""

    names: frozenset[str]
    why: str
    allowed: tuple[str, ...] = ()


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


BANS = (
    Ban(
        _names(
            "time.time time.time_ns time.clock_gettime time.clock_gettime_ns time.localtime time.gmtime time.ctime "
            "datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today"
        ),
        "only clock.py reads the time; take a Clock",
        ("src/kfm/clock.py",),
    ),
    Ban(
        _names("time.monotonic time.monotonic_ns time.perf_counter time.perf_counter_ns time.process_time"),
        "only clock.py reads the time; take a Clock",
        # The deadline of a fetch, handed in and with the system's as default; it never reaches a record.
        ("src/kfm/clock.py", "src/kfm/sources/local_files.py", "src/kfm/sources/http.py"),
    ),
    Ban(
        _names(
            "os.replace os.rename os.renames os.link os.symlink os.truncate os.ftruncate shutil.move shutil.copy "
            "shutil.copy2 shutil.copyfile shutil.copyfileobj shutil.copytree shutil.rmtree tempfile.mkstemp "
            "tempfile.mkdtemp tempfile.NamedTemporaryFile tempfile.TemporaryDirectory "
            "os.O_WRONLY os.O_RDWR os.O_CREAT os.O_APPEND os.O_TRUNC"
        ),
        "only the durable writers change files",
        # `kfm init` makes new files and replaces none; `kfm doctor` tries a place out in a scratch folder. Nothing that
        # must not be lost is in a lock, in the log of what was turned away, or in the summary of a job; the command
        # line gives closed streams a stand-in; and trials of updaters lay out temporary houses, and clear them.
        (
            "src/kfm/fsio.py",
            "src/kfm/cli/start/init.py",
            "src/kfm/store/filesystem_check.py",
            "src/kfm/store/locks.py",
            "src/kfm/telemetry/rejected_requests.py",
            "src/kfm/sinks/github_actions.py",
            "src/kfm/cli/main.py",
            "src/kfm/testing/*",
        ),
    ),
    Ban(
        _names("pickle marshal shelve dill cloudpickle builtins.eval builtins.exec os.system os.popen pty.spawn"),
        "turns bytes into code or commands",
    ),
    Ban(
        _names(
            "yaml.load yaml.load_all yaml.unsafe_load yaml.unsafe_load_all yaml.full_load yaml.full_load_all "
            "yaml.Loader yaml.UnsafeLoader yaml.FullLoader yaml.CLoader"
        ),
        "YAML may build objects; read it with kfm.parsing.documents",
    ),
    Ban(_names("builtins.print"), "only the command line prints; log an event", ("src/kfm/cli/*",)),
)
WRITES = next(ban for ban in BANS if "os.replace" in ban.names)
OPENERS = {"builtins.open", "io.open", "os.fdopen", "codecs.open", "gzip.open", "bz2.open", "lzma.open"}
WRITING_METHODS = {"write_text", "write_bytes", "rename", "symlink_to", "hardlink_to"}
MODULE_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "managers", "base", "misc"}

# Texts that no file may hold: marks of unfinished work, of one person's machine, of how a text came to be.
PHRASES = (
    (re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b"), "unfinished work belongs in an issue"),
    (re.compile(r"(?<![\w.~-])/(root|Users|home/[a-z]+)/"), "a path of one machine"),
    (re.compile(r"pypi\.org|pythonhosted\.org|registry\.npmjs|index-url[ =]+\S*://", re.I), "a package registry"),
    (re.compile(r"co-authored" r"-by|(?:written|authored|coded|produced) (?:by|with) an? ", re.I), "how it was made"),
)
# Words that no text may hold, as digests, so that this list passes its own check. Its one rule: the
# project speaks of itself, not of the tools somebody wrote it with. `python -m tests.project.bans WORD…`
# prints the digest of a word.
WORDS = _names(
    "32e83e92d4 8c70b25cbb 94a168d2da d298391b07 a39a7ffad4 eea82f53ec 487b91042c de2187af3f 053ea4804e "
    "60965168ce c857d09db2 c70eca6b0f 7d3194f79e 3ea125d0bf 57de4cf401 5d72436256 386ebc0efd"
)
TEXT_SUFFIXES = {
    ".py",
    ".md",
    ".toml",
    ".yml",
    ".yaml",
    ".sh",
    ".sql",
    ".cfg",
    ".ini",
    ".in",
    ".mjs",
    ".js",
    ".c",
    ".rego",
    "",
}
DATA = ("examples/data/", "conformance/", "tests/golden/backup-1/sha256/", "LICENSE")


_WORD = re.compile(r"\w+(?:-\w+)*")


@cache
def word_digest(word: str) -> str:
    return hashlib.sha256(word.lower().encode()).hexdigest()[:10]


def _allowed(path: str, allowed: tuple[str, ...]) -> bool:
    return any(path == entry or (entry.endswith("*") and path.startswith(entry[:-1])) for entry in allowed)


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Every statement in it, wherever it stands: far fewer than all the nodes there are."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):  # in an expression it is another one
                waiting += inner


def _resolver(tree: ast.Module) -> Callable[[ast.expr], str | None]:
    """A function from an expression to the dotted name it stands for, through this module's imports."""
    known: dict[str, str] = {}
    shadowed: set[str] = set()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            shadowed.add(node.name)

    def resolve(node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            if node.id in known:
                return known[node.id]
            return None if node.id in shadowed else f"builtins.{node.id}"
        if isinstance(node, ast.Attribute):
            owner = resolve(node.value)
            return f"{owner}.{node.attr}" if owner else None
        return None

    return resolve


def _mode(call: ast.Call, position: int) -> str:
    """The literal mode of an open call; a mode that is not a literal counts as writing."""
    node: ast.expr | None = call.args[position] if len(call.args) > position else None
    for keyword in call.keywords:
        if keyword.arg == "mode":
            node = keyword.value
    if node is None:
        return "r"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "w"


def _writes(call: ast.Call, name: str | None) -> str | None:
    """What this call would change on the disk, if it is one of those that do."""
    if name in OPENERS:
        return f"{name} for writing" if set(_mode(call, 1)) & set("wax+") else None
    if name == "os.open" or not isinstance(call.func, ast.Attribute):  # os.open is judged by its flags
        return None
    method = call.func.attr
    if method in WRITING_METHODS:
        return f".{method}()"
    if (
        method == "open"
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    ):
        return ".open() for writing" if re.fullmatch(r"[rbt]*[wax+][wax+rbt]*", call.args[0].value) else None
    # Path.replace takes one argument; str.replace takes two, and a record's replace takes names.
    if (
        method == "replace"
        and len(call.args) == 1
        and not call.keywords
        and not (name or "").startswith(("msgspec", "copy"))
    ):
        return ".replace()"
    return None


def check_source(path: str, text: str) -> Iterator[Finding]:
    """Findings in one Python file of the product; `path` is relative to the repository."""
    tree = ast.parse(text)
    resolve = _resolver(tree)
    if Path(path).stem in MODULE_NAMES:
        yield Finding(path, 1, f"a module called {Path(path).stem} says nothing; name it after what it does")
    nodes = list(ast.walk(tree))
    discards = {  # os.open(os.devnull, os.O_WRONLY) changes nothing
        inner
        for node in nodes
        if isinstance(node, ast.Call) and node.args and resolve(node.args[0]) == "os.devnull"
        for inner in ast.walk(node)
    }
    for node in nodes:
        if node in discards:
            continue
        mentioned: list[str] = []
        if isinstance(node, ast.Import):
            mentioned = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            mentioned = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Name | ast.Attribute):
            mentioned = [resolve(node) or ""]
        line = getattr(node, "lineno", 0)
        for name in mentioned:
            for ban in BANS:
                if name in ban.names and not _allowed(path, ban.allowed):
                    yield Finding(path, line, f"{name.removeprefix('builtins.')}: {ban.why}")
        if isinstance(node, ast.Call):
            what = _writes(node, resolve(node.func))
            if what and not _allowed(path, WRITES.allowed):
                yield Finding(path, node.lineno, f"{what}: {WRITES.why}")
            for keyword in node.keywords:
                if keyword.arg == "shell" and not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                ):
                    yield Finding(path, node.lineno, "shell=: a text becomes a command; pass a list of arguments")


def check_text(path: str, text: str) -> Iterator[Finding]:
    """Findings in any text file of the repository."""
    here = str(ROOT) if len(ROOT.parts) > 2 else None
    phrases = [each for each in PHRASES if each[0].search(text)]
    words = {word for word in set(_WORD.findall(text)) if word_digest(word) in WORDS}
    if not (phrases or words or (here and here in text)):
        return  # no line need be looked at
    for number, line in enumerate(text.splitlines(), 1):
        if here and re.search(rf"{re.escape(here)}(?![\w-])", line):
            yield Finding(path, number, f"{here!r}: a path of one machine")
        for pattern, what in phrases:
            if found := pattern.search(line):
                yield Finding(path, number, f"{found.group().strip()!r}: {what}")
        for word in _WORD.findall(line):
            if word in words:
                yield Finding(path, number, f"{word!r}: the project speaks only of itself")


def repository_files(root: Path = ROOT) -> list[str]:
    """What is or may be committed; without git, everything but hidden folders."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        return sorted({name for name in listing.stdout.split("\0") if name and (root / name).is_file()})
    return sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts[:-1])
    )


def check_repository(root: Path = ROOT) -> Iterator[Finding]:
    for name in repository_files(root):
        path = Path(name)
        if path.suffix not in TEXT_SUFFIXES or name.startswith(DATA):
            continue
        text = (root / path).read_text(encoding="utf-8")
        yield from check_text(name, text)
        if path.suffix == ".py" and path.parts[0] == "src":
            yield from check_source(name, text)
        if path.suffix == ".mjs" and not name.startswith("node/tests/"):
            from tests.project.modules import check_module

            yield from check_module(name, text)


def main(arguments: list[str]) -> int:
    if arguments:
        print(*(word_digest(word) for word in arguments), sep="\n")
        return 0
    from tests.project.shape import check_shape

    findings = [*check_repository(), *check_shape()]
    for finding in findings:
        print(finding)
    print(f"Bans: {len(findings)} broken." if findings else "Bans: all kept.")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
