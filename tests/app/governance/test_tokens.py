"""Tokens by the command line: who may make one, what is shown of it, and what the ledger keeps."""

from __future__ import annotations

from tests.app.governance.people import Site


def test_a_token_is_made_listed_and_revoked_by_an_admin_or_its_person(site: Site) -> None:
    for name, role, signers in (("ada", "admin", ()), ("olli", "operator", ("ada",)), ("vic", "viewer", ("ada",))):
        assert site.add(name, "--role", role, signed_by=signers).code == 0
    unsigned = site.kfm("token", "new", "--person", "vic")
    assert (unsigned.code, unsigned.out) == (4, "") and "--key FILE" in unsigned.err
    other = site.kfm("token", "new", "--person", "vic", "--key", site.key("olli"))
    assert (other.code, other.out) == (4, "") and "signature.role" in other.err
    assert site.ledger()[-1] == ("token", "denied", "olli"), "what was tried is in the ledger"
    made = site.kfm("token", "new", "--person", "vic", "--days", "3", "--note", "a notebook", "--key", site.key("vic"))
    token = made.out.strip()
    assert made.code == 0 and token.startswith("kfm_") and len(token) == 47 and token not in made.err
    by_admin = site.kfm("token", "new", "--person", "vic", "--key", site.key("ada"), "--json").data
    assert by_admin["token"].startswith("kfm_") and by_admin["token"] != token
    listing = site.kfm("token", "list", "--json")
    assert token not in listing.out and by_admin["token"] not in listing.out
    rows = {row["signed_by"]: row for row in listing.data}
    assert rows["vic"]["note"] == "a notebook" and {row["state"] for row in rows.values()} == {"valid"}
    assert site.kfm("token", "revoke", rows["ada"]["id"], "--key", site.key("olli"), "--reason", "x").code == 4
    revoke = ("token", "revoke", rows["ada"]["id"][:8], "--reason", "lost")
    assert site.kfm(*revoke, "--key", site.key("vic")).code == 0
    assert site.kfm(*revoke, "--key", site.key("vic")).code == 3, "it is revoked already"
    states = {row["id"]: row["state"] for row in site.kfm("token", "list", "--json").data}
    assert states == {rows["vic"]["id"]: "valid", rows["ada"]["id"]: "revoked"}
    assert [entry[:2] for entry in site.ledger()[-2:]] == [("token", "denied"), ("token", "done")]
    assert site.kfm("audit", "verify").code in (0, 68)
    texts = [path.read_bytes() for path in site.folder.rglob("*") if path.is_file()]
    assert not any(secret.encode() in text for text in texts for secret in (token, by_admin["token"]))
    revoked = next(row["key"] for row in site.kfm("keys", "list", "--json").data if row["person"] == "vic")
    assert site.kfm("keys", "revoke", revoked, "--reason", "x", "--key", site.key("ada")).code == 0
    assert {row["state"] for row in site.kfm("token", "list", "--json").data} == {"nobody's", "revoked"}


def test_a_mistake_is_answered_with_the_cure(site: Site) -> None:
    for words in (("new", "--person", "ada"), ("revoke", "12345678", "--reason", "x")):
        alone = site.kfm("token", *words)
        assert alone.code == 3 and "kfm keys new --person NAME --role admin" in alone.err, alone.err
    assert "no key list" in site.kfm("token", "list").err
    assert site.add("ada", "--role", "admin", signed_by=()).code == 0
    key = ("--key", site.key("ada"))
    assert "did you mean ada?" in site.kfm("token", "new", "--person", "adda", *key).err
    assert site.kfm("token", "new", "--person", "ada", "--days", "0", *key).code == 2
    assert site.kfm("token", "new", "--person", "ada", "--note", "a\nb", *key).code == 3
    assert site.kfm("token", "new", "--person", "ada", "--note", "n" * 201, *key).code == 3
    assert site.kfm("token", "new", "--person", "ada", *key, *key).code == 3
    assert site.kfm("token", "revoke", "12", "--reason", "x", *key).code == 3
    assert site.kfm("token", "revoke", "1234567890", "--reason", "x", *key).code == 3
    assert not site.kfm("token", "list", "--json").data
