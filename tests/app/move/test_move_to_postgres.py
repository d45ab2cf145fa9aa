"""`kfm move` of a state to Postgres and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.move.carried import HERE, kfm, killed_at, places_of, refusal, saved, sums
from tests.sampling import everything, sampled
from tests.servers import postgres

SECRET = "KFM_SECRET_POSTGRES"


class Server:
    """An empty schema, and the address of its database."""

    def __init__(self, house: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._house = house
        dsn, _ = postgres.place(Path(house, "postgres"))
        self.url = f"postgresql://{dsn['user']}@{dsn['host']}:{dsn['port']}/{dsn['dbname']}"
        monkeypatch.setenv(SECRET, str(dsn["password"]))
        self._text = Path(house, "kfm.yml").read_text()
        self.use(house)

    def use(self, folder: str) -> None:
        """Let this installation name a schema of its own."""
        section = f"postgres: {{password: env:{SECRET}, schema: {postgres.new_schema()}, wait_s: 5}}\n"
        Path(folder, "kfm.yml").write_text(self._text + section)


@pytest.fixture
def server(house: str, monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(house, monkeypatch)


def test_a_state_that_moved_to_a_server_and_back_has_the_same_rows(house: str, server: Server) -> None:
    before = kfm(house, "runs", "receipts", "--json").out
    assert kfm(house, "move", "--to", server.url, "--edit").code == 0
    there = sums(house, server.url)
    assert there == sums(house, HERE) and sum(each.rows for each in there) > 20
    assert before[2:] in kfm(house, "runs", "receipts", "--json").out
    assert kfm(house, "run").out.count("noop") == 1
    bad = [line for line in kfm(house, "doctor", "--deep").out.splitlines() if " bad " in line]
    assert all(line.startswith("postgres.") for line in bad), bad  # the server of these tests does not sync
    assert f"moved to {server.url}" in str(refusal(house, state=HERE))
    assert kfm(house, "move", "--to", HERE, "--edit").code == 0
    assert sums(house, HERE) == sums(house, server.url)
    assert kfm(house, "run").out.count("noop") == 1
    assert "moved to sqlite:" in str(refusal(house, state=server.url))


def test_a_wrong_password_moves_nothing_and_is_not_shown(
    house: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, "not-the-password-at-all")
    answer = kfm(house, "move", "--to", server.url)
    assert answer.code == 4 and "password" in answer.err
    assert "not-the-password-at-all" not in answer.err + answer.out
    assert refusal(house) is None


def test_a_schema_that_holds_another_installation_is_refused(house: str, server: Server) -> None:
    with saved(house) as copy:
        assert kfm(copy, "move", "--to", server.url).code == 0
    answer = kfm(house, "move", "--to", server.url)
    assert answer.code == 3 and "holds an installation already" in answer.err
    assert refusal(house) is None


def test_a_server_that_went_away_leaves_the_old_place_in_force(house: str, server: Server) -> None:
    text = Path(house, "kfm.yml").read_text()
    Path(house, "kfm.yml").write_text(text.replace("wait_s: 5", "wait_s: 0"))
    user, _, _ = server.url.removeprefix("postgresql://").partition("@")
    answer = kfm(house, "move", "--to", f"postgresql://{user}@127.0.0.1:1/postgres")
    assert answer.code == 69 and "Traceback" not in answer.err
    assert refusal(house) is None


@pytest.mark.parametrize("part", sampled(range(4)))
def test_a_move_to_a_server_killed_anywhere_is_continued(house: str, server: Server, part: int) -> None:
    words = ("move", "--to", server.url)
    only: Callable[[str], bool] = _is_transaction
    places = places_of(house, *words, only=only)
    server.use(house)
    every = 4 if everything else 40
    in_force = set()
    for at in range(part + every // 2, len(places) + 1, every):
        with saved(house) as copy:
            server.use(copy)
            assert killed_at(copy, at, *words, only=only), f"nothing was killed at {at}"
            label = f"killed at {at} of {len(places)}, {places[at - 1]}"
            writable = refusal(copy) is None
            if not writable:
                assert refusal(copy, state=server.url) is None, label
            in_force.add(writable)
            assert kfm(copy, *words).code == 0, label
            assert sums(copy, HERE) == sums(copy, server.url) or not writable, label
            assert refusal(copy) is not None and refusal(copy, state=server.url) is None, label
    assert True in in_force
    assert os.path.exists(os.path.join(house, ".kfm/state.db"))


def _is_transaction(label: str) -> bool:
    return label.startswith(("tables.begin", "tables.commit", "tables.put_many"))
