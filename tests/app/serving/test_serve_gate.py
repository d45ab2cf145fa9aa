"""What was published is shown only as long as today's labels, policies and consents allow it, whatever ran since."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kfm.errors import BadInput, Unavailable
from kfm.model import refs
from kfm.policy.questions import Mask
from tests.app.serving.conftest import ALL, FIRST, WELLS, Opened, declared, publish
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import MASK, SECRETS, label, labels
from tests.policy.servers import pretending, saying

DAY_MS = 86_400_000
MASKED, PLAIN = {"sites", "cells"}, {"wells", "walks"}
BYTES = "bytes: 'sha256:" + hashlib.sha256(WELLS.encode()).hexdigest() + "'"


def test_what_is_published_is_shown_to_every_audience_and_masked_data_with_its_duty(
    public: Kfm, opened: Opened
) -> None:
    gate = opened()
    assert gate.shown() == set(ALL)
    for audience in ("public", "single", "viewer", "operator", "steward", "admin"):
        assert gate.asked("sites", audience=audience).obligations == [Mask(resolution=6)]
        assert gate.asked("wells", audience=audience).obligations == []
    assert gate.asked("wells", status="superseded").allow is True


@pytest.mark.parametrize("status", ["withdrawn", "rolled back", "none", "", "Current"])
def test_a_version_that_is_not_public_by_its_ref_is_shown_to_nobody(public: Kfm, opened: Opened, status: str) -> None:
    gate = opened()
    assert gate.asked("wells", status=status).rules == ["serve.status"]
    assert gate.asked("wells", status=status, audience="admin").allow is False
    assert gate.asked("wells").allow is True


@pytest.mark.parametrize("audience", ["", "everybody", "Public", "public ", "root"])
def test_an_audience_that_nobody_knows_is_shown_nothing(public: Kfm, opened: Opened, audience: str) -> None:
    decision = opened().asked("wells", audience=audience)
    assert decision.allow is False and "serve.audience" in decision.rules


@pytest.mark.parametrize(
    ("written", "closed"),
    [
        (label("dataset: wells", "restricted"), PLAIN),
        (label("dataset: wells", "closed"), PLAIN),
        (label("dataset: wells"), PLAIN),  # generalised, and it was published as it is
        (label("dataset: wells", "public", care="community"), PLAIN),
        (label("dataset: wells", "public", care="sacred"), PLAIN),
        (label("dataset: wells", "publik"), PLAIN),
        (label("dataset: wells", "public", care="opne", public_resolution=None), PLAIN),
        (label("dataset: wells", "public", access_rights="embargoed", public_resolution=None), PLAIN),
        (label("dataset: wells", "public", access_rights="opened", public_resolution=None), PLAIN),
        (label("dataset: wells", "public", community_labels="[TK SS]", public_resolution=None), PLAIN),
        (label("dataset: wells", "public", expires="2026-01-31", public_resolution=None), PLAIN),
        (label("dataset: walks", "restricted"), {"walks"}),
        (label("source: wells.csv", "restricted"), PLAIN),
        (label("source: ./wells.csv", "restricted"), PLAIN),
        (label(BYTES, "restricted"), PLAIN),
        (label("dataset: cells", "restricted"), {"cells"}),
        (label("dataset: sites", "closed"), MASKED),
        (label("dataset: sites", public_resolution=5), MASKED),
        (label("source: sites.csv", public_resolution=5), MASKED),
        (label("source: sites.csv", "restricted"), MASKED),
        (label("dataset: sites", care="community", expires="2026-01-31"), MASKED),
    ],
    ids=lambda value: value.strip()[:90] if isinstance(value, str) else "",
)
def test_a_label_that_is_tightened_in_the_file_closes_at_the_next_question(
    public: Kfm, opened: Opened, written: str, closed: set[str]
) -> None:
    """No command runs in between, a yes about each dataset is remembered, and what the label is not about stays."""
    gate = opened()
    assert gate.shown() == set(ALL)
    labels(*FIRST, written)
    assert gate.shown() == set(ALL) - closed
    labels(*FIRST)
    assert gate.shown() == set(ALL)


def rows(site: Kfm) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(site("cat", "published/sites", "all").out)))


@pytest.mark.parametrize("stricter", [label("record: ID", "restricted"), label("record: ID", public_resolution=3)])
def test_a_label_on_one_record_closes_the_masked_versions_that_were_made_before_it(
    public: Kfm, opened: Opened, stricter: str
) -> None:
    gate = opened()
    assert gate.shown() == set(ALL)
    written = stricter.replace("ID", rows(public)[0]["id"])
    labels(*FIRST, written)
    assert gate.shown() == PLAIN


@pytest.mark.long
def test_what_was_made_again_under_the_label_of_a_record_is_shown(public: Kfm, opened: Opened) -> None:
    written = label(f"record: {rows(public)[0]['id']}", "restricted")
    labels(*FIRST, written)
    assert public("run", "cells", "--force", "--reason", "under the label").code == 0
    assert opened().shown() == PLAIN, "it was made again of what was masked before"
    publish(public, "sites")
    publish(public, "cells")
    gate = opened()
    assert gate.shown() == set(ALL)
    labels(*FIRST, written, label(f"record: {rows(public)[0]['id']}", "closed"))
    assert gate.shown() == PLAIN


def test_a_label_on_a_record_that_is_nowhere_closes_only_until_the_next_run(public: Kfm, opened: Opened) -> None:
    labels(*FIRST, label(f"record: {'f0' * 16}", "restricted"))
    assert opened().shown() == PLAIN
    assert public("run", "sites").code == 0
    assert opened().shown() == set(ALL)


def test_a_label_on_one_record_that_asks_for_no_more_closes_nothing(public: Kfm, opened: Opened) -> None:
    labels(*FIRST, label(f"record: {rows(public)[0]['id']}"))
    assert opened().shown() == set(ALL)


@pytest.mark.parametrize(
    "broken",
    [
        lambda: Path("labels.yml").unlink(),
        lambda: Path("labels.yml").write_text("version: 1\nlabels: [\n"),
        lambda: Path("labels.yml").write_text("version: 1\nlabels:\n  - {of: {}, sensitivity: public, care: open}\n"),
        lambda: Path("kfm.yml").unlink(),
        lambda: Path("kfm.yml").write_text("datasets: ["),
        lambda: Path("kfm.yml").write_text(Path("kfm.yml").read_text() + "nonsense: 1\n"),
        lambda: declared(before="policy: {folder: policies}\n"),
    ],
    ids=["no labels", "broken labels", "wrong labels", "no kfm.yml", "broken kfm.yml", "wrong kfm.yml", "no policies"],
)
def test_a_file_that_cannot_be_read_closes_everything_until_it_can_be_read_again(
    public: Kfm, opened: Opened, broken: Callable[[], object]
) -> None:
    gate = opened()
    assert gate.shown() == set(ALL)
    broken()
    assert gate.shown() == set()
    declared()
    labels(*FIRST)
    assert gate.shown() == set(ALL)


def test_a_mask_that_is_gone_or_coarser_closes_what_it_masks(public: Kfm, opened: Opened) -> None:
    gate = opened()
    assert gate.shown() == set(ALL)
    Path("mask.yml").write_text(MASK.replace("resolution: 6", "resolution: 5"))
    assert gate.shown() == PLAIN
    Path("mask.yml").unlink()
    assert gate.shown() == PLAIN
    Path("mask.yml").write_text(MASK)
    assert gate.shown() == set(ALL)


def test_a_sensitivity_that_is_tightened_in_kfm_yml_closes_the_dataset_and_what_is_made_of_it(
    public: Kfm, opened: Opened
) -> None:
    gate = opened()
    assert gate.shown() == set(ALL)
    for word in ("restricted", "closed", "generalised"):
        declared(wells=word)
        assert gate.shown() == MASKED, word
    declared(wells="")  # nobody says what it is
    assert gate.shown() == MASKED
    declared()
    assert gate.shown() == set(ALL)


def test_a_missing_key_closes_what_cannot_be_compared_without_it(
    public: Kfm, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KFM_SECRET_OFFICE")
    assert opened().shown() == set()


def test_a_consent_ends_with_its_last_day_and_a_remembered_yes_with_it(public: Kfm, opened: Opened) -> None:
    gate = opened()
    last = 1814399999999  # 2027-06-30T23:59:59.999Z, the end of the day that the label names
    gate.clock.advance(last - gate.clock.now_ms())
    assert gate.shown() == set(ALL)
    assert "serve: the consent ends within thirty days" in gate.asked("sites").warnings
    assert gate.asked("sites") is gate.asked("sites"), "it is remembered"
    gate.clock.advance(1)
    assert gate.shown() == PLAIN


def test_a_decision_is_remembered_until_midnight_and_no_longer(public: Kfm, opened: Opened) -> None:
    gate = opened()
    gate.clock.advance(DAY_MS - gate.clock.now_ms() % DAY_MS)  # midnight
    first = gate.asked("wells")
    gate.clock.advance(DAY_MS - 1)
    assert gate.asked("wells") is first
    gate.clock.advance(1)
    second = gate.asked("wells")
    assert second is not first and second.allow is True
    gate.gate.forget()
    assert gate.asked("wells") is not second
    third = gate.asked("wells")
    gate.clock.advance(-1)
    assert gate.asked("wells") is not third, "a clock that was set back"


def test_no_more_decisions_are_remembered_than_allowed(
    public: Kfm, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kfm.app.serving.serve_gate.MOST", 3)
    gate = opened()
    first = gate.asked("wells")
    for name in ("walks", "sites"):
        gate.asked(name)
    assert gate.asked("wells") is first
    gate.asked("cells")  # in place of `walks`, which was asked for longest ago
    assert gate.asked("wells") is first and len(gate.gate._known) == 3


@pytest.mark.parametrize("problem", [BadInput("broken"), Unavailable("gone"), RuntimeError("odd"), KeyError("x")])
def test_a_failure_is_a_denial_that_is_not_remembered(
    public: Kfm, opened: Opened, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    gate = opened()
    asked: list[str] = []

    def failing(dataset: str, *_about: object) -> None:
        asked.append(dataset)
        raise problem

    with monkeypatch.context() as planted:
        planted.setattr(gate.session.state.ledger, "version", failing)
        version = gate.session.state.refs.at(refs.published("wells"))
        assert version
        decision = gate.gate.decision("wells", version, "current", "public")
    assert asked == ["wells"] and decision.allow is False and decision.subjects == []
    assert gate.shown() == set(ALL)


def test_a_version_that_the_state_does_not_know_is_not_shown(public: Kfm, opened: Opened) -> None:
    gate = opened()
    version = gate.session.state.refs.at(refs.published("wells"))
    assert version
    for name, digest in (("wells", "sha256:" + "0" * 64), ("sites", version), ("nothing", version), ("wells", "")):
        assert gate.gate.decision(name, digest, "current", "admin").allow is False, name
    assert gate.asked("wells").allow is True


def test_a_policy_of_the_installation_closes_at_the_next_question_and_never_opens(public: Kfm, opened: Opened) -> None:
    gate = opened()
    assert gate.shown() == set(ALL)
    Path("policies").mkdir()
    own = Path("policies/own.rego")
    own.write_text('package main\n\ndeny contains "not this one" if input.identity.dataset == "wells"\n')
    declared(before="policy: {folder: policies}\n")
    assert gate.asked("wells").reasons == ["not this one"]
    assert gate.shown() == set(ALL) - {"wells"}
    own.write_text('package main\n\ndeny contains "not this one" if input.serving.audience == "public"\n')
    assert gate.shown() == set() and gate.asked("wells", audience="viewer").allow is True
    own.write_text('package main\n\ndeny contains "never" if false\n')
    assert gate.shown() == set(ALL)
    labels(*FIRST, label("dataset: wells", "restricted"))
    assert gate.shown() == MASKED


@pytest.fixture
def servers() -> Iterator[dict[str, str]]:
    def slow(handler: object, _body: bytes) -> None:
        time.sleep(1)

    yes = {"allow": True, "deny": [], "warn": [], "obligations": [], "subjects": [], "question": "", "policy": ""}
    with (
        pretending(slow) as late,
        pretending(saying(b"true")) as true,
        pretending(saying(json.dumps({"result": yes}).encode())) as other,
        pretending(saying(b"", 500)) as error,
    ):
        yield {"slow": late, "true": true, "other": other, "error": error, "down": "http://127.0.0.1:9"}


def test_a_policy_server_that_is_down_slow_or_odd_closes_everything_and_is_asked_again(
    public: Kfm, opened: Opened, servers: dict[str, str]
) -> None:
    gate = opened()
    assert gate.asked("wells").allow is True
    for name, url in servers.items():
        declared(before=f'policy: {{url: "{url}", timeout_s: 0.2}}\n')
        decision = gate.asked("wells")
        assert decision.allow is False and decision.engine == "opa", name
        assert all(rule.startswith("engine.") for rule in decision.rules), (name, decision.rules)
        assert gate.asked("wells") is not decision, name
    declared()
    assert gate.shown() == set(ALL)


def test_no_denial_says_anything_about_the_data(public: Kfm, opened: Opened) -> None:
    gate = opened()
    labels(*FIRST, label("dataset: sites", "restricted", authority="Keepers-of-the-Mound", custodian="office"))
    said = [gate.asked("sites"), gate.asked("cells"), gate.asked("sites", status="none")]
    assert not [one for one in said if one.allow]
    for secret in (*SECRETS, "Keepers", "office", "restricted", "sites.csv"):
        assert secret not in str(said), secret
