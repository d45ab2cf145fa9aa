"""The answer about reproduction: what `kfm reproduce` would need to repeat a run, and what of it is here.

Nothing is repeated and no byte is read. KFM keeps no result of an earlier reproduction.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kfm.app.authority.classification import declared_settings
from kfm.app.provenance.reproduce import recorded_run
from kfm.app.serving.discretion import EVERYTHING
from kfm.app.serving.run_reader import find_shown_run
from kfm.app.serving.served_records import Link
from kfm.app.session.protection_files import readable_objects
from kfm.errors import BadInput, Corrupt, KfmError, Refused
from kfm.model import manifests
from kfm.model.records import Record

if TYPE_CHECKING:
    from kfm.app.serving.discretion import Discretion
    from kfm.app.session.session import Session
    from kfm.model.records import Run

EXAMINED = 1000  # objects of the version that one request looks for


class NeededInput(Record, frozen=True):
    """The bytes of one input of the run."""

    name: str  # in kfm.yml; empty: it has none, or not shown
    digest: str  # empty: not shown
    is_here: bool


class ReproduceAnswer(Record, frozen=True):
    """What a repetition of a run needs, and the command that carries it out."""

    run_id: str
    dataset: str
    version: str  # empty: not shown
    command: str
    updater: str
    updater_version: str
    steps: int | None  # null: not shown
    inputs: tuple[NeededInput, ...]
    outputs_here: (
        bool | None
    )  # the first thousand objects of the version are stored; null: its list is not readable here
    settings: str  # recorded: those of the run are stored; today: it recorded none, so those of kfm.yml are used
    settings_digest: str
    settings_changed: bool  # kfm.yml says something else today
    custodians: tuple[str, ...]  # whose keys are needed; empty: none
    is_possible: bool  # everything that was looked for is here
    is_withheld: bool  # names and digests are not shown: the data is not plainly public
    links: tuple[Link, ...]
    ledger_entries: int


def reproduce_answer(session: Session, seen: Discretion, thing: str, index: int) -> ReproduceAnswer | None:
    """Return what repeating the run of a dataset, a version or a run needs; None if this person may not know of it, or
    if it made no version."""
    try:
        run = recorded_run(session, thing)
    except (BadInput, Corrupt, Refused):
        return None
    if run.dataset in ("", EVERYTHING) or not seen.may_name(run.dataset):
        return None
    if find_shown_run(session, seen, run.run_id) is None:
        return None
    made = session.state.ledger.version(run.dataset, run.version_digest)
    plain = seen.is_plain(run.dataset, made)
    inputs = tuple(_inputs(session, run, plain=plain))
    outputs = _outputs(session, run)
    settings, now = _settings(session, run)
    stored = not settings or session.state.inline_object(settings) is not None
    custodians = made.standing.custodians if made is not None and made.standing is not None else ()
    return ReproduceAnswer(
        run_id=run.run_id,
        dataset=run.dataset,
        version=run.version_digest if plain or seen.shelf.may_show(run.dataset, run.version_digest) else "",
        command=f"kfm reproduce {run.run_id}",
        updater=run.updater_id,
        updater_version=run.updater_version,
        steps=run.steps if plain else None,
        inputs=inputs,
        outputs_here=outputs,
        settings="recorded" if settings and stored else "today",
        settings_digest=settings,
        settings_changed=bool(settings) and settings != now,
        custodians=custodians,
        is_possible=all(each.is_here for each in inputs) and outputs is not False and (stored or settings == now),
        is_withheld=not plain,
        links=(
            Link(rel="self", href=f"/v1/reproduce/{run.run_id}"),
            Link(rel="run", href=f"/v1/runs/{run.run_id}"),
            Link(rel="focus", href=f"/v1/focus/{run.run_id}", title="how it was produced"),
        ),
        ledger_entries=index,
    )


def _inputs(session: Session, run: Run, *, plain: bool) -> Iterator[NeededInput]:
    for ref in run.inputs:
        wanted = {each for each in (ref.content_hash, ref.accepted_hash) if each}
        yield NeededInput(
            name=ref.name if plain else "",
            digest=ref.content_hash if plain else "",
            is_here=all(map(session.objects.has, wanted)),
        )


def _outputs(session: Session, run: Run) -> bool | None:
    try:
        entries = islice(manifests.entries(readable_objects(session), run.version_digest), EXAMINED)
        return all(session.objects.has(entry.digest) for entry in entries)
    except KfmError:
        return None


def _settings(session: Session, run: Run) -> tuple[str, str]:
    """Return the digest of the settings that the run recorded, empty if it recorded none, and that of today's."""
    receipt = session.state.ledger.receipt(run.run_id)
    try:
        now = declared_settings(session, run.dataset).config_hash
    except BadInput:  # kfm.yml does not name the dataset any more
        now = ""
    return receipt.config_hash if receipt is not None else "", now
