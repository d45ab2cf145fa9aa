"""`kfm attest` and `kfm verify`: the signed statements about a version, and whether they still hold."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from kfm import config
from kfm.app.session.session import open_tables
from kfm.model.ports import Tables
from kfm.projections.attestations import PROVENANCE, TESTED, VERDICT
from kfm.projections.signed_lists import LIST
from tests.cli.conftest import Kfm
from tests.crypto.world import seed, signer

PROVER = signer("prover")
SETTINGS = """
ledger: {sign_with: env:KFM_SECRET_LEDGER, origin: kfm.example.org/ledger, every: 1}
attest: {sign_with: env:KFM_SECRET_ATTEST, builder: "https://kfm.example.org"}
"""


@pytest.fixture
def proving(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    monkeypatch.setenv("KFM_SECRET_LEDGER", seed("ledger").hex())
    monkeypatch.setenv("KFM_SECRET_ATTEST", seed("prover").hex())
    with Path("kfm.yml").open("a", encoding="utf-8") as file:
        file.write(SETTINGS)
    assert started("run").code == 0
    assert started("promote", "rain-gauges", "--reason", "first").code == 0
    return started


def states(answer: Any) -> dict[str, str]:
    return {check["what"].partition("/")[0].partition("-")[0]: check["state"] for check in answer.data["checks"]}


FILES = dict.fromkeys(("public files", "catalog files", "receipt files", "checkpoint files", "artifact files"), "ok")
GOOD = dict.fromkeys(("objects", "provenance", "quality", "verdict", "list", "receipts", "ledger"), "ok") | FILES


def test_a_commit_attests_and_the_version_verifies_offline(proving: Kfm) -> None:
    answer = proving("verify", "rain-gauges", "--json")
    assert (answer.code, states(answer), answer.data["vouched"]) == (0, GOOD, False), answer.out
    told = proving("verify", "rain-gauges")
    assert told.code == 0 and "no key list vouches" in told.err and "verified" in told.err
    for word in ("processed", "published"):
        assert proving("verify", "rain-gauges", "--version", word).code == 0
    digest = proving("refs", "list", "published/", "--json").data[0]["version"]
    assert proving("verify", "rain-gauges", "--version", digest[:20]).code == 0
    assert proving("verify", "rain-gauges", "--version", "sha256:ffff").code == 3
    assert proving("verify", "nowhere").code == 3


def test_the_bundle_is_read_by_the_libraries_of_in_toto_and_verifies_as_a_file(
    proving: Kfm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "rain.intoto.jsonl"
    answer = proving("attest", "rain-gauges", "--out", str(bundle), "--json")
    assert answer.code == 0, answer.err
    stated = {each.partition("/")[0].partition("-")[0] for each in answer.data["statements"]}
    assert stated == {"provenance", "quality", "verdict", "list"}
    key = SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(PROVER.public), keyid=PROVER.key_id)
    kinds = set()
    for line in bundle.read_bytes().splitlines():
        Envelope.from_dict(json.loads(line)).verify([key], 1)
        said = json.loads(b64decode(json.loads(line)["payload"]))
        assert said["subject"][0]["name"] == "kfm://dataset/rain-gauges"
        kinds.add(said["predicateType"])
    assert kinds == {PROVENANCE, TESTED, VERDICT, LIST}
    assert proving("verify", str(bundle)).code == 0
    monkeypatch.chdir("/")
    how = ("--key", PROVER.public.hex())
    assert proving("verify", str(bundle), *how).code == 0
    assert proving("verify", str(bundle), "--key", signer("mallory").public.hex()).code == 67
    assert proving("verify", str(bundle), "--key", "zz").code == 3
    bent = bundle.read_bytes().replace(b'"sig":"', b'"sig":"A', 1)
    bundle.write_bytes(bent)
    assert proving("verify", str(bundle), *how).code == 67
    bundle.write_bytes(b"\n")
    assert proving("verify", str(bundle), *how).code == 68


def tampered(change: Callable[[Tables], None]) -> None:
    tables = open_tables(config.load("kfm.yml", {}), "write")
    tables.begin()
    change(tables)
    tables.commit()
    tables.close()


def first(tables: Tables, table: str, part: str = "") -> tuple[str, bytes]:
    return next((key, body) for key, body in tables.scan(table) if part in key)


def _bent_statement(tables: Tables) -> None:
    key, body = first(tables, "attestations", "/provenance/")
    tables.put("attestations", key, body.replace(b'"payload":"e', b'"payload":"f'))


def _anothers_statement(tables: Tables) -> None:
    key, _ = first(tables, "attestations", "/provenance/")
    _, body = first(tables, "attestations", "/quality/")
    from kfm.projections.attestations import envelope_of, quality
    from tests.store.records import version

    tables.put("attestations", key, envelope_of(quality(version(), []), [PROVER]))
    assert body


def _no_statement(tables: Tables) -> None:
    for key, _ in list(tables.scan("attestations")):
        tables.delete("attestations", key)


def _bent_receipt(tables: Tables) -> None:
    key, body = first(tables, "receipts")
    tables.put("receipts", key, body.replace(b'"actor":"tester"', b'"actor":"nobody"'))


def _bent_entry(tables: Tables) -> None:
    key, body = first(tables, "ledger", "1")
    tables.put("ledger", key, body.replace(b'"operator":"tester"', b'"operator":"nobody"'))


def _no_entry(tables: Tables) -> None:
    for key, _ in list(tables.scan("ledger")):
        tables.delete("ledger", key)


def _no_checkpoint(tables: Tables) -> None:
    for key, _ in list(tables.scan("ledger_checkpoints")):
        tables.delete("ledger_checkpoints", key)


def _forged_checkpoint(tables: Tables) -> None:
    for key, body in list(tables.scan("ledger_checkpoints")):
        tables.put("ledger_checkpoints", key, body[:-9] + b"AAAAAAA=\n")


@pytest.mark.parametrize(
    ("change", "code", "what", "state"),
    [
        (_bent_statement, 65, "provenance", "unsigned"),
        (_anothers_statement, 65, "provenance", "unsigned"),
        (_no_statement, 65, "provenance", "missing"),
        (_bent_receipt, 65, "ledger", "bad"),
        (_bent_entry, 65, "ledger", "bad"),
        (_no_entry, 65, "ledger", "bad"),
        (_no_checkpoint, 65, "ledger", "missing"),
        (_forged_checkpoint, 65, "ledger", "bad"),
    ],
)
def test_whatever_was_changed_is_named(
    proving: Kfm, change: Callable[[Tables], None], code: int, what: str, state: str
) -> None:
    tampered(change)
    answer = proving("verify", "rain-gauges", "--json")
    assert (answer.code, states(answer)[what]) == (code, state), answer.out


def test_an_object_that_was_changed_is_named(proving: Kfm) -> None:
    tampered(lambda tables: [tables.put("objects", key, body + b"!") for key, body in list(tables.scan("objects"))][:0])
    answer = proving("verify", "rain-gauges", "--json")
    assert (answer.code, states(answer)["objects"]) == (65, "bad")


def test_a_key_that_is_gone_fails_the_run_and_nothing_is_committed_unattested(
    proving: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = proving("refs", "list", "--json").data
    monkeypatch.delenv("KFM_SECRET_ATTEST")
    answer = proving("run", "--force", "--reason", "again")
    assert answer.code == 3 and "KFM_SECRET_ATTEST" in answer.err
    assert proving("refs", "list", "--json").data == before
    assert proving("attest", "rain-gauges").code == 3


def test_a_noop_attests_nothing_and_loads_no_cryptography(proving: Kfm) -> None:
    text = Path("kfm.yml").read_text().replace("every: 1}", "every: 1000}")
    Path("kfm.yml").write_text(text)
    probe = "import sys; from kfm.cli.main import main; print(main(['run']), 'cryptography' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert told.stdout.splitlines()[-1] == "0 False", told.stderr


def test_without_a_key_nothing_is_attested_and_a_version_does_not_verify(ran: Kfm) -> None:
    assert "attest.sign_with" in ran("attest", "rain-gauges").complaint
    answer = ran("verify", "rain-gauges", "--json")
    wanted = {"objects": "ok", "provenance": "missing", "list": "unverified", "receipts": "ok", "ledger": "missing"}
    assert (answer.code, states(answer)) == (68, wanted | FILES)
    assert "without a key in attest.sign_with nothing is signed" in answer.out


def test_any_published_file_is_verified_with_all_that_proves_it(proving: Kfm, tmp_path: Path) -> None:
    files = sorted(path for path in Path("public/datasets").rglob("*") if path.is_file() and ".list-" not in path.name)
    data = next(path for path in files if path.name not in ("current.json",) and path.suffix != ".ndjson")
    for file in files:
        answer = proving("verify", str(file), "--json")
        assert answer.code == 0, (file, answer.out)
        assert states(answer) == {"file": "ok", **GOOD}
    sent = tmp_path / "as-somebody-got-it.csv"
    sent.write_bytes(data.read_bytes())
    told = proving("verify", str(sent))
    assert told.code == 0 and "rain-gauges" in told.out, told.err
    sent.write_bytes(data.read_bytes() + b"one line more\n")
    assert proving("verify", str(sent)).code == 68
    data.write_bytes(data.read_bytes() + b"one line more\n")
    altered = proving("verify", str(data), "--json")
    assert (altered.code, states(altered)["file"]) == (65, "bad"), "where it lies, something else should"


@pytest.mark.parametrize("name", ["index.html", "datasets/rain-gauges/index.html"])
def test_a_page_is_said_to_be_one_and_what_it_is_made_from_is_verified(proving: Kfm, tmp_path: Path, name: str) -> None:
    settings, page = Path("kfm.yml").read_text(), Path("public", name)
    Path("kfm.yml").write_text(settings + "pages: true\n")
    assert proving("run").code == 0 and page.is_file()
    assert proving("catalog", "build").code == 0, "it links to the pages"
    answer = proving("verify", str(page), "--json")
    assert answer.code == 0, answer.out
    file, *made_from = answer.data["checks"]
    assert (file["what"], file["state"]) == ("file", "ok")
    assert file["found"].startswith(f"{name} is a page, made from rain-gauges sha256:")
    assert "pages are not signed" in file["found"]
    assert made_from == proving("verify", "rain-gauges", "--json").data["checks"]
    sent = tmp_path / "as-somebody-got-it.html"
    sent.write_bytes(page.read_bytes())
    assert proving("verify", str(sent)).code == 0
    tampered(_bent_statement)  # what it is made from is not what was signed
    assert proving("verify", str(sent)).code == 65
    sent.write_bytes(page.read_bytes() + b"<p>and more")
    assert proving("verify", str(sent)).code == 68
    page.write_bytes(sent.read_bytes())
    altered = proving("verify", str(page), "--json")
    assert (altered.code, states(altered)) == (65, {"file": "bad"})
    assert "is not the page that was made" in altered.data["checks"][0]["found"]
    Path("kfm.yml").write_text(settings)  # then no page belongs there
    assert proving("verify", str(page)).code == 68


def test_a_page_of_an_unattested_version_says_so(ran: Kfm) -> None:
    with Path("kfm.yml").open("a", encoding="utf-8") as file:
        file.write("pages: true\n")
    assert ran("promote", "rain-gauges", "--reason", "first").code == 0
    answer = ran("verify", "public/index.html", "--json")
    assert (answer.code, answer.data["checks"][0]["state"]) == (68, "ok")
