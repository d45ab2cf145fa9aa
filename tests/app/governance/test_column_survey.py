"""What the columns of real and hostile tables are taken for, before a steward masks them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from kfm.app.stewards.column_survey import ColumnSeen, Survey, survey
from kfm.app.stewards.mask_proposal import accuracy_of, policy_text, propose
from kfm.errors import BadInput
from kfm.model.masks import read_policy
from kfm.parsing import documents

KANSAS = Path(__file__).resolve().parents[2] / "engine/protected/kansas.csv"


def of(text: str) -> dict[str, list[str]]:
    names, *rows = csv.reader(text.splitlines())
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


def holds(found: Survey) -> dict[str, str]:
    return {one.name: one.holds for one in found.columns}


def one_column(name: str, values: list[str]) -> ColumnSeen:
    count = len(values)
    places = {"lat": [f"{38 + n / 7:.5f}" for n in range(count)], "lon": [f"{-97 - n / 9:.5f}" for n in range(count)]}
    found = survey({"id": list(map(str, range(count))), **places, name: values}, 5)
    return found.columns[-1]


def test_of_the_kansas_table_neither_places_nor_names_would_be_published() -> None:
    found = survey(of(KANSAS.read_text()), 5)
    assert (found.record_id, found.latitude, found.longitude) == ("LabID", "Lat", "Long")
    published = {one.name for one in found.columns if one.rule}
    assert published == {"Age", "Error", "Material", "Taxa", "d13C", "Method"}
    assert {name for name, held in holds(found).items() if held == "a place"} == {"Country", "Province", "Continent"}


def test_a_proposed_policy_is_one_that_a_run_accepts() -> None:
    found = survey(of(KANSAS.read_text()), 5)
    accuracy = accuracy_of("LocAccuracy:1.0=35000", found)
    policy = propose(found, id="dates", resolution=6, accuracy=accuracy, k=5)
    assert read_policy(documents.read(policy_text(policy, ["Lat"]), "mask", json=False)) == policy
    assert accuracy.classes["1.0"].name == "county"


@pytest.mark.parametrize(
    ("name", "values", "held"),
    [
        ("y_copy", [f"{38 + n / 7:.3f}" for n in range(20)], "a place"),
        ("abs_lon", [f"{97 + n / 9:.4f}" for n in range(20)], "a place"),
        ("Township", ["T12S"] * 20, "a place"),
        ("elevation_m", [str(500 + n) for n in range(20)], "a place"),
        ("landOwner", ["A. Miller"] * 20, "names of sites or people"),
        ("dug_with", ["A. Miller"] * 10 + ["Jones, B."] * 10, "names of sites or people"),
        ("SITE_NAME", ["Hill"] * 20, "names of sites or people"),
        ("field", ["a word or two in every row"] * 20, "free text"),
        ("catalog_no", [f"A-{n}" for n in range(20)], "identifiers"),
        ("kind", [f"kind {n}" for n in range(20)], "values that few rows share"),
        ("empty", [""] * 20, "nothing"),
    ],
)
def test_a_column_that_points_to_a_place_or_a_person_is_withheld(name: str, values: list[str], held: str) -> None:
    seen = one_column(name, values)
    assert (seen.holds, seen.rule) == (held, None)


@pytest.mark.parametrize(
    ("name", "values", "rule"),
    [
        ("kind", ["camp"] * 15 + ["rare"] * 5 + ["mound"] * 4, {"kind": "code", "values": ("camp", "rare")}),
        ("found", [f"19{50 + n}-06" for n in range(20)], {"kind": "date", "to": "decade"}),
        ("age", [str(100 * n) for n in range(20)], {"kind": "number", "step": 200.0}),
    ],
)
def test_a_column_that_many_rows_share_is_proposed_in_a_coarse_form(
    name: str, values: list[str], rule: dict[str, Any]
) -> None:
    seen = one_column(name, values)
    assert seen.rule is not None
    assert {field: getattr(seen.rule, field) for field in rule} == rule


def test_no_message_of_the_survey_quotes_a_value() -> None:
    with pytest.raises(BadInput) as refused:
        survey(of("id,lat,lon\n1,3801234.5,-97654.3\n2,3801235.5,-97655.3\n"), 5)
    assert "3801" not in f"{refused.value.message} {refused.value.hint}"
