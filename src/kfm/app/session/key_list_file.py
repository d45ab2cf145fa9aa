"""The key list that is in force: `keys.json` next to kfm.yml, whose digest the state holds as the ref `keys/list`.

The state also keeps a copy of the file. Commands that only take away or close use it while the file is missing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.crypto.key_list import Keys, known_list
from kfm.errors import Denied, KfmError
from kfm.model import refs

if TYPE_CHECKING:
    from kfm.config import Resolved
    from kfm.model.ports import State

FILE = "keys.json"
MAX_BYTES = 16 << 20


def key_list_in_force(resolved: Resolved, state: State) -> Keys | None:
    """Return the list that the ref names; None if the installation never had one.

    Denied if the file is missing or is another list: a key list cannot be removed once it was made. A command that only
    takes away or closes gets the copy in the state then.
    """
    try:
        return key_list_of_file(resolved, state)
    except Denied:
        kept = _kept_copy(state) if resolved.only_closes else None
        if kept is None:
            raise
        return kept


def key_list_of_file(resolved: Resolved, state: State) -> Keys | None:
    """Return the list of `keys.json`; None if the installation never had one. Denied if the file is missing or is
    another list."""
    known = state.refs.at(refs.KEY_LIST)
    file = resolved.at(FILE)
    if not known:
        if os.path.lexists(file):
            raise Denied(
                f"{FILE} is here, but this installation never accepted it",
                hint="restore the state it belongs to, or take the file away to begin again",
            )
        return None
    for path in (file, resolved.at(next_file(known))):
        try:
            return known_list(_read(path), known)
        except (OSError, KfmError):
            continue
    missing = not os.path.lexists(file)
    raise Denied(
        f"{FILE} is missing" if missing else f"{FILE} is not the list that is in force",
        hint="put back the copy that was in force last; a key list cannot be removed once it was made",
    )


def _kept_copy(state: State) -> Keys | None:
    """Return the list that the ref names from the copy in the state; None if there is no copy."""
    for entry in state.refs.history(refs.KEY_LIST, reverse=True, limit=1):
        run = state.runs.get(entry.run_id)
        body = state.inline_object(run.trigger.params.get("file", "")) if run is not None else None
        if body is not None:
            return known_list(body, entry.after)
    return None


def next_file(digest: str) -> str:
    """Return the name under which the list of this digest waits until the ref names it. The digest is part of the name,
    so two people who make a list at the same time write two files."""
    return f"{FILE}.{digest.removeprefix('sha256:')[:16]}"


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(MAX_BYTES)
