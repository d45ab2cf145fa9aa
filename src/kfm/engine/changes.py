"""Code that changed although its version did not: nothing is run again for it, so it is told."""

from __future__ import annotations

from kfm.contract.ports import State
from kfm.contract.records import ErrorNote
from kfm.contract.updater import Updater


def code_changed(state: State, updater: Updater, dataset: str) -> bool:
    """Is this other code than the run had that made the version there is now, under the same version? Not so if
    either is not known."""
    current = state.refs.at(f"processed/{dataset}") if updater.code_hash else ""
    version = state.ledger.version(dataset, current) if current else None
    if version is None or version.code_hash in ("", updater.code_hash):
        return False
    last = state.runs.get(version.validated_by or version.run_id)
    return last is not None and (last.updater_id, last.updater_version) == (updater.id, updater.version)


def code_warnings(updater: Updater, outcome: str) -> list[ErrorNote]:
    """What is told of it with a run that had nothing to do, or that made something."""
    what, version = "declaration" if updater.declared else "code", updater.version
    if outcome == "noop":
        told = "made what is there; nothing is run again until `version` changes (or use --force)"
    elif outcome in ("done", "unchanged"):
        told = f"made what was there, and this run is of version {version} too; change `version` with the {what}"
    else:
        return []
    return [ErrorNote(code="code.changed", message=f"the {what} changed since version {version} {told}")]
