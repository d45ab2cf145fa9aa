"""An installation whose state is in Postgres does what it does over a file, and a mistake is one line with its cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.app.session import session as session_module
from kfm.app.session.backends import lock_of
from kfm.app.session.session import open_session
from kfm.config import Resolved, load
from kfm.model.ports import Outside
from kfm.store.locks import FileLock
from kfm.store.state import StoredState
from kfm.store.state_lock import StateLock
from tests.app.servers.sites import PASSWORD, ROWS, Site
from tests.servers.placement import on_server


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")


def test_a_version_goes_from_its_source_to_the_public_folder_and_back(site: Site) -> None:
    assert "SUCCESS  done" in site.typed("run", "rain")
    assert "SKIPPED  noop" in site.typed("run", "rain")
    site.typed("publish", "rain")
    assert list((site.folder / "public/datasets/rain/versions").iterdir())
    site.typed("rollback", "rain", "--to", "nothing")
    assert not list((site.folder / "public/datasets/rain").glob("versions/*/*"))
    assert not (site.folder / ".kfm" / "state.db").exists()
    ops = [line.split()[2] for line in site.typed("runs", "list").splitlines()[1:]]
    assert sorted(ops) == ["ingest", "ingest", "promote", "rollback"]


def test_a_dry_run_writes_nothing_into_the_server(site: Site) -> None:
    assert not on_server(site.folder)
    site.typed("run", "rain", "--dry-run")
    assert not on_server(site.folder), "it made a schema"
    site.typed("run", "rain")
    site.write(rows=ROWS.replace("1.20", "1.30"))
    before = on_server(site.folder)
    assert sum(map(len, before.values())) > 10
    assert "done" in site.typed("run", "rain", "--dry-run")
    site.typed("publish", "rain", "--dry-run")
    assert on_server(site.folder) == before


def test_a_first_version_that_is_published_while_a_session_opens_is_no_mistake(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, site.environment[PASSWORD])
    real, names = session_module.open_public, list[str]()

    def open_public(resolved: Resolved, state: StoredState) -> Outside:
        site.typed("run", "rain")  # another process, between the look into the state and the look at the public folder
        site.typed("publish", "rain")
        found = real(resolved, state)
        names.extend(found.datasets())
        return found

    monkeypatch.setattr(session_module, "open_public", open_public)
    with open_session(load(str(site.folder / "kfm.yml"), {}), mode="read") as session:
        assert not list(session.state.ledger.entries()), "it shows the state as of its opening"
    assert names == ["rain"]


def test_locks_of_several_machines_are_in_the_state(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD, site.environment[PASSWORD])
    resolved = load(str(site.folder / "kfm.yml"), {})
    with open_session(resolved) as session:
        lock = lock_of(resolved, session.state, "publish")()
    assert isinstance(lock, StateLock)
    local = load(str(_local(site.folder)), {})
    assert isinstance(lock_of(local, session.state, "publish")(), FileLock)


def _local(folder: Path) -> Path:
    other = folder / "other.yml"
    other.write_text("datasets: {}\n")
    return other


@pytest.mark.parametrize(
    ("change", "code", "said", "cure"),
    [
        ("password", 4, "refuses the password", "check `postgres: {password: …}`"),
        ("database", 3, "no such database or user", "correct `state`"),
        ("port", 69, "127.0.0.1:1", ""),
    ],
)
def test_a_wrong_address_is_one_line(site: Site, change: str, code: int, said: str, cure: str) -> None:
    env = {}
    if change == "password":
        env = {PASSWORD: "wrong-but-long-enough"}
    elif change == "database":
        site.write(site.config.replace("/postgres\n", "/nowhere\n"))
    else:
        import re

        site.write(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", site.config).replace("wait_s: 5", "wait_s: 0"))
    answer = site.typed("status", code=code, **env)
    assert said in answer and cure in answer
    assert "Traceback" not in answer and "wrong-but-long-enough" not in answer
    assert len(answer.strip().splitlines()) == 1


def test_a_mistyped_schema_publishes_nothing_and_removes_nothing(site: Site) -> None:
    site.typed("run", "rain")
    site.typed("publish", "rain")
    public = sorted(path for path in (site.folder / "public").rglob("*") if path.is_file())
    site.write(site.config.replace(f"schema: {site.schema}", f"schema: {site.schema}x"))
    for words in (["status"], ["run"], ["publish", "rain"], ["reconcile", "--repair"], ["jobs", "list"]):
        said = site.typed(*words, code=3)
        assert "the state is empty, and published files of 1 dataset are at file:public" in said
        assert "check `state` and `postgres.schema`" in said
    assert sorted(path for path in (site.folder / "public").rglob("*") if path.is_file()) == public
    site.write()
    assert "SKIPPED  noop" in site.typed("run", "rain")
