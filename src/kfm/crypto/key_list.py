"""`keys.json`: who is who, which keys are whose, what each is for and until when; signed by the admins.

    {"signed": {"version": 2, "previous": "sha256:…", "people": […], "keys": […], "custodians": […]},
     "signatures": [{"keyid": "…", "sig": "…"}]}

The first list is signed by the admins it names, and from then on the state holds its digest. Every later one names the
one before it and is signed by the admins of both. That alone does not let an admin become a steward: whatever would let
more people decide about a custodian's data is also signed by the community's keys, or, where there is no community, by
two of its stewards, as the list before it has them; by the one there is, as long as it has only one, who alone can
decide nothing. Keys are never taken out, only revoked; a revoked one stays so.
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
Purpose = Literal["act", "community", "checkpoint", "attest"]  # one per key: no signature can stand for another
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
    person: str = ""  # whose it is; empty: of the installation, which signs checkpoints and attestations
    revoked_at: str = ""

    @property
    def id(self) -> str:
        return key_id(bytes.fromhex(self.public))

    def is_live(self, now: str) -> bool:
        return self.valid_from <= now < self.valid_until and not (self.revoked_at and self.revoked_at <= now)


class Custodian(Record, frozen=True):
    id: str
    seal_keys: list[str] = []  # ids of the keys its bytes may be sealed with, the one in use first
    community: list[str] = []  # ids of the community's own keys
    threshold: int = 0  # how many people of the community it takes


class KeyList(Record, frozen=True):
    version: int
    previous: str  # digest of the list before it; empty: the first
    issued_at: str
    admins: int  # how many of them sign the next list
    people: list[Person]
    keys: list[Key]
    custodians: list[Custodian] = []


class Keys:
    """A list that was found good. Nothing else makes one but the functions below."""

    def __init__(self, listed: KeyList, body: bytes) -> None:
        self.listed = listed
        self.digest = digest(body)
        self.keys = {key.id: key for key in listed.keys}
        self.people = {person.id: person for person in listed.people}
        self.custodians = {each.id: each for each in listed.custodians}

    def live(self, key: str, purpose: Purpose, now: str) -> Key | None:
        """The key of this id, if it is for this and may be used now."""
        found = self.keys.get(key)
        return found if found is not None and found.purpose == purpose and found.is_live(now) else None

    def is_steward(self, person: str, custodian: str) -> bool:
        """Of this custodian; of any, where the data have none."""
        found = self.people.get(person)
        return found is not None and "steward" in found.roles and (not custodian or custodian in found.steward_of)

    def has_role(self, person: str, role: Role) -> bool:
        found = self.people.get(person)
        return found is not None and role in found.roles


def signed_list(listed: KeyList, signers: Iterable[Signer]) -> bytes:
    """A list to be written to a file; whether it is accepted is for `first_list` and `next_list` to say."""
    body = canonical(listed)
    message = pae(TYPE, body)
    signatures = [
        {"keyid": each.key_id, "sig": b64encode(each.sign(message)).decode()}
        for each in sorted(signers, key=lambda signer: signer.key_id)
    ]
    return canonical({"signed": listed, "signatures": signatures}) + b"\n"


def read_list(file: bytes) -> tuple[Keys, bytes]:
    """What a file says, and the bytes that were signed: whether they were signed by those who must is not asked."""
    keys, _, body = _read(file)
    return keys, body


def first_list(file: bytes, now: str) -> Keys:
    """Trust on first use: the caller writes the digest into the state, and asks for it from then on."""
    keys, signatures, body = _read(file)
    if keys.listed.version != 1 or keys.listed.previous or keys.listed.issued_at > now:
        raise _no("the first key list is version 1, names none before it, and is not of the future")
    _check_admins(keys, _good(keys, signatures, body, now))
    return keys


def known_list(file: bytes, known: str) -> Keys:
    """The list whose digest the state holds; its signatures were checked when it came."""
    keys, _, _ = _read(file)
    if keys.digest != known:
        raise Denied(
            "keys.json is not the list that is in force", hint="restore it, or add the next one with `kfm keys`"
        )
    return keys


def next_list(current: Keys, file: bytes, now: str) -> Keys:
    """The list that follows, if all who must have signed it did."""
    after, signatures, body = _read(file)
    old, new = current.listed, after.listed
    if new.version != old.version + 1 or new.previous != current.digest:
        raise _no("the key list does not follow the one in force")
    if not old.issued_at <= new.issued_at <= now:
        raise _no("the key list is older than the one in force, or of the future")
    good = _good(current, signatures, body, now)
    _check_admins(current, good)
    _check_admins(after, _good(after, signatures, body, now))
    _check_kept(current, after)
    for custodian in old.custodians:
        if _loosened(current, after, custodian) and not _consented(current, custodian, good):
            raise _no(f"more people would decide about data of {custodian.id}, and it did not sign that")
    return after


def _read(file: bytes) -> tuple[Keys, list[Signature], bytes]:
    plain = decode(file, "keys.json")
    try:
        if not isinstance(plain, dict) or set(plain) != {"signed", "signatures"}:
            raise BadInput("keys.json is no signed list", hint="it has `signed` and `signatures`")
        listed = msgspec.convert(plain["signed"], KeyList)
        signatures = msgspec.convert(plain["signatures"], list[Signature])
    except msgspec.ValidationError as problem:
        place = str(problem).rpartition(" - at ")[2] or "a field"
        raise BadInput(f"keys.json: {place} is not what it should be", hint="correct it") from None
    _check_list(listed)
    body = canonical(plain["signed"])
    return Keys(listed, body), signatures, body


def _no(what: str) -> Denied:
    return Denied(what, hint="the list in force stays in force")


def _bad(what: str) -> BadInput:
    return BadInput(f"keys.json: {what}", hint="correct it, and have it signed again")


def _check_list(listed: KeyList) -> None:
    """That it is one list and not a riddle: each name once, each reference to something, all times in the one form."""
    for what, names in (
        ("a person", [each.id for each in listed.people]),
        ("a custodian", [each.id for each in listed.custodians]),
    ):
        if not all(map(_NAME.match, names)):
            raise _bad(f"{what} has no plain name, made of lower-case letters, digits and - _ @ . alone")
        if len(set(names)) != len(names):
            raise _bad(f"{what} is listed twice")
    times = [listed.issued_at]
    for key in listed.keys:
        if not re.fullmatch("[0-9a-f]{64}", key.public):
            raise _bad("a public key is not 32 bytes in hex")
        check_public(bytes.fromhex(key.public))
        times += [key.valid_from, key.valid_until, *([key.revoked_at] if key.revoked_at else [])]
        if key.person not in {"", *(each.id for each in listed.people)}:
            raise _bad("a key is of somebody who is not listed")
        if bool(key.person) != (key.purpose in ("act", "community")):
            raise _bad("keys for acts are a person's, keys for checkpoints and attestations nobody's")
    if not all(map(WHEN.match, times)):
        raise _bad("a time is not written as 2026-01-31T00:00:00.000Z")
    if len({key.public for key in listed.keys}) != len(listed.keys):
        raise _bad("a public key is listed twice")
    if listed.previous and not is_digest(listed.previous):
        raise _bad("`previous` is no digest")
    _check_people(listed)


def _check_people(listed: KeyList) -> None:
    custodians = {each.id for each in listed.custodians}
    if any(set(person.steward_of) - custodians for person in listed.people):
        raise _bad("somebody is a steward of a custodian who is not listed")
    if any(person.steward_of and "steward" not in person.roles for person in listed.people):
        raise _bad("somebody has data in custody and is no steward")
    if not 1 <= listed.admins <= sum("admin" in person.roles for person in listed.people):
        raise _bad("it takes at least one admin, and not more than there are")
    owners = {key.id: key.person for key in listed.keys if key.purpose == "community"}
    for each in listed.custodians:
        if set(each.community) - set(owners):
            raise _bad(f"a key of the community of {each.id} is not listed as one")
        members = {owners[key] for key in each.community}
        reachable = range(1, len(members) + 1) if members else range(1)
        if each.threshold not in reachable:
            raise _bad(f"the threshold of {each.id} is not one its community can reach")
        if not members and not any(each.id in person.steward_of for person in listed.people):
            raise _bad(f"{each.id} has neither a community nor a steward: nobody could ever answer for its data")


def _good(keys: Keys, signatures: list[Signature], body: bytes, now: str) -> dict[str, Key]:
    """The live keys that signed, as this list has them."""
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
        raise _no(f"the key list is signed by {signed} of its admins, and it takes {keys.listed.admins}")


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
        # Else an admin could take out the stewards first, and appoint others where nobody is left to be asked.
        if len(_stewards(after, custodian)) < min(TWO, len(_stewards(current, custodian))):
            raise _no(f"{custodian} would be left without the stewards who are asked")


def _deciders(keys: Keys, custodian: str) -> set[str]:
    """The keys that count for a custodian as its stewards'."""
    return {name for name, key in keys.keys.items() if key.purpose == "act" and keys.is_steward(key.person, custodian)}


def _stewards(keys: Keys, custodian: str) -> set[str]:
    return {person for person in keys.people if keys.is_steward(person, custodian)}


def _loosened(current: Keys, after: Keys, old: Custodian) -> bool:
    new = after.custodians[old.id]
    fewer = new.threshold < old.threshold
    # Also the first keys of a community: whoever has them consents to the next list in its place.
    more = bool(set(new.community) - set(old.community))
    return fewer or more or bool(_deciders(after, old.id) - _deciders(current, old.id))


def _consented(current: Keys, custodian: Custodian, good: dict[str, Key]) -> bool:
    if custodian.community:
        own = {name: key for name, key in good.items() if name in custodian.community}
        return len(_people(own, "community")) >= custodian.threshold
    needed = min(TWO, len(_stewards(current, custodian.id)))
    return sum(current.is_steward(person, custodian.id) for person in _people(good, "act")) >= needed
