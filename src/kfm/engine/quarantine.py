"""Checks every source against its contract before anything is planned from it.

Rows that pass become the accepted object; the others go into the Quarantine zone with the reasons. Findings name the
place and the rule, never the value.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.engine.acquire import is_restricted
from kfm.engine.changes.source_change import EarlierSources, source_change
from kfm.engine.run_context import RunContext
from kfm.engine.stage_results import Acquired, Inspected
from kfm.errors import Denied, Held, Refused
from kfm.model.canonical import canonical
from kfm.model.operation_target import REF
from kfm.model.ports import Objects
from kfm.model.records import DataContract, Finding, Run, SourceRef
from kfm.model.source_formats import GRIDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from kfm.model.ports import Staging
    from kfm.validation.source_check import Inspection

    Inspector = Callable[
        [Callable[[], BinaryIO], DataContract, str, Callable[[bytes], None], Callable[[bytes], None], int], Inspection
    ]


def quarantine(context: RunContext, acquired: Acquired, run: Run | None = None) -> Inspected:
    """Return the inputs with their accepted rows. Held if a source fails its contract as a whole."""
    context.stage = "QUARANTINE"
    if run is not None and run.plan_hash:  # a resumed run: its inputs were checked before it was planned
        context.reached.inspected = inspected = Inspected(run.inputs, run.held)
        _keep_grids(context, acquired, inspected)
        return inspected
    inputs = list(acquired.inputs)
    held = ""
    reports: list[dict[str, Any]] = []
    try:
        earlier = EarlierSources(context)
        for i in range(len(inputs)):
            examine(context, inputs, i, acquired.contracts.get(i), reports, earlier)
        if context.standing is not None:
            protect(context, inputs, acquired)
    finally:
        if reports:
            held = row_store(context, inputs).put(canonical({"dataset": context.dataset, "sources": reports}))
        context.reached.inspected = Inspected(inputs, held)
    context.reached.inspected = inspected = Inspected([accepted_as_it_is(ref) for ref in inputs], held)
    _keep_grids(context, acquired, inspected)
    return inspected


def _keep_grids(context: RunContext, acquired: Acquired, inspected: Inspected) -> None:
    """Remember the formats and descriptions of gridded sources, which are published unchanged."""
    if any(contract.format in GRIDS for contract in acquired.contracts.values()) and context.world.encryption is None:
        for i, contract in acquired.contracts.items():
            if contract.format in GRIDS:
                context.grids[inspected.inputs[i].accepted_hash] = contract.format


def accepted_as_it_is(ref: SourceRef) -> SourceRef:
    """Return a source without a contract as accepted. One that was checked, or that does not exist, is unchanged."""
    if ref.accepted_hash or not ref.content_hash:
        return ref
    return msgspec.structs.replace(ref, accepted_hash=ref.content_hash)


# The setting of a contract that changes a default limit, by the rule that failed.
_SETTINGS = {"rows.none": "allow_empty: true", "rows.share": "max_held_share", "rows.shrunk": "shrink_limit"}


def examine(
    context: RunContext,
    inputs: list[SourceRef],
    i: int,
    contract: DataContract | None,
    reports: list[dict[str, Any]],
    earlier: EarlierSources,
) -> None:
    """Check the input `i` against the current version and its contract, and replace it in `inputs` by the accepted
    source. Raise Held if the whole source fails; with a contract it is replaced then, too."""
    ref = inputs[i]
    before = earlier.current(ref, i) if not context.updater.moves_only else None
    change = source_change(context, ref, contract, before, earlier)
    if change is not None:
        from kfm.validation.source_check import nothing_found

        context.say("source.inspected", source=change.source, held=True)
        reports.append(_report(ref, nothing_found(change), ""))
        raise _held(context, ref, change)
    if contract is None:
        return
    name, read = ref.name or "source", ref.accepted_hash or ref.content_hash  # for a version, the key that is read
    context.world.progress("check", 0, 0)
    rows = before.rows - before.held_rows if before is not None else 0
    report, accepted, held_hash = _inspected(context, ref, contract, rows)
    if report.cause is not None and report.cause.rule == "rows.shrunk" and earlier.had(ref):
        accepted.abort()  # it returned to bytes that passed before, so it did not shrink
        report, accepted, held_hash = _inspected(context, ref, contract, 0)
    if report.held or report.held_rows or (report.changed and not report.skipped):
        reports.append(_report(ref, report, held_hash))
    told: dict[str, Any] = {"held": report.held}
    if not is_restricted(ref):
        counts = {"rows": report.rows, "held_rows": report.held_rows}
        told = {**counts, **told, "findings": report.finding_counts}
    context.say("source.inspected", source=name, **told)
    # Logged in any case; the accepted rows are known only if the source is not refused.
    inputs[i] = msgspec.structs.replace(ref, accepted_hash="", rows=report.rows, held_rows=report.held_rows)
    if report.held:
        accepted.abort()
        raise _held(context, ref, report.cause or report.findings[0])
    accepted_hash = accepted.commit()[0] if report.changed else _drop(accepted) or read
    if contract.format in GRIDS:
        context.described[accepted_hash] = report.described or {}
    inputs[i] = msgspec.structs.replace(inputs[i], accepted_hash=accepted_hash, partitions=report.partitions)


def _inspected(
    context: RunContext, ref: SourceRef, contract: DataContract, before: int
) -> tuple[Inspection, Staging, str]:
    """Return the result of the check of a source against its contract, the staged accepted rows, and the digest of the
    quarantined rows."""
    inspect, objects = _inspector(context, ref, contract), row_store(context, [ref])
    read = ref.accepted_hash or ref.content_hash
    accepted, held = objects.stage(), objects.stage()
    try:
        report = inspect(lambda: objects.open(read), contract, ref.name or "source", accepted.write, held.write, before)
        return report, accepted, held.commit()[0] if report.held_rows else _drop(held)
    except BaseException:
        accepted.abort()
        held.abort()
        raise


def _held(context: RunContext, ref: SourceRef, first: Finding) -> Held:
    """Return the error about a source that is quarantined as a whole, with the finding that decided it."""
    where = f", row {first.row}" if first.row else ""
    column = f", column {first.column}" if first.column else ""
    why = first.message.removesuffix("; the source is held")
    cure = f"if it is right, its contract may set {_SETTINGS[first.rule]}; " if first.rule in _SETTINGS else ""
    if first.rule.startswith("source."):
        cure = f"if it is right, `kfm run {context.dataset} --force --reason …` accepts it; "
    return Held(
        f"source {ref.name or 'source'} ({_file(ref.uri)}) is held: {why} ({first.rule}{where}{column})",
        hint=f"see `kfm quarantine {context.dataset}`; {cure}the published version stays",
    )


def _inspector(context: RunContext, ref: SourceRef, contract: DataContract) -> Inspector:
    """Return the checker of a source: in this process, or in a sandbox. It is loaded only if there is a contract."""
    from kfm.validation.source_check import APART, inspect

    if contract.format not in APART:
        return inspect
    if ref.sealed_with or context.world.encryption is not None:
        raise Refused(
            f"source {ref.name or 'source'} is protected, and masking does not understand {contract.format}",
            hint="set `format:` csv, ndjson or geojson, or `bytes` to keep it as it is",
            rule="format.protected",
        )
    from kfm.engine.isolation.sandbox import inspect_apart

    return partial(inspect_apart, context.world.scratch)


def row_store(context: RunContext, inputs: list[SourceRef]) -> Objects:
    """Return the store for rows of these sources: encrypted with the key of the first protected one, if any."""
    protection, refs = context.guards.protection, [ref for ref in inputs if ref.sealed_with]
    if protection is None or not refs or context.world.encryption is not None:
        return context.world.objects
    from kfm.engine.protected.encrypted_objects import EncryptedObjects, Encryption

    key = protection.with_id(refs[0].sealed_with)
    if key is None:
        raise Denied(
            f"key {refs[0].sealed_with} is not available any more", hint="ask its custodian", rule="key.missing"
        )
    return EncryptedObjects(context.world.objects, Encryption(key, protection.with_id))


def protect(context: RunContext, inputs: list[SourceRef], acquired: Acquired) -> None:
    """Replace each protected source with its masked form. A restricted run only records their fingerprints."""
    from kfm.engine.protected.masking_stage import learn, mask_source

    for i, ref in enumerate(inputs):
        if not ref.sealed_with or ref.uri.startswith(REF):
            continue
        contract, objects = acquired.contracts.get(i), row_store(context, [ref])
        rows = partial(objects.open, ref.accepted_hash or ref.content_hash)
        if context.world.encryption is not None:
            if ref.partitions:
                raise Refused(
                    f"partition_by of source {ref.name or 'source'} would write values of a restricted source into the "
                    "state",
                    hint="take it out: plan() names the parts of a restricted dataset by itself",
                    rule="seal.partitions",
                )
            learn(context, ref, contract, rows)
            continue
        masked = mask_source(context, ref, contract, rows)
        context.say("source.masked", source=ref.name or "source", records=masked.records)
        if context.guards.protection is not None:
            context.guards.protection.hidden[ref.name] = masked.hidden
        inputs[i] = msgspec.structs.replace(
            ref, accepted_hash=context.world.objects.put(masked.body), partitions=masked.partitions, layout=None
        )


def _file(uri: str) -> str:
    """Return the address as the configuration has it, but without the query of a URL, which may contain a key."""
    return uri.partition("?")[0] if "://" in uri else uri


def _drop(staging: object) -> str:
    staging.abort()  # type: ignore[attr-defined]
    return ""


def _report(ref: SourceRef, report: Inspection, held_hash: str) -> dict[str, Any]:
    return {
        "source": ref.name or "source",
        "content_hash": ref.content_hash,
        "rows": report.rows,
        "held_rows": report.held_rows,
        "held": report.held,
        "held_rows_digest": held_hash,
        "counts": report.finding_counts,
        "findings": [msgspec.to_builtins(finding) for finding in report.findings],
    }
