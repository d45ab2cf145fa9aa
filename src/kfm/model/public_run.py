"""A run as everybody may know it: the one record from which every catalog, graph, event and explanation is made.

Only `masking` makes it. What is protected has no field here: an address is withheld, a digest is of sealed bytes, a key
of a protected output is not named. So a projection cannot say too much, however it is written.
"""

from __future__ import annotations

from typing import Any, Literal

from kfm.model.records import Level, Record, RefMove, Status, TriggerKind

WITHHELD_SOURCE = "kfm://withheld/"  # and the digest of the sealed bytes: the same source is the same one everywhere


_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def artifact_id(dataset: str, key: tuple[str, ...]) -> str:
    """An address for what lies under a key; no two keys share one."""
    return "/".join((f"kfm://dataset/{dataset}", *map(_quoted, key)))


def _quoted(part: str) -> str:
    body = part.encode()
    return part if _PLAIN.issuperset(body) else "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in body)


class PublicInput(Record, frozen=True):
    """What a run read."""

    kind: Literal["dataset", "file", "uri", "ref", "target"]
    id: str  # its address, without anything secret in it; kfm://withheld/… where the address itself is protected
    checksum: str  # of the bytes; of what is protected, of the sealed bytes
    name: str = ""  # in the configuration
    media_type: str = ""
    size: int | None = None  # None: protected, or not known
    level: Level = "public"


class PublicArtifact(Record, frozen=True):
    """One thing a run made: an entry of the version's manifest that is new or other than before."""

    id: str  # kfm://dataset/NAME/KEY…; the same over all versions
    key: tuple[str, ...]
    digest: str
    size: int
    media_type: str
    path: str  # below the dataset's folder in the public one, where it lies while this version is published
    bbox: tuple[float, ...] = ()
    datetime: str = ""
    stac_id: str = ""


class PublicPart(Record, frozen=True):
    """One thing that stands otherwise since a run, although that run did not make it: of the version it moved to, or
    from which it went on, and not as the run before left it."""

    id: str  # as of an artifact
    digest: str  # empty: it is in that version no more
    version: str  # in which it became what it is
    stac_id: str = ""


class PublicLabels(Record, frozen=True):
    """Under which labels the data stands, in words that may be said of it."""

    level: Level
    care: str
    access: str
    resolution: int | None  # nothing is shown finer than one H3 cell of it; None: as it is
    expires: str
    custodians: tuple[str, ...]
    authorities: tuple[str, ...]
    community_labels: tuple[str, ...]
    rules: tuple[str, ...]  # why it is not more open


class PublicRun(Record, frozen=True):
    """A run that ended, with what it read, did and made."""

    run_id: str
    wal_id: str
    index: int  # in the ledger: the order of everything; what is older never overwrites what is newer
    op: str  # ingest | promote | rollback | hotfix | freeze | …, as in the ledger
    job_type: str
    dataset: str
    partition: str
    updater_id: str
    updater_version: str
    trigger: TriggerKind
    status: Status
    outcome: str
    dry_run: bool
    started_at: str
    finished_at: str
    correlation_id: str
    run_key: str  # empty where it was made of an address that is protected
    plan_hash: str  # empty where the ids of steps are
    input_hash: str  # empty as the run key
    code_hash: str
    config_hash: str  # of all that is set for its dataset, resolved; empty: from before it was recorded
    receipt_digest: str
    inputs: tuple[PublicInput, ...]
    artifacts: tuple[PublicArtifact, ...]  # that it made, by key; none: it made nothing, or their names are protected
    removed: tuple[str, ...]  # ids of artifacts that the version before had and this one has not
    version: str  # digest of the version it made or moved to; empty: none
    before: str  # of the version that stood there before; empty: none
    ref: str  # what now points to the version, such as published/NAME; empty: nothing moved
    moves: tuple[RefMove, ...]  # of processed/ and published/ refs
    rows: int | None  # None: protected
    held_rows: int | None
    labels: PublicLabels | None  # None: plainly public
    metadata: dict[str, Any]  # title, description, license, attribution, extent … as declared
    restored: tuple[PublicPart, ...] = ()

    def used(self) -> tuple[PublicInput, ...]:
        """What it made something of: all inputs, but of an operation not where its ref was before, of which nothing
        was made. Upstream and downstream questions follow these."""
        own = set() if self.made_a_version() else {f"kfm://ref/{move.ref}" for move in self.moves}
        return tuple(each for each in self.inputs if each.id not in own)

    def made_a_version(self) -> bool:
        return bool(self.version) and not self.job_type.startswith("operation.")

    def outputs(self) -> list[tuple[str, str]]:
        """What it gave, as (id, digest): the artifacts it made, or else the ref that it moved. This is what every
        grammar says, and what they are compared by."""
        if self.artifacts:
            return [(artifact.id, artifact.digest) for artifact in self.artifacts]
        return [(f"kfm://ref/{self.ref}", self.version)] if self.ref else []

    def triples(self) -> set[tuple[str, str, str]]:
        """(run, input, output): each input with its digest, each output with its own."""
        return {
            (self.run_id, f"{each.id}#{each.checksum}", f"{id}#{digest}")
            for each in self.inputs
            for id, digest in self.outputs()
        }


class PublicVersion(Record, frozen=True):
    """A version that stands in a catalog, with the run that made it. It does not say which run put it there last: so a
    rollback gives the same documents that were there before."""

    dataset: str  # its name, without kfm://dataset/
    digest: str
    made: PublicRun  # the run that made it first
    entries: int
    size: int
    published_at: str = ""  # when it was published for the first time; empty: it never was
    previous: str = ""  # the version before it that still stands; empty: none does
    next: str = ""  # the version after it; empty: it is the newest
    latest: str = ""  # the one that the published ref is at; empty: this one
    bbox: tuple[float, ...] = ()  # around all that its outputs say of themselves; empty: they say nothing
    interval: tuple[str, str] = ("", "")  # of all that they say; empty: open, or they say nothing
    metadata: dict[str, Any] = {}  # as the run that published it first says; empty: as the run that made it
    listing: str = ""  # digest of the listing of its files
    listing_size: int = 0


class Places(Record, frozen=True):
    """Where things are, seen from the root of the catalog."""

    public: str = ".."  # the public folder: a relative path or https://…
    receipts: str = ".."  # the folder above receipts/; empty: they are for nobody outside, and proved in the catalog
    title: str = "Kansas Frontier Matrix"
    description: str = "Datasets that are published here, each with how it was made."
    publisher: str = "Kansas Frontier Matrix"
