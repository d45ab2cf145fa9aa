"""The event log: its fields, and that no value can break out of its line."""

from __future__ import annotations

import ast
import io
import json
import re
import threading
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.clock import FixedClock
from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.telemetry.log import FIELDS, EventLog, MemoryLog, NullLog, human, jsonl

SOURCE = Path(__file__).parents[2] / "src" / "kfm"


def lines_of(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().split("\n") if line]


def test_every_line_has_the_fields_of_a_worker_log() -> None:
    stream = io.StringIO()
    EventLog(FixedClock(), jsonl(stream)).event("run.started", run_id="r1")
    (line,) = lines_of(stream)
    assert set(line) == {*FIELDS, "event"}
    assert line["timestamp"] == "2026-01-01T00:00:00.000Z"
    assert line["service"] == "kfm"
    assert line["run_id"] == "r1"
    assert line["duration_ms"] is None


def test_lines_are_canonical_json() -> None:
    stream = io.StringIO()
    EventLog(FixedClock(), jsonl(stream)).event("run.started", zebra=1, alpha={"b": 1.0, "a": [True, None]})
    text = stream.getvalue()
    assert text.encode() == canonical(json.loads(text)) + b"\n"


def test_what_is_bound_is_on_every_line_after_and_on_no_other() -> None:
    log = MemoryLog(FixedClock())
    bound = log.bind(run_id="r1", dry_run=True)
    bound.event("plan.settled", steps=3)
    log.event("house.closed")
    assert [event["run_id"] for event in log.events] == ["r1", None]
    assert log.events[0]["dry_run"] is True
    assert log.events[0]["steps"] == 3


def test_words_of_a_receipt_become_words_of_a_log() -> None:
    log = MemoryLog(FixedClock())
    for status in ("RUNNING", "SUCCESS", "FAILED", "SKIPPED"):
        log.event("run.recorded", status=status, dataset_ids="a")
    assert [event["status"] for event in log.events] == ["started", "succeeded", "failed", "skipped"]
    assert log.events[0]["dataset_ids"] == ["a"]


def test_an_error_is_its_code_and_message() -> None:
    log = MemoryLog(FixedClock())
    log.event("run.failed", error=BadInput("no", hint="yes"))
    assert log.events[0]["error"] == {"code": "input.bad", "message": "no; yes"}


def test_an_unexpected_error_shows_its_place_and_no_value() -> None:
    log = MemoryLog(FixedClock())
    try:
        raise ValueError("CANARY")
    except ValueError as problem:
        log.event("run.failed", error=problem)
    error = log.events[0]["error"]
    assert error["message"] == "ValueError"
    assert error["stack"][0].startswith("test_log.py:")
    assert "CANARY" not in json.dumps(log.events)


def test_secrets_are_hidden_even_if_someone_logs_them() -> None:
    stream = io.StringIO()
    log = EventLog(FixedClock(), jsonl(stream), human(stream))
    log.event(
        "source.fetched",
        uri="https://bob:CANARY@h/x?token=CANARY&sig=CANARY",
        api_token="CANARY",
        n={"password": "CANARY"},
    )
    assert "CANARY" not in stream.getvalue()


def test_objects_without_a_json_form_are_named_by_type_only() -> None:
    log = MemoryLog(FixedClock())
    log.event("run.started", path=Path("/CANARY"), big=2**60, nan=float("nan"))
    assert log.events[0]["path"] == "PosixPath"
    assert log.events[0]["big"] == str(2**60)
    assert log.events[0]["nan"] == "nan"


HOSTILE = [
    "a\nb",
    "a\r\nb",
    "\x1b[31mred",
    "a\u2028b",
    "a\u2029b",
    "a\x85b",
    "\u202ecba",
    "\x00",
    '","status":"succeeded',
    "a=b c",
]


def test_nothing_hostile_leaves_its_line() -> None:
    for text in HOSTILE:
        both = io.StringIO(), io.StringIO()
        log = EventLog(FixedClock(), jsonl(both[0]), human(both[1])).bind(job_id=text)
        log.event("run.started", reason=text, more=[text, {text: text}])
        for stream in both:
            assert stream.getvalue().endswith("\n")
            assert stream.getvalue()[:-1].isprintable()
            assert len(stream.getvalue().splitlines()) == 1
        (line,) = lines_of(both[0])
        assert line["status"] is None


@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=1).filter(lambda k: k not in ("name", "self")), st.text()))
def test_any_text_gives_one_readable_line(fields: dict[str, str]) -> None:
    stream = io.StringIO()
    EventLog(FixedClock(), jsonl(stream)).event("run.started", **fields)
    assert stream.getvalue()[:-1].isprintable()
    assert len(lines_of(stream)) == 1


def test_a_long_value_is_cut() -> None:
    log = MemoryLog(FixedClock())
    log.event("run.started", reason="x" * 100_000)
    assert len(log.events[0]["reason"]) == 2000


def test_human_lines_show_what_is_known() -> None:
    stream = io.StringIO()
    log = EventLog(FixedClock(), human(stream)).bind(dataset_ids=["a", "b"], dry_run=False)
    log.event("run.started", reason="two words")
    assert stream.getvalue() == '00:00:00.000 run.started dataset_ids=a,b dry_run=false reason="two words"\n'


def test_threads_do_not_mix_their_lines() -> None:
    stream = io.StringIO()
    log = EventLog(FixedClock(), jsonl(stream))

    def work() -> None:
        for n in range(200):
            log.bind(n=n).event("step.finished")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(lines_of(stream)) == 800


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    class Full(io.StringIO):
        tried = 0

        def write(self, text: str) -> int:
            self.tried += 1
            raise OSError(28, "No space left on device")

    stream = Full()
    EventLog(FixedClock(), jsonl(stream)).event("run.started")
    assert stream.tried == 1


def test_the_null_log_takes_everything() -> None:
    NullLog().bind(run_id="r").event("run.started", anything=object())


def test_event_names_are_noun_and_past_participle() -> None:
    """Of every literal event name in the code: `run.committed`, never `committing run`."""
    irregular = {
        "held",
        "left",
        "kept",
        "sent",
        "read",
        "made",
        "found",
        "begun",
        "lost",
        "put",
        "taken",
        "set",
        "frozen",
    }
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "event"
                and node.args
            ):
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    found.append(first.value)
    for name in found:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*", name), name
        verb = name.rpartition(".")[2].rpartition("_")[2]
        assert verb.endswith("ed") or verb in irregular or verb.removeprefix("un") in irregular, name
