"""Accepted requests are not kept for ever, and a request whose id was dropped is refused for good."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kfm import config
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_inbox import replay
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock, rfc3339
from kfm.errors import Denied
from kfm.model.records import Delivery, EndedTrigger
from kfm.scheduling import triggers
from kfm.store.inbox import InboxTx
from tests.api.door import SECRETS, Case, Senders, environment, installation, send_all, served
from tests.sampling import sampled

HOUR, DAY = 3_600_000, 86_400_000
BEGIN = 1_767_225_600_000
ROWS = {Delivery: "forget_delivery", EndedTrigger: "forget_ended"}


@pytest.fixture(params=["sqlite:.kfm/state.db", "jsonl:.kfm/state.jsonl"])
def site(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in SECRETS.items():
        monkeypatch.setenv(f"KFM_SECRET_{name.upper()}", value)
    installation(tmp_path)
    with (tmp_path / "kfm.yml").open("a") as file:
        file.write(f"state: {request.param}\nwatch: {{poll_s: 0}}\n")
    return tmp_path


def opened(site: Path, now_ms: int, **env: str) -> Session:
    return open_session(config.load(str(site / "kfm.yml"), env), clock=FixedClock(now_ms))


def kfm(site: Path, now_ms: int, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "kfm.cli.main", *words]
    return subprocess.run(command, cwd=site, env=environment(KFM_NOW=rfc3339(now_ms)), capture_output=True, check=False)


def sent(site: Path, now_ms: int, count: int, seed: int) -> list[Case]:
    """Taken by the receiver and run, all at this instant."""
    senders = Senders(seed, now=lambda: now_ms, count=seed * 10_000)
    cases = [senders.valid() for _ in range(count)]
    with served(site, KFM_NOW=rfc3339(now_ms)) as (port, _process):
        assert set(asyncio.run(send_all(port, cases))) == {202}
    assert kfm(site, now_ms, "triggers", "watch", "--once").returncode == 0
    return cases


def again(session: Session, case: Case) -> str:
    try:
        kept = replay(session, case.source, [(name.encode(), value) for name, value in case.headers], case.body)
    except Denied as refusal:
        assert "time.stale" in refusal.message and "keep_days" in refusal.hint, refusal
        return "refused"
    return "known" if kept is None else "taken"


def test_what_is_past_its_time_is_dropped_and_no_replay_of_it_begins_a_run(site: Path) -> None:
    count = 1_000 if (site / "kfm.yml").read_text().count("sqlite") else 200
    old = sent(site, BEGIN, count, 1)
    late = sent(site, BEGIN + 60 * DAY, 50, 2)
    now = BEGIN + 100 * DAY
    with opened(site, now) as session:
        assert len(list(session.state.inbox.all_ended())) == count + 50, "nobody dropped anything yet"
    assert kfm(site, now, "run", "wells").returncode == 0
    github = [case for case in old if case.source == "hub"]
    rest = [case for case in old if case.source != "hub"]
    assert len(github) > count // 8 and len(rest) > count // 2
    with opened(site, now) as session:
        assert len(list(session.state.inbox.all_ended())) == 50
        kept = Counter(delivery.expires_ms == 0 for delivery in session.state.inbox.deliveries())
        assert kept[True] >= 2 * len(github), "GitHub signs no time: its ids stay"
        assert kept[False] == sum(case.source != "hub" for case in late)
        assert {again(session, case) for case in rest} == {"refused"}
        assert {again(session, case) for case in (*github, *late)} == {"known"}
    with opened(site, now, KFM_KEEP_DAYS="4000") as session:
        assert {again(session, case) for case in rest} == {"refused"}, "what was dropped stays so"
    for clock, stale in ((now, 403), (BEGIN, 200)):  # the receiver, also if its clock is set back
        with served(site, KFM_NOW=rfc3339(clock)) as (port, _process):
            answers = asyncio.run(send_all(port, old))
        assert {(case.source == "hub", answer) for case, answer in zip(old, answers, strict=True)} == {
            (True, 200),
            (False, stale),
        }
    with opened(site, now) as session:
        assert not list(session.state.inbox.waiting())


def test_the_command_says_why_it_refuses_what_is_too_old(site: Path) -> None:
    (site / "body").write_bytes(b'{"type":"stations.changed"}')
    signed = kfm(site, BEGIN, "webhook", "sign", "std", "--body", "body").stdout.decode()
    words = ("webhook", "replay", "std", "--body", "body", "--header", signed)
    told = kfm(site, BEGIN + 91 * DAY, *words)
    assert told.returncode == 4 and b"time.stale" in told.stderr and b"keep_days" in told.stderr, told
    told = kfm(site, BEGIN - DAY, *words)
    assert told.returncode == 4 and b"time.stale" in told.stderr, "nor what was signed for a time to come"
    taken = kfm(site, BEGIN + 89 * DAY, *words)
    assert taken.returncode == 0 and b"accepted: " in taken.stdout, taken
    with opened(site, BEGIN + 89 * DAY) as session:
        (delivery,) = session.state.inbox.deliveries()
        assert delivery.expires_ms == BEGIN + 300_000 + DAY, "by its own time, not by that of its replay"


@pytest.mark.parametrize("at", sampled([50, 1, 130, 170]))
def test_a_kill_while_rows_are_dropped_does_no_harm(site: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = sent(site, BEGIN, 120, 1)
    now = BEGIN + 100 * DAY
    monkeypatch.setattr(triggers, "BATCH", 20)
    child = os.fork()
    if not child:
        left = [at]

        def dying(self: InboxTx, row: Delivery | EndedTrigger) -> None:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            real[type(row)](self, row)

        real = {kind: getattr(InboxTx, name) for kind, name in ROWS.items()}
        for name in ROWS.values():
            setattr(InboxTx, name, dying)
        with opened(site, now) as session:
            settle_session(session)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, "the fault fired"
    with opened(site, now, KFM_KEEP_DAYS="4000") as session:  # only the state itself knows what it dropped
        before = Counter(again(session, case) for case in cases)
        assert "taken" not in before and before["known"], before
    with opened(site, now) as session:
        settle_session(session)
        assert not list(session.state.inbox.all_ended())
        assert {delivery.source_id for delivery in session.state.inbox.deliveries()} == {"hub"}
    with opened(site, now, KFM_KEEP_DAYS="4000") as session:
        assert {(case.source == "hub", again(session, case)) for case in cases} == {(True, "known"), (False, "refused")}


def test_it_is_looked_for_once_a_day_and_by_compact(site: Path) -> None:
    sent(site, BEGIN, 20, 1)
    sent(site, BEGIN + 2 * HOUR, 20, 2)

    def ended_after(later_ms: int, *words: str) -> int:
        now = BEGIN + 90 * DAY + later_ms
        assert kfm(site, now, *words).returncode == 0
        with opened(site, now) as session:
            return len(list(session.state.inbox.all_ended()))

    assert ended_after(HOUR, "resume") == 20, "the first are past their time"
    assert ended_after(3 * HOUR, "resume") == 20, "so are the others, but it was looked for two hours ago"
    assert ended_after(3 * HOUR, "runs", "compact") == 0
