"""The formats of a state, and what makes one of ours out of an older one.

Which tables a format has is in sql/, numbered: every backend keeps them under the same names. What has to be
written anew out of the rows of an older format is here, over any Tables, so that every backend does the same.
An older program refuses what it does not know: SQLite by the number in the file, a journal by that in its lines.
"""

from __future__ import annotations

from collections.abc import Callable

from kfm.contract.ports import Tables
from kfm.errors import Refused

FORMAT = 4

# By the number of the format that it leads to.
STEPS: dict[int, Callable[[Tables], None]] = {}


def upgrade(tables: Tables, have: int, to: int = FORMAT) -> None:
    """In the transaction that makes it a state of this format: all of it, or nothing."""
    for number in sorted(STEPS):
        if have < number <= to:
            STEPS[number](tables)


def too_new(what: str, found: int, known: int = FORMAT) -> Refused:
    return Refused(
        f"{what} has format {found}, this kfm knows up to {known}",
        hint="use the newer kfm that wrote it",
        code_hint="version.too_new",
    )
