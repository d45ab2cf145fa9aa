"""All mistakes of kfm.yml at once. `load` raises the first; here each is kept, and the rest is still checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from kfm.config.config_file import Config
from kfm.config.config_loader import Resolved, load, named, read_file, resolve, shown_path
from kfm.errors import BadInput
from kfm.parsing import document_recovery, yaml_scalars
from kfm.parsing.record_shape import nearest

# The settings that say where an installation keeps and publishes things.
PLACES = ("state", "objects", "publish")


class Checked(NamedTuple):
    """The mistakes of a configuration. `resolved` is the configuration as it was probably meant, for checking the files
    it names, never for a run; None if there is no file to read."""

    mistakes: list[BadInput]
    resolved: Resolved | None


def mistakes_of(path: str | None, env: Mapping[str, str]) -> Checked:
    """Return every mistake of kfm.yml and of the settings in the environment, syntax errors first."""
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


def load_to_close(path: str | None, env: Mapping[str, str]) -> Resolved:
    """Return the configuration for a command that only takes away or closes: its mistakes are passed over, and
    `mistakes` names them. Raise BadInput if they leave in doubt where state, objects or public files are."""
    first = None
    try:
        resolved: Resolved | None = load(path, env)
    except BadInput as problem:
        first = problem
        _, resolved = mistakes_of(path, env)
        if resolved is None or not _is_begun(resolved):
            raise
    assert resolved is not None
    resolved.only_closes = True
    if first is None:
        return resolved
    for key in PLACES:
        if _is_in_doubt(resolved, key, env):
            place = f"KFM_{key.upper()}={getattr(Config(datasets={}), key)}"
            raise BadInput(
                f"{first.message}; so the value of `{key}:` is in doubt",
                hint=f"correct it, or name the place for this command, such as {place} kfm …",
            )
    return resolved


def _is_begun(resolved: Resolved) -> bool:
    """Return whether the state database exists where the file, or else the default, puts it. Without a state there is
    nothing to close."""
    places = {resolved.config.state, Config(datasets={}).state}
    return any(os.path.exists(resolved.location(place)[1] or os.devnull + "/") for place in places)


def _is_in_doubt(resolved: Resolved, key: str, env: Mapping[str, str]) -> bool:
    """Return whether the setting `key` may be in the file although its value could not be read: the value was assumed,
    or it is in a part of the file that does not parse."""
    if f"KFM_{key.upper()}" in env:
        return False
    document = resolved.document
    if any(path and path[0] == key for path in document.assumed):
        return True
    for problem in resolved.mistakes:
        name = str(problem.fields.get("key", "")).partition(".")[0]
        if name == key or (name and name not in Config.__struct_fields__ and nearest(name, [key])):
            return True
    if isinstance(document.value, dict) and key in document.value:
        return False
    written = re.compile(rf"(?im)^[\s\W]*{key}\W*:".encode())
    return bool(written.search(read_file(resolved.path, document.where)))
