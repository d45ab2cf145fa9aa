"""Previews: what a branch would make, put beside what there is, under `preview/<branch>/`.

A run of a preview is a run like any other, with the branch among the parameters of its trigger; only its refs and its
lease are its own. What was built is written down in one record, whose digest is what people approve.
"""

from __future__ import annotations

import hashlib
import re

from kfm.model.records import Record, Trigger
from kfm.parsing.lazy_regex import pattern

PREVIEW = "preview/"
_PLAIN = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,58}[A-Za-z0-9_-])?\Z")
_MARKED = pattern(r".*-[0-9a-f]{12}\Z")


class PreviewInput(Record, frozen=True):
    """What was read. Of what is protected, the digest of the sealed bytes."""

    uri: str
    digest: str


class PreviewedDataset(Record, frozen=True):
    """What a branch makes of one dataset, from what, and where the refs were then."""

    dataset: str
    run_id: str
    version: str  # the digest of what was made; empty: nothing was, and `problems` says why
    base: str  # the processed version that it was made from, and is to follow
    published: str  # the published one that it is to follow
    updater_version: str
    config_hash: str  # of its declaration
    code_hash: str  # of its updater
    inputs: tuple[PreviewInput, ...]
    problems: tuple[str, ...] = ()  # codes


class Preview(Record, frozen=True):
    """All that a branch makes. No instant is in it: the same again is the same digest, and stays approved."""

    branch: str
    commit: str
    datasets: tuple[PreviewedDataset, ...]
    removed: tuple[str, ...] = ()  # datasets that the branch does not declare any more
    format: int = 1


def slug(branch: str) -> str:
    """A branch as part of a ref: itself if it can be, else what can be of it and a digest; no two share one."""
    if _PLAIN.match(branch) and ".." not in branch and not _MARKED.match(branch):
        from kfm.errors import BadInput
        from kfm.model.names import check_partition

        try:
            return check_partition(branch)
        except BadInput:  # the name of a device
            pass
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", branch)[:40].strip("-_")
    return f"{plain or 'branch'}-{hashlib.sha256(branch.encode()).hexdigest()[:12]}"


def preview_of(trigger: Trigger) -> str:
    """The preview that a run is of, as in its refs; empty: none."""
    return "" if trigger.kind == "operation" else trigger.params.get("preview", "")


def zone_ref(zone: str, name: str, trigger: Trigger) -> str:
    preview = preview_of(trigger)
    return f"{PREVIEW}{preview}/{zone}/{name}" if preview else f"{zone}/{name}"


def params_of_work(trigger: Trigger) -> dict[str, str]:
    """Without what tells two builds of one preview apart: the later takes the place of the one before."""
    return {"preview": preview} if (preview := preview_of(trigger)) else trigger.params


def record_ref(preview: str) -> str:
    return f"{PREVIEW}{preview}/record"


def is_made(ref: str) -> bool:
    """Does this ref lead to a version that a preview made?"""
    return ref.startswith(PREVIEW) and ref.split("/")[2:3] == ["processed"]
