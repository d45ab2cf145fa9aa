"""A collector that is down, slow, full or wrong, and a KFM that dies: every run's spans and log record arrive at least
once, with the same ids, and nothing waits for them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from kfm.app.maintenance.doctor import otel_verdicts
from kfm.app.maintenance.maintenance_records import compact
from kfm.app.maintenance.metrics_push import MetricsPush
from kfm.app.metadata.ledger_sinks import report_to_sinks, retry, sink_progress
from kfm.app.session.session import Session
from kfm.config import load
from kfm.delivery import followers
from kfm.delivery.followers import Progress
from kfm.delivery.public_runs import public_run
from kfm.delivery.run_times import run_times
from kfm.errors import KfmError, Unavailable
from tests.crash.harness import Ended, Voice, in_child
from tests.crash.points import Points, boundary, die, install
from tests.delivery.sites import Site
from tests.policy.servers import free_port
from tests.sampling import sampled
from tests.sinks.otel.receiver import Answer, Answering, Receiver, attributes, check_traces, configured, receiving

SLICES = 6
AT_ONCE = 3  # entries of the ledger that are noted together: so that there is something before and behind each


def otel(session: Session) -> Progress:
    (found,) = [each for each in sink_progress(session) if each.name == "otel"]
    return found


def run_ids(session: Session) -> list[str]:
    return [entry.run_id for entry in session.state.ledger.entries()]


def arrived(receiver: Receiver) -> tuple[set[str], set[str]]:
    """The runs whose root span arrived, and those whose log record did."""
    logs = {attributes(record)["cicd.pipeline.run.id"] for record in receiver.logs()}
    return set(receiver.roots()), logs


def always(status: int, headers: dict[str, str] | None = None, body: bytes = b"canary") -> Answering:
    answer: Answer = (status, headers or {}, body)
    return lambda _path, _request: answer


def test_a_collector_that_is_down_delays_no_run_and_loses_none(tmp_path: Path) -> None:
    port = free_port()
    site = Site(tmp_path / "site", more=configured(f"http://127.0.0.1:{port}"))
    with site.open() as session:
        for n in range(3):
            assert site.ingest(session, {"a": str(n)}).status == "SUCCESS"
        how = otel(session)
        assert how.lag == 3 and how.stopped is not None and "does not answer" in how.stopped.message
        with receiving(port=port) as receiver:
            problems, _ = retry(session, "otel")
            assert problems == [] and otel(session).lag == 0
            assert arrived(receiver) == (set(run_ids(session)),) * 2
            assert otel(session).stopped is None


def test_a_collector_that_dies_in_the_middle_gets_the_rest_later(tmp_path: Path) -> None:
    heard = 0

    def dies(path: str, _request: Any) -> Answer | None:
        nonlocal heard
        heard += 1
        return (0, {}, b"") if heard % 5 in (1, 3) else None  # before the spans, and between them and the records

    with receiving(dies) as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            for n in range(6):
                site.ingest(session, {"a": str(n)})
                assert otel(session).stopped is not None
            codes = [[problem.code for problem in retry(session, "otel")[0]] for _ in range(2)]
            assert codes == [["unavailable"], []] and receiver.faults == [0, 0]
            assert otel(session).lag == 0 and otel(session).dead == []
            assert arrived(receiver) == (set(run_ids(session)),) * 2
    repeated = [bytes(span.span_id) for span in receiver.spans()]
    assert len(repeated) > len(set(repeated)), "nothing was sent again"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_collector_is_tried_again(tmp_path: Path, status: int) -> None:
    with receiving(always(status)) as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            site.ingest(session, {"a": "1"})
            how = otel(session)
            assert how.stopped is not None and how.stopped.code == "unavailable" and how.dead == []
            assert str(status) in how.stopped.message and "canary" not in how.stopped.message
            assert receiver.faults == [status]
            receiver.answering = lambda _path, _request: None
            assert retry(session, "otel")[0] == [] and otel(session).lag == 0
    assert len(receiver.roots()) == 1


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_the_pause_is_as_long_as_the_collector_asks_for(tmp_path: Path, form: str) -> None:
    now_s = 0.0

    def busy(_path: str, _request: Any) -> Answer:
        text = "600" if form == "seconds" else formatdate(now_s + 600, usegmt=True)
        return 503, {"Retry-After": text}, b""

    with receiving(busy) as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            before = session.clock.now_ms()
            now_s = before / 1000
            site.ingest(session, {"a": "1"})
            after = session.clock.now_ms()
            how = otel(session).stopped
            assert how is not None and before + 595_000 <= how.not_before <= after + 600_000
            asked = len(receiver.faults)
            (problem,) = [each for each in report_to_sinks(session) if "otel" in each.message]
            assert isinstance(problem, Unavailable) and len(receiver.faults) == asked == 1


@pytest.mark.parametrize("status", [401, 403, 404, 301])
def test_a_wrong_address_or_key_stops_the_sink_and_names_the_setting(tmp_path: Path, status: int) -> None:
    with receiving(always(status, {"Location": "http://127.0.0.1:1/canary"})) as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            site.ingest(session, {"a": "1"})
            how = otel(session)
            assert how.stopped is not None and how.stopped.code == "denied" and how.dead == []
            assert "canary" not in how.stopped.message and receiver.faults == [status]
            with pytest.raises(KfmError, match=r"otel\.endpoint"):
                MetricsPush(session).send()


def refusing(run_id: Callable[[], str], answer: Answer) -> Answering:
    """Refuse each request that has a span of this run."""

    def answering(path: str, request: Any) -> Answer | None:
        if path != "/v1/traces":
            return None
        names = {
            attributes(span).get("cicd.pipeline.run.id")
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }
        return answer if run_id() in names else None

    return answering


def partial(count: int) -> Answer:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = count
    answer.partial_success.error_message = "canary"
    return 200, {"Content-Type": "application/x-protobuf"}, answer.SerializeToString()


JSON_PARTIAL: Answer = (200, {"Content-Type": "application/json"}, b'{"partialSuccess": {"rejectedSpans": "2"}}')


@pytest.mark.parametrize("answer", [(400, {}, b"canary"), partial(1), JSON_PARTIAL], ids=["400", "partial", "json"])
def test_a_refused_run_is_a_dead_letter_and_the_others_arrive(tmp_path: Path, answer: Answer) -> None:
    wanted = ""
    with receiving() as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        text = (site.folder / "kfm.yml").read_text()
        (site.folder / "kfm.yml").write_text(text.replace("otel:", "# otel:"))
        with site.open() as session:
            for n in range(7):
                site.ingest(session, {"a": str(n)})
            found = run_ids(session)
            wanted = found[3]
        (site.folder / "kfm.yml").write_text(text)
        receiver.answering = refusing(lambda: wanted, answer)
        with site.open() as session:
            assert report_to_sinks(session) == []
            how = otel(session)
            assert receiver.faults and [letter.run_id for letter in how.dead] == [wanted]
            assert how.lag == 0 and how.stopped is None and "canary" not in how.dead[0].message
            assert arrived(receiver) == (set(found) - {wanted},) * 2
            receiver.answering = lambda _path, _request: None
            assert retry(session, "otel")[0] == [] and otel(session).dead == []
    assert arrived(receiver) == (set(found),) * 2


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"Content-Type": "text/html"}, b"<html>canary</html>"),
        (200, {"Content-Type": "application/x-protobuf"}, b"\xff\xff canary"),
        (200, {"Content-Type": "application/json"}, b"canary"),
        (200, {"Content-Type": "application/json"}, b'{"partialSuccess": "canary"}'),
    ],
    ids=["a page", "no protobuf", "no json", "nonsense"],
)
def test_what_is_no_collector_is_not_believed(tmp_path: Path, answer: Answer) -> None:
    with receiving(lambda _path, _request: answer) as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            site.ingest(session, {"a": "1"})
            how = otel(session)
            assert receiver.faults == [200] and how.lag == 1 and how.stopped is not None
            assert "not as a collector" in how.stopped.message and "canary" not in how.stopped.message


@pytest.mark.parametrize("kind", ["application/json", ""])
def test_an_answer_that_rejects_nothing_is_taken_in_each_form(tmp_path: Path, kind: str) -> None:
    body = b'{"partialSuccess": {}}' if kind else b""
    with receiving(always(200, {"Content-Type": kind} if kind else {}, body)) as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            site.ingest(session, {"a": "1"})
            assert receiver.faults == [200, 200] and (otel(session).lag, otel(session).stopped) == (0, None)


def test_a_frozen_dataset_waits_for_its_thaw(tmp_path: Path) -> None:
    with receiving() as receiver:
        site = Site(tmp_path / "site", ("demo", "other"), more=configured(receiver.url))
        port = int(receiver.url.rpartition(":")[2])
        with site.open() as session:
            site.ingest(session, {"a": "0"})
    with site.open() as session:
        site.ingest(session, {"a": "1"})  # while the collector is down
        site.ingest(session, {"a": "1"}, "other")
        site.operate(session, "freeze")
        frozen = run_ids(session)
        with receiving(port=port) as receiver:
            assert retry(session, "otel")[0] == []
            sent, _ = arrived(receiver)
            of_demo = {each.run_id for each in session.state.ledger.entries() if each.dataset == "demo"}
            assert sent == set(frozen) - of_demo and otel(session).waiting == 2
            site.operate(session, "thaw")
            assert retry(session, "otel")[0] == [] and otel(session).lag == 0
            assert arrived(receiver) == (set(run_ids(session)) - {frozen[0]},) * 2


def test_a_run_whose_journal_was_archived_meanwhile_has_the_same_spans(tmp_path: Path) -> None:
    port = free_port()
    site = Site(tmp_path / "site", more=configured(f"http://127.0.0.1:{port}"))
    with site.open() as session:
        site.ingest(session, {"a": "1", "b": "2"})
        (wanted,) = run_ids(session)
        (entry,) = session.state.ledger.entries()
        run = public_run(session.state, session.objects, entry)
        times = run_times(session.state, run)
        assert len(times.steps) == 2 and compact(session, reason="a test", actor="you")[0] == 1
        assert not list(session.tables.scan("segments", wanted)) and run_times(session.state, run) == times
        with receiving(port=port) as receiver:
            assert retry(session, "otel")[0] == []
        check_traces(receiver)
        found = [span for span in receiver.spans() if span.trace_id == receiver.roots()[wanted].trace_id]
        assert [span.name for span in found].count("step") == 2


def test_without_the_extra_runs_go_on_and_doctor_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kfm.sinks.otlp_messages", None)
    import kfm.sinks

    monkeypatch.delattr(kfm.sinks, "otlp_messages", raising=False)
    with receiving() as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            assert site.ingest(session, {"a": "1"}).status == "SUCCESS"
            how = otel(session)
            assert how.stopped is not None and "not installed" in how.stopped.message and receiver.raw == []
            (verdict,) = otel_verdicts(session.resolved)
            assert not verdict.ok and "kansas-frontier-matrix[otel]" in verdict.why
            monkeypatch.undo()
            assert otel_verdicts(session.resolved) == []
            assert retry(session, "otel")[0] == [] and otel(session).lag == 0
    (site.folder / "kfm.yml").write_text((site.folder / "kfm.yml").read_text().replace("otel:", "# otel:"))
    monkeypatch.setitem(sys.modules, "kfm.sinks.otlp_messages", None)
    assert otel_verdicts(load(str(site.folder / "kfm.yml"), {})) == []


# -- killed


@pytest.fixture(scope="module")
def prepared() -> Iterator[Site]:
    """Committed: two editions, a rollback, a second dataset and a withdrawal. Nothing was sent."""
    folder = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp") / f"kfm-otel-{os.getpid()}"
    site = Site(folder / "site", ("demo", "other"))
    settings = site.folder / "kfm.yml"
    settings.write_text(settings.read_text().replace("catalog: file:catalog\n", "catalog: ''\npages: false\n"))
    with site.open() as session:
        site.publish(session, {"a": "1", "b": "2"})
        site.publish(session, {"a": "x", "c": "3"})
        site.publish(session, {"z": "1"}, "other")
        site.operate(session, "rollback")
        site.operate(session, "rollback", {"to": "nothing"}, "other")
    yield site
    shutil.rmtree(folder)


def again(site: Site, url: str) -> Site:
    """The same once more, in a folder of its own, with a collector."""
    other = Site.__new__(Site)
    other.folder = site.folder.parent / "again"
    shutil.rmtree(other.folder, ignore_errors=True)
    shutil.copytree(site.folder, other.folder, symlinks=True)
    with (other.folder / "kfm.yml").open("a") as file:
        file.write(configured(url))
    return other


def sent_under(site: Site, points: Points) -> Ended:
    def work(_voice: Voice) -> Any:
        from kfm.sinks.http_transport import HttpTransport

        followers.ENTRIES = AT_ONCE
        call = HttpTransport.call

        def calling(self: Any, *args: Any) -> Any:
            points.here("outside.call before")
            answer = call(self, *args)
            points.here("outside.call after")
            return answer

        HttpTransport.call = calling  # type: ignore[method-assign]
        with site.open() as session:
            install(points)
            problems = report_to_sinks(session)
            return points.labels, [problem.code for problem in problems]

    return in_child(work)


def places(ended: Ended) -> list[int]:
    labels, problems = ended.answer
    assert problems == []
    found = [at for at, each in enumerate(labels, 1) if each.startswith("outside.") or boundary(each)]
    assert len([at for at in found if labels[at - 1].startswith("outside.")]) == 12  # 8 runs in 3 batches, 2 signals
    return found


@pytest.mark.parametrize("part", sampled(range(SLICES)))
def test_each_run_arrives_with_the_same_ids_wherever_its_sender_was_killed(prepared: Site, part: int) -> None:
    with receiving() as receiver:
        ended = sent_under(again(prepared, receiver.url), Points())
        at_first = {bytes(span.span_id): span.SerializeToString(deterministic=True) for span in receiver.spans()}
        records = {bytes(record.span_id): record.SerializeToString(deterministic=True) for record in receiver.logs()}
        assert len(receiver.roots()) == 8 == len(records)
        check_traces(receiver)
        twice = 0
        for at in places(ended)[part::SLICES]:
            receiver.clear()
            site = again(prepared, receiver.url)
            killed = sent_under(site, Points(at, die))
            assert killed.killed
            with site.open() as session:
                assert report_to_sinks(session, again=True) == []
                how = otel(session)
                assert (how.lag, how.dead, how.stopped) == (0, [], None)
            found = [(bytes(span.span_id), span.SerializeToString(deterministic=True)) for span in receiver.spans()]
            assert dict(found) == at_first and all(at_first[id] == body for id, body in found), at
            assert {
                bytes(each.span_id): each.SerializeToString(deterministic=True) for each in receiver.logs()
            } == records
            twice += len(found) > len(at_first)
    assert twice, "nothing was sent twice"
