"""Explain a version, file, run or object: the run that made it, everything that went into it, and its labels. Pure.

It reads public records only, so it cannot reveal anything protected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from kfm.errors import Corrupt
from kfm.model.public_run import WITHHELD_SOURCE, PublicInput, PublicRun
from kfm.model.records import Record, TriggerKind
from kfm.model.zone_requests import Correction
from kfm.projections.explanation_sentences import Line, sentences

Stage = Literal["raw", "harmonised", "derived"]
Origins = Mapping[tuple[str, int], str]  # (run, position of an input) → the run that made that input

# The three kinds of triggers of the specification, and events: a source or another dataset that changed.
TRIGGERS: dict[TriggerKind, str] = {
    "manual": "on demand",
    "operation": "on demand",
    "job": "on demand",
    "schedule": "schedule",
    "poll": "event",
    "webhook": "event",
    "event": "event",
    "anomaly": "anomaly",
}


class ChainLink(Record, frozen=True):
    """One item of the chain. Raw items came from outside, harmonised ones are built from raw items, derived ones from
    built items.
    """

    stage: Stage
    id: str
    digest: str
    name: str  # name to display
    dataset: str  # empty: raw
    run_id: str  # the run that made it; empty: it came from outside
    updater: str
    at: str
    level: str
    reads: tuple[int, ...]  # positions of its inputs in the chain; all of them come before it


class LastGoodRun(Record, frozen=True):
    """The last run that ended well, even if it found nothing to do."""

    run_id: str
    outcome: str
    at: str
    receipt: str


class Explanation(Record, frozen=True):
    """The full explanation of one subject."""

    thing: str
    kind: str
    dataset: str
    version: str
    ref: str
    title: str
    run_id: str
    op: str
    status: str
    outcome: str
    trigger: str
    trigger_type: str
    updater_id: str
    updater_version: str
    made_at: str
    last_good: LastGoodRun | None
    lines: tuple[Line, ...]
    chain: tuple[ChainLink, ...]
    extent: tuple[float, ...]  # west, south, east, north of what may be shown; empty: unknown
    cut: int  # runs further upstream that are left out


class ExplanationSubject(Record, frozen=True):
    """The subject of an explanation, as far as its name identifies it."""

    thing: str
    kind: str
    dataset: str = ""
    version: str = ""
    ref: str = ""
    path: str = ""  # of a file
    digest: str = ""  # of a file or object


def build_explanation(
    subject: ExplanationSubject,
    maker: PublicRun,
    upstream: Sequence[PublicRun],
    origins: Origins,
    *,
    published: PublicRun | None = None,
    last_good: PublicRun | None = None,
    cut: int = 0,
    today: str = "",
    present: Sequence[Line] = (),
    correction: Correction | None = None,
) -> Explanation:
    """Return the explanation of a subject. `today` is its present level, and `present` are sentences about what became
    of it since it was published. `correction` are the hotfixes of what it says about itself."""
    runs = {run.run_id: run for run in (maker, *upstream)}
    links = chain(maker, runs, origins)
    metadata = maker.metadata or (published.metadata if published is not None else {})
    metadata = metadata if correction is None else correction.of(metadata)
    good = None
    if last_good is not None:
        good = LastGoodRun(
            run_id=last_good.run_id,
            outcome=last_good.outcome,
            at=last_good.finished_at,
            receipt=last_good.receipt_digest,
        )
    return Explanation(
        thing=subject.thing,
        kind=subject.kind,
        dataset=maker.dataset,
        version=subject.version or maker.version,
        ref=subject.ref,
        title=str(metadata.get("title", "")),
        run_id=maker.run_id,
        op=maker.op,
        status=maker.status,
        outcome=maker.outcome,
        trigger=maker.trigger,
        trigger_type=TRIGGERS[maker.trigger],
        updater_id=maker.updater_id,
        updater_version=maker.updater_version,
        made_at=maker.finished_at,
        last_good=good,
        lines=(
            *_opening(subject, maker),
            *sentences(maker, today),
            *_origins(links),
            *_declared(maker, metadata, today, correction),
            *_corrected(correction),
            *_published(published, maker),
            *present,
            *_last(last_good, maker),
        ),
        chain=links,
        extent=_extent(maker, metadata),
        cut=cut,
    )


def chain(maker: PublicRun, runs: Mapping[str, PublicRun], origins: Origins) -> tuple[ChainLink, ...]:
    """Return the chain of inputs, raw items first, the result last. Raise Corrupt if the lineage has a cycle."""
    links: list[ChainLink] = []
    places: dict[tuple[str, str], int] = {}
    entered: set[str] = set()

    def raw(each: PublicInput) -> int:
        key = (each.id, each.checksum)
        if key not in places:
            hidden = each.id.startswith(WITHHELD_SOURCE)
            name = "a protected source" if hidden else each.name or each.id.rpartition("/")[2] or each.id
            places[key] = len(links)
            links.append(
                ChainLink(
                    stage="raw", id=each.id, digest=each.checksum, name=name, dataset="", run_id="", updater="",
                    at="", level=each.level, reads=(),
                )
            )  # fmt: skip
        return places[key]

    def made(run: PublicRun) -> int:
        if ("run", run.run_id) in places:
            return places["run", run.run_id]
        if run.run_id in entered:
            raise Corrupt(f"the lineage of run {run.run_id} leads back to itself", hint="see `kfm doctor --deep`")
        entered.add(run.run_id)
        reads = []
        for position, each in enumerate(run.inputs):
            parent = runs.get(origins.get((run.run_id, position), ""))
            reads.append(raw(each) if parent is None else made(parent))
        derived = any((run.run_id, position) in origins for position in range(len(run.inputs)))
        places["run", run.run_id] = len(links)
        links.append(
            ChainLink(
                stage="derived" if derived else "harmonised",
                id=f"kfm://dataset/{run.dataset}",
                digest=run.version,
                name=run.dataset,
                dataset=run.dataset,
                run_id=run.run_id,
                updater=f"{run.updater_id} {run.updater_version}",
                at=run.finished_at,
                level=run.labels.level if run.labels is not None else "public",
                reads=tuple(dict.fromkeys(reads)),
            )
        )
        return places["run", run.run_id]

    made(maker)
    return tuple(links if maker.version else links[:-1])  # the last one is the run itself, which made no version


def _opening(subject: ExplanationSubject, maker: PublicRun) -> list[Line]:
    short = maker.version[:19]
    if subject.kind == "file":
        text = f"{subject.path} is a public file of {maker.dataset}, and run {maker.run_id} was the first to give it."
        return [Line(about="thing", text=text, cites=(subject.digest, maker.receipt_digest))]
    if subject.kind == "object":
        text = f"This object belongs to {maker.dataset}, and run {maker.run_id} was the first to give it."
        return [Line(about="thing", text=text, cites=(subject.digest, maker.receipt_digest))]
    if subject.kind == "run":
        text = f"Run {maker.run_id} of {maker.dataset} ended as {maker.outcome} ({maker.status.lower()})."
        return [Line(about="thing", text=text, cites=(maker.receipt_digest,))]
    if subject.ref and subject.version:
        text = f"{subject.ref} is at version {subject.version[:19]}, which run {maker.run_id} made."
        return [Line(about="thing", text=text, cites=(subject.version, maker.receipt_digest))]
    if not maker.version:
        text = f"{maker.dataset} has no version: its last run, {maker.run_id}, ended as {maker.outcome}."
        return [Line(about="thing", text=text, cites=(maker.receipt_digest,))]
    text = f"Version {short} of {maker.dataset} was made by run {maker.run_id}."
    return [Line(about="thing", text=text, cites=(maker.version, maker.receipt_digest))]


def _origins(links: Sequence[ChainLink]) -> list[Line]:
    """Return one sentence about the inputs of each stage of processing, from raw to derived."""
    lines = []
    for stage, said in (("raw", "came from outside"), ("harmonised", "was harmonised from it"), ("derived", "derived")):
        found = [link for link in links if link.stage == stage]
        if not found:
            continue
        names = ", ".join(dict.fromkeys(link.name for link in found[:10]))
        more = f" and {len(found) - 10} more" if len(found) > 10 else ""
        what = {"raw": "Raw", "harmonised": "Harmonised", "derived": "Derived"}[stage]
        cites = tuple(dict.fromkeys(link.digest for link in found[:10] if link.digest.startswith("sha256:")))
        if cites:
            lines.append(Line(about="chain", text=f"{what}: {names}{more} ({said}).", cites=cites))
    return lines


def _corrected(correction: Correction | None) -> list[Line]:
    if correction is None:
        return []
    what = " and ".join(sorted(field.replace("_", " ") for field in correction.changed))
    return [Line(about="governance", text=f"A hotfix corrected its {what}.", cites=(correction.fixes,))]


def _declared(maker: PublicRun, metadata: Mapping[str, Any], today: str, correction: Correction | None) -> list[Line]:
    evidence = (maker.version,) if maker.version else (maker.receipt_digest,)
    lines = []
    if maker.labels is None and today in ("", "public"):
        lines.append(Line(about="governance", text="It is plainly public: no label says otherwise.", cites=evidence))
    elif maker.labels is None:
        text = f"It was plainly public when it was made; today it is {today}."
        lines.append(Line(about="governance", text=text, cites=evidence))
    if licence := metadata.get("license"):
        by = f", by {metadata['attribution']}" if metadata.get("attribution") else ""
        is_corrected = correction is not None and not {"license", "attribution"}.isdisjoint(correction.changed)
        more = (correction.fixes,) if correction is not None and is_corrected else ()
        lines.append(Line(about="governance", text=f"It is under the licence {licence}{by}.", cites=(*evidence, *more)))
    return lines


def _published(published: PublicRun | None, maker: PublicRun) -> list[Line]:
    if published is None:
        return []
    text = f"It was published at {published.finished_at} by {published.op}, run {published.run_id}."
    return [Line(about="published", text=text, cites=(published.receipt_digest, published.version or maker.version))]


def _last(last_good: PublicRun | None, maker: PublicRun) -> list[Line]:
    if last_good is None:
        return [Line(about="last", text="No run of it has ended well.", cites=(maker.receipt_digest,))]
    ended = {"noop": "it found nothing to do", "unchanged": "what it made was there already"}
    what = "it made this" if last_good.run_id == maker.run_id else ended.get(last_good.outcome, last_good.outcome)
    text = f"The last good run ended at {last_good.finished_at}: {what}."
    return [Line(about="last", text=text, cites=(last_good.receipt_digest,))]


def _extent(maker: PublicRun, metadata: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the bounding box of everything that is shown; for masked data, the box around the cells."""
    boxes = [_flat(each.bbox) for each in maker.artifacts if each.bbox]
    declared = metadata.get("extent") or {}
    box = declared.get("bbox") if isinstance(declared, Mapping) else None
    if not boxes and box and len(box) in (4, 6):
        boxes = [_flat(tuple(float(number) for number in box))]
    if not boxes:
        return ()
    west, south, east, north = zip(*boxes, strict=True)
    return min(west), min(south), max(east), max(north)


def _flat(box: Sequence[float]) -> tuple[float, float, float, float]:
    """Return a bounding box without its heights."""
    half = len(box) // 2
    return box[0], box[1], box[half], box[half + 1]


def as_text(told: Explanation) -> str:
    """Return the explanation as text: one sentence per line, each with the digests it cites."""
    lines = [f"{told.thing} ({told.kind})", ""]
    for line in told.lines:
        cites = " ".join(dict.fromkeys(cite[:19] for cite in line.cites))
        lines.append(f"{line.text} [{cites}]")
    lines += ["", "raw → harmonised → derived:"]
    for at, link in enumerate(told.chain):
        made_of = f" ← {', '.join(str(place + 1) for place in link.reads)}" if link.reads else ""
        who = f", {link.updater}, {link.at}" if link.run_id else ""
        lines.append(f"{at + 1:>3}. {link.stage:<10} {link.name} {link.digest[:19]}{who}{made_of}")
    if told.cut:
        lines.append(f"     … and {told.cut} more runs further up")
    return "\n".join(lines) + "\n"
