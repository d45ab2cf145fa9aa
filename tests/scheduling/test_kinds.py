"""Events, anomalies, changes of a static dataset and newer instants request runs as the clock does. The receipt names
each.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kfm import config
from kfm.app.daemon.daemon_loop import Daemon, TickThread
from kfm.app.runs.due_schedules import schedules_of
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_inbox import reception_of, take
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock, rfc3339
from kfm.errors import BadInput
from kfm.model.records import Receipt
from kfm.model.secret import Secret
from kfm.scheduling.webhook_requests import signature

SECRET = "kinds-" + "0123456789abcdef" * 2
MINUTE = 60_000
RAIN = """\
publish: noop
watch: {poll_s: 0, debounce_s: 0}
datasets:
  rain:
    version: "1.0.0"
    sensitivity: public
    sources:
      rain:
        uri: rain.csv
        format: csv
        contract:
          {max_held_share: 1, shrink_limit: 1, columns: [{name: n, type: integer, mode: discard-row, minimum: TITLE}]}
    outputs: {rain: {from: rain}}
    RAINS
  checks:
    version: "1.0.0"
    sources:
      rain: {uri: rain.csv, format: csv}
    outputs: {rain: {from: rain}}
    CHECKS
webhooks:
  hook: {datasets: [rain], secrets: [env:KFM_SECRET_HOOK]}
"""


class Site:
    def __init__(self, folder: Path, session: Session, clock: FixedClock) -> None:
        self.folder, self.session, self.clock = folder, session, clock
        self.upkeep = Daemon(session, sorted(session.config.datasets), self.failed)

    def failed(self, _name: str, problem: Exception) -> None:
        raise problem

    def wrote(self, text: str) -> None:
        (self.folder / "rain.csv").write_text(text)

    def round(self) -> list[Receipt]:
        return list(self.upkeep.turn(patient=False))

    def passes(self, ms: int) -> None:
        self.clock.advance(ms)


@contextmanager
def opened(
    folder: Path, rain: str = "", checks: str = "", title: str = "0", now: int = 1_780_000_000_000
) -> Iterator[Site]:
    text = RAIN.replace("RAINS", rain).replace("CHECKS", checks).replace("TITLE", title)
    (folder / "kfm.yml").write_text(text)
    if not (folder / "rain.csv").exists():
        (folder / "rain.csv").write_text("n\n1\n2\n3\n4\n")
    clock = FixedClock(now)
    env = {"KFM_ACCEPT_WEAK_STORAGE": "true"}
    with open_session(config.load(str(folder / "kfm.yml"), env), clock=clock) as session:
        yield Site(folder, session, clock)


# -- static


def test_a_static_one_runs_once_and_again_when_its_schema_its_code_or_a_tool_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    static = "schedule: {cadence: static}"
    with opened(tmp_path, static) as site:
        (first,) = site.round()
        assert (first.dataset, first.trigger, first.outcome) == ("rain", "schedule", "done")
        site.wrote("n\n5\n")
        for _ in range(3):
            site.passes(400 * 86_400_000)
            assert site.round() == []
    with opened(tmp_path, static) as site:  # another process, the same of everything
        assert site.round() == []
    with opened(tmp_path, "schedule: {cadence: static}\n    freshness: {max_age: 3d}") as site:  # nothing it is made by
        assert site.round() == []
    with opened(tmp_path, static, title="-1") as site:
        assert [each.trigger for each in site.round()] == ["schedule"]
        assert site.round() == []
    monkeypatch.setattr("kfm.app.runs.due_schedules.__version__", "99.0.0")
    with opened(tmp_path, static, title="-1") as site:
        assert len(site.round()) == 1 and site.round() == []


# -- on: event


def delivered(site: Site, number: str) -> list[str] | None:
    """A webhook, from its bytes at the receiver to the inbox."""
    import json

    said = {
        "source_id": "hook", "trigger": "etag-change", "event_type": "update", "integrity": {"version": "v1"},
        "sent_at": rfc3339(site.clock.now_ms()), "metadata": {"delivery_id": number},
    }  # fmt: skip
    body = json.dumps(said).encode()
    sealed = signature("kfm", Secret(SECRET.encode()), body)
    message = reception_of(site.session).examine("hook", [(b"x-kfm-signature", sealed.encode())], body)
    assert not isinstance(message, int), message
    return take(site.session, [message])[0]


def test_an_event_is_reported_by_its_receipt_and_kept_as_a_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFM_SECRET_HOOK", SECRET)
    with opened(tmp_path, "schedule: {on: event}") as site:
        assert site.round() == []
        site.passes(10 * 86_400_000)
        assert site.round() == []  # no clock
        assert delivered(site, "1")
        (run,) = site.round()
        assert (run.trigger, run.actor) == ("event", "webhook:hook")
        assert run.reason == "schedule rain, event: etag-change: update"
        last = site.session.state.ticks.last("rain")
        assert last is not None and last.why == "event"
        assert site.session.state.inbox.ended(last.trigger_id) is not None


def test_without_such_a_schedule_a_webhook_stays_a_webhook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_SECRET_HOOK", SECRET)
    with opened(tmp_path) as site:
        assert delivered(site, "1")
        assert [each.trigger for each in site.round()] == ["webhook"]


@pytest.mark.parametrize("held", ["paused: true", "end: 2020-01-01T00:00:00Z", "start: 2100-01-01T00:00:00Z"])
def test_the_events_of_one_that_is_held_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: str) -> None:
    monkeypatch.setenv("KFM_SECRET_HOOK", SECRET)
    with opened(tmp_path, f"schedule: {{on: event, {held}}}") as site:
        assert delivered(site, "1") == [] and delivered(site, "1") is None  # and it is known when it comes again
        assert site.round() == []


def test_its_sources_are_watched_in_case_no_event_comes(tmp_path: Path) -> None:
    (tmp_path / "rain.csv").write_text("n\n1\n")
    with opened(tmp_path, "schedule: {on: event}") as site:
        pass
    text = (tmp_path / "kfm.yml").read_text().replace("poll_s: 0", "poll_s: 60, host_pause_s: 0")
    (tmp_path / "kfm.yml").write_text(text)
    with open_session(
        config.load(str(tmp_path / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"}), clock=site.clock
    ) as session:
        upkeep = Daemon(session, ["rain"], site.failed)
        (run,) = upkeep.turn(patient=False)
        assert (run.trigger, run.reason) == ("event", "schedule rain, event: its source changed")


# -- on: anomaly

WATCHING = "schedule: {on: anomaly, of: [rain], when: {held_share: 0.25, rows_drop: 0.5, removed_share: 0.3}}"


def test_a_threshold_that_is_crossed_asks_for_one_run_until_it_was_usual_again(tmp_path: Path) -> None:
    with opened(tmp_path, checks=WATCHING) as site:
        site.round()  # followed from here on

        def came(text: str) -> list[tuple[str, str, str]]:
            site.wrote(text)
            run_trigger(site.session, new_trigger(site.session, "rain", actor="tester"))
            return [(each.dataset, each.trigger, each.reason) for each in site.round()]

        asked = ("checks", "anomaly", "schedule checks, anomaly: held_share of rain")
        assert came("n\n1\n2\n3\n4\n") == []  # as usual
        assert came("n\n1\nx\n3\n4\n") == []  # a quarter: not more than that
        assert came("n\n1\nx\ny\n4\n") == [asked]
        assert came("n\n1\nx\ny\n5\n") == []  # still: it was told
        assert came("n\n1\n2\n3\n5\n") == []
        assert came("n\nx\ny\nz\nx\n") == [asked]  # the whole source is held
        assert came("n\n1\n2\n3\n6\n") == []
        assert came("n\n1\n") == [("checks", "anomaly", "schedule checks, anomaly: rows_drop of rain")]


def test_a_paused_one_lets_it_pass(tmp_path: Path) -> None:
    with opened(tmp_path, checks=WATCHING.replace("{on", "{paused: true, on")) as site:
        site.round()
        site.wrote("n\nx\ny\n1\n")
        run_trigger(site.session, new_trigger(site.session, "rain", actor="tester"))
        assert site.round() == []
        last = site.session.state.ticks.last("checks")
        assert last is not None and last.why == "paused"


# -- overlap: cancel-older

SLOW = """\
from kfm import Output, Plan, Step, Updater
import tests.scheduling.test_kinds as here

class Slow(Updater):
    id = "slow"
    version = "1.0.0"
    def inputs(self, trigger, sources):
        return [sources.pin("body")]
    def plan(self, inputs):
        return Plan([Step(id=f"s{n}", key=(f"s{n}",), needs=(f"s{n-1}",) if n else ()) for n in range(20)])
    def perform(self, step, read):
        here.stepped(step.id)
        return Output(step.id.encode() + read.bytes(0), media_type="text/plain")
"""
stepped = print  # set by each test: what a step does


@contextmanager
def slow(folder: Path, overlap: str) -> Iterator[tuple[Session, FixedClock, partial[Session]]]:
    (folder / "slow.py").write_text(SLOW)
    (folder / "body.txt").write_text("1")
    (folder / "kfm.yml").write_text(
        "publish: noop\nwatch: {poll_s: 0, debounce_s: 0}\n"
        "datasets:\n  slow:\n    updater: slow.py:Slow\n    sensitivity: public\n"
        "    sources: {body: {uri: body.txt, format: text}}\n"
        f"    schedule: {{cron: '* * * * *', overlap: {overlap}}}\n"
    )
    clock = FixedClock(1_780_000_000_000)
    again = partial(
        open_session, config.load(str(folder / "kfm.yml"), {"KFM_ACCEPT_WEAK_STORAGE": "true"}), clock=clock
    )
    with again() as session:
        yield session, clock, again


def failed(_name: str, problem: Exception) -> None:
    raise problem


@pytest.mark.parametrize(
    "overlap, outcomes, whys",
    [
        ("cancel-older", ["done"], ["due", "due"]),  # of what was cancelled: see below
        ("skip", ["done"], ["due", "overlap"]),
        ("queue", ["done", "noop"], ["due", "due"]),
    ],
)
def test_what_comes_due_while_a_run_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overlap: str, outcomes: list[str], whys: list[str]
) -> None:
    """One process: its own run is at work when the next minute comes."""
    import time

    with slow(tmp_path, overlap) as (session, clock, again):
        upkeep = Daemon(session, ["slow"], failed)
        assert list(upkeep.turn(patient=False)) == []
        clock.advance(MINUTE)
        beside = TickThread(again, upkeep, ["slow"], pause_s=0.02)
        seen: list[str] = []

        def step(name: str) -> None:
            seen.append(name)
            if len(seen) == 3:
                clock.advance(MINUTE)
                ticks = len(list(session.state.ticks.of("slow")))
                for _ in range(500):
                    if len(list(session.state.ticks.of("slow"))) > ticks:
                        break
                    time.sleep(0.02)
                time.sleep(0.2)

        monkeypatch.setattr("tests.scheduling.test_kinds.stepped", step)
        beside.start()
        try:
            receipts = list(upkeep.turn(patient=False))
        finally:
            beside.end()
        assert [tick.why for tick in session.state.ticks.of("slow")][-2::-1] == whys
        if overlap == "cancel-older":
            assert [each.outcome for each in receipts] == ["cancelled"] and len(seen) < 20
            assert receipts[0].errors[0].code == "run.cancelled"
            receipts = list(upkeep.turn(patient=False))
        receipts += upkeep.turn(patient=False)
        assert [each.outcome for each in receipts] == outcomes
        assert all(each.trigger == "schedule" for each in receipts)
        assert not any(session.state.inbox.waiting()) and not any(session.state.runs.unfinished())


def test_who_claims_the_newer_and_dies_leaves_it_to_the_next_to_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.scheduling.test_kinds.stepped", lambda _name: begun.set() or gate.wait(60))
    begun, gate = threading.Event(), threading.Event()
    with slow(tmp_path, "cancel-older") as (session, clock, again):
        list(Daemon(session, ["slow"], failed).turn(patient=False))
        clock.advance(MINUTE)
        found: list[Receipt] = []

        def work() -> None:
            with again() as other:
                found.extend(Daemon(other, ["slow"], failed).turn(patient=False))

        worker = threading.Thread(target=work)
        worker.start()
        assert begun.wait(60)
        clock.advance(MINUTE)
        with monkeypatch.context() as patch:
            patch.setattr("kfm.app.runs.due_schedules.Ticker._cancel_older", lambda *_: None)  # killed here
            Daemon(session, ["slow"], failed)._ticker.claim()
        Daemon(session, ["slow"], failed)._ticker.claim()
        gate.set()
        worker.join()
        assert [each.outcome for each in found] == ["cancelled"]


@pytest.mark.parametrize(
    "said, what",
    [
        ("{on: event, cadence: daily}", "needs one of cadence, cron, after and on"),
        ("{on: anomaly}", "thresholds"),
        ("{on: event, when: {held_share: 0.1}}", "thresholds"),
        ("{on: event, of: [rain]}", "has no meaning without on: anomaly"),
        ("{on: anomaly, of: [ran], when: {held_share: 0.1}}", "of names no dataset 'ran'"),
        ("{on: anomaly, when: {held_share: 2}}", "held_share"),
        ("{on: never}", "schedule.on"),
        ("{cadence: daily, catch_up: all, overlap: cancel-older}", "would skip instants"),
    ],
)
def test_what_means_nothing_is_refused_with_its_place(tmp_path: Path, said: str, what: str) -> None:
    text = RAIN.replace("RAINS", f"schedule: {said}").replace("CHECKS", "").replace("TITLE", "0")
    (tmp_path / "kfm.yml").write_text(text)
    with pytest.raises(BadInput, match=r"kfm.yml:\d+:\d+: ") as caught:
        schedules_of(config.load(str(tmp_path / "kfm.yml"), {}))
    assert what in str(caught.value)
