"""Encodes records as rows and decodes them; orders keys; the base class of the repositories of the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from kfm.errors import BadInput, Corrupt
from kfm.model.canonical import canonical, is_plain
from kfm.model.ports import Notary, State, Tables, Tx
from kfm.model.records import (
    Checkpoint,
    DatasetVersion,
    Delivery,
    EndedTrigger,
    Lease,
    LedgerEntry,
    Receipt,
    Record,
    RefEntry,
    Run,
    RunTelemetry,
    Segment,
    SinkPosition,
    Trigger,
)

T = TypeVar("T")
encode = msgspec.json.Encoder(order="sorted").encode
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def decode(body: bytes, kind: type[T], where: str) -> T:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(body)  # type: ignore[no-any-return]
    except msgspec.MsgspecError as problem:
        raise Corrupt(f"record {where} cannot be read: {problem}", hint="restore the state from a copy") from problem


def exact(record: msgspec.Struct) -> bytes:
    """Return the canonical form of a record, the same in every language. For a record without floats the sorted encoder
    writes it, unless a text is not ASCII."""
    may_hold_anything = _ANYTHING_IN.get(type(record))
    if may_hold_anything is not None and (not (held := may_hold_anything(record)) or is_plain(held)):
        body = encode(record)
        if body.isascii():
            return body
    return canonical(record)


def successor(prefix: str) -> str:
    """Return the smallest text greater than every text with this prefix; '' if there is none."""
    for i in range(len(prefix) - 1, -1, -1):
        if prefix[i] < "\U0010ffff":
            step = 0xE000 if prefix[i] == "\ud7ff" else ord(prefix[i]) + 1
            return prefix[:i] + chr(step)
    return ""


def check_key(key: str) -> None:
    """Raise BadInput for half a surrogate pair: it has no UTF-8 form, so no file could store it."""
    try:
        key.encode()
    except UnicodeEncodeError as problem:
        raise BadInput("a key is not valid Unicode text", hint="it holds half of a surrogate pair") from problem


def _nothing(_record: Any) -> None:
    """Check nothing: the record holds only texts, booleans, small integers, and records of these, so it has an exact
    form."""


# The fields of a record that may hold a float; in a record that is not listed, any field may.
_ANYTHING_IN: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys(
        (Checkpoint, Delivery, EndedTrigger, Lease, LedgerEntry, RefEntry, SinkPosition, Trigger), _nothing
    ),
    **dict.fromkeys((DatasetVersion, Run), attrgetter("metadata")),
    Segment: attrgetter("payload"),
    Receipt: attrgetter("provenance"),
    RunTelemetry: attrgetter("energy_kwh", "co2e_g", "error_budget_burn"),
}


class ArchivePlace(Record, frozen=True):
    """The position of a run's journal in an archive object."""

    object: str
    offset: int
    length: int


class StateParts(State, Protocol):
    """The parts of the state that its repositories use."""

    tables: Tables
    now_ms: Callable[[], int]
    archive: Callable[[str], Iterable[tuple[str, bytes]]] | None
    notary: Notary | None

    @property
    def tx(self) -> Tx:
        """The writes of the open transaction."""

    def recheck(self, *tables: Literal["leases", "refs"]) -> None: ...

    def note_kept(self, trigger: Trigger) -> None: ...

    def meta(self, key: str) -> str: ...

    def last(self, counter: str) -> int: ...

    def next(self, counter: str) -> int: ...


class Repository:
    """One part of the state over its tables, such as the refs or the ledger."""

    __slots__ = ("_state", "_tables")

    def __init__(self, state: StateParts) -> None:
        self._state = state
        self._tables = state.tables

    def _one(self, table: str, key: str, kind: type[T]) -> T | None:
        body = self._tables.get(table, key)
        return None if body is None else decode(body, kind, f"{table}/{key}")

    def _many(
        self, table: str, kind: type[T], prefix: str = "", *, reverse: bool = False, limit: int = -1
    ) -> Iterator[T]:
        for key, body in self._tables.scan(table, prefix, reverse=reverse, limit=limit):
            yield decode(body, kind, f"{table}/{key}")
