"""Every ledger entry about public data says from what it was made, what was found, and how it is cared for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kfm.model.keys import digest
from tests.cli.conftest import Kfm


def entries(kfm: Kfm) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kfm("audit", "export", "--stdout").out)["entries"]
    return found


def test_an_entry_about_public_data_names_its_inputs_its_findings_and_its_care(ran: Kfm) -> None:
    run, promotion = entries(ran)
    source = next(Path("data").glob("*.csv"))
    assert run["governed"] == {
        "lineage": [digest(source.read_bytes())],
        "findings": [],
        "care": "open",
        "review": run["governed"]["review"],
        "withheld": [],
        "committed": {},
        "sealed_with": "",
    }
    said = promotion["governed"]
    assert said["lineage"] == [promotion["moves"][0]["after"]]
    assert (said["review"], said["care"], said["withheld"]) == ("approved", "open", [])


def test_an_entry_about_a_failure_names_what_was_found_by_its_code(started: Kfm) -> None:
    config = Path("kfm.yml")
    config.write_text(config.read_text().replace("license: CC0-1.0", "license: none of it"))
    assert started("run").code == 0
    assert started("publish", "rain-gauges").code == 4
    last = entries(started)[-1]
    assert last["outcome"] == "denied"
    assert (last["governed"]["findings"], last["governed"]["review"]) == (["denied"], "denied")


def test_an_entry_about_no_data_has_no_such_facts(ran: Kfm) -> None:
    assert ran("freeze").code == 0
    assert "governed" not in entries(ran)[-1]
