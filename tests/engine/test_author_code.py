"""Updaters share modules next to kfm.yml, or come in packages, and every interface loads them alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import open_session
from kfm.config import load
from tests.engine.installations import ROOT, Answer, Installation, environment
from tests.sampling import sampled

RAIN = """\
from kfm import Output, Plan, Step, Updater
from shared.text import loud
import settings

class Rain(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rain.csv")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        import json
        from updaters.late import ending

        assert json.dumps
        return Output.text(loud(read.text(0)) + settings.MARK + ending())
"""
FILES = {
    "kfm.yml": "accept_weak_storage: true\ndatasets:\n  rain:\n    updater: updaters/rain.py:Rain\n"
    "    title: Rain\n    license: CC0-1.0\n    sensitivity: public\n    schedule: {cron: '0 * * * *'}\n",
    "rain.csv": "a\n1\n",
    "updaters/rain.py": RAIN,
    "updaters/late.py": "from shared import text\n\n\ndef ending():\n    return text.END\n",
    "shared/__init__.py": "",
    "shared/text.py": "END = '!'\n\n\ndef loud(text):\n    return text.upper()\n",
    "settings.py": "MARK = '*'\n",
    "json.py": "raise SystemExit('a file of the installation in place of the standard library')\n",
}
CHANGED = "the code changed since version 1.0.0 made what is there"


def lay_out(folder: Path, **other: str) -> Installation:
    for name, text in {**FILES, **other}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return Installation(folder)


def of(answer: Answer) -> dict[str, Any]:
    (found,) = answer.data["receipts"]
    return dict(found)


def test_modules_next_to_the_configuration_are_found_by_every_interface(tmp_path: Path) -> None:
    there = lay_out(tmp_path / "here")
    (tmp_path / "elsewhere" / "shared").mkdir(parents=True)
    (tmp_path / "elsewhere" / "shared" / "text.py").write_text("raise SystemExit('of whoever stands here')\n")
    away = Installation(tmp_path / "elsewhere")
    config = {"KFM_CONFIG": str(there.folder / "kfm.yml")}
    assert "sha256:" in away.kfm("plan", "rain", "--check", env=config).out  # in three more processes
    first = of(away.kfm("run", "--json", env=config))
    assert first["outcome"] == "done"
    assert there.kfm("cat", "processed/rain", "all").out == "A\n1\n*!"
    assert there.kfm("up", "--once", "--json").code == 0
    assert there.kfm("reproduce", "rain", "--json").data["identical"]
    again = of(there.kfm("run", "--json"))
    assert (again["outcome"], again["code_hash"]) == ("noop", first["code_hash"])
    assert not list(tmp_path.rglob("__pycache__")), "reading updaters writes nothing"


@pytest.mark.parametrize(
    "name", sampled(["shared/text.py", "updaters/late.py", "shared/__init__.py", "settings.py"], keep=2)
)
def test_a_shared_module_that_changed_is_code_that_changed(tmp_path: Path, name: str) -> None:
    there = lay_out(tmp_path)
    there.kfm("run")
    assert CHANGED not in there.kfm("run").err
    (tmp_path / name).write_text((tmp_path / name).read_text() + "# changed\n")
    assert CHANGED in there.kfm("run").err


def test_two_installations_of_one_process_do_not_see_each_other_s_modules(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    lay_out(one)
    lay_out(two, **{"shared/text.py": "END = '?'\n\n\ndef loud(text):\n    return text.lower()\n"})
    made = {}
    houses = {folder: open_session(load(str(folder / "kfm.yml"), {})) for folder in (one, two)}
    for _ in range(2):  # the second time everything is loaded, and imports inside of perform() are done again
        for folder, session in houses.items():
            run_trigger(session, new_trigger(session, "rain", force=True, reason="again"))
            version = session.state.refs.at("processed/rain")
            made[folder] = [session.objects.read(entry.digest) for entry in _entries(session, version)]
        assert made == {one: [b"A\n1\n*!"], two: [b"a\n1\n*?"]}
    for session in houses.values():
        session.close()
    assert not {"shared", "shared.text", "settings", "updaters"} & set(sys.modules), "nothing is left behind"


def _entries(session: Any, version: str) -> Any:
    from kfm.model.manifests import entries

    return entries(session.objects, version)


def test_the_error_of_a_relative_import_says_how_to_write_it(tmp_path: Path) -> None:
    there = lay_out(tmp_path, **{"updaters/rain.py": RAIN.replace("from shared.text", "from .shared.text")})
    said = there.kfm("run", expect=3).err
    assert "imports with a leading dot at rain.py:2" in said and "from updaters.shared import" in said


# -- installed packages: each command is a process of its own, as what is installed is seen when it starts


class Installed(Installation):
    def __init__(self, folder: Path, *packages: str) -> None:
        super().__init__(folder)
        self.path = os.pathsep.join((str(ROOT / "src"), *packages))

    def kfm(self, *words: str, env: Any = None, expect: int | None = 0, door: str = "kfm") -> Answer:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "kfm.cli.main", *words],
            cwd=self.folder,
            env={**environment(), "PYTHONPATH": self.path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return Answer(done.returncode, done.stdout, done.stderr)


def by_package(folder: Path, *packages: str) -> Installed:
    lay_out(folder, **{"kfm.yml": FILES["kfm.yml"].replace("updaters/rain.py:Rain", "package:rain")})
    return Installed(folder, *packages)


def installed(
    folder: Path, name: str = "rainpack", version: str = "2.0", entry: str = "rain = rainpack.main:Rain"
) -> str:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[kfm.updaters]\n{entry}\n")
    (folder / name).mkdir(exist_ok=True)
    code = (
        RAIN.replace("from shared.text", "from .text").replace("import settings\n", "").replace("settings.MARK", "'+'")
    )
    (folder / name / "__init__.py").write_text("")
    (folder / name / "main.py").write_text(
        code.replace("from updaters.late import ending", "from rainpack.text import ending")
    )
    (folder / name / "text.py").write_text(FILES["shared/text.py"] + "\n\ndef ending():\n    return END\n")
    return str(folder)


def test_an_installed_package_offers_an_updater(tmp_path: Path) -> None:
    packages = tmp_path / "site"
    there = by_package(tmp_path / "here", installed(packages))
    first = of(there.kfm("run", "--json"))
    assert first["outcome"] == "done" and first["code_hash"].startswith("sha256:")
    assert there.kfm("cat", "processed/rain", "all").out == "A\n1\n+!"
    assert there.kfm("plan", "rain", "--check").code == 0
    assert there.kfm("reproduce", "rain", "--json").data["identical"]
    (packages / "rainpack" / "text.py").write_text((packages / "rainpack" / "text.py").read_text() + "# changed\n")
    assert CHANGED in there.kfm("run").err
    there.kfm("run", "--force", "--reason", "new code")
    assert CHANGED not in there.kfm("run").err
    (packages / "rainpack-2.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: rainpack\nVersion: 2.1\n"
    )
    assert CHANGED in there.kfm("run").err, "a new release is new code"


def test_a_missing_or_duplicate_package_is_reported_plainly(tmp_path: Path) -> None:
    there = by_package(tmp_path / "here")
    said = there.kfm("run", expect=3).err
    assert "no installed package offers the updater rain of dataset rain" in said and "are: none" in said
    one, two = installed(tmp_path / "a"), installed(tmp_path / "b", "snowpack", entry="rain = snowpack.main:Rain")
    said = by_package(tmp_path / "there", one, two).kfm("run", expect=3).err
    assert "rainpack.main:Rain or snowpack.main:Rain" in said
