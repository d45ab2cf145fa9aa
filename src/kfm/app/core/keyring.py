"""The key list of an installation: `keys.json` beside kfm.yml, whose digest the state holds as the ref `keys/list`.

A list comes into force by a move of that ref, and only as the signed successor of the one that is: it can be neither
switched off nor replaced by an older one, and where the file is missing or another, whatever needs it is denied.
Without any list an installation is one person's, and handles public data only.

The file and the ref change one after the other: the next list is written beside the file first, and takes its name when
the ref has moved. Whoever reads finds the one that the ref names under one of both names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from kfm.clock import Clock, parse_instant, rfc3339
from kfm.config import Resolved
from kfm.crypto.change_request import Order
from kfm.crypto.key_list import Custodian, Key, KeyList, Keys, Person, Purpose, Role, known_list, signed_list
from kfm.crypto.signatures import SEED_SIZE, check_public
from kfm.crypto.signatures import Signer as Signer
from kfm.engine.run_context import Ports
from kfm.errors import BadInput, Denied, KfmError
from kfm.fsio import REAL, failing_as_storage, write_apart
from kfm.model.ports import Log, Objects
from kfm.model.records import Effect, Receipt
from kfm.model.secret import Secret
from kfm.operations.key_operations import LIST
from kfm.parsing.characters import printable
from kfm.secret_references import read_reference
from kfm.store.state import StoredState

FILE = "keys.json"
DAY_MS = 86_400_000
MOST = 16 << 20


class Installed(Protocol):
    """What is needed here of an open house."""

    resolved: Resolved
    state: StoredState
    objects: Objects
    clock: Clock
    log: Log
    mode: Literal["write", "read", "dry"]
    offered: Order | None

    def operation(
        self, name: str, dataset: str, params: dict[str, str] | None = None, *, reason: str = "", actor: str = ""
    ) -> Receipt: ...

    def ports(self, name: str) -> Ports: ...

    def retention(self, dataset: str) -> int: ...

    def settle(self) -> list[Effect]: ...


def in_force(session: Installed) -> Keys | None:
    """The list that holds; None if nobody ever made one. Denied if it is not there, or not the one that holds."""
    known = session.state.refs.at(LIST)
    file = session.resolved.at(FILE)
    if not known:
        if os.path.lexists(file):
            raise Denied(
                f"{FILE} lies here, and this installation never took it",
                hint="restore the state it belongs to, or take the file away to begin anew",
            )
        return None
    for path in (file, session.resolved.at(_beside(known))):
        try:
            return known_list(_read(path), known)
        except (OSError, KfmError):
            continue
    missing = not os.path.lexists(file)
    raise Denied(
        f"{FILE} is missing" if missing else f"{FILE} is not the list that is in force",
        hint="put back the copy that was in force last; a list that was once made cannot be switched off",
    )


def _beside(digest: str) -> str:
    """Where the list of this digest waits for its name: two who make one at the same time write two files."""
    return f"{FILE}.{digest.removeprefix('sha256:')[:16]}"


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(MOST)


def check_protected(session: Installed) -> None:
    """May data that are not public be handled here at all? Denied where it is one person's installation."""
    if in_force(session) is None:
        raise Denied(
            "there is no key list, and without one only public data are handled",
            hint="make one: `kfm keys new --person NAME --role admin`",
        )


def now(session: Installed) -> str:
    """By the clock, and never before the last thing in the ledger: a clock that was put back opens nothing."""
    told = rfc3339(session.clock.now_ms())
    for last in session.state.ledger.entries(reverse=True, limit=1):
        told = max(told, last.ts)
    return told


def signer_at(path: str) -> Signer:
    """The private key in a file that is closed to all others."""
    return Signer(Secret(read_reference(f"file:{path}", os.environ, os.path.abspath)))


def who(keys: Keys, signer: Signer, at: str) -> str:
    """The person whose key it is; denied if it counts for nothing now."""
    key = keys.live(signer.key_id, "act", at) or keys.live(signer.key_id, "community", at)
    if key is None:
        raise Denied(
            f"key {signer.key_id[:16]} is not listed, or not valid now", hint="see `kfm keys list`, and ask an admin"
        )
    return key.person


class Wanted(msgspec.Struct, frozen=True):
    """A key to be made, and whose it is."""

    person: str
    roles: Sequence[Role]
    custodians: Sequence[str]
    purpose: Purpose
    days: int
    threshold: int = 0  # of the community; 0: as it is
    admins: int = 0  # who sign the next list; 0: as it is
    public: str = ""  # its public half, if somebody else made it


class Made(msgspec.Struct, frozen=True):
    receipt: Receipt
    key: str
    file: str  # where the private half is; empty: not made here


def new_key(
    session: Installed, wanted: Wanted, out: str, signers: Sequence[Signer], *, actor: str, reason: str
) -> Made:
    """A key, and the list with it: in force when the receipt says so. The private half is in `out` and nowhere else."""
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
    return Made(receipt, key.id, path)


def revoke(session: Installed, start: str, signers: Sequence[Signer], *, actor: str, reason: str) -> Made:
    """The list in which a key counts for nothing any more, from now on."""
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
    return Made(_follow(session, signed_list(after, signers), actor=actor, reason=reason), found[0], "")


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadInput("--public is not 32 bytes in hex", hint="`kfm keys list` of its owner shows it") from None


def _make(out: str, wanted: Wanted) -> tuple[str, Signer]:
    """A new private key in a file of its own, that only its owner reads."""
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


def _usual(wanted: Wanted, key_id: str) -> str:
    """Not in the installation: that is copied, backed up and put under version control."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "kfm", "keys", f"{wanted.person or wanted.purpose}-{key_id[:8]}.key")


def _with(listed: KeyList | None, key: Key, wanted: Wanted, at: str, previous: str) -> KeyList:
    """The list with one key more, and with what its owner may do."""
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


def _follow(session: Installed, file: bytes, *, actor: str, reason: str) -> Receipt:
    """Bring a list into force, if all who must have signed it did; whoever did not, that is in the ledger too."""
    from kfm.crypto.key_list import read_list

    keys, body = read_list(file)
    params = {"ref": LIST, "to": session.objects.put(body), "file": session.objects.put(file)}
    if params["to"] != keys.digest:
        raise AssertionError("a list is known by the digest of its body")
    beside, place = session.resolved.at(_beside(keys.digest)), session.resolved.at(FILE)
    if session.mode == "write":
        with failing_as_storage(f"write the next {FILE}"):
            write_apart(REAL, beside, [file], mode=0o644)
            REAL.sync_dir(os.path.dirname(beside))
    receipt = session.operation("keys", "keys", params, actor=actor, reason=reason)
    session.settle()
    if session.mode == "write":
        with failing_as_storage(f"write {FILE}"):
            if receipt.status == "SUCCESS":
                REAL.replace(beside, place)
            else:
                REAL.unlink(beside)
            REAL.sync_dir(os.path.dirname(place))
    return receipt
