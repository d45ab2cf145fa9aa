"""The output of `focus.context`: what may be said in public of how a published version came to be.

The record is made of public records alone, so it has no field for a protected fact. It changes with the version and
with the runs of its dataset that did something; a run that found nothing to do leaves it as it is.
"""

from __future__ import annotations

from typing import Literal

from kfm.model.records import Level, Record, TriggerKind

FORMAT = "kfm.focus-context/1"
CONTEXT_KEY = "context"  # the key of the output


class ContextRun(Record, frozen=True):
    """A run, as anyone may see it."""

    run_id: str
    updater_id: str
    updater_version: str
    trigger: TriggerKind
    trigger_type: str  # schedule | on demand | event | anomaly
    outcome: str
    started_at: str
    finished_at: str
    receipt: str  # the digest of its receipt


class ContextLink(Record, frozen=True):
    """One item of the chain from raw over harmonised to derived."""

    stage: Literal["raw", "harmonised", "derived"]
    id: str
    name: str
    digest: str
    level: Level
    reads: tuple[int, ...]  # positions of its inputs in the chain, all before it
    run_id: str = ""  # the run that made it; empty: it came from outside
    updater: str = ""
    at: str = ""


class CommunityLabel(Record, frozen=True):
    """A label of Traditional Knowledge or Biocultural heritage: its code, and its name in the communities' words."""

    code: str
    name: str


class ContextGovernance(Record, frozen=True):
    """The labels that the version was made under, in the words that other public outputs use."""

    level: Level
    care: str = ""
    access: str = ""
    resolution: int | None = None  # the finest H3 cell that is shown; null: places are exact, or there is no label
    expires: str = ""  # the last day of the consent; empty: it has no end
    owners: tuple[str, ...] = ()  # the authorities that decide about it
    custodians: tuple[str, ...] = ()
    labels: tuple[CommunityLabel, ...] = ()


class ContextTelemetry(Record, frozen=True):
    """What the run that made the version took."""

    duration_ms: int | None  # null: unknown
    energy_kwh: float | None  # null: unknown, which is not 0
    co2e_g: float | None  # likewise
    energy_method: str  # measured, estimated, reported or unknown; how, and with which factor of the grid


class ContextSentence(Record, frozen=True):
    """A sentence of `kfm explain`, and the digests that it cites."""

    about: str
    text: str
    cites: tuple[str, ...]


class FocusContext(Record, frozen=True):
    """How the public version of a dataset was produced."""

    format: str
    dataset: str
    version: str
    title: str
    description: str
    license: str
    attribution: str
    produced: ContextRun
    published: ContextRun | None  # the run that published it; null: not recorded
    last_successful: ContextRun | None
    chain: tuple[ContextLink, ...]
    cut: int  # runs further upstream that the chain leaves out
    governance: ContextGovernance
    telemetry: ContextTelemetry | None  # null: withheld, because the data have labels, or not recorded
    sentences: tuple[ContextSentence, ...]
