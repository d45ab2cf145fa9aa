"""A kill -9 anywhere between a request over HTTP and its effect leads to exactly one effect.

A server is killed while it stores a request, and the caller sends it again; `kfm up` is killed while it carries the
request out, and starts again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kfm.app.daemon.requested_acts import RequestedActs
from kfm.app.daemon.source_watch import Watch
from kfm.app.runs.settlement import settle_session
from kfm.errors import KfmError
from kfm.model import refs
from tests.api.desk import GAUGES, OPERATIONS, Desk
from tests.api.listed import Listed
from tests.crash.harness import Ended, Voice, answer_of, in_child
from tests.crash.points import Points, boundary, die, install
from tests.kept import once

PARTS = 4  # of every place where it may be killed
KEY = {"idempotency-key": "once"}


class Asked(NamedTuple):
    """A request as a caller sends it, again if no answer comes."""

    who: str
    path: str
    body: dict[str, Any]
    effects: list[str]  # what the ledger must have once for it


def send(folder: Path, asked: Asked) -> list[Any]:
    site = Listed(folder)
    served = site.served(stores=True)
    body = json.dumps(asked.body).encode()
    found = served.get(asked.path, site.tokens[asked.who], method="POST", body=body, headers=KEY)
    site.close()
    return [found.status, found.body.decode()]


def up(folder: Path) -> None:
    """What `kfm up` does at its start and in its first rounds."""

    def tell(_about: str, problem: KfmError) -> None:
        raise problem

    with Listed(folder).session() as session:
        names = sorted(session.config.datasets)
        list(Watch(session, names, tell).take_up())
        acts = RequestedActs(session, names, tell)
        for _ in range(2):
            list(acts.turn())
        settle_session(session)


def looked(folder: Path) -> dict[str, Any]:
    with Listed(folder).session() as session:
        state = session.state
        receipts = [state.ledger.receipt(entry.run_id) for entry in state.ledger.entries()]
        return {
            "done": [each.job_type for each in receipts if each is not None and each.outcome == "done"],
            "failed": [each.job_type for each in receipts if each is not None and each.status == "FAILED"],
            "waiting": [each.trigger_id for each in state.inbox.waiting()],
            "unfinished": [run.run_id for run in state.runs.unfinished()],
            "ended": [[each.trigger.trigger_id, each.run_id] for each in state.inbox.all_ended()],
            "published": state.refs.at(refs.published(GAUGES)),
        }


@pytest.fixture
def desk(listed: Listed, tmp_path: Path) -> Path:
    once("desk", [listed.folder], lambda: answer_of(lambda _voice: [Desk(listed), listed.close()] and 1))
    return listed.folder


def approval(folder: Path) -> Asked:
    """The last signature that a promotion needs."""
    desk = Desk(Listed(folder))
    at = desk.published()
    assert desk.ask("olli", "rollback", to="nothing").status == 202 and desk.up()
    order = desk.ask("olli", "promote", to=at).data["change_request"]
    assert desk.up()
    shown = desk.get(f"/v1/requests/{order}", "sue")
    act = desk.signed("sue", shown["request"], "approve", shown["at"])
    desk.site.close()
    return Asked("sue", f"/v1/requests/{order}/approve", act, ["operation.approve", "operation.promote"])


def freeze(folder: Path) -> Asked:
    """An operation that one signature permits."""
    desk = Desk(Listed(folder))
    request = desk.preview("olli", "freeze")["to_sign"]["request"]
    signed = {"request": request, **desk.signed("olli", request)}
    desk.site.close()
    body = {"operation": "freeze", "dataset": GAUGES, "reason": "a test", "signed": signed}
    return Asked("olli", OPERATIONS, body, ["operation.freeze"])


def again(folder: Path) -> Path:
    copy = folder.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(folder, copy, symlinks=True))


def under(points: Points, work: Callable[[], Any]) -> Callable[[Voice], list[Any]]:
    def done(_voice: Voice) -> list[Any]:
        install(points)
        return [work(), points.labels]

    return done


def check(folder: Path, asked: Asked, before: dict[str, Any], where: str) -> None:
    """The caller sends the request again, `kfm up` starts again, and the caller sends it once more."""

    def go_on(_voice: Voice) -> list[Any]:
        first = send(folder, asked)
        up(folder)
        return [first, send(folder, asked), looked(folder)]

    first, last, found = answer_of(go_on)
    assert first == last and first[0] == 202, where
    assert sorted(found["done"][len(before["done"]) :]) == sorted(asked.effects), where
    assert found["failed"] == before["failed"] and found["waiting"] == found["unfinished"] == [], where
    assert len(found["ended"]) == len(before["ended"]) + 1, where


def carried_out(folder: Path, _asked: Asked) -> None:
    up(folder)


def killed(at: int, work: Callable[[Path, Asked], Any], folder: Path, asked: Asked) -> Ended:
    return in_child(under(Points(at, die, only=boundary), lambda: work(folder, asked)))


@pytest.mark.parametrize(
    ("make", "part"),
    [
        pytest.param(approval, -1, id="an approval, 3 kills"),
        *(
            pytest.param(make, part, id=f"{make.__name__} {part}", marks=pytest.mark.long)
            for make in (approval, freeze)
            for part in range(PARTS)
        ),
    ],
)
def test_a_kill_anywhere_leads_to_one_effect(desk: Path, make: Callable[[Path], Asked], part: int) -> None:
    asked = Asked(*answer_of(lambda _voice: list(make(desk))))
    before = answer_of(lambda _voice: looked(desk))
    first = again(desk)
    storing = answer_of(under(Points(only=boundary), lambda: send(first, asked)))[1]
    kept = answer_of(lambda _voice: looked(first))["waiting"]
    assert len(kept) == 1
    stored = desk.parent / "stored"
    shutil.copytree(first, stored, symlinks=True)
    doing = answer_of(under(Points(only=boundary), lambda: up(first)))[1]
    kills: list[tuple[Path, Callable[[Path, Asked], Any], int, str]] = [
        (desk, send, at, label) for at, label in enumerate(storing, 1)
    ]
    kills += [(stored, carried_out, at, label) for at, label in enumerate(doing, 1)]
    assert len(storing) >= 3 and len(doing) >= 27
    for begin, work, at, label in kills[1 :: len(kills) // 3] if part < 0 else kills[part::PARTS]:
        folder = again(begin)
        ended = killed(at, work, folder, asked)
        assert ended.killed, (label, ended.failure)
        check(folder, asked, before, f"{work.__name__} killed at {at}: {label}")
