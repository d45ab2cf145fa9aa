"""Code that changed under an unchanged version is reported plainly, although no run follows from it."""

from __future__ import annotations

import json
import shutil
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest

from kfm.updaters import code_digest
from tests.engine.installations import Answer, Installation
from tests.node.sites import Site
from tests.sampling import stride

CODE = """\
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from kfm import Output, Plan, Step, Updater
from shouting import loud

class Rain(Updater):
    version = "1.2.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rain.csv")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        from parts.late import suffix

        return Output.text(loud(read.text(0)) + suffix())
"""
HELPER = "def loud(text):\n    return text.upper()\n"
LATE = "from .letters import LETTER\n\n\ndef suffix():\n    return LETTER\n"
CONFIG = """\
accept_weak_storage: true
datasets:
  rain: {updater: updaters/rain.py:Rain, title: Rain, license: CC0-1.0, sensitivity: public}
"""
SAID = (
    "rain: the code changed since version 1.2.0 made what is there; "
    "nothing is run again until `version` changes (or use --force)"
)


def installation(folder: Path) -> Installation:
    for name, text in {
        "kfm.yml": CONFIG,
        "rain.csv": "a\n1\n",
        "updaters/rain.py": CODE,
        "updaters/shouting.py": HELPER,
        "updaters/parts/__init__.py": "",
        "updaters/parts/late.py": LATE,
        "updaters/parts/letters.py": 'LETTER = "a"\n',
        "updaters/stranger.py": "LETTER = 1\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return Installation(folder)


def edit(there: Installation, name: str, before: str, after: str) -> None:
    path = there.folder / name
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


def receipt(answer: Answer) -> dict[str, Any]:
    (found,) = answer.data["receipts"]
    return dict(found)


def verdict(there: Installation) -> list[str]:
    checks = there.kfm("doctor", "--json").data["checks"]
    return [check["found"] for check in checks if check["check"] == "rain.code"]


def test_a_helper_edited_under_the_same_version_is_a_noop_that_says_so(tmp_path: Path) -> None:
    there = installation(tmp_path)
    first = receipt(there.kfm("run", "--json"))
    assert first["code_hash"].startswith("sha256:") and first["warnings"] == []
    again = there.kfm("run", "--json")
    assert again.err == "" and receipt(again)["code_hash"] == first["code_hash"]
    assert "code changed" not in there.kfm("plan", "rain", "--check").err
    assert verdict(there) == ["as it was when it made what is there"]

    edit(there, "updaters/shouting.py", "upper", "lower")
    noop = there.kfm("run", "--json")
    told = receipt(noop)
    assert (told["outcome"], noop.err) == ("noop", SAID + "\n")
    assert told["warnings"] == [{"code": "code.changed", "message": SAID.removeprefix("rain: ")}]
    assert told["code_hash"] != first["code_hash"] and told["run_key"] == first["run_key"]
    assert SAID in there.kfm("run").err
    assert SAID not in there.kfm("run", "--quiet").err
    assert there.kfm("run", "--exit-code", expect=10).code == 10, "the exit code is that of a NOOP"
    checked = there.kfm("plan", "rain", "--check")
    assert SAID in checked.err
    (warned,) = there.kfm("plan", "rain", "--check", "--json").data["warnings"]
    assert warned["code"] == "code.changed"
    assert verdict(there) == ["changed since version 1.2.0 made what is there"]

    edit(there, "updaters/rain.py", "1.2.0", "1.3.0")
    bumped = there.kfm("run", "--json")
    assert receipt(bumped)["outcome"] == "done" and receipt(bumped)["warnings"] == [] and bumped.err == ""
    assert there.kfm("cat", "processed/rain", "all").out == "a\n1\na"
    assert there.kfm("run", "--json").err == ""
    assert verdict(there) == ["as it was when it made what is there"]


@pytest.mark.parametrize("name", ["updaters/parts/late.py", "updaters/parts/letters.py", "updaters/parts/__init__.py"])
def test_a_module_that_is_imported_in_a_function_or_by_another_one_counts(tmp_path: Path, name: str) -> None:
    there = installation(tmp_path)
    there.kfm("run")
    (tmp_path / name).write_text((tmp_path / name).read_text() + "# changed\n")
    assert SAID in there.kfm("run").err


def test_what_the_updater_does_not_import_and_where_it_lies_do_not_count(tmp_path: Path) -> None:
    there = installation(tmp_path / "one")
    there.kfm("run")
    edit(there, "updaters/stranger.py", "1", "2")
    assert there.kfm("run", "--json").err == ""
    shutil.move(tmp_path / "one", tmp_path / "two")
    assert Installation(tmp_path / "two").kfm("run", "--json").err == ""


def test_another_release_of_a_package_it_imports_counts_and_its_files_do_not(tmp_path: Path) -> None:
    """Also where the environment lies in the folder of the installation."""
    there = installation(tmp_path)
    packages = tmp_path / ".venv/lib/python3/site-packages"
    info = packages / "Rain_Gauge-1.0.dist-info"
    (packages / "raingauge").mkdir(parents=True)
    (packages / "raingauge/__init__.py").write_text("ONE = 1\n")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Rain-Gauge\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("raingauge\n")
    found = f"import sys\nsys.path.insert(0, {str(packages)!r})\nimport raingauge\n\n\n"
    edit(there, "updaters/shouting.py", "def loud", found + "def loud")
    there.kfm("run")
    (packages / "raingauge/__init__.py").write_text("ONE = 2\n")
    assert there.kfm("run", "--json").err == ""
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Rain-Gauge\nVersion: 1.1\n")
    assert SAID in there.kfm("run").err


def is_found(name: str) -> bool:
    try:
        return util.find_spec(name) is not None
    except ValueError:  # loaded without a spec, as kombu is
        return False


def test_the_release_of_a_package_is_found_by_any_name_it_is_imported_under() -> None:
    """As Python's own list says, which takes many times as long to make."""
    by_name = metadata.packages_distributions()
    assert by_name["yaml"] == ["PyYAML"]
    there = [name for name in sorted(by_name) if name.isidentifier() and is_found(name)]
    for name in ["yaml", *there[:: stride(9)]]:
        releases = list(code_digest._releases([name]))
        expected = sorted((each, metadata.version(each)) for each in set(by_name[name]))
        assert releases == expected or [each.lower() for each, _ in releases] == [name.lower()], name
    assert list(code_digest._releases(["no_such_package", "tests", "yaml"])) == [("PyYAML", metadata.version("PyYAML"))]


def test_forced_again_the_code_that_is_there_now_has_made_it(tmp_path: Path) -> None:
    """Also where it makes the very version that was there."""
    there = installation(tmp_path)
    there.kfm("run")
    edit(there, "updaters/shouting.py", "return", "return  ")
    assert SAID in there.kfm("run").err
    forced = there.kfm("run", "--force", "--reason", "only blanks", "--json")
    assert receipt(forced)["outcome"] == "unchanged" and forced.err == ""
    assert there.kfm("run", "--json").err == ""


def test_new_data_is_taken_up_by_the_changed_code_and_that_is_said(tmp_path: Path) -> None:
    there = installation(tmp_path)
    there.kfm("run")
    edit(there, "updaters/shouting.py", "upper", "lower")
    (tmp_path / "rain.csv").write_text("a\n1\n2\n")
    done = there.kfm("run", "--json")
    assert receipt(done)["outcome"] == "done"
    assert done.err == (
        "rain: the code changed since version 1.2.0 made what was there, and this run is of version 1.2.0 too; "
        "change `version` with the code\n"
    )
    assert there.kfm("run", "--json").err == ""


DECLARED = """\
accept_weak_storage: true
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    sources: {rain: {uri: rain.csv, format: csv}}
    outputs: {all: {from: rain%s}}
"""


@pytest.mark.parametrize("runner", ["python", "node"])
@pytest.mark.parametrize("other", ["python", "node"])
def test_both_runners_know_a_declaration_that_changed(tmp_path: Path, runner: str, other: str) -> None:
    """Over the same data it is refused, as its plan tells; over new data it is run, and told."""
    site = Site(
        tmp_path / "site",
        {"kfm.yml": DECLARED % "", "rain.csv": "a,b\n1,2\n"},
        lambda n: (runner, other)[n % 2],
    )
    first = site.run("run", "--json")
    same = site.run("run", "--json")
    hashes = {json.loads(seen.answer.out)["receipts"][0]["code_hash"] for seen in (first, same)}
    assert len(hashes) == 1 and "" not in hashes and same.answer.err == ""
    site.put("kfm.yml", DECLARED % ", steps: [{select: [a]}]")
    refused = site.run("run", "--json", code=3)
    assert "changed for the same inputs" in refused.answer.err
    site.put("rain.csv", "a,b\n1,2\n3,4\n")
    told = site.run("run", "--json")
    said = (
        "rain: the declaration changed since version 1.0.0 made what was there, and this run is of version 1.0.0 too; "
        "change `version` with the declaration\n"
    )
    assert told.answer.err == said
    assert json.loads(told.answer.out)["receipts"][0]["warnings"][0]["code"] == "code.changed"
    assert site.run("run", "--json").answer.err == ""
