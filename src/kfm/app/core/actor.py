"""The name the ledger records for the person or program that acts."""

from __future__ import annotations

import os

from kfm.errors import BadInput
from kfm.parsing.characters import is_printable


def default_actor() -> str:
    """Who is at the keyboard, for the ledger: what KFM_ACTOR says, else the user's name if it is one."""
    said = os.environ.get("KFM_ACTOR", "")
    if not is_printable(said) or len(said) > 1000:
        raise BadInput("KFM_ACTOR must be one line of at most 1000 characters", hint="shorten it")
    for name in (said, os.environ.get("USER", ""), os.environ.get("LOGNAME", "")):
        if name and is_printable(name) and len(name) <= 1000:
            return name
    return f"uid:{os.getuid()}"
