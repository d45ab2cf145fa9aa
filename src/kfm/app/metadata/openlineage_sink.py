"""The OpenLineage sinks: report runs to a file or a server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

from kfm.config import Resolved
from kfm.config.openlineage_settings import address_fault
from kfm.delivery.followers import Follower, each_run
from kfm.delivery.public_runs import public_run
from kfm.errors import BadInput
from kfm.model.ports import Lock, Objects, Sink, State
from kfm.projections import openlineage
from kfm.sinks.http_transport import HttpTransport
from kfm.sinks.openlineage_events import FileSink, HttpSink


def openlineage_followers(
    resolved: Resolved, state: State, objects: Objects, lock: Callable[[str], Callable[[], Lock]]
) -> Iterator[Follower]:
    """Yield a follower for each configured OpenLineage sink."""
    messages = each_run(partial(public_run, state, objects), openlineage.events)
    for sink in _sinks(resolved):
        yield Follower(sink, messages, lock(sink.name))


def _sinks(resolved: Resolved) -> Iterator[Sink]:
    said = resolved.config.openlineage
    if said.file:
        yield FileSink(resolved.at(said.file))
    if said.url:
        yield HttpSink(partial(_url, resolved), partial(_api_key, resolved), HttpTransport(said.timeout_s))


def _url(resolved: Resolved) -> str:
    said = resolved.config.openlineage
    url = said.url
    if url.startswith("env:"):
        url = os.environ.get(said.url.removeprefix("env:"), "")
        wrong, hint = address_fault(url, resolved.config.network.allow)
        if wrong:
            raise BadInput(f"what {said.url} holds {wrong}", hint=hint)
    return f"{url.rstrip('/')}/{said.endpoint}"


def _api_key(resolved: Resolved) -> str:
    reference = resolved.config.openlineage.api_key
    if not reference:
        return ""
    key = resolved.secret(reference, os.environ, shortest=1).reveal()
    if not all(0x20 < byte < 0x7F for byte in key):
        raise BadInput(
            f"the secret {reference} is no key: it holds blanks or letters beyond ASCII", hint="set it again"
        )
    return key.decode("ascii")
