"""A run as anyone may see it: every catalog, graph, event and explanation is built from this record alone.

Every format names things alike. A thing is an address and a digest, and whatever one run makes, another reads under the
same name:

- a source: its own address, and the digest of its bytes;
- a version: kfm://dataset/NAME, and its digest. The processed ref is only another name for it;
- a member of a version: kfm://dataset/NAME/KEY, and the digest of its bytes;
- a ref at a version: kfm://ref/published/NAME, and the digest of the version that it specialises. An operation made it;
- a public file: kfm://public/datasets/NAME/PATH, and the digest of the member that it specialises.

Only `masking` builds the record. It has no field for protected facts: an address is withheld, a digest is that of the
encrypted bytes, and the key of a protected output is not named. So no projection can publish too much.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kfm.model import refs
from kfm.model.lineage_edges import Zone
from kfm.model.records import Level, Record, RefMove, Status, TriggerKind

WITHHELD_SOURCE = "kfm://withheld/"  # followed by the digest of the encrypted bytes
MEMBERS = 1000  # a larger version is described by what changed in it alone
Thing = tuple[str, str]  # address and digest


_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def artifact_id(dataset: str, key: tuple[str, ...]) -> str:
    """Return the address of the output under a key. Different keys have different addresses."""
    return "/".join((f"kfm://dataset/{dataset}", *map(_quoted, key)))


def _quoted(part: str) -> str:
    body = part.encode()
    return part if _PLAIN.issuperset(body) else "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in body)


def ref_id(ref: str) -> str:
    """Return the address of a ref."""
    return f"kfm://ref/{ref}"


def public_file_id(dataset: str, path: str) -> str:
    """Return the address of a public file, from its path in the public folder of its dataset."""
    return f"kfm://public/datasets/{dataset}/{path}"


class PublicInput(Record, frozen=True):
    """One input of a run."""

    kind: Literal["dataset", "file", "uri", "ref", "target"]
    id: str  # its address without secrets; kfm://withheld/… if the address itself is protected
    checksum: str  # digest of the bytes; of protected data, of the encrypted bytes
    name: str = ""  # its name in the configuration
    media_type: str = ""
    size: int | None = None  # None: protected or unknown
    level: Level = "public"


class PublicColumn(Record, frozen=True):
    """A column of a public table, or a variable of a public grid."""

    name: str
    type: str = ""  # empty: the file does not say, or its values differ
    units: str = ""  # as the file names them


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
    rows: int | None = None  # the rows of its file; None: not read, or of a masked table too few to be counted
    table: tuple[PublicColumn, ...] = ()  # of a public table; empty: not read
    bands: tuple[PublicColumn, ...] = ()  # the variables of a public grid; empty: not read
    geometry: str = ""  # the types of geometries in it


class PublicMember(Record, frozen=True):
    """One entry of a version that the run did not build: it took the entry over, or moved a ref to the version."""

    id: str  # like that of an artifact
    digest: str
    path: str  # like that of an artifact


class PublicPart(Record, frozen=True):
    """One entry of a zone that changed because an operation moved the zone's ref."""

    id: str  # like that of an artifact
    digest: str  # empty: the zone no longer has it
    version: str  # the version in which it got this content
    zone: Zone
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
    moves: tuple[RefMove, ...]  # of processed/ and published/ refs; of public data, also of hotfix/ refs
    rows: int | None  # None: protected
    held_rows: int | None
    labels: PublicLabels | None  # None: public without any label
    metadata: dict[str, Any]  # title, description, license, attribution, extent and so on, as declared
    restored: tuple[PublicPart, ...] = ()
    kept: tuple[PublicMember, ...] = ()  # with the artifacts all members of the version; empty if it has over MEMBERS
    operator: str = ""  # who ordered the run, as the ledger says; empty: the run was not about public data

    def used(self) -> tuple[PublicInput, ...]:
        """Return the inputs that the outputs of the run are made of, under the names that all formats use. These are
        all inputs, except that an operation is not made of the version its own ref pointed to before. An operation that
        moved no ref of versions used nothing: its target is a plan, a flag or a list."""
        if self.job_type.startswith("operation.") and not self.moves:
            return ()
        own = set() if self.made_a_version() else {ref_id(move.ref) for move in self.moves}
        found = (_as_version(each) for each in self.inputs if each.id not in own)
        return tuple({(each.id, each.checksum): each for each in found}.values())

    def made_a_version(self) -> bool:
        return bool(self.version) and not self.job_type.startswith("operation.")

    def made(self) -> Thing | None:
        """Return the version that the run made; None if it made none."""
        done = self.made_a_version() and self.status == "SUCCESS"
        return (artifact_id(self.dataset, ()), self.version) if done else None

    def reached(self) -> list[Thing]:
        """Return the refs that an operation moved, each at its new version. A run that made a version moved only the
        processed ref, which is another name for that version."""
        return [] if self.made_a_version() else [(ref_id(move.ref), move.after) for move in self.moves if move.after]

    def left(self) -> list[Thing]:
        """Return the refs that an operation moved, each at the version that it left."""
        if self.made_a_version():
            return []
        return [(ref_id(move.ref), move.before) for move in self.moves if move.before not in ("", move.after)]

    def published(self) -> list[tuple[Thing, Thing]]:
        """Return the public files that an operation made public, each with the member that it is a copy of; [] if it
        published nothing, or more than MEMBERS files."""
        if self.made_a_version() or not any(move.ref.startswith(refs.PUBLISHED) and move.after for move in self.moves):
            return []
        return [((public_file_id(self.dataset, each.path), each.digest), (each.id, each.digest)) for each in self.kept]

    def outputs(self) -> list[Thing]:
        """Return everything that the run made: a version and its new members, or the refs that it moved and the files
        that it published. Every export format states these."""
        made = self.made()
        if made is not None:
            return [made, *((artifact.id, artifact.digest) for artifact in self.artifacts)]
        return [*self.reached(), *(file for file, _ in self.published())]

    def collections(self) -> dict[Thing, list[Thing]]:
        """Return the members of the version that the run made, or of the published ref that it moved."""
        made = self.made()
        if made is not None:
            own = [(each.id, each.digest) for each in self.artifacts]
            own += [(each.id, each.digest) for each in self.kept]
            return {made: own} if own else {}
        files = [file for file, _ in self.published()]
        at = next((thing for thing in self.reached() if thing[0].startswith(ref_id(refs.PUBLISHED))), None)
        return {at: files} if at is not None and files else {}

    def specialisations(self) -> list[tuple[Thing, Thing]]:
        """Return the things of this run that present another thing in one place: a ref at a version presents the
        version, a public file presents a member."""
        read = [(each.id, each.checksum) for each in self.used() if each.checksum]
        found = dict.fromkeys((*read, *self.reached(), *self.left()))
        states = [(thing, (version, thing[1])) for thing in found if (version := _version_at(thing[0]))]
        return [*states, *self.published()]

    def triples(self) -> set[tuple[str, str, str]]:
        """Return (run, input, output) for each pair of input and output, each with its digest."""
        return {
            (self.run_id, f"{each.id}#{each.checksum}", f"{id}#{digest}")
            for each in self.used()
            for id, digest in self.outputs()
        }


def _version_at(address: str) -> str:
    """Return the address of the dataset that a ref of versions points into; "" for every other address."""
    ref = address.removeprefix(ref_id(""))
    zoned = ref != address and ref.startswith(refs.VERSIONS)
    return artifact_id(refs.parse(ref).rest, ()) if zoned else ""


def _as_version(each: PublicInput) -> PublicInput:
    """Return an input that was read at the processed ref under the name of the version. A published ref keeps its name:
    an operation made it."""
    if not each.id.startswith(ref_id(refs.PROCESSED)):
        return each
    return msgspec.structs.replace(each, kind="dataset", id=_version_at(each.id))


class PublicVersion(Record, frozen=True):
    """A version in a catalog, the run that made it and the run that published it first. It does not name the run that
    published it last, so a rollback restores the same documents byte for byte."""

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
    published_by: str = ""  # the run that published it first; empty: none has
    members: tuple[PublicMember, ...] = ()  # all its entries, if they are few and may be named; empty: see the listing
    described: tuple[PublicArtifact, ...] = ()  # of public data: all files with their facts; empty: not read


class Places(Record, frozen=True):
    """The addresses of the public folder and of receipts, relative to the root of the catalog, and what the archive
    says about itself."""

    public: str = ".."  # the public folder: a relative path or https://…
    receipts: str = ".."  # the folder above receipts/; empty: receipts are not public, and the catalog holds proofs
    title: str = "Data archive"
    description: str = "Datasets that are published here, each with how it was made."
    publisher: str = "Data archive"
    contact: str = ""  # an e-mail address or https://…; empty: none
    home: str = ""  # https://… of the archive's own page; empty: none
    namespace: str = "kfm"  # the short name of the archive in catalogs
    public_url: str = ""  # https://… of the public folder, without a slash at the end; empty: not known
    pages: bool = False  # the public folder has pages for people
    catalog: str = ""  # the catalog's path below the public folder; empty: it is elsewhere, or there is none
    outline: tuple[tuple[tuple[float, float], ...], ...] = ()  # lines that maps draw, in degrees: (east, north)
