"""The target of an operation is an input of its own kind; operations that began before this rule are finished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.app.runs.run_control import run_operation
from kfm.cli.main import main
from kfm.model.keys import input_hash
from kfm.model.records import SourceRef, Trigger
from kfm.operations.move_updater import MoveUpdater
from tests.engine.tiles import PARTS, Counted, Power, Site, rows


def made(folder: Path) -> Site:
    site = Site(folder, updater="Counted")
    for part in PARTS:
        rows(site, part, *range(5))
    site.run("")
    return site


def test_the_inputs_of_an_operation_are_the_ref_and_its_target(tmp_path: Path, capsys: Any) -> None:
    site = made(tmp_path)
    config = ["--json", "--config", str(tmp_path / "kfm.yml")]
    told = {}
    for command in (["promote", "tiles"], ["rollback", "tiles", "--to", "nothing"], ["freeze", "tiles"]):
        assert main([*command, "--reason", "x", *config]) == 0
        (receipt,) = json.loads(capsys.readouterr().out)["receipts"]
        assert main(["runs", "show", receipt["run_id"], *config]) == 0
        inputs = json.loads(capsys.readouterr().out)["run"]["inputs"]
        assert all(not each.get("partition") for each in inputs)
        told[command[0]] = {each["uri"]: each["content_hash"] for each in inputs}
    version = site.version()
    assert told == {
        "promote": {"kfm://ref/published/tiles": "", "kfm://target/published/tiles": version},
        "rollback": {"kfm://ref/published/tiles": version, "kfm://target/published/tiles": ""},
        "freeze": {"kfm://ref/switch/dataset/tiles": "", "kfm://target/switch/dataset/tiles": "frozen"},
    }


class Aimed(Counted):
    """Makes itself an input that only operations have."""

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        (ref, *_) = super().inputs(trigger, sources)
        return [SourceRef(uri="kfm://target/published/tiles", content_hash=ref.content_hash, size=0)]


def test_only_operations_have_targets(tmp_path: Path) -> None:
    site = made(tmp_path)
    text = (tmp_path / "kfm.yml").read_text()
    (tmp_path / "kfm.yml").write_text(text.replace("tests.engine.tiles:Counted", "tests.engine.test_targets:Aimed"))
    receipt = site.run("")
    assert receipt.outcome == "failed" and "not a list of SourceRef" in receipt.errors[0].message


def as_it_was(inputs: Any) -> Any:
    """What earlier versions of the program kept: one input, with the target among its partition keys."""

    def old(updater: MoveUpdater, trigger: Trigger, sources: Any) -> list[SourceRef]:
        ref, target = inputs(updater, trigger, sources)
        return [msgspec.structs.replace(ref, partition=(target.content_hash,))]

    return old


def test_the_same_order_is_the_same_work_for_a_program_that_knew_no_targets(tmp_path: Path) -> None:
    site = made(tmp_path)
    with site.open() as session:
        run = session.state.runs.get(run_operation(session, "promote", "tiles", reason="x").run_id)
    assert run is not None
    ref, target = run.inputs
    assert input_hash([msgspec.structs.replace(ref, partition=(target.content_hash,))]) == run.input_hash
    assert input_hash([ref]) != run.input_hash


@pytest.mark.parametrize("planned", [True, False])
def test_an_operation_that_was_begun_before_targets_were_inputs_is_finished(
    planned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = made(tmp_path)

    def dies(*_: Any) -> None:
        raise Power

    with monkeypatch.context() as patch, site.open() as session, pytest.raises(Power):
        patch.setattr(MoveUpdater, "inputs", as_it_was(MoveUpdater.inputs))
        patch.setattr("kfm.engine.upsert.assemble" if planned else "kfm.engine.plan.settle_plan", dies)
        run_operation(session, "promote", "tiles", reason="x")
    with site.open("read") as session:
        (left,) = session.state.runs.unfinished()
        assert [(each.uri, each.partition) for each in left.inputs] == [
            ("kfm://ref/published/tiles", (site.version(),))
        ], "it is not as it was"
    (receipt,) = site.finish()
    assert receipt.outcome == "done" and receipt.run_id == left.run_id
    assert [(each.kind, each.checksum, each.zone) for each in receipt.inputs] == [
        ("ref", "", "published"),
        ("dataset", site.version(), "processed"),
    ]
    with site.open("read") as session:
        assert session.state.refs.at("published/tiles") == site.version()
