"""The question before a version is shown: the strictest of what it was made under and of what holds today."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kfm.model.records import Classification, DatasetVersion, Level
from kfm.policy.questions import Mask, PolicyDecision
from kfm.policy.serve_gate import earliest_end_ms, no_version, serve_gate

NOW = 1767323045000  # 2026-01-02
OPEN = Classification(level="public", care="open", access="open")
CELLS = Classification(level="generalised", care="open", access="open", resolution=7, custodians=("office",))
PUBLIC = DatasetVersion(
    dataset="sites",
    digest="sha256:" + "a" * 64,
    entries=1,
    size=1,
    supersedes="",
    run_id="run-1",
    updater_id="sites",
    updater_version="1.0.0",
    plan_hash="",
    input_hash="",
    metadata={"sensitivity": "public"},
    validation={"rows": 1},
)
MASKED = replace(PUBLIC, standing=CELLS)


def asked(
    version: DatasetVersion, level: Level = "public", standing: Classification | None = None, **said: Any
) -> PolicyDecision:
    said = {"audience": "public", "status": "current", "when_ms": NOW, "epoch": 7, **said}
    return serve_gate(version, level, standing, **said)


def test_a_yes_is_about_exactly_this_version_and_these_labels() -> None:
    decision = asked(PUBLIC)
    assert decision.is_yes(PUBLIC.digest) and decision.gate == "serve" and decision.label_epoch == 7
    assert asked(MASKED, "generalised").obligations == [Mask(resolution=7)]


@pytest.mark.parametrize(
    ("version", "level", "standing", "rule"),
    [
        (PUBLIC, "restricted", None, "serve.label"),
        (PUBLIC, "closed", OPEN, "serve.label"),
        (PUBLIC, "public", replace(OPEN, level="restricted"), "serve.label"),
        (PUBLIC, "public", replace(OPEN, care="community"), "serve.label"),
        (PUBLIC, "public", replace(OPEN, access="embargoed"), "serve.access"),
        (PUBLIC, "public", replace(OPEN, expires="2026-01-01"), "serve.consent"),
        (PUBLIC, "generalised", CELLS, "serve.masking"),  # it was published as it is
        (replace(PUBLIC, metadata={"sensitivity": "restricted"}), "public", None, "serve.label"),
        (replace(PUBLIC, metadata={"sensitivity": 7}), "public", None, "serve.label"),
        (replace(PUBLIC, metadata={"sensitivity": "publik"}), "public", None, "serve.label"),
        (replace(PUBLIC, standing=replace(OPEN, level="restricted")), "public", OPEN, "serve.label"),
        (replace(PUBLIC, standing=replace(OPEN, expires="2026-01-01")), "public", OPEN, "serve.consent"),
        (replace(PUBLIC, validation={"closed/2025": 3}), "public", None, "serve.kept"),
        (MASKED, "generalised", replace(CELLS, resolution=6), "serve.masking"),
        (MASKED, "generalised", replace(CELLS, care="sacred"), "serve.label"),
        (MASKED, "restricted", None, "serve.label"),
    ],
)
def test_the_strictest_word_decides(
    version: DatasetVersion, level: Level, standing: Classification | None, rule: str
) -> None:
    decision = asked(version, level, standing)
    assert decision.allow is False and rule in decision.rules, decision.rules


def test_a_label_that_allows_finer_cells_changes_nothing() -> None:
    assert asked(MASKED, "generalised", replace(CELLS, resolution=9)).obligations == [Mask(resolution=7)]


def test_a_question_without_a_version_is_a_no() -> None:
    decision = no_version("admin", NOW)
    assert decision.allow is False and "serve.subject" in decision.rules


def test_a_yes_counts_until_the_first_label_or_consent_ends() -> None:
    day, next_day = replace(OPEN, expires="2026-01-02"), replace(OPEN, expires="2026-01-03")
    end = 1767398400000  # 2026-01-03T00:00:00Z: the last day is a whole one
    assert earliest_end_ms(PUBLIC, None) is None and earliest_end_ms(PUBLIC, OPEN) is None
    assert earliest_end_ms(PUBLIC, day) == end
    assert earliest_end_ms(replace(PUBLIC, standing=day), next_day) == end
    assert earliest_end_ms(replace(PUBLIC, standing=next_day), day) == end
    assert asked(PUBLIC, standing=day, when_ms=end - 1).allow is True
    assert asked(PUBLIC, standing=day, when_ms=end).allow is False
