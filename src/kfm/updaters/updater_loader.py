"""Loads an author's updater, and reports a problem with it in one line."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from kfm.errors import BadInput, KfmError, place_of
from kfm.model.keys import digest
from kfm.model.updater import Updater, check_updater

_turn = threading.RLock()  # one load at a time: CPython 3.11 cannot parse in two threads


PACKAGE = "package"
GROUP = "kfm.updaters"  # of entry points


def load_updater(name: str, spec: str, at: Callable[[str], str]) -> Updater:
    """Return the updater of `file.py:Class` (a file in the installation's folder, found by `at`), of
    `package.module:Class`, or of `package:NAME`, an entry point of an installed package. Raise BadInput if it cannot be
    loaded."""
    module, kind = updater_class(name, spec, at)
    from kfm.updaters.code_digest import code_listing  # not needed for what is declared

    where = spec.rpartition(":")[0]
    try:
        updater = kind()
        if updater.id == "":
            updater.id = name
        check_updater(updater)
        with _turn:
            updater.code_listing = code_listing(module, at(""), installed=where == PACKAGE)
            updater.code_hash = digest(updater.code_listing)
        return updater
    except KfmError:
        raise
    except (Exception, SystemExit) as problem:
        raise _unusable(name, where, problem, "made") from problem


def updater_class(name: str, spec: str, at: Callable[[str], str]) -> tuple[ModuleType, type[Updater]]:
    """Return the module and the class that `spec` names, as `load_updater` finds them. Raise BadInput if there is no
    such class."""
    from kfm.updaters.local_imports import enter

    where, _, class_name = spec.rpartition(":")
    with _turn:
        enter(at(""))
        if where == PACKAGE:
            module, class_name = _from_package(name, class_name)
        else:
            module = _from_file(name, where, at(where)) if where.endswith(".py") else _from_module(name, where)
    kind: Any = getattr(module, class_name, None)
    if kind is None:
        raise BadInput(f"{where} has no class {class_name} for dataset {name}", hint="check `updater:` in kfm.yml")
    if not (isinstance(kind, type) and issubclass(kind, Updater)):
        raise BadInput(f"{spec} of dataset {name} is not an Updater", hint="let the class inherit from kfm.Updater")
    return module, kind


def at_work(folder: str, is_now: bool = True) -> None:
    """Make the modules of the installation in this folder importable, or no longer."""
    from kfm.updaters.local_imports import enter, leave

    with _turn:
        (enter if is_now else leave)(folder)


def _from_file(name: str, path: str, full: str) -> ModuleType:
    import importlib.util

    if not os.path.isfile(full):
        raise BadInput(f"the updater file of dataset {name} does not exist: {path}", hint="check `updater:` in kfm.yml")
    module_name = (
        "kfm_updater_" + digest(os.fsencode(full))[7:39]
    )  # from the whole path, so that no two files share a name
    module = sys.modules.get(module_name)
    if module is not None:
        return module
    spec = importlib.util.spec_from_file_location(module_name, full)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # loading an updater writes nothing
    try:
        spec.loader.exec_module(module)
    except BaseException as problem:
        del sys.modules[module_name]
        if isinstance(problem, (Exception, SystemExit)):
            raise _unusable(name, path, problem, "loaded") from problem
        raise
    finally:
        sys.dont_write_bytecode = before
    return module


def _from_module(name: str, where: str) -> ModuleType:
    import importlib

    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        return importlib.import_module(where)
    except (Exception, SystemExit) as problem:
        raise _unusable(name, where, problem, "loaded") from problem
    finally:
        sys.dont_write_bytecode = before


def _from_package(name: str, wanted: str) -> tuple[ModuleType, str]:
    """Return the module and class of an entry point. Raise BadInput if two packages offer the same name."""
    from importlib.metadata import entry_points

    offered = entry_points(group=GROUP)
    found = sorted({each.value for each in offered if each.name == wanted})
    if not found:
        known = ", ".join(sorted({each.name for each in offered})) or "none"
        raise BadInput(
            f"no installed package offers the updater {wanted} of dataset {name}",
            hint=f"install it where kfm is installed; entry points {GROUP} there are: {known}",
        )
    where, _, class_name = found[0].partition(":")
    if len(found) > 1 or not class_name.isidentifier():
        raise BadInput(
            f"the updater {wanted} of dataset {name} is ambiguous: {' or '.join(found)}",
            hint=f"an entry point {GROUP} names one class, as module:Class, and only one package has it",
        )
    return _from_module(name, where), class_name


def _unusable(name: str, where: str, problem: BaseException, what: str) -> BadInput:
    place = place_of(problem)
    if isinstance(problem, SyntaxError) and problem.lineno:
        place = f"{os.path.basename(problem.filename or where)}:{problem.lineno}"
    if isinstance(problem, ImportError) and "relative import" in str(problem):
        return BadInput(
            f"the updater of dataset {name} cannot be {what}: it imports with a leading dot at {place}",
            hint="names start at the folder of kfm.yml: write `from updaters.shared import …`",
        )
    absent = problem.name if isinstance(problem, ModuleNotFoundError) else None
    if absent and all(part.isidentifier() for part in absent.split(".")):
        return BadInput(
            f"the updater of dataset {name} cannot be {what}: there is no module {absent} (imported at {place})",
            hint="install it where kfm is installed, put it next to kfm.yml, or check the name",
        )
    return BadInput(
        f"the updater of dataset {name} cannot be {what}: {type(problem).__name__} at {place}",
        hint="fix it and try again",
    )
