"""The section `webhooks`."""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Literal

from msgspec import Meta

from kfm.config.setting_values import Text
from kfm.errors import BadInput
from kfm.model import names
from kfm.model.records import Record
from kfm.model.secret_refs import check_reference
from kfm.parsing.documents import Document, Path


class WebhookConfig(Record, frozen=True):
    """A sender that may report changes at `POST /webhooks/<its name>`."""

    datasets: Annotated[tuple[Text, ...], Meta(min_length=1, description="the datasets to update")]
    secrets: Annotated[
        tuple[Text, ...],
        Meta(
            min_length=1,
            max_length=2,
            description="env:NAME or file:PATH, of at least 32 bytes; two while one replaces the other",
        ),
    ]
    accept: Annotated[
        Literal["kfm", "github", "standard"],
        Meta(description="accepted kind of signature: kfm, github, or standard (Standard Webhooks)"),
    ] = "kfm"
    enabled: Annotated[bool, Meta(description="false: every request is refused")] = True
    tolerance_s: Annotated[float, Meta(gt=0, le=3600, description="allowed difference of the signed time")] = 300


def check_webhook(document: Document, path: Path, hook: WebhookConfig, datasets: Container[str]) -> None:
    with document:
        try:
            names.check_id(str(path[-1]), "webhook")
        except BadInput as error:
            raise BadInput(f"{document.place(path)}: {error.message}", hint=error.hint, key="webhooks") from None
    for index, name in enumerate(hook.datasets):
        if name not in datasets:
            document.refuse((*path, "datasets", index), "is not a dataset of this file", "correct it")
    for index, reference in enumerate(hook.secrets):
        check_reference(document, (*path, "secrets", index), reference)
