"""kfm backfill: build missing or outdated partitions of a dataset."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from kfm.app.backfills.backfill_control import GATES, again, backfill_statuses, marked, under_way
from kfm.app.backfills.backfill_worker import Worker, is_set
from kfm.app.runs.auto_promotion import promote
from kfm.app.runs.execution import Outcome, settle
from kfm.app.runs.settlement import settle_session
from kfm.app.session.datasets import dataset_updater
from kfm.cli.operation import operate
from kfm.cli.render import Screen, short
from kfm.cli.session import Tally, opened, person, settings
from kfm.errors import EXIT_CODES, Conflict
from kfm.model import refs
from kfm.model.backfill_plan import WORDS

if TYPE_CHECKING:
    import argparse

    from kfm.app.backfills.backfill_control import BackfillStatus, PlannedBackfill
    from kfm.app.session.session import Session
    from kfm.cli.parser import Parser
    from kfm.model.backfill_plan import Round
    from kfm.model.records import Receipt


EVERY = 50  # partitions between two publications


def arguments(parser: Parser) -> None:
    planned = parser.command(
        "plan",
        plan,
        "Show every partition of a backfill, and what starting it would do",
        "Nothing is written. The plan has a digest: `kfm backfill start --plan DIGEST` starts exactly this plan.",
    )
    planned.add_argument("--limit", type=int, default=50, metavar="N", help="how many partitions to list (default: 50)")
    started = parser.command(
        "start",
        start,
        "Start a backfill, and work through it",
        "Each partition is a run with a receipt. If the process is killed, `kfm backfill resume` continues.\n"
        "Other processes may help: `kfm up`, or `kfm backfill resume` in another window.",
    )
    started.add_argument(
        "--plan", default="", metavar="DIGEST", help="start only this plan; its first digits are enough"
    )
    resumed = parser.command(
        "resume",
        resume,
        "Continue a backfill: open it if it was paused, and work through it",
        "If every partition was tried, those that ended badly are tried again.",
    )
    which = resumed.add_mutually_exclusive_group()
    which.add_argument("--only-missing", action="store_true", help="only partitions that were never tried")
    which.add_argument("--only-failed", action="store_true", help="only partitions that ended badly")
    listed = parser.command("status", status, "Show the state of backfills, and what ended badly")
    listed.add_argument("backfill", nargs="?", default="", metavar="BACKFILL", help="its name (default: all)")
    listed.add_argument("--limit", type=int, default=50, metavar="N", help="how many bad ones to list (default: 50)")
    paused = parser.command("pause", pause, "Start no further partition; those at work are finished")
    cancelled = parser.command(
        "cancel",
        cancel,
        "End a backfill: no further partition starts",
        "Finished partitions stay. Those at work are finished; `kfm runs cancel RUN` ends one.",
    )
    for one in (planned, started, resumed, paused, cancelled):
        one.add_argument("backfill", metavar="BACKFILL", help="its name, see `kfm backfill status`")
    for one in (started, resumed):
        one.add_argument("--later", action="store_true", help="leave the work to `kfm up`")
    for one, reason in ((started, "started"), (resumed, "resumed"), (paused, "stopped"), (cancelled, "cancelled")):
        one.add_person(reason=f"{reason} by an operator")
    for one in (resumed, paused):
        one.add_signing()


def plan(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.backfills.backfill_control import plan as planned
    from kfm.config.backfill_files import one

    resolved = settings(options)
    backfill = one(resolved, options.backfill)
    with opened(options, screen, "read", resolved) as session:
        found = planned(session, backfill)
        names = islice(backfill.partitions(), max(options.limit, 0))
        shown = list(marked(session, backfill.dataset, dataset_updater(session, backfill.dataset), names))
        told = _told(found)
    listed = [{"partition": name, "state": WORDS[letter]} for letter, name in shown]
    if screen.json:
        screen.data({**told, "partitions": listed})
        return 0
    screen.table(("partition", "state"), [(each["partition"], each["state"]) for each in listed])
    if len(listed) < found.plan.total:
        screen.line(f"… and {found.plan.total - len(listed)} more; --limit {found.plan.total} lists all")
    screen.line()
    _show(screen, told)
    screen.say(f"start exactly this: `kfm backfill start {backfill.id} --plan {short(found.digest)}`")
    return 0


def _told(found: PlannedBackfill) -> dict[str, Any]:
    made = found.plan
    asked = {"emit": found.runs, "coalesce": min(found.runs, 1), "suppress": 0}[made.downstream]
    return {
        "backfill": made.backfill,
        "dataset": made.dataset,
        "kind": made.kind,
        "total": made.total,
        "counts": {WORDS[letter]: n for letter, n in made.counts.items()},
        "runs": found.runs,
        "pool": made.pool,
        "expected_ms": found.expected_ms,
        "gates": list(GATES),
        "policies": made.gates,
        "downstream": made.downstream,
        "after": made.after,
        "asks_for": asked * len(made.after),
        "plan": found.digest,
    }


def _show(screen: Screen, told: dict[str, Any]) -> None:
    counts = ", ".join(f"{n} {word}" for word, n in told["counts"].items())
    after = ", ".join(told["after"])
    downstream = (
        f"{told['downstream']}: {told['asks_for']} asked for, of {after}" if after else "nothing comes after it"
    )
    screen.fields(
        [
            ("backfill", told["backfill"]),
            ("dataset", told["dataset"]),
            ("partitions", f"{told['total']} ({counts})"),
            ("runs", told["runs"]),
            ("pool", told["pool"] or "none"),
            ("expected", _span(told["expected_ms"])),
            ("gates", f"{', '.join(told['gates'])}; policies {short(told['policies'])}"),
            ("downstream", downstream),
            ("plan", told["plan"]),
        ]
    )


def start(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.backfills.backfill_control import start as started
    from kfm.config.backfill_files import one

    who = person(options)
    resolved = settings(options)
    backfill = one(resolved, options.backfill)
    backfill.check()  # mistakes are reported before a store is created
    with opened(options, screen, "write", resolved) as session:
        tally = Tally(screen)
        found, receipt = started(session, backfill, options.plan, **who)
        if receipt is None:
            settle_session(session)
            screen.say(f"all {found.plan.total} partitions are done: there is nothing to do")
            return _told_status(session, screen, backfill.id, EXIT_CODES["done"])
        _settle(session, tally, [receipt])
        if receipt.status != "SUCCESS":
            return _told_status(session, screen, backfill.id, tally.code)
        if not screen.json:
            _show(screen, _told(found))
        if not session.state.refs.at(refs.backfill(backfill.id)):
            raise Conflict(
                f"backfill {backfill.id} was cancelled meanwhile", hint="start it again: `kfm backfill start`"
            )
        return _work(options, session, screen, tally, backfill.id)


def resume(options: argparse.Namespace, screen: Screen) -> int:
    person(options)
    resolved = settings(options)
    with opened(options, screen, "read", resolved) as session:
        board = under_way(session, options.backfill)
        held = is_set(session, board.ref)
    if held:
        code = operate(options, screen, "thaw", board.plan.dataset, {"scope": board.ref}, quiet=True)
        if code:
            return code
    with opened(options, screen, "write", resolved) as session:
        which: Round | None = "missing" if options.only_missing else "failed" if options.only_failed else None
        again(session, options.backfill, which)
        return _work(options, session, screen, Tally(screen), options.backfill)


def _work(options: argparse.Namespace, session: Session, screen: Screen, tally: Tally, id: str) -> int:
    """Work until no partition is left to take. A partition is reported once it is durable."""
    if options.later:
        settle_session(session)
        screen.say("it waits: `kfm up` works it off")
        return _told_status(session, screen, id, tally.code)
    board = under_way(session, id)
    worker = Worker(session, board, tally.failed)
    found: list[Receipt] = []
    for receipt in worker.work():
        found.append(receipt)
        progress = board.progress()
        screen.progress(id, progress.at, progress.total)
        if len(found) == EVERY:
            _settle(session, tally, found)
            found.clear()
    _settle(session, tally, found)
    if not worker.stopped:  # the result is published once, when the backfill is complete
        _settle(session, tally, list(promote(session, board.plan.dataset, tally.failed)))
    screen.finish()
    code = tally.code
    if worker.stopped:
        screen.say(f"stopped: {worker.stopped}")
        code = code or EXIT_CODES["frozen" if worker.stopped in ("paused", "frozen") else "busy"]
    return _told_status(session, screen, id, code)


def _settle(session: Session, tally: Tally, receipts: list[Receipt]) -> None:
    settle(session, Outcome(receipts), tally)
    for receipt in receipts:
        tally.ended(receipt)


def status(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    with opened(options, screen, "read", resolved) as session:
        found = backfill_statuses(session, options.backfill, limit=max(options.limit, 0))
    if screen.json:
        screen.data([_plain(each) for each in found])
        return 0
    if options.backfill:
        _show_stand(screen, found[0])
        return 0
    screen.table(
        ("backfill", "dataset", "state", "done", "bad", "left"),
        [(each.id, each.dataset, each.state, _done(each), _bad(each), each.left) for each in found],
    )
    return 0


def _told_status(session: Session, screen: Screen, id: str, code: int) -> int:
    found = backfill_statuses(session, id)[0]
    if screen.json:
        screen.data(_plain(found))
    else:
        _show_stand(screen, found)
    return code


def _show_stand(screen: Screen, stand: BackfillStatus) -> None:
    counts = ", ".join(f"{n} {word}" for word, n in sorted(stand.counts.items()))
    screen.fields(
        [
            ("backfill", stand.id),
            ("dataset", stand.dataset),
            ("state", stand.state),
            ("partitions", counts or "none yet"),
            ("left", stand.left),
            ("downstream", f"{stand.plan.downstream}: {stand.asked} asked for" if stand.plan is not None else None),
            ("started", f"{stand.started_at} by {stand.actor}" if stand.started_at else None),
            ("plan", stand.digest or None),
        ]
    )
    if stand.failing:
        screen.line()
        screen.table(("partition", "result", "run"), list(stand.failing))


def _done(stand: BackfillStatus) -> int:
    return sum(stand.counts.get(word, 0) for word in ("made", "unchanged", "done"))


def _bad(stand: BackfillStatus) -> int:
    return sum(stand.counts.get(word, 0) for word in ("held", "failed", "denied", "cancelled"))


def _plain(stand: BackfillStatus) -> dict[str, Any]:
    made = stand.plan
    return {
        "backfill": stand.id,
        "dataset": stand.dataset,
        "state": stand.state,
        "total": made.total if made is not None else 0,
        "counts": stand.counts,
        "left": stand.left,
        "downstream": made.downstream if made is not None else None,
        "asked": stand.asked,
        "started_at": stand.started_at or None,
        "actor": stand.actor or None,
        "plan": stand.digest or None,
        "failing": [each._asdict() for each in stand.failing],
    }


def pause(options: argparse.Namespace, screen: Screen) -> int:
    """Set the freeze flag of a backfill. The flag is a ref, so its history and the ledger say who set it, when and
    why."""
    with opened(options, screen, "read") as session:
        board = under_way(session, options.backfill)
    return operate(options, screen, "freeze", board.plan.dataset, {"scope": board.ref})


def cancel(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.backfills.backfill_control import cancel as cancelled

    who = person(options)
    with opened(options, screen, "write") as session:
        tally = Tally(screen)
        _settle(session, tally, [cancelled(session, options.backfill, **who)])
        return _told_status(session, screen, options.backfill, tally.code)


def _span(ms: int | None) -> str:
    if ms is None:
        return "unknown: no partition was made yet"
    seconds = -(-ms // 1000)
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    said = [f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "min"), (seconds % 60, "s")) if n]
    return f"about {' '.join(said[:2]) or '0 s'}"
