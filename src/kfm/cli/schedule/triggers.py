"""kfm triggers: requests for runs that are pending, and a loop that runs them as sources change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kfm.app.daemon.source_watch import Watch
from kfm.app.interventions.catch_up import drop_triggers, pending_trigger
from kfm.app.runs.execution import Outcome, retry_request, settle, work
from kfm.app.runs.queries import trigger, triggers
from kfm.cli import Stopped
from kfm.cli.listener import teller
from kfm.cli.parser import count
from kfm.cli.render import Screen
from kfm.cli.run_report import show_runs
from kfm.cli.session import Tally, known_dataset, opened, person, settings

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.model.records import Receipt


def arguments(parser: Parser) -> None:
    listed = parser.command("list", triggers_list, "List pending triggers")
    listed.add_argument("--all", action="store_true", help="ended ones too, newest first")
    listed.add_argument("--limit", type=count, default=50, metavar="N", help="how many of those (default: 50; 0: all)")
    for name, handler, summary in (
        ("show", triggers_show, "Show one trigger"),
        ("retry", triggers_retry, "Run a trigger now, again if it ended"),
    ):
        one = parser.command(name, handler, summary)
        one.add_argument("trigger", metavar="TRIGGER", help="its id, see `kfm triggers list`")
    dropped = parser.command(
        "drop",
        triggers_drop,
        "Drop pending triggers: no run answers them",
        "It leaves a receipt that names them. `kfm triggers retry` runs one all the same.",
        reports=True,
    )
    dropped.add_argument("trigger", nargs="+", metavar="TRIGGER", help="its id, see `kfm triggers list`")
    dropped.add_person(wants_reason=True)
    watched = parser.command(
        "watch",
        watch,
        "Poll sources for changes, and run what is pending; `kfm up` does this and more",
        "Every source is polled by its poll_s; a change, a webhook or a thaw makes one run. Stop it with Ctrl-C.",
    )
    watched.add_argument("dataset", nargs="*", metavar="DATASET", help="its name in kfm.yml (default: all)")
    watched.add_argument("--once", action="store_true", help="poll every source once, run what is pending, end")


def triggers_list(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        rows = list(triggers(session, ended=options.all, limit=options.limit or -1))
    if screen.json:
        screen.data(rows)
        return 0
    if rows:
        columns = ("trigger_id", "dataset", "kind", "state", "received_at", "actor", "run_id")
        screen.table(
            tuple(name.removesuffix("_id") for name in columns),
            [tuple(r["asks"] or r[n] if n == "kind" else r[n] for n in columns) for r in rows],
        )
    else:
        screen.say("no trigger waits" + ("" if options.all else "; --all shows those that ended"))
    return 0


def triggers_show(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        row = trigger(session, options.trigger)
    if screen.json:
        screen.data(row)
    else:
        screen.fields([(name, value) for name, value in row.items() if value])
    return 0


def triggers_retry(options: argparse.Namespace, screen: Screen) -> int:
    """Run a trigger now: a pending one as it is, a finished one as a new trigger with the same content."""
    with opened(options, screen, "write") as session:
        tally = Tally(screen)
        outcome = work(session, [retry_request(options.trigger)], tally)
        show_runs(session, screen, tally, outcome)
        return tally.code


def triggers_drop(options: argparse.Namespace, screen: Screen) -> int:
    """Drop these triggers, all or none."""
    who = person(options)
    with opened(options, screen, "write") as session:
        tally = Tally(screen)
        wanted = [pending_trigger(session, each) for each in dict.fromkeys(options.trigger)]
        receipt = drop_triggers(session, wanted, **who)
        settle(session, Outcome([receipt]), tally)
        if screen.json:
            screen.data({"dropped": [each.trigger_id for each in wanted], "run_id": receipt.run_id})
        screen.say(f"{len(wanted)} dropped; receipt {receipt.run_id}")
        return tally.code


def watch(options: argparse.Namespace, screen: Screen) -> int:
    """Run until SIGTERM or Ctrl-C. Everything that it reports is durable."""
    resolved = settings(options)
    names = [known_dataset(options, screen, resolved, name) for name in options.dataset]
    names = names or sorted(resolved.config.datasets)
    with opened(options, screen, "write", resolved) as session:
        tally = Tally(screen)
        watching = Watch(session, names, tally.failed)
        screen.say(f"watching {', '.join(names)}")

        try:
            return _watch(watching, teller(session, watching, screen, tally), options.once, tally)
        except (KeyboardInterrupt, Stopped):
            if watching.busy or options.once:
                raise
            screen.say("stopped; nothing was at work")  # nothing is at work while it polls or waits, so it can end here
            return 0


def _watch(watching: Watch, told: Callable[[Iterator[Receipt]], int], once: bool, tally: Tally) -> int:
    import time

    told(watching.take_up())
    while True:
        seen = watching.poll()
        if not once:
            told(watching.drain())
        elif not watching.more():
            told(watching.drain(patient=False))
            return tally.code
        if not seen:
            time.sleep(watching.pause_ms() / 1000)
