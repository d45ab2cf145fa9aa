"""A key list that was deleted, altered or replaced is an alarm, and says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.governance.people import make_list
from tests.cli.conftest import Kfm, kfm, plain_environment, started  # noqa: F401

SAFE = Path("../kept-by-people")


@pytest.mark.parametrize("how", ["deleted", "altered", "another"])
def test_a_key_list_that_is_not_the_one_in_force_is_an_alarm_with_the_cure(started: Kfm, how: str) -> None:  # noqa: F811
    make_list(started, SAFE)
    assert started("doctor").code == 0 and started("status").code == 0
    keys = Path("keys.json")
    if how == "deleted":
        keys.unlink()
    else:
        keys.write_text(
            keys.read_text().replace("viewer", "admin").replace("olli", "mallory") if how == "altered" else "{}"
        )
    said = "keys.json is missing" if how == "deleted" else "keys.json is not the list that is in force"
    answer = started("doctor")
    assert answer.code == 3 and said in answer.out and "put back the copy that was in force last" in answer.out
    answer = started("status")
    shown = " ".join(answer.out.split())
    assert said in shown and "put back the copy that was in force last" in shown, answer.out
