"""The ledger entries of protected data have rules, digests and commitments, and no text of people."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from kfm.crypto.commitments import Opening, is_opened
from tests.cli.conftest import Kfm
from tests.crypto.test_ledger_proofs import tool
from tests.engine.protected.conftest import SAFE, dataset, installation, label, labels

WHY = "the grave by the lone cottonwood was looted"


def entries(site: Kfm) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(site("audit", "export", "--stdout").out)["entries"]
    return found


def test_what_was_written_is_committed_to_sealed_and_opened_by_the_custodian_alone(
    site: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ("--purpose", "checkpoint", "--out", str(SAFE / "ledger.key"), "--key", str(SAFE / "ada.key"))
    assert site("keys", "new", *made).code == 0
    with Path("kfm.yml").open("a", encoding="utf-8") as file:
        file.write(f'\nledger: {{sign_with: "file:{SAFE}/ledger.key", origin: kfm.example.org/ledger, every: 1}}\n')
    before = len(entries(site))
    for word in ("--force", "--force", ""):
        assert site("run", "sites", *([word] if word else []), "--reason", WHY).code == 0
    last = entries(site)[-1]
    said = last["governed"]
    assert isinstance(said, dict)
    assert (last["reason"], last["operator"], said["withheld"]) == ("", "tester", ["reason"])
    assert said["care"] == "open" and said["findings"] and said["lineage"] and said["review"] in ("approved", "none")
    assert all(str(each).startswith("sha256:") for each in said["lineage"])
    exported = site("audit", "export", "--json").data
    body = Path(exported["written"]).read_bytes()
    assert b"cottonwood" not in body and b"looted" not in body
    assert tool.verify(body.splitlines(keepends=True), exported["key"])[0] == 0
    assert site("audit", "verify").code == 0

    proof = site("audit", "prove", "last", "--open").data
    (shown,) = proof["openings"]
    assert shown["value"] == WHY
    assert is_opened(Opening(**shown), json.loads(proof["entry"])["governed"]["committed"])
    assert not is_opened(Opening(**{**shown, "value": "nothing"}), said["committed"])
    runs = [entry for entry in entries(site)[before + 1 :] if entry["op_type"] == "ingest"]
    committed = [entry["governed"]["committed"]["reason"] for entry in runs]  # type: ignore[index]
    assert len(set(committed)) == 3, "the same words in another run are committed to otherwise"
    monkeypatch.delenv("KFM_SECRET_OFFICE")
    assert site("audit", "prove", "last", "--open").code == 4
    assert "openings" not in site("audit", "prove", "last").data


def test_who_did_it_is_withheld_too_where_a_community_is_concerned(site: Kfm) -> None:
    labels(label("source: sites.csv", care="community"))
    site("run", "sites", "--reason", WHY)  # whether it may be run is another matter
    said = entries(site)[-1]
    assert (said["reason"], said["operator"]) == ("", "") and said["governed"]["withheld"] == ["operator", "reason"]  # type: ignore[index]


def test_a_run_that_is_denied_without_the_key_is_ledgered_without_its_words(
    site: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert site("run", "sites").code == 0
    monkeypatch.delenv("KFM_SECRET_OFFICE")
    assert site("run", "sites", "--reason", WHY).code == 4
    last = entries(site)[-1]
    said = last["governed"]
    assert isinstance(said, dict)
    assert (last["outcome"], last["reason"], said["committed"], said["sealed_with"]) == ("denied", "", {}, "")
    assert "cottonwood" not in site("audit", "export", "--stdout").out


def test_the_entries_of_public_data_have_lineage_findings_and_care_and_withhold_nothing(site: Kfm) -> None:
    Path("open.csv").write_text("kind\nvillage\n")
    installation(dataset("open", "open.csv", sensitivity="public"), custodians=False)
    labels(label("dataset: open", "public", custodian=None, public_resolution=None))
    assert site("run", "open", "--reason", "for all").code == 0
    last = entries(site)[-1]
    said = last["governed"]
    assert isinstance(said, dict)
    assert (last["reason"], said["care"], said["findings"], said["withheld"]) == ("for all", "open", [], [])
    assert said["lineage"] == [f"sha256:{sha256(Path('open.csv').read_bytes()).hexdigest()}"]


def test_an_entry_about_data_that_nothing_has_classified_yet_names_no_digest(site: Kfm) -> None:
    """It fails before it is classified, in an installation that has labels."""
    Path("open.csv").write_text("kind\nvillage\n")
    installation(dataset("open", "missing.csv", sensitivity="public"), custodians=False)
    labels(label("dataset: open", "public", custodian=None, public_resolution=None))
    assert site("run", "open").code != 0
    assert "governed" not in entries(site)[-1]
