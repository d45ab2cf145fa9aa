"""The fingerprints of everything that is protected here, and whether a short text matches one of them."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import NamedTuple

from kfm.crypto.custodian_key import CustodianKey
from kfm.engine.protected.protection import Protection, fingerprints
from kfm.errors import Denied
from kfm.masking.fingerprints import Fingerprints, Marker, of_stored
from kfm.masking.leak_scanner import scan
from kfm.model.ports import State


class Known(NamedTuple):
    """The fingerprints of protected values under one key."""

    marker: Marker
    prints: Fingerprints


def known(state: State, protection: Protection | None) -> list[Known]:
    """Return the fingerprints of this installation, by key. Denied if a key is missing, because its fingerprints could
    not be compared."""
    found: dict[str, Fingerprints] = {}
    for key_id, body in state.protected.fingerprints():
        found[key_id] = found.get(key_id, Fingerprints()) | of_stored(body)
    out = []
    for key_id, prints in found.items():
        key = protection.with_id(key_id) if protection is not None else None
        if key is None:
            raise Denied(
                f"there are fingerprints under key {key_id}, which is missing: nothing can be compared with them",
                hint="do this where the key is available, and name it under `custodians:`",
                rule="key.missing",
            )
        out.append(Known(Marker(fingerprints(key)), prints))
    return out


def key_of_leak(state: State, protection: Protection, body: bytes) -> CustodianKey | None:
    """Return the first available key whose fingerprints say that these bytes contain something protected, or may."""
    for key_id in dict.fromkeys(key_id for key_id, _ in state.protected.fingerprints()):
        key = protection.with_id(key_id)
        if key is None:
            continue
        prints = [of_stored(stored) for its, stored in state.protected.fingerprints() if its == key_id]
        report = scan(body, reduce(or_, prints, Fingerprints()), Marker(fingerprints(key)))
        if any(leak.rule != "gate.unreadable" for leak in report.leaks):
            return key
    return None
