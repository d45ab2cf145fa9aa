"""Which records of tokens count: what an admin or the person signed, about a person with a valid key, for a year."""

from __future__ import annotations

from msgspec.structs import replace

from kfm.crypto.access_tokens import AccessToken, SignedToken, digest_of, id_of, not_allowed, read_token, signed_token
from kfm.crypto.key_list import Key, KeyList, Keys, Person
from kfm.crypto.signatures import Signer
from kfm.model.secret import Secret

NOW, LATER, END = "2026-01-01T00:00:00.000Z", "2026-02-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"
SIGNERS = {name: Signer(Secret(bytes([n]) * 32)) for n, name in enumerate(("ada", "vic", "eve", "gone"), 1)}


def key_list() -> Keys:
    keys = [
        Key(
            public=signer.public.hex(), purpose="act", valid_from=NOW, valid_until=END, person=name,
            revoked_at=NOW if name == "gone" else "",
        )
        for name, signer in SIGNERS.items()
        if name != "eve"
    ]  # fmt: skip
    people = [Person("ada", ["admin"]), Person("vic", ["viewer"]), Person("gone", ["admin"])]
    return Keys(KeyList(version=1, previous="", issued_at=NOW, admins=1, people=people, keys=keys), b"{}")


def token(**other: str) -> AccessToken:
    digest = digest_of("kfm_x")
    plain = {"id": id_of(digest), "digest": digest, "person": "vic", "made_at": NOW, "ends_at": LATER}
    return AccessToken(**{**plain, **other})


def refused(after: AccessToken, by: str = "ada", before: AccessToken | None = None, at: str = NOW) -> list[str]:
    old = read_token(signed_token(before, SIGNERS["ada"])) if before is not None else None
    return not_allowed(old, read_token(signed_token(after, SIGNERS[by])), key_list(), at)


def test_a_new_token_counts_if_an_admin_or_its_person_signed_it() -> None:
    assert refused(token()) == refused(token(), "vic") == []
    assert refused(token(person="ada"), "vic") == ["signature.role"]
    assert refused(token(), "eve") == refused(token(), "gone") == ["signature.bad"]
    good = read_token(signed_token(token(), SIGNERS["ada"]))
    for changed in (token(person="ada"), token(note="another"), token(ends_at=END)):
        assert "signature.bad" in not_allowed(None, SignedToken(changed, good.signature), key_list(), NOW)
    nonsense = SignedToken(token(), replace(good.signature, sig="?"))
    assert not_allowed(None, nonsense, key_list(), NOW) == ["signature.bad"]


def test_a_token_of_nobody_or_of_another_form_does_not_count() -> None:
    assert refused(token(person="eve")) == refused(token(person="gone")) == ["person.unknown"]
    assert refused(token(id="0" * 16)) == refused(token(note="n" * 201)) == ["token.malformed"]
    for times in (
        {"ends_at": NOW}, {"ends_at": "2027-02-01T00:00:00.000Z"}, {"made_at": LATER, "ends_at": END},
        {"ends_at": "tomorrow"}, {"ends_at": "2026-13-01T00:00:00.000Z"}, {"revoked_at": NOW},
    ):  # fmt: skip
        assert refused(token(**times)) == ["token.times"], times


def test_a_token_changes_only_by_being_revoked_once() -> None:
    revoked = token(revoked_at=NOW)
    assert refused(revoked, "vic", token()) == refused(revoked, "ada", token()) == []
    assert refused(token(), "ada", revoked) == ["token.changed"], "it is never valid again"
    for after in (token(), token(revoked_at=LATER), replace(revoked, ends_at=END), replace(revoked, person="ada")):
        assert "token.changed" in refused(after, "ada", token())
    assert refused(token(revoked_at=LATER), "ada", revoked, LATER) == ["token.changed"]
