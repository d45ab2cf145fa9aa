"""`kfm why-not`: lists what keeps a thing from being made, published or current, and what to type about it.

It shows rules, counts and names of the configuration, never a value. For data that is not public, error messages are
withheld too, because they may hold a name that an author derived from data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from kfm.app.authority.withdrawals import as_withdrawal, publish_again, withdrawal, withdrawn_line
from kfm.app.jobs.job_pools import job_pools
from kfm.app.jobs.job_queue import is_job
from kfm.app.jobs.job_reports import SHORT, cure, row_of, waiting_jobs
from kfm.app.objectives.error_budgets import closed_by_objectives
from kfm.app.provenance.dependency_graph import graph
from kfm.app.provenance.explain import explain_thing
from kfm.app.provenance.present_labels import present_labels
from kfm.app.runs.policy_checks import THEIRS
from kfm.app.runs.policy_checks import explain as rules
from kfm.app.runs.queries import held_sources, worker
from kfm.app.runs.resolve import Thing, find_thing
from kfm.app.runs.review_queue import request_items
from kfm.app.session.datasets import public_retention
from kfm.clock import rfc3339
from kfm.delivery.public_runs import entry_of, public_run
from kfm.errors import EXIT_CODES, BadInput, KfmError, Refused
from kfm.model import refs
from kfm.model.labels import PUBLISHABLE
from kfm.model.public_run import PublicRun
from kfm.model.records import Receipt, Record, RefEntry, Run
from kfm.model.reports.dataset_dependencies import Dependency
from kfm.model.reports.withdrawal import Withdrawal
from kfm.projections.live_versions import live_versions

if TYPE_CHECKING:
    from kfm.app.session.session import Session

What = Literal[
    "frozen", "working", "unfinished", "waiting", "failed", "held", "blocked", "approval", "masked", "closed", "noop",
    "unpublished", "undelivered", "late", "outdated", "superseded", "withdrawn", "never-run", "undeclared",
]  # fmt: skip

# With --exit-code: the exit code of a run that meets this reason.
CODES: dict[str, int] = {
    "frozen": EXIT_CODES["frozen"],
    "working": EXIT_CODES["busy"],
    "unfinished": EXIT_CODES["busy"],
    "waiting": EXIT_CODES["busy"],
    "failed": EXIT_CODES["failed"],
    "held": EXIT_CODES["refused"],
    "undeclared": EXIT_CODES["refused"],
    "never-run": EXIT_CODES["refused"],
    "blocked": EXIT_CODES["denied"],
    "closed": EXIT_CODES["denied"],
    "approval": EXIT_CODES["sovereignty"],
    "undelivered": EXIT_CODES["unavailable"],
}


class Reason(Record, frozen=True):
    """One reason why a thing was not made, not published or is not current."""

    what: What
    why: str
    do: str  # the command to type; empty if nothing is to be done
    rule: str = ""
    since: str = ""
    cites: tuple[str, ...] = ()  # digests or ids of the evidence


class WhyNot(Record, frozen=True):
    """The reasons that concern a thing."""

    thing: str
    kind: str
    dataset: str
    reasons: tuple[Reason, ...]  # the most important first; empty if nothing stands in the way


def why_not(session: Session, text: str) -> WhyNot:
    """Return the reasons that concern the thing that this text names. BadInput if nothing has that name."""
    thing = find_thing(session, text)
    dataset, own = thing.dataset, []
    if thing.kind == "run":
        receipt = session.state.ledger.receipt(thing.run_id)
        run = session.state.runs.get(thing.run_id)
        dataset = receipt.dataset if receipt is not None else run.dataset if run is not None else ""
        own = list(_of_run(session, thing.run_id))
    elif thing.kind in ("version", "file"):
        own = list(_of_version(session, dataset, thing.version))
    elif thing.kind == "object" or not dataset:
        dataset = explain_thing(session, thing)[0].dataset
    found = own if thing.kind == "run" else [*own, *_of_dataset(session, thing, dataset)]
    order = list(What.__args__)  # type: ignore[attr-defined]
    found.sort(key=lambda reason: order.index(reason.what))
    return WhyNot(thing=thing.name, kind=thing.kind, dataset=dataset, reasons=tuple(dict.fromkeys(found)))


def exit_code(answer: WhyNot) -> int:
    """Return the exit code of the first reason."""
    first = next(iter(answer.reasons), None)
    return EXIT_CODES["done"] if first is None else CODES.get(first.what, EXIT_CODES["noop"])


def _of_dataset(session: Session, thing: Thing, dataset: str) -> Iterator[Reason]:
    if dataset not in session.config.datasets:
        said = f"kfm.yml names no dataset {dataset}: nothing makes it any more"
        yield Reason(what="undeclared", why=said, do="declare it under `datasets:`")
    yield from _switches(session, dataset)
    yield from _spent(session, dataset)
    yield from _unfinished(session, dataset)
    last = _last(session, dataset)
    if last is None:
        yield Reason(what="never-run", why=f"{dataset} was never run", do=f"kfm run {dataset}")
    else:
        # A past freeze is left out: the freeze flag itself is reported, and the trigger waits.
        yield from (reason for reason in _of_run(session, last.run_id) if reason.what != "frozen")
    yield from _held(session, dataset)
    yield from _change_requests(session, dataset)
    if thing.kind != "version":
        yield from _unpublished(session, dataset)
    yield from _masked(session, dataset)
    yield from _undelivered(session, dataset)
    yield from _late(session, dataset)
    yield from _outdated(session, dataset)


# -- freezes and unfinished work


def _switches(session: Session, dataset: str) -> Iterator[Reason]:
    flags = list(zip(refs.switches(dataset), ("", dataset), strict=True))
    if _would_go_on(session, dataset):
        flags += zip(refs.ambers(dataset), ("", dataset), strict=True)
    for ref, scope in flags:
        if refs.is_frozen(session.state.refs.at(ref)):
            last = next(iter(session.state.refs.history(ref, reverse=True, limit=1)))
            how = "at amber, where no promotion goes on by itself" if ref.startswith(refs.AMBER) else "frozen"
            what = f"{scope or 'everything'} is {how}, by {last.actor}"
            do = f"kfm thaw {scope} --reason …".replace("  ", " ")
            yield Reason(what="frozen", why=what, do=do, rule=ref, since=last.ts, cites=(last.run_id,))


def _spent(session: Session, dataset: str) -> Iterator[Reason]:
    """Yield the burnt error budget that keeps a version from being published by itself."""
    why = closed_by_objectives(session, "promote: auto", dataset) if _would_go_on(session, dataset) else None
    if why is not None:
        do = f"kfm slo, and after a look kfm publish {dataset} --reason …"
        yield Reason(what="blocked", why=why, do=do, rule="objective")


def _would_go_on(session: Session, dataset: str) -> bool:
    """Return whether a version would be published by itself, if no flag were at amber."""
    declared, at = session.config.datasets.get(dataset), session.state.refs.at
    made = at(refs.processed(dataset))
    return declared is not None and declared.promote == "auto" and bool(made) and made != at(refs.published(dataset))


def _unfinished(session: Session, dataset: str) -> Iterator[Reason]:
    for run in session.state.runs.unfinished(dataset):
        yield from _open_run(session, run)
    yield from _dead_letters(session, dataset)
    yield from _waiting(session, dataset)


def _dead_letters(session: Session, dataset: str) -> Iterator[Reason]:
    for job in session.state.jobs.dead():
        if job.trigger.dataset == dataset:
            last = job.failures[-1] if job.failures else None
            row, tried = row_of(session, job), f"{job.attempts} attempt{'s' * (job.attempts != 1)}"
            why = f"job {row.job_id[:SHORT]} of it is a dead letter after {tried}" + (f": {last.code}" if last else "")
            cites = (last.run_id,) if last is not None and last.run_id else ()
            since = last.at if last is not None else ""
            yield Reason(what="failed", why=why, do=cure(row), rule=last.code if last else "", since=since, cites=cites)


def _waiting(session: Session, dataset: str) -> Iterator[Reason]:
    """Yield why its jobs wait: for another attempt, for a worker of a custodian's pool, or only for their turn."""
    plain, has_queue = 0, bool(session.config.queue)
    for job in waiting_jobs(session, dataset):
        row = row_of(session, job)
        if row.state == "back-off":
            code = row.failures[-1].code if row.failures else "busy"
            why = f"job {row.job_id[:SHORT]} of it failed ({code}), and is tried again after {row.not_before}"
            yield Reason(what="waiting", why=why, do=f"kfm jobs show {row.job_id[:SHORT]}", rule=code)
        elif row.state != "running":
            plain += 1
    operations = sum(1 for trigger in session.state.inbox.waiting(dataset) if not is_job(trigger))
    if has_queue and plain:
        command = " ".join(["python -m workers run", *(f"--pool {name}" for name in _pools(session, dataset))])
        why = f"{plain} job{'s' * (plain != 1)} of it wait{'s' * (plain == 1)} for a worker"
        yield Reason(what="waiting", why=why, do=command)
        plain = 0
    if waiting := plain + operations:
        why = f"{waiting} trigger{'s' * (waiting != 1)} of it wait{'s' * (waiting == 1)} for a run"
        yield Reason(what="waiting", why=why, do="kfm resume")


def _pools(session: Session, dataset: str) -> tuple[str, ...]:
    """Return the pools that a worker must have for a job of a dataset; none if the labels cannot be read."""
    try:
        return job_pools(session, dataset)
    except BadInput:
        return ()


def _open_run(session: Session, run: Run) -> Iterator[Reason]:
    if worker(session, run) is not None:
        said = f"run {run.run_id} is working on it"
        yield Reason(what="working", why=said, do=f"kfm runs steps {run.run_id}", since=run.started_at)
    else:
        said = f"run {run.run_id} was interrupted and not ended"
        yield Reason(what="unfinished", why=said, do=f"kfm resume {run.run_id}", since=run.started_at)


# -- how a run ended


def _last(session: Session, dataset: str) -> Receipt | None:
    for entry in session.state.ledger.entries_of(dataset):
        receipt = session.state.ledger.receipt(entry.run_id)
        if receipt is not None and not receipt.dry_run and not receipt.job_type.startswith("operation."):
            return receipt
    return None


def _of_run(session: Session, run_id: str) -> Iterator[Reason]:
    run = session.state.runs.get(run_id)
    receipt = session.state.ledger.receipt(run_id)
    if receipt is None:
        if run is not None:
            yield from _open_run(session, run)
        return
    public = public_run(session.state, session.objects, entry_of(session.state, run_id), parts=False)
    about = public.dataset
    since, cites = receipt.finished_at, (public.receipt_digest,)
    if receipt.outcome in ("noop", "unchanged"):
        yield Reason(what="noop", why=_nothing_new(session, receipt), do=_again(public), since=since, cites=cites)
    elif receipt.outcome == "frozen":
        yield Reason(
            what="frozen", why=f"run {run_id} met a freeze, and its trigger was kept", do=f"kfm why-not {about}",
            since=since, cites=cites,
        )  # fmt: skip
    elif receipt.outcome == "held":
        yield Reason(what="held", why=_error(public, receipt), do=f"kfm quarantine {about}", since=since, cites=cites)
    elif receipt.outcome in ("denied", "escalated"):
        rule = next((rule for one in receipt.policy_decisions if not one.allow for rule in one.rules), "")
        do = f"kfm review list; kfm policy explain {about}" if receipt.outcome == "escalated" else ""
        yield Reason(
            what="approval" if receipt.outcome == "escalated" else "blocked", why=_error(public, receipt),
            do=do or f"kfm policy gates {about}", rule=rule, since=since, cites=cites,
        )  # fmt: skip
    elif receipt.status == "FAILED":
        again = f"kfm run {about}" if public.op == "ingest" else f"kfm {public.op} {about} --reason …"
        do = f"kfm runs show {run_id}, correct it, then {again}"
        yield Reason(what="failed", why=_error(public, receipt), do=do, since=since, cites=cites)


def _nothing_new(session: Session, receipt: Receipt) -> str:
    at = session.state.refs.at(refs.processed(receipt.dataset))
    if receipt.outcome == "unchanged":
        return "the last run made exactly what was there already"
    changed = any(note.code == "code.changed" for note in receipt.warnings)
    code = "; its code changed, and its version did not" if changed else ""
    return f"nothing that it reads has changed since {at[:19] or 'what is there'} was made{code}"


def _again(run: PublicRun) -> str:
    if run.op != "ingest":
        return ""
    return f"kfm run {run.dataset} --force --reason …, or change the source or the updater's version"


def _error(run: PublicRun, receipt: Receipt) -> str:
    """Return the error message of a run; for data that is not public only its code."""
    note = next(iter(receipt.errors), None)
    if note is None:
        return f"run {receipt.run_id} ended as {receipt.outcome}"
    if run.labels is None:
        return note.message
    return f"run {receipt.run_id} ended as {receipt.outcome} ({note.code})"


# -- quarantine, approval, publication


def _held(session: Session, dataset: str) -> Iterator[Reason]:
    if not any(True for _ in session.state.refs.all(refs.quarantine(dataset))):
        return
    try:
        sources = held_sources(session, dataset)
    except KfmError as problem:
        yield Reason(
            what="held",
            why="rows of it are quarantined, and encrypted",
            do=f"kfm quarantine {dataset}",
            rule=problem.code,
        )
        return
    for source in sources:
        counts: Counter[str] = Counter(one["rule"] for one in source["findings"])
        rules_ = ", ".join(f"{rule} ({count})" for rule, count in counts.most_common(5))
        whole = (
            "it is quarantined as a whole"
            if source["held"]
            else f"{source['held_rows']} of {source['rows']} rows are quarantined"
        )
        yield Reason(
            what="held", why=f"source {source['source']}: {whole}: {rules_}", do=f"kfm quarantine {dataset} --rows",
            rule=next(iter(counts), ""), cites=(source["content_hash"],),
        )  # fmt: skip


def _change_requests(session: Session, dataset: str) -> Iterator[Reason]:
    for item in request_items(session):
        if item.dataset == dataset and item.state in ("open", "approved"):
            missing = f"; missing: {', '.join(item.missing)}" if item.missing else ""
            yield Reason(
                what="approval", why=f"{item.what} was requested by {item.asked_by} and is {item.state}{missing}",
                do=f"kfm review show {item.id}, kfm review approve {item.id} --key …", since=item.since,
                cites=(item.more["request"],),
            )  # fmt: skip


def _unpublished(session: Session, dataset: str) -> Iterator[Reason]:
    made, public = (session.state.refs.at(refs.in_zone(zone, dataset)) for zone in ("processed", "published"))
    history = list(session.state.refs.history(refs.published(dataset), reverse=True, limit=1))
    open_ = present_labels(session, dataset, made).may_be_public if made else True
    taken_back = withdrawal(session, dataset, made)
    if taken_back is not None:
        yield _withdrawn(session, dataset, taken_back)
    elif history and not public:
        yield _nothing_public(dataset, history[0], again=bool(made) and open_)
    if not made or made == public or not open_:  # `_masked` says why it is not public, and what to do
        return
    broken = []
    try:
        broken = [one for one in rules(session, dataset) if one.holds == "no"]
    except Refused:
        return
    for one in broken:
        kind: What = "approval" if one.rule.startswith(THEIRS) else "blocked"
        yield Reason(what=kind, why=f"the gate before Published requires: {one.asks}", do=one.remedy, rule=one.rule)
    if not broken and taken_back is None:
        said = f"{made[:19]} was made and is not published"
        yield Reason(what="unpublished", why=said, do=f"kfm publish {dataset} --reason …", cites=(made,))


def _withdrawn(session: Session, dataset: str, one: Withdrawal) -> Reason:
    """Return the reason of a version that was withdrawn. It names the command that publishes it again only if the
    labels allow it."""
    again = present_labels(session, dataset, one.version).may_be_public
    do = publish_again(dataset, one.version) if again else f"kfm labels show {dataset}"
    said = f"{one.version[:19]} was {withdrawn_line(one)}"
    return Reason(what="withdrawn", why=said, do=do, since=one.at, cites=(one.run_id,))


def _nothing_public(dataset: str, last: RefEntry, *, again: bool) -> Reason:
    """Return the reason why nothing of a dataset is public although its last version was never withdrawn itself."""
    said = f"nothing of it is public: {last.before[:19]} was {withdrawn_line(as_withdrawal(last, last.before))}"
    do = f"kfm publish {dataset} --reason …" if again else f"kfm labels show {dataset}"
    return Reason(what="withdrawn", why=said, do=do, since=last.ts, cites=(last.run_id,))


def _masked(session: Session, dataset: str) -> Iterator[Reason]:
    """Yield the protection of the current version, as it is today."""
    version = session.state.refs.at(refs.processed(dataset))
    made = session.state.ledger.version(dataset, version) if version else None
    if made is None:
        return
    labels = made.standing
    levels = present_labels(session, dataset, version)
    if labels is None and levels.now == "public":
        return
    custodians = labels.custodians if labels is not None else ()
    whose = f", in the custody of {', '.join(custodians)}" if custodians else ""
    rule, do = next(iter(labels.rules), "") if labels is not None else "", f"kfm labels show {dataset}"
    declared = session.config.datasets.get(dataset)
    if labels is None and not levels.was_tightened and declared is not None and declared.sensitivity in PUBLISHABLE:
        said = f"it was made while kfm.yml said {levels.made}, and the same bytes keep that"
        do = f"kfm run {dataset}, once its source has changed"
    elif levels.was_tightened:
        said = (
            f"the labels in force make it {levels.now}; the current version was made while it was {levels.made}{whose}"
        )
        do = f"kfm run {dataset}" if levels.now != "closed" else do
    elif levels.was_loosened:
        said = f"it is {levels.now}; the labels in force would make a new version {levels.next}{whose}"
        do = f"kfm run {dataset}"
    elif levels.now == "generalised":
        finest = labels.resolution if labels is not None else None
        shown = f": nothing is shown finer than one H3 cell of resolution {finest}" if finest is not None else ""
        said = f"it is generalised{shown}{whose}"
    else:
        said = f"it is {levels.now}, and not public{whose}"
    yield Reason(what="masked" if levels.may_be_public else "closed", why=said, do=do, rule=rule)
    today = rfc3339(session.clock.now_ms())[:10]
    if labels is not None and labels.expires and labels.expires < today:
        said = f"the consent ended on {labels.expires}"
        yield Reason(
            what="closed", why=said, do=f"kfm labels set dataset:{dataset} --expires … --reason …", rule="label.expired"
        )


# -- pending deliveries


def _undelivered(session: Session, dataset: str) -> Iterator[Reason]:
    if dataset in set(session.state.outbox.due("publish")):
        said = "a committed version is not delivered to the public files yet"
        yield Reason(what="undelivered", why=said, do=f"kfm resume, then kfm reconcile {dataset}")
    for sink, configured in (("catalog", session.config.catalog), ("graph", session.config.graph)):
        if configured:  # read from the state, so a sink that is down delays nothing
            yield from _unreported(session, dataset, sink)


def _unreported(session: Session, dataset: str, sink: str) -> Iterator[Reason]:
    outbox, do = session.state.outbox, f"kfm sinks retry {sink}"
    if (stopped := outbox.stopped(sink)) is not None:
        said = f"sink {sink} has failed since {stopped.since}, after {stopped.tries} tries"
        yield Reason(what="undelivered", why=said, do=do, rule=stopped.code, since=stopped.since)
    for message in outbox.dead(sink):
        if message.dataset == dataset:
            said = f"sink {sink} did not receive run {message.run_id}"
            yield Reason(what="undelivered", why=said, do=do, rule=message.code, since=message.since)


def _late(session: Session, dataset: str) -> Iterator[Reason]:
    """Yield the sources whose poll is overdue."""
    declared = session.config.datasets.get(dataset)
    for name, source in sorted(declared.sources.items()) if declared is not None else ():
        every = session.config.watch.poll_s if source.poll_s is None else source.poll_s
        known = session.state.inbox.checkpoint(source.known_as)
        if not every or known is None or not known.checked_ms:
            continue
        late = (session.clock.now_ms() - known.checked_ms) / 1000 - every
        if late > every:
            seen = rfc3339(known.checked_ms)
            said = f"source {name} is polled every {every:g} s, and was last polled {seen}"
            yield Reason(what="late", why=said, do=f"kfm triggers watch {dataset}, or kfm run {dataset}", rule="poll_s")


def _outdated(session: Session, dataset: str) -> Iterator[Reason]:
    """Yield the upstream versions that are no longer current, or were taken back."""
    declared = session.config.datasets.get(dataset)
    if declared is None or not any(source.dataset for source in declared.sources.values()):
        return
    for each in graph(session, dataset).dependencies:
        if each.to == dataset and each.says and each.stands != "never made":
            do = _renewed(session, dataset, each)
            yield Reason(what="outdated", why=each.says, do=do, rule=each.stands, since=each.since)


def _renewed(session: Session, dataset: str, each: Dependency) -> str:
    """Return what makes a dataset of a right version again. A run alone changes nothing while what it reads is the same
    version as before, or none."""
    run = f"kfm run {dataset}"
    if each.stands != "withdrawn":
        return run
    if not session.state.refs.at(refs.in_zone(each.zone, each.of)):
        return f"kfm publish {each.of} --reason …, then {run}"
    return f"correct what {each.of} reads, then kfm run {each.of}, then {run}"


def _of_version(session: Session, dataset: str, version: str) -> Iterator[Reason]:
    moves = list(session.state.refs.history(refs.published(dataset)))
    processed, published = (session.state.refs.at(refs.in_zone(zone, dataset)) for zone in ("processed", "published"))
    if version == published:
        return
    was = [move for move in moves if move.after == version]
    if was and version in live_versions(moves, public_retention(session, dataset)):
        return
    if (taken_back := withdrawal(session, dataset, version)) is not None:
        yield _withdrawn(session, dataset, taken_back)
        return
    if was:
        after = next((move for move in moves if move.n > was[-1].n), None)
        if after is not None:
            said = f"{version[:19]} was public until {after.op} by {after.actor}"
            again = present_labels(session, dataset, version).may_be_public
            do = f"kfm rollback {dataset} --to {version[7:23]} --reason …" if again else f"kfm labels show {dataset}"
            yield Reason(what="superseded", why=said, do=do, since=after.ts, cites=(after.run_id,))
        return
    if version == processed:
        yield from _unpublished(session, dataset)
        return
    for move in session.state.refs.history(refs.processed(dataset), reverse=True):
        if move.before == version:
            said = f"{version[:19]} was never public: {move.op} put {move.after[:19] or 'nothing'} in its place"
            do = f"kfm rollback {dataset} --ref processed/{dataset} --to {version[7:23]} --reason …"
            yield Reason(what="superseded", why=said, do=do, since=move.ts, cites=(move.run_id,))
            return
