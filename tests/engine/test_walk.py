"""What a run does and does not do."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from kfm.app.runs.run_control import resume_runs, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_updater
from kfm.engine.run import run
from kfm.errors import Busy
from kfm.model.keys import digest
from kfm.model.records import SourceRef, Step, Trigger
from kfm.model.updater import Output, Plan, Reader
from kfm.scheduling.triggers import keep
from tests.engine.site_under_test import SOURCE, Lines, MemorySite, folder_site, opened


def keyed(*keys: str, complete: bool = False) -> Plan:
    return Plan([Step(id=key, key=(key,)) for key in keys], complete=complete)


def test_the_second_run_over_the_same_content_is_a_noop_with_a_receipt() -> None:
    site = MemorySite()
    first, second = site.run(Lines()), site.run(Lines())
    assert (first.status, first.outcome) == ("SUCCESS", "done")
    assert (second.status, second.outcome) == ("SKIPPED", "noop")
    assert first.run_id != second.run_id
    assert [entry.run_id for entry in site.state.ledger.entries()] == [first.run_id, second.run_id]


def test_changed_content_makes_a_new_version_that_supersedes_the_old() -> None:
    site = MemorySite()
    site.run(Lines())
    before = site.state.refs.at("processed/demo")
    site.shelf.body = b"a,b\n3,4\n"
    receipt = site.run(Lines())
    after = site.state.refs.at("processed/demo")
    assert after != before
    version = site.state.ledger.version("demo", after)
    assert version is not None and version.supersedes == before and version.run_id == receipt.run_id


def test_force_makes_a_new_attempt_and_never_a_duplicate() -> None:
    site = MemorySite()
    first = site.run(Lines())
    again = site.run(Lines(), force=True, reason="a colleague asked")
    assert again.outcome == "unchanged" and again.run_id != first.run_id
    assert len(list(site.state.refs.history("processed/demo"))) == 1
    assert [entry.reason for entry in site.state.ledger.entries()] == ["", "a colleague asked"]


def test_force_without_a_reason_is_refused() -> None:
    receipt = MemorySite().run(Lines(), force=True)
    assert receipt.errors[0].code == "refused" and "--reason" in receipt.errors[0].message


def test_absent_keys_are_carried_over_unless_the_run_is_sealed_and_complete() -> None:
    site = MemorySite(deletion_budget=1.0)
    site.run(Lines(lambda _i: keyed("a", "b")))
    site.shelf.body = b"partial"
    site.run(Lines(lambda _i: keyed("a", complete=True)))  # complete, but the source was not sealed
    assert set(site.content("processed/demo")) == {"a", "b"}
    site.shelf.body, site.shelf.complete = b"whole", True
    site.run(Lines(lambda _i: keyed("a")))  # sealed, but the plan does not claim to be complete
    assert set(site.content("processed/demo")) == {"a", "b"}
    site.shelf.body = b"whole again"
    site.run(Lines(lambda _i: keyed("a", complete=True)))
    assert set(site.content("processed/demo")) == {"a"}


def test_deletions_beyond_the_budget_are_denied_and_nothing_changes() -> None:
    site = MemorySite(deletion_budget=0.1)
    site.shelf.complete = True
    site.run(Lines(lambda _i: keyed(*"abcdefghij", complete=True)))
    before = site.state.refs.at("processed/demo")
    site.shelf.body = b"shrunk"
    receipt = site.run(Lines(lambda _i: keyed(*"abcdefgh", complete=True)))
    assert receipt.outcome == "denied" and "2 of 10" in receipt.errors[0].message
    assert site.state.refs.at("processed/demo") == before
    site.shelf.body = b"one less"
    assert site.run(Lines(lambda _i: keyed(*"abcdefghi", complete=True))).outcome == "done"


def test_a_changed_plan_under_one_version_is_refused_with_a_diff() -> None:
    site = MemorySite()
    site.run(Lines(lambda _i: keyed("a", "b")))
    receipt = site.run(Lines(lambda _i: keyed("a", "c")), force=True, reason="x")
    assert receipt.errors[0].code == "plan.changed"
    assert "- step b" in receipt.errors[0].message and "+ step c" in receipt.errors[0].message
    assert "bump" in receipt.errors[0].message


def test_a_cycle_is_refused_by_naming_it() -> None:
    plan = Plan([Step(id="a", needs=("c",)), Step(id="b", needs=("a",)), Step(id="c", needs=("b",))])
    receipt = MemorySite().run(Lines(lambda _i: plan))
    assert "cycle" in receipt.errors[0].message and "a → c → b → a" in receipt.errors[0].message


BAD_PLANS: dict[str, tuple[Plan, str]] = {
    "twice the same id": (Plan([Step(id="a"), Step(id="a")]), "two steps"),
    "twice the same key": (Plan([Step(id="a", key=("k",)), Step(id="b", key=("k",))]), "two steps write the key k"),
    "a need that is nowhere": (Plan([Step(id="a", needs=("b",))]), "not in the plan"),
    "a need that comes later, in a stream": (Plan(iter([Step(id="a", needs=("b",)), Step(id="b")])), "before it"),
    "no id": (Plan([Step(id="")]), "printable id"),
    "an id with a line break": (Plan([Step(id="a\nb")]), "printable id"),
    "a key that is a text": (Plan([Step(id="a", key="k")]), "tuple of texts"),  # type: ignore[arg-type]
    "an empty key": (Plan([Step(id="a", key=())]), "tuple of texts"),
    "not a step": (Plan(["a"]), "not a Step"),  # type: ignore[list-item]
    "a parameter that is NaN": (Plan([Step(id="a", params={"x": float("nan")})]), "canonical form"),
    "a parameter past 2^53": (Plan([Step(id="a", params={"x": 2**60})]), "canonical form"),
    "a parameter that is a set": (Plan([Step(id="a", params={"x": {1}})]), "canonical form"),
    "half a surrogate": (Plan([Step(id="a", params={"x": "\ud800"})]), "canonical form"),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_a_bad_plan_is_refused_and_nothing_is_performed(name: str) -> None:
    plan, said = BAD_PLANS[name]
    site = MemorySite()
    steps = list(plan.steps) if not isinstance(plan.steps, list) else plan.steps
    streamed = "stream" in name
    updater = Lines(lambda _i: Plan(iter(steps) if streamed else steps))
    receipt = site.run(updater)
    assert receipt.status == "FAILED"
    assert said in receipt.errors[0].message
    assert site.state.refs.at("processed/demo") == ""


def test_a_list_in_any_order_is_sorted_so_that_needs_come_first() -> None:
    order: list[str] = []

    class Ordered(Lines):
        def perform(self, step: Step, read: Reader) -> Output:
            order.append(step.id)
            return Output(b"".join(read.bytes(need) for need in step.needs) + step.id.encode())

    steps = [Step(id="c", key=("c",), needs=("b",)), Step(id="b", needs=("a",)), Step(id="a")]
    site = MemorySite()
    assert site.run(Ordered(lambda _i: Plan(steps))).status == "SUCCESS"
    assert order == ["a", "b", "c"]
    assert site.content("processed/demo") == {"c": b"abc"}


def test_a_failed_step_publishes_nothing_and_names_the_place_not_the_value() -> None:
    class Failing(Lines):
        def perform(self, step: Step, read: Reader) -> Output:
            raise ValueError("38.9517 -95.2353 is a secret place")

    site = MemorySite()
    site.metadata = {"title": "Places", "sensitivity": "restricted"}
    receipt = site.run(Failing())
    assert receipt.outcome == "failed" and receipt.errors[0].code == "step.failed"
    assert "ValueError at test_walk.py:" in receipt.errors[0].message
    for table in site.state.tables._rows.values():  # type: ignore[attr-defined]
        for value in table.values():
            assert b"38.9517" not in value
    assert site.state.refs.at("processed/demo") == ""
    assert site.run(Lines()).outcome == "done"


def test_another_live_worker_keeps_the_work() -> None:
    site = MemorySite()
    site.state.leases.acquire("lines/demo", "another-host:1:1", 60_000)
    with pytest.raises(Busy):
        site.run(Lines())
    site.clock.advance(60_001)
    assert site.run(Lines()).status == "SUCCESS"


def test_a_source_that_changes_while_a_run_is_unfinished_supersedes_it() -> None:
    class Power(BaseException):
        pass

    class Dying(Lines):
        def perform(self, step: Step, read: Reader) -> Output:
            raise Power

    site = MemorySite()
    with pytest.raises(Power):
        site.run(Dying())
    (unfinished,) = site.state.runs.unfinished()
    site.shelf.body = b"newer"
    receipt = site.run(Lines())
    assert receipt.outcome == "done" and receipt.run_id != unfinished.run_id
    old = site.state.ledger.receipt(unfinished.run_id)
    assert old is not None and (old.status, old.outcome) == ("FAILED", "superseded")
    assert not list(site.state.runs.unfinished())
    assert site.content("processed/demo") == {"all": b"newer"}


@pytest.mark.parametrize("missing", ["title", "license", "sensitivity", "contract"])
def test_promotion_without_one_line_of_the_checklist_is_denied(missing: str) -> None:
    site = MemorySite()
    site.metadata = {k: v for k, v in site.metadata.items() if k != missing}
    updater = Lines()
    if missing == "contract":
        original = updater.inputs
        updater.inputs = lambda t, s: [msgspec.structs.replace(r, contract_hash="") for r in original(t, s)]  # type: ignore[method-assign]
    site.run(updater)
    receipt = site.operate("promote")
    assert receipt.outcome == "denied"
    assert site.state.refs.at("published/demo") == ""
    assert receipt.policy_decisions[0].allow is False and receipt.policy_decisions[0].reasons


@pytest.mark.parametrize("label", ["restricted", "Public", "", "unknown"])
def test_what_is_not_plainly_public_is_not_published(label: str) -> None:
    site = MemorySite()
    site.metadata = {**site.metadata, "sensitivity": label}
    made = site.run(Lines())
    assert "denied" in (made.outcome, site.operate("promote").outcome) or made.outcome == "escalated"
    assert (made.outcome == "escalated") is (label in ("Public", "unknown"))
    assert site.state.refs.at("published/demo") == ""


def test_a_large_plan_streams_and_gives_the_same_as_a_small_window() -> None:
    def plan(_inputs: Sequence[SourceRef]) -> Plan:
        return Plan(Step(id=f"s{n}", key=(f"{n * 7919 % 3000:06d}",), params={"n": n}) for n in range(3000))

    digests = set()
    for threads, window in ((1, 1), (2, 7), (8, 512)):
        site = MemorySite(threads=threads, window=window)
        assert site.run(Lines(plan)).status == "SUCCESS"
        digests.add(site.state.refs.at("processed/demo"))
    assert len(digests) == 1


def test_the_manifest_is_sorted_canonical_lines_and_its_digest_is_the_version() -> None:
    site = MemorySite()
    site.run(Lines(lambda _i: keyed("é", "a", "z", "😀", '"')))
    version = site.state.refs.at("processed/demo")
    body = site.world.objects.read(version)
    assert digest(body) == version
    from kfm.model.canonical import canonical
    from kfm.parsing.strict_json import decode

    entries = [decode(line, "manifest") for line in body.splitlines()]
    assert [canonical(entry) for entry in entries] == body.splitlines()
    keys = [entry["key"] for entry in entries]
    assert keys == sorted(keys)


def test_a_trigger_that_was_kept_is_there_until_a_run_of_it_ends() -> None:
    site = MemorySite()
    asked = Trigger(kind="webhook", updater_id="lines", dataset="demo", actor="test")
    kept = keep(site.state, asked)
    assert kept.trigger_id and list(site.state.inbox.waiting()) == [kept]
    assert run(site.context(kept, Lines())).outcome == "done"
    assert list(site.state.inbox.waiting()) == []


@pytest.mark.parametrize("value", ["a\rb", "a\nb", 'a"b', "a,b", "", " a ", "é😀", "a\r\nb"])
def test_a_csv_output_is_read_back_as_it_was_written(value: str) -> None:
    output = Output.csv([{"x": value, "y": "1"}, {"x": "2", "y": value}])
    assert isinstance(output.body, bytes)
    rows = list(csv.DictReader(io.StringIO(output.body.decode(), newline="")))
    assert rows == [{"x": value, "y": "1"}, {"x": "2", "y": value}]
    assert output.body.startswith(b"x,y\n")


def test_a_csv_output_without_rows_has_its_header() -> None:
    assert Output.csv([], ("a", "b")).body == b"a,b\n"
    assert Output.csv([]).body == b""


READS = """
    from kfm import Output, Plan, Step, Updater

    class U(Updater):
        version = "1.0.0"

        def inputs(self, trigger, sources):
            return [sources.pin("source")]

        def plan(self, inputs):
            return Plan([Step(id="a", key=("a",))])

        def perform(self, step, read):
            return Output.json(list(read.csv("source")))
"""


def read_as(folder: Path, body: bytes, source: str, updater: str = READS) -> object:
    """What an updater makes of a source that is declared so."""
    config = folder_site(folder, updater, body)
    config.write_text(config.read_text().replace(SOURCE, source))
    with opened(config) as session:
        receipt = run_trigger(session, new_trigger(session, "demo"))
        assert receipt.status == "SUCCESS", receipt.errors
        manifest = session.objects.read(session.state.refs.at("processed/demo"))
        return msgspec.json.decode(session.objects.read(msgspec.json.decode(manifest)["digest"]))


def test_a_csv_source_is_read_with_the_delimiter_and_encoding_of_its_contract(tmp_path: Path) -> None:
    contract = "format: csv, contract: {delimiter: ';', encoding: latin-1, columns: [{name: x}]}"
    assert read_as(tmp_path, "x;y\né;2\n".encode("latin-1"), contract) == [{"x": "é", "y": "2"}]


def test_a_table_without_a_header_is_read_by_the_names_of_its_contract(tmp_path: Path) -> None:
    contract = "format: csv, contract: {header: false, columns: [{name: x}, {name: y, type: integer}]}"
    assert read_as(tmp_path, b"a,1\nb,2\n", contract) == [{"x": "a", "y": "1"}, {"x": "b", "y": "2"}]


def test_text_is_read_in_the_encoding_of_its_contract(tmp_path: Path) -> None:
    updater = READS.replace('list(read.csv("source"))', 'read.text("source")')
    assert read_as(tmp_path, "é\n".encode("latin-1"), "format: text, contract: {encoding: latin-1}", updater) == "é\n"


def test_ndjson_is_read_line_by_line(tmp_path: Path) -> None:
    updater = READS.replace("read.csv", "read.ndjson")
    found = read_as(tmp_path, b'{"a": 1}\n\n{"a": "no"}\n', "format: ndjson", updater)
    assert found == [{"a": 1}, {"a": "no"}]


def test_a_contract_that_is_given_when_pinning_is_read_by_too(tmp_path: Path) -> None:
    updater = READS.replace("from kfm import", "from kfm.model.records import DataContract\n    from kfm import")
    updater = updater.replace('pin("source")', 'pin("source", contract=DataContract(format="csv", delimiter=";"))')
    assert read_as(tmp_path, b"x;y\n1;2\n", "format: csv", updater) == [{"x": "1", "y": "2"}]


def test_a_resumed_run_reads_its_source_as_it_was_pinned(tmp_path: Path) -> None:
    config = folder_site(tmp_path, READS, b"x;y\n1;2\n")
    declared = config.read_text().replace(SOURCE, "format: csv, contract: {delimiter: ';'}")
    config.write_text(declared)
    with opened(config) as session:
        updater = dataset_updater(session, "demo")

        def die(_step: Step, _read: Reader) -> Output:
            raise KeyboardInterrupt

        updater.perform = die  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            run_trigger(session, new_trigger(session, "demo"), updater)
    config.write_text(declared.replace("';'", "','"))  # what is declared now is for the next run
    with opened(config) as session:
        assert [receipt.outcome for receipt in resume_runs(session)] == ["done"]
        manifest = session.objects.read(session.state.refs.at("processed/demo"))
        body = session.objects.read(msgspec.json.decode(manifest)["digest"])
    assert msgspec.json.decode(body) == [{"x": "1", "y": "2"}]


@pytest.mark.parametrize("lazy", [False, True], ids=["at once", "step by step"])
@pytest.mark.parametrize("restricted", [False, True], ids=["public", "restricted"])
def test_a_plan_that_raises_is_reported_with_its_exception_and_place(lazy: bool, restricted: bool) -> None:
    def steps() -> Iterator[Step]:
        yield Step(id="a", key=("a",))
        raise KeyError("a value of the data")

    site = MemorySite()
    if restricted:
        site.metadata = {"sensitivity": "restricted"}
    receipt = site.run(Lines(lambda _inputs: Plan(steps() if lazy else list(steps()))))
    assert receipt.outcome == "failed" and receipt.errors[0].code == "step.failed"
    assert "plan() of lines raised KeyError at test_walk.py:" in receipt.errors[0].message
    assert ("a value of the data" in receipt.errors[0].message) is not restricted


def test_a_changed_plan_is_reported_on_one_line() -> None:
    site = MemorySite()
    site.run(Lines(lambda _inputs: keyed("a", "b")))
    receipt = site.run(Lines(lambda _inputs: keyed("a", "c")), force=True, reason="again")
    assert receipt.errors[0].code == "plan.changed"
    assert receipt.errors[0].message.isprintable() and "+ step" in receipt.errors[0].message


def test_the_quarantine_ref_goes_when_the_source_is_mended_and_its_history_stays(tmp_path: Path) -> None:
    updater = """
        from kfm import Output, Plan, Step, Updater

        class U(Updater):
            version = "1.0.0"

            def inputs(self, trigger, sources):
                return [sources.pin("source"), sources.pin("other")]

            def plan(self, inputs):
                return Plan([Step(id="a", key=("a",))])

            def perform(self, step, read):
                return Output(read.bytes(0))
    """
    config = folder_site(tmp_path, updater, b"x\n1\nfar\n")
    rows = "contract: {max_held_share: 1, columns: [{name: x, type: integer, mode: discard-row}]}}"
    text = config.read_text().replace(SOURCE + "}", "format: csv, " + rows)
    config.write_text(text + "      other: {uri: other.csv, format: csv, " + rows + "\n")
    (tmp_path / "other.csv").write_bytes(b"x\nnear\n")
    with opened(config) as session:
        assert run_trigger(session, new_trigger(session, "demo")).held_rows == 2
        report = msgspec.json.decode(session.objects.read(session.state.refs.at("quarantine/demo")))
        assert [source["source"] for source in report["sources"]] == ["source", "other"]
        (tmp_path / "source.csv").write_bytes(b"x\n1\n2\n")
        (tmp_path / "other.csv").write_bytes(b"x\n3\n")
        assert run_trigger(session, new_trigger(session, "demo")).held_rows == 0
        assert session.state.refs.at("quarantine/demo") == ""
        assert [bool(entry.after) for entry in session.state.refs.history("quarantine/demo")] == [True, False]
