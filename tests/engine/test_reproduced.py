"""Every example is reproduced byte for byte, and so is data that only a custodian's key decrypts."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.governance.test_canaries import Site
from tests.engine.installations import ROOT, Installation, contents, environment, kansas, kansas_files, serving
from tests.masking.canaries import hits
from tests.node.sites import command


def made(site: Installation, config: str = "kfm.yml") -> Iterator[str]:
    """The datasets that have a version, by name."""
    for row in site.kfm("refs", "list", "processed/", "--json", "--config", config).data:
        yield row["ref"].partition("/")[2]


def reproduced(site: Installation, config: str = "kfm.yml", env: dict[str, str] | None = None) -> int:
    """Each version of an installation, made again; returns how many there were."""
    before = contents(site.folder)
    names = sorted(made(site, config))
    for name in names:
        found = site.kfm("reproduce", name, "--json", "--config", config, env=env).data
        assert found["identical"] is True and found["made"] == found["version"], found
        assert found["others"] == [], found
    assert contents(site.folder) == before
    return len(names)


@pytest.mark.long
def test_the_examples_over_http_come_out_again_when_their_server_is_gone(place: Path) -> None:
    with serving(kansas_files()) as server:
        site = kansas(place, server.port)
        site.kfm("run", "usgs-earthquakes", "kgs-tops", "hugoton-facies", "riley-drought")
    assert reproduced(site) == 4


@pytest.mark.long
def test_the_largest_example_comes_out_again(place: Path) -> None:
    with serving(kansas_files()) as server:
        site = kansas(place, server.port)
        site.kfm("run")
    assert reproduced(site) == 5


@pytest.mark.parametrize("config", ["declared/kfm.yml", "config.example.yml", "sources.example.json"])
def test_what_is_declared_comes_out_again(place: Path, config: str) -> None:
    shutil.copytree(
        ROOT / "examples", place / "examples", ignore=shutil.ignore_patterns(".kfm", "public", "kansas", "__pycache__")
    )
    site = Installation(place / "examples")
    site.kfm("run", "--config", config, env={"KFM_ACCEPT_WEAK_STORAGE": "true"})
    assert reproduced(site, config, {"KFM_ACCEPT_WEAK_STORAGE": "true"}) >= 1


def test_what_is_protected_comes_out_again_with_its_key_and_shows_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path / "site", 40)
    site.people()
    site.kfm("run", "sites", "vault")
    before = {name: body for name, body in site.left().items() if name not in ("the terminal",)}
    for name in ("sites", "vault"):
        found = site.kfm("reproduce", name, "--json").data
        assert found["identical"] is True and found["others"] == [], found
        assert found["made"] == found["version"]
    updaters = site.folder / "updaters.py"
    updaters.write_text(updaters.read_text().replace("Output.csv(found)", "Output.csv(found[1:])"))
    for name in ("sites", "vault"):
        found = site.kfm("reproduce", name, "--json", expect=3).data
        assert found["first"]["what"] == "code" and found["others"][-1]["what"] == "output", found
        assert site.kfm("reproduce", name, expect=3).out.count("step 1 of") == 1
    updaters.write_text("import nothing_that_is_there\n" + updaters.read_text())
    assert site.kfm("reproduce", "vault", "--json", expect=3).data["first"]["what"] == "code"
    assert hits(bytes(site.terminal), site.canaries) == set()
    assert {name: body for name, body in site.left().items() if name != "the terminal"} == before


def test_without_the_custodians_key_nothing_can_be_made_again(tmp_path: Path) -> None:
    site = Site(tmp_path / "site", 40)
    site.people()
    site.kfm("run", "sites", "vault")
    for name in ("sites", "vault"):
        answer = site.kfm("reproduce", name, expect=4, KFM_SECRET_SOCIETY="")
        assert "key" in answer.err and answer.out == "", answer
    assert hits(bytes(site.terminal), site.canaries) == set()


def test_the_protected_example_comes_out_again(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "protected", tmp_path / "site")
    safe = tmp_path / "safe"
    safe.mkdir(mode=0o700)
    for name in ("society", "ledger", "attest"):
        (safe / f"{name}.key").touch(mode=0o600)
        (safe / f"{name}.key").write_text(os.urandom(32).hex())
    config = tmp_path / "site" / "kfm.yml"
    said = "".join(line for line in config.read_text().splitlines(True) if not line.startswith(("ledger:", "attest:")))
    config.write_text(said)
    (tmp_path / "site" / "landmarks.csv").write_text("name,county\nCastle Rock,gove\n")
    site = Installation(tmp_path / "site")
    env = {"KFM_ACCEPT_WEAK_STORAGE": "true"}
    site.kfm("keys", "new", "--person", "ada", "--role", "admin", "--out", str(safe / "ada.key"), env=env)
    site.kfm("run", env=env)
    assert reproduced(site, env=env) == 2


def test_what_node_made_comes_out_again_in_python(place: Path) -> None:
    shutil.copytree(ROOT / "examples" / "declared", place / "site", ignore=shutil.ignore_patterns(".kfm", "public"))
    env = {"KFM_ACCEPT_WEAK_STORAGE": "true"}
    done = subprocess.run(
        command("node", "run", "--config", "kfm.yml"),
        cwd=place / "site",
        env={**environment(), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert reproduced(Installation(place / "site"), env=env) == 3
