"""A run asks the server of the state few times: on a network each question costs a round trip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import open_session
from kfm.config import load
from tests.app.servers.sites import PASSWORD, Site

MOST = 40


def test_a_small_run_takes_few_round_trips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: Any) -> None:
    site = Site(tmp_path / "site")
    monkeypatch.setenv(PASSWORD, site.environment[PASSWORD])
    resolved = load(str(site.folder / "kfm.yml"), {})
    open_session(resolved).close()  # makes the tables
    for outcome in ("done", "noop"):
        with open_session(resolved) as session:
            receipt = run_trigger(session, new_trigger(session, "rain"))
            assert receipt.outcome == outcome
            settle_session(session)
            asked = session.tables.round_trips  # type: ignore[attr-defined]
        assert 5 < asked <= MOST, (outcome, asked)
        count("round trips of a small run", asked)
