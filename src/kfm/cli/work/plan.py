"""kfm plan: show what a run would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kfm.app.runs.queries import preview
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_config
from kfm.app.session.input_checks import one_line
from kfm.cli.render import Screen, clean
from kfm.cli.session import _about, known_dataset, opened, settings
from kfm.errors import Held, PlanChanged

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


def arguments(parser: Parser) -> None:
    parser.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    parser.add_argument("--window", default="", metavar="W", help="the part of time, as for `kfm run`")
    parser.add_argument("--partition", default="", metavar="P", help="the part of the dataset, as for `kfm run`")
    parser.add_argument("--check", action="store_true", help="exit 3 if the locked plan, or another process, disagrees")
    parser.set_defaults(handler=plan)


def plan(options: argparse.Namespace, screen: Screen) -> int:
    window = one_line("--window", options.window)
    partition = one_line("--partition", options.partition)
    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset)
    with opened(options, screen, "dry", resolved) as session:
        try:
            view = preview(session, name, window, partition)
        except Held as problem:
            raise Held(problem.message, hint=f"`kfm run {name} --dry-run` shows all that would be held") from problem
        if options.check and view.changed:
            declared = not dataset_config(session, name).updater
            raise PlanChanged(
                f"the plan of {name} changed under the same inputs and version: " + view.diff.replace("\n", ", "),
                hint="bump its version in the configuration" if declared else "bump the updater's version",
            )
        if options.check:
            from kfm.cli.plan_check import check_elsewhere

            trigger = new_trigger(session, name, window=window, partition=partition)
            check_elsewhere(resolved, trigger, view.inputs, view.plan_hash)
        for note in view.warnings:
            screen.say(_about(name, note.message))
        if screen.json:
            screen.data(view)
        else:
            _show_plan(screen, view, brief=options.check)
        return PlanChanged.exit_code if view.changed else 0


def _show_plan(screen: Screen, view: Any, *, brief: bool) -> None:
    screen.fields(
        [
            ("plan", view.plan_hash),
            ("steps", view.steps),
            ("complete", view.complete),
            *[("input", f"{source.name or source.uri} {source.content_hash}") for source in view.inputs],
        ]
    )
    if view.shown and not brief:
        screen.line()
        rows = [(step.id, "/".join(step.key or ()), ", ".join(step.needs)) for step in view.shown]
        screen.table(("step", "key", "needs"), rows)
    screen.line()
    if view.against == "nothing":
        screen.line("no plan to compare with: this would be the first run")
    elif view.before == view.plan_hash:
        screen.line("the same plan as " + ("the locked one" if view.against == "locked" else "the last run's"))
    else:
        locked = "changed under the same inputs and version, bump the version"
        screen.line("since the last run:" if view.against == "last" else locked + ":")
        for line in view.diff.split("\n"):
            screen.line(f"  {clean(line)}")
