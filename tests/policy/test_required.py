"""Policies that require something deny without it, and their advice is shown: typed as a person types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Kfm
from tests.cli.conftest import kfm as kfm
from tests.cli.conftest import plain_environment as plain_environment

TABLE = "side,depth\n" + "".join(f"side-{n},{n * 10}\n" for n in range(1, 13))
COLUMNS = "{columns: [{name: side, required: true}, {name: depth, type: integer, mode: discard-row}]}"
DESCRIBED = """\
    description: Wells by side, made up
    extent: {bbox: [-102.1, 36.9, -94.6, 40.1], interval: ["2020-01-01T00:00:00Z", null]}
"""


def installation(licence: str = "CC0-1.0", contract: str = COLUMNS, more: str = "", table: str = TABLE) -> None:
    Path("wells.csv").write_text(table)
    kept = f", contract: {contract}" if contract else ""
    Path("kfm.yml").write_text(
        'datasets:\n  wells:\n    version: "1.0.0"\n    title: Wells\n'
        f"    license: {licence}\n    sensitivity: public\n{more}"
        f"    sources:\n      wells: {{uri: wells.csv, format: csv{kept}}}\n    outputs: {{all: {{from: wells}}}}\n"
    )


def published(kfm: Kfm) -> Answer:
    assert kfm("run", "wells").code == 0
    return kfm("publish", "wells", "--reason", "test")


def public_files() -> list[Path]:
    return [path for path in Path("public").rglob("*") if path.is_file()] if Path("public").exists() else []


@pytest.mark.parametrize(
    ("licence", "cure"),
    [
        ("banana", "LicenseRef-banana"),
        ("cc0-1.0", "CC0-1.0"),
        ("CC-BY-4", "CC-BY-4.0"),
        ("US-PD", "CC-PDM-1.0"),
        ("https://creativecommons.org/licenses/by/4.0/", "CC-BY-4.0"),
        ("MIT OR", "ends too early"),
        ("LicenseRef-house", "license_text"),
        ('""', "license is not declared"),
    ],
)
def test_a_licence_that_spdx_does_not_know_is_denied_with_the_nearest_right_one(
    kfm: Kfm, licence: str, cure: str
) -> None:
    installation(licence)
    answer = published(kfm)
    assert answer.code == 4 and cure in answer.complaint, answer.err
    assert public_files() == []
    assert kfm("policy", "gates", "wells").code == 4
    if licence != '""':
        checked = kfm("config", "check")
        assert checked.code == 3 and cure in checked.err + checked.out, checked


@pytest.mark.parametrize(
    "said",
    [
        "CC-BY-4.0",
        "(CC0-1.0 OR MIT) AND ODC-By-1.0",
        "GPL-2.0-or-later WITH Classpath-exception-2.0",
        "LicenseRef-house\n    license_text: Pass it on, and name the house.",
    ],
)
def test_an_spdx_expression_or_a_custom_licence_with_its_text_is_published(kfm: Kfm, said: str) -> None:
    installation(said)
    answer = published(kfm)
    assert answer.code == 0, answer.err
    assert public_files() != []
    assert kfm("config", "check").code == 0


def test_a_contract_that_says_only_the_format_of_a_table_denies(kfm: Kfm) -> None:
    installation(contract="")
    answer = published(kfm)
    assert answer.code == 4 and "wells" in answer.complaint and "columns" in answer.complaint
    assert public_files() == []
    installation()
    assert published(kfm).code == 0 and public_files() != []


def test_a_share_of_quarantined_rows_above_the_ceiling_denies(kfm: Kfm) -> None:
    installation(table=TABLE.replace(",20\n", ",deep\n").replace(",30\n", ",deeper\n"))  # 2 of 12: 17 %
    answer = published(kfm)
    assert answer.code == 4 and "quarantined" in answer.complaint and "kfm quarantine wells" in answer.complaint
    assert public_files() == []
    installation(table=TABLE.replace(",20\n", ",deep\n"))  # 1 of 12
    assert published(kfm).code == 0


def test_advice_is_shown_when_a_version_is_published_and_in_its_receipt(kfm: Kfm) -> None:
    installation()
    answer = published(kfm)
    assert answer.code == 0
    advice = [line for line in answer.err.splitlines() if "advice: " in line]
    assert len(advice) == 3 and any("description" in line for line in advice), answer.err
    assert all(line.startswith("wells: advice: ") for line in advice)
    shown = kfm("policy", "gates", "wells").out
    assert "advice" in shown and "description" in shown


def test_a_dataset_that_says_all_is_published_without_advice(kfm: Kfm) -> None:
    installation(more=DESCRIBED)
    answer = published(kfm)
    assert answer.code == 0 and "advice" not in answer.err
    assert "advice" not in kfm("policy", "gates", "wells").out


@pytest.mark.parametrize(
    ("template", "name"), [("python", "rain-gauges"), ("csv", "rain-gauges"), ("geojson", "wells")]
)
def test_what_init_writes_is_published_without_advice(kfm: Kfm, template: str, name: str) -> None:
    assert kfm("init", "--template", template).code == 0
    assert kfm("run", name).code == 0
    answer = kfm("publish", name, "--reason", "first")
    assert answer.code == 0 and "advice" not in answer.err, answer.err
    assert "advice" not in kfm("policy", "gates", name).out
    assert kfm("config", "check").code == 0
