"""The key list of an installation is made once, replaced only by signed successors, and never switched off."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.app.governance.people import Site

KILL = """
import os, signal
import kfm.fsio
real = kfm.fsio.Fs.replace
def replace(self, source, target):
    if target.endswith("keys.json"):
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, source, target)
kfm.fsio.Fs.replace = replace
"""


def test_the_first_key_makes_the_list_and_the_admins_sign_the_next(site: Site) -> None:
    made = site.add("ada", "--role", "admin", signed_by=())
    assert made.code == 0
    listed = json.loads((site.folder / "keys.json").read_bytes())
    assert [key["person"] for key in listed["signed"]["keys"]] == ["ada"]
    assert site.add("olli", "--role", "operator").code == 0
    rows = site.kfm("keys", "list", "--json").data
    assert [(row["person"], row["roles"], row["state"]) for row in rows] == [
        ("ada", ["admin"], "valid"),
        ("olli", ["operator"], "valid"),
    ]
    assert site.ref("keys/list"), "the state knows which list is in force"
    assert site.ledger() == [("keys", "done", "tester")] * 2


def test_the_private_half_is_in_its_file_for_its_owner_alone_and_nowhere_else(site: Site) -> None:
    made = site.add("ada", "--role", "admin", signed_by=())
    path = Path(site.key("ada"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = path.read_bytes().strip()
    assert len(bytes.fromhex(secret.decode())) == 32
    forms = (secret, bytes.fromhex(secret.decode()))
    for found in [each for each in site.folder.rglob("*") if each.is_file()]:
        body = found.read_bytes()
        assert not any(form in body for form in forms), found
    assert not any(form in (made.out + made.err).encode() for form in forms)
    assert site.add("ada", "--role", "admin").code == 3, "no key is overwritten"
    assert path.read_bytes().strip() == secret


@pytest.mark.parametrize(
    ("name", "words", "signed_by"),
    [
        ("olli", ("--role", "operator"), ()),
        ("olli", ("--role", "operator"), ("sue",)),
        ("ann", ("--role", "admin"), ("sue", "sam")),
        ("eve", ("--role", "steward", "--custodian", "museum"), ("ada",)),
        ("ada-2", ("--role", "steward", "--custodian", "museum"), ("ada", "sue")),
        ("kim", ("--purpose", "community", "--custodian", "museum"), ("ada",)),
    ],
)
def test_a_list_that_not_all_signed_who_must_is_denied_and_that_is_in_the_ledger(
    site: Site, name: str, words: tuple[str, ...], signed_by: tuple[str, ...]
) -> None:
    site.add("ada", "--role", "admin", signed_by=())
    site.add("sue", "--role", "steward", "--custodian", "museum")
    site.add("sam", "--role", "steward", "--custodian", "museum", signed_by=("ada", "sue"))
    before, file = site.ref("keys/list"), (site.folder / "keys.json").read_bytes()
    answer = site.add(name, *words, signed_by=signed_by, person=name.partition("-")[0])
    assert answer.code == 4
    assert site.ref("keys/list") == before
    assert (site.folder / "keys.json").read_bytes() == file
    assert site.ledger()[-1] == ("keys", "denied", "tester")
    assert not os.path.exists(site.key(name)), "a key that is not listed is not left about"
    assert [each.name for each in site.folder.glob("keys.json*")] == ["keys.json"]


def test_a_revoked_key_counts_for_nothing_and_stays_revoked(site: Site) -> None:
    site.add("ada", "--role", "admin", signed_by=())
    site.add("amy", "--role", "admin")
    lost = site.kfm("keys", "list", "--json").data[1]["key"]
    unreasoned = site.kfm("keys", "revoke", lost[:12], "--key", site.key("ada"), KFM_REASON="")
    assert unreasoned.code == 3, "not without a reason"
    assert site.kfm("keys", "revoke", lost[:12], "--key", site.key("ada"), "--reason", "lost").code == 0
    assert site.kfm("keys", "list", "--json").data[1]["state"] == "revoked"
    assert site.add("olli", "--role", "operator", signed_by=("amy",)).code == 4
    assert site.kfm("keys", "revoke", "00000000", "--key", site.key("ada"), "--reason", "x").code == 3


def broken_lists(site: Site) -> dict[str, bytes | None]:
    """What an attacker might put in the place of the list."""
    older = (site.folder / "keys.json").read_bytes()
    assert site.add("olli", "--role", "operator").code == 0
    newer = json.loads((site.folder / "keys.json").read_bytes())
    unsigned = {**newer, "signed": {**newer["signed"], "people": [{"id": "ada", "roles": ["admin", "steward"]}]}}
    return {
        "deleted": None,
        "older": older,
        "empty": b"",
        "unsigned": json.dumps({**unsigned, "signatures": []}).encode(),
    }


@pytest.mark.parametrize("how", ["deleted", "older", "empty", "unsigned"])
def test_a_list_cannot_be_switched_off_or_put_back(site: Site, how: str) -> None:
    site.add("ada", "--role", "admin", signed_by=())
    body = broken_lists(site)[how]
    file = site.folder / "keys.json"
    good = file.read_bytes()
    file.unlink()
    if body is not None:
        file.write_bytes(body)
    assert site.kfm("freeze", "--reason", "x").code == 4  # nobody signed it
    for words in (
        ("keys", "list"),
        ("keys", "new", "--person", "mallory", "--role", "admin", "--out", site.key("mallory")),
        ("thaw", "--reason", "x"),
    ):
        answer = site.kfm(*words)
        assert answer.code == 4, words
        assert "keys.json is" in answer.err and "cannot be removed" in answer.err
    assert not os.path.exists(site.key("mallory"))
    file.write_bytes(good)
    assert site.kfm("keys", "list").code == 0


def test_a_list_that_this_state_never_took_is_not_believed(site: Site) -> None:
    site.add("ada", "--role", "admin", signed_by=())
    file = site.folder / "keys.json"
    for path in sorted((site.folder / ".kfm").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    answer = site.kfm("freeze", "--reason", "x")
    assert answer.code == 4 and "never accepted it" in answer.err
    file.unlink()
    assert site.kfm("freeze", "--reason", "x").code == 0


def test_killed_before_the_file_has_its_name_the_list_that_is_in_force_is_found(site: Site) -> None:
    site.add("ada", "--role", "admin", signed_by=())
    words = ("keys", "new", "--person", "olli", "--role", "operator", "--out", site.key("olli"))
    killed = site.child(*words, "--key", site.key("ada"), before=KILL)
    assert killed.code == -9, killed.err
    assert [row["person"] for row in site.kfm("keys", "list", "--json").data] == ["ada", "olli"]
    assert site.add("vic", "--role", "viewer").code == 0
    assert [row["person"] for row in site.kfm("keys", "list", "--json").data] == ["ada", "olli", "vic"]


def test_a_clock_that_was_put_back_does_not_bring_a_key_back(site: Site) -> None:
    site.add("ada", "--role", "admin", signed_by=())
    site.add("amy", "--role", "admin", "--days", "1")
    later = {"KFM_NOW": "2199-01-01T00:00:00Z"}
    assert site.kfm("run", **later).code == 0, "something is in the ledger by then"
    assert site.add("olli", "--role", "operator", signed_by=("amy",)).code == 4


@pytest.mark.parametrize(
    "words",
    [
        ("--role", "admin"),
        ("--person", "ada", "--purpose", "checkpoint"),
        ("--person", "olli", "--role", "operator"),
        ("--person", "No Name", "--role", "admin"),
        ("--person", "ada", "--role", "admin", "--public", "zz"),
        ("--person", "ada", "--role", "admin", "--custodian", "museum"),
        ("--person", "ada", "--role", "admin", "--key", "nowhere.key"),
    ],
)
def test_what_makes_no_list_is_refused_in_one_line(site: Site, words: tuple[str, ...]) -> None:
    out = () if "--public" in words else ("--out", site.key("new"))
    answer = site.kfm("keys", "new", *words, *out)
    assert answer.code == 3
    assert answer.err.startswith("kfm: ") and "Traceback" not in answer.err
    assert not os.path.exists(site.key("new"))
    assert not (site.folder / "keys.json").exists()
