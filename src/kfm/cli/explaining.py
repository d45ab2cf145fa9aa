"""kfm explain, why-not and reproduce."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kfm.cli.opening import opened, settings
from kfm.cli.render import Screen, clean, short
from kfm.errors import EXIT_CODES

if TYPE_CHECKING:
    from kfm.app.provenance.explain import Explanation
    from kfm.app.provenance.reproduce import Divergence, Reproduced


def explain(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.provenance.explain import explain as gather
    from kfm.app.provenance.explain import write_page, written

    form = "json" if screen.json and options.format == "text" else options.format
    with opened(options, screen, "read") as session:
        told, runs = gather(session, options.thing)
    if options.out:
        where = write_page(options.out, _bytes(told, form) or written(told, runs, form))
        if screen.json:
            screen.data({"written": where})
        else:
            screen.say(f"written to {where}")
    elif form == "json":
        screen.data(told)
    elif form == "text":
        for line in written(told, runs, form).splitlines():
            screen.line(clean(line))
    else:
        screen.text(written(told, runs, form))
    return EXIT_CODES["done"]


def _bytes(told: Explanation, form: str) -> str:
    if form != "json":
        return ""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n"


def why_not(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.provenance.why_not import exit_code
    from kfm.app.provenance.why_not import why_not as wonder

    with opened(options, screen, "dry") as session:
        told = wonder(session, options.thing)
    if screen.json:
        screen.data(told)
    else:
        screen.table(
            ("what", "why", "rule", "since", "what to type"),
            [(one.what, one.why, one.rule, one.since, one.do) for one in told.reasons],
        )
        if not told.reasons:
            screen.say(f"nothing is in the way of {told.thing}")
    return exit_code(told) if options.exit_code else EXIT_CODES["done"]


def reproduce(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.provenance.reproduce import reproduce as do

    done = do(settings(options), options.thing)
    if screen.json:
        screen.data(done)
    else:
        _tell_reproduced(screen, done)
    if done.first is None:
        return EXIT_CODES["done"]
    return EXIT_CODES["corrupt" if done.first.what in ("input", "object") else "refused"]


def _tell_reproduced(screen: Screen, done: Reproduced) -> None:
    screen.fields(
        [
            ("run", done.run_id),
            ("dataset", done.dataset),
            ("version", done.version),
            ("again", "byte-identical" if done.identical else done.made or "nothing"),
            ("first", _said(done.first) if done.first is not None else ""),
        ]
    )
    label = "otherwise, without effect" if done.identical else "otherwise"
    for one in done.others:
        screen.line(f"{label}: {_said(one)}")
    count = f"read {done.inputs}, performed {done.steps}"
    screen.say(
        f"{done.dataset}: byte-identical; {count}" if done.identical else f"{done.dataset}: not the same; {count}"
    )


def _said(one: Divergence) -> str:
    sides = f" ({short(one.recorded) or 'nothing'} then, {short(one.found)} now)" if one.found else ""
    return f"{one.what}: {one.message}{sides}"
