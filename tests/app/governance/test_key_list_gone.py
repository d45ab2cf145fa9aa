"""A key list that was deleted, altered or replaced is an alarm, and says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.governance.people import make_list
from tests.cli.conftest import Kfm, kfm, plain_environment, started  # noqa: F401

SAFE = Path("../kept-by-people")


def spoil(how: str) -> None:
    keys = Path("keys.json")
    if how == "deleted":
        keys.unlink()
    else:
        altered = keys.read_text().replace("viewer", "admin").replace("olli", "mallory")
        keys.write_text(altered if how == "altered" else "{}")


@pytest.mark.parametrize("how", ["deleted", "altered", "another"])
def test_a_key_list_that_is_not_the_one_in_force_is_an_alarm_with_the_cure(started: Kfm, how: str) -> None:  # noqa: F811
    make_list(started, SAFE)
    assert started("doctor").code == 0 and started("status").code == 0
    spoil(how)
    said = "keys.json is missing" if how == "deleted" else "keys.json is not the list that is in force"
    answer = started("doctor")
    assert answer.code == 3 and said in answer.out and "put back the copy that was in force last" in answer.out
    answer = started("status")
    shown = " ".join(answer.out.split())
    assert said in shown and "put back the copy that was in force last" in shown, answer.out


@pytest.mark.parametrize("how", ["deleted", "altered", "another"])
def test_without_the_key_list_a_signer_freezes_and_withdraws_and_opens_nothing(
    started: Kfm,  # noqa: F811
    how: str,
) -> None:
    name = "rain-gauges"
    assert started("run").code == 0 and started("publish", name, "--reason", "first").code == 0
    make_list(started, SAFE)
    olli = ("--key", str(SAFE / "olli.key"))
    assert published(name)
    spoil(how)
    for words in (("freeze", "global"), ("rollback", name, "--to", "nothing")):
        unsigned = started(*words, "--reason", "stop")
        assert unsigned.code == 4 and "no signature of a person who may do it" in unsigned.err, unsigned.err
    assert published(name)
    answer = started("freeze", "global", "--reason", "stop", *olli)
    assert answer.code == 0 and "the copy in the state" in answer.err, answer.err
    assert started("thaw", "global", "--reason", "go", *olli).code == 4
    answer = started("rollback", name, "--to", "nothing", "--reason", "stop", *olli)
    assert answer.code == 0 and published(name) == [], answer.err
    assert started("publish", name, "--reason", "again", *olli).code == 4 and published(name) == []
    assert started("doctor").code == 3


def published(name: str) -> list[Path]:
    return [path for path in Path("public/datasets", name).rglob("*.csv") if path.is_file()]
