"""`kfm reproduce` makes a version again byte for byte from what was recorded, or names the first difference."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.session.backends import open_tables
from tests.engine.installations import warm

from .conftest import Answer, Kfm, tree

CONFIG = """\
kfm: 1
datasets:
  wells:
    updater: updaters/wells.py:Wells
    title: Wells
    license: CC0-1.0
    sensitivity: public
    sources:
      wells:
        uri: data/wells.csv
        format: csv
        contract: {partition_by: county, columns: [{name: depth, type: number, minimum: 0, mode: discard-row}]}
"""
UPDATER = """\
import rounding
from kfm import Output, Plan, Step, Updater


class Wells(Updater):
    id = "wells"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("wells")]

    def plan(self, inputs):
        return Plan([Step(id=f"county-{c}", key=(c,), params={"county": c}) for c in inputs[0].partitions])

    def perform(self, step, read):
        rows = [row for row in read.csv("wells") if row["county"] == step.params["county"]]
        return Output.csv([{**row, "depth": rounding.rounded(row["depth"])} for row in rows])
"""
HELPER = "def rounded(text):\n    return str(round(float(text)))\n"
ROWS = "well,county,depth\n" + "".join(f"w{n},{'ford' if n % 2 else 'ellis'},{n}.4\n" for n in range(9000))
HELD = "bad,ford,-1\n"


def typed(*words: str, expect: int = 0) -> Answer:
    """In a process of its own, which loads the code as it lies there now."""
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    answer = Answer(*warm().kfm(Path.cwd(), words, environment))
    assert answer.code == expect, answer
    return answer


@pytest.fixture
def wells(kfm: Kfm) -> Kfm:
    """Run twice, the second time over more rows: what is made again is the second version."""
    for folder in ("updaters", "data"):
        Path(folder).mkdir()
    Path("kfm.yml").write_text(CONFIG)
    Path("updaters/wells.py").write_text(UPDATER)
    Path("rounding.py").write_text(HELPER)
    Path("data/wells.csv").write_text(ROWS)
    typed("run")
    Path("data/wells.csv").write_text(ROWS + HELD + "last,ford,7.6\n")
    typed("run")
    return kfm


def asked(*words: str, expect: int = 0) -> Any:
    return json.loads(typed("reproduce", *words, "--json", expect=expect).out)


def stored(digest: str) -> Path:
    return Path(".kfm/objects/sha256") / digest[7:9] / digest[9:]


def inputs_of(kfm: Kfm) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = kfm("runs", "receipt", "last", "--json").data["inputs"]
    return found


def test_a_version_comes_out_again_byte_by_byte_and_nothing_is_written(ran: Kfm) -> None:
    before = tree()
    answer = ran("reproduce", "rain-gauges", "--json")
    assert answer.code == 0, answer.err
    assert answer.data["identical"] is True
    assert answer.data["made"] == answer.data["version"]
    assert answer.data["version"] in ran("refs", "list", "published/", "--json").out
    assert answer.data["first"] is None and answer.data["others"] == []
    assert tree() == before
    said = ran("reproduce", answer.data["version"][7:17])
    assert said.code == 0 and "byte-identical" in said.out


def test_the_world_has_gone_on_and_it_comes_out_again(wells: Kfm) -> None:
    """The source is gone, the dataset frozen, a later version there, and the journal put away."""
    runs = [row["run"] for row in wells("runs", "list", "--json").data]
    Path("data/wells.csv").write_text(ROWS)
    typed("run")
    Path("data/wells.csv").unlink()
    typed("freeze", "wells", "--reason", "a look")
    typed("runs", "compact")
    before = tree()
    for run in runs:
        found = asked(run)
        assert (found["identical"], found["run_id"], found["others"]) == (True, run, []), found
    assert tree() == before


def test_a_changed_input_byte_is_named(wells: Kfm) -> None:
    digest = inputs_of(wells)[0]["checksum"]
    path = stored(digest)
    path.chmod(0o600)
    body = bytearray(path.read_bytes())
    body[1000] ^= 1
    path.write_bytes(body)
    found = asked("wells", expect=65)
    assert found["identical"] is False and found["made"] == ""
    assert found["first"]["what"] == "input" and found["first"]["name"] == "wells"
    assert digest in found["first"]["message"] and "other bytes" in found["first"]["message"]


def test_a_missing_object_is_named(wells: Kfm) -> None:
    digest = inputs_of(wells)[0]["checksum"]
    stored(digest).unlink()
    found = asked("wells", expect=65)
    assert found["first"]["what"] == "object" and found["first"]["name"] == "wells"
    assert f"({digest}) is missing" in found["first"]["message"]


def test_a_missing_output_is_named_although_its_bytes_come_out_again(wells: Kfm) -> None:
    digest = wells("cat", "processed/wells", "--json").data[0]["digest"]
    stored(digest).unlink()
    found = asked("wells", expect=65)
    assert found["made"] == found["version"] and found["identical"] is False
    assert found["first"]["what"] == "object" and digest in found["first"]["message"]


def test_a_changed_helper_module_is_named_with_the_step_it_changed(wells: Kfm) -> None:
    Path("rounding.py").write_text(HELPER.replace("round(", "int("))
    found = asked("wells", expect=3)
    assert found["identical"] is False and found["made"] not in ("", found["version"])
    assert (found["first"]["what"], found["first"]["name"]) == ("code", "rounding.py")
    assert found["first"]["recorded"] != found["first"]["found"]
    assert [one["what"] for one in found["others"]] == ["output"]
    assert "county-" in found["others"][0]["message"]
    said = typed("reproduce", "wells", expect=3)
    assert "code: module rounding.py is other than it was" in said.out


def test_a_changed_helper_module_without_effect_is_listed_separately(wells: Kfm) -> None:
    Path("rounding.py").write_text("# as before\n" + HELPER)
    found = asked("wells")
    assert found["identical"] is True and found["first"] is None
    assert [(one["what"], one["name"]) for one in found["others"]] == [("code", "rounding.py")]


@pytest.mark.parametrize(
    ("before", "after", "what", "name"),
    [
        ("minimum: 0", "minimum: 5000", "configuration", "wells"),
        ("updaters/wells.py:Wells", "updaters/none.py:Wells", "code", "wells"),
        ("  wells:\n    updater", "  others:\n    updater", "configuration", "wells"),
    ],
)
def test_a_changed_configuration_is_named(wells: Kfm, before: str, after: str, what: str, name: str) -> None:
    then = wells("runs", "receipt", "last", "--json").data["config_hash"]
    Path("kfm.yml").write_text(CONFIG.replace(before, after, 1))
    found = asked("wells", "--today", expect=3)
    assert (found["first"]["what"], found["first"]["name"]) == (what, name), found
    assert found["configuration"] == "today" and found["config_hash"] != then
    found = asked("wells")
    assert (found["identical"], found["others"], found["config_hash"]) == (True, [], then), found
    assert found["configuration"] == "recorded"
    assert f"settings  of the run, {then[:19]}" in typed("reproduce", "wells").out
    assert "settings  of kfm.yml" in typed("reproduce", "wells", "--today", expect=3).out


def changed(digest: str, body: bytes | None) -> None:
    """Alter or remove an object in the state."""
    tables = open_tables(config.load("kfm.yml", {}), "write")
    tables.begin()
    if body is None:
        tables.delete("objects", digest)
    else:
        tables.put("objects", digest, body)
    tables.commit()
    tables.close()


@pytest.mark.parametrize(("body", "word"), [(None, "missing"), (b'{"title":"Other"}', "damaged")])
def test_a_recorded_configuration_that_is_lost_is_named_with_its_cure(
    wells: Kfm, body: bytes | None, word: str
) -> None:
    receipt = wells("runs", "receipt", "last", "--json").data
    changed(receipt["config_hash"], body)
    Path("kfm.yml").write_text(CONFIG.replace("title: Wells", "title: All wells"))
    found = asked("wells", expect=65)
    assert (found["first"]["what"], found["first"]["name"], found["made"]) == ("object", "configuration", "")
    assert f"{receipt['config_hash']} is {word}" in found["first"]["message"]
    assert f"kfm reproduce {receipt['run_id']} --today" in found["first"]["message"]
    assert asked("wells", "--today")["identical"] is True


def test_a_run_that_stored_no_configuration_is_reproduced_while_kfm_yml_has_it(wells: Kfm) -> None:
    """As of runs that an older version of KFM made."""
    changed(wells("runs", "receipt", "last", "--json").data["config_hash"], None)
    found = asked("wells")
    assert (found["identical"], found["others"], found["configuration"]) == (True, [], "recorded")


def test_a_dataset_that_is_more_closed_today_stays_closed_when_it_is_made_again(wells: Kfm) -> None:
    Path("rounding.py").write_text(HELPER.replace("round(", "int("))
    Path("kfm.yml").write_text(CONFIG.replace("sensitivity: public", "sensitivity: restricted"))
    found = typed("reproduce", "wells", "--json", expect=3).out
    assert "county-" not in found, "the name of a step is a value of the data"


def test_a_plan_that_became_another_is_named(wells: Kfm) -> None:
    Path("updaters/wells.py").write_text(UPDATER.replace("county-{c}", "shire-{c}"))
    found = asked("wells", expect=3)
    assert [one["what"] for one in (found["first"], *found["others"])] == ["code", "plan"]


def test_what_made_no_version_is_refused_in_one_line(ran: Kfm) -> None:
    promoted = ran("runs", "list", "--json").data[0]["run"]
    answer = ran("reproduce", promoted)
    assert answer.code == 3 and "moved refs and made no bytes" in answer.complaint
    assert ran("run").code == 0
    assert "made no version (noop)" in ran("reproduce", "last").complaint
    for nothing in ("rain-gauge", "sha256:" + "0" * 64, "published/rain-gauges-2", "../x", ""):
        answer = ran("reproduce", nothing)
        assert answer.code == 3, answer
        assert answer.complaint
    assert "did you mean rain-gauges?" in ran("reproduce", "rain-gauge").complaint
