"""Loads an author's updater, and answers whatever is wrong with it in one line."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from kfm.contract.keys import digest
from kfm.contract.updater import Updater, check_updater
from kfm.errors import BadInput, KfmError, place_of

_turn = threading.RLock()  # a file that another thread still reads has no classes yet; CPython 3.11 cannot parse in two


def load_updater(name: str, spec: str, at: Callable[[str], str]) -> Updater:
    """`file.py:Class`, the file found by `at` in the folder of the installation, or `package.module:Class`."""
    where, _, class_name = spec.rpartition(":")
    with _turn:
        module = _from_file(name, where, at(where)) if where.endswith(".py") else _from_module(name, where)
    kind: Any = getattr(module, class_name, None)
    if kind is None:
        raise BadInput(f"{where} has no class {class_name} for dataset {name}", hint="check `updater:` in kfm.yml")
    if not (isinstance(kind, type) and issubclass(kind, Updater)):
        raise BadInput(f"{spec} of dataset {name} is not an Updater", hint="let the class inherit from kfm.Updater")
    from kfm.updaters.digesting import code_listing  # not needed for what is declared

    try:
        updater = kind()
        if updater.id == "":
            updater.id = name
        check_updater(updater)
        with _turn:
            updater.code_listing = code_listing(module, at(""))
            updater.code_hash = digest(updater.code_listing)
        return updater
    except KfmError:
        raise
    except (Exception, SystemExit) as problem:
        raise _unusable(name, where, problem, "made") from problem


def _from_file(name: str, path: str, full: str) -> ModuleType:
    import importlib.util

    if not os.path.isfile(full):
        raise BadInput(f"the updater file of dataset {name} does not exist: {path}", hint="check `updater:` in kfm.yml")
    module_name = "kfm_updater_" + digest(os.fsencode(full))[7:39]  # by the whole path: no two files share one
    module = sys.modules.get(module_name)
    if module is not None:
        return module
    spec = importlib.util.spec_from_file_location(module_name, full)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # reading an updater writes nothing
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

    try:
        return importlib.import_module(where)
    except (Exception, SystemExit) as problem:
        raise _unusable(name, where, problem, "loaded") from problem


def _unusable(name: str, where: str, problem: BaseException, what: str) -> BadInput:
    place = place_of(problem)
    if isinstance(problem, SyntaxError) and problem.lineno:
        place = f"{os.path.basename(problem.filename or where)}:{problem.lineno}"
    absent = problem.name if isinstance(problem, ModuleNotFoundError) else None
    if absent and all(part.isidentifier() for part in absent.split(".")):
        return BadInput(
            f"the updater of dataset {name} cannot be {what}: there is no module {absent} (imported at {place})",
            hint="install it where kfm is installed, or check the name",
        )
    return BadInput(
        f"the updater of dataset {name} cannot be {what}: {type(problem).__name__} at {place}",
        hint="fix it and try again",
    )
