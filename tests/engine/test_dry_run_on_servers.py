"""A dry run over servers writes no row, no object and no message, and predicts what the real run then does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.installations import WORDS_CSV, Installation, Server, serving, stamps
from tests.engine.test_dry_run import DRY, KNOWN_CODES, LOOKING, STATELESS, foretold_and_done, said_for, standing
from tests.servers import placement
from tests.servers.seaweed import seaweed as seaweed

Count = Callable[..., None]
STATES = ("after runs", "in a journal of lines after a kill", "frozen")  # there in files, and here on servers
PARTS = 20
ELSEWHERE = ("move",)  # between kinds of files


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving({"words.csv": WORDS_CSV}) as server:
        yield server


def on_servers(state: str, folder: Path, server: Server) -> Installation:
    return standing(state, folder, server, placement.all_servers(folder).removeprefix("state: ").rstrip())


@pytest.mark.usefixtures("seaweed")
@pytest.mark.long  # tests/app/servers/test_state_in_postgres.py tries one command with every commit
@pytest.mark.parametrize(("state", "part"), [(state, part) for state in STATES for part in range(PARTS)])
def test_no_command_that_promises_it_changes_anything(
    state: str, part: int, tmp_path: Path, server: Server, count: Count
) -> None:
    site = on_servers(state, tmp_path / "site", server)
    said = said_for(site, tmp_path)
    before = placement.everything_on_servers(site.folder), stamps(site.folder)
    assert len(before[0]) > 10
    commands = [words for words in (*DRY, *LOOKING) if words[0] not in (*STATELESS, *ELSEWHERE)]
    for words in commands[part::PARTS]:
        if "ARTIFACTS" not in words:
            answer = site.kfm(*said(words), expect=None)
            assert answer.code in KNOWN_CODES, (words, answer)
            assert (placement.everything_on_servers(site.folder), stamps(site.folder)) == before, words
            count("commands that changed nothing on servers")
    site.kfm("freeze", "gauges", "--reason", "once more")
    assert placement.everything_on_servers(site.folder) != before[0], "a change would not be seen"


@pytest.mark.long
@pytest.mark.usefixtures("seaweed")
@pytest.mark.parametrize("state", STATES)
def test_the_predicted_effects_are_the_effects_made(state: str, tmp_path: Path, server: Server, count: Count) -> None:
    site = on_servers(state, tmp_path / "site", server)
    stopped = 5 if state == "frozen" else 0
    for words, code in (
        (["run"], stopped), (["promote", "gauges"], stopped), (["freeze", "halves"], 0), (["thaw", "halves"], 0),
        (["rollback", "gauges"], 3 if "kill" in state else stopped),  # it had no version before
    ):  # fmt: skip
        foretold_and_done(site, tmp_path, *words, code=code)
        count("commands over servers done as foretold")
