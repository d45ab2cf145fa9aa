"""Stops a run whose output lost all its rows: the run waits for review, and the current version stays."""

from __future__ import annotations

from kfm.engine.run_context import RunContext
from kfm.errors import Held
from kfm.model import refs
from kfm.model.csv_format import holds_rows
from kfm.model.manifests import find
from kfm.model.ports import INLINE_MAX
from kfm.model.records import Step
from kfm.parsing.characters import printable


def check_emptied(context: RunContext, step: Step) -> None:
    """Raise Held if this step made an output without rows while the current version has rows under the same key."""
    objects = context.world.objects
    current = context.world.state.refs.at(refs.processed(context.dataset))
    before = find(objects, current, step.key) if current and step.key is not None else None
    if before is None:
        return
    if before.size <= INLINE_MAX and not holds_rows(before.media_type, objects.read(before.digest)):
        return
    what = "has no rows any more: all were filtered out"
    raise Held(
        f"output {printable('/'.join(step.key or ()))} {what}",
        hint="the published version stays; if the output is right, set allow_empty: true for it",
        discreet=f"an output {what}",
    )
