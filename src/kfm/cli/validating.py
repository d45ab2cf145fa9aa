"""kfm catalog validate: are these documents what they say they are?"""

from __future__ import annotations

import argparse

from kfm.cli.render import Screen


def validate(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.core.catalog_validation import validate as check
    from kfm.errors import BadInput, Refused

    counts = {"valid": 0, "unchecked": 0, "broken": 0}
    told = []
    for each in check(options.path):
        counts[each.verdict] += 1
        if each.verdict == "valid":
            continue
        place = f"{each.path}:{each.line}" if each.line else each.path
        told.append(
            {
                "path": each.path,
                "line": each.line,
                "kind": each.kind,
                "verdict": each.verdict,
                "problems": [
                    {"place": problem.place, "reason": problem.reason, "schema": problem.schema}
                    for problem in each.problems
                ],
                "unchecked": list(each.unchecked),
            }
        )
        if not screen.json:
            for problem in each.problems:
                by = f" ({problem.schema})" if problem.schema else ""
                screen.line(f"{place}: {problem.place or '/'}: {problem.reason}{by}")
            for name in each.unchecked:
                screen.line(f"{place}: unchecked: {name}")
    if not sum(counts.values()):
        raise BadInput("there is no catalog document here", hint="name a folder with .json files, or one of them")
    if screen.json:
        screen.data({**counts, "documents": told})
    else:
        screen.line(f"{counts['valid']} valid, {counts['unchecked']} unchecked, {counts['broken']} broken")
    return Refused.exit_code if counts["broken"] or (options.strict and counts["unchecked"]) else 0
