"""A tightened label withdraws everything published from its source."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import SAFE, dataset, every_byte, hits, installation, label, labels, table


def public_files() -> list[str]:
    return [name for name in every_byte() if name.startswith("public/") and not name.endswith("current.json")]


@pytest.fixture
def published(site: Kfm) -> Kfm:
    Path("copy.csv").write_text("town,kind\nDodge City,village\n")
    installation(
        dataset("sites", "sites.csv", mask=True, sensitivity="public"),
        dataset("again", "./sites.csv", mask=True, sensitivity="public"),
        dataset("towns", "copy.csv", sensitivity="public"),
    )
    labels(label("source: sites.csv"))
    for name in ("sites", "again", "towns"):
        assert site("run", name).code == 0
        promoted = by_order(site, SAFE, "promote", name)
        assert promoted.code == 0, promoted.err
    assert len(public_files()) == 6
    return site


def test_the_next_run_of_anything_withdraws_all_that_was_made_of_it(published: Kfm) -> None:
    labels(label("source: sites.csv", "restricted"))
    assert published("run", "towns").code == 0
    left = public_files()
    assert len(left) == 2 and all("towns" in name for name in left), left
    history = published("refs", "history", "published/again").out
    assert "kfm recall" in history and "label.sensitivity" in history
    assert hits() == []


def test_a_freeze_does_not_keep_it_public(published: Kfm) -> None:
    assert published("freeze", "--reason", "look", "--key", str(SAFE / "olli.key")).code == 0
    labels(label("source: sites.csv", "closed"))
    published("run", "sites")
    assert all("towns" in name for name in public_files())


def test_a_coarser_resolution_takes_the_finer_cells_back(published: Kfm) -> None:
    labels(label("source: sites.csv", public_resolution=4))
    ran = published("run", "sites")
    assert ran.code == 0, ran.err
    assert all("towns" in name for name in public_files())
    assert {line.split(",")[4] for line in published("cat", "processed/sites", "all").out.splitlines()[1:]} == {"4"}
    assert by_order(published, SAFE, "promote", "sites").code == 0
    assert len(public_files()) == 4


def test_an_expired_consent_takes_it_back(published: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    labels(label("source: sites.csv", expires="'2030-01-01'"))
    assert published("run", "sites").code == 0
    assert len(public_files()) == 6
    monkeypatch.setenv("KFM_NOW", "2030-01-02T00:00:00Z")
    assert published("run", "towns").code == 0
    assert all("towns" in name for name in public_files())


def test_a_label_on_bytes_takes_back_what_was_public_as_it_was(site: Kfm) -> None:
    labels()
    Path("copy.csv").write_text(table())
    both = dataset("parks", "copy.csv", sensitivity="public"), dataset("towns", "sites.csv", sensitivity="public")
    installation(*both, custodians=False)
    assert site("run", "parks").code == 0
    assert by_order(site, SAFE, "promote", "parks").code == 0
    assert len(public_files()) == 2
    digest = "sha256:" + hashlib.sha256(table().encode()).hexdigest()
    installation(*both)
    labels(label(f"bytes: '{digest}'", "restricted"))
    assert site("run", "towns").code == 0
    assert public_files() == []
    made = next(each["version"] for each in site("refs", "list", "--json").data if each["ref"] == "processed/parks")
    assert by_order(site, SAFE, "promote", "parks", "--to", made).code == 4


def test_a_loosened_file_of_labels_lowers_nothing(site: Kfm) -> None:
    labels(label("source: sites.csv", "restricted"))
    installation(dataset("sites", "sites.csv", mask=True, sensitivity="public"))
    assert site("run", "sites").code == 0
    for loosened in ([label("source: sites.csv")], []):
        labels(*loosened)
        for words in (("run", "sites"), ("promote", "sites")):
            refused = site(*words)
            assert refused.code == 3 and "source sites.csv than the label in force" in refused.err, refused.err
    labels(label("source: sites.csv", "restricted"))
    assert site("promote", "sites").code == 4
    assert public_files() == []
    assert hits() == []


def test_a_tightened_label_prints_what_was_withdrawn_and_which_sinks_had_it(published: Kfm) -> None:
    Path("labels.yml").write_text(
        "version: 1\nlabels:\n  - of:\n      source: sites.csv\n    sensitivity: generalised\n    care: open\n"
        "    custodian: office\n    public_resolution: 6\n"
    )
    signed = ("--key", str(SAFE / "sue.key"), "--reason", "asked for")
    said = published("labels", "set", "source:sites.csv", "--sensitivity", "restricted", *signed)
    assert said.code == 0, said.err
    assert "sites: 1 version withdrawn" in said.err and "again: 1 version withdrawn" in said.err
    assert said.err.count("0 files remain outside; it had been published to file:public") == 2
    assert all("towns" in name for name in public_files())
    again = published("labels", "set", "source:sites.csv", "--sensitivity", "closed", "--json", *signed)
    assert again.data["recalled"] == []


def test_what_closes_the_same_bytes_elsewhere_takes_back_both(published: Kfm) -> None:
    Path("copy.csv").write_text(table())
    installation(dataset("towns", "copy.csv"), dataset("sites", "sites.csv", mask=True, sensitivity="public"))
    labels(label("source: sites.csv"), label("source: copy.csv", "restricted"))
    assert published("run", "towns").code == 0  # learns that these bytes are restricted
    published("run", "sites")
    assert public_files() == []


def test_unencrypted_copies_from_before_a_label_are_reported(site: Kfm) -> None:
    Path("copy.csv").write_text(table())
    Path("labels.yml").write_text("version: 1\nlabels: []\n")
    installation(dataset("parks", "copy.csv", sensitivity="public"), custodians=False)
    assert site("run", "parks").code == 0
    installation(dataset("parks", "copy.csv", sensitivity="public"))
    words = ("--sensitivity", "restricted", "--care", "open", "--custodian", "office")
    signed = ("--key", str(SAFE / "sue.key"), "--reason", "it is theirs")
    said = site("labels", "set", "source:copy.csv", *words, *signed)
    assert said.code == 0, said.err
    digest = hashlib.sha256(table().encode()).hexdigest()
    assert "1 object from before lie in the store in clear" in said.err and digest in said.err


@pytest.mark.parametrize("level", ["restricted", "closed", "generalised"])
def test_a_dataset_that_kfm_yml_closes_is_withdrawn_also_without_labels_and_custodians(kfm: Kfm, level: str) -> None:
    open_towns = dataset("towns", "towns.csv", sensitivity="public")
    installation(open_towns, custodians=False)
    text = Path("kfm.yml").read_text().replace("labels: labels.yml\n", "")
    Path("kfm.yml").write_text(text)
    Path("towns.csv").write_text("town,people\nHays,21000\n")
    assert kfm("run").code == 0 and kfm("publish", "towns", "--reason", "checked").code == 0

    def published() -> list[Path]:
        return [path for path in Path("public").rglob("*") if path.is_file() and b"21000" in path.read_bytes()]

    assert published()
    Path("kfm.yml").write_text(text.replace("sensitivity: public", f"sensitivity: {level}"))
    answer = kfm("run")
    assert "1 version withdrawn" in answer.err and "dataset.sensitivity" in answer.err, answer.err
    assert published() == []
    assert "withdrawn" in kfm("status").out
    again = kfm("run")
    assert "withdrawn" not in again.err, again.err
