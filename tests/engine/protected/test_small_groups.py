"""Fewer than k records of a cell never share what a reader could recognise them by, in any version."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import SAFE, dataset, hits, installation, label, labels
from tests.engine.protected.test_interrupted import KILLED
from tests.engine.protected.test_kansas import MASK as KANSAS
from tests.engine.protected.test_kansas import TABLE

MASK = """
id: sites
version: "1"
namespace: state-sites
record_id: trinomial
resolution: 6
location:
  latitude: lat
  longitude: lon
  accuracy: {all: {name: point, metres: 10}}
columns:
  kind: {kind: code, values: [village, camp, mound]}
  age: {kind: number, step: 10, below_k: 1000}
quasi_identifiers: [kind, age]
"""
QUASI = ("kind", "age")
Row = tuple[str, str, int]  # id, kind, age
# In one cell: ten villages of one age, six camps of five ages within a millennium, one mound.
FIRST: list[Row] = [
    *((f"14QX{n}", "village", 900) for n in range(100, 110)),
    *((f"14QX{n}", "camp", 900 + 20 * (n % 5)) for n in range(110, 116)),
    ("14QX120", "mound", 4000),
]


def write(rows: Iterable[Row]) -> None:
    numbers = [(int(site[4:]), site, kind, age) for site, kind, age in rows]
    lines = [f"{site},{kind},{age},{38 + n // 7000}.51{n:04d},-97.52{n:04d}" for n, site, kind, age in numbers]
    Path("sites.csv").write_text("\n".join(["trinomial,kind,age,lat,lon", *lines]) + "\n")


@pytest.fixture
def crowd(site: Kfm) -> Kfm:
    arrange()
    return site


def arrange(updater: str = "Copy", mask: str = MASK) -> None:
    installation(dataset("sites", "sites.csv", mask=True, updater=updater))
    config = Path("kfm.yml")
    config.write_text(config.read_text() + "publish: file:public\n")
    labels(label("source: sites.csv"))
    Path("mask.yml").write_text(mask)
    write(FIRST)


def run(kfm: Kfm) -> dict[str, dict[str, str]]:
    ran = kfm("run", "sites", "--force", "--reason", "again")
    assert ran.code == 0, ran.err
    return processed(kfm)


def deploy(kfm: Kfm, mask: str) -> None:
    Path("mask.yml").write_text(mask.replace('version: "1"', 'version: "2"'))
    words = ("mask", "deploy", "sites", "sites")
    answer = by_order(kfm, SAFE, *words)
    if answer.code:
        answer = kfm(*words, "--reason", "it shows less", "--key", str(SAFE / "sue.key"))
    assert answer.code == 0, answer.err


def processed(kfm: Kfm, part: str = "all") -> dict[str, dict[str, str]]:
    return {row["id"]: row for row in csv.DictReader(io.StringIO(kfm("cat", "processed/sites", part).out))}


def groups(rows: Iterable[dict[str, str]], names: tuple[str, ...] = QUASI) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for row in rows:
        found[row["cell"], *(row[name] for name in names)].add(row["id"])
    return {group: len(ids) for group, ids in found.items()}


def test_no_public_group_of_quasi_identifiers_is_smaller_than_k(crowd: Kfm) -> None:
    run(crowd)
    assert by_order(crowd, SAFE, "promote", "sites").code == 0
    (public,) = (path for path in Path("public").rglob("*") if path.is_file() and path.read_bytes()[:3] == b"id,")
    rows = list(csv.DictReader(public.open(newline="")))
    found = groups(rows)
    assert len(rows) == len(FIRST) and len({row["cell"] for row in rows}) == 1
    assert min(found.values()) >= 5
    assert hits([*(site for site, *_ in FIRST), "38.5101", "38.5100", "97.5201", "97.5200"]) == []


def test_a_coarser_form_is_tried_before_a_value_is_withheld(crowd: Kfm) -> None:
    rows = run(crowd).values()
    shown = groups(rows)
    (cell,) = {row["cell"] for row in rows}
    assert shown[cell, "camp", "1000"] >= 5
    assert all("too few records" in row["dataGeneralizations"] for row in rows if row["age"] in ("1000", "withheld"))


def test_what_was_coarsened_stays_so_when_others_join_its_group(crowd: Kfm) -> None:
    before = run(crowd)
    coarse = {identity for identity, row in before.items() if "withheld" in row.values()}
    assert coarse
    write([*FIRST, *((f"14QX{n}", "mound", 4000) for n in range(121, 135))])
    after = run(crowd)
    assert len(after) == len(before) + 14
    for identity in coarse:
        assert [after[identity][name] for name in QUASI] == [before[identity][name] for name in QUASI]
    assert min(groups(after.values()).values()) >= 5
    assert any(row["kind"] == "mound" for row in after.values())  # enough of them came together


@pytest.mark.parametrize(
    "changed",
    [
        ("quasi_identifiers: [kind, age]\n", ""),
        ("below_k: 1000", "below_k: 20"),
        ("namespace: state-sites", "namespace: other"),
    ],
    ids=["no quasi-identifiers", "a finer form", "another namespace"],
)
def test_a_changed_mask_shows_no_value_that_was_coarser(crowd: Kfm, changed: tuple[str, str]) -> None:
    before = run(crowd)
    shown = sorted(row["age"] for row in before.values() if "withheld" in row["age"])
    mask = MASK.replace(*changed)
    deploy(crowd, mask if changed[1] else mask.replace(", below_k: 1000", ""))
    after = run(crowd)
    assert len(after) == len(before)
    ages = sorted(row["age"] for row in after.values())
    assert len([age for age in ages if age == "withheld"]) >= len(shown)
    if before.keys() == after.keys():
        for identity, row in before.items():
            if row["age"] in ("1000", "withheld"):
                assert after[identity]["age"] in (row["age"], "withheld")
    else:
        exact = {str(age) for _, kind, age in FIRST if kind != "village"} - {"900"}
        assert not exact & {*ages}


def test_a_killed_run_coarsens_the_same_records_when_it_is_resumed(site: Kfm) -> None:
    arrange(updater="Killed")
    Path("updaters.py").write_text(Path("updaters.py").read_text() + KILLED)
    Path("kill").touch()
    done = subprocess.run([sys.executable, "-m", "kfm", "run", "sites"], env=dict(os.environ), check=False)
    assert done.returncode == 9
    Path("kill").unlink()
    assert site("resume").code == 0
    resumed = processed(site, "0")
    assert resumed.pop("0")["cell"] is None  # the mark that the updater adds
    assert min(groups(resumed.values()).values()) >= 5
    assert site("run", "sites", "--force", "--reason", "again").code == 0
    again = processed(site, "0")
    assert again.pop("0") and again == resumed


def test_no_record_of_the_kansas_table_is_unique_by_age_error_material_and_cell(crowd: Kfm) -> None:
    shutil.copy(TABLE, "sites.csv")
    names = ("Age", "Error", "Material")
    plain = KANSAS.replace("  Material:", "  Error: {kind: number, step: 50}\n  Material:")
    Path("mask.yml").write_text(plain)
    before = groups(run(crowd).values(), names)
    assert sum(count == 1 for count in before.values()) > 40
    coarser = plain.replace("step: 100", "step: 100, below_k: 1000").replace("step: 50", "step: 50, below_k: 200")
    deploy(crowd, coarser + "quasi_identifiers: [Material, Age, Error]\n")
    after = groups(run(crowd).values(), names)
    assert sum(after.values()) == 80
    for group, count in after.items():
        assert count >= 5 or set(group[1:]) == {"withheld"}


def counts(kfm: Kfm) -> dict[tuple[str, str], str]:
    rows = list(csv.DictReader(io.StringIO(kfm("cat", "processed/sites", "all").out)))
    assert rows and list(rows[0]) == ["cell", "resolution", "kind", "count"]
    return {(row["cell"], row["kind"]): row["count"] for row in rows}


COUNTED = MASK.replace("quasi_identifiers: [kind, age]\n", "counts_by: kind\n").replace(", below_k: 1000", "")


def test_counts_below_k_are_withheld_and_stay_so(site: Kfm) -> None:
    arrange(mask=COUNTED)
    kinds = ["village"] * 9 + ["camp"] * 6 + ["mound"] * 9
    north: list[Row] = [(f"14QX{7000 + n}", kind, 1) for n, kind in enumerate(kinds)]
    write([*FIRST, *north])
    assert site("run", "sites").code == 0
    found = counts(site)
    # One mound is withheld, and the three counts from which it would follow with the totals of cells and kinds.
    assert sorted((kind, count) for (_, kind), count in found.items()) == [
        *[("camp", "withheld")] * 2, *[("mound", "withheld")] * 2, ("village", "10"), ("village", "9"),
    ]  # fmt: skip
    assert by_order(site, SAFE, "promote", "sites").code == 0
    write([*FIRST, *((f"14QX{n}", "mound", 4000) for n in range(121, 135)), *north])
    assert site("run", "sites").code == 0
    assert counts(site) == found
    assert hits([site for site, *_ in FIRST]) == []
    shown = site("mask", "preview", "sites.csv", "--mask", "mask.yml")
    assert "6 counts are published, not records; 0 of them are withheld" in shown.err
