"""The section `notify`: who is told what has happened, as signed webhooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Literal

from msgspec import Meta

from kfm.config.openlineage_settings import address_fault
from kfm.config.setting_values import Text
from kfm.errors import BadInput
from kfm.model import names
from kfm.model.records import Record
from kfm.model.secret_refs import check_reference
from kfm.parsing.characters import printable
from kfm.parsing.documents import Document, Path

Event = Literal["failed", "held", "published", "withdrawn", "late", "burnt", "review"]


class ReceiverConfig(Record, frozen=True):
    """An endpoint that gets a signed message (Standard Webhooks) when one of these events happens."""

    url: Annotated[Text, Meta(description="https://HOST/PATH of the endpoint, or env:NAME that holds it")]
    secrets: Annotated[
        tuple[Text, ...],
        Meta(
            min_length=1,
            max_length=2,
            description="env:NAME or file:PATH of `whsec_` and base64 of 24 to 64 bytes; two while one replaces the "
            "other: then each message has two signatures",
        ),
    ]
    on: Annotated[
        tuple[Event, ...],
        Meta(
            min_length=1,
            description="failed: a run failed; held: rows are quarantined or a version waits to be published; "
            "published; withdrawn: a rollback or a recall; late: a dataset is too old; burnt: an error budget is "
            "spent; review: a person must decide",
        ),
    ]
    datasets: Annotated[
        tuple[Text, ...], Meta(description="only of these, by name or a pattern such as rain-*; empty: of all")
    ] = ()
    timeout_s: Annotated[float, Meta(gt=0, le=60, description="how long the endpoint may take to answer")] = 5


def check_notify(
    document: Document, receivers: Mapping[str, ReceiverConfig], datasets: Collection[str], allow: tuple[str, ...]
) -> None:
    for name, said in receivers.items():
        with document:
            _check_receiver(document, ("notify", name), said, datasets, allow)


def _check_receiver(
    document: Document, path: Path, said: ReceiverConfig, datasets: Collection[str], allow: tuple[str, ...]
) -> None:
    try:
        names.check_id(str(path[-1]), "receiver")
    except BadInput as error:
        raise BadInput(f"{document.place(path)}: {error.message}", hint=error.hint, key="notify") from None
    if not said.url.startswith("env:"):
        wrong, hint = address_fault(said.url, allow)
        if wrong:
            document.refuse((*path, "url"), wrong, f"{hint}; a path that must stay secret belongs in env:NAME")
    for index, reference in enumerate(said.secrets):
        check_reference(document, (*path, "secrets", index), reference)
    if len(set(said.on)) < len(said.on):
        document.refuse((*path, "on"), "names an event twice", "take one out")
    for index, pattern in enumerate(said.datasets):
        if not any(fits(pattern, each) for each in datasets):
            from kfm.parsing.record_shape import nearest

            close = nearest(pattern.replace("*", ""), sorted(datasets))
            hint = f"did you mean {close}?" if close else "name one of this file, or leave it out for all"
            document.refuse((*path, "datasets", index), f"fits no dataset of this file: {printable(pattern, 80)}", hint)


def fits(pattern: str, name: str) -> bool:
    """Return whether a name fits a pattern, in which * stands for any characters and all others for themselves."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == first
    *middle, last = rest
    if not name.startswith(first) or len(name) < len(first) + len(last) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
