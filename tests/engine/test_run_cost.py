"""What one run costs is counted: evaluations of policies, statements, syncs. No test here measures time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.config import load
from kfm.model.records import Receipt
from kfm.policy.rego_engines import Embedded

CONFIG = """\
kfm: 1
{extra}datasets:
  data:
    version: "1.0.0"
{said}    sources: {{body: {{uri: body.csv, format: csv}}}}
    outputs: {{all: {{from: body}}}}
"""
RUNS = 4


def opened(folder: Path, *, extra: str = "", said: str = "    sensitivity: public\n") -> Session:
    (folder / "kfm.yml").write_text(CONFIG.format(extra=extra, said=said))
    return open_session(load(str(folder / "kfm.yml"), {}))


def run(session: Session, folder: Path, rows: int) -> Receipt:
    (folder / "body.csv").write_text("a,b\n" + "".join(f"{i},1\n" for i in range(rows)))
    return run_trigger(session, new_trigger(session, "data"))


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    ask = Embedded.ask

    def counted(self: Embedded, gate: str, body: bytes) -> str:
        found.append((gate, body))
        return ask(self, gate, body)

    monkeypatch.setattr(Embedded, "ask", counted)
    return found


@pytest.mark.parametrize("said", ["", "    sensitivity: public\n"], ids=["unsaid", "public"])
def test_a_run_of_public_data_asks_both_gates_in_one_evaluation(
    tmp_path: Path, evaluations: list[tuple[str, bytes]], said: str
) -> None:
    with opened(tmp_path, said=said) as session:
        for i in range(RUNS):
            assert run(session, tmp_path, i + 1).outcome == "done"
        assert [gate for gate, _ in evaluations] == ["both"] * RUNS


def test_a_run_of_restricted_data_is_asked_before_the_plan_and_before_the_commit(
    tmp_path: Path, evaluations: list[tuple[str, bytes]]
) -> None:
    with opened(tmp_path, said="    sensitivity: restricted\n") as session:
        assert run(session, tmp_path, 1).outcome == "done"
    assert [(gate, b'"to":"work"' in body) for gate, body in evaluations] == [("zone", True), ("zone", False)]


def test_an_installation_with_policies_of_its_own_is_asked_before_the_plan_and_before_the_commit(
    tmp_path: Path, evaluations: list[tuple[str, bytes]]
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "main.rego").write_text(
        'package main\n\ndeny contains "not into Work" if {\n\tinput.step.to == "work"\n}\n'
    )
    with opened(tmp_path, extra="policy: {folder: rules}\n") as session:
        receipt = run(session, tmp_path, 1)
        assert receipt.outcome == "denied" and "go on to Work: not into Work" in receipt.errors[0].message
        assert [gate for gate, _ in evaluations] == ["zone", "own"]


def test_every_version_is_decided_by_its_own_evaluation(tmp_path: Path, evaluations: list[tuple[str, bytes]]) -> None:
    with opened(tmp_path) as session:
        versions = []
        for i in (1, 2, 1):
            assert run(session, tmp_path, i).outcome == "done"
            versions.append(session.state.refs.at("processed/data"))
        assert versions[0] == versions[2] != versions[1]
        assert all(version.encode() in body for version, (_, body) in zip(versions, evaluations, strict=True))
        assert versions[0].encode() not in evaluations[1][1].partition(b'"provenance"')[0]


def statements_of(session: Session) -> list[str]:
    """The list that gets every statement from now on."""
    tables: Any = session.state.tables
    execute, found = tables._execute, []

    def counted(sql: str, *values: Any) -> Any:
        found.append(sql)
        return execute(sql, *values)

    tables._execute = counted
    return found


MOST_STATEMENTS = 73  # one declared step over one source; one of them looks whether the source is stored already


def test_a_run_takes_no_more_statements_than_it_needs(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        for i in range(2):
            run(session, tmp_path, i + 1)
        found = statements_of(session)
        assert run(session, tmp_path, 3).outcome == "done"
        assert len(found) <= MOST_STATEMENTS, "\n".join(found)
        assert found.count("COMMIT") <= 7 and sum(sql.startswith("PRAGMA") for sql in found) <= 2


def test_a_source_that_has_not_changed_is_not_stored_again(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        run(session, tmp_path, 1)
        found = statements_of(session)
        assert run(session, tmp_path, 1).outcome == "noop"
        assert not [sql for sql in found if "objects" in sql and not sql.startswith("SELECT")], "\n".join(found)
