"""Finds an updater whose code changed while its version did not. Such a change runs nothing again, so a run warns."""

from __future__ import annotations

from kfm.engine.partition_base import last_of_claim
from kfm.model import refs
from kfm.model.ports import State
from kfm.model.records import ErrorNote, Run
from kfm.model.updater import Updater


def code_changed(state: State, updater: Updater, dataset: str, partition: str = "", claim: str = "") -> bool:
    """Return whether the current version (or partition) was made by other code of the same updater version. False if
    the hash of either code is not known."""
    version = None
    if partition:
        last = _last_of(state, dataset, partition, claim)
        made_by = last.code_hash if last is not None else ""
    else:
        current = state.refs.at(refs.processed(dataset)) if updater.code_hash else ""
        version = state.ledger.version(dataset, current) if current else None
        last, made_by = None, version.code_hash if version is not None else ""
    if not updater.code_hash or made_by in ("", updater.code_hash):
        return False
    if version is not None:
        last = state.runs.get(version.validated_by or version.run_id)
    return last is not None and (last.updater_id, last.updater_version) == (updater.id, updater.version)


def _last_of(state: State, dataset: str, partition: str, claim: str) -> Run | None:
    """Return the run of this same work, or else the last run that changed the source of the partition."""
    done = state.runs.claimed(claim)
    if done is not None and done.status == "COMMITTED":
        return done
    for move in state.refs.history(refs.raw(f"{dataset}/{partition}", 0), reverse=True, limit=1):
        return last_of_claim(state, move.run_id)
    return None


def code_warnings(updater: Updater, outcome: str) -> list[ErrorNote]:
    """Return the warning for the receipt of a run that had nothing to do, or that made a version; none for others."""
    what, version = "declaration" if updater.declared else "code", updater.version
    if outcome == "noop":
        told = "made what is there; nothing is run again until `version` changes (or use --force)"
    elif outcome in ("done", "unchanged"):
        told = f"made what was there, and this run is of version {version} too; change `version` with the {what}"
    else:
        return []
    return [ErrorNote(code="code.changed", message=f"the {what} changed since version {version} {told}")]
