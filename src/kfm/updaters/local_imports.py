"""Imports modules that are next to kfm.yml, by names that start at its folder.

The folder is not on sys.path. A finder serves it before all others (as for the folder of a script), and only while the
installation is at work, in every interface and from any working directory. It writes no bytecode, because a dry run
changes nothing. Modules that another installation of this process loaded under the same names are put away until that
one is at work again; two installations that work in threads at once must not share names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_NEVER = sys.stdlib_module_names | {"kfm"}
_aside: dict[str, dict[str, ModuleType]] = {}  # by folder: the modules loaded from it
_current = ""  # the folder that is served now
_found: set[str] = set()  # the names that it has served


class _Quiet(SourceFileLoader):
    """A module loader that neither reads nor writes bytecode."""

    def path_stats(self, path: Any) -> Any:
        raise OSError(path)


class _Beside:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _current or (path is None and not offers(_current, fullname)):
            return None
        if path is not None and not any(_is_below(entry, _current) for entry in path):
            return None
        spec = PathFinder.find_spec(fullname, [_current] if path is None else list(path), target)
        if spec is not None:
            _found.add(fullname)
            if type(spec.loader) is SourceFileLoader:
                spec.loader = _Quiet(spec.loader.name, spec.loader.path)
        return spec


_finder = _Beside()


def offers(folder: str, name: str) -> bool:
    """Return whether the folder has a module, or a folder with modules, of this name. The standard library and kfm are
    never replaced."""
    if name in _NEVER:
        return False
    start = os.path.join(folder, name)
    if os.path.isfile(start + ".py") or os.path.isfile(os.path.join(start, "__init__.py")):
        return True
    return os.path.isdir(start) and any(entry.endswith(".py") for entry in os.listdir(start))


def enter(folder: str) -> None:
    """Make the modules of the installation in this folder importable from now on."""
    global _current
    if _current == folder:
        return
    leave(_current)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    again = _aside.pop(folder, {})
    sys.modules.update(again)
    _found.update(again)
    _current = folder


def leave(folder: str) -> None:
    """Make the modules of this folder no longer importable: other modules may use the same names."""
    global _current
    if not folder or _current != folder:
        return
    kept = {name: sys.modules[name] for name in list(_found) if _came_from(sys.modules.get(name), folder)}
    for name in kept:
        del sys.modules[name]
    _found.clear()
    _aside[folder] = kept
    _current = ""


def _came_from(module: object, folder: str) -> bool:
    spec = getattr(module, "__spec__", None)
    if spec is None or spec.name.startswith("kfm_updater_"):
        return False
    places = [spec.origin] if isinstance(spec.loader, _Quiet) else []
    if spec.origin is None and spec.submodule_search_locations is not None:  # a folder without __init__.py
        places = list(spec.submodule_search_locations)
    return bool(places) and all(place and _is_below(place, folder) for place in places)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
