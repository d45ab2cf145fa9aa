"""No message, log, receipt or file name shows anything of a dataset that is not public."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Answer, Kfm

CONFIG = """
datasets:
  digs:
    updater: digs.py:Digs
    title: Digs
    license: CC0-1.0
    sensitivity: restricted
    sources:
      digs:
        uri: digs.csv
        format: csv
        contract:
          partition_by: site
          max_held_share: 1
          columns:
            - {name: site, required: true, pattern: '14[A-Z]{2}[0-9]+'}
            - {name: age, type: integer, minimum: 0, mode: discard-row}
            - {name: lat, type: number, minimum: 36, maximum: 41, mode: discard-value}
"""

UPDATER = """
from kfm import Output, Plan, Step, Updater


class Digs(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("digs")]

    def plan(self, inputs):
        return Plan([Step(id=f"site-{name}", key=(name,), params={"site": name}) for name in inputs[0].partitions])

    def perform(self, step, read):
        return Output.csv(row for row in read.csv("digs") if row["site"] == step.params["site"])
"""

DATA = """\
site,name,age,lat
14QX101,Whispering Oaks,1100,38.123451
14QX102,Hollow Bluff,470,39.987651
14QX103,Quiet Ford,950,37.555551
"""
SECRETS = ("14QX10", "Whispering", "Hollow", "Quiet Ford", "38.12345", "39.98765", "37.55555")


def leaks(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def exported() -> dict[str, str]:
    """Every file that is not the store itself, with its name, as text."""
    kept_apart = (".kfm/objects/", ".kfm/state.db", "digs.csv")
    names = [str(path) for path in sorted(Path().rglob("*")) if path.is_file()]
    return {
        name: Path(name).read_bytes().decode("utf-8", "replace") for name in names if not name.startswith(kept_apart)
    }


def assert_nothing_leaks(answer: Answer) -> None:
    assert leaks(answer.out + answer.err) == []
    for name, text in exported().items():
        assert leaks(name + text) == [], name


@pytest.fixture
def digs(kfm: Kfm) -> Kfm:
    Path("kfm.yml").write_text(CONFIG)
    Path("digs.py").write_text(UPDATER)
    Path("digs.csv").write_text(DATA)
    return kfm


FAILS = "open(step.id) if '102' in step.id else None"
BREAKS = {
    "a good run": ("", "", 0, "SUCCESS"),
    "a row is held": ("470,", "unknown,", 0, "SUCCESS"),
    "a value is blanked": ("39.987651", "99.987651", 0, "SUCCESS"),
    "the source is held": ("14QX102", "14QX102?", 3, "is held"),
    "a step fails": ("return Output", f"{FAILS}\n        return Output", 1, "step 2 of 3"),
    "a step gives no output": ("return Output", "return '102' in step.id or Output", 1, "step 2 of 3"),
    "a step reads what it does not need": ('read.csv("digs")', "read.csv(step.id)", 3, "neither an input"),
    "a step writes what JSON does not have": (
        "return Output",
        "Output.json({step.params['site']: {1}})\n        return Output",
        3,
        "step 1 of 3 (`kfm runs steps` names it): perform() of digs at digs.py:15: input.bad",
    ),
    "a step reads what is not JSON": (
        "return Output",
        "read.json('digs')\n        return Output",
        3,
        "step 1 of 3 (`kfm runs steps` names it): perform() of digs at digs.py:15: input.bad",
    ),
    "a step refuses in words of its own": (
        "return Output",
        "from kfm.errors import Refused\n        raise Refused(step.id)\n        return Output",
        3,
        "step 1 of 3 (`kfm runs steps` names it): perform() of digs at digs.py:16: refused",
    ),
    "a step needs what is not there": ("key=(name,),", "key=(name,), needs=(name,),", 3, "needs one"),
    "a plan goes in a circle": ("key=(name,),", 'key=(name,), needs=(f"site-{name}",),', 3, "cycle of 1 steps"),
    "two steps have one id": ("in inputs[0].partitions", "in inputs[0].partitions * 2", 3, "id of an earlier one"),
    "two steps have one key": ("key=(name,),", "key=(inputs[0].partitions[0],),", 3, "the same key"),
    "a key is not text": ("key=(name,),", "key=name,", 3, "not a tuple of texts"),
    "a plan raises": ("return Plan(", "raise KeyError(inputs[0].partitions)\n        return Plan(", 1, "KeyError"),
    "inputs raise": ("return [sources", "open('/14Q' + 'X102')\n        return [sources", 1, "FileNotFoundError"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_nothing_of_restricted_data_is_shown_whatever_happens(digs: Kfm, name: str) -> None:
    old, new, code, said = BREAKS[name]
    for file in ("digs.py", "digs.csv"):
        Path(file).write_text(Path(file).read_text().replace(old or "\0", new))
    answer = digs("run", "--verbose")
    assert answer.code == code, answer.err
    assert said in answer.out + answer.err
    assert_nothing_leaks(answer)
    assert_nothing_leaks(digs("run", "--json"))
    assert_nothing_leaks(digs("runs", "receipt", "last", "--json"))


def test_a_changed_plan_of_restricted_data_is_reported_without_its_steps(digs: Kfm) -> None:
    assert digs("run").code == 0
    Path("kfm.yml").write_text(CONFIG.replace("digs.py", "later.py"))
    Path("later.py").write_text(UPDATER.replace("site-", "dig-"))
    answer = digs("run", "--force", "--reason", "again")
    assert answer.code == 3
    assert "`kfm plan digs` shows how" in answer.complaint
    assert_nothing_leaks(answer)


def test_a_public_dataset_names_the_step_that_failed(digs: Kfm) -> None:
    Path("kfm.yml").write_text(CONFIG.replace("restricted", "public"))
    Path("digs.py").write_text(UPDATER.replace("return Output.csv(", "1 / 0\n        return Output.csv("))
    assert "step 'site-14QX101': perform() of digs raised ZeroDivisionError at digs.py:" in digs("run").complaint


RAISING = (("perform", "return Output.csv("), ("plan", "return Plan("), ("inputs", "return ["))


def test_a_public_dataset_keeps_what_an_exception_said_on_one_bounded_line(digs: Kfm) -> None:
    Path("kfm.yml").write_text(CONFIG.replace("restricted", "public"))
    said = "'two\\nlines \\x1b[31m of https://user:hunter2@example.org/?key=hunter2 ' + 'x' * 10_000"
    for method, old in RAISING:
        name = f"{method}.py"  # a file of its own: this process loads each but once
        Path("kfm.yml").write_text(CONFIG.replace("restricted", "public").replace("digs.py", name))
        Path(name).write_text(UPDATER.replace(old, f"raise ValueError({said})\n        {old}"))
        complaint = digs("run").complaint
        assert f"{method}() of digs raised ValueError at {name}:" in complaint
        assert "two\\u000alines \\u001b[31m of https://***@example.org/?key=***" in complaint
        assert len(complaint) < 500 and "hunter2" not in complaint
        (note,) = digs("runs", "receipt", "last", "--json").data["errors"]
        assert "two\\u000alines" in note["message"] and "hunter2" not in note["message"]


def test_an_exception_that_cannot_be_shown_is_reported_by_its_type(digs: Kfm) -> None:
    Path("kfm.yml").write_text(CONFIG.replace("restricted", "public").replace("digs.py", "mute.py"))
    mute = "class Mute(Exception):\n    def __str__(self):\n        raise KeyError\n\n\n"
    Path("mute.py").write_text(mute + UPDATER.replace("return Output.csv(", "raise Mute()\n        return Output.csv("))
    assert "raised Mute at mute.py:" in digs("run").complaint


@pytest.mark.parametrize(("method", "old"), RAISING)
@pytest.mark.parametrize("declared", ["sensitivity: restricted", ""])
def test_of_anything_else_only_the_type_is_kept(digs: Kfm, declared: str, method: str, old: str) -> None:
    Path("kfm.yml").write_text(CONFIG.replace("sensitivity: restricted", declared).replace("digs.py", "loud.py"))
    Path("loud.py").write_text(UPDATER.replace(old, f"raise ValueError('14QX' + '101')\n        {old}"))
    answer = digs("run", "--verbose")
    assert f"{method}() of digs raised ValueError at loud.py:" in answer.err
    assert_nothing_leaks(answer)


@pytest.mark.parametrize("declared", ["restricted", "generalised"])
def test_data_that_is_not_public_is_never_published_as_it_is(digs: Kfm, declared: str) -> None:
    Path("kfm.yml").write_text(CONFIG.replace("restricted", declared))
    assert digs("run").code == 0
    for words in (["promote", "digs"], ["promote", "digs", "--dry-run"]):
        answer = digs(*words)
        assert answer.code == 4
        assert "its sensitivity is not public" in answer.complaint
        assert_nothing_leaks(answer)
    assert digs("refs", "list", "published/", "--json").data == []
    assert not Path("public").exists()


def test_closed_data_is_not_used_at_all_and_can_still_be_withdrawn(digs: Kfm) -> None:
    Path("kfm.yml").write_text(CONFIG.replace("restricted", "public"))
    assert digs("run").code == 0
    assert digs("promote", "digs").code == 0
    Path("kfm.yml").write_text(CONFIG.replace("restricted", "closed"))
    Path("digs.csv").write_text(DATA.replace("470", "471"))
    objects = sorted(Path(".kfm/objects").rglob("*"))
    for words in (["run"], ["run", "--dry-run"], ["run", "--force", "--reason", "a trial"]):
        answer = digs(*words)
        assert answer.code == 4, answer
        assert "closed" in answer.complaint
        assert leaks(answer.out + answer.err) == []
    assert sorted(Path(".kfm/objects").rglob("*")) == objects
    assert digs("rollback", "digs", "--to", "nothing", "--reason", "it is closed").code == 0
    assert digs("refs", "list", "published/", "--json").data == []


def test_only_the_output_of_diff_shows_restricted_rows(digs: Kfm) -> None:
    assert digs("run").code == 0
    Path("digs.csv").write_text(DATA.replace("470", "471"))
    assert digs("run").code == 0
    answer = digs("diff", "digs", "--verbose")
    assert "14QX102" in answer.out, "who may read the data may compare it"
    assert_nothing_leaks(answer._replace(out=""))
    assert_nothing_leaks(digs("diff", "digs", "--from", "14QX102"[2:]))


def test_the_traceback_for_an_author_has_no_words_of_restricted_data(
    digs: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFM_LOG", "debug")
    raised = "raise ValueError(step.params['site'])\n        return Output.csv("
    for name, sensitivity in (("closed_words.py", "restricted"), ("open_words.py", "public")):
        text = CONFIG.replace("digs.py", name).replace("sensitivity: restricted", f"sensitivity: {sensitivity}")
        Path("kfm.yml").write_text(text)
        Path(name).write_text(UPDATER.replace("return Output.csv(", raised))
        answer = digs("run")
        assert answer.code == 1 and "Traceback" in answer.err and f'{name}", line' in answer.err
        if sensitivity == "public":
            assert "ValueError: 14QX101" in answer.err  # an author at a terminal sees what was raised
        else:
            assert "ValueError, text withheld" in answer.err
            assert_nothing_leaks(answer)
