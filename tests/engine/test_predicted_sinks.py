"""A dry run names every effect on every sink: public files, catalog, pages, lineage, and automatic publication."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.installations import GAUGES_CSV, WORDS_CSV, Installation, Server, contents, serving, small
from tests.engine.test_dry_run import foretold_and_done

SINKS = "catalog: file:catalog\npages: true\nopenlineage: {file: lineage.jsonl}\nworker_receipts: worker-receipts\n"
SIGNED = (
    "ledger: {sign_with: 'file:signing.key', origin: kfm.example.org/ledger, every: 2}\n"
    "attest: {sign_with: 'file:signing.key'}\n"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving({"words.csv": WORDS_CSV}) as server:
        yield server


def site_with(folder: Path, server: Server, more: str = SINKS) -> Installation:
    """Two datasets that are published automatically, in an installation with every sink that is a file."""
    site = small(folder, server.port)
    config = folder / "kfm.yml"
    config.write_text(config.read_text().replace("    license:", "    promote: auto\n    license:") + more)
    return site


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """The files that were written or removed, without the state, the locks and the artifacts, which no sink has."""
    ours = (".kfm/state", ".kfm/objects/", ".kfm/artifacts/", ".kfm/config-checked", "lineage.jsonl.index")
    paths = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    return {path for path in paths if not path.startswith(ours) and not path.endswith(".lock")}


def files_of(effects: list[dict[str, Any]]) -> set[str]:
    """The files that the effects name, as paths of the installation."""
    found = set()
    for effect in effects:
        method, target = effect["method"], effect["target"]
        if method == "emit_event":
            event = f".kfm/events/{hashlib.sha256(effect['key'].encode()).hexdigest()[:32]}.json"
            found.add("lineage.jsonl" if target == "openlineage.file" else event)
        else:
            private = target.startswith(("receipts/", "checkpoints/", "manifests/", "catalog/"))
            named = target.startswith(("catalog/", "worker-receipts/"))
            found.add(target if named else f".kfm/{target}" if private else f"public/{target}")
    return found


def both(site: Installation, tmp_path: Path, *words: str, code: int = 0) -> dict[str, Any]:
    before = contents(site.folder)
    done = foretold_and_done(site, tmp_path, *words, code=code)
    files = changed(before, contents(site.folder))
    assert files <= files_of(done["effects"]), "a file changed that no effect names"
    assert files or not done["effects"]
    return done


@pytest.mark.parametrize("more", [SINKS + SIGNED, pytest.param(SINKS, marks=pytest.mark.long)], ids=["signed", "plain"])
def test_a_dry_run_names_every_effect_on_every_sink(tmp_path: Path, server: Server, more: str) -> None:
    site = site_with(tmp_path / "site", server, more)
    (site.folder / "signing.key").write_text("ab" * 32)
    (site.folder / "signing.key").chmod(0o600)
    first = both(site, tmp_path, "run")
    kinds = [receipt["job_type"] for receipt in first["receipts"]]
    assert kinds.count("operation.promote") == 2, "the gate was asked, and its answer is predicted"
    assert all(receipt["policy_decisions"] for receipt in first["receipts"] if "promote" in receipt["job_type"])
    targets = {effect["target"] for effect in first["effects"]}
    assert {"catalog/catalog.json", "index.html", "openlineage.file", "datasets/gauges/current.json"} <= targets
    both(site, tmp_path, "run")
    (site.folder / "data/gauges.csv").write_text(GAUGES_CSV + "e,ford,5\n")
    both(site, tmp_path, "run")
    both(site, tmp_path, "rollback", "gauges", "--reason", "back")


def test_a_dry_run_predicts_that_the_gate_denies_an_automatic_publication(tmp_path: Path, server: Server) -> None:
    site = site_with(tmp_path / "site", server)
    config = site.folder / "kfm.yml"
    config.write_text(config.read_text().replace("    license: CC0-1.0\n", "", 1))
    done = both(site, tmp_path, "run", code=4)
    (denied,) = [receipt for receipt in done["receipts"] if receipt["outcome"] == "denied"]
    assert (denied["dataset"], denied["job_type"]) == ("gauges", "operation.promote")


def test_a_dry_run_predicts_what_a_closed_dataset_withdraws(tmp_path: Path, server: Server) -> None:
    site = site_with(tmp_path / "site", server)
    site.kfm("run")
    config = site.folder / "kfm.yml"
    manual = config.read_text().replace("promote: auto", "promote: manual", 1)
    config.write_text(manual.replace("sensitivity: public", "sensitivity: closed", 1))
    said = site.kfm("run", "halves", "--dry-run")
    assert "gauges: 1 version would be withdrawn from the public files" in said.err
    done = both(site, tmp_path, "run", "halves")
    assert any(each["method"] == "remove_file" and "/gauges/" in each["target"] for each in done["effects"])
