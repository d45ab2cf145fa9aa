"""A state remembers where its objects and its published files are: a line of kfm.yml that was changed by hand, or
mistyped, leaves nothing public at a place that nobody looks after."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kfm.app.move.public_move import _publish
from kfm.app.session.session import open_session
from kfm.app.session.state_place import read_place
from kfm.errors import KfmError, Refused
from tests.app.move.carried import kfm, killed_at, places_of, refusal, resolved_in, saved
from tests.crash.points import boundary
from tests.node.twin import ROOT, node
from tests.sampling import everything

HERE, THERE = "file:public", "file:there"


@pytest.fixture
def site(scratch: str, environment: None, shown_by_default: None) -> str:
    """An installation with a published dataset, pages and a catalog."""
    folder = os.path.join(scratch, "site")
    os.makedirs(folder)
    Path(folder, "kfm.yml").write_text(CONFIG)
    Path(folder, "rain.csv").write_text("station,inches\nKS-01,1.2\n")
    assert kfm(folder, "run", "rain").code == 0
    answer = kfm(folder, "publish", "rain", "--reason", "a test")
    assert answer.code == 0, answer.err
    return folder


CONFIG = """\
publish: file:public
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    description: Rain of a week
    license: CC0-1.0
    attribution: Nobody
    sensitivity: public
    extent: {bbox: [-102.05, 36.99, -94.59, 40.0], interval: ["2025-11-01T00:00:00Z", null]}
    sources:
      rain:
        uri: rain.csv
        format: csv
        contract: {columns: [{name: station, required: true, unique: true}, {name: inches, type: number}]}
    outputs: {rain: {from: rain}}
"""


def edited(folder: str, old: str, new: str) -> None:
    path = Path(folder, "kfm.yml")
    body = path.read_text()
    assert old in body
    path.write_text(body.replace(old, new))


def files(folder: str, place: str) -> dict[str, bytes]:
    root = Path(folder, place.partition(":")[2])
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def shown(folder: str, place: str) -> set[str]:
    """The published files without those that are made with the pages."""
    return {path for path in files(folder, place) if path.endswith(("rain.csv", ".ndjson", "current.json"))}


def test_a_place_of_published_files_that_was_changed_by_hand_is_refused(site: str) -> None:
    edited(site, HERE, THERE)
    for words in (["run", "rain"], ["rollback", "rain", "--reason", "x"], ["reconcile", "--repair"]):
        answer = kfm(site, *words)
        assert answer.code == 3 and f"the published files are at {HERE}, and kfm.yml names {THERE}" in answer.err
        assert f"change kfm.yml to `publish: {HERE}`" in answer.err and "kfm move --public --to" in answer.err
    assert not os.path.exists(os.path.join(site, "there"))
    looked = kfm(site, "status")
    assert looked.code == 0 and "published files are at" in looked.err  # it only looks, and says so
    edited(site, THERE, HERE)
    assert kfm(site, "run", "rain").code == 0


@pytest.mark.parametrize("other", ["noop", "s3://bucket/prefix"])
def test_published_files_are_not_forgotten_for_another_kind_of_place(site: str, other: str) -> None:
    assert isinstance(refusal(site, publish=other), Refused)
    assert refusal(site) is None


def test_a_folder_that_was_moved_by_hand_together_with_its_line_is_taken(site: str) -> None:
    os.rename(os.path.join(site, "public"), os.path.join(site, "there"))
    edited(site, HERE, THERE)
    assert kfm(site, "run", "rain").code == 0 and kfm(site, "reconcile").code == 0
    assert isinstance(refusal(site, publish=HERE), Refused)  # the state has learnt the place


def test_the_same_place_in_other_words_is_the_same(site: str) -> None:
    assert refusal(site, publish=f"file:{site}/public") is None and refusal(site, publish="file:./public/") is None


def test_a_place_may_be_changed_while_nothing_is_there(scratch: str, environment: None) -> None:
    folder = os.path.join(scratch, "new")
    os.makedirs(folder)
    Path(folder, "kfm.yml").write_text(CONFIG)
    assert refusal(folder) is None and refusal(folder, publish=THERE, objects="file:kept") is None
    with open_session(resolved_in(folder), mode="read") as session:
        assert read_place(session.tables).publish == THERE


def test_a_session_that_was_open_before_the_files_moved_publishes_nothing_at_the_old_place(site: str) -> None:
    with open_session(resolved_in(site)) as session:
        session.state.refs.at("published/rain")
        assert kfm(site, "move", "--public", "--to", THERE).code == 0
        with pytest.raises(Refused, match="published files are at"), session.state.transaction() as tx:
            tx.touch()
        with pytest.raises(KfmError):
            session.publisher.write_file("datasets/rain/late.txt", _digest(b"late"), 4, "late", [b"late"])
    assert files(site, HERE) == {}


def _digest(body: bytes) -> str:
    from kfm.model.keys import digest

    return digest(body)


def test_published_files_move_and_the_old_place_is_empty(site: str) -> None:
    before, everything_before = shown(site, HERE), files(site, HERE)
    assert before and any("catalog" in path for path in everything_before) and "index.html" in everything_before
    assert '"moved": false' in kfm(site, "move", "--public", "--to", THERE, "--dry-run", "--json").out
    assert files(site, HERE) == everything_before and not os.path.exists(os.path.join(site, "there"))
    answer = kfm(site, "move", "--public", "--to", THERE, "--edit", "--reason", "a larger disk")
    assert answer.code == 0 and "removed from file:public" in answer.err
    assert files(site, HERE) == {} and shown(site, THERE) == before
    assert set(files(site, THERE)) == set(everything_before)
    assert kfm(site, "reconcile").code == 0 and kfm(site, "doctor").code == 0
    assert "a larger disk" in kfm(site, "runs", "receipts", "--json").out
    assert kfm(site, "move", "--public", "--to", THERE).code == 3  # it is there


def test_files_of_another_installation_are_not_overwritten(site: str) -> None:
    os.makedirs(os.path.join(site, "there/datasets/wells"))
    Path(site, "there/datasets/wells/theirs.csv").write_text("x")
    answer = kfm(site, "move", "--public", "--to", THERE)
    assert answer.code == 3 and "holds published files of 1 dataset already" in answer.err
    assert Path(site, "there/datasets/wells/theirs.csv").read_text() == "x" and shown(site, HERE)
    assert kfm(site, "reconcile").code == 0


def test_a_move_that_ended_halfway_is_named_and_goes_on(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, calls = shown(site, HERE), []

    def interrupted(session: object, terms: object) -> None:
        calls.append(session)
        _publish(session, terms)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("kfm.app.move.public_move._publish", interrupted)
        assert kfm(site, "move", "--public", "--to", THERE).code == 130
    assert calls and shown(site, HERE) == before == shown(site, THERE)
    said = kfm(site, "status").err
    assert f"published files may still be at: {THERE}" in said and f"`kfm move --public --to {HERE}`" in said
    with saved(site) as copy:  # back: the new place is emptied
        assert kfm(copy, "move", "--public", "--to", HERE).code == 0
        assert files(copy, THERE) == {} and shown(copy, HERE) == before and "may still" not in kfm(copy, "status").err
    assert kfm(site, "move", "--public", "--to", THERE, "--edit").code == 0  # on
    assert files(site, HERE) == {} and shown(site, THERE) == before and kfm(site, "reconcile").code == 0


def test_a_move_killed_anywhere_goes_on_and_leaves_one_public_place(site: str) -> None:
    words = ("move", "--public", "--to", THERE)
    only = None if everything else boundary
    places, whole, killed = places_of(site, *words, only=only), shown(site, HERE), 0
    for at in range(1, len(places) + 1, 9 if everything else max(1, len(places) // 6)):
        with saved(site) as copy:
            killed += killed_at(copy, at, *words, only=only)
            label = f"killed at {at} of {len(places)}, {places[at - 1]}"
            assert (refusal(copy) is None) != (refusal(copy, publish=THERE) is None), label
            assert shown(copy, HERE) == whole or shown(copy, THERE) == whole, label
            if files(copy, HERE) and files(copy, THERE) and refusal(copy) is None:
                assert "may still be at" in kfm(copy, "status").err, label
            assert kfm(copy, *words).code in (0, 3), label
            assert files(copy, HERE) == {} and shown(copy, THERE) == whole, label
            assert refusal(copy, publish=THERE) is None and refusal(copy) is not None, label
    assert killed > 5


@pytest.mark.parametrize("state", ["sqlite:typo.db", "jsonl:typo.jsonl"])
def test_an_empty_state_next_to_published_files_is_refused(site: str, state: str) -> None:
    before = files(site, HERE)
    edited(site, "publish:", f"state: {state}\npublish:")
    for words in (["run", "rain"], ["status"], ["reconcile", "--repair"]):
        answer = kfm(site, *words)
        assert answer.code == 3 and "the state is empty, and published files of 1 dataset are at" in answer.err
        assert "check `state`" in answer.err
    assert "the state is empty" in kfm(site, "doctor").out
    assert files(site, HERE) == before


def test_a_page_of_the_archive_in_a_new_public_folder_is_no_published_file(site: str) -> None:
    other = os.path.join(os.path.dirname(site), "new")
    shutil.copytree(site, other, ignore=shutil.ignore_patterns(".kfm", "public"))
    os.makedirs(os.path.join(other, "public/datasets/rain"))
    Path(other, "public/datasets/rain/index.html").write_text("theirs")
    assert kfm(other, "run", "rain").code == 0
    shutil.rmtree(os.path.join(other, ".kfm"))
    words = [node(), os.path.join(ROOT, "updater.mjs"), "run", "rain", "--config", os.path.join(other, "kfm.yml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_state_of_another_installation_is_noticed(site: str) -> None:
    other = os.path.join(os.path.dirname(site), "other")
    shutil.copytree(site, other)
    edited(other, HERE, "file:elsewhere")
    edited(other, "  rain:\n    version", "  wells:\n    version")
    edited(other, "{rain: {from", "{wells: {from")
    edited(site, "publish:", f"state: sqlite:{other}/.kfm/state.db\npublish:")
    shutil.rmtree(os.path.join(other, "public"))
    shutil.rmtree(os.path.join(other, ".kfm"))
    assert kfm(other, "run", "wells").code == 0 and kfm(other, "publish", "wells", "--reason", "x").code == 0
    answer = kfm(site, "run", "rain")  # its published files are in a folder of the other installation
    assert answer.code == 3 and "the published files are at file:elsewhere" in answer.err


def test_node_says_the_same_of_places_changed_by_hand(site: str) -> None:
    script = [node(), str(ROOT / "updater.mjs"), "run", "rain"]
    for settings in ({"publish": THERE}, {"publish": "noop"}, {"objects": "file:kept"}, {"state": "sqlite:typo.db"}):
        env = {**os.environ, **{f"KFM_{name.upper()}": value for name, value in settings.items()}}
        done = subprocess.run(script, cwd=site, capture_output=True, text=True, check=False, env=env)
        problem = refusal(site, **settings)
        assert problem is not None and done.returncode == problem.exit_code == 3, done.stderr
        assert done.stderr == f"kfm: {problem}\n"
    assert subprocess.run(script, cwd=site, capture_output=True, check=False).returncode == 0
