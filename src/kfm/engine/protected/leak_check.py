"""Compares everything that could be published with the fingerprints of everything that is protected here.

The check runs when a run has made something that could be published, and again before it is published. It takes all
files of a version together, opens archives and encodings, and reads numbers in every notation, so a protected table is
not published under another name or in another machine form. A file that cannot be read, and a match that may be chance,
are pending review. The check does not recognise coordinates of another projection and text in other words
(docs/threat-model.md lists the forms). It reports rules and counts, never a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec

from kfm.engine.protected.fingerprint_match import Known, known
from kfm.engine.protected.protection import Protection
from kfm.engine.protected.verdict import encrypted_for_good, quarantined
from kfm.engine.run_context import RunContext
from kfm.engine.stage_results import Executed, Planned
from kfm.errors import Denied, KfmError
from kfm.masking.first_cells import memory_of, shown_cells
from kfm.masking.leak_scanner import ScanReport, one_cell, scan, scan_all
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.manifests import entries
from kfm.model.ports import Objects, State
from kfm.model.records import Classification, DatasetVersion, Decision, RefMove
from kfm.model.zone_requests import Correction

GATE = "leaks"
LOOK = "leaks.review"  # the rule by which a person must review the version first
MOST_COMING = 1 << 28  # the most bytes of a fetched source that are searched


def check_made(context: RunContext, planned: Planned, executed: Executed) -> None:
    """Denied if an output of this run contains something protected. Encrypted outputs are never published, so they are
    not searched."""
    protection = context.guards.protection
    if protection is None or context.world.encryption is not None:
        return
    if not (marks := known(context.world.state, protection)):
        return
    waiting, results = dict(executed.tail_rows), executed.results

    def bodies() -> Iterator[bytes]:
        position = -1
        for batch in planned.plan.each(context.world.state):
            for step in batch:
                position += 1
                if step.key is None or not results.is_done(position):
                    continue
                _, name, _, media_type = results.get(position)
                body = waiting.get(name)
                yield context.world.objects.read(name) if body is None else body
                yield canonical([list(step.key), media_type, results.described.get(position, {})])

    _deny(_found(bodies, marks, context.standing), f"what this run of {context.dataset} has made")


def check_fetched(state: State, protection: Protection, dataset: str, pieces: Iterable[bytes]) -> None:
    """Denied if a source without a label contains something protected. Called before its bytes are stored in clear. A
    source that cannot be read, or that is too large, is not searched here; the outputs made from it are."""
    marks = known(state, protection)
    if not marks:
        return
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > MOST_COMING:
            return
    reports = [scan(bytes(body), one.prints, one.marker) for one in marks]
    leaks = [leak for report in reports if report.verdict == "deny" for leak in report.leaks]
    found = Counter({leak.rule: leak.count for leak in leaks if leak.rule != "gate.unreadable"})
    _deny(found, f"a source of {dataset} without a label")


def judged_quarantine(context: RunContext, held: str, problem: KfmError) -> str:
    """Return the digest of the report on quarantined rows that the receipt of a failed run names.

    Rows of a run that was denied as a leak, or that contain something protected, stay encrypted; the others are stored
    in clear.
    """
    unjudged = context.world.unjudged
    if not held or unjudged is None or unjudged.judged or not (names := quarantined(unjudged, held)):
        return held
    try:
        marks = known(context.world.state, context.guards.protection)
        leaks = str(problem.fields.get("rule", "")).startswith("gate.") or _found(
            lambda: map(unjudged.read, names), marks, context.standing
        )
    except Denied:  # a key is missing, so nothing can be compared
        leaks = True
    if leaks:
        return encrypted_for_good(context, held)
    unjudged.release(names)
    return held


def check_planned(context: RunContext, steps: bytes) -> None:
    """Denied if the steps of a plan name something protected. Called before they are stored."""
    if context.world.unjudged is None or context.world.encryption is not None:
        return
    if marks := known(context.world.state, context.guards.protection):
        _deny(_found(lambda: (steps,), marks, context.standing), f"the plan of {context.dataset}")


def check_published(context: RunContext, move: RefMove, correction: Correction | None = None) -> None:
    """Denied if a version may not be published: by its classification, or because its bytes, names or metadata contain
    something protected. The metadata of a correction are read, too."""
    dataset = refs.parse(move.ref).dataset
    version = context.world.state.ledger.version(dataset, move.after)
    if version is None:
        return  # the gate refuses it
    if correction is not None:
        version = msgspec.structs.replace(version, metadata={**version.metadata, "corrected": correction.changed})
    standing = version.standing
    if standing is not None and not standing.publishable():
        _refuse(context, move, list(standing.rules), f"{move.ref} may not move: it is {standing.level}")
    protection = context.guards.protection
    if protection is None or not (marks := known(context.world.state, protection)):
        return
    if standing is not None and standing.level == "generalised":
        _check_cells(context, move, version, protection)
    found, doubts = _judged(lambda: _candidates(context.world.objects, version), marks, standing)
    if found:
        reasons = [f"{rule}: {count}" for rule, count in sorted(found.items())]
        _refuse(context, move, reasons, f"{move.ref} may not move: something protected was found in it")
    if doubts and not _was_looked_at(context, move):
        reasons = [f"{rule}: {count}" for rule, count in sorted(doubts.items())]
        _refuse(
            context,
            move,
            reasons,
            f"{move.ref} is pending review: it may contain something protected, or part of it cannot be read",
            rule=LOOK,
            hint="look at it, reject its change request and make it again: who signs from now on has seen this",
        )


def _check_cells(context: RunContext, move: RefMove, version: DatasetVersion, protection: Protection) -> None:
    """Denied if a version shows records in other cells than the ones in which they may be public."""
    state = context.world.state.protected
    first = {
        name: cell
        for key in protection.at_hand()
        for name, cell in memory_of(state.first_cells(key.key_id)).cells.items()
    }
    shown = (pair for body in _candidates(context.world.objects, version) for pair in shown_cells(body))
    other = {identity for identity, cell in shown if first.get(identity, cell) != cell}
    if other:
        _refuse(
            context,
            move,
            [f"mask.first-cell: {len(other)}"],
            f"{move.ref} may not move: it shows {len(other)} records in other cells than they have now",
            hint="run the dataset again, and publish that version",
        )


def _refuse(
    context: RunContext,
    move: RefMove,
    reasons: list[str],
    what: str,
    *,
    rule: str = "",
    hint: str = "what is protected leaves through masking only; see `kfm labels show`",
) -> None:
    rules = [rule] if rule else []
    no = Decision(gate=GATE, allow=False, subject=move.after, policy_digest="", reasons=reasons, rules=rules)
    context.reached.decisions.append(no)
    raise Denied(
        f"{what}: " + ", ".join(reasons),
        hint=hint,
        rule=rule or (reasons[0].partition(":")[0] if reasons else ""),
    )


def _was_looked_at(context: RunContext, move: RefMove) -> bool:
    """Return whether all required signers have signed this version since it was first pending review."""
    dataset, ledger = refs.parse(move.ref).dataset, context.world.state.ledger
    first = ""
    for entry in ledger.entries_of(dataset):  # the newest first
        receipt = ledger.receipt(entry.run_id)
        if receipt is not None and any(
            (said.gate, said.subject, said.rules) == (GATE, move.after, [LOOK]) for said in receipt.policy_decisions
        ):
            first = receipt.finished_at
    return bool(first) and context.guards.signed_since(dataset, move.after, first)


def _deny(found: Counter[str], what: str) -> None:
    if found:
        raise Denied(
            f"something protected was found in {what}: "
            + ", ".join(f"{rule}: {count}" for rule, count in sorted(found.items())),
            hint="what is protected leaves through masking only; see `kfm labels show`",
            rule=min(found),
        )


def _candidates(objects: Objects, version: DatasetVersion) -> Iterator[bytes]:
    yield canonical([version.dataset, version.metadata])
    for entry in entries(objects, version.digest):
        yield canonical(entry)
        yield objects.read(entry.digest)


Bodies = Callable[[], Iterable[bytes]]


def _found(bodies: Bodies, marks: list[Known], standing: Classification | None) -> Counter[str]:
    """Return the rules that deny, with counts; a match that may be chance is reviewed before it is published."""
    return _judged(bodies, marks, standing)[0]


def _judged(bodies: Bodies, marks: list[Known], standing: Classification | None) -> tuple[Counter[str], Counter[str]]:
    """Return the rules that deny all these files together, and those that a person has to review."""
    found: Counter[str] = Counter()
    doubts: Counter[str] = Counter()

    def without_cells() -> Iterator[bytes]:
        return (_of_cells(body, standing)[1] for body in bodies())

    reports = [_of_cells(body, standing)[0] for body in bodies()]
    finest = standing.resolution if standing is not None and standing.level == "generalised" else None
    reports += [scan_all(without_cells, one.prints, one.marker, finest) for one in marks]
    for report in reports:
        kind = {"deny": found, "review": doubts}.get(report.verdict)
        if kind is not None:
            kind.update({leak.rule: leak.count for leak in report.leaks})
    return found, doubts


_CLEAN = ScanReport(verdict="clean")


def _of_cells(body: bytes, standing: Classification | None) -> tuple[ScanReport, bytes]:
    """Return whether the geometry of masked features is only that of their cells, and the rest of the features.

    The corners and the centre of a cell are near the protected points in it, often as near as a point with few digits.
    So geometry that is only a cell is not searched.
    """
    if standing is None or standing.level != "generalised" or standing.resolution is None or b'"cell"' not in body:
        return _CLEAN, body
    report = one_cell(body, standing.resolution)
    if any(leak.rule == "gate.unreadable" for leak in report.leaks):
        return _CLEAN, body  # no features, so all of it is searched
    if report.verdict != "clean":
        return report, body
    return report, _without_places(body)


def _without_places(body: bytes) -> bytes:
    text = body.strip()
    try:
        whole = msgspec.json.decode(text)
        features = whole["features"] if whole["type"] == "FeatureCollection" else [whole]
    except msgspec.DecodeError:
        features = [msgspec.json.decode(line) for line in text.splitlines()]
    kept = []
    for one in features:
        properties = {name: value for name, value in one["properties"].items() if name != "centroid"}
        kept.append(msgspec.json.encode([one.get("id"), properties]))
    return b"\n".join(kept)
