"""The section `pools`: how many runs may share a scarce resource at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from kfm.errors import BadInput
from kfm.model import names
from kfm.parsing import record_shape
from kfm.parsing.characters import printable
from kfm.parsing.documents import Document, Path

Slots = Annotated[int, Meta(ge=1, le=10_000)]


def check_pools(document: Document, pools: Mapping[str, int]) -> None:
    for name in pools:
        with document:
            try:
                names.check_id(name, "pool")
            except BadInput as error:
                place = document.place(("pools", name))
                raise BadInput(f"{place}: {error.message}", hint=error.hint, key="pools") from None


def check_pool(document: Document, path: Path, said: str, pools: Mapping[str, int]) -> None:
    """Raise BadInput if a named pool does not exist."""
    if said and said not in pools:
        close = record_shape.nearest(said, sorted(pools))
        hint = f"did you mean {close}?" if close else f"add it in kfm.yml, such as pools: {{{printable(said)}: 1}}"
        raise BadInput(f"{document.place(path)}: there is no pool {printable(said)}", hint=hint, key="pools")
