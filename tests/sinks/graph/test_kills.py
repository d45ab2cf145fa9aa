"""A follower of a graph, a file of events or a server of events is killed anywhere: the next one delivers the rest,
each run once in effect.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm.app.metadata.ledger_sinks import report_to_sinks, sink_progress
from kfm.delivery import followers
from tests.crash.harness import Ended, Voice, in_child
from tests.crash.points import Points, boundary, die, install
from tests.delivery.ledger_runs import public_runs
from tests.delivery.sites import Site
from tests.policy.servers import pretending, saying
from tests.sampling import sampled
from tests.sinks.graph.server import Neo4jServer
from tests.sinks.graph.test_neo4j import holds
from tests.sinks.graph.test_told import known as known

SLICES = 8
AT_ONCE = 3  # entries of the ledger that are noted together: so that there is something before and behind each


@pytest.fixture(scope="module")
def prepared() -> Iterator[Site]:
    """Committed: two editions, a rollback, a second dataset and a withdrawal. Nothing was delivered."""
    folder = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp") / f"kfm-kills-{os.getpid()}"
    site = Site(folder / "site", ("demo", "other"))
    settings = site.folder / "kfm.yml"
    settings.write_text(settings.read_text().replace("catalog: file:catalog\n", ""))
    with site.open() as session:
        site.publish(session, {"a": "1", "b": "2"})
        site.publish(session, {"a": "x", "c": "3"})
        site.publish(session, {"z": "1"}, "other")
        site.operate(session, "rollback")
        site.operate(session, "rollback", {"to": "nothing"}, "other")
    yield site
    shutil.rmtree(folder)


def again(site: Site, settings: str) -> Site:
    """The same once more, in a folder of its own, with somebody to tell."""
    other = Site.__new__(Site)
    other.folder = site.folder.parent / "again"
    shutil.rmtree(other.folder, ignore_errors=True)
    shutil.copytree(site.folder, other.folder, symlinks=True)
    with (other.folder / "kfm.yml").open("a") as file:
        file.write(settings)
    return other


def told_under(site: Site, points: Points) -> Ended:
    def work(_voice: Voice) -> Any:
        followers.ENTRIES = AT_ONCE
        with site.open() as session:
            install(points)
            _outside(points)
            problems = report_to_sinks(session)
            return points.labels, [problem.code for problem in problems]

    return in_child(work)


def _outside(points: Points) -> None:
    """What is said to a server: before and after every call."""
    import neo4j._async.work.transaction as working

    from kfm.sinks.http_transport import HttpTransport

    call = HttpTransport.call

    def calling(self: Any, *args: Any) -> Any:
        points.here("outside.call before")
        answer = call(self, *args)
        points.here("outside.call after")
        return answer

    HttpTransport.call = calling  # type: ignore[method-assign]
    for name in ("run", "_commit"):
        real = getattr(working.AsyncTransactionBase, name)

        async def counted(self: Any, *args: Any, _real: Any = real, _name: str = name, **kwargs: Any) -> Any:
            points.here(f"outside.{_name} before")
            answer = await _real(self, *args, **kwargs)
            points.here(f"outside.{_name} after")
            return answer

        setattr(working.AsyncTransactionBase, name, counted)


def places(ended: Ended) -> list[int]:
    labels, problems = ended.answer
    assert problems == []
    found = [
        at for at, each in enumerate(labels, 1) if each.startswith(("fs.", "tables.", "outside.")) or boundary(each)
    ]
    assert len(found) > 20 and len({labels[at - 1] for at in found}) > 4
    return found


def told_whole(site: Site) -> None:
    """After one more turn nothing is due."""
    with site.open() as session:
        assert report_to_sinks(session, again=True) == []
        (how,) = sink_progress(session)
        assert (how.lag, how.dead, how.stopped) == (0, [], None)


def expected(site: Site) -> list[tuple[str, str]]:
    with site.open("read") as session:
        return [
            (run.run_id, kind) for run in public_runs(session.state, session.objects) for kind in ("START", "COMPLETE")
        ]


def event(body: bytes) -> tuple[str, str]:
    said = json.loads(body)
    return said["run"]["runId"], said["eventType"]


@pytest.mark.parametrize("part", sampled(range(SLICES)))
def test_a_file_of_events_has_each_once_wherever_its_teller_died(prepared: Site, part: int) -> None:
    settings = "openlineage: {file: events.ndjson}\n"
    wanted = expected(prepared)
    for at in places(told_under(again(prepared, settings), Points()))[part::SLICES]:
        site = again(prepared, settings)
        assert told_under(site, Points(at, die)).killed
        told_whole(site)
        lines = (site.folder / "events.ndjson").read_bytes().splitlines()
        assert [event(line) for line in lines] == wanted, at


@pytest.mark.parametrize("part", sampled(range(SLICES)))
def test_a_server_of_events_hears_of_each_wherever_its_teller_died(prepared: Site, part: int) -> None:
    heard: dict[tuple[str, str], bytes] = {}
    twice = 0

    def answer(handler: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
        nonlocal twice
        key = event(body)
        twice += key in heard
        assert heard.setdefault(key, body) == body, "the same event in other words"
        saying(b"", 201)(handler, body)

    with pretending(answer) as url:
        settings = f"openlineage: {{url: '{url}'}}\nnetwork: {{allow: ['{url.partition('://')[2]}']}}\n"
        wanted = expected(prepared)
        for at in places(told_under(again(prepared, settings), Points()))[part::SLICES]:
            heard.clear()
            site = again(prepared, settings)
            assert told_under(site, Points(at, die)).killed
            told_whole(site)
            assert sorted(heard) == sorted(wanted), at
    assert twice, "nobody was told again"


@pytest.mark.xdist_group("neo4j")
@pytest.mark.parametrize("part", sampled(range(2 * SLICES)))
def test_a_graph_says_each_once_wherever_its_teller_died(prepared: Site, known: Neo4jServer, part: int) -> None:
    settings = f"graph: {known.url}\nneo4j: {{timeout_s: 20}}\n"
    for at in places(told_under(again(prepared, settings), Points()))[part :: 2 * SLICES]:
        known.ask("MATCH (n) DETACH DELETE n")
        site = again(prepared, settings)
        assert told_under(site, Points(at, die)).killed
        told_whole(site)
        with site.open("read") as session:
            holds(known, list(public_runs(session.state, session.objects)))
