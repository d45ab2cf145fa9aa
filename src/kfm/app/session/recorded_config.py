"""The recorded configuration of a run: the settings of its dataset, stored under the digest that its receipt names."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import msgspec

from kfm.config import DatasetConfig
from kfm.errors import Corrupt, Refused
from kfm.model.labels import LEVELS, Level

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import Resolved


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
