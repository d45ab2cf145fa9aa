"""kfm slo: what was promised, how much of it went wrong, and what is closed because of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kfm.app.objectives.error_budgets import budgets, objectives_of
from kfm.app.runs.objective_overrides import override_params
from kfm.cli.operation import operate
from kfm.cli.session import one_line, opened, settings
from kfm.config.objective_files import one

if TYPE_CHECKING:
    import argparse

    from kfm.app.objectives.error_budgets import Budget
    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen

MORE = """\
An objective is an OpenSLO file in the folder `slos`. A burnt budget closes backfills, hotfixes and `promote: auto`
of its datasets until it recovers, or until a steward overrides it. `kfm slo` alone lists them."""


def arguments(parser: Parser) -> None:
    parser.command("list", slo_list, "List objectives: target, actual, what is left of the budget, and burn")
    shown = parser.command("show", slo_show, "Show one objective, and what it closes")
    overridden = parser.command(
        "override",
        slo_override,
        "Open what a burnt budget closes, for a time",
        "It ends by itself. With a key list, a steward signs it.",
        reports=True,
    )
    for each in (shown, overridden):
        each.add_argument("objective", metavar="NAME", help="its name, as `kfm slo` lists it")
    overridden.add_argument(
        "--until", required=True, metavar="TIME", help="such as 2026-11-20T18:00:00Z or 12h; at most 30 days"
    )
    overridden.add_argument("--dry-run", action="store_true", help="only show what would move")
    overridden.add_person(wants_reason=True)
    overridden.add_signing()
    parser.below("subcommand").required = False
    parser.set_defaults(handler=slo_list, reports=False)


def slo_list(options: argparse.Namespace, screen: Screen) -> int:
    with opened(options, screen, "read") as session:
        found = budgets(session)
    if screen.json:
        screen.data([_as_data(each) for each in found])
    else:
        headers = ("objective", "indicator", "target", "actual", "budget left", "burn 1h", "6h", "3d", "30d", "closes")
        screen.table(headers, [_row(each) for each in found])
        if not found:
            screen.say("there are no objectives: write OpenSLO files into the folder `slos`")
    return 0


def slo_show(options: argparse.Namespace, screen: Screen) -> int:
    resolved, name = settings(options), one_line("NAME", options.objective)
    wanted = one(objectives_of(resolved), name)
    with opened(options, screen, "read", resolved) as session:
        (found,) = [each for each in budgets(session) if each.objective.name == wanted.name]
    if screen.json:
        screen.data(_as_data(found))
        return 0
    said = _as_data(found)
    burn = "  ".join(f"{window} {_number(each)}" for window, each in found.burn.items())
    rows = [
        ("objective", f"{wanted.name}  {wanted.title}".strip()),
        ("declared", wanted.place),
        ("indicator", wanted.indicator + (f" of at most {wanted.limit_ms / 1000:g} s" if wanted.limit_ms else "")),
        ("datasets", ", ".join(wanted.datasets) or "all"),
        ("window", f"{wanted.window_ms / 86_400_000:g} days"),
        ("target", _percent(wanted.target)),
        ("actual", _percent(found.actual)),
        ("budget left", _percent(found.left)),
        ("burn", burn),
        ("override", f"until {said['override']}" if said["override"] else "none"),
        ("closes", "backfill, hotfix, promote: auto" if found.closes else "nothing"),
    ]
    screen.table(("what", "value"), rows)
    return 0


def slo_override(options: argparse.Namespace, screen: Screen) -> int:
    resolved, name = settings(options), one_line("NAME", options.objective)
    wanted = one(objectives_of(resolved), name)
    with opened(options, screen, "dry" if options.dry_run else "write", resolved) as session:
        dataset, params = override_params(session, wanted, options.until)
    return operate(options, screen, "override", dataset, params)


def _as_data(each: Budget) -> dict[str, Any]:
    objective = each.objective
    return {
        "name": objective.name,
        "indicator": objective.indicator,
        "datasets": list(objective.datasets),
        "limit_seconds": objective.limit_ms / 1000 if objective.limit_ms else None,
        "window_seconds": objective.window_ms // 1000,
        "target": objective.target,
        "actual": each.actual,
        "budget_left": each.left,
        "burn": each.burn,
        "burnt": each.is_burnt,
        "override": each.override.until if each.override is not None else None,
        "closes": each.closes,
    }


def _row(each: Budget) -> tuple[str, ...]:
    closes = "risky operations" if each.closes else "overridden" if each.is_burnt else ""
    burn = tuple(map(_number, each.burn.values()))
    objective = each.objective
    numbers = (_percent(objective.target), _percent(each.actual), _percent(each.left))
    return (objective.name, objective.indicator, *numbers, *burn, closes)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.4g} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
