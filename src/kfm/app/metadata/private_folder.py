"""Folders that hold what operators and auditors read: none of them may lie in one that readers see."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.errors import Denied

if TYPE_CHECKING:
    from kfm.config import Resolved


def check_private(resolved: Resolved, setting: str, path: str) -> None:
    """Raise Denied if a folder lies where files are published, whatever its address looks like."""
    here = os.path.realpath(resolved.at(path))
    for served in (resolved.config.publish, resolved.config.catalog):
        scheme, place = resolved.location(served) if served else ("", "")
        if scheme == "file" and f"{here}/".startswith(f"{os.path.realpath(place)}/"):
            raise Denied(f"`{setting}` lies in {served}, which is public", hint="name a private folder in kfm.yml")
