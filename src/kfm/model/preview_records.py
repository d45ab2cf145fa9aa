"""Previews: what a branch would build, stored next to the real data under `preview/<branch>/`.

A preview run is a run like any other, with the branch among the parameters of its trigger; only its refs and its lease
are separate. One record lists what was built, and people approve the digest of this record.
"""

from __future__ import annotations

import hashlib
import re

from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.names import check_partition
from kfm.model.records import Record, Trigger
from kfm.parsing.lazy_regex import pattern

_PLAIN = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,58}[A-Za-z0-9_-])?\Z")
_MARKED = pattern(r".*-[0-9a-f]{12}\Z")


class PreviewInput(Record, frozen=True):
    """One input of a preview run. The digest of protected data is that of the encrypted bytes."""

    uri: str
    digest: str


class PreviewedDataset(Record, frozen=True):
    """The version that a branch builds of one dataset, its inputs, and the values of the dataset's refs at that
    time."""

    dataset: str
    run_id: str
    version: str  # the digest of the version it built; empty: none, and `problems` says why
    base: str  # the processed version that it is based on and will replace
    published: str  # the published version that it will replace
    updater_version: str
    config_hash: str  # of its declaration
    code_hash: str  # of its updater
    inputs: tuple[PreviewInput, ...]
    problems: tuple[str, ...] = ()  # codes


class Preview(Record, frozen=True):
    """Everything that a branch builds. It contains no time: the same build again has the same digest and stays
    approved."""

    branch: str
    commit: str
    datasets: tuple[PreviewedDataset, ...]
    removed: tuple[str, ...] = ()  # datasets that the branch no longer declares
    format: int = 1


def slug(branch: str) -> str:
    """Return the branch as part of a ref: unchanged if possible, else its valid characters and a digest. No two
    branches share one."""
    if _PLAIN.match(branch) and ".." not in branch and not _MARKED.match(branch):
        try:
            return check_partition(branch)
        except BadInput:  # a reserved device name
            pass
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", branch)[:40].strip("-_")
    return f"{plain or 'branch'}-{hashlib.sha256(branch.encode()).hexdigest()[:12]}"


def preview_of(trigger: Trigger) -> str:
    """Return the preview that a run belongs to, as in its refs; empty if none."""
    return "" if trigger.kind == "operation" else trigger.params.get("preview", "")


def zone_ref(zone: str, name: str, trigger: Trigger) -> str:
    preview = preview_of(trigger)
    return refs.preview(preview, refs.in_zone(zone, name)) if preview else refs.in_zone(zone, name)


def params_of_work(trigger: Trigger) -> dict[str, str]:
    """Return the parameters without those that distinguish two builds of one preview: the later build replaces the
    earlier."""
    return {"preview": preview} if (preview := preview_of(trigger)) else trigger.params


def record_ref(preview: str) -> str:
    return refs.preview(preview, "record")


def is_made(ref: str) -> bool:
    """Return whether this ref points to a version that a preview built."""
    inner = refs.parse(ref).previewed
    return inner is not None and inner.zone == "processed"
