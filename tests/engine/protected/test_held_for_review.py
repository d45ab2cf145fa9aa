"""A possible leak is not published before a person reviewed it; receipts and logs record the review."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import POINTS, SAFE, dataset, installation, label, labels, table

WELLS = "well,lat,lon\n" + "".join(f"w{n},{34.01 + n * 0.117:.3f},{-90.03 - n * 0.213:.3f}\n" for n in range(40))


@pytest.fixture
def doubtful(site: Kfm) -> Kfm:
    """A public table of wells, one of which is, roughly, where a site is."""
    assert site("run", "sites").code == 0
    with Path("kfm.yml").open("a") as file:
        file.write(dataset("wells", "wells.csv", sensitivity="public"))
    rough = ",".join(f"{float(one):.3f}" for one in POINTS[4])
    Path("wells.csv").write_text(WELLS + f"w40,{rough}\n")
    ran = site("run", "wells")
    assert ran.code == 0, ran.err
    return site


def test_a_possible_leak_waits_until_a_person_has_reviewed_it(doubtful: Kfm) -> None:
    promoted = by_order(doubtful, SAFE, "promote", "wells")
    assert promoted.code == 4 and "gate.point-rounded: 1" in promoted.err, promoted.err
    assert not Path("public/datasets/wells").exists()
    (waits,) = [row for row in doubtful("review", "list", "--json").data if row["kind"] == "gate"]
    assert waits["dataset"] == "wells" and "gate.point-rounded" in waits["what"]
    assert doubtful("promote", "wells").code == 4, "who signed had not seen it"
    (order,) = [row["id"] for row in doubtful("review", "list", "--json").data if row["kind"] == "order"]
    words = ("review", "reject", order, "--key", str(SAFE / "sue.key"), "--reason", "to look at it")
    assert doubtful(*words).code == 0
    again = by_order(doubtful, SAFE, "promote", "wells")
    assert again.code == 0, again.err
    assert Path("public/datasets/wells").exists()


def test_without_a_doubt_nothing_is_held(doubtful: Kfm) -> None:
    Path("wells.csv").write_text(WELLS)
    assert doubtful("run", "wells").code == 0
    assert by_order(doubtful, SAFE, "promote", "wells").code == 0


def test_a_receipt_of_a_masked_run_counts_what_is_hidden_and_no_small_number(site: Kfm) -> None:
    few = table().replace("village", "hamlet", 2)
    Path("sites.csv").write_text(few)
    ran = site("run", "sites", "--json")
    assert ran.code == 0, ran.err
    receipt = site("runs", "receipt", "last", "--json").data
    (said,) = receipt["provenance"]["masking"]
    assert said["hidden"]["records"] == 12
    assert said["hidden"]["values"] == {"kind": None}, "two is below k"
    assert said["hidden"]["withheld_records"] == 0
    Path("sites.csv").write_text(few.replace("camp", "pit"))
    assert site("run", "sites").code == 0
    receipt = site("runs", "receipt", "last", "--json").data
    assert receipt["provenance"]["masking"][0]["hidden"]["values"] == {"kind": 6}


def test_log_lines_of_a_restricted_source_say_neither_size_nor_rows(site: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    labels(label("source: sites.csv", "restricted"))
    installation(dataset("sites", "sites.csv", sensitivity="public"))
    monkeypatch.setenv("KFM_LOG", "jsonl")
    answer = site("run", "sites", "--verbose")
    assert answer.code == 0, answer.err
    lines = [json.loads(line) for line in answer.err.splitlines() if line.startswith("{")]
    about = [line for line in lines if line["event"].startswith("source.")]
    assert {line["event"] for line in about} == {"source.pinned", "source.inspected"}
    assert not any({"size", "rows", "held_rows", "findings"} & line.keys() for line in about), about
