"""Addresses that `kfm move` takes or refuses, and the line of kfm.yml that it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.move.carried import THERE, kfm


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("memory", "no place for a state"),
        ("https://example.org/", "no place for a state"),
        ("redis://localhost/0", "no place for a state"),
        ("postgresql://me:hunter2@db/kfm", "--to holds a password"),
        ("s3://UPPER", "--to is not an address of this form"),
        ("sqlite:", "--to has no usable path"),
        ("sqlite:.kfm/state.db", "already"),
        ("sqlite:./.kfm/../.kfm/state.db", "already"),
        ("file:.kfm/objects", "already"),
    ],
)
def test_an_address_that_can_hold_nothing_is_refused(house: str, to: str, said: str) -> None:
    answer = kfm(house, "move", "--to", to)
    assert answer.code == 3 and said in answer.err
    assert "hunter2" not in answer.out + answer.err


def test_an_edit_changes_one_line(house: str) -> None:
    path = Path(house, "kfm.yml")
    before = "# mine\n" + path.read_text()
    path.write_text(before)
    assert kfm(house, "move", "--to", THERE, "--edit").code == 0
    old, new = before.splitlines(), path.read_text().splitlines()
    changed = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
    assert [b for _, b in changed] == [f'state: "{THERE}"']


def test_an_edit_is_refused_where_the_environment_sets_the_address(house: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_STATE", "sqlite:.kfm/state.db")
    answer = kfm(house, "move", "--to", THERE, "--edit")
    assert answer.code == 3 and "KFM_STATE" in answer.err
