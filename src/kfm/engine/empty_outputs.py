"""An output that had rows and has none any more is not taken for a success: it is held, and what was live stays."""

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
    """For a step whose output holds no rows: the version there is now may hold none under its key either."""
    objects = context.world.objects
    current = context.world.state.refs.at(refs.processed(context.dataset))
    before = find(objects, current, step.key) if current and step.key is not None else None
    if before is None:
        return
    if before.size <= INLINE_MAX and not holds_rows(before.media_type, objects.read(before.digest)):
        return
    what = "has no rows any more: all were filtered away"
    raise Held(
        f"output {printable('/'.join(step.key or ()))} {what}",
        hint="what was published stays; if it is right, set allow_empty: true for the output",
        discreet=f"an output {what}",
    )
