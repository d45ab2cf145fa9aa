"""Sources in a wrapping, opened for a dataset: by what kfm.yml says of each, and never past a label."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kfm.contract.ports import Source
from kfm.errors import Denied
from kfm.sources.unpacking import Unpacking, Wrapping

if TYPE_CHECKING:
    from kfm.config import DatasetConfig
    from kfm.engine.protection import Protection


def unpacking(
    reader: Source,
    dataset: str,
    declared: DatasetConfig,
    protection_of: Callable[[], Protection | None],
    monotonic: Callable[[], float],
    *,
    dry: bool,
) -> Source:
    def wrapping_of(name: str) -> Wrapping | None:
        source = declared.sources.get(name)
        if source is None or not source.is_packed:
            return None
        return Wrapping(source.packed_as, source.member or "")

    def look(digest: str) -> None:
        """Labels are on what is stored. One on the archive says something of all that is in it, and nothing of that
        is known by its bytes."""
        protection = protection_of()
        if protection is not None and any(label.of.bytes_ == digest for label in protection.labels.labels):
            raise Denied(
                f"a source of {dataset} is in an archive whose bytes have a label",
                hint="put the label on the address of the archive, and on the bytes of what is in it",
                rule="label.archive",
            )

    return Unpacking(reader, wrapping_of, look, in_memory=dry, monotonic=monotonic)
