"""Whatever happens on the way to GitHub, in the end every version is there once and whole, and the pointer is right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.errors import KfmError, Refused, Unavailable
from tests.engine.installations import Installation
from tests.sampling import sampled
from tests.sinks.github.standin import REPOSITORY, TOKEN, GitHub, github

UPDATER = """
from kfm import Output, Plan, Step, Updater


class Wells(Updater):
    id = "wells"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("wells")]

    def plan(self, inputs):
        return Plan([Step(id=name, key=(name, "all")) for name in ("east", "west")])

    def perform(self, step, read):
        return Output.csv(row for row in read.csv(0) if row["side"] == step.id)
"""


@pytest.fixture
def hub() -> Iterator[GitHub]:
    with github() as hub:
        yield hub


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)


def opened(folder: Path, hub: GitHub) -> Session:
    folder.mkdir(exist_ok=True)
    (folder / "wells.py").write_text(UPDATER)
    if not (folder / "wells.csv").exists():
        edition(folder, 1)
    (folder / "kfm.yml").write_text(
        f"""
accept_weak_storage: true
publish: github:{REPOSITORY}
github: {{api: "{hub.url}", uploads: "{hub.url}"}}
datasets:
  wells:
    updater: wells.py:Wells
    title: Wells
    license: CC-PDM-1.0
    sensitivity: public
    sources: {{wells: {{uri: wells.csv, format: csv, contract: {{columns: [{{name: side}}]}}}}}}
"""
    )
    return open_session(config.load(str(folder / "kfm.yml"), {}))


def edition(folder: Path, n: int) -> None:
    (folder / "wells.csv").write_text(f"side,depth\neast,{n}00\nwest,{n}50\n")


def publish(session: Session) -> None:
    assert run_trigger(session, new_trigger(session, "wells")).status == "SUCCESS"
    receipt = run_operation(session, "promote", "wells", reason="a test")
    assert receipt.status == "SUCCESS", receipt.errors
    settle_session(session)


def settle_at_last(session: Session) -> int:
    """As an operator would: again, until it works; returns how often it did not."""
    for attempt in range(10):
        try:
            settle_session(session)
        except Unavailable:
            continue
        return attempt
    raise AssertionError("it never works")


def pointer(hub: GitHub) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(hub.contents()["wells-current"][0])
    return found


def test_a_version_is_a_release_and_the_pointer_says_which_is_public(tmp_path: Path, hub: GitHub) -> None:
    with opened(tmp_path, hub) as session:
        publish(session)
        version = session.state.refs.at("published/wells")
        seen = hub.contents()
        body, prerelease, assets = seen[f"wells-{version[7:23]}"]
        assert (body, prerelease) == ("", False)
        names = sorted(name.partition(".")[2] for name in assets)
        assert names == sorted(["all.csv", "all.csv", f"{version[7:23]}.ndjson"])
        assert {content for _, content in assets.values()} >= {b"side,depth\neast,100\n", b"side,depth\nwest,150\n"}
        assert pointer(hub)["version"] == version
        (event,) = hub.dispatches
        assert event["event_type"] == "org.kfm.dataset.published.v1" and event["client_payload"]["version"] == version
        edition(tmp_path, 2)
        publish(session)
        assert len(hub.contents()) == 3 and pointer(hub)["version"] == session.state.refs.at("published/wells")
        run_operation(session, "rollback", "wells", reason="a test")
        settle_session(session)
        assert pointer(hub)["version"] == version
        assert set(hub.contents()) == {f"wells-{version[7:23]}", "wells-current"}, "what was taken back is there"


def test_a_finished_delivery_is_not_repeated(tmp_path: Path, hub: GitHub) -> None:
    with opened(tmp_path, hub) as session:
        publish(session)
        calls = len(hub.calls)
        settle_session(session)
        assert run_trigger(session, new_trigger(session, "wells")).outcome == "noop"
        settle_session(session)
    assert len(hub.calls) == calls


def undisturbed(folder: Path) -> tuple[dict[str, Any], int]:
    with github() as hub, opened(folder, hub) as session:
        publish(session)
        return hub.contents(), len(hub.calls)


@pytest.mark.parametrize("trouble", sampled(["lost", "cut", "500", "429", "dropped"], keep=2))
def test_a_bad_answer_at_any_call_changes_nothing_in_the_end(tmp_path: Path, trouble: str) -> None:
    expected, calls = undisturbed(tmp_path / "undisturbed")
    fired = 0
    for n in range(1, calls + 1):
        with github() as hub:
            hub.bad_day = {n: trouble}
            with opened(tmp_path / f"{trouble}-{n}", hub) as session:
                assert run_trigger(session, new_trigger(session, "wells")).status == "SUCCESS"
                run_operation(session, "promote", "wells", reason="a test")
                settle_at_last(session)
                settle_session(session)
            assert hub.fired == [trouble]
            fired += 1
            assert hub.contents() == expected, f"{trouble} at call {n}: {hub.calls}"
            assert 1 <= len(hub.dispatches) <= 2, "told at least once"
            assert len({json.dumps(each, sort_keys=True) for each in hub.dispatches}) == 1
    assert fired == calls > 8


def test_a_pointer_never_goes_back(tmp_path: Path, hub: GitHub) -> None:
    with opened(tmp_path, hub) as session:
        publish(session)
        first = pointer(hub)
        edition(tmp_path, 2)
        publish(session)
        second = pointer(hub)
        session.publisher.update_metadata("datasets/wells/current.json", first, "late")
    assert pointer(hub) == second != first


def test_bytes_that_someone_changed_are_noticed(tmp_path: Path, hub: GitHub) -> None:
    with opened(tmp_path, hub) as session:
        publish(session)
        asset = next(a for a in hub.assets.values() if a["name"].endswith("all.csv"))
        asset["digest"] = "sha256:" + "0" * 64
        edition(tmp_path, 2)
        publish(session)
        session.publisher._releases.clear()  # type: ignore[attr-defined]
        edition(tmp_path, 1)
        run_trigger(session, new_trigger(session, "wells"))
        run_operation(session, "promote", "wells", reason="again the first")
        with pytest.raises(KfmError, match="was altered"):
            settle_session(session)


def test_a_token_without_permission_is_reported_and_never_shown(
    tmp_path: Path, hub: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghs_this-one-was-revoked")
    with opened(tmp_path, hub) as session:
        run_trigger(session, new_trigger(session, "wells"))
        run_operation(session, "promote", "wells", reason="a test")
        with pytest.raises(Refused) as caught:
            settle_session(session)
        assert "401" in str(caught.value) and "ghs_" not in str(caught.value) + repr(caught.value.fields)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        settle_session(session)
    assert pointer(hub)["version"]


def test_a_dry_run_sends_github_nothing_and_predicts_what_a_run_sends(tmp_path: Path, hub: GitHub) -> None:
    with opened(tmp_path, hub) as session:
        run_trigger(session, new_trigger(session, "wells"))
        settle_session(session)
    resolved = config.load(str(tmp_path / "kfm.yml"), {})
    with open_session(resolved, mode="dry") as session:
        run_operation(session, "promote", "wells", reason="a test", actor="you")
        foretold = settle_session(session)
    assert hub.calls == []
    with open_session(resolved) as session:
        run_operation(session, "promote", "wells", reason="a test", actor="you")
        done = settle_session(session)

    def outside(effects: list[Any]) -> list[tuple[str, str]]:
        return [(e.method, e.target) for e in effects if not e.target.startswith("receipts/")]

    assert outside(foretold) == outside(done) != []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("publish: github:nobody", "is not a repository"),
        ("publish: github:a/b/c", "is not a repository"),
        ("publish: github:a/b\ngithub: {token: ghp_abc}", "is not a reference"),
        ("publish: github:a/b\ngithub: {api: 'http://api.github.com'}", "is not encrypted"),
        ("publish: github:a/b\ngithub: {api: 'ftp://x'}", "is not an address"),
    ],
)
def test_a_wrong_setting_is_reported_before_anything_happens(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "kfm.yml").write_text(f"{text}\ndatasets: {{}}\n")
    with pytest.raises(Refused, match=complaint) as caught:
        config.load(str(tmp_path / "kfm.yml"), {})
    assert "ghp_abc" not in str(caught.value)


def test_releases_that_no_ref_leads_to_are_found_and_removed_and_no_others(tmp_path: Path, hub: GitHub) -> None:
    with opened(tmp_path / "site", hub) as session:
        publish(session)
    shutil.copytree(tmp_path / "site", tmp_path / "before")
    with opened(tmp_path / "site", hub) as session:
        edition(tmp_path / "site", 2)
        publish(session)
        lost = session.state.refs.at("published/wells")
    whole = hub.contents()
    for n, (tag, name, body) in enumerate(
        (
            ("v1.0.0", "v1.0.0", "theirs"),
            ("wells-2026", "wells-2026", ""),
            ("wells-0123456789abcdef", "wells-0123456789abcdef", "written by hand"),
            ("other-0123456789abcdef", "other-0123456789abcdef", ""),
            *((f"nightly-{n}", f"nightly-{n}", "") for n in range(120)),  # more than a page
        )
    ):
        hub.releases[10_000 + n] = {
            "id": 10_000 + n, "tag_name": tag, "name": name, "body": body, "draft": False, "prerelease": False,
        }  # fmt: skip
    theirs = {tag: said for tag, said in hub.contents().items() if tag not in whole}
    with opened(tmp_path / "before", hub) as session:  # an older state was put back: it knows nothing of the second
        stays = session.state.refs.at("published/wells")
    kfm = Installation(tmp_path / "before").kfm
    env = {"GITHUB_TOKEN": TOKEN}
    told = kfm("reconcile", "--public", "--json", env=env, expect=3).data["drift"]
    assert {(each["about"], each["what"]) for each in told} == {
        (f"datasets/wells/versions/{lost[7:23]}", "foreign"),
        ("datasets/wells/current.json", "altered"),
    }
    kfm("reconcile", "--public", "--repair", env=env)
    ours = {tag: said for tag, said in hub.contents().items() if tag not in theirs}
    assert set(ours) == {f"wells-{stays[7:23]}", "wells-current"} and pointer(hub)["version"] == stays
    assert {tag: said for tag, said in hub.contents().items() if tag in theirs} == theirs
    kfm("reconcile", "--public", env=env)


def test_what_retention_lets_stay_is_not_foreign(tmp_path: Path, hub: GitHub) -> None:
    with opened(tmp_path, hub) as session:
        for n in (1, 2, 3):
            edition(tmp_path, n)
            publish(session)
    kfm = Installation(tmp_path).kfm
    env = {"GITHUB_TOKEN": TOKEN}
    kfm("reconcile", "--public", env=env)
    path = tmp_path / "kfm.yml"
    path.write_text(path.read_text() + "publish_retention: 1\n")
    told = kfm("reconcile", "--public", "--json", env=env, expect=3).data["drift"]
    assert [each["what"] for each in told] == ["foreign"]
    kfm("reconcile", "--public", "--repair", env=env)
    assert len(hub.contents()) == 3
