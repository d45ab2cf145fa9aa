"""The section `policy`: the policy engine, and policies that an installation adds to the shipped ones."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kfm.config.setting_values import Seconds
from kfm.model.records import Record
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document


class PolicyConfig(Record, frozen=True):
    """The section `policy`: which engine decides, and policies that the installation adds."""

    url: Annotated[
        str, Meta(max_length=4096, description="an OPA server, http://HOST:PORT; empty: the engine in this process")
    ] = ""
    timeout_s: Annotated[Seconds, Meta(description="time limit for an answer of the server; a late answer is a no")] = 2
    folder: Annotated[
        str,
        Meta(max_length=4096, description="policies of this installation, in package main, added to the shipped ones"),
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
            document.refuse(("policy", "url"), "is not the address of a server", "write http://HOST:PORT")
    if not is_printable(policy.folder):
        document.refuse(("policy", "folder"), "holds a control character", "use a plain path")
