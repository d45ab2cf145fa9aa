"""The records that the API answers with. A page shows the record that the JSON is made of."""

from __future__ import annotations

from kfm.model.jobs.focus_record import ContextGovernance, ContextTelemetry
from kfm.model.public_run import PublicLabels
from kfm.model.records import Record
from kfm.projections.explanation import ChainLink


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


class Evidence(Record, frozen=True):
    """A digest that a sentence rests on, and where it can be looked at."""

    digest: str
    what: str
    href: str


class FocusSentence(Record, frozen=True):
    about: str
    text: str
    evidence: tuple[Evidence, ...]


class FocusContext(Record, frozen=True):
    """Focus Mode: the context of one thing, each sentence with its evidence."""

    thing: str
    kind: str
    dataset: str
    version: str
    title: str
    produced: Produced
    chain: tuple[ChainLink, ...]
    governance: ContextGovernance
    owner: str  # as the dataset names its source; empty: it names none
    telemetry: ContextTelemetry | None  # null: withheld, because the data have labels, or not recorded
    sentences: tuple[FocusSentence, ...]
    explain_again: tuple[str, ...]  # the commands that rebuild this from journal, plan and lineage
    links: tuple[Link, ...]
    ledger_entries: int
