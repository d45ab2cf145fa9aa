"""Protected sources are encrypted before they are stored, and masked before anything is planned from them."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path

import pytest

from tests.app.daemon.site import served
from tests.app.governance.people import by_order, make_list
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import (
    CONTRACT,
    IDS,
    KEY,
    SAFE,
    SECRETS,
    dataset,
    every_byte,
    hits,
    installation,
    label,
    labels,
    table,
)


def test_a_generalised_table_is_masked_and_nothing_else_of_it_can_be_read_anywhere(site: Kfm) -> None:
    ran = site("run", "sites")
    assert ran.code == 0, ran.err
    rows = site("cat", "processed/sites", "all").out
    assert rows.startswith("id,kind,found,cell,resolution,")
    assert len(rows.splitlines()) == 13 and "1950s" in rows and "village" in rows
    assert not [secret for secret in SECRETS if secret in ran.out + ran.err + rows]
    assert hits() == []
    assert hashlib.sha256(table().encode()).hexdigest() not in str(every_byte())


def test_the_same_again_is_a_noop(site: Kfm) -> None:
    assert site("run", "sites").code == 0
    assert "noop" in site("run", "sites").out


def test_its_receipt_says_how_it_stands_and_by_which_policy_it_was_masked(site: Kfm) -> None:
    assert site("run", "sites").code == 0
    run_id = site("refs", "history", "processed/sites", "--json").data[0]["run_id"]
    said = site("runs", "receipt", run_id, "--json").data["provenance"]
    assert said["standing"] == "generalised"
    assert [(one["source"], one["policy"], one["version"]) for one in said["masking"]] == [("sites", "sites", "1")]


def test_a_masked_dataset_is_published_as_cells(site: Kfm) -> None:
    installation(dataset("sites", "sites.csv", mask=True, sensitivity="public"))
    assert site("run", "sites").code == 0
    promoted = by_order(site, SAFE, "promote", "sites")
    assert promoted.code == 0, promoted.err
    (published,) = [body for name, body in every_byte().items() if name.startswith("public/") and name.endswith(".csv")]
    assert len({row["cell"] for row in csv.DictReader(io.StringIO(published.decode()))}) == 12
    assert hits() == []


def test_without_the_key_nothing_is_fetched(site: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KFM_SECRET_OFFICE")
    ran = site("run", "sites")
    assert ran.code == 4 and "office" in ran.err
    assert not Path(".kfm/objects").exists() or not list(Path(".kfm/objects").rglob("??*"))
    assert hits() == []


def test_a_restricted_dataset_computes_on_raw_and_stores_nothing_readable(site: Kfm) -> None:
    labels(label("source: sites.csv", "restricted"))
    installation(dataset("sites", "sites.csv"))
    ran = site("run", "sites")
    assert ran.code == 0, ran.err
    assert hits() == []
    shown = site("cat", "processed/sites", "all")
    assert shown.out == table()  # a reader with the key reads it
    assert site("promote", "sites").code == 4
    assert not Path("public/datasets/sites").exists()


def test_a_restricted_run_resumes_and_repeats_over_sealed_rows(site: Kfm) -> None:
    labels(label("source: sites.csv", "restricted"))
    installation(dataset("sites", "sites.csv"))
    assert site("run", "sites").code == 0
    assert "noop" in site("run", "sites").out
    Path("sites.csv").write_text(table() + "14QX999,camp,1999-01-01,38.123456,-97.654321,gone\n")
    assert site("run", "sites").code == 0
    assert hits([*SECRETS, "14QX999"]) == []
    assert "14QX999" in site("cat", "processed/sites", "all").out


def test_without_the_key_a_restricted_version_cannot_be_read(site: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    labels(label("source: sites.csv", "restricted"))
    installation(dataset("sites", "sites.csv"))
    assert site("run", "sites").code == 0
    monkeypatch.delenv("KFM_SECRET_OFFICE")
    shown = site("cat", "processed/sites", "all")
    assert shown.code == 4, shown.err
    assert IDS[0] not in shown.out + shown.err


def test_what_is_closed_is_not_used(site: Kfm) -> None:
    labels(label("source: sites.csv", "closed"))
    ran = site("run", "sites")
    assert ran.code == 4 and "label.sensitivity" in ran.err
    assert hits() == []


def test_a_label_by_exact_bytes_holds_under_a_public_name(site: Kfm) -> None:
    digest = "sha256:" + hashlib.sha256(table().encode()).hexdigest()
    labels(label(f"bytes: '{digest}'", "restricted"))
    installation(dataset("parks", "sites.csv", sensitivity="public"))
    assert site("run", "parks").code == 0
    assert hits() == []
    assert site("promote", "parks").code == 4


def test_bytes_known_as_protected_are_protected_without_their_label(site: Kfm) -> None:
    labels(label("source: sites.csv", "restricted"))
    installation(dataset("sites", "sites.csv"))
    assert site("run", "sites").code == 0
    installation(dataset("parks", "copy.csv", sensitivity="public"))
    Path("copy.csv").write_text(table())
    assert site("run", "parks").code == 0
    assert hits() == []
    assert site("promote", "parks").code == 4


def test_a_contract_holds_rows_sealed(site: Kfm) -> None:
    more = (
        "        contract:\n          max_held_share: 1\n          columns:\n"
        "            - {name: lat, type: number, minimum: 37.5, mode: discard-row}\n"
    )
    installation(dataset("sites", "sites.csv", mask=True, more=more))
    assert site("run", "sites").code == 0
    assert hits() == []
    assert len(site("cat", "processed/sites", "all").out.splitlines()) == 11


def test_partitions_are_those_of_the_masked_records(site: Kfm) -> None:
    more = "        contract:\n          partition_by: kind\n"
    installation(dataset("sites", "sites.csv", mask=True, updater="ByKind", more=more))
    assert site("run", "sites").code == 0
    assert "camp" in site("cat", "processed/sites").out
    more = "        contract:\n          partition_by: trinomial\n"
    installation(dataset("sites", "sites.csv", mask=True, updater="ByKind", more=more))
    ran = site("run", "sites")
    assert ran.code == 3 and "partition_by" in ran.err
    assert hits() == []


def test_a_format_that_masking_does_not_understand_is_refused(site: Kfm) -> None:
    installation(dataset("sites", "sites.csv", mask=True).replace("format: csv\n" + CONTRACT, "format: text\n"))
    ran = site("run", "sites")
    assert ran.code == 3 and "mask" in ran.err
    assert hits() == []


def test_the_key_never_stands_in_the_settings_or_in_what_is_shown(site: Kfm) -> None:
    assert site("run", "sites").code == 0
    assert hits([KEY]) == []
    assert KEY not in site("config", "show", "--resolved").out


def test_without_a_key_list_only_public_data_are_handled(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    """And that is in the ledger; of the protected table nothing is kept."""
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)
    public = dataset("parks", "parks.csv", sensitivity="public")
    installation(dataset("sites", "sites.csv", mask=True), public)
    Path("parks.csv").write_text("park,city\nriver,Wichita\n")
    labels(label("dataset: sites"), label("source: sites.csv"))
    assert kfm("run", "parks").code == 0
    denied = kfm("run", "sites")
    assert denied.code == 4 and "no key list" in denied.err
    assert [row["outcome"] for row in kfm("runs", "receipts", "--json").data] == ["denied", "done"]
    assert hits() == []
    make_list(kfm, SAFE, "office")
    assert kfm("run", "sites").code == 0
    Path("keys.json").unlink()
    assert kfm("run", "sites", "--force", "--reason", "x").code == 4


def test_a_protected_source_over_the_wire_is_sealed_also_when_it_is_only_looked_at(site: Kfm) -> None:
    with served() as outside:
        plain = hashlib.sha256(table().encode()).hexdigest()
        outside.change(table().encode(), f'"{plain}"')  # as some servers do
        address = f"http://127.0.0.1:{outside.port}/wells.csv"
        installation(dataset("sites", address, mask=True))
        network = f"network:\n  allow: ['127.0.0.1:{outside.port}']\n"
        Path("kfm.yml").write_text(network + Path("kfm.yml").read_text())
        labels(label(f"source: '{address}'"))
        watched = site("triggers", "watch", "--once")
        assert watched.code == 0, watched.err
        assert "done" in watched.out + watched.err
        assert hits([*SECRETS, plain]) == []
        assert "noop" in site("run", "sites").out
        assert len(outside.asked) >= 2
        assert hits([*SECRETS, plain]) == []


def test_an_expected_digest_is_that_of_the_bytes_themselves(site: Kfm) -> None:
    plain = hashlib.sha256(table().encode()).hexdigest()
    installation(dataset("sites", "sites.csv", mask=True, more=f"        expect_hash: sha256:{plain}\n"))
    assert site("run", "sites").code == 0
    installation(dataset("sites", "sites.csv", mask=True, more=f"        expect_hash: sha256:{'0' * 64}\n"))
    assert site("run", "sites").code == 3
    assert hits() == []


def test_a_record_can_be_more_protected_than_its_table(site: Kfm) -> None:
    assert site("run", "sites").code == 0
    rows = list(csv.DictReader(io.StringIO(site("cat", "processed/sites", "all").out)))
    gone, coarser = rows[0]["id"], rows[1]["id"]
    labels(
        label("dataset: sites"),
        label("source: sites.csv"),
        label(f"record: {gone}", "restricted"),
        label(f"record: {coarser}", public_resolution=3),
    )
    ran = site("run", "sites")
    assert ran.code == 0, ran.err
    now = {row["id"]: row for row in csv.DictReader(io.StringIO(site("cat", "processed/sites", "all").out))}
    assert gone not in now and len(now) == 11
    assert now[coarser]["resolution"] == "3"


def test_a_dry_run_writes_nothing_readable(site: Kfm) -> None:
    ran = site("run", "sites", "--dry-run")
    assert ran.code == 0, ran.err
    assert not [secret for secret in SECRETS if secret in ran.out + ran.err]
    assert hits() == []


def test_a_dataset_declared_generalised_is_published_as_cells(site: Kfm) -> None:
    installation(dataset("sites", "sites.csv", mask=True, sensitivity="generalised"))
    assert site("run", "sites").code == 0
    promoted = by_order(site, SAFE, "promote", "sites")
    assert promoted.code == 0, promoted.err
    assert any(name.startswith("public/") and name.endswith(".csv") for name in every_byte())
    assert hits() == []


@pytest.mark.parametrize("sensitivity", ["generalised", "restricted"])
def test_parts_of_a_protected_dataset_are_made_one_after_another(site: Kfm, sensitivity: str) -> None:
    labels(label("source: sites.csv", sensitivity))
    installation(dataset("sites", "sites.csv", mask=True, updater="Part"))
    Path("updaters.py").write_text(
        Path("updaters.py").read_text()
        + """

class Part(Copy):
    def inputs(self, trigger, sources):
        return [sources.pin("sites", partition=(trigger.partition,))]

    def plan(self, inputs):
        return Plan([Step(id=inputs[0].partition[0], key=(inputs[0].partition[0], "all"))])
"""
    )
    for name in ("one", "two"):
        ran = site("run", "sites", "--partition", name)
        assert ran.code == 0, ran.err
    assert {line.split()[0] for line in site("cat", "processed/sites").out.splitlines()[1:]} == {"one/all", "two/all"}
    assert site("runs", "compact").code == 0
    assert site("doctor", "--deep").code == 0
    assert hits() == []


def test_a_public_dataset_keeps_its_keys_when_labels_come_to_the_installation(kfm: Kfm) -> None:
    installation(dataset("parks", "copy.csv", updater="Grows", sensitivity="public"), custodians=False)
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("labels: labels.yml\n", ""))
    Path("updaters.py").write_text(
        Path("updaters.py").read_text()
        + """

class Grows(Copy):
    def plan(self, inputs):
        return Plan([Step(id="all", key=(str(inputs[0].size),))])
"""
    )
    Path("copy.csv").write_text("park\nriver\n")
    assert kfm("run", "parks").code == 0
    labels(label("source: elsewhere.csv"))
    other = dataset("elsewhere", "elsewhere.csv")
    custodians = "custodians:\n  office: {key: 'env:KFM_SECRET_OFFICE'}\n"
    Path("kfm.yml").write_text("labels: labels.yml\n" + custodians + Path("kfm.yml").read_text() + other)
    Path("copy.csv").write_text("park\nriver\nhill\n")
    ran = kfm("run", "parks")
    assert ran.code == 0, ran.err
    assert len(kfm("cat", "processed/parks", "--json").data) == 2


def test_what_is_declared_is_made_of_the_public_columns(site: Kfm) -> None:
    text = Path("kfm.yml").read_text().replace("updater: updaters.py:Copy", 'version: "1.0.0"')
    steps = "[{filter: {column: kind, equals: camp}}, {select: [id, kind, cell]}]"
    Path("kfm.yml").write_text(
        text.replace(
            "    sources:", f"    outputs: {{camps: {{from: sites, format: csv, steps: {steps}}}}}\n    sources:"
        )
    )
    ran = site("run", "sites")
    assert ran.code == 0, ran.err
    (made,) = ["/".join(entry["key"]) for entry in site("cat", "processed/sites", "--json").data]
    rows = site("cat", "processed/sites", made).out.splitlines()
    assert rows[0] == "id,kind,cell" and len(rows) == 5
    assert hits() == []
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("[id, kind, cell]", "[trinomial]"))
    ran = site("run", "sites", "--force", "--reason", "x")
    assert ran.code == 3 and hits() == []
