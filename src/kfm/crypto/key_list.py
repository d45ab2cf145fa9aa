"""`keys.json`: people, their roles, their keys with purpose and validity, and custodians; signed by the admins.

    {"signed": {"version": 2, "previous": "sha256:…", "people": […], "keys": […], "custodians": […]},
     "signatures": [{"keyid": "…", "sig": "…"}]}

The admins named in the first list sign it, and the state then holds its digest. Every later list names the one before
it, and the admins of both sign it. An admin cannot become a steward this way: a list that lets more people decide
about a custodian's data also needs the community's keys, or, without a community, two of the stewards in the list
before. If that list has only one steward, this one signs, although one alone can decide nothing. Keys are never
removed, only revoked, and a revoked key stays revoked.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Literal

import msgspec

from kfm.crypto.envelopes import Signature, pae
from kfm.crypto.signatures import Signer, check_public, is_signed, key_id
from kfm.errors import BadInput, Denied
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.names import is_digest
from kfm.model.records import Record
from kfm.parsing.strict_json import decode

TYPE = "application/vnd.kfm.keys+json"
Role = Literal["viewer", "operator", "steward", "admin"]
Purpose = Literal[
    "act", "community", "checkpoint", "attest"
]  # one per key, so that a signature for one purpose is never valid for another
TWO = 2
WHEN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z\Z")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._@-]{0,61}[a-z0-9])?\Z")


class Person(Record, frozen=True):
    id: str
    roles: list[Role]
    steward_of: list[str] = []  # custodians


class Key(Record, frozen=True):
    public: str  # 32 bytes, hex
    purpose: Purpose
    valid_from: str
    valid_until: str
    person: str = ""  # the owner; empty: the installation, which signs checkpoints and attestations
    revoked_at: str = ""

    @property
    def id(self) -> str:
        return key_id(bytes.fromhex(self.public))

    def is_live(self, now: str) -> bool:
        return self.valid_from <= now < self.valid_until and not (self.revoked_at and self.revoked_at <= now)


class Custodian(Record, frozen=True):
    id: str
    seal_keys: list[str] = []  # ids of the keys its bytes may be encrypted with, the one in use first
    community: list[str] = []  # ids of the community's own keys
    threshold: int = 0  # how many people of the community must sign


class KeyList(Record, frozen=True):
    version: int
    previous: str  # digest of the list before it; empty: the first
    issued_at: str
    admins: int  # how many admins must sign the next list
    people: list[Person]
    keys: list[Key]
    custodians: list[Custodian] = []


class Keys:
    """A verified key list. Only the functions below create one."""

    def __init__(self, listed: KeyList, body: bytes) -> None:
        self.listed = listed
        self.digest = digest(body)
        self.keys = {key.id: key for key in listed.keys}
        self.people = {person.id: person for person in listed.people}
        self.custodians = {each.id: each for each in listed.custodians}

    def live(self, key: str, purpose: Purpose, now: str) -> Key | None:
        """Return the key of this id if it has this purpose and is valid now; else None."""
        found = self.keys.get(key)
        return found if found is not None and found.purpose == purpose and found.is_live(now) else None

    def is_steward(self, person: str, custodian: str) -> bool:
        """Return whether the person is a steward of this custodian, or of any if the data has no custodian."""
        found = self.people.get(person)
        return found is not None and "steward" in found.roles and (not custodian or custodian in found.steward_of)

    def has_role(self, person: str, role: Role) -> bool:
        found = self.people.get(person)
        return found is not None and role in found.roles


def signed_list(listed: KeyList, signers: Iterable[Signer]) -> bytes:
    """Return a key list as the bytes of its file; `first_list` and `next_list` decide whether it is accepted."""
    body = canonical(listed)
    message = pae(TYPE, body)
    signatures = [
        {"keyid": each.key_id, "sig": b64encode(each.sign(message)).decode()}
        for each in sorted(signers, key=lambda signer: signer.key_id)
    ]
    return canonical({"signed": listed, "signatures": signatures}) + b"\n"


def read_list(file: bytes) -> tuple[Keys, bytes]:
    """Return the list in a file and the signed bytes, without checking the signatures."""
    keys, _, body = _read(file)
    return keys, body


def first_list(file: bytes, now: str) -> Keys:
    """Return the first list of an installation if its admins signed it; raise Denied otherwise. It is trusted on first
    use: the caller stores its digest in the state and requires it from then on."""
    keys, signatures, body = _read(file)
    if keys.listed.version != 1 or keys.listed.previous or keys.listed.issued_at > now:
        raise _no("the first key list must be version 1, name no list before it, and not be from the future")
    _check_admins(keys, _good(keys, signatures, body, now))
    return keys


def known_list(file: bytes, known: str) -> Keys:
    """Return the list with the digest in the state; its signatures were checked when it was accepted. Raise Denied if
    the file holds another list."""
    keys, _, _ = _read(file)
    if keys.digest != known:
        raise Denied("keys.json is not the key list in force", hint="restore it, or add the next one with `kfm keys`")
    return keys


def next_list(current: Keys, file: bytes, now: str) -> Keys:
    """Return the next list if all required people signed it; raise Denied otherwise."""
    after, signatures, body = _read(file)
    old, new = current.listed, after.listed
    if new.version != old.version + 1 or new.previous != current.digest:
        raise _no("the key list does not follow the one in force")
    if not old.issued_at <= new.issued_at <= now:
        raise _no("the key list is older than the one in force, or from the future")
    good = _good(current, signatures, body, now)
    _check_admins(current, good)
    _check_admins(after, _good(after, signatures, body, now))
    _check_kept(current, after)
    for custodian in old.custodians:
        if _loosened(current, after, custodian) and not _consented(current, custodian, good):
            raise _no(
                f"the list lets more people decide about data of {custodian.id}, and {custodian.id} did not sign it"
            )
    return after


def _read(file: bytes) -> tuple[Keys, list[Signature], bytes]:
    plain = decode(file, "keys.json")
    try:
        if not isinstance(plain, dict) or set(plain) != {"signed", "signatures"}:
            raise BadInput("keys.json is not a signed list", hint="it must have `signed` and `signatures`")
        listed = msgspec.convert(plain["signed"], KeyList)
        signatures = msgspec.convert(plain["signatures"], list[Signature])
    except msgspec.ValidationError as problem:
        place = str(problem).rpartition(" - at ")[2] or "a field"
        raise BadInput(f"keys.json: {place} is not valid", hint="correct it") from None
    _check_list(listed)
    body = canonical(plain["signed"])
    return Keys(listed, body), signatures, body


def _no(what: str) -> Denied:
    return Denied(what, hint="the list in force stays in force")


def _bad(what: str) -> BadInput:
    return BadInput(f"keys.json: {what}", hint="correct it, and have it signed again")


def _check_list(listed: KeyList) -> None:
    """Raise BadInput unless each name occurs once, each reference has a target, and all times are written in the same
    format."""
    for what, names in (
        ("a person", [each.id for each in listed.people]),
        ("a custodian", [each.id for each in listed.custodians]),
    ):
        if not all(map(_NAME.match, names)):
            raise _bad(f"{what} has a name with characters other than lower-case letters, digits and - _ @ .")
        if len(set(names)) != len(names):
            raise _bad(f"{what} is listed twice")
    times = [listed.issued_at]
    for key in listed.keys:
        if not re.fullmatch("[0-9a-f]{64}", key.public):
            raise _bad("a public key is not 32 bytes in hex")
        check_public(bytes.fromhex(key.public))
        times += [key.valid_from, key.valid_until, *([key.revoked_at] if key.revoked_at else [])]
        if key.person not in {"", *(each.id for each in listed.people)}:
            raise _bad("a key belongs to a person who is not listed")
        if bool(key.person) != (key.purpose in ("act", "community")):
            raise _bad("a key for acts must have a person; a key for checkpoints or attestations must not")
    if not all(map(WHEN.match, times)):
        raise _bad("a time is not written as 2026-01-31T00:00:00.000Z")
    if len({key.public for key in listed.keys}) != len(listed.keys):
        raise _bad("a public key is listed twice")
    if listed.previous and not is_digest(listed.previous):
        raise _bad("`previous` is not a digest")
    _check_people(listed)


def _check_people(listed: KeyList) -> None:
    custodians = {each.id for each in listed.custodians}
    if any(set(person.steward_of) - custodians for person in listed.people):
        raise _bad("a person is a steward of a custodian that is not listed")
    if any(person.steward_of and "steward" not in person.roles for person in listed.people):
        raise _bad("a person has `steward_of` without the role steward")
    if not 1 <= listed.admins <= sum("admin" in person.roles for person in listed.people):
        raise _bad("`admins` must be at least 1 and at most the count of admins")
    owners = {key.id: key.person for key in listed.keys if key.purpose == "community"}
    for each in listed.custodians:
        if set(each.community) - set(owners):
            raise _bad(f"a key of the community of {each.id} is not listed as one")
        members = {owners[key] for key in each.community}
        reachable = range(1, len(members) + 1) if members else range(1)
        if each.threshold not in reachable:
            raise _bad(f"the threshold of {each.id} is larger than its community, or 0")
        if not members and not any(each.id in person.steward_of for person in listed.people):
            raise _bad(f"{each.id} has neither a community nor a steward, so no one could decide about its data")


def _good(keys: Keys, signatures: list[Signature], body: bytes, now: str) -> dict[str, Key]:
    """Return the valid keys of this list that signed these bytes."""
    message = pae(TYPE, body)
    found = {}
    for each in signatures:
        key = keys.keys.get(each.keyid)
        if key is not None and key.is_live(now) and is_signed(bytes.fromhex(key.public), _raw(each.sig), message):
            found[each.keyid] = key
    return found


def _raw(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""


def _people(good: dict[str, Key], purpose: Purpose) -> set[str]:
    return {key.person for key in good.values() if key.purpose == purpose}


def _check_admins(keys: Keys, good: dict[str, Key]) -> None:
    signed = sum(keys.has_role(person, "admin") for person in _people(good, "act"))
    if signed < keys.listed.admins:
        raise _no(f"{signed} admins signed the key list; {keys.listed.admins} are required")


def _check_kept(current: Keys, after: Keys) -> None:
    for name, key in current.keys.items():
        kept = after.keys.get(name)
        if kept is None:
            raise _no("a key is missing from the next list; revoke it instead")
        now_revoked = {"revoked_at": key.revoked_at} if key.revoked_at else {"revoked_at": kept.revoked_at}
        until = min(key.valid_until, kept.valid_until)
        if kept != msgspec.structs.replace(key, valid_until=until, **now_revoked):
            raise _no("a key was changed; it may only be revoked, or end earlier")
    if set(current.custodians) - set(after.custodians):
        raise _no("a custodian is missing from the next list")
    for custodian in current.custodians:
        # Otherwise an admin could remove the stewards first and then appoint others without their approval.
        if len(_stewards(after, custodian)) < min(TWO, len(_stewards(current, custodian))):
            raise _no(f"{custodian} would have no steward left to approve changes")


def _deciders(keys: Keys, custodian: str) -> set[str]:
    """Return the ids of the keys that act as stewards of a custodian."""
    return {name for name, key in keys.keys.items() if key.purpose == "act" and keys.is_steward(key.person, custodian)}


def _stewards(keys: Keys, custodian: str) -> set[str]:
    return {person for person in keys.people if keys.is_steward(person, custodian)}


def _loosened(current: Keys, after: Keys, old: Custodian) -> bool:
    new = after.custodians[old.id]
    fewer = new.threshold < old.threshold
    # Also the first keys of a community: their holders approve the next list on its behalf.
    more = bool(set(new.community) - set(old.community))
    return fewer or more or bool(_deciders(after, old.id) - _deciders(current, old.id))


def _consented(current: Keys, custodian: Custodian, good: dict[str, Key]) -> bool:
    if custodian.community:
        own = {name: key for name, key in good.items() if name in custodian.community}
        return len(_people(own, "community")) >= custodian.threshold
    needed = min(TWO, len(_stewards(current, custodian.id)))
    return sum(current.is_steward(person, custodian.id) for person in _people(good, "act")) >= needed
