"""All mistakes of kfm.yml at once. `load` raises the first; here each is kept, and the rest is still checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kfm.config.config_loader import Resolved, named, read_file, resolve, shown_path
from kfm.errors import BadInput
from kfm.parsing import document_recovery, yaml_scalars


class Checked(NamedTuple):
    """What was found. `resolved` is the configuration as it may have been meant: to check what it names, never to run
    anything. None if there is no file to read."""

    mistakes: list[BadInput]
    resolved: Resolved | None


def mistakes_of(path: str | None, env: Mapping[str, str]) -> Checked:
    """Every mistake of the file and of the settings in the environment, syntax errors first."""
    try:
        path = named(path, env)
        where = shown_path(path)
        body = read_file(path, where)
    except BadInput as problem:
        return Checked([problem], None)
    document = document_recovery.read_all(body, where, json=path.endswith(".json"))
    found = document.collect()
    if not isinstance(document.value, dict):
        kind = yaml_scalars.kind(document.value)
        document.keep(document.mistake((), f"must be a mapping, found {kind}", "`kfm init` writes an example"))
        document.value = {}
        document.assumed.add(())
    resolved = None
    with document:
        resolved = resolve(document, path, env)
    return Checked(found, resolved)
