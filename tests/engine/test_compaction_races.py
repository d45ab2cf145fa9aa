"""Compaction while other processes compact, run and read: no journal is lost, and every query has one answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.store.readers import archive
from tests.engine.crowds import STATES, Installation, together


def ended_runs(site: Installation, count: int) -> dict[str, list[str]]:
    """Run that often, each time over another source; the journal of each run, by the digests of its segments."""
    with site.open() as session:
        for n in range(count):
            site.source(f"demo {n}")
            run_trigger(session, new_trigger(session, "demo"))
        settle_session(session)
        return journals(session)


def journals(session: Session) -> dict[str, list[str]]:
    return {
        entry.run_id: [name for _, name in session.state.journal.segments(entry.run_id)]
        for entry in session.state.ledger.entries()
        if entry.wal_ids
    }


@pytest.mark.parametrize("state", STATES)
def test_a_journal_that_another_process_has_put_away_meanwhile_is_not_put_away_again(
    state: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Installation(place, state)
    before = ended_runs(site, 3)
    with site.open() as one, site.open() as two:
        found = two.archive._ended
        moved: list[int] = []

        def overtaken(limit: int) -> list[str]:
            batch = found(limit)
            if batch:
                moved.append(one.archive.compact())
            return batch

        monkeypatch.setattr(two.archive, "_ended", overtaken)
        assert two.archive.compact() == 0
        assert moved == [3]
        assert journals(one) == before
    with site.open() as session:
        assert journals(session) == before


@pytest.mark.parametrize("state", STATES)
def test_of_several_compactions_each_run_is_moved_by_one(state: str, place: Path) -> None:
    site = Installation(place, state)
    before = ended_runs(site, 12)

    def compact() -> int:
        with site.open() as session:
            return session.archive.compact()

    assert sum(together([compact] * 4)) == 12
    with site.open() as session:
        assert journals(session) == before
        assert next(session.tables.scan("segments"), None) is None
    site.sound()


def test_a_journal_that_is_put_away_while_it_is_read_is_read_to_its_end(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Installation(place, "sqlite")
    (before,) = ended_runs(site, 1).values()
    with site.open() as reader, site.open() as other:
        scan = reader.tables.scan

        def one_by_one(table: str, prefix: str = "", **options: Any) -> Any:
            after = ""
            while row := next(scan(table, prefix, after=after, limit=1), None):
                yield row
                after = row[0]

        monkeypatch.setattr(reader.tables, "scan", one_by_one)
        (run_id,) = (entry.run_id for entry in reader.state.ledger.entries())
        reading = reader.state.journal.segments(run_id)
        names = [next(reading)[1]]
        assert other.archive.compact() == 1
        names += [name for _, name in reading]
        assert names == before and len(names) > 2


def test_an_archive_object_takes_no_more_than_it_should(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "FULL", 3000)
    site = Installation(place, "sqlite")
    before = ended_runs(site, 6)
    with site.open() as session:
        assert session.archive.compact() == 6
        assert journals(session) == before
        places = {body for _, body in session.tables.scan("archived")}
        assert len({msgspec.json.decode(body)["object"] for body in places}) > 1
