"""kfm schedule: when datasets run, how fresh they are, and who uses the pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kfm.app.runs.due_schedules import is_overdue, schedules_of
from kfm.app.runs.freshness import freshness as told
from kfm.cli.operation import operate
from kfm.cli.render import Screen, span
from kfm.cli.session import known_dataset, opened, person, settings
from kfm.clock import from_environment, parse_instant, rfc3339
from kfm.errors import EXIT_CODES, BadInput
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest

if TYPE_CHECKING:
    import argparse

    from kfm.app.runs.due_schedules import ScheduleStatus
    from kfm.cli.parser import Parser
    from kfm.config import Resolved
    from kfm.model.schedules import Schedule, Tick


_WHY = {
    "due": "due",
    "begun": "followed from here on",
    "changed": "what it is made by changed",
    "after": "others have a new version",
    "event": "something told of a change",
    "anomaly": "a run crossed a threshold",
    "overlap": "passed: the run before had not ended",
    "missed": "passed: nobody looked in time",
    "paused": "passed: it was paused",
}


def arguments(parser: Parser) -> None:
    listed = parser.command(
        "list",
        schedule_list,
        "List schedules: when each ran last, and when it runs next",
        "Warns when a tick has been pending for more than five minutes and no process claimed it.",
    )
    listed.add_argument("--check", action="store_true", help="exit 3 in that case: for monitors of `kfm up`")
    one = parser.command("show", schedule_show, "Show a schedule and its last ticks")
    one.add_argument("schedule", metavar="SCHEDULE", help="its name, see `kfm schedule list`")
    one.add_argument("--limit", type=int, default=10, metavar="N", help="how many ticks (default: 10)")
    coming = parser.command(
        "next",
        schedule_next,
        "Show the next instants, in the time zone of each schedule and in UTC",
        "A note says what a change of the clock does to an instant.",
    )
    coming.add_argument("count", nargs="?", type=int, default=10, metavar="N", help="how many (default: 10)")
    coming.add_argument("--schedule", default="", metavar="SCHEDULE", help="only of this one")
    coming.add_argument("--after", default="", metavar="INSTANT", help="after this instant (default: now)")
    parser.command(
        "check",
        schedule_check,
        "Check every declared schedule, and show what would change",
        "For pull requests: exit 3 if one is wrong. Nothing is written.",
    )
    for name, handler, summary in (
        ("pause", schedule_pause, "Pause a schedule: its ticks pass, and start no run"),
        ("resume", schedule_resume, "Let a schedule continue, from now on"),
        ("trigger", schedule_trigger, "Request a run of a schedule now; `kfm up` runs it"),
    ):
        changed = parser.command(name, handler, summary)
        changed.add_argument("schedule", metavar="SCHEDULE", help="its name, see `kfm schedule list`")
        changed.add_person(reason="stopped by an operator" if name == "pause" else "", wants_reason=name == "resume")
        if name != "trigger":
            changed.add_signing()
    late = parser.command(
        "freshness",
        freshness,
        "Show how old each dataset is, how old it may be, and why it is late",
        "The age is that of the public version; each of its minutes has one cause.",
    )
    late.add_argument("dataset", nargs="*", metavar="DATASET", help="its name in kfm.yml (default: all)")
    late.add_argument("--check", action="store_true", help="exit 3 if one is late")
    slots = parser.command(
        "pools",
        pools,
        "Show which work has the slots of each pool, which work waits, and since when",
        "Waiting work is listed in the order in which it gets a slot: a backfill after all others.",
    )
    slots.add_argument("pool", nargs="*", metavar="POOL", help="its name in kfm.yml (default: all)")


def schedule_list(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.due_schedules import is_overdue, schedule_statuses

    with opened(options, screen, "read") as session:
        found = list(schedule_statuses(session))
        newest = session.state.ticks.newest()
        now_ms = session.clock.now_ms()
    if screen.json:
        screen.data(
            [
                {
                    **_plain(each.schedule),
                    "paused": each.paused,
                    "ahead": each.ahead,
                    "last": _tick(each.last),
                    "next": _at(each.next_ms),
                    "overdue": is_overdue(each, now_ms),
                }
                for each in found
            ]
        )
        return _dead_man(options, found, now_ms)
    screen.table(
        ("schedule", "dataset", "when", "zone", "last", "next", "state"),
        [
            (
                each.schedule.id,
                each.schedule.dataset,
                _when(each.schedule),
                each.schedule.timezone,
                _short(each.last.at_ms) if each.last is not None else "never",
                _short(each.next_ms),
                "paused" if each.paused else "ahead of the clock" if each.ahead else "ok",
            )
            for each in found
        ],
    )
    if late := [each for each in found if is_overdue(each, now_ms)]:
        since = f"the last tick was claimed {rfc3339(newest.claimed_ms)}" if newest is not None else "nobody ever did"
        screen.say(f"{len(late)} due and not claimed for more than five minutes: is `kfm up` running? {since}")
    return _dead_man(options, found, now_ms)


def _dead_man(options: argparse.Namespace, found: list[ScheduleStatus], now_ms: int) -> int:
    dead = options.check and any(is_overdue(each, now_ms) for each in found)
    return EXIT_CODES["refused" if dead else "done"]


def schedule_show(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.due_schedules import is_paused, one

    resolved = settings(options)
    schedule = one(resolved, options.schedule)
    with opened(options, screen, "read", resolved) as session:
        paused = is_paused(session.state, schedule)
        ticks = list(session.state.ticks.of(schedule.id, limit=max(options.limit, 0)))
    if screen.json:
        screen.data({**_plain(schedule), "paused": paused, "ticks": [_tick(each) for each in ticks]})
        return 0
    screen.fields([(name, value) for name, value in _plain(schedule).items() if value is not None])
    screen.fields([("state", "paused" if paused else "ok")])
    screen.line()
    screen.table(
        ("tick", "claimed", "why", "missed", "trigger"),
        [(_short(each.at_ms), _short(each.claimed_ms), _WHY[each.why], each.missed, each.trigger_id) for each in ticks],
    )
    return 0


def schedule_next(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.due_schedules import instants, one, schedules_of

    resolved = settings(options)
    schedules = [one(resolved, options.schedule)] if options.schedule else schedules_of(resolved)
    after = parse_instant(options.after, "--after") if options.after else from_environment().now_ms()
    found = instants(schedules, after, min(max(options.count, 0), 10_000))
    if screen.json:
        screen.data(
            [
                {"schedule": each.schedule, "at": rfc3339(each.at_ms), "acted_on": rfc3339(each.acted_on_ms),
                 "local": each.local, "note": each.note}
                for each in found
            ]
        )  # fmt: skip
        return 0
    screen.table(
        ("utc", "local", "schedule", "note"),
        [(_short(each.at_ms), each.local, each.schedule, each.note) for each in found],
    )
    return 0


def schedule_check(options: argparse.Namespace, screen: Screen) -> int:
    """Raise if a schedule has a mistake; else print the schedules, with what they would change."""
    resolved = settings(options)
    schedules = schedules_of(resolved)
    with opened(options, screen, "read", resolved) as session:
        new = [each.id for each in schedules if session.state.ticks.last(each.id) is None]
    if screen.json:
        screen.data({"schedules": [_plain(each) for each in schedules], "new": new})
        return 0
    for each in schedules:
        what = "starts with the next `kfm up`" if each.id in new else "is active"
        screen.line(f"{each.id}: {_when(each)} {each.timezone}, {each.dataset}; {what}  ({each.place})")
    screen.say(f"{len(schedules)} schedules without mistakes")
    return 0


def schedule_pause(options: argparse.Namespace, screen: Screen) -> int:
    return _switch(options, screen, "freeze")


def schedule_resume(options: argparse.Namespace, screen: Screen) -> int:
    return _switch(options, screen, "thaw")


def _switch(options: argparse.Namespace, screen: Screen, operation: str) -> int:
    """Set or clear a freeze flag. The flag is a ref, so its history and the ledger say who set it, when and why."""
    from kfm.app.runs.due_schedules import one

    schedule = one(settings(options), options.schedule)
    return operate(options, screen, operation, schedule.dataset, {"scope": f"schedule/{schedule.id}"})


def schedule_trigger(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.due_schedules import one, request_run

    who = person(options)
    resolved = settings(options)
    schedule = one(resolved, options.schedule)
    with opened(options, screen, "write", resolved) as session:
        trigger = request_run(session, schedule, **who)
    if screen.json:
        screen.data(trigger)
    else:
        screen.line(trigger.trigger_id)
        screen.say("it waits: `kfm up` runs it, or `kfm resume` once")
    return 0


def pools(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.session.pools import pool_statuses

    resolved = settings(options)
    names = [known_pool(resolved, name) for name in options.pool]
    with opened(options, screen, "read", resolved) as session:
        found = pool_statuses(session, names or sorted(resolved.config.pools))
        now_ms = session.clock.now_ms()
    if screen.json:
        screen.data(found)
        return 0
    if not found:
        screen.say("no pool is declared; write one in kfm.yml, such as pools: {gpu: 1}")
        return 0
    screen.table(
        ("pool", "slots", "free", "waiting"),
        [(each.pool, each.slots, each.free, len(each.waiting)) for each in found],
    )
    rows = [
        (each.pool, f"slot {claim.slot}" if claim.slot is not None else f"waits, {place}", claim.dataset,
         claim.partition, claim.since[:19] + "Z", span(_minutes(claim.since, now_ms)), claim.priority, claim.process)
        for each in found
        for place, claim in [*((0, claim) for claim in each.held), *enumerate(each.waiting, 1)]
    ]  # fmt: skip
    if rows:
        screen.line()
        screen.table(("pool", "place", "dataset", "partition", "since", "for", "priority", "process"), rows)
    return 0


def known_pool(resolved: Resolved, name: str) -> str:
    if name not in resolved.config.pools:
        close = nearest(name, sorted(resolved.config.pools))
        hint = f"did you mean {close}?" if close else "see `kfm schedule pools`"
        raise BadInput(f"there is no pool {printable(name)}", hint=hint)
    return name


def _minutes(since: str, now_ms: int) -> int:
    return max(now_ms - parse_instant(since, "since"), 0) // 60_000


def freshness(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    names = [known_dataset(options, screen, resolved, name) for name in options.dataset]
    with opened(options, screen, "read", resolved) as session:
        found = told(session, names or sorted(resolved.config.datasets))
    if screen.json:
        screen.data(found)
    else:
        screen.table(
            ("dataset", "verdict", "age", "target", "late", "why"),
            [
                (
                    each.dataset,
                    each.verdict,
                    span(each.age_min),
                    each.target,
                    span(each.late_min) if each.late_min else None,
                    ", ".join(f"{cause} {span(minutes)}" for cause, minutes in each.blame.items()),
                )
                for each in found
            ],
        )
    late = any(each.verdict == "late" for each in found)
    return EXIT_CODES["refused" if options.check and late else "done"]


def _when(schedule: Schedule) -> str:
    others = f"after {', '.join(schedule.after)}" if schedule.after else ""
    return schedule.cron or others or (f"on {schedule.on}" if schedule.on else "static")


def _plain(schedule: Schedule) -> dict[str, Any]:
    return {
        "id": schedule.id,
        "dataset": schedule.dataset,
        "cron": schedule.cron or None,
        "after": list(schedule.after) or None,
        "on": schedule.on,
        "of": list(schedule.of) or None,
        "when": schedule.when or None,
        "timezone": schedule.timezone,
        "overlap": schedule.overlap,
        "catch_up": schedule.catch_up,
        "jitter_s": schedule.jitter_s,
        "start": _at(schedule.start_ms),
        "end": _at(schedule.end_ms),
        "window": schedule.window or None,
        "pool": schedule.pool or None,
        "declared": schedule.place,
    }


def _tick(tick: Tick | None) -> dict[str, Any] | None:
    if tick is None:
        return None
    return {
        "at": rfc3339(tick.at_ms),
        "claimed": rfc3339(tick.claimed_ms),
        "why": tick.why,
        "missed": tick.missed,
        "trigger": tick.trigger_id or None,
    }


def _at(ms: int | None) -> str | None:
    return None if ms is None else rfc3339(ms)


def _short(ms: int | None) -> str:
    return "-" if ms is None else rfc3339(ms)[:16].replace("T", " ") + "Z"
