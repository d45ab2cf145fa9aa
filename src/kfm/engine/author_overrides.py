"""The optional methods of an updater (upsert, lineage, telemetry): they may add to what a run records, not remove."""

from __future__ import annotations

from itertools import chain

import msgspec

from kfm.engine.acquire import author_call
from kfm.engine.run_context import RunContext, is_public
from kfm.engine.stage_results import Executed, Planned
from kfm.errors import Refused
from kfm.model.canonical import canonical
from kfm.model.names import is_digest
from kfm.model.records import DatasetVersion, Item, RunTelemetry
from kfm.model.updater import Updater
from kfm.parsing.characters import is_printable

MOST = 1000  # the most inputs that lineage() may add
MOST_REPORTED = 1e9  # kilowatt-hours, or grams of CO2e, that one run may report
DECLARED = ("sensitivity", "license", "license_text")  # only the configuration sets these


def upserted(context: RunContext, version: DatasetVersion, planned: Planned, executed: Executed) -> DatasetVersion:
    """Return the version with the metadata that upsert() or conclude() of the updater added. Refused if they change
    anything else."""
    updater, kind = context.updater, type(context.updater)
    if kind.upsert is Updater.upsert and kind.conclude is Updater.conclude:
        return version
    last = dict(executed.tail_rows)  # the commit stores these later

    def made(step_id: str) -> bytes:
        for position, step in enumerate(chain.from_iterable(planned.plan.each(context.world.state))):
            if step.id == step_id:
                digest = executed.results.get(position)[1]
                return context.world.plain(last[digest]) if digest in last else context.world.objects.read(digest)
        raise _refused(context, "conclude", "a name that no step has", "pass the id of a step of the plan")

    said = author_call(context, "upsert", lambda: updater.conclude(version, planned.inputs, made))
    if type(said) is not DatasetVersion or msgspec.structs.replace(said, metadata=version.metadata) != version:
        raise _refused(
            context, "upsert", "another version than the one that was made", "change nothing but its metadata"
        )
    canonical(said.metadata)  # raises BadInput if it cannot be stored
    if said.metadata != version.metadata and not is_public(context):
        raise _refused(
            context, "upsert", "metadata of data that is not public", "set it in kfm.yml, where a gate reads it"
        )
    if any(said.metadata.get(name) != version.metadata.get(name) for name in DECLARED):
        raise _refused(context, "upsert", "another sensitivity or license", "set these in kfm.yml")
    return said


def further(context: RunContext, read: list[Item]) -> list[Item]:
    """Return the inputs that the updater's lineage() names in addition to those that were read."""
    updater = context.updater
    if type(updater).lineage is Updater.lineage:
        return []
    said = author_call(context, "lineage", lambda: list(updater.lineage(tuple(read))))
    if not all(item in said for item in read):
        raise _refused(context, "lineage", "less than was read", "return everything that it was given, and add to it")
    more = [item for item in said if item not in read]
    if more and not is_public(context):
        raise _refused(context, "lineage", "further inputs of data that is not public", "return what it was given")
    if len(more) > MOST or not all(map(_is_named, more)):
        raise _refused(context, "lineage", "something that is no address with a digest", 'return Item(kind="uri", …)')
    return more


def _is_named(item: object) -> bool:
    if type(item) is not Item or not all(type(text) is str for text in (item.id, item.checksum)):
        return False
    if item.kind not in ("uri", "file") or item.id.startswith("kfm://"):
        return False
    return 0 < len(item.id) <= 2000 and is_printable(item.id) and is_digest(item.checksum) and not item.zone


def measured(context: RunContext, found: RunTelemetry) -> RunTelemetry:
    """Return the telemetry with the energy use that the updater reports, and the method says that it did. An error in
    its telemetry() is logged and ignored, because the run is already done; so is what cannot be an amount."""
    updater = context.updater
    if type(updater).telemetry is Updater.telemetry or not is_public(context):
        return found
    try:
        said = updater.telemetry(found)
        made = msgspec.convert(msgspec.to_builtins(said), RunTelemetry)
        canonical(made)
    except Exception as problem:
        context.say("telemetry.ignored", error_type=type(problem).__name__)
        return found
    from kfm.model.reports.energy_method import LONGEST_REPORTED, reported  # few updaters report it

    energy, grams, text = made.energy_kwh, made.co2e_g, made.energy_method
    if (energy, grams, text) == (found.energy_kwh, found.co2e_g, found.energy_method):
        return found
    if not _is_reading(energy) or not _is_reading(grams) or len(text) > LONGEST_REPORTED or not is_printable(text):
        context.say("telemetry.ignored", error_type="ValueError")
        return found
    if grams == found.co2e_g and energy != found.energy_kwh:
        grams = None  # ours belongs to our energy
    method = reported(text if text != found.energy_method else "")
    return msgspec.structs.replace(found, energy_kwh=energy, co2e_g=grams, energy_method=method)


def _is_reading(value: float | None) -> bool:
    return value is None or 0 <= value < MOST_REPORTED


def _refused(context: RunContext, method: str, what: str, hint: str) -> Refused:
    return Refused(f"{method}() of {context.updater.id} returned {what}", hint=hint)
