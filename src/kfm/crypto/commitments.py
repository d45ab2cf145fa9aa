"""Salted commitments: a ledger entry commits to values that it does not show, so that they can be shown later.

A commitment is SHA-256 over a salt of 32 bytes, the name of the field and the canonical form of its value. A reader
without the salt cannot guess the value; a reader with salt and value can check that it is the value of that time. The
salt is derived from the custodian's key, the run and the field, so a run that is written again after a crash gives the
same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from kfm.crypto.custodian_key import CustodianKey
from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.records import Record

_PURPOSE = "ledger/salt"
_DOMAIN = b"kfm/commitment/1\0"
_EMPTY: dict[type, Any] = {str: "", list: [], dict: {}}
T = TypeVar("T", bound=msgspec.Struct)


class Opening(Record, frozen=True):
    """The salt and value that open a commitment. It is stored encrypted; the custodian decides who gets it."""

    name: str
    salt: str  # hex
    value: Any


def commitment(name: str, salt: bytes, value: Any) -> str:
    assert len(salt) == 32
    label = name.encode()
    body = _DOMAIN + salt + len(label).to_bytes(4, "big") + label + canonical(value)
    return "sha256:" + hashlib.sha256(body).hexdigest()


def is_opened(shown: Opening, committed: Mapping[str, str]) -> bool:
    """Return whether this salt and value match the commitment in the entry."""
    try:
        salt = bytes.fromhex(shown.salt)
    except ValueError:
        return False
    return len(salt) == 32 and committed.get(shown.name) == commitment(shown.name, salt, shown.value)


def concealed(
    entry: T, names: Iterable[str], key: CustodianKey, run_id: str
) -> tuple[T, dict[str, str], list[Opening]]:
    """Return the entry with these fields empty, the commitments to their values, and the openings.

    Empty fields are committed to as well, because it is not public either that they were empty.
    """
    committed: dict[str, str] = {}
    openings: list[Opening] = []
    blank: dict[str, Any] = {}
    for name in sorted(names):
        value = getattr(entry, name)
        if type(value) not in _EMPTY:
            raise BadInput(f"field {name} of a ledger entry cannot be concealed", hint="only texts, lists and maps can")
        plain = msgspec.to_builtins(value)
        salt = key.keyed(_PURPOSE, canonical([run_id, name]))
        committed[name] = commitment(name, salt, plain)
        openings.append(Opening(name=name, salt=salt.hex(), value=plain))
        blank[name] = _EMPTY[type(value)]
    return msgspec.structs.replace(entry, **blank), committed, openings
