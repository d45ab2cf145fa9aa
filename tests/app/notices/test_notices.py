"""What receivers are told of a history: exactly these events, each once, signed, and as CloudEvents."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kfm.clock import SystemClock
from kfm.delivery.public_runs import public_run
from kfm.model import refs
from kfm.operations.move_updater import NOTHING
from kfm.projections.notices import run_notices
from tests.abilities import lacking
from tests.app.notices.receivers import OTHER, SECRET, Receiver, Site, receiver_lines, signature
from tests.app.objectives.site import promise

WELL = "n\n1\n2\n3\n"


def test_the_published_vector_has_the_published_signature() -> None:
    """Of the reference libraries of Standard Webhooks: what verifies the notices below verifies theirs."""
    found = signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}'
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_history_gives_exactly_these_notices_in_this_order(site: Site, receiver: Receiver) -> None:
    site.run()
    assert receiver.take() == ["version.pending"]
    site.operate("promote")
    assert receiver.take() == ["version.published"]
    site.run()
    assert receiver.take() == []  # nothing new
    site.run(text="n\n1\n2\nx\n3\n")
    assert receiver.take() == ["rows.held", "version.pending"]
    site.operate("promote")
    assert receiver.take() == ["run.failed", "review.wanted"]  # a gate does not publish part of a source
    site.run(text="n\n5\n6\n7\n")
    site.operate("promote")
    assert receiver.take() == ["version.pending", "version.published"]
    site.run(text="n\nx\ny\n")
    assert receiver.take() == ["rows.held"]
    (site.folder / "rain.csv").unlink()
    site.run()
    assert receiver.take() == ["run.failed"]
    site.operate("rollback")
    assert receiver.take() == ["version.withdrawn"]
    site.operate("freeze", params={"scope": "rain"})
    site.run(text="n\n7\n8\n9\n")
    assert receiver.take() == []
    site.operate("thaw", params={"scope": "rain"})
    site.run()
    assert receiver.take() == ["version.pending"]
    site.operate("rollback", params={"to": NOTHING})
    assert receiver.take() == ["version.withdrawn"]


def test_a_notice_is_a_signed_cloudevent_that_says_what_to_type(site: Site, receiver: Receiver) -> None:
    (run,) = site.run(text=WELL)
    (got,) = receiver.got
    assert got.headers["content-type"].startswith("application/cloudevents+json")
    assert got.is_signed_with(SECRET) and not got.is_signed_with(OTHER)
    assert got.headers["webhook-timestamp"] == str(site.clock.now_ms() // 1000)
    version = next(item.checksum for item in run.outputs if item.kind == "dataset")
    event = got.event
    assert len(event.pop("data").pop("receipt")) == 71
    assert event == {
        "specversion": "1.0",
        "id": got.id,
        "source": "kfm://ledger",
        "type": "org.kfm.version.pending.v1",
        "subject": "rain",
        "time": run.finished_at,
        "datacontenttype": "application/json",
    }
    assert got.event["data"] == {
        "dataset": "rain",
        "run_id": run.run_id,
        "op": "ingest",
        "status": "SUCCESS",
        "outcome": "done",
        "receipt": got.event["data"]["receipt"],
        "version": version,
        "rows": 3,
        "held_rows": 0,
        "next": "kfm publish rain --reason …",
    }


def test_two_secrets_give_two_signatures_and_a_changed_secret_counts_from_the_next_notice(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = receiver_lines(receiver.url, more=", secrets: [env:KFM_SECRET_HOOK, env:KFM_SECRET_OTHER]")
    site = Site(tmp_path, both)
    site.run()
    assert receiver.got[0].is_signed_with(SECRET) and receiver.got[0].is_signed_with(OTHER)
    site.configure(receiver_lines(receiver.url))
    site.operate("promote")
    assert receiver.got[1].is_signed_with(SECRET) and not receiver.got[1].is_signed_with(OTHER)
    monkeypatch.setenv("KFM_SECRET_HOOK", OTHER)
    site.run(text=WELL)
    assert receiver.got[2].is_signed_with(OTHER) and not receiver.got[2].is_signed_with(SECRET)


def test_the_library_of_standard_webhooks_verifies_every_notice(tmp_path: Path, receiver: Receiver) -> None:
    try:
        from standardwebhooks import Webhook, WebhookVerificationError
    except ImportError:
        lacking("standardwebhooks is not installed: `make lint` installs it")
    site = Site(tmp_path, receiver_lines(receiver.url, more=", secrets: [env:KFM_SECRET_HOOK, env:KFM_SECRET_OTHER]"))
    site.clock = SystemClock()  # the library takes no old timestamp
    site.run()
    site.operate("promote")
    assert len(receiver.got) == 2
    for got in receiver.got:
        for secret in (SECRET, OTHER):
            assert Webhook(secret).verify(got.body, got.headers) == got.event
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(got.body.replace(b"rain", b"snow"), got.headers)


def test_a_rollback_that_takes_others_along_gives_a_notice_for_each_dataset(site: Site, receiver: Receiver) -> None:
    site.run()
    site.operate("promote")
    with site.open("read") as session:
        entry = next(iter(session.state.ledger.entries(reverse=True)))
        run = public_run(session.state, session.objects, entry, parts=False)
    (move,) = run.moves
    other = msgspec.structs.replace(move, ref="published/snow", before=move.after, after="")
    back = msgspec.structs.replace(run, op="rollback", moves=(move, other))
    found = list(run_notices(back))
    assert [(each.event, each.datasets, each.body["data"]["version"]) for each in found] == [
        ("withdrawn", ("rain",), move.after),
        ("withdrawn", ("snow",), ""),
    ]
    assert len({each.body["id"] for each in found}) == 2


def test_a_receiver_gets_only_its_events_of_its_datasets(tmp_path: Path, receiver: Receiver) -> None:
    lines = receiver_lines(receiver.url, "snow", on="[published, withdrawn]", more=", datasets: ['s*w']")
    site = Site(tmp_path, lines + receiver_lines(f"{receiver.url}/2", "review", on="[held]"))
    for name in ("rain", "snow"):
        site.run(name)
        site.operate("promote", name)
    site.operate("rollback", "snow", {"to": NOTHING})
    got = [(each.path, each.kind, each.event["subject"]) for each in receiver.got]
    assert sorted(got) == [
        ("/hook", "version.published", "snow"),
        ("/hook", "version.withdrawn", "snow"),
        ("/hook/2", "version.pending", "rain"),
        ("/hook/2", "version.pending", "snow"),
    ]


def test_a_new_receiver_gets_what_happens_from_then_on(tmp_path: Path, receiver: Receiver) -> None:
    site = Site(tmp_path, "  {}\n")
    site.run()
    site.operate("promote")
    site.configure(receiver_lines(receiver.url))
    site.run(text=WELL)
    assert receiver.kinds == ["version.pending"]


def test_a_dataset_is_late_once_and_in_time_again_once_whatever_restarts(site: Site, receiver: Receiver) -> None:
    site.run()
    site.operate("promote")
    receiver.take()
    site.advance(hours=25)
    site.settle()
    assert receiver.take() == []
    site.advance(hours=2)
    site.settle()
    (got,) = receiver.got
    assert got.kind == "dataset.late" and got.event["subject"] == "rain"
    assert got.event["data"]["next"] == "kfm why-not rain" and got.is_signed_with(SECRET)
    for _ in range(3):
        site.settle()
    assert receiver.take() == ["dataset.late"]
    site.run(text=WELL)
    site.operate("promote")
    assert receiver.take() == ["version.pending", "version.published", "dataset.in_time"]
    site.advance(hours=27)
    site.settle()
    assert receiver.take() == ["dataset.late"]


@pytest.mark.parametrize("mistake", ["objectives", "target"])
def test_a_mistake_in_one_target_hides_no_other_and_is_said(site: Site, receiver: Receiver, mistake: str) -> None:
    site.run()
    site.operate("promote")
    receiver.take()
    if mistake == "objectives":
        (site.folder / "slos").mkdir()
        (site.folder / "slos/a.yml").write_text("x:\n")
    else:
        path = site.folder / "kfm.yml"
        path.write_text(path.read_text().replace("title: Snow", "title: Snow\n    freshness: {max_age: 26 hours}"))
    site.advance(hours=27)
    session = site.settle()
    (problem,) = session.sink_problems
    assert "notices of late data and spent budgets are incomplete" in problem.message and problem.hint
    assert receiver.take() == ["dataset.late"]


def test_what_becomes_late_while_the_receiver_is_down_comes_later_in_order(site: Site, receiver: Receiver) -> None:
    from tests.app.notices.receivers import status

    site.run()
    site.operate("promote")
    receiver.take()
    receiver.always = status(503)
    site.advance(hours=27)
    site.settle()
    site.run(text=WELL)
    site.operate("promote")
    assert set(receiver.take()) == {"dataset.late"}  # the rest was not tried during the pause
    receiver.always = status(204)
    site.advance(hours=1)
    site.settle()
    assert receiver.take() == ["version.pending", "version.published", "dataset.late", "dataset.in_time"]


def test_a_frozen_dataset_is_late_when_it_is_thawed(site: Site, receiver: Receiver) -> None:
    site.run()
    site.operate("promote")
    site.operate("freeze", params={"scope": "rain"})
    receiver.take()
    site.advance(hours=27)
    site.settle()
    assert receiver.take() == []
    site.operate("thaw", params={"scope": "rain"})
    site.settle()
    assert receiver.take() == ["dataset.late"]


def test_a_spent_budget_is_told_once_and_its_recovery_too(site: Site, receiver: Receiver) -> None:
    promise(site.folder, "rain-success", target=0.6, window="1d")
    site.run()
    site.run(text="n\nx\ny\n")
    assert receiver.take() == ["version.pending", "rows.held", "budget.burnt"]
    site.settle()
    assert receiver.take() == []
    site.advance(hours=25)
    site.run(text=WELL)
    assert receiver.kinds == ["version.pending", "budget.recovered"]
    assert receiver.got[1].event["data"] == {
        "dataset": "rain", "objective": "rain-success", "next": "kfm slo show rain-success",
    }  # fmt: skip


def test_a_preview_and_a_dry_run_send_nothing(site: Site, receiver: Receiver) -> None:
    from kfm.app.runs.run_control import run_trigger
    from kfm.app.runs.settlement import settle_session
    from kfm.app.runs.trigger_request import new_trigger

    with site.open("dry") as session:
        run_trigger(session, new_trigger(session, "rain"))
        effects = settle_session(session)
    assert receiver.got == []
    assert [(each.method, each.target) for each in effects if each.target.startswith("notify")] == [
        ("emit_event", "notify.ops")
    ]
    with site.open("read") as session:
        assert not session.state.refs.at(refs.processed("rain"))
