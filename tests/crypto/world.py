"""People, keys and a key list, for the tests of keys and approvals."""

from __future__ import annotations

import hashlib

import msgspec

from kfm.crypto.approvals import Act, ApprovalRequest, sign_act
from kfm.crypto.custodian_key import CustodianKey
from kfm.crypto.key_list import Custodian, Key, KeyList, Keys, Person, Purpose, first_list, signed_list
from kfm.crypto.signatures import Signer
from kfm.model.secret import Secret

T0 = "2026-01-01T00:00:00.000Z"
NOW = "2026-03-02T12:00:00.000Z"
LATER = "2026-03-03T12:00:00.000Z"
END = "2027-01-01T00:00:00.000Z"
KAW, MUSEUM = "kaw-nation", "museum"


def seed(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def signer(name: str) -> Signer:
    return Signer(Secret(seed(name)))


def custodian_key(name: str = "one") -> CustodianKey:
    return CustodianKey(Secret(hashlib.sha512(name.encode()).digest()))


def key(name: str, person: str = "", purpose: Purpose = "act", **how: str) -> Key:
    return Key(
        public=signer(name).public.hex(),
        purpose=purpose,
        valid_from=how.get("valid_from", T0),
        valid_until=how.get("valid_until", END),
        person=person,
        revoked_at=how.get("revoked_at", ""),
    )


PEOPLE = [
    Person(id="ada", roles=["admin"]),
    Person(id="amy", roles=["admin"]),
    Person(id="vic", roles=["viewer"]),
    Person(id="olli", roles=["operator"]),
    Person(id="otto", roles=["operator"]),
    Person(id="sue", roles=["steward"], steward_of=[KAW, MUSEUM]),
    Person(id="sam", roles=["steward"], steward_of=[KAW, MUSEUM]),
    Person(id="stu", roles=["steward", "operator"], steward_of=[KAW, MUSEUM]),
    Person(id="eve", roles=["steward"]),
    *(Person(id=name, roles=[]) for name in ("kim", "kai", "koa")),
]
STAFF = ("ada", "amy", "vic", "olli", "otto", "sue", "sam", "stu", "eve")
FIRST = KeyList(
    version=1,
    previous="",
    issued_at=T0,
    admins=1,
    people=PEOPLE,
    keys=[
        *(key(name, name) for name in STAFF),
        key("sue-2", "sue"),
        *(key(f"{name}-own", name, "community") for name in ("kim", "kai", "koa")),
        key("kim-own-2", "kim", "community"),
        key("ledger", purpose="checkpoint"),
        key("prover", purpose="attest"),
    ],
    custodians=[
        Custodian(
            id=KAW,
            community=[signer(f"{name}").key_id for name in ("kim-own", "kai-own", "koa-own", "kim-own-2")],
            threshold=2,
        ),
        Custodian(id=MUSEUM, seal_keys=[custodian_key().key_id]),
    ],
)


def trusted(listed: KeyList = FIRST, now: str = NOW) -> Keys:
    return first_list(signed_list(listed, [signer("ada"), signer("amy")]), now)


def changed(listed: KeyList, name: str, **fields: str) -> KeyList:
    """The list with one key changed."""
    wanted = signer(name).public.hex()
    return msgspec.structs.replace(
        listed, keys=[msgspec.structs.replace(k, **fields) if k.public == wanted else k for k in listed.keys]
    )


def request(action: str, **fields: object) -> ApprovalRequest:
    plain = {
        "id": "req-1",
        "action": action,
        "requester": "olli",
        "dataset": "kfm://dataset/sites",
        "purpose": "research permit 12",
        "created_at": "2026-03-01T00:00:00.000Z",
        "expires_at": "2026-03-07T00:00:00.000Z",
        "custodian": MUSEUM,
        "subject": "sha256:" + "ab" * 32,
    }
    return msgspec.convert({**plain, **fields}, ApprovalRequest)


def acts(wanted: ApprovalRequest, *approvers: str, requester: str = "") -> list[Act]:
    """The request signed by whoever asks, and approvals with the keys of these names."""
    asked = sign_act("request", wanted, signer(requester or wanted.requester), NOW)
    return [asked, *(sign_act("approve", wanted, signer(name), NOW) for name in approvers)]
