"""The sections `ledger` and `attest`: keys that sign ledger checkpoints and attestations about versions."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from kfm.config.setting_values import Text
from kfm.model.records import Record
from kfm.model.secret_refs import check_reference
from kfm.parsing.documents import Document
from kfm.parsing.lazy_regex import pattern

_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}\Z")


class LedgerConfig(Record, frozen=True):
    """Signed ledger checkpoints. Without `sign_with` none is signed, and nothing else changes."""

    sign_with: Annotated[
        str, Meta(description="env:NAME or file:PATH of a key for checkpoints: 32 bytes, or these in hex")
    ] = ""
    origin: Annotated[str, Meta(description="the public name of the ledger, e.g. kfm.example.org/ledger")] = ""
    every: Annotated[int, Meta(ge=1, le=1_000_000, description="sign a checkpoint after this many new entries")] = 100


class AttestConfig(Record, frozen=True):
    """Attestations about every version, signed when it is committed. Without `sign_with` only `kfm attest`
    makes them.
    """

    sign_with: Annotated[
        str, Meta(description="env:NAME or file:PATH of a key for attestations: 32 bytes, or these in hex")
    ] = ""
    builder: Annotated[Text, Meta(description="the public URI of this installation")] = "urn:kfm:local"
    manifests: Annotated[
        str,
        Meta(
            max_length=4096,
            description="private folder that gets a signed manifest of every rollback, for auditors; empty: none",
        ),
    ] = ".kfm/manifests"

    @property
    def has_manifests(self) -> bool:
        """Whether a signed manifest of every rollback is written."""
        return bool(self.sign_with and self.manifests)


def check_signing(document: Document, ledger: LedgerConfig, attest: AttestConfig) -> None:
    if (ledger, attest) == (LedgerConfig(), AttestConfig()):
        return
    if ledger.origin and not _NAME.match(ledger.origin):
        document.refuse(("ledger", "origin"), "is not a usable name", "write one like kfm.example.org/ledger")
    if ledger.sign_with:
        check_reference(document, ("ledger", "sign_with"), ledger.sign_with)
        if not ledger.origin:
            document.refuse(("ledger",), "has sign_with but no origin", "set origin, such as kfm.example.org/ledger")
    if attest.sign_with:
        check_reference(document, ("attest", "sign_with"), attest.sign_with)
    if not re.match(r"[a-z][a-z0-9+.-]*:[^\s]{1,500}\Z", attest.builder):
        document.refuse(("attest", "builder"), "is not a URI", "write one like https://kfm.example.org")
