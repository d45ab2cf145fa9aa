"""Focus Mode: the context of a dataset, version, file or run, each sentence with the evidence it rests on.

It is built from public records alone, and only about versions that the serve gate allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kfm.app.provenance.explain import explain_thing
from kfm.app.runs.resolve import find_thing
from kfm.app.serving.served_records import (
    Evidence,
    FocusContext,
    FocusSentence,
    Link,
    Produced,
)
from kfm.delivery.dataset_context import governance_of, telemetry_of
from kfm.errors import BadInput
from kfm.model import refs

if TYPE_CHECKING:
    from kfm.app.serving.shelf import Shelf
    from kfm.app.session.session import Session
    from kfm.model.public_run import PublicRun
    from kfm.projections.explanation import Explanation


def focus(session: Session, shelf: Shelf, text: str, index: int) -> FocusContext | None:
    """Return the context of what this text names; None if nothing that may be shown has that name."""
    try:
        thing = find_thing(session, refs.published(text) if shelf.find(text) is not None else text)
        dataset = thing.dataset
        if not dataset or shelf.find(dataset) is None:
            return None
        told, runs = explain_thing(session, thing)
    except BadInput:
        return None
    shown = shelf.find(told.dataset)
    if shown is None or told.version not in shown.standing or not _all_shown(shelf, told):
        return None
    maker = next(run for run in runs if run.run_id == told.run_id)
    return FocusContext(
        thing=told.thing,
        kind=told.kind,
        dataset=told.dataset,
        version=told.version,
        title=told.title,
        produced=_produced(told),
        chain=told.chain,
        governance=governance_of(maker),
        owner=str(maker.metadata.get("attribution") or ""),
        telemetry=telemetry_of(session.state, maker),
        sentences=tuple(_sentences(told, runs)),
        explain_again=(f"kfm explain {told.dataset}@{told.version[7:23]}", f"kfm reproduce {told.run_id}"),
        links=(
            Link(rel="self", href=f"/v1/focus/{told.dataset}"),
            Link(rel="alternate", href=f"/focus/{told.dataset}", type="text/html", title="the page"),
            Link(rel="dataset", href=f"/v1/datasets/{told.dataset}"),
        ),
        ledger_entries=index,
    )


def _all_shown(shelf: Shelf, told: Explanation) -> bool:
    """Return whether no dataset of the chain is closed to this audience although it is public. One that was never
    published is named by public records alone."""
    published = {link.dataset for link in told.chain if link.dataset and link.level == "public"}
    return all(shelf.find(name) is not None or not shelf.is_published(name) for name in published)


def _produced(told: Explanation) -> Produced:
    good = told.last_good
    return Produced(
        updater=told.updater_id,
        updater_version=told.updater_version,
        trigger_type=told.trigger_type,
        trigger=told.trigger,
        run_id=told.run_id,
        made_at=told.made_at,
        last_good_run="" if good is None else good.run_id,
        last_good_at="" if good is None else good.at,
        outcome=told.outcome,
    )


def _sentences(told: Explanation, runs: list[PublicRun]) -> Iterator[FocusSentence]:
    known: dict[str, Evidence] = {}
    for run in runs:
        for evidence in _evidence(run):
            known.setdefault(evidence.digest, evidence)
    for line in told.lines:
        cited = [known.get(each) or Evidence(each, "a recorded digest", "") for each in dict.fromkeys(line.cites)]
        yield FocusSentence(line.about, line.text, tuple(cited))


def _evidence(run: PublicRun) -> Iterator[Evidence]:
    """Yield the digests that a run's record names, each with where it can be looked at."""
    at = f"/v1/runs/{run.run_id}"
    yield Evidence(run.receipt_digest, f"the receipt of run {run.run_id[:8]}", at)
    if run.version:
        yield Evidence(run.version, f"a version of {run.dataset}", f"/v1/datasets/{run.dataset}/versions/{run.version}")
    if run.plan_hash:
        yield Evidence(run.plan_hash, f"the plan of run {run.run_id[:8]}", at)
    if run.code_hash:
        yield Evidence(run.code_hash, "the code of the updater", at)
    if run.config_hash:
        yield Evidence(run.config_hash, "the settings of the dataset", at)
    for artifact in run.artifacts:
        yield Evidence(artifact.digest, "a file of the version", f"/datasets/{run.dataset}/{artifact.path}")
    for each in run.inputs:
        if each.checksum:
            yield Evidence(each.checksum, "a source as it was read", at)
