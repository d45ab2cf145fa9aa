"""A trigger wakes workers once it is durable, never before, and never at the price of the command that stored it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kfm import config
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.app.session.wake_up import MOST_S, WakeUp
from kfm.clock import FixedClock
from kfm.errors import Denied, KfmError, Unavailable
from kfm.model.backfill_plan import PREFIX
from kfm.model.records import Trigger
from kfm.scheduling.triggers import keep
from kfm.telemetry.log import MemoryLog
from tests.servers.redis import RedisServer, redis_server

CONFIG = """\
state: sqlite:.kfm/state.db
publish: noop
queue: QUEUE
redis: {name: wells}
datasets:
  wells:
    version: "1.0.0"
    sensitivity: public
    sources: {rows: {uri: rows.csv, format: csv}}
    outputs: {rows: {from: rows}}
"""


class Notes:
    """A bell that writes down what is rung, and whether the trigger could be read in the state by then."""

    def __init__(self) -> None:
        self.rung: list[str] = []
        self.problem: KfmError | None = None
        self.tries = 0
        self.discarded = 0

    def ring(self, trigger_ids: Iterable[str]) -> None:
        self.tries += 1
        if self.problem is not None:
            raise self.problem
        self.rung += trigger_ids

    def wait(self, timeout_s: float) -> set[str]:
        self.tries += 1
        if self.problem is not None:
            raise self.problem
        return {self.rung.pop()} if self.rung else set()

    def depth(self) -> int:
        return len(self.rung)

    def try_out(self) -> int:
        return len(self.rung)

    def close(self) -> None: ...


def lay_out(folder: Path, queue: str = "redis://127.0.0.1:1/0") -> Path:
    (folder / "kfm.yml").write_text(CONFIG.replace("QUEUE", queue))
    (folder / "rows.csv").write_text("id,n\na,1\n")
    return folder / "kfm.yml"


def opened(path: Path) -> Session:
    return open_session(config.load(str(path), {"KFM_ACCEPT_WEAK_STORAGE": "true"}))


@pytest.fixture
def noted(tmp_path: Path) -> Iterator[tuple[Session, Notes]]:
    with opened(lay_out(tmp_path)) as session:
        bell = Notes()
        session.made_wake_up = WakeUp(lambda: bell, session.clock, session.log)
        session.state.on_kept = session.wake_up.ring
        yield session, bell


def test_a_stored_trigger_is_rung_after_its_commit(noted: tuple[Session, Notes]) -> None:
    session, bell = noted
    with session.state.transaction() as tx:
        kept = tx.inbox.keep(new_trigger(session, "wells"))
        assert bell.rung == []
    assert bell.rung == [kept.trigger_id]


def test_a_trigger_that_was_rolled_back_is_not_rung(noted: tuple[Session, Notes]) -> None:
    session, bell = noted
    with pytest.raises(ZeroDivisionError), session.state.transaction() as tx:
        tx.inbox.keep(new_trigger(session, "wells"))
        raise ZeroDivisionError
    kept = keep(session.state, new_trigger(session, "wells"))
    assert bell.rung == [kept.trigger_id]


def test_a_trigger_of_a_commit_that_failed_is_not_rung(
    noted: tuple[Session, Notes], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, bell = noted

    def fail() -> None:
        session.tables.rollback()
        raise Unavailable("lost")

    with monkeypatch.context() as patch:
        patch.setattr(session.tables, "commit", fail)
        with pytest.raises(Unavailable):
            keep(session.state, new_trigger(session, "wells"))
    session.state.sync()
    assert bell.rung == []


def test_a_trigger_of_a_commit_that_a_power_cut_may_take_is_rung_with_the_next_durable_one(
    noted: tuple[Session, Notes],
) -> None:
    session, bell = noted
    with session.state.transaction(durable=False) as tx:
        kept = tx.inbox.keep(new_trigger(session, "wells"))
    assert bell.rung == []
    session.state.sync()
    assert bell.rung == [kept.trigger_id]
    session.state.sync()
    assert bell.rung == [kept.trigger_id]


def test_operations_and_the_runs_of_backfills_wake_nobody(noted: tuple[Session, Notes]) -> None:
    session, bell = noted
    keep(session.state, Trigger(kind="operation", updater_id="freeze", dataset="wells"))
    keep(session.state, Trigger(kind="schedule", updater_id="wells", dataset="wells", trigger_id=f"{PREFIX}b.1.0.1"))
    assert bell.tries == 0


def test_a_broker_that_fails_is_tried_less_and_less_and_logged_once() -> None:
    clock, bell = FixedClock(), Notes()
    log = MemoryLog(clock)
    wake_up = WakeUp(lambda: bell, clock, log)
    triggers = [Trigger(kind="manual", updater_id="wells", dataset="wells", trigger_id="000000000001")]
    bell.problem = Unavailable("the broker does not answer")
    for _ in range(600):
        wake_up.ring(triggers)
        clock.sleep(1)
    assert 20 <= bell.tries <= 600 / MOST_S + 10
    assert wake_up.unrung == 600
    assert [line["event"] for line in log.events] == ["queue.failed"]
    bell.problem = None
    clock.sleep(MOST_S)
    wake_up.ring(triggers)
    assert bell.rung == ["000000000001"]
    assert [line["event"] for line in log.events] == ["queue.failed", "queue.answered"]


def test_a_broker_that_refuses_the_password_is_opened_again_with_the_password_as_it_is_then() -> None:
    clock, opened = FixedClock(), list[Notes]()

    def open_bell() -> Notes:
        opened.append(Notes())
        opened[-1].discarded = len(opened)
        opened[-1].problem = Denied("refuses the password") if len(opened) < 3 else None
        return opened[-1]

    wake_up = WakeUp(open_bell, clock, MemoryLog(clock))
    for _ in range(3):
        wake_up.wait(0)
        clock.sleep(MOST_S)
    assert len(opened) == 3 and wake_up.problem is None
    assert wake_up.discarded == 1 + 2 + 3, "messages that were not ours stay counted"


def test_a_wait_on_a_broker_that_fails_takes_its_time_and_ends_with_nothing() -> None:
    clock, bell = FixedClock(), Notes()
    wake_up = WakeUp(lambda: bell, clock, MemoryLog(clock))
    bell.problem = Unavailable("the broker does not answer")
    before = clock.now_ms()
    assert wake_up.wait(5) == set()
    assert wake_up.wait(5) == set()
    assert clock.now_ms() - before == 10_000


def test_a_dry_run_and_a_look_wake_nobody(tmp_path: Path) -> None:
    path = lay_out(tmp_path)
    opened(path).close()
    for mode in ("dry", "read"):
        resolved = config.load(str(path), {"KFM_ACCEPT_WEAK_STORAGE": "true"})
        with open_session(resolved, mode=mode) as session:  # type: ignore[arg-type]
            assert session.state.on_kept is None


def kfm(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kfm", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


SCHEDULE = "pipelines/schedules/nightly.yml"


def scheduled(folder: Path) -> None:
    (folder / "pipelines/schedules").mkdir(parents=True)
    (folder / SCHEDULE).write_text("version: 1\nschedules: {nightly: {dataset: wells, cadence: daily}}\n")


def test_a_command_that_stores_a_trigger_rings_through_the_broker(server: RedisServer, tmp_path: Path) -> None:
    lay_out(tmp_path, server.url)
    scheduled(tmp_path)
    done = kfm(tmp_path, "schedule", "trigger", "nightly", "--reason", "a test")
    assert done.returncode == 0, done.stderr
    message = json.loads(server.client().rpop("wells"))
    waiting = kfm(tmp_path, "--json", "triggers", "list")
    (trigger,) = json.loads(waiting.stdout)
    assert trigger["trigger_id"] in message["headers"]["argsrepr"]


def test_a_command_does_its_work_without_its_broker_and_says_so_in_one_line(tmp_path: Path) -> None:
    lay_out(tmp_path)
    scheduled(tmp_path)
    done = kfm(tmp_path, "schedule", "trigger", "nightly", "--reason", "a test")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "broker" in line]
    assert line == (
        "no worker was woken: the broker at 127.0.0.1:1 does not answer; start it, or correct `queue`; a worker finds "
        "the work when it next looks into the inbox"
    )


def test_without_a_queue_nothing_of_the_broker_is_imported(tmp_path: Path) -> None:
    path = lay_out(tmp_path)
    path.write_text(path.read_text().replace("queue: redis://127.0.0.1:1/0\n", ""))
    scheduled(tmp_path)
    code = (
        "import sys\nfrom kfm.cli.main import main\n"
        "code = main(['schedule', 'trigger', 'nightly', '--reason', 'a test'])\n"
        "found = {name.partition('.')[0] for name in sys.modules} & {'celery', 'kombu', 'redis'}\n"
        "found |= {name for name in sys.modules if name.startswith('kfm.queues')}\n"
        "sys.exit(code or (str(sorted(found)) if found else 0))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
