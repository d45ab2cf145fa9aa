"""`kfm gc` where records are encrypted: it reads them with the custodians' keys, and removes nothing without."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kfm.app.session.protection_files import readable_objects
from kfm.app.session.session import Session
from kfm.model.names import is_digest
from tests.app.gc.house import GRACE, HOUR, SMALL, Years, everywhere, opened, orphans, set_aside
from tests.app.gc.test_histories import needed
from tests.cli.conftest import Kfm, place, plain_environment
from tests.cli.conftest import kfm as kfm
from tests.cli.test_twenty_slips import SAFE, leaked, published, written
from tests.cli.test_twenty_slips import public as public_files

HELD = rb'"held_rows_digest":"(sha256:[0-9a-f]{64})"'
__all__ = ["place", "plain_environment", "published", "written"]


def sealed_report(session: Session, name: str) -> bool:
    """Whether an object is an encrypted report on rows that are held."""
    return b'"held_rows_digest"' in readable_objects(session).read(name) and session.objects.read(name)[:1] != b"{"


def _now(monkeypatch: pytest.MonkeyPatch, published: Kfm) -> Years:
    with opened(str(Path.cwd())) as session:
        last = next(session.state.ledger.entries(reverse=True, limit=1))
    monkeypatch.setenv("KFM_NOW", last.ts)
    return Years(last.ts)


def test_what_encrypted_records_name_stays(published: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    years, here = _now(monkeypatch, published), str(Path.cwd())
    files = public_files()
    with Path("data/sites.csv").open("a") as file:
        file.write("14XX106,not a number,-98.5,gps,camp,1975-01-01,by the creek\n")  # its row is held, and encrypted
    published("run", "sites")
    questions = (("quarantine", "sites"), ("verify", "sites"), ("reproduce", "sites"))
    said = [published(*words) for words in questions]
    assert said[0].code == 0 and "sites" in said[0].out
    with opened(here) as session:
        reports = [name for name in everywhere(here) if sealed_report(session, name)]
        rows = [
            found.decode()
            for name in reports
            for found in re.findall(
                rb'"held_rows_digest":"(sha256:[0-9a-f]{64})"', readable_objects(session).read(name)
            )
        ]
        kept = needed(session) | {*reports, *rows}
    assert reports and rows and all(is_digest(name) for name in rows)
    lost = orphans(here)
    for _ in range(3):
        answer = published("gc", "--reason", "a test")
        assert answer.code == 0, answer
        years.advance(GRACE + HOUR)
    assert kept <= everywhere(here) and not set(lost) & (everywhere(here) | set_aside(here))
    assert [published(*words) for words in questions] == said
    assert published("doctor", "--deep").code == 0
    assert published("verify", "sites").code in (0, 68) and not leaked()
    assert {path: body for path, body in public_files().items() if path in files and path.endswith(".csv")} == {
        path: body for path, body in files.items() if path.endswith(".csv")
    }


def test_without_a_custodians_key_nothing_is_removed(published: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    years, here = _now(monkeypatch, published), str(Path.cwd())
    lost = orphans(here)
    assert published("gc").code == 0 and set_aside(here) == set(lost)
    years.advance(GRACE + HOUR)
    (SAFE / "society.key").unlink()
    answer = published("gc")
    assert answer.code == 4 and "key" in answer.err and set_aside(here) == set(lost), answer
    with opened(here) as session:
        assert session.objects.read(lost[0]) == SMALL


def test_gc_needs_no_signature_and_changes_nothing_that_is_public(
    published: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    _now(monkeypatch, published)
    orphans(str(Path.cwd()))
    before = public_files()
    assert published("gc").code == 0
    assert public_files() == before
