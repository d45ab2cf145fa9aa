"""kfm signals: what dashboards and alerts are made of."""

from __future__ import annotations

import argparse

from kfm.cli.opening import known_dataset, opened, settings
from kfm.cli.render import Screen
from kfm.errors import BadInput
from kfm.model.canonical import canonical


def signals(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.maintenance.metrics import events, lines, metrics

    if options.after < 0:
        raise BadInput("--after is no entry of the ledger", hint="give 0, or the index of the last event you have")
    if options.metrics and options.dataset:
        raise BadInput("--metrics is of all datasets", hint="leave the names out")
    resolved = settings(options)
    names = [known_dataset(options, screen, resolved, name) for name in options.dataset]
    with opened(options, screen, "read", resolved) as session:
        if options.metrics and screen.json:
            families = [each._asdict() for each in metrics(session)]
            for family in families:
                family["samples"] = [{"labels": labels, "value": value} for labels, value in family["samples"]]
            screen.data(families)
        elif options.metrics:
            for line in lines(session):
                screen.line(line)
        elif screen.json:
            for event in events(session, names, after=options.after, limit=options.limit):
                screen.line(canonical(event).decode())
        else:
            screen.table(
                ("ts", "signal", "dataset", "value", "run"),
                [
                    (
                        each["ts"],
                        each["signal"],
                        each["dataset"],
                        each.get("state", each.get("value", each.get("uri"))),
                        each["run_id"][:8],
                    )
                    for each in events(session, names, after=options.after, limit=options.limit)
                ],
            )
    return 0
