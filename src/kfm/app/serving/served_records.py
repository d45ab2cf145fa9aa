"""The records that the API answers with. A page shows the record that the JSON is made of."""

from __future__ import annotations

from typing import Any

from kfm.model.public_run import PublicLabels
from kfm.model.records import Record
from kfm.projections.explanation import Explanation


class Link(Record, frozen=True):
    rel: str
    href: str
    type: str = "application/json"
    title: str = ""


class Home(Record, frozen=True):
    """What this server offers."""

    title: str
    description: str
    ledger_entries: int
    links: tuple[Link, ...]


class DatasetSummary(Record, frozen=True):
    """One dataset in a list."""

    dataset: str
    title: str
    description: str
    version: str
    published_at: str
    level: str  # public, or generalised: shown only as cells
    files: int
    size: int
    links: tuple[Link, ...]


class DatasetList(Record, frozen=True):
    """The datasets that may be shown, by name."""

    datasets: tuple[DatasetSummary, ...]
    next: str  # the cursor of the next page; empty: there is none
    ledger_entries: int


class ShownVersion(Record, frozen=True):
    """A version that may be shown."""

    version: str
    published_at: str
    files: int
    size: int
    current: bool


class ShownFile(Record, frozen=True):
    """One file of a version."""

    key: tuple[str, ...]
    digest: str
    size: int
    media_type: str
    href: str


class DatasetAnswer(Record, frozen=True):
    """A dataset with its current version."""

    dataset: str
    title: str
    description: str
    license: str
    attribution: str
    version: str
    published_at: str
    level: str
    bbox: tuple[float, ...]
    interval: tuple[str, str]
    labels: PublicLabels | None  # null: public without any label
    updater: str
    updater_version: str
    run_id: str
    versions: tuple[ShownVersion, ...]  # the newest first
    files: tuple[ShownFile, ...]  # the first hundred
    more_files: int
    links: tuple[Link, ...]
    ledger_entries: int


class Produced(Record, frozen=True):
    """How a layer was produced."""

    updater: str
    updater_version: str
    trigger_type: str
    trigger: str
    run_id: str
    made_at: str
    last_good_run: str
    last_good_at: str
    outcome: str


class Governance(Record, frozen=True):
    """Under which labels something is shown, in the communities' own words as far as they are public."""

    level: str
    care: str
    access: str
    resolution: int | None  # the finest H3 resolution that is shown; null: exact places
    community_labels: tuple[str, ...]
    authorities: tuple[str, ...]
    custodians: tuple[str, ...]
    owner: str
    consent_until: str
    reasons: tuple[str, ...]


class Evidence(Record, frozen=True):
    """A digest that a sentence rests on, and where it can be looked at."""

    digest: str
    what: str
    href: str


class FocusSentence(Record, frozen=True):
    about: str
    text: str
    evidence: tuple[Evidence, ...]


class FocusStep(Record, frozen=True):
    """One thing of the chain from raw over harmonised to derived."""

    stage: str
    name: str
    id: str
    digest: str
    dataset: str
    run_id: str
    updater: str
    at: str
    level: str
    reads: tuple[int, ...]


class FocusTelemetry(Record, frozen=True):
    """What the run that made the version cost. Null: not known."""

    duration_ms: int | None
    energy_wh: float | None
    energy_method: str
    bytes_in: int | None
    bytes_out: int | None
    rows: int | None


class FocusContext(Record, frozen=True):
    """Focus Mode: the context of one thing, each sentence with its evidence."""

    thing: str
    kind: str
    dataset: str
    version: str
    title: str
    produced: Produced
    chain: tuple[FocusStep, ...]
    governance: Governance
    telemetry: FocusTelemetry
    sentences: tuple[FocusSentence, ...]
    explain_again: tuple[str, ...]  # the commands that rebuild this from journal, plan and lineage
    links: tuple[Link, ...]
    ledger_entries: int


class Explained(Record, frozen=True):
    explanation: Explanation
    ledger_entries: int


class Health(Record, frozen=True):
    status: str


Json = dict[str, Any]
