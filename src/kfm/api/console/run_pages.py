"""The pages of runs: the list, and one run with its stages, steps, journal and receipt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from kfm.api.console.frame import Around, console_page
from kfm.api.console.parts import (
    dataset_link,
    json_link,
    more,
    pairs,
    run_link,
    section,
    state,
    table,
    version_link,
)
from kfm.model.canonical import canonical
from kfm.projections.pages.page_style import many, short_digest, size_of, time_tag

if TYPE_CHECKING:
    from kfm.app.serving.run_answers import (
        JournalPage,
        ReceiptAnswer,
        RunAnswer,
        RunCost,
        RunList,
        RunRow,
        StepList,
    )
    from kfm.model.public_run import PublicRun

STATUSES = ("SUCCESS", "FAILED", "PARTIAL", "SKIPPED", "RUNNING")


def runs_page(found: RunList, query: Mapping[str, Any], around: Around) -> bytes:
    def inside() -> Iterator[str]:
        yield from _choice(query)
        headers = ("Started", "Dataset", "Operation", "Status", "Outcome", "Version", "Run")
        yield from table("Runs, the newest first", headers, map(_row, found.runs), "No run is shown here.")
        if found.next:
            yield more("/runs", {**query, "after": found.next}, "Older runs")
        yield json_link("/v1/runs")

    return console_page("Runs", around, list(inside()), "/runs")


def _choice(query: Mapping[str, Any]) -> Iterator[str]:
    yield '<form class="choose" action="/runs" method="get"><label>Dataset<input name="dataset" value="'
    yield f'{escape(query["dataset"])}" autocomplete="off"></label><label>Status<select name="status">'
    yield '<option value="">any</option>'
    for each in STATUSES:
        yield f'<option value="{each}"{" selected" if query["status"] == each else ""}>{each}</option>'
    yield '</select></label><button type="submit">Show</button></form>'


def _row(row: RunRow) -> tuple[str, ...]:
    name = escape(row.dataset) + (f"/{escape(row.partition)}" if row.partition else "")
    return (
        time_tag(row.started_at, clock=True),
        name,
        escape(row.op),
        state(row.status),
        escape(row.outcome),
        version_link(row.dataset, row.version),
        run_link(row.run_id),
    )


def run_page(
    told: RunAnswer, steps: StepList, journal: JournalPage, receipt: ReceiptAnswer | None, around: Around
) -> bytes:
    lead = (
        f'<p class="lead">{escape(told.op)} of {escape(told.dataset)}: {state(told.status)} {escape(told.outcome)}</p>'
    )

    def inside() -> Iterator[str]:
        if told.is_withheld:
            yield '<p class="check">This run is not about plainly public data. Its steps, keys, addresses and texts of '
            yield "errors are not shown.</p>"
        yield from section("What happened", [*pairs(_facts(told)), *_stages(told)])
        yield from section("What it cost", pairs(_cost(told.cost)))
        if told.record is not None:
            yield from section("What it read", _inputs(told.record))
            yield from section("What it moved", _moves(told.record))
        yield from section("Plan and steps", _steps(told, steps), "steps")
        yield from section("Journal", _journal(journal), "journal")
        yield from section("Receipt", _receipt(receipt), "receipt")
        yield json_link(f"/v1/runs/{told.run_id}")

    return console_page(f"Run {told.run_id[:8]}", around, list(inside()), lead=lead)


def _facts(told: RunAnswer) -> Iterator[tuple[str, str]]:
    yield "Run", f"<code>{escape(told.run_id)}</code>"
    yield "Dataset", dataset_link(told.dataset, is_shown=told.dataset != "global")
    yield "Updater", escape(f"{told.updater} {told.updater_version}")
    yield "Started", time_tag(told.started_at, clock=True)
    yield "Ended", time_tag(told.finished_at, clock=True)
    yield "Attempt", str(told.attempt) if told.attempt > 1 else ""
    yield "Who", escape(told.actor)
    yield "Reason", escape(told.reason)
    yield "Correlation id", f"<code>{escape(told.correlation_id)}</code>" if told.correlation_id else ""
    yield "Errors", "<br>".join(map(escape, told.errors))
    yield "Not followed yet", escape(", ".join(told.sinks_left))
    if told.index:
        yield "Ledger", f'<a href="/ledger/{told.index}">entry {told.index:,}, with its proof</a>'
    if told.record is not None and told.record.version:
        yield "Version", version_link(told.dataset, told.record.version)


def _stages(told: RunAnswer) -> Iterator[str]:
    yield '<ol class="stages" aria-label="Stages">'
    for each in told.stages:
        words = {"": "not reached", "DONE": "done", "FAILED": "failed", "IN_PROGRESS": "in progress"}[each.status]
        at = f" {time_tag(each.at, clock=True)}" if each.at else ""
        kind = state(each.status and words)
        yield f"<li><strong>{escape(each.stage.lower())}</strong> {kind or words}{at}</li>"
    yield "</ol>"


def _cost(cost: RunCost) -> Iterator[tuple[str, str]]:
    yield "Duration", "" if cost.duration_ms is None else f"{cost.duration_ms / 1000:.2f} s"
    yield "Since the request", "" if cost.latency_ms is None else f"{cost.latency_ms / 1000:.2f} s"
    yield "Retries", "" if cost.retries is None else f"{cost.retries:,}"
    yield "Resumed", "" if not cost.resumed else many(cost.resumed, "time")
    energy = "not known" if cost.energy_wh is None else f"{cost.energy_wh:.3g} Wh"
    yield "Energy", f"{energy}; method: {escape(cost.energy_method)}"
    yield "Carbon", "" if cost.co2e_g is None else f"{cost.co2e_g:.3g} g CO₂e"
    yield "Read", "" if cost.bytes_in is None else size_of(cost.bytes_in)
    yield "Written", "" if cost.bytes_out is None else size_of(cost.bytes_out)


def _inputs(run: PublicRun) -> Iterator[str]:
    rows = (
        (escape(each.kind), escape(each.id), short_digest(each.checksum) if each.checksum else "")
        for each in run.inputs
    )
    yield from table("What the run read", ("Kind", "Address", "Digest"), rows, "It read nothing that is shown here.")


def _moves(run: PublicRun) -> Iterator[str]:
    rows = (
        (escape(each.ref), short_digest(each.before) if each.before else "nothing",
         short_digest(each.after) if each.after else "nothing")
        for each in run.moves
    )  # fmt: skip
    yield from table("Refs that the run moved", ("Ref", "From", "To"), rows, "It moved no ref that is shown here.")


def _steps(told: RunAnswer, found: StepList) -> Iterator[str]:
    if told.steps is not None and told.steps.planned:
        failed = f", {told.steps.failed:,} failed" if told.steps.failed else ""
        yield f"<p>{told.steps.done:,} of {many(told.steps.planned, 'step')} done{failed}. Plan "
        yield f"{short_digest(told.plan_hash)}.</p>"
    rows = (
        (f"{each.position + 1:,}", escape(each.id), escape("/".join(each.key)), state(each.status),
         short_digest(each.digest) if each.digest else "")
        for each in found.steps
    )  # fmt: skip
    empty = "Steps are not shown." if found.is_withheld else "Nothing was planned."
    yield from table("Steps of the plan", ("Step", "Name", "Key", "Status", "Output"), rows, empty)
    if found.next:
        yield more(f"/runs/{told.run_id}", {"step": found.next}, "More steps")


def _journal(found: JournalPage) -> Iterator[str]:
    rows = (
        (str(each.seq), time_tag(each.ts, clock=True), escape(each.phase), escape(each.step_id), state(each.status),
         f"<code>{escape(canonical(each.payload).decode()[:300])}</code>" if each.payload else "")
        for each in found.records
    )  # fmt: skip
    empty = "The journal is not shown." if found.is_withheld else "This run has no journal."
    headers = ("No.", "Durable at", "Phase", "Step", "Status", "Content")
    yield from table("Records of the write-ahead log", headers, rows, empty)
    if found.next:
        yield more(f"/runs/{found.run_id}", {"record": found.next}, "More records")


def _receipt(found: ReceiptAnswer | None) -> Iterator[str]:
    if found is None:
        yield '<p class="none">The run has not ended.</p>'
        return
    yield from pairs(
        (
            ("Digest", f"<code>{escape(found.receipt_digest)}</code>"),
            ("As data", f'<a href="/v1/runs/{found.run_id}/receipt">the receipt</a>'),
        )
    )
    if found.receipt is not None:
        notes = (
            (escape(d.gate), state("yes" if d.allow else "no"), escape("; ".join(d.reasons)))
            for d in found.receipt.policy_decisions
        )
        yield from table("Decisions of gates", ("Gate", "Decision", "Reasons"), notes)
