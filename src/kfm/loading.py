"""Finds the author's code: an updater named in kfm.yml, by file or by module."""

from __future__ import annotations

import os
import sys
from typing import Any

from kfm.config import Resolved
from kfm.contract.names import check_id
from kfm.contract.updater import Updater
from kfm.errors import BadInput, place_of


def load_updater(resolved: Resolved, name: str, spec: str) -> Updater:
    """`file.py:Class` below the configuration's folder, or `package.module:Class`."""
    where, _, class_name = spec.rpartition(":")
    kind = (
        _from_file(resolved, name, where, class_name)
        if where.endswith(".py")
        else _from_module(name, where, class_name)
    )
    if not (isinstance(kind, type) and issubclass(kind, Updater)):
        raise BadInput(f"{spec} of dataset {name} is not an Updater", hint="let the class inherit from kfm.Updater")
    updater = kind()
    check_id(updater.id or name, "updater")
    if not updater.id:
        updater.id = name
    if not updater.version:
        raise BadInput(f"updater {updater.id} has no version", hint='give the class a line like version = "1.0.0"')
    return updater


def _from_file(resolved: Resolved, name: str, path: str, class_name: str) -> Any:
    import importlib.util

    full = resolved.at(path)
    if not os.path.isfile(full):
        raise BadInput(f"the updater file of dataset {name} does not exist: {path}", hint="check `updater:` in kfm.yml")
    module_name = "kfm_updater_" + "".join(c if c.isalnum() else "_" for c in full)
    module = sys.modules.get(module_name)
    if module is None:
        spec = importlib.util.spec_from_file_location(module_name, full)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # reading an updater writes nothing
        try:
            spec.loader.exec_module(module)
        except Exception as problem:
            del sys.modules[module_name]
            raise _unloadable(name, path, problem) from problem
        finally:
            sys.dont_write_bytecode = before
    return _class_in(module, name, path, class_name)


def _from_module(name: str, where: str, class_name: str) -> Any:
    import importlib

    try:
        module = importlib.import_module(where)
    except Exception as problem:
        raise _unloadable(name, where, problem) from problem
    return _class_in(module, name, where, class_name)


def _class_in(module: object, name: str, where: str, class_name: str) -> Any:
    found = getattr(module, class_name, None)
    if found is None:
        raise BadInput(f"{where} has no class {class_name} for dataset {name}", hint="check `updater:` in kfm.yml")
    return found


def _unloadable(name: str, where: str, problem: Exception) -> BadInput:
    place = place_of(problem)
    if isinstance(problem, SyntaxError) and problem.lineno:
        place = f"{os.path.basename(problem.filename or where)}:{problem.lineno}"
    return BadInput(
        f"the updater of dataset {name} cannot be loaded: {type(problem).__name__} at {place}",
        hint="fix it and try again",
    )
