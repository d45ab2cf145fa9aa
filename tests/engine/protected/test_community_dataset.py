"""A community's data from its file to the public and to an auditor: its own keys, every statement, the proof."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

import pytest

from kfm.projections.attestations import PROVENANCE, TESTED, VERDICT
from tests.app.governance.people import ROOT
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import KEY, SAFE, SECRETS, dataset, every_byte, hits, installation, label, labels


def key(name: str) -> str:
    return str(SAFE / f"{name}.key")


PEOPLE: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("ada", ("--role", "admin"), ()),
    ("olli", ("--role", "operator"), ("ada",)),
    ("sue", ("--role", "steward", "--custodian", "nation"), ("ada",)),
    ("sam", ("--role", "steward", "--custodian", "nation"), ("ada", "sue")),
    ("kim", ("--purpose", "community", "--custodian", "nation"), ("ada", "sue", "sam")),
    ("kai", ("--purpose", "community", "--custodian", "nation", "--threshold", "2"), ("ada", "kim")),
    ("checkpoint", ("--purpose", "checkpoint"), ("ada",)),
    ("attest", ("--purpose", "attest"), ("ada",)),
)


@pytest.fixture
def nation(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    monkeypatch.setenv("KFM_SECRET_NATION", KEY)
    installation(dataset("sites", "sites.csv", mask=True), custodians=False)
    said = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text("custodians:\n  nation: {key: 'env:KFM_SECRET_NATION'}\n" + said)
    words = {"care": "community", "custodian": "nation", "authority": "the nation's office"}
    labels(label("source: sites.csv", expires="'2099-12-31'", community_labels="[TK CS]", **words))
    SAFE.mkdir(mode=0o700, exist_ok=True)
    for name, more, signers in PEOPLE:
        whose = () if name in ("checkpoint", "attest") else ("--person", name)
        signed = [word for each in signers for word in ("--key", key(each))]
        made = kfm("keys", "new", *whose, *more, "--out", key(name), *signed)
        assert made.code == 0, (name, made.err)
    with Path("kfm.yml").open("a") as file:
        file.write(f"ledger: {{sign_with: 'file:{key('checkpoint')}', origin: kfm.example.org/ledger, every: 1}}\n")
        file.write(f"attest: {{sign_with: 'file:{key('attest')}', builder: 'https://kfm.example.org'}}\n")
    return kfm


def test_published_by_its_own_keys_with_all_its_evidence(nation: Kfm, tmp_path: Path) -> None:
    ran = nation("run", "sites")
    assert ran.code == 0, ran.err
    assert nation("promote", "sites", "--key", key("olli"), "--reason", "agreed in council").code == 4
    (order,) = [row["id"] for row in nation("review", "list", "--json").data if row["kind"] == "order"]
    for name in ("sue", "sam", "kim"):
        assert nation("review", "approve", order, "--key", key(name)).code == 0
        assert not Path("public/datasets").exists(), name
    assert nation("review", "show", order, "--json").data["missing"] == ["community.too-few"]
    last = nation("review", "approve", order, "--key", key("kai"))
    assert last.code == 0, last.err
    files = sorted(path for path in Path("public/datasets").rglob("*") if path.is_file())
    assert files and hits() == []

    checked = nation("verify", "sites", "--json")
    assert checked.code == 0 and checked.data["vouched"], checked.out
    for file in files:
        assert nation("verify", str(file)).code == 0, file
    bundle = tmp_path / "sites.intoto.jsonl"
    assert nation("attest", "sites", "--out", str(bundle)).code == 0
    said = [json.loads(b64decode(json.loads(line)["payload"])) for line in bundle.read_bytes().splitlines()]
    kinds = {one["predicateType"] for one in said}
    assert {PROVENANCE, TESTED, VERDICT} < kinds and any("masking" in kind for kind in kinds), kinds

    exported = nation("audit", "export", "--json").data
    tool = [sys.executable, str(ROOT / "tools" / "verify_ledger.py"), exported["written"], "--key", exported["key"]]
    proved = subprocess.run(tool, capture_output=True, text=True, timeout=60, check=False)
    assert proved.returncode == 0, proved.stdout + proved.stderr
    body = Path(exported["written"]).read_text()
    assert "agreed in council" not in body and not [secret for secret in SECRETS if secret in body]
    Path(exported["written"]).write_text(body.replace('"care":"community"', '"care":"open"', 1))
    assert subprocess.run(tool, capture_output=True, timeout=60, check=False).returncode != 0
    assert nation("audit", "verify").code == 0
    assert nation("doctor", "--deep").code == 0
    assert hits(["14QX1"]) == [] and every_byte()
