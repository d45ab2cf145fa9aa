"""What a collector of OpenTelemetry gets: a valid trace and a log record for each run, and the numbers of /metrics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kfm import Output, Step
from kfm.app.maintenance.metrics import lines
from kfm.app.maintenance.metrics_push import MetricsPush
from kfm.app.metadata.ledger_sinks import sink_progress
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.delivery.run_times import run_times
from kfm.model.records import LedgerEntry
from kfm.projections.otlp.run_trace import STEPS
from tests.delivery.ledger_runs import public_runs
from tests.delivery.sites import Rows, Site
from tests.sinks.otel.receiver import attributes, check_traces, configured, receiving


def entries(session: Session) -> list[LedgerEntry]:
    return list(session.state.ledger.entries())


def fails(site: Site, session: Session) -> None:
    """A run whose source lacks a column."""
    (site.folder / "demo.csv").write_text("other\n1\n")
    receipt = run_trigger(session, new_trigger(session, "demo"))
    assert (receipt.status, receipt.outcome) == ("FAILED", "held")
    settle_session(session)


def test_each_run_is_a_trace_with_one_root_and_one_log_record(tmp_path: Path) -> None:
    with receiving() as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            site.publish(session, {"a": "1", "b": "2"})
            site.ingest(session, {"a": "1", "b": "2"})  # nothing changed
            fails(site, session)
            site.operate(session, "rollback", {"to": "nothing"})
            found = entries(session)
            (how,) = [each for each in sink_progress(session) if each.name == "otel"]
        check_traces(receiver)
        assert (how.lag, how.dead, how.stopped) == (0, [], None)
        wanted = [entry.run_id for entry in found]
        assert [attributes(each)["cicd.pipeline.run.id"] for each in receiver.logs()] == wanted
        assert list(receiver.roots()) == wanted
        said = [attributes(receiver.roots()[run_id]) for run_id in wanted]
        assert [each["cicd.pipeline.result"] for each in said] == ["success", "success", "skip", "failure", "success"]
        assert [each["kfm.op_type"] for each in said] == ["ingest", "promote", "ingest", "ingest", "rollback"]
        assert [each["kfm.ledger_index"] for each in said] == [1, 2, 3, 4, 5]
        assert {each["kfm.dataset"] for each in said} == {"demo"}
        assert [record.severity_text for record in receiver.logs()] == ["INFO", "INFO", "INFO", "ERROR", "INFO"]
        assert {record.event_name for record in receiver.logs()} == {"run.ended"}
        resource = attributes(receiver.of("/v1/traces")[0].resource_spans[0].resource)
        assert resource["service.name"] == "kfm" and resource["service.version"]
        assert resource["service.instance.id"] == found[0].receipt_digest[7:39]


def test_the_stages_and_steps_of_a_run_are_below_its_root(tmp_path: Path) -> None:
    with receiving() as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            site.ingest(session, {"a": "1", "b": "2"})
    spans = {bytes(span.span_id): span for span in receiver.spans()}
    (root,) = receiver.roots().values()
    assert (root.name, root.kind) == ("BUILD rows.demo", root.SPAN_KIND_SERVER)
    names = {span.name: span for span in spans.values()}
    assert set(names) == {"BUILD rows.demo", "PLAN", "EXECUTE", "UPSERT", "LINEAGE", "step"}
    steps = [span for span in spans.values() if span.name == "step"]
    assert {bytes(step.parent_span_id) for step in steps} == {bytes(names["EXECUTE"].span_id)}
    about = [attributes(step) for step in steps]
    assert [each["kfm.step.position"] for each in about] == [0, 1]
    assert [each["kfm.output.id"] for each in about] == ["kfm://dataset/demo/row/a", "kfm://dataset/demo/row/b"]
    assert {each["cicd.pipeline.task.run.result"] for each in about} == {"success"}


def test_a_failed_run_names_the_code_of_its_error_and_no_text(tmp_path: Path) -> None:
    with receiving() as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            fails(site, session)
            receipt = session.state.ledger.receipt(entries(session)[0].run_id)
    assert receipt is not None and "the column" in receipt.errors[0].message
    (root,) = receiver.roots().values()
    assert root.status.code == root.status.STATUS_CODE_ERROR and root.status.message == "source.held"
    said = attributes(root)
    assert (said["error.type"], said["kfm.failure_stage"], said["kfm.outcome"]) == ("source.held", "QUARANTINE", "held")
    (stage,) = [span for span in receiver.spans() if span.parent_span_id]
    assert (stage.name, stage.status.code) == ("QUARANTINE", stage.status.STATUS_CODE_ERROR)
    (record,) = receiver.logs()
    assert attributes(record)["error.type"] == "source.held"
    assert not [raw for raw in receiver.raw if b"the column" in raw]


class FailsAtB(Rows):
    """Fails at one step, with a value of the data in the exception."""

    def perform(self, step: Step, read: Any) -> Output:
        if step.params["key"] == "b":
            raise ValueError("canary")
        return super().perform(step, read)


def test_a_step_that_fails_has_a_span_with_the_code_of_its_error(tmp_path: Path) -> None:
    with receiving() as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        config = site.folder / "kfm.yml"
        config.write_text(config.read_text().replace("tests.delivery.sites:Rows", f"{__name__}:FailsAtB"))
        with site.open() as session:
            site.source({"a": "1", "b": "2"})
            receipt = run_trigger(session, new_trigger(session, "demo"))
            assert (receipt.status, receipt.outcome) == ("FAILED", "failed")
            settle_session(session)
    check_traces(receiver)
    (root,) = receiver.roots().values()
    assert attributes(root)["error.type"] == "step.failed" == root.status.message
    named = {span.name: span for span in receiver.spans() if span.name != "step"}
    assert named["EXECUTE"].status.code == root.status.STATUS_CODE_ERROR and "UPSERT" not in named
    steps = {
        attributes(span)["kfm.step.position"]: attributes(span) for span in receiver.spans() if span.name == "step"
    }
    assert steps[1]["error.type"] == "step.failed" and steps[1]["cicd.pipeline.task.run.result"] == "failure"
    assert not [raw for raw in receiver.raw if b"canary" in raw]


def test_of_many_steps_a_hundred_have_a_span_and_the_others_are_counted(tmp_path: Path) -> None:
    with receiving() as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            site.ingest(session, {f"k{n:03}": "1" for n in range(STEPS + 30)})
            (run,) = public_runs(session.state, session.objects)
            times = run_times(session.state, run)
    check_traces(receiver)
    assert len([span for span in receiver.spans() if span.name == "step"]) == STEPS == len(times.steps)
    assert attributes(receiver.spans()[0])["kfm.steps.left_out"] == 30 == times.left


def test_only_the_wanted_signals_are_sent(tmp_path: Path) -> None:
    with receiving() as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url, ", signals: [logs]"))
        with site.open() as session:
            site.ingest(session, {"a": "1"})
            assert [each.lag for each in sink_progress(session) if each.name == "otel"] == [0]
    assert [path for path, _ in receiver.requests] == ["/v1/logs"]


def test_a_header_is_a_secret_that_is_read_when_something_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_KEY", "Bearer of-a-key")
    with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url + "/")
        more = configured("env:OTEL_EXPORTER_OTLP_ENDPOINT", ", headers: {Authorization: env:OTEL_KEY}")
        site = Site(tmp_path / "site", more=more)
        with site.open() as session:
            site.ingest(session, {"a": "1"})
    assert [each["authorization"] for each in receiver.headers] == ["Bearer of-a-key"] * 2


# -- metrics


def of_text(text: list[str]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples of the Prometheus text."""
    found = {}
    for line in text:
        if line.startswith("#"):
            continue
        made = re.fullmatch(r"([a-z_0-9]+)(?:\{(.*)\})? (\S+)", line)
        assert made is not None, line
        labels = tuple(sorted(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', made[2] or "")))
        found[made[1], labels] = float(made[3])
    return found


def of_metrics(metrics: list[Any]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The same samples from OpenTelemetry's form."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for metric in metrics:
        kind = metric.WhichOneof("data")
        holder = getattr(metric, kind)
        if kind != "gauge":
            assert holder.aggregation_temporality == 2, metric.name  # cumulative
        for point in holder.data_points:
            labels = attributes(point)
            assert point.time_unix_nano > 0 and (kind == "gauge" or point.start_time_unix_nano > 0)
            assert point.start_time_unix_nano <= point.time_unix_nano
            if kind != "histogram":
                found[metric.name, tuple(sorted(labels.items()))] = point.as_double
                continue
            assert sum(point.bucket_counts) == point.count
            assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
            count = 0
            for bound, more in zip(
                [*(f"{b:g}" for b in point.explicit_bounds), "+Inf"], point.bucket_counts, strict=True
            ):
                count += more
                found[f"{metric.name}_bucket", tuple(sorted({**labels, "le": bound}.items()))] = count
            found[f"{metric.name}_sum", tuple(sorted(labels.items()))] = point.sum
            found[f"{metric.name}_count", tuple(sorted(labels.items()))] = point.count
    return found


# They change with the clock between two looks.
OF_NOW = ("kfm_freshness_age_seconds", "kfm_tick_overdue_seconds")


def test_the_metrics_are_the_numbers_that_prometheus_reads(tmp_path: Path) -> None:
    with receiving() as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            site.publish(session, {"a": "1", "b": "2"})
            fails(site, session)
            receiver.clear()
            text = of_text(list(lines(session)))
            assert MetricsPush(session).send() == len(receiver.metrics())
            first = entries(session)[0]
    sent = of_metrics(receiver.metrics())
    wanted = {at: value for at, value in text.items() if at[0] not in ("kfm_artifact_uri", *OF_NOW)}
    assert {at: value for at, value in sent.items() if at[0] not in OF_NOW} == pytest.approx(wanted)
    assert {at for at in sent if at[0] in OF_NOW} == {at for at in text if at[0] in OF_NOW}
    kinds = {metric.name: metric.WhichOneof("data") for metric in receiver.metrics()}
    assert kinds["kfm_operations_total"] == "sum" and kinds["kfm_run_lifecycle"] == "gauge"
    assert kinds["kfm_operation_latency_seconds"] == "histogram"
    (total,) = [metric for metric in receiver.metrics() if metric.name == "kfm_ledger_entries_total"]
    assert total.sum.is_monotonic and total.sum.data_points[0].as_double == 3
    from kfm.clock import parse_instant

    assert total.sum.data_points[0].start_time_unix_nano == parse_instant(first.ts, "an entry") * 1_000_000


def test_a_metric_has_no_value_without_a_bound(tmp_path: Path) -> None:
    with receiving() as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            site.publish(session, {"a": "1"})
            fails(site, session)
            found = entries(session)
            receiver.clear()
            MetricsPush(session).send()
    values = {value for at in of_metrics(receiver.metrics()) for _, value in at[1]}
    assert "demo" in values
    for entry in found:
        for text in (entry.run_id, entry.receipt_digest, *(move.after for move in entry.moves)):
            assert not [value for value in values if text in value]
    assert not [value for value in values if "sha256" in value or "the column" in value]


def test_metrics_of_many_datasets_are_sent_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfm.sinks import otlp_messages

    monkeypatch.setattr(otlp_messages, "POINTS", 7)
    with receiving() as receiver:
        site = Site(tmp_path / "site", more=configured(receiver.url))
        with site.open() as session:
            MetricsPush(session).send()
            text = of_text(list(lines(session)))
    assert len(receiver.of("/v1/metrics")) > 5
    sent = of_metrics(receiver.metrics())
    assert set(sent) == {at for at in text if at[0] != "kfm_artifact_uri"}
