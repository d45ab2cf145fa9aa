"""While kfm.yml has mistakes, freezing, withdrawing, tightening and `doctor` work; publishing and opening do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm import config
from kfm.app.daemon import daemon_loop
from kfm.app.runs.settlement import settle_session
from kfm.app.session.session import open_session
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import dataset, installation

# What a person does to a right kfm.yml: each leaves a file that `kfm run` refuses.
SLIPS = {
    "a misspelt setting of a dataset": lambda text: text.replace("    license:", "    licence:", 1),
    "a setting that does not exist": lambda text: text + "colour: red\n",
    "a misspelt setting at the top": lambda text: "shedules: plans\n" + text,
    "a word where a number belongs": lambda text: "keep_days: many\n" + text,
    "an unclosed quote": lambda text: text.replace("title: towns", 'title: "towns', 1),
    "a tab": lambda text: text.replace("    title: towns", "\ttitle: towns", 1),
    "a key twice": lambda text: text.replace("    title: towns\n", "    title: towns\n    title: towns\n", 1),
    "an unclosed bracket at the end": lambda text: text + "pools: [\n",
}


@pytest.fixture
def towns(kfm: Kfm) -> Kfm:
    """A public dataset that is published, and a right kfm.yml."""
    datasets = (dataset(name, "towns.csv", sensitivity="public") for name in ("towns", "parks"))
    installation(*datasets, custodians=False)
    Path("labels.yml").write_text(
        "version: 1\nlabels:\n  - of:\n      dataset: towns\n    sensitivity: public\n    care: open\n"
    )
    Path("towns.csv").write_text("town,people\nHays,21000\nPratt,6600\n")
    assert kfm("run").code == 0
    assert kfm("publish", "towns", "--reason", "checked").code == 0
    assert published()
    return kfm


def published() -> list[Path]:
    return [path for path in Path("public").rglob("*") if path.is_file() and b"Pratt" in path.read_bytes()]


def slip(name: str) -> None:
    text = Path("kfm.yml").read_text()
    wrong = SLIPS[name](text)
    assert wrong != text
    Path("kfm.yml").write_text(wrong)


@pytest.mark.parametrize("name", SLIPS)
def test_a_broken_configuration_can_be_frozen_and_withdrawn(towns: Kfm, name: str) -> None:
    slip(name)
    before = towns("run")
    assert before.code == 3, before.err  # the slip is one
    frozen = towns("freeze", "towns", "--reason", "stop")
    assert frozen.code == 0, frozen.err
    assert "kfm config check" in frozen.err
    assert towns("freeze", "--reason", "stop all").code == 0
    gone = towns("rollback", "towns", "--to", "nothing", "--reason", "withdraw")
    assert gone.code == 0, gone.err
    assert published() == []


@pytest.mark.parametrize("name", SLIPS)
def test_a_broken_configuration_opens_and_publishes_nothing(towns: Kfm, name: str) -> None:
    Path("towns.csv").write_text("town,people\nHays,21000\nPratt,6600\nColby,5500\n")
    slip(name)
    for words in (("run",), ("publish", "towns"), ("thaw",), ("rollback", "towns"), ("resume",)):
        answer = towns(*words, *(("--reason", "try") if words[0] not in ("run", "resume") else ()))
        assert answer.code == 3, (words, answer.err)
    assert not any(b"Colby" in path.read_bytes() for path in Path("public").rglob("*") if path.is_file())


@pytest.mark.parametrize("name", SLIPS)
def test_a_label_can_be_tightened_and_not_loosened_meanwhile(towns: Kfm, name: str) -> None:
    slip(name)
    tighter = towns("labels", "set", "dataset:towns", "--sensitivity", "closed", "--reason", "asked by the office")
    assert tighter.code == 0, tighter.err
    assert "sensitivity: closed" in Path("labels.yml").read_text()
    assert published() == []
    looser = towns("labels", "set", "dataset:towns", "--sensitivity", "public", "--reason", "oops")
    assert looser.code == 3, looser.err
    assert "sensitivity: closed" in Path("labels.yml").read_text()


@pytest.mark.parametrize("name", SLIPS)
def test_doctor_examines_a_broken_configuration(towns: Kfm, name: str) -> None:
    slip(name)
    answer = towns("doctor", "--json")
    assert answer.code != 0
    checks = answer.data["checks"]
    assert [one for one in checks if one["check"] == "config" and not one["ok"]]
    assert [one for one in checks if one["check"] == "runs.unfinished"]


@pytest.mark.parametrize(
    "wrong",
    ["stat: sqlite:elsewhere/state.db\n", "state: 7\n", "state: [\n", "publsh: file:elsewhere\n", 'state: "sqlite:x\n'],
)
def test_a_place_in_doubt_is_asked_for_and_can_be_named(
    towns: Kfm, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("kfm.yml").write_text(wrong + Path("kfm.yml").read_text())
    refused = towns("freeze", "--reason", "stop")
    assert refused.code == 3, refused.err
    assert "KFM_STATE=" in refused.err or "KFM_PUBLISH=" in refused.err
    for key, place in (("STATE", "sqlite:.kfm/state.db"), ("OBJECTS", "file:.kfm/objects"), ("PUBLISH", "file:public")):
        monkeypatch.setenv(f"KFM_{key}", place)
    done = towns("freeze", "--reason", "stop")
    assert done.code == 0, done.err
    assert not Path("elsewhere").exists()


def test_what_waited_is_published_after_the_mistake_is_corrected(towns: Kfm) -> None:
    right = Path("kfm.yml").read_text()
    slip("a misspelt setting of a dataset")
    assert towns("rollback", "towns", "--to", "nothing", "--reason", "withdraw").code == 0
    Path("kfm.yml").write_text(right)
    made = next(each["version"] for each in towns("refs", "list", "--json").data if each["ref"] == "processed/towns")
    assert towns("publish", "towns", "--to", made, "--reason", "again").code == 0
    assert published()


def test_a_pending_publication_waits_until_the_mistake_is_corrected(towns: Kfm) -> None:
    Path("towns.csv").write_text("town,people\nHays,21000\nPratt,6600\nColby,5500\n")
    assert towns("run").code == 0
    Path("public").rename("aside")
    Path("public").write_text("a file where the folder belongs")
    assert towns("publish", "towns", "--reason", "new").code != 0  # committed, and not delivered
    Path("public").unlink()
    Path("aside").rename("public")
    right = Path("kfm.yml").read_text()
    slip("a misspelt setting of a dataset")
    assert towns("freeze", "parks", "--reason", "another dataset").code == 0

    def is_out() -> bool:
        return any(b"Colby" in path.read_bytes() for path in Path("public").rglob("*") if path.is_file())

    assert not is_out()
    Path("kfm.yml").write_text(right)
    assert towns("resume").code == 0
    assert is_out()


def test_a_running_daemon_withdraws_what_a_changed_label_file_closes(
    towns: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_loop, "FILES_MS", 0)
    with open_session(config.load(None, {})) as session:
        daemon = daemon_loop.Daemon(session, [], lambda _about, problem: pytest.fail(str(problem)))
        assert list(daemon.turn()) == [] and daemon.news() == []
        text = Path("labels.yml").read_text()
        Path("labels.yml").write_text(text.replace("sensitivity: public", "sensitivity: closed"))
        assert list(daemon.turn()) == []
        assert [line.partition(" withdrawn")[0] for line in daemon.news()] == ["towns: 1 version"]
        settle_session(session)
        assert published() == []
        assert list(daemon.turn()) == [] and daemon.news() == []
