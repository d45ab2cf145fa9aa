"""The recorded configuration of a run: the settings of its dataset, stored under the digest that its receipt names."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kfm.config import DatasetConfig
from kfm.errors import Corrupt, Refused
from kfm.model.canonical import canonical
from kfm.model.labels import LEVELS, Level
from kfm.model.redaction import redacted

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.app.session.source_requests import DatasetSettings
    from kfm.config import Resolved
    from kfm.model.updater import Updater


def recorded_config(session: Session, config_hash: str, cure: str) -> DatasetConfig:
    """Return the settings with this digest. Corrupt if they are missing or damaged, Refused if another version of KFM
    wrote settings that this one does not know. `cure` says what else the operator can do."""
    if session.state.inline_object(config_hash) is None:
        raise Corrupt(
            f"the configuration {config_hash} is missing (older versions of KFM stored none)",
            hint=f"restore the state from a copy, or {cure}",
        )
    try:
        return msgspec.json.decode(session.objects.read(config_hash), type=DatasetConfig)
    except Corrupt as problem:
        raise Corrupt(
            f"the configuration {config_hash} is damaged", hint=f"restore the state from a copy, or {cure}"
        ) from problem
    except msgspec.MsgspecError as problem:
        raise Refused(
            f"the configuration {config_hash} has settings that this version of KFM does not know",
            hint=f"use the version that wrote it, or {cure}",
        ) from problem


def recorded_of_run(session: Session, run_id: str) -> tuple[str, str, dict[str, Any]]:
    """Return the dataset of a run, the digest of the settings that it recorded, and these as plain values without
    secrets. Refused if it recorded none; else raises like `recorded_config`."""
    receipt, run = session.state.ledger.receipt(run_id), session.state.runs.get(run_id)
    config_hash = receipt.config_hash if receipt is not None else ""
    if run is not None and not config_hash:
        from kfm.engine.run_journal import planned_config

        config_hash = planned_config(session.state, run_id)
    if not config_hash:
        raise Refused(f"run {run_id} recorded no settings", hint="see `kfm config show` for those of kfm.yml")
    dataset = receipt.dataset if receipt is not None else run.dataset if run is not None else ""
    found: dict[str, Any] = redacted(
        msgspec.to_builtins(recorded_config(session, config_hash, "see `kfm config show`"))
    )
    return dataset, config_hash, found


class RecordedSettings(NamedTuple):
    """Recorded settings of a dataset, as a run needs them, and the updater that they name."""

    settings: DatasetSettings
    updater: Updater


def recorded_settings(session: Session, dataset: str, config_hash: str, cure: str) -> RecordedSettings:
    """Return the settings of a dataset with this digest, as a run needs them. Raises like `recorded_config`."""
    from kfm.app.session.source_requests import dataset_settings

    found = recorded_config(session, config_hash, cure)
    resolved = with_config(session.resolved, dataset, found)
    settings = dataset_settings(resolved, resolved.config, dataset, dry=session.mode == "dry")
    settings = settings._replace(config_hash=config_hash, config_body=canonical(found))
    return RecordedSettings(settings, session.load(session.resolved, dataset, found))


def with_config(resolved: Resolved, dataset: str, recorded: DatasetConfig) -> Resolved:
    """Return the configuration with recorded settings of one dataset. Its sensitivity is the recorded one or that of
    kfm.yml today, whichever is more closed."""
    declared = resolved.config.datasets
    if (now := declared.get(dataset)) is not None:
        sensitivity = max(recorded.sensitivity, now.sensitivity, key=_closed)
        recorded = msgspec.structs.replace(recorded, sensitivity=sensitivity)
    changed = copy.copy(resolved)
    changed.config = msgspec.structs.replace(resolved.config, datasets={**declared, dataset: recorded})
    return changed


def _closed(sensitivity: Level | None) -> float:
    """Return how closed a sensitivity is. An undeclared one is more closed than public."""
    return 0.5 if sensitivity is None else LEVELS.index(sensitivity)
