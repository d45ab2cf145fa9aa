"""The section `policy`: who decides, and what an installation adds to the shipped policies."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kfm.config.setting_values import Seconds
from kfm.model.records import Record
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document


class PolicyConfig(Record, frozen=True):
    """Who answers whether something may be done."""

    url: Annotated[
        str, Meta(max_length=4096, description="an OPA server, http://HOST:PORT; empty: the engine in this process")
    ] = ""
    timeout_s: Annotated[Seconds, Meta(description="for one whole answer of the server; later is a no")] = 2
    folder: Annotated[
        str,
        Meta(max_length=4096, description="policies of this installation, in package main, beside the shipped ones"),
    ] = ""


def check_policy(document: Document, policy: PolicyConfig) -> None:
    if policy.url:
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(policy.url)
            port_ok = parts.port is None or parts.port > 0
        except ValueError:
            port_ok = False
        if not port_ok or parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            document.refuse(("policy", "url"), "is no address of a server", "write http://HOST:PORT")
    if not is_printable(policy.folder):
        document.refuse(("policy", "folder"), "holds a control character", "use a plain path")
