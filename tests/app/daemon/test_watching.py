"""A change is noticed once for every dataset it concerns; an unchanged source starts no run; triggers that wait
together run once.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm import config
from kfm.app.daemon.source_watch import Watch
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.errors import KfmError
from kfm.model.records import Receipt
from kfm.scheduling import triggers
from kfm.store.inbox import InboxTx
from tests.app.daemon.site import Site, installation, served
from tests.engine.installations import Installation
from tests.sampling import sampled


@pytest.fixture
def site() -> Iterator[Site]:
    with served() as site:
        yield site


class Watcher:
    """A watch whose clock the test moves."""

    def __init__(self, session: Session, clock: FixedClock, *names: str) -> None:
        self.session = session
        self.clock = clock
        self.problems: list[tuple[str, KfmError]] = []
        self.watch = Watch(session, names, lambda name, problem: self.problems.append((name, problem)))

    def round(self) -> list[Receipt]:
        """An hour later: look at everything that is due, and run what waits."""
        self.clock.advance(3_600_000)
        while self.watch.poll():
            self.clock.advance(2_000)
        self.clock.advance(60_000)
        receipts = list(self.watch.drain())
        settle_session(self.session)
        return receipts


def watcher(folder: Path, site: Site, *names: str) -> Watcher:
    clock = FixedClock()
    session = open_session(config.load(installation(folder, site, *names), {}), clock=clock)
    return Watcher(session, clock, *names)


def published(session: Session, name: str) -> bytes:
    version = session.state.refs.at(f"processed/{name}")
    entry = json.loads(session.objects.read(version))
    return session.objects.read(entry["digest"])


def test_a_change_makes_one_run_and_no_change_makes_none(tmp_path: Path, site: Site) -> None:
    here = watcher(tmp_path, site, "wells")
    assert [receipt.outcome for receipt in here.round()] == ["done"]
    ledger = here.session.state.ledger.head()
    for _ in range(3):
        assert here.round() == []
    assert here.session.state.ledger.head() == ledger, "to look and find nothing leaves no trace in the ledger"
    assert site.asked[-1] == '"1"', "it asked whether its copy is current"
    site.change(b"api,depth\n15-001,101\n", '"2"')
    (receipt,) = here.round()
    assert (receipt.outcome, receipt.trigger) == ("done", "poll")
    assert published(here.session, "wells") == site.body


def test_another_etag_over_the_same_bytes_makes_no_run(tmp_path: Path, site: Site) -> None:
    here = watcher(tmp_path, site, "wells")
    here.round()
    site.change(site.body, '"another"')
    assert here.round() == []
    assert site.asked.count("") == 1


def test_other_bytes_under_the_same_etag_are_seen_at_the_next_whole_fetch(tmp_path: Path, site: Site) -> None:
    here = watcher(tmp_path, site, "wells")
    here.round()
    site.change(b"api,depth\n15-009,900\n")
    assert here.round() == [], "the server says nothing changed"
    here.clock.advance(86_400_000)
    assert [receipt.outcome for receipt in here.round()] == ["done"]
    assert published(here.session, "wells") == site.body


def test_a_source_of_two_datasets_is_requested_once_and_both_datasets_run(tmp_path: Path, site: Site) -> None:
    here = watcher(tmp_path, site, "east", "west")
    assert sorted(receipt.dataset for receipt in here.round()) == ["east", "west"]
    site.asked.clear()
    site.change(b"api,depth\n15-002,7\n", '"2"')
    before = len(site.asked)
    here.clock.advance(3_600_000)
    kept = here.watch.poll()
    assert len(site.asked) == before + 1
    assert sorted(trigger.dataset for trigger in kept) == ["east", "west"]


def test_a_run_by_hand_of_one_hides_nothing_from_the_other(tmp_path: Path, site: Site) -> None:
    here = watcher(tmp_path, site, "east", "west")
    here.round()
    site.change(b"api,depth\n15-002,7\n", '"2"')
    run_trigger(here.session, new_trigger(here.session, "east"))
    (receipt,) = here.round()
    assert (receipt.dataset, receipt.outcome) == ("west", "done")
    assert published(here.session, "east") == published(here.session, "west") == site.body


def test_a_change_that_was_seen_is_not_forgotten_when_the_state_cannot_be_written(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = watcher(tmp_path, site, "wells")
    here.round()
    site.change(b"api,depth\n15-003,33\n", '"2"')
    fired = []

    def fails(_tx: InboxTx, _checkpoint: object) -> None:
        fired.append(True)
        raise KfmError("the disk is away")

    with monkeypatch.context() as patch:
        patch.setattr(InboxTx, "keep_checkpoint", fails)
        here.clock.advance(3_600_000)
        with pytest.raises(KfmError, match="away"):
            here.watch.poll()
    assert fired
    assert list(here.session.state.inbox.waiting()) == []
    (receipt,) = here.round()
    assert receipt.outcome == "done" and published(here.session, "wells") == site.body


def test_a_storm_of_triggers_makes_one_run_and_each_has_its_receipt(tmp_path: Path, site: Site) -> None:
    here = watcher(tmp_path, site, "wells")
    here.round()
    site.change(b"api,depth\n15-004,44\n", '"2"')
    session = here.session
    for _ in range(100):
        triggers.keep(session.state, new_trigger(session, "wells", kind="webhook", actor="webhook:x", reason="storm"))
    here.watch.poll()
    triggers.keep(session.state, new_trigger(session, "wells", reason="by hand"))
    asked = len(site.asked)
    receipts = here.round()
    assert [receipt.outcome for receipt in receipts].count("done") == 1
    assert len(site.asked) - asked <= 3, "one look by the timetable, one by the run"
    assert len(receipts) == 102, "a hundred, the poll, and the one by hand"
    assert len({receipt.run_id for receipt in receipts}) == len(receipts)
    merged = [receipt for receipt in receipts if receipt.status == "SKIPPED"]
    assert all(receipt.provenance["merged_into"] == receipts[0].run_id for receipt in merged)
    assert list(session.state.inbox.waiting()) == []
    for ended in session.state.inbox.all_ended():
        assert session.state.ledger.receipt(ended.run_id) is not None


def test_a_storm_is_waited_out_but_not_for_ever(tmp_path: Path, site: Site) -> None:
    here = watcher(tmp_path, site, "wells")
    here.round()
    site.change(b"api,depth\n15-004,45\n", '"2"')
    session = here.session
    runs = 0
    for second in range(60):
        triggers.keep(session.state, new_trigger(session, "wells", kind="webhook"))
        here.clock.advance(1000)
        runs += sum(receipt.status != "SKIPPED" for receipt in here.watch.drain())
        if second < 15:
            assert runs == 0, "it is still gathering"
    assert runs == 1


def test_a_trigger_that_comes_while_its_dataset_runs_is_not_swallowed(tmp_path: Path, site: Site) -> None:
    here = watcher(tmp_path, site, "wells")
    here.round()
    session = here.session
    site.change(b"api,depth\n15-005,1\n", '"2"')
    triggers.keep(session.state, new_trigger(session, "wells", kind="webhook"))
    here.clock.advance(60_000)
    running = here.watch.drain()
    first = next(running)  # it has looked at the world
    site.change(b"api,depth\n15-005,2\n", '"3"')
    late = triggers.keep(session.state, new_trigger(session, "wells", kind="webhook"))
    assert first.outcome == "done" and list(running) == []
    assert session.state.inbox.kept(late) is not None
    here.clock.advance(60_000)
    (second,) = here.watch.drain()
    assert second.outcome == "done" and published(session, "wells") == site.body


def test_a_server_that_asks_for_patience_gets_it(tmp_path: Path, site: Site) -> None:
    here = watcher(tmp_path, site, "wells")
    here.round()
    site.status, site.retry_after = 503, "3000"
    here.clock.advance(3_600_000)
    here.watch.poll()
    asked = len(site.asked)
    assert here.problems and here.problems[-1][1].code == "unavailable"
    for _ in range(29):
        here.clock.advance(100_000)
        here.watch.poll()
    assert len(site.asked) == asked, "fifty minutes were asked for"
    site.status, site.retry_after = 200, ""
    here.clock.advance(1_200_000)
    here.watch.poll()
    assert len(site.asked) > asked


def test_a_freeze_keeps_the_triggers_and_a_thaw_runs_them_once(tmp_path: Path, site: Site) -> None:
    here = watcher(tmp_path, site, "wells")
    here.round()
    run_operation(here.session, "freeze", "wells", reason="maintenance")
    site.change(b"api,depth\n15-006,6\n", '"2"')
    assert {receipt.outcome for receipt in here.round()} <= {"frozen"}
    assert len(list(here.session.state.inbox.waiting())) == 1
    run_operation(here.session, "thaw", "wells", reason="over")
    (receipt,) = [each for each in here.round() if each.outcome != "frozen"]
    assert receipt.outcome == "done" and list(here.session.state.inbox.waiting()) == []


@pytest.mark.parametrize("seed", sampled(range(3)))
def test_a_watch_that_is_killed_again_and_again_misses_nothing(tmp_path: Path, site: Site, seed: int) -> None:
    chance = random.Random(seed)
    more = "watch: {poll_s: 0.05, host_pause_s: 0, debounce_s: 0, jitter: 0}"
    path = installation(tmp_path, site, "east", "west", more=more)
    command = [sys.executable, "-m", "kfm.cli.main", "--config", path, "--quiet", "triggers", "watch"]
    killed = 0
    for n in range(6):
        site.change(b"api,depth\n15-%03d,%d\n" % (n, n), f'"{n}-{seed}"')
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.15, 0.7))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    assert killed == 6
    done = subprocess.run([*command, "--once"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    with open_session(config.load(path, {}), mode="read") as session:
        assert published(session, "east") == published(session, "west") == site.body
        assert list(session.state.inbox.waiting()) == [] and list(session.state.runs.unfinished()) == []
        ended = [each.trigger.trigger_id for each in session.state.inbox.all_ended()]
        assert len(ended) == len(set(ended)) > 0


def test_a_watch_ends_as_a_run_does_when_only_the_delivery_failed(tmp_path: Path, site: Site) -> None:
    path = installation(tmp_path, site, "wells", "works")
    said = "    title: T\n    license: CC0-1.0\n    sensitivity: public\n    sources:"
    Path(path).write_text(Path(path).read_text().replace("    sources:", said))
    kfm = Installation(tmp_path).kfm
    kfm("run")
    public = tmp_path / "public"
    public.write_text("in the way")
    kfm("promote", "wells", expect=74)
    site.change(b"api,depth\n15-001,101\n", '"2"')
    told = "committed, but not delivered yet, do not repeat it: "
    watched = kfm("triggers", "watch", "wells", "--once", expect=74)
    assert "SUCCESS" in watched.out and f"kfm: {told}cannot publish a file" in watched.err
    kfm("run", "wells", expect=74)

    public.unlink()
    version = {row["ref"]: row["version"] for row in kfm("refs", "list", "--json").data}["published/wells"]
    other = public / f"datasets/wells/versions/{version[7:23]}.ndjson"
    other.parent.mkdir(parents=True)
    other.write_text("other bytes")
    site.change(b"api,depth\n15-001,102\n", '"3"')
    told = f"kfm: wells: {told}published file"
    assert told in kfm("triggers", "watch", "works", "--once").err, "of another dataset it is told, and is no failure"
    watched = kfm("triggers", "watch", "wells", "--once", expect=65)
    assert "SUCCESS" in watched.out and told in watched.err
    kfm("run", "wells", expect=65)

    other.unlink()
    site.change(b"api,depth\n15-001,103\n", '"4"')
    assert told not in kfm("triggers", "watch", "wells", "--once").err
    assert (public / "datasets/wells/current.json").exists()
