"""Changes of the key list: a new key, or a key revoked.

A list comes into force when the ref `keys/list` moves to it, and only as the signed successor of the list in force. The
file and the ref change one after the other: the next list is written next to the file first, and takes its name once
the ref has moved. A reader finds the list that the ref names under one of both names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from kfm.app.authority.keyring import in_force, now
from kfm.app.authority.rule_adoption import adopt_review
from kfm.app.runs.run_control import run_operation
from kfm.app.runs.settlement import settle_session
from kfm.app.session.key_list_file import FILE, next_file
from kfm.clock import parse_instant, rfc3339
from kfm.crypto.key_list import Custodian, Key, KeyList, Person, Purpose, Role, read_list, signed_list
from kfm.crypto.signatures import SEED_SIZE, Signer, check_public
from kfm.errors import BadInput
from kfm.fsio import REAL, failing_as_storage, write_apart
from kfm.model import refs
from kfm.model.records import Receipt
from kfm.model.secret import Secret
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.app.session.session import Session

DAY_MS = 86_400_000


class KeyRequest(msgspec.Struct, frozen=True):
    """A key that an admin wants to have, and its owner."""

    person: str
    roles: Sequence[Role]
    custodians: Sequence[str]
    purpose: Purpose
    days: int
    threshold: int = 0  # community signatures needed; 0 keeps the present number
    admins: int = 0  # admins who must sign the next list; 0 keeps the present number
    public: str = ""  # the public half, if the owner made the key


class KeyChange(msgspec.Struct, frozen=True):
    """A changed key list: the receipt, and the key that was added or revoked."""

    receipt: Receipt
    key: str
    file: str  # the file of the private half; empty if the key was made elsewhere


def new_key(
    session: Session, wanted: KeyRequest, out: str, signers: Sequence[Signer], *, actor: str, reason: str
) -> KeyChange:
    """Make a key and the list that has it. The list is in force if the receipt says so; the private half is in the file
    `out` and nowhere else."""
    current = in_force(session)
    path = ""
    if wanted.public:
        signer = None
        public = check_public(_hex(wanted.public))
    else:
        path, signer = _make(out, wanted)
        public = signer.public
    try:
        at = now(session)
        key = Key(
            public=public.hex(),
            purpose=wanted.purpose,
            valid_from=at,
            valid_until=rfc3339(parse_instant(at, "now") + wanted.days * DAY_MS),
            person=wanted.person,
        )
        after = _with(current.listed if current else None, key, wanted, at, current.digest if current else "")
        first = [signer] if current is None and signer is not None else []
        receipt = _follow(session, signed_list(after, [*signers, *first]), actor=actor, reason=reason)
    except BaseException:
        if path:
            REAL.unlink(path)
        raise
    if receipt.status != "SUCCESS" and path:
        REAL.unlink(path)
    if receipt.status == "SUCCESS" and current is None:
        adopt_review(session)
    return KeyChange(receipt, key.id, path)


def revoke(session: Session, start: str, signers: Sequence[Signer], *, actor: str, reason: str) -> KeyChange:
    """Make the list in which a key is revoked from now on. BadInput unless `start` is the start of exactly one key."""
    current = in_force(session)
    if current is None:
        raise BadInput("there is no key list", hint="make one: `kfm keys new --person NAME --role admin`")
    found = [name for name in current.keys if len(start) >= 8 and name.startswith(start)]
    if len(found) != 1:
        many = f"{len(found)} keys begin" if found else "no key begins"
        raise BadInput(f"{many} with {printable(start, 40)}", hint="see `kfm keys list`; give 8 digits or more")
    at = now(session)
    listed = current.listed
    keys = [
        msgspec.structs.replace(key, revoked_at=key.revoked_at or at) if key.id == found[0] else key
        for key in listed.keys
    ]
    after = msgspec.structs.replace(
        listed, version=listed.version + 1, previous=current.digest, issued_at=at, keys=keys
    )
    return KeyChange(_follow(session, signed_list(after, signers), actor=actor, reason=reason), found[0], "")


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadInput("--public is not 32 bytes in hex", hint="`kfm keys list` of its owner shows it") from None


def _make(out: str, wanted: KeyRequest) -> tuple[str, Signer]:
    """Write a new private key into a file that only its owner can read. BadInput if the file exists."""
    seed = os.urandom(SEED_SIZE)
    signer = Signer(Secret(seed))
    path = os.path.abspath(out or _usual(wanted, signer.key_id))
    with failing_as_storage(f"write the private key to {path}"):
        if REAL.exists(path):
            raise BadInput(f"{path} is there already", hint="name another file with --out; no key is overwritten")
        REAL.make_dirs(os.path.dirname(path))
        write_apart(REAL, f"{path}.tmp", [seed.hex().encode() + b"\n"])
        REAL.replace(f"{path}.tmp", path)
        REAL.sync_dir(os.path.dirname(path))
    return path, signer


def _usual(wanted: KeyRequest, key_id: str) -> str:
    """Return the default file of a private key. It lies outside the installation, which people copy and commit."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "kfm", "keys", f"{wanted.person or wanted.purpose}-{key_id[:8]}.key")


def _with(listed: KeyList | None, key: Key, wanted: KeyRequest, at: str, previous: str) -> KeyList:
    """Return the list with one more key, and with the roles of its owner."""
    if listed is None:
        listed = KeyList(version=0, previous="", issued_at=at, admins=1, people=[], keys=[])
    people = {person.id: person for person in listed.people}
    custodians = {each.id: each for each in listed.custodians}
    for name in wanted.custodians:
        found = custodians.get(name) or Custodian(id=name)
        if wanted.purpose == "community":
            threshold = wanted.threshold or found.threshold or 1
            found = msgspec.structs.replace(found, community=[*found.community, key.id], threshold=threshold)
        custodians[name] = found
    if wanted.person:
        old = people.get(wanted.person) or Person(id=wanted.person, roles=[])
        own = wanted.custodians if "steward" in wanted.roles else []
        people[wanted.person] = Person(
            id=old.id,
            roles=[*old.roles, *(role for role in wanted.roles if role not in old.roles)],
            steward_of=[*old.steward_of, *(name for name in own if name not in old.steward_of)],
        )
    return KeyList(
        version=listed.version + 1,
        previous=previous,
        issued_at=at,
        admins=wanted.admins or listed.admins,
        people=list(people.values()),
        keys=[*listed.keys, key],
        custodians=list(custodians.values()),
    )


def _follow(session: Session, file: bytes, *, actor: str, reason: str) -> Receipt:
    """Bring a list into force if everyone who must has signed it. The ledger records a refusal, too."""
    keys, body = read_list(file)
    params = {"ref": refs.KEY_LIST, "to": session.objects.put(body), "file": session.objects.put(file)}
    if params["to"] != keys.digest:
        raise AssertionError("a list is known by the digest of its body")
    next_to, place = session.resolved.at(next_file(keys.digest)), session.resolved.at(FILE)
    if session.mode == "write":
        with failing_as_storage(f"write the next {FILE}"):
            write_apart(REAL, next_to, [file], mode=0o644)
            REAL.sync_dir(os.path.dirname(next_to))
    receipt = run_operation(session, "keys", "keys", params, actor=actor, reason=reason)
    settle_session(session)
    if session.mode == "write":
        with failing_as_storage(f"write {FILE}"):
            if receipt.status == "SUCCESS":
                REAL.replace(next_to, place)
            else:
                REAL.unlink(next_to)
            REAL.sync_dir(os.path.dirname(place))
    return receipt
