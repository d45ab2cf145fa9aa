"""The verdict of the leak check: before it a run stores everything encrypted, after it in clear."""

from __future__ import annotations

import msgspec

from kfm.crypto.encryption import HEADER, encryption_key_id
from kfm.engine.protected.encrypted_objects import EncryptedObjects, Encryption
from kfm.engine.protected.unjudged_objects import UnjudgedObjects
from kfm.engine.run_context import RunContext
from kfm.engine.stage_results import Executed, Planned
from kfm.model.canonical import canonical
from kfm.model.ports import Objects


def hide_until_judged(context: RunContext) -> None:
    """Let the run store everything encrypted until the leak check has judged it, if a custodian's key can be read
    here."""
    protection, world = context.guards.protection, context.world
    if protection is None or world.settings.dry_run:
        return
    objects = UnjudgedObjects(world.objects, world.state, protection, next(protection.at_hand(), None))
    context.world = msgspec.structs.replace(world, objects=objects, unjudged=objects)


def release(context: RunContext, planned: Planned, executed: Executed) -> None:
    """Store in clear what a run read and made, after the leak check has passed it."""
    unjudged = context.world.unjudged
    if unjudged is None:
        return
    names = [name for ref in planned.inputs for name in (ref.content_hash, ref.accepted_hash)]
    unjudged.release(names + quarantined(unjudged, planned.inspected.held))
    results = executed.results
    unjudged.release(results.get(at)[1] for at in range(results.steps) if results.is_done(at))
    unjudged.judged = True


def quarantined(objects: Objects, held: str) -> list[str]:
    """Return the digests of the report on quarantined rows and of the rows; empty if they are encrypted for good."""
    body = objects.read(held) if held else b""
    if not body or encryption_key_id(body[:HEADER]):
        return []
    report = msgspec.json.decode(body)
    return [held, *(one["held_rows_digest"] for one in report["sources"] if one["held_rows_digest"])]


def encrypted_for_good(context: RunContext, held: str) -> str:
    """Store a report on quarantined rows, and the rows, encrypted with a custodian's key; return its digest. Readers
    with that key see them."""
    unjudged, protection = context.world.unjudged, context.guards.protection
    assert unjudged is not None and protection is not None
    objects = EncryptedObjects(unjudged, Encryption(next(protection.at_hand()), protection.with_id))
    report = msgspec.json.decode(unjudged.read(held))
    for one in report["sources"]:
        if one["held_rows_digest"]:
            one["held_rows_digest"] = objects.put(unjudged.read(one["held_rows_digest"]))
    return objects.put(canonical(report))
