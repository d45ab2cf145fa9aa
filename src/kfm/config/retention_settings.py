"""The section `retention`: what `kfm gc` may remove, and after how long."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from kfm.model.records import Record
from kfm.parsing.documents import Document

_LENGTH = re.compile(r"([1-9][0-9]{0,4})([mhd])\Z")
_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEAST_MS = 3_600_000  # no command of KFM takes longer between the write of an object and the commit that names it
_DAY_MS = 86_400_000
Length = Annotated[str, Meta(max_length=6)]


class RetentionConfig(Record, frozen=True):
    """What `kfm gc` removes, and after how long. Ended triggers and jobs go after `keep_days`."""

    grace: Annotated[
        Length,
        Meta(
            description="how long an object that nothing names stays readable before it is removed, such as 7d; "
            "at least 1h",
        ),
    ] = "7d"
    unchanged_runs: Annotated[
        Length,
        Meta(
            description="after how long the receipt of a run that changed nothing is kept in short form, such as 90d; "
            "at least 1d; empty: never",
        ),
    ] = ""
    previews: Annotated[
        Length,
        Meta(
            description="after how long a preview that was not built again is removed, such as 14d; at least 1d; "
            "empty: never"
        ),
    ] = ""


def check_retention(document: Document, retention: RetentionConfig) -> None:
    """Raise BadInput for a text that is no length of time, and for a time that is too short."""
    for key, least, shown in (
        ("grace", _LEAST_MS, "1h"),
        ("unchanged_runs", _DAY_MS, "1d"),
        ("previews", _DAY_MS, "1d"),
    ):
        text = getattr(retention, key)
        if not text and key != "grace":
            continue
        found = retention_ms(text)
        if found is None:
            document.refuse(("retention", key), "is no length of time", "write it like 12h or 90d, with m, h or d")
        elif found < least:
            document.refuse(("retention", key), f"is shorter than {shown}", f"write {shown} or more")


def retention_ms(text: str) -> int | None:
    """Return the milliseconds of a text such as 90m, 26h or 3d; None for any other text."""
    found = _LENGTH.match(text)
    return None if found is None else int(found[1]) * _MS[found[2]]
