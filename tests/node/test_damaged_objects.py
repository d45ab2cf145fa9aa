"""Damaged or missing objects are named before anything is published, never written out, and made again by a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm.app.runs.run_control import run_operation
from tests.node.sites import declared
from tests.node.test_undelivered import Weather


@pytest.fixture(params=["python", "node"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Weather]:
    sorts = "{from: rain, steps: [{cast: {mm: number}}, {sort: [{column: mm, descending: true}]}]}"
    config = declared("rain").replace("{from: rain}", sorts)  # other bytes than those of the source
    site = Weather(tmp_path / "site", {"kfm.yml": config}, lambda _n: request.param)
    site.becomes("rain", 30_000)
    yield site


def outcome(site: Weather, *words: str) -> str:
    said = json.loads(site.run("run", "rain", "--json", *words).answer.out)
    return str(said["receipts"][0]["outcome"])


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_what_is_not_whole_is_named_before_the_commit_and_made_again_by_a_forced_run(site: Weather, how: str) -> None:
    path = site.flip("rain")
    if how == "missing":
        path.unlink()
    digest = f"sha256:{path.parent.name}{path.name}"
    answer = site.kfm("promote", "rain", code=4)
    assert f"published/rain may not move: checksums: object {digest} is {how}" in answer.err
    assert site.ref("published/rain") == "" and not (site.folder / "public").exists()
    assert outcome(site, "--force", "--reason", "its object is not whole") == "unchanged"
    site.kfm("promote", "rain")
    assert site.pointer("rain") == site.ref("processed/rain")
    site.kfm("doctor", "--deep")


def test_a_run_over_a_missing_object_is_no_noop(site: Weather) -> None:
    assert outcome(site) == "noop"
    path = site.flip("rain")
    path.unlink()
    assert outcome(site) == "unchanged" and path.exists()
    assert outcome(site) == "noop"
    site.kfm("doctor", "--deep")


def test_not_a_byte_of_a_damaged_object_is_written_out(site: Weather) -> None:
    site.becomes("rain", 300_000)  # so large that it is read in pieces
    assert len(site.kfm("cat", "processed/rain", "all").out) > 2 << 20
    site.flip("rain")
    answer = site.kfm("cat", "processed/rain", "all", code=65)
    assert answer.out == "" and "is damaged" in answer.err


def test_the_gate_is_decided_before_the_commit_begins(site: Weather, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfm import config
    from kfm.app.session.session import open_session
    from kfm.engine import upsert

    order: list[str] = []
    real_gate, real_commit = upsert.admit_to_published, upsert.upsert
    monkeypatch.setattr(upsert, "admit_to_published", lambda *given: (order.append("gate"), real_gate(*given))[1])
    monkeypatch.setattr("kfm.engine.upsert.upsert", lambda *given: (order.append("commit"), real_commit(*given))[1])
    with open_session(config.load(str(site.folder / "kfm.yml"), {})) as session:
        assert run_operation(session, "promote", "rain").outcome == "done"
    assert order == ["gate", "commit"]


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_source_that_is_not_whole_here_is_fetched_again_by_a_forced_run(site: Weather, how: str) -> None:
    body = (site.folder / "rain.csv").read_bytes()
    digest = hashlib.sha256(body).hexdigest()
    path = site.folder / ".kfm/objects/sha256" / digest[:2] / digest[2:]
    path.chmod(0o600)
    path.write_bytes(body[:-2] + bytes([body[-2] ^ 1]) + body[-1:])
    if how == "missing":
        path.unlink()
    assert f"sha256:{digest} is {how}" in site.kfm("doctor", "--deep", code=65).err
    assert outcome(site, "--force", "--reason", "its source is not whole") == "unchanged"
    assert path.read_bytes() == body
    site.kfm("doctor", "--deep")
