"""The key list that is in force: `keys.json` next to kfm.yml, whose digest the state holds as the ref `keys/list`."""

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

    Denied if the file is missing or is another list: a key list cannot be removed once it was made.
    """
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


def next_file(digest: str) -> str:
    """Return the name under which the list of this digest waits until the ref names it. The digest is part of the name,
    so two people who make a list at the same time write two files."""
    return f"{FILE}.{digest.removeprefix('sha256:')[:16]}"


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(MAX_BYTES)
