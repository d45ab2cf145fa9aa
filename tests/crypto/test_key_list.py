"""The key list is read strictly, and replaced only by a list with every required signature."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kfm.crypto.key_list import Custodian, KeyList, Keys, Person, first_list, known_list, next_list, signed_list
from kfm.errors import BadInput, Denied
from tests.crypto.world import (
    END,
    FIRST,
    KAW,
    LATER,
    MUSEUM,
    NOW,
    PEOPLE,
    T0,
    changed,
    custodian_key,
    key,
    signer,
    trusted,
)

replace = msgspec.structs.replace
Change = Callable[[KeyList], KeyList]


def after(current: Keys, change: Change, *signed_by: str, now: str = LATER) -> Keys:
    """The next list with this change, signed with the keys of these names."""
    listed = replace(current.listed, version=current.listed.version + 1, previous=current.digest, issued_at=NOW)
    return next_list(current, signed_list(change(listed), [signer(name) for name in signed_by]), now)


def person(listed: KeyList, name: str, **fields: Any) -> KeyList:
    return replace(listed, people=[replace(p, **fields) if p.id == name else p for p in listed.people])


def custodian(listed: KeyList, name: str, **fields: Any) -> KeyList:
    return replace(listed, custodians=[replace(c, **fields) if c.id == name else c for c in listed.custodians])


def same(listed: KeyList) -> KeyList:
    return listed


def test_the_first_list_is_signed_by_its_own_admins_and_then_known_by_its_digest() -> None:
    keys = trusted()
    file = signed_list(FIRST, [signer("ada")])
    assert known_list(file, keys.digest).listed == FIRST
    assert keys.is_steward("sue", KAW) and not keys.is_steward("eve", KAW) and keys.is_steward("eve", "")
    assert not keys.is_steward("ada", KAW), "an admin has no data in custody"
    assert keys.live(signer("ledger").key_id, "attest", NOW) is None, "a key is for one thing"
    for wrong in ([], ["sue"], ["mallory"], ["kim-own"]):
        with pytest.raises(Denied, match=r"^0 admins signed"):
            first_list(signed_list(FIRST, [signer(name) for name in wrong]), NOW)
    with pytest.raises(Denied, match=r"^0 admins signed"):
        first_list(signed_list(changed(FIRST, "ada", revoked_at=T0), [signer("ada")]), NOW)
    with pytest.raises(Denied, match=r"^1 admins signed"):
        first_list(signed_list(replace(FIRST, admins=2), [signer("ada")]), NOW)
    with pytest.raises(Denied, match="not the key list"):
        known_list(signed_list(replace(FIRST, issued_at=NOW), [signer("ada")]), keys.digest)
    with pytest.raises(Denied):
        first_list(signed_list(replace(FIRST, issued_at=END), [signer("ada")]), NOW)


def test_a_byte_changed_after_signing_is_seen() -> None:
    file = json.loads(signed_list(FIRST, [signer("ada")]))
    file["signed"]["people"][2]["roles"] = ["admin"]
    with pytest.raises(Denied, match=r"^0 admins signed"):
        first_list(json.dumps(file).encode(), NOW)


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("twice", lambda k: replace(k, people=[*k.people, k.people[0]])),
        ("lower-case letters", lambda k: replace(k, people=[*k.people, Person(id="A b", roles=[])])),
        ("listed twice", lambda k: replace(k, keys=[*k.keys, key("sue", "eve")])),
        ("not listed", lambda k: replace(k, keys=[*k.keys, key("x", "nobody")])),
        ("must not", lambda k: replace(k, keys=[*k.keys, key("x", "sue", "checkpoint")])),
        ("must not", lambda k: replace(k, keys=[*k.keys, key("x")])),
        ("a time", lambda k: replace(k, keys=[*k.keys, key("x", "sue", valid_until="never")])),
        ("a time", lambda k: replace(k, keys=[*k.keys, key("x", "sue", valid_until="2027-01-01")])),
        ("32 bytes", lambda k: replace(k, keys=[*k.keys, replace(key("x", "sue"), public="00")])),
        ("Ed25519", lambda k: replace(k, keys=[*k.keys, replace(key("x", "sue"), public="01" + "00" * 31)])),
        ("must be at least 1", lambda k: replace(k, admins=0)),
        ("must be at least 1", lambda k: replace(k, admins=3)),
        ("threshold", lambda k: custodian(k, KAW, threshold=0)),
        ("threshold", lambda k: custodian(k, KAW, threshold=4)),  # two of the four keys are one person's
        ("threshold", lambda k: custodian(k, MUSEUM, threshold=1)),
        ("not listed as one", lambda k: custodian(k, KAW, community=[signer("sue").key_id])),
        ("no one could", lambda k: replace(k, custodians=[*k.custodians, Custodian(id="lone")])),
        ("that is not listed", lambda k: person(k, "eve", steward_of=["nowhere"])),
        ("without the role steward", lambda k: person(k, "olli", steward_of=[MUSEUM])),
        ("not a digest", lambda k: replace(k, previous="yesterday")),
    ],
)
def test_a_list_that_is_a_riddle_is_refused(what: str, change: Change) -> None:
    with pytest.raises(BadInput, match=what):
        trusted(change(FIRST))


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"signed":{},"signatures":[]}', b'{"signed":1,"signed":2}'])
def test_what_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput):
        first_list(body, NOW)


def test_unknown_fields_and_roles_are_refused_and_not_passed_over() -> None:
    for bend in (
        lambda plain: plain.update(extra=1),
        lambda plain: plain["people"][0].update(superuser=True),
        lambda plain: plain["people"][0].update(roles=["root"]),
        lambda plain: plain["keys"][0].update(purpose="everything"),
    ):
        file = json.loads(signed_list(FIRST, [signer("ada")]))
        bend(file["signed"])
        with pytest.raises(BadInput):
            first_list(json.dumps(file).encode(), NOW)


def test_a_list_is_followed_by_the_next_and_by_no_other() -> None:
    current = trusted()
    assert after(current, same, "ada").listed.version == 2
    with pytest.raises(Denied, match=r"^0 admins signed"):
        after(current, same, "sue", "sam", "kim-own", "kai-own")
    for change in (
        lambda k: replace(k, version=3),
        lambda k: replace(k, version=1),
        lambda k: replace(k, previous="sha256:" + "0" * 64),
        lambda k: replace(k, issued_at="2025-01-01T00:00:00.000Z"),
        lambda k: replace(k, issued_at=END),
    ):
        with pytest.raises(Denied):
            after(current, change, "ada")
    with pytest.raises(Denied):  # whose key has ended
        after(trusted(changed(FIRST, "ada", valid_until="2026-03-03T00:00:00.000Z")), same, "ada")
    new_admin: Change = lambda k: replace(person(person(k, "ada", roles=[]), "vic", roles=["admin"]), admins=1)  # noqa: E731
    with pytest.raises(Denied, match=r"^0 admins signed"):  # nobody locks everybody out: the new ones sign too
        after(current, lambda k: person(new_admin(k), "amy", roles=[]), "ada")
    assert after(current, new_admin, "ada", "vic")


def test_keys_are_revoked_or_end_earlier_and_nothing_else_happens_to_them() -> None:
    current = trusted()
    revoked = after(current, lambda k: changed(k, "sue", revoked_at=NOW), "ada")
    assert revoked.live(signer("sue").key_id, "act", LATER) is None
    assert after(current, lambda k: changed(k, "sue", valid_until=LATER), "ada")
    for change in (
        lambda k: replace(k, keys=k.keys[:-1]),
        lambda k: changed(k, "sue", valid_until="2028-01-01T00:00:00.000Z"),
        lambda k: changed(k, "sue", valid_from="2025-01-01T00:00:00.000Z"),
        lambda k: changed(k, "sue", person="sam"),
        lambda k: changed(k, "olli", person="stu"),
    ):
        with pytest.raises(Denied, match="a key"):
            after(current, change, "ada", "sue", "sam", "kim-own", "kai-own")
    for back in ("", LATER):
        with pytest.raises(Denied, match="a key was changed"):
            after(revoked, lambda k, back=back: changed(k, "sue", revoked_at=back), "ada", "sam", "stu")


LOOSER: dict[str, tuple[str, Change]] = {
    "a steward more": (KAW, lambda k: person(k, "eve", steward_of=[KAW])),
    "an admin as steward": (KAW, lambda k: person(k, "ada", roles=["admin", "steward"], steward_of=[KAW])),
    "a key more of a steward": (KAW, lambda k: replace(k, keys=[*k.keys, key("sue-3", "sue")])),
    "a lower threshold": (KAW, lambda k: custodian(k, KAW, threshold=1)),
    "no community": (KAW, lambda k: custodian(k, KAW, community=[], threshold=0)),
    "a key more of the community": (
        KAW,
        lambda k: custodian(
            replace(k, keys=[*k.keys, key("fake", "ada", "community")]),
            KAW,
            community=[*k.custodians[0].community, signer("fake").key_id],
        ),
    ),
    "another community": (
        MUSEUM,
        lambda k: custodian(
            replace(k, keys=[*k.keys, key("fake", "ada", "community")]),
            MUSEUM,
            community=[signer("fake").key_id],
            threshold=1,
        ),
    ),
    "a steward more of the museum": (MUSEUM, lambda k: person(k, "eve", steward_of=[MUSEUM])),
}


@pytest.mark.parametrize("name", LOOSER)
def test_admins_alone_never_let_more_people_decide(name: str) -> None:
    whose, change = LOOSER[name]
    current = trusted()
    everyone_else = ["ada", "amy", "olli", "otto", "vic", "eve", "ledger", "prover"]
    one_of_each = ["sue", "sue-2", "kim-own", "kim-own-2"]  # two keys each, but one person each
    for signed_by in (everyone_else, [*everyone_else, *one_of_each]):
        with pytest.raises(Denied, match="did not sign"):
            after(current, change, *signed_by)
    if name == "a key more of a steward":  # who is one of the museum too
        assert after(current, change, "ada", "kim-own", "kai-own", "sam", "stu")
    elif whose == KAW:
        with pytest.raises(Denied, match="did not sign"):  # its stewards do not stand for the community
            after(current, change, "ada", "sue", "sam", "stu")
        assert after(current, change, "ada", "kim-own", "kai-own")
    else:
        assert after(current, change, "ada", "sue", "sam")


def test_one_community_does_not_consent_for_another() -> None:
    names = ("lea", "lou")
    osage = Custodian(id="osage", community=[signer(f"{name}-own").key_id for name in names], threshold=2)
    listed = replace(
        FIRST,
        people=[*FIRST.people, *(Person(id=name, roles=[]) for name in names)],
        keys=[*FIRST.keys, *(key(f"{name}-own", name, "community") for name in names)],
        custodians=[*FIRST.custodians, osage],
    )
    _, change = LOOSER["a lower threshold"]
    with pytest.raises(Denied, match="did not sign"):
        after(trusted(listed), change, "ada", "lea-own", "lou-own")
    assert after(trusted(listed), change, "ada", "kim-own", "koa-own")


def test_a_custodian_is_not_removed_and_added_again() -> None:
    current = trusted()
    gone: Change = lambda k: replace(  # noqa: E731
        k,
        custodians=[c for c in k.custodians if c.id != MUSEUM],
        people=[replace(p, steward_of=[c for c in p.steward_of if c != MUSEUM]) for p in k.people],
    )
    with pytest.raises(Denied, match="missing"):
        after(current, gone, "ada", "sue", "sam", "stu")


def test_what_is_safer_takes_the_admins_alone() -> None:
    current = trusted()
    for change in (
        lambda k: person(k, "stu", roles=["operator"], steward_of=[]),
        lambda k: custodian(k, KAW, threshold=3),
        lambda k: changed(k, "kim-own", revoked_at=NOW),
        lambda k: replace(k, people=[*k.people, Person(id="new", roles=["operator"])]),
        lambda k: replace(k, keys=[*k.keys, key("olli-2", "olli")]),
        lambda k: custodian(k, MUSEUM, seal_keys=[custodian_key("two").key_id, custodian_key().key_id]),
    ):
        assert after(current, change, "ada")
    assert PEOPLE[0].id == "ada"
