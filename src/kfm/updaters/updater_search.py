"""Finds an updater without running any of its code, for checks of the configuration."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder

from kfm.errors import BadInput
from kfm.updaters.updater_loader import GROUP, PACKAGE


def search(name: str, spec: str, at: Callable[[str], str]) -> None:
    """Raise BadInput if the file, module, entry point or class that `spec` names for dataset `name` does not exist, or
    if the file is not valid Python."""
    where, _, class_name = spec.rpartition(":")
    if where == PACKAGE:
        _check_entry_point(name, class_name)
        return
    path = at(where) if where.endswith(".py") else _module_file(name, where, at(""))
    if not path:  # a module without a text of its own
        return
    if not os.path.isfile(path):
        raise BadInput(f"the updater file of dataset {name} does not exist: {where}", hint="correct the path")
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (SyntaxError, ValueError) as problem:
        line = getattr(problem, "lineno", None) or 1
        raise BadInput(
            f"{where}:{line}: the updater of dataset {name} is not valid Python", hint="correct it there"
        ) from None
    except OSError as problem:
        reason = (problem.strerror or "").lower()
        raise BadInput(f"{where} cannot be read: {reason}", hint="look at its permissions") from None
    known = _names(tree)
    if known is not None and class_name not in known:
        raise BadInput(f"{where} has no class {class_name} for dataset {name}", hint=_hint(where, class_name, tree))


def _hint(where: str, class_name: str, tree: ast.Module) -> str:
    from kfm.parsing.record_shape import nearest

    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    close = next((each for each in classes if each.lower() == class_name.lower()), "") or nearest(class_name, classes)
    close = close or (classes[0] if len(classes) == 1 else "")
    return f"write updater: {where}:{close}" if close else "correct the name of the class"


def _names(tree: ast.Module) -> set[str] | None:
    """Return the names that a module defines at its top level; None if that is only known when the module runs."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            if any(alias.name == "*" for alias in node.names):
                return None
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        elif not isinstance(node, (ast.Expr, ast.Pass)):  # an if, a try, a loop: what it defines is known when it ran
            return None
    return None if "__getattr__" in found else found


def _module_file(name: str, where: str, folder: str) -> str:
    """Return the path of a module's file; empty if it has none. Raise BadInput if there is no such module."""
    places: list[str] | None = [folder, *sys.path]
    found, spec = "", None
    for part in where.split("."):
        found = f"{found}.{part}" if found else part
        spec = PathFinder.find_spec(found, places) if places is not None else None
        if spec is None:
            raise BadInput(
                f"the updater of dataset {name} cannot be found: there is no module {found}",
                hint="install it where kfm is installed, put it next to kfm.yml, or correct the name",
            )
        places = list(spec.submodule_search_locations) if spec.submodule_search_locations is not None else None
    origin = spec.origin if spec is not None else None
    return origin if origin and origin.endswith(".py") else ""


def _check_entry_point(name: str, wanted: str) -> None:
    from importlib.metadata import entry_points

    offered = sorted({each.name for each in entry_points(group=GROUP)})
    if wanted not in offered:
        raise BadInput(
            f"no installed package offers the updater {wanted} of dataset {name}",
            hint=f"install it where kfm is installed; entry points {GROUP} there are: {', '.join(offered) or 'none'}",
        )
