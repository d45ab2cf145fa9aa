"""The listing that identifies an updater's code by its digest: its module, the modules it imports from the
installation's folder, and the versions of the packages that these import. Modules that were loaded for other reasons
play no part."""

from __future__ import annotations

import os
import sys
from _ast import AST, Import, ImportFrom, PyCF_ONLY_AST  # `ast` would be loaded for every updater, and is not needed
from collections import deque
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from kfm.model.canonical import canonical
from kfm.model.keys import digest

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_INNER = {"body", "orelse", "finalbody", "handlers", "cases"}  # fields of a statement that hold other statements
INSTALLED = {"site-packages", "dist-packages"}  # also inside an environment in the folder


_known: WeakKeyDictionary[ModuleType, dict[str, bytes]] = WeakKeyDictionary()  # module: folder → listing


def code_listing(module: ModuleType, folder: str, *, installed: bool = False) -> bytes:
    """Return the listing of a module: the digests of all modules that it imports by name, anywhere in the code. A
    module that is imported under a computed name is not found. With `installed`, the module belongs to an installed
    package, whose release and modules are listed too. The listing is made once for each module, because a process runs
    the code that it has loaded, however the file changes later."""
    known = _known.setdefault(module, {})
    if folder not in known:
        known[folder] = _listing_of(module, os.path.realpath(folder), installed=installed)
    return known[folder]


def _listing_of(module: ModuleType, root: str, *, installed: bool) -> bytes:
    entries = [entry for entry in sys.path if isinstance(entry, str)]
    ours = [root, *(entry for entry in entries if _is_ours(os.path.join(entry or os.getcwd(), "x"), root))]
    found: dict[str, str] = {}  # path → digest
    outside: set[str] = set()
    package_of = module.__name__.partition(".")[0] if installed else ""
    if installed:
        outside.add(package_of)
    waiting = [(module.__name__, getattr(module, "__file__", None) or "")]
    while waiting:
        name, path = waiting.pop()
        shown = _shown(path, root)
        if shown in found or not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            body = file.read()
        found[shown] = digest(body)
        package = name if os.path.basename(path).startswith("__init__.") else name.rpartition(".")[0]
        for wanted in _imports(body, package):
            at = _file_of(wanted, ours)
            if at and (_is_ours(at, root) or wanted.partition(".")[0] == package_of):
                waiting.append((wanted, at))
            elif not at and _is_folder(wanted, ours):  # without __init__.py: its modules count by their own names
                continue
            else:
                outside.add(wanted.partition(".")[0])
    packages = sorted(outside - sys.stdlib_module_names - {"kfm", ""})
    return canonical({"code": 1, "modules": sorted(found.items()), "releases": list(_releases(packages))})


def _shown(path: str, root: str) -> str:
    name = os.path.relpath(os.path.realpath(path), root) if _is_ours(path, root) else os.path.basename(path)
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _is_ours(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return real.startswith(root.rstrip(os.sep) + os.sep) and not INSTALLED & set(real[len(root) :].split(os.sep))


def _imports(body: bytes, package: str) -> Iterator[str]:
    """Yield the full names that a module imports, with their packages; some may be names inside a module."""
    try:
        module = compile(body, "<unknown>", "exec", PyCF_ONLY_AST, dont_inherit=True)
    except (
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ):  # not importable source code
        return
    for node in _statements(module):
        if isinstance(node, Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[: n + 1]) for n in range(len(parts)))


def _statements(module: AST) -> Iterator[AST]:
    """Yield all statements of a module, including nested ones, level by level. An import is never inside an
    expression."""
    waiting = deque([module])
    while waiting:
        node = waiting.popleft()
        yield node
        for field in node._fields:
            if field in _INNER:
                waiting.extend(getattr(node, field))


def _is_folder(name: str, folders: list[str]) -> bool:
    return any(os.path.isdir(os.path.join(folder, *name.split("."))) for folder in folders)


def _file_of(name: str, folders: list[str]) -> str:
    """Return the file that a module was loaded from, or would be from these folders; empty if there is none."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None) or ""
    if name.partition(".")[0] in sys.stdlib_module_names:
        return ""
    for folder in folders:
        start = os.path.join(folder, *name.split("."))
        for path in (os.path.join(start, "__init__.py"), start + ".py"):
            if os.path.isfile(path):
                return path
    return ""


def _releases(packages: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the distributions of these packages and their versions; nothing is searched if there are none."""
    if not packages:
        return
    from importlib import metadata, util

    brought: dict[str, set[str]] = {}
    for name in packages:
        try:
            if util.find_spec(name) is None:
                continue
        except (ImportError, ValueError):  # loaded without a spec
            continue
        try:
            metadata.distribution(name)
            brought[name] = {name}
        except metadata.PackageNotFoundError:
            brought[name] = set()
    wanted = {name for name, by in brought.items() if not by}
    for each in metadata.distributions() if wanted else ():
        for name in _with(each, wanted):
            brought[name].add(each.metadata["Name"])
    for by in brought.values():
        yield from ((each, metadata.version(each)) for each in sorted(by))


def _with(distribution: Distribution, wanted: set[str]) -> set[str]:
    """Return which of these packages a distribution contains, by its `top_level.txt`, or else by its files. The result
    is that of `importlib.metadata.packages_distributions`, which would read the file list of every distribution."""
    if said := (distribution.read_text("top_level.txt") or "").split():
        return wanted & set(said)
    listed = distribution.read_text("RECORD")
    if listed is not None and not any(name in listed for name in wanted):
        return set()
    code = [path for path in distribution.files or () if path.name.endswith((".py", ".so", ".pyd"))]
    return wanted & {path.parts[0] if len(path.parts) > 1 else path.name.partition(".")[0] for path in code}
