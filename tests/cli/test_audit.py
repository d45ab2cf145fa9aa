"""`kfm audit` verifies the ledger, proves an entry and exports it, from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kfm import config
from kfm.app.session.session import open_session
from kfm.crypto.checkpoints import Verifier, open_checkpoint
from kfm.crypto.merkle import is_beginning, is_included, leaf_hash
from tests.cli.conftest import Kfm
from tests.crypto.test_ledger_proofs import tool
from tests.crypto.world import seed, signer
from tests.project.bans import ROOT

ORIGIN = "kfm.example.org/ledger"
KEY = Verifier(ORIGIN, signer("ledger").public)
EXPORT = "docs/reports/audit/data_provenance_ledger.json"


def settings(text: str) -> None:
    with Path("kfm.yml").open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def signed(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """An installation that signs the head of its ledger after every second entry, after five runs."""
    monkeypatch.setenv("KFM_SECRET_LEDGER", seed("ledger").hex())
    settings(f"\nledger: {{sign_with: env:KFM_SECRET_LEDGER, origin: {ORIGIN}, every: 2}}\n")
    for _ in range(5):
        assert started("run").code == 0
    return started


def test_without_a_key_the_ledger_is_followed_and_called_unverifiable(ran: Kfm) -> None:
    answer = ran("audit", "verify", "--json")
    assert (answer.code, answer.data["verdict"], answer.data["entries"]) == (68, "unverifiable", 2)
    assert "ledger.sign_with" in ran("audit", "verify").err
    body = ran("audit", "export", "--stdout").out.encode()
    assert tool.verify(body.splitlines(keepends=True), str(KEY))[0] == 68


def test_signed_heads_are_made_when_due_written_outside_and_verified(signed: Kfm) -> None:
    copies = sorted(Path("public/ledger/checkpoints").iterdir())
    assert [copy.name for copy in copies] == ["000000000002", "000000000004"]
    assert [open_checkpoint(copy.read_text(), [KEY], ORIGIN).size for copy in copies] == [2, 4]
    answer = signed("audit", "verify", "--json")
    assert answer.code == 0, answer.out
    assert {**answer.data, "root": ""} == {
        "verdict": "intact", "why": "5 entries; the last 1 are newer than the last checkpoint", "entries": 5,
        "root": "", "covered": 4, "checkpoints": 2, "first_bad": 0, "vouched": False, "keys": [str(KEY)],
        "passed_over": 0,
    }  # fmt: skip
    assert "no key list vouches" in signed("audit", "verify").err


def test_the_export_is_the_rows_and_verifies_by_both(signed: Kfm) -> None:
    answer = signed("audit", "export", "--json")
    body = Path(EXPORT).read_bytes()
    assert answer.data == {"written": EXPORT, "bytes": len(body), "key": str(KEY)}
    with open_session(config.load("kfm.yml", {}), mode="read") as session:
        rows = [row for _, row in session.tables.scan("ledger")]
    assert body.splitlines()[1:-1] == [row + b"," for row in rows[:-1]] + [rows[-1]]
    assert len(json.loads(body)["entries"]) == 5
    asked = [sys.executable, ROOT / "tools" / "verify_ledger.py", EXPORT, "--key", str(KEY)]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout[:17]) == (0, "intact: 5 entries"), told.stderr
    assert signed("audit", "verify", "--json").data["covered"] == 5, "the export signed the head"
    elsewhere = Path("other/place.json")
    assert signed("audit", "export", "--out", str(elsewhere)).code == 0
    assert elsewhere.read_bytes() == body, "nothing came since, and nothing is signed twice"


def test_proofs_are_what_they_say(signed: Kfm) -> None:
    assert signed("audit", "prove", "5").code == 3, "no signed head covers it yet"
    proof = signed("audit", "prove", "3").data
    head = open_checkpoint(proof["checkpoint"], [KEY], ORIGIN)
    way = [bytes.fromhex(each) for each in proof["hashes"]]
    leaf = proof["entry"].encode()
    assert json.loads(leaf)["index"] == 3
    assert is_included(leaf_hash(leaf), 2, head.size, way, bytes.fromhex(head.root))
    assert signed("audit", "prove", json.loads(leaf)["run_id"]).data == proof
    grown = signed("audit", "consistency", "2").data
    old, new = (open_checkpoint(grown[name], [KEY], ORIGIN) for name in ("old", "checkpoint"))
    way = [bytes.fromhex(each) for each in grown["hashes"]]
    assert (old.size, new.size) == (2, 4)
    assert is_beginning(2, 4, bytes.fromhex(old.root), bytes.fromhex(new.root), way)
    kept = "public/ledger/checkpoints/000000000002"
    assert signed("audit", "consistency", kept, "4").data == grown
    assert signed("audit", "consistency", "4", "4").data["hashes"] == []
    assert signed("audit", "consistency", "3").complaint.endswith("there are: 2, 4")
    assert signed("audit", "consistency", "4", "2").code == 3
    assert signed("audit", "prove", "99").code == 3
    for body, said in ((proof, "entry 3 is in the ledger of 4"), (grown, "the ledger of 2 entries is the beginning")):
        code, words = tool.verify([json.dumps(body).encode()], str(KEY))
        assert (code, words[: len(said)]) == (0, said)


def test_a_signing_key_that_is_gone_stops_what_is_due_and_nothing_is_half_written(
    signed: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KFM_SECRET_LEDGER")
    answer = signed("run")
    assert answer.code == 3 and "env:KFM_SECRET_LEDGER is empty" in answer.err
    monkeypatch.setenv("KFM_SECRET_LEDGER", seed("ledger").hex())
    assert signed("run").code == 0
    assert signed("audit", "verify", "--json").data["entries"] == 6


def test_a_checkpoint_kept_elsewhere_shows_what_was_cut(signed: Kfm, tmp_path: Path) -> None:
    assert signed("audit", "export").code == 0
    kept = tmp_path / "kept"
    kept.write_bytes(Path("public/ledger/checkpoints/000000000004").read_bytes())
    assert signed("audit", "verify", "--checkpoint", str(kept)).code == 0
    assert signed("audit", "verify", "--checkpoint", str(tmp_path / "none")).code == 3
    bent = tmp_path / "bent"
    bent.write_text(kept.read_text().replace("\n4\n", "\n5\n"))
    assert signed("audit", "verify", "--checkpoint", str(bent)).code == 67
    other = str(Verifier(ORIGIN, signer("mallory").public))
    assert signed("audit", "verify", "--key", other).code == 67
    assert signed("audit", "verify", "--key", str(KEY)).code == 0
    assert signed("audit", "verify", "--key", "nonsense").code == 3


def test_an_export_is_verified_without_an_installation(signed: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert signed("audit", "export").code == 0
    assert signed("audit", "verify", EXPORT).code == 0
    export = Path(EXPORT).resolve()
    kept = Path("public/ledger/checkpoints/000000000004").resolve()
    monkeypatch.chdir("/")
    how = ("--key", str(KEY), "--checkpoint", str(kept))
    answer = signed("audit", "verify", str(export), *how, "--json")
    assert (answer.code, answer.data["entries"], answer.data["checkpoints"]) == (0, 5, 4)
    export.write_bytes(export.read_bytes().replace(b'"done"', b'"noop"', 1))
    assert signed("audit", "verify", str(export), *how).code == 65
    assert signed("audit", "verify", str(export) + ".gone", *how).code == 3


def test_settings_that_cannot_sign_are_refused_where_they_are_written(started: Kfm) -> None:
    before = Path("kfm.yml").read_text()
    for text, said in (
        ("ledger: {sign_with: env:X}", "has sign_with but no origin"),
        ("ledger: {sign_with: secret, origin: a/b}", "is not a reference"),
        ("ledger: {origin: 'a b'}", "is not a usable name"),
        ("ledger: {every: 0}", "every"),
        ("attest: {sign_with: x}", "is not a reference"),
        ("attest: {builder: 'not a uri'}", "is not a URI"),
    ):
        Path("kfm.yml").write_text(f"{before}\n{text}\n")
        answer = started("run")
        assert (answer.code, said in answer.err) == (3, True), answer.err


def test_a_run_of_unchanged_datasets_loads_no_cryptography(signed: Kfm) -> None:
    probe = (
        "import sys; from kfm.cli.main import main; code = main(['run']);"
        "print(code, [m for m in ('cryptography', 'kfm.crypto.signatures') if m in sys.modules])"
    )
    for expected in ("0 ['cryptography', 'kfm.crypto.signatures']", "0 []"):  # the first makes a head due
        told = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
        assert told.stdout.splitlines()[-1] == expected, told.stderr
