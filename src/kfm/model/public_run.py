"""A run as anyone may see it: every catalog, graph, event and explanation is built from this record alone.

Only `masking` builds it. It has no field for protected facts: an address is withheld, a digest is that of the encrypted
bytes, and the key of a protected output is not named. So no projection can publish too much.
"""

from __future__ import annotations

from typing import Any, Literal

from kfm.model.records import Level, Record, RefMove, Status, TriggerKind

WITHHELD_SOURCE = "kfm://withheld/"  # followed by the digest of the encrypted bytes


_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def artifact_id(dataset: str, key: tuple[str, ...]) -> str:
    """Return the address of the output under a key. Different keys have different addresses."""
    return "/".join((f"kfm://dataset/{dataset}", *map(_quoted, key)))


def _quoted(part: str) -> str:
    body = part.encode()
    return part if _PLAIN.issuperset(body) else "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in body)


class PublicInput(Record, frozen=True):
    """One input of a run."""

    kind: Literal["dataset", "file", "uri", "ref", "target"]
    id: str  # its address without secrets; kfm://withheld/… if the address itself is protected
    checksum: str  # digest of the bytes; of protected data, of the encrypted bytes
    name: str = ""  # its name in the configuration
    media_type: str = ""
    size: int | None = None  # None: protected or unknown
    level: Level = "public"


class PublicArtifact(Record, frozen=True):
    """One output of a run: an entry of the version's manifest that is new or changed."""

    id: str  # kfm://dataset/NAME/KEY…; the same in all versions
    key: tuple[str, ...]
    digest: str
    size: int
    media_type: str
    path: str  # in the dataset's public folder while this version is published
    bbox: tuple[float, ...] = ()
    datetime: str = ""
    stac_id: str = ""
    columns: tuple[str, ...] = ()  # of a masked table: the columns that its file has; empty: not read
    rows: int | None = None  # of a masked table: the rows of its file; None: not read, or too few to be counted


class PublicPart(Record, frozen=True):
    """One entry of the current version that changed with this run although the run did not build it: it moved to, or
    continued from, a version that is not the one the run before left."""

    id: str  # like that of an artifact
    digest: str  # empty: that version no longer has it
    version: str  # the version in which it got this content
    stac_id: str = ""


class PublicLabels(Record, frozen=True):
    """The labels that apply to the data, in words that may be published."""

    level: Level
    care: str
    access: str
    resolution: int | None  # the finest H3 resolution that is shown; None: exact
    expires: str
    custodians: tuple[str, ...]
    authorities: tuple[str, ...]
    community_labels: tuple[str, ...]
    rules: tuple[str, ...]  # the reasons why it is not more open


class PublicRun(Record, frozen=True):
    """A finished run: its inputs, its outputs and its status."""

    run_id: str
    wal_id: str
    index: int  # in the ledger, which orders all runs; an older run never overwrites a newer one
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
    run_key: str  # empty if a protected address is part of it
    plan_hash: str  # empty if the ids of steps are protected
    input_hash: str  # empty like the run key
    code_hash: str
    config_hash: str  # of the resolved settings of its dataset; empty in runs from before it was recorded
    receipt_digest: str
    inputs: tuple[PublicInput, ...]
    artifacts: tuple[PublicArtifact, ...]  # its outputs by key; empty: it made none, or their names are protected
    removed: tuple[str, ...]  # ids of artifacts that only the version before has
    version: str  # digest of the version that it made or moved a ref to; empty: none
    before: str  # digest of the version before it; empty: none
    ref: str  # the ref that now points to the version, such as published/NAME; empty: no ref moved
    moves: tuple[RefMove, ...]  # of processed/ and published/ refs
    rows: int | None  # None: protected
    held_rows: int | None
    labels: PublicLabels | None  # None: public without any label
    metadata: dict[str, Any]  # title, description, license, attribution, extent and so on, as declared
    restored: tuple[PublicPart, ...] = ()

    def used(self) -> tuple[PublicInput, ...]:
        """Return the inputs that the outputs of the run are made of; lineage queries follow these. These are all
        inputs, except that an operation is not made of the version its own ref pointed to before."""
        own = set() if self.made_a_version() else {f"kfm://ref/{move.ref}" for move in self.moves}
        return tuple(each for each in self.inputs if each.id not in own)

    def made_a_version(self) -> bool:
        return bool(self.version) and not self.job_type.startswith("operation.")

    def outputs(self) -> list[tuple[str, str]]:
        """Return (id, digest) of each artifact that the run made, or else of the ref that it moved. Every export format
        states these."""
        if self.artifacts:
            return [(artifact.id, artifact.digest) for artifact in self.artifacts]
        return [(f"kfm://ref/{self.ref}", self.version)] if self.ref else []

    def triples(self) -> set[tuple[str, str, str]]:
        """Return (run, input, output) for each pair of input and output, each with its digest."""
        return {
            (self.run_id, f"{each.id}#{each.checksum}", f"{id}#{digest}")
            for each in self.inputs
            for id, digest in self.outputs()
        }


class PublicVersion(Record, frozen=True):
    """A version in a catalog and the run that made it. It does not name the run that published it last, so a rollback
    restores the same documents byte for byte."""

    dataset: str  # its name, without kfm://dataset/
    digest: str
    made: PublicRun  # the first run that made it
    entries: int
    size: int
    published_at: str = ""  # when it was first published; empty: never
    previous: str = ""  # the version before it that is still in the catalog; empty: none
    next: str = ""  # the version after it; empty: this is the newest
    latest: str = ""  # the version at the published ref; empty: this one
    bbox: tuple[float, ...] = ()  # around the boxes of its outputs; empty: they have none
    interval: tuple[str, str] = ("", "")  # around the times of its outputs; empty: open, or they have none
    metadata: dict[str, Any] = {}  # from the run that published it first; empty: from the run that made it
    listing: str = ""  # digest of the listing of its files
    listing_size: int = 0
    files: tuple[PublicArtifact, ...] = ()  # of masked data: the first files with their facts; empty: it is not masked


class Places(Record, frozen=True):
    """The addresses of the public folder and of receipts, relative to the root of the catalog, and the catalog's title,
    description and publisher."""

    public: str = ".."  # the public folder: a relative path or https://…
    receipts: str = ".."  # the folder above receipts/; empty: receipts are not public, and the catalog holds proofs
    title: str = "Kansas Frontier Matrix"
    description: str = "Datasets that are published here, each with how it was made."
    publisher: str = "Kansas Frontier Matrix"
