"""The sections about who sends requests to this installation: `webhooks` and `sign_in`."""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Literal

from msgspec import Meta

from kfm.config.openlineage_settings import address_fault
from kfm.config.setting_values import Text
from kfm.errors import BadInput
from kfm.model import names
from kfm.model.records import Record
from kfm.model.secret_refs import check_reference
from kfm.parsing.characters import is_printable
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


class SignInConfig(Record, frozen=True):
    """The OpenID Connect provider with which people of the key list sign in to `kfm serve`; Python only."""

    issuer: Annotated[
        str,
        Meta(max_length=2000, description="https://HOST/PATH of the provider, as its tokens name it; empty: none"),
    ] = ""
    client_id: Annotated[str, Meta(max_length=200, description="the name of this server at the provider")] = ""
    client_secret: Annotated[
        str, Meta(max_length=4096, description="env:NAME or file:PATH; empty: a client without a secret")
    ] = ""
    claim: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=100,
            description="which claim names the person of the key list: preferred_username, email (it counts if the "
            "provider has verified it), sub, or one of your provider's own",
        ),
    ] = "preferred_username"
    scopes: Annotated[tuple[Text, ...], Meta(max_length=20, description="what is asked for; openid is needed")] = (
        "openid",
        "profile",
        "email",
    )
    hours: Annotated[
        int, Meta(ge=1, le=24, description="how long a sign-in lasts at most; it never outlasts the access token")
    ] = 8


def check_sign_in(document: Document, said: SignInConfig) -> None:
    if said == SignInConfig():
        return
    import re

    wrong, hint = address_fault(said.issuer, ())
    if wrong:
        document.refuse(("sign_in", "issuer"), wrong, hint)
    if not said.client_id or not is_printable(said.client_id) or not said.client_id.isascii():
        document.refuse(("sign_in", "client_id"), "is not the name of a client", "write what the provider calls it")
    if said.client_secret:
        check_reference(document, ("sign_in", "client_secret"), said.client_secret)
    if not is_printable(said.claim):
        document.refuse(("sign_in", "claim"), "is not the name of a claim", "write preferred_username, email or sub")
    bad = [each for each in said.scopes if not re.match(r"[!#-\[\]-~]+\Z", each)]
    if bad or "openid" not in said.scopes or len(set(said.scopes)) < len(said.scopes):
        document.refuse(("sign_in", "scopes"), "are not scopes with openid", "write [openid, profile, email]")


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
