"""The records: frozen, strict, and each with one canonical form (see canonical.py).

A field comment says what the type cannot. No record but a bbox holds a float where bytes are compared,
and nothing here reads a clock: every ``*_at`` and ``ts`` is handed in.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from kfm.model.source_formats import PYTHON_ALONE as PYTHON_ALONE
from kfm.model.source_formats import Format, Layer, Sign, Some

Status = Literal["SUCCESS", "FAILED", "PARTIAL", "SKIPPED"]
Phase = Literal["PLAN", "EXECUTE", "UPSERT", "LINEAGE"]
StepStatus = Literal["PENDING", "IN_PROGRESS", "DONE", "FAILED"]
Stage = Literal["ADMIT", "QUARANTINE", "PLAN", "EXECUTE", "UPSERT", "LINEAGE"]
Zone = Literal["raw", "quarantine", "processed", "published"]
# How open something is, from open to closed; the words are explained in labels.py.
Level = Literal["public", "generalised", "restricted", "closed"]
TriggerKind = Literal["manual", "schedule", "webhook", "poll", "event", "anomaly", "job", "operation"]

# Fields that two runs of the same work may differ in; everything else is compared byte for byte.
NONDET = frozenset(
    {
        "ts", "started_at", "finished_at", "duration_ms", "latency_ms", "slo_ok", "attempt", "retries", "tool_versions",
        "wal_replay_count", "pool_wait_ms", "host", "pid", "energy_kwh", "co2e_g", "trace_id",
    }
)  # fmt: skip

KEEP_MS = 86_400_000  # how long the id of a message is kept at least, beyond the time it is fresh


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all records."""


class Trigger(Record, frozen=True):
    """A fact that asks for a run."""

    kind: TriggerKind
    updater_id: str
    dataset: str
    trigger_id: str = ""  # given by the inbox; empty for a run asked for by hand
    window: str = ""  # from day to day, e.g. 2026-01-01/2026-01-31; part of the run key. Empty: all there is
    params: dict[str, str] = {}  # what an operation was asked to do
    reason: str = ""
    actor: str = ""
    force: bool = False  # run again although nothing changed: a new attempt under the same output keys
    abandon: bool = False  # end an unfinished run of the same work and begin anew
    allow_deletions: int | None = None  # None: from before it was told apart from `force`, which then meant all three
    received_at: str = ""
    correlation_id: str = ""  # the same on all that this request led to; given when its run begins
    partition: str = ""  # the part of the dataset meant, a name; part of the run key. Empty: the whole dataset
    pool: str = ""  # whose slot its run takes; empty: that of its dataset, if it has one
    low: bool = False  # whoever else waits for that pool goes first: a backfill


class Override(Record, frozen=True):
    """A rule that was set aside for one run, named by the flag that did it."""

    rule: Literal["force", "abandon", "allow-deletions"]
    limit: int = 0  # how many keys might be deleted


class EndedTrigger(Record, frozen=True):
    """A trigger that was kept, and the run that answered it."""

    trigger: Trigger
    run_id: str


class Delivery(Record, frozen=True):
    """One request of a webhook that was taken: the same one again begins nothing."""

    source_id: str
    delivery_id: str  # digest of the sender's id, or of the body
    trigger_ids: tuple[str, ...]
    received_ms: int
    expires_ms: int  # after this a replay is stale by its own signed time; 0: never


class Layout(Record, frozen=True):
    """How the text of a source is written, as its contract says."""

    encoding: str = "utf-8"
    delimiter: str = ","
    columns: tuple[str, ...] = ()  # of a table whose first row does not name them


class Standing(Record, frozen=True):
    """What labels mean on a day. `rules` names every reason for which it is not more open."""

    level: Level
    care: str = "open"  # the most closed word of CARE; one that is not known counts as the last
    access: str = "open"  # of ACCESS, the same
    expires: str = ""  # the last day of the consent that ends first; empty: none ends
    resolution: int | None = None  # the finest that is allowed; None: no label set one
    custodians: tuple[str, ...] = ()
    authorities: tuple[str, ...] = ()
    community_labels: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    def publishable(self) -> bool:
        return self.level in ("public", "generalised")


class SourceRef(Record, frozen=True):
    """One input, pinned to its bytes."""

    uri: str
    content_hash: str  # sha256:<hex> of the bytes as fetched
    size: int
    name: str = ""  # the name in the configuration, if it has one
    media_type: str = ""
    partition: tuple[str, ...] = ()  # declared partition keys (date, tile, station …)
    partitions: tuple[str, ...] = ()  # distinct values found in the `partition_by` column, sorted
    etag: str = ""  # as the server sent it, W/ included; it never decides anything
    last_modified: str = ""
    complete: bool = False  # sealed: everything the source holds is here, so absence may mean deletion
    contract_hash: str = ""  # digest of the data contract it was held against
    layout: Layout | None = None  # None: UTF-8, and in a table commas and a first row that names the columns
    accepted_hash: str = ""  # the rows that passed; equal to content_hash if nothing was discarded
    rows: int = 0
    held_rows: int = 0
    standing: Standing | None = None  # what labels and the state say of it; None: nobody says anything
    sealed_with: str = ""  # the id of the custodian's key; its digests are then of sealed bytes


class RefMove(Record, frozen=True):
    """A compare-and-swap of a named ref. Empty text means the ref does not exist."""

    ref: str
    before: str
    after: str


class Step(Record, frozen=True):
    """One unit of work. ``key`` is the business key of its output; None: an intermediate result."""

    id: str
    key: tuple[str, ...] | None = None
    params: dict[str, Any] = {}
    needs: tuple[str, ...] = ()
    move: RefMove | None = None  # an operation's step: nothing to perform, the ref moves at the commit


class OutputRef(Record, frozen=True):
    """Where a step's bytes are and what they are."""

    digest: str
    size: int
    media_type: str


class ManifestEntry(Record, frozen=True, omit_defaults=True):
    """One line of a version's manifest; the lines are sorted by key. What an output does not say is left out."""

    key: tuple[str, ...]
    digest: str
    size: int
    media_type: str
    bbox: tuple[float, ...] = ()  # west, south, east, north in degrees; six numbers with heights
    datetime: str = ""  # RFC 3339 in UTC, or an interval start/end, .. where it is open
    stac_id: str = ""


class ManifestPart(Record, frozen=True):
    """One line of a part of a manifest that names parts; the lines are sorted by key."""

    depth: int  # levels of parts below it; 0: its lines are entries
    digest: str
    entries: int  # in it and below
    key: tuple[str, ...]  # the last one in it
    size: int  # of what the entries name


class DatasetVersion(Record, frozen=True):
    """An immutable version. Its digest is that of its manifest: same content, same version.

    The first run that made it stays its maker. What its sources were held against last is evidence about it,
    and not a part of it: a later run of the same content brings it up to date.
    """

    dataset: str
    digest: str
    entries: int
    size: int
    supersedes: str  # digest of the version it replaced, or empty
    run_id: str
    updater_id: str
    updater_version: str
    plan_hash: str
    input_hash: str
    metadata: dict[str, Any]  # title, license, sensitivity, … as declared when it was made
    validation: dict[str, int]  # rows, held_rows, findings
    deleted: int = 0  # keys of the superseded version that are gone from this one
    created_at: str = ""
    validated_by: str = ""  # the last run that made it, whose contracts `validation` speaks of; empty: the first one
    code_hash: str = ""  # as in the receipt, of that run
    standing: Standing | None = None  # of all it was made of, together; None: nobody says anything of any


class WalRecord(Record, frozen=True):
    """One line of the write-ahead log, as exported."""

    wal_id: str  # the run: stable over every kill and resume
    seq: int  # 1, 2, 3 … without a gap, in the order in which it was made durable
    phase: Phase  # where in the walk it was
    step_id: str  # the step of the plan; empty: the run as a whole
    updater_id: str  # whose plan it is
    updater_version: str  # under which version of it
    input_hash: str  # of everything it read, by content
    payload: dict[str, Any]  # what was about to happen, or came of it; by phase and status
    status: StepStatus  # IN_PROGRESS is the intent, durable before the effect; DONE and FAILED are the outcome
    ts: str  # when it was made durable, RFC 3339; `seq` tells the order


class Segment(Record, frozen=True):
    """What one durable write says about a run: these steps are done, those are about to begin.

    Stored packed; ``State.wal`` unfolds segments into WalRecords.
    """

    n: int  # 0, 1, 2 … without a gap
    prev: str  # digest of the segment before it; a missing or altered one is noticed
    plan_hash: str
    phases: list[Phase]  # that it ends or goes on with; the last segment closes EXECUTE, UPSERT and LINEAGE at once
    done: list[tuple[int, str, int, str]] = []  # position in the plan, digest, size, media type
    intent: list[tuple[int, int]] = []  # half-open ranges of positions
    failed: list[tuple[int, str]] = []  # position, error code
    described: list[tuple[int, dict[str, Any]]] = []  # position, bbox, datetime and stac_id of its output
    payload: dict[str, Any] = {}
    ts: str = ""
    then: list[Phase] = []  # what comes after the steps it intends, and is intended with the last of them


class Lease(Record, frozen=True):
    scope: str
    token: int  # strictly greater than every earlier token of any scope
    holder: str  # host:pid:start:namespace:boot, so that a dead holder on this host is recognised
    expires_ms: int  # 0: released
    ttl_ms: int = 0  # how long it was given for; more than that is left only if the clock was set back


class Obligation(Record, frozen=True):
    """What a yes demands: whoever asked does it, or does not go on."""

    do: Literal["mask", "withhold", "throttle"]
    resolution: int | None = None  # mask: nothing finer than one H3 cell of this resolution
    field: str = ""  # withhold: this column
    per_minute: int | None = None  # throttle: to so many requests


class Decision(Record, frozen=True):
    """A gate's answer. Only a literal true on exactly these digests opens it."""

    gate: str
    allow: bool
    subject: str  # the digest the answer is about
    policy_digest: str
    reasons: list[str] = []
    id: str = ""  # in the log lines too
    subjects: list[str] = []  # every digest that was asked about
    rules: list[str] = []  # that did not hold
    warnings: list[str] = []
    obligations: list[Obligation] = []
    label_epoch: int = 0  # of the labels it was decided under
    engine: str = ""


class Finding(Record, frozen=True):
    """Why something was held. Names the place, never the value."""

    source: str
    rule: str
    message: str
    row: int = 0  # 1-based data row; 0: the file as a whole
    column: str = ""
    held: bool = True  # False: noted only, nothing was held back


class Item(Record, frozen=True):
    """An input or output in a receipt."""

    kind: Literal["dataset", "file", "uri", "ref"]
    id: str
    checksum: str
    zone: str = ""


class ErrorNote(Record, frozen=True):
    code: str
    message: str


class Receipt(Record, frozen=True):
    """The audit record of one run: written once, never changed."""

    run_id: str
    job_id: str
    job_type: str
    dataset: str
    updater_id: str
    updater_version: str
    status: Status
    outcome: str  # done | noop | frozen | held | denied | failed …: why the status is what it is
    trigger: TriggerKind
    actor: str
    reason: str
    run_key: str
    input_hash: str
    plan_hash: str
    started_at: str  # logical start: kept over a resume, so the path of the receipt never changes
    finished_at: str
    dry_run: bool
    inputs: list[Item]
    outputs: list[Item]
    moves: list[RefMove]
    steps: int
    held_rows: int
    provenance: dict[str, Any]
    policy_decisions: list[Decision]
    errors: list[ErrorNote]
    overrides: list[Override] = []  # the rules that were set aside; `reason` says why
    rows: int = 0  # that were read, the held ones among them
    changes: dict[str, int] = {}  # keys added, changed and removed, and how many there are; empty: no version was made
    correlation_id: str = ""  # the same over a resume, in the log and in the telemetry
    code_hash: str = ""  # of the updater's code with the releases of its packages, or of its declaration
    warnings: list[ErrorNote] = []  # what somebody should see to, although nothing failed
    partition: str = ""  # the part of the dataset that was meant; empty: the whole dataset
    config_hash: str = ""  # of the dataset's settings as they were resolved; secrets in them are only referred to


class RunTelemetry(Record, frozen=True):
    run_id: str  # the run, as in its receipt
    updater_id: str  # who did it
    version: str  # of the updater
    dataset: str  # what it was about
    source_id: str  # the name of its first source; empty: it read none
    trigger: TriggerKind  # what asked for it
    status: Status  # as in its receipt
    failure_stage: Stage | None  # where it failed; None: it did not
    idempotency_state: str  # fresh | resume | duplicate | frozen | merged
    duration_ms: int | None  # of this attempt; None: of a run that another one ended nobody knows
    latency_ms: int  # from the moment it was asked for
    retries: int  # attempts at steps that were made again
    wal_replay_count: int  # how often it was taken up after a kill
    inputs_count: int  # sources that it read
    outputs_count: int  # keys of the version it made; 0: it made none
    artifact_count: int  # steps that gave something
    bytes_in: int | None  # over the wire; None as above
    bytes_out: int  # that its steps gave
    energy_kwh: float | None  # None: not measured, which is not 0
    co2e_g: float | None  # the same
    energy_method: str  # why the number is what it is, or why there is none
    slo_target_latency_ms: int  # within which it should have been done
    slo_ok: bool | None  # it succeeded, or had nothing to do, within the target; None: frozen, so not decided yet
    error_budget_burn: float | None  # None: no objective is declared that a budget would follow from
    dry_run: bool  # nothing was changed
    errors: list[str]  # codes, never messages: those may speak of data
    correlation_id: str = ""  # the same on all that one request led to
    tool_versions: dict[str, str] = {}  # of whoever ran it: not in the receipt, which every runner writes alike
    pool_wait_ms: int = 0  # for a slot of a pool, before it began


class TelemetryBundle(Record, frozen=True):
    """What all runs cost that one version of KFM made: `releases/<version>/updater-telemetry.json`."""

    version: str  # of KFM
    runs: list[RunTelemetry]  # in the order of the ledger
    by_status: dict[str, int]  # how many ended how


class Run(Record, frozen=True):
    """A run's row: the claim on its key, and where it stands."""

    run_id: str
    claim_key: str  # what this run is about; see keys.claim_key
    n: int  # how many runs this claim had before
    run_key: str
    input_hash: str
    updater_id: str
    updater_version: str
    dataset: str
    trigger: Trigger
    status: Literal["RUNNING", "COMMITTED", "FAILED", "SKIPPED"]
    started_at: str
    inputs: list[SourceRef]
    plan_hash: str = ""
    steps: int = 0
    attempt: int = 1
    held: str = ""  # digest of the report on what its sources were held back for
    version_digest: str = ""  # what it committed
    moves: list[RefMove] = []
    metadata: dict[str, Any] = {}
    continues: str = ""  # a failed run of the same work, whose finished steps this one keeps
    locked_plan: bool = False  # it was the first to plan this work; a failure with nothing made frees the plan again
    code_hash: str = ""  # of whoever began it


class Governed(Record, frozen=True):
    """What the ledger says beside of a run over data that is not plainly public. Rules and digests, never values."""

    lineage: list[str]  # digests of what was read; of what is sealed, those of the sealed bytes
    findings: list[str]  # the rules by which the data is not more open
    care: str  # the most closed word of CARE
    review: str  # what the gates said: approved | denied | none
    withheld: list[str]  # fields that are empty here because they are nobody's
    committed: dict[str, str] = {}  # salted commitments to them; what opens them is sealed in `ledger_private`
    sealed_with: str = ""  # the id of the custodian's key; empty: none was at hand, and nothing can be opened


class LedgerEntry(Record, frozen=True):
    """One link of the governance ledger: commits to everything before it."""

    index: int
    prev: str
    op_type: str
    run_id: str
    wal_ids: list[str]
    dataset: str
    outcome: str
    reason: str
    operator: str
    receipt_digest: str
    moves: list[RefMove]
    ts: str
    overrides: list[Override] = []
    governed: Governed | msgspec.UnsetType = msgspec.UNSET  # absent of plainly public data


class Told(Record, frozen=True):
    """How far a sink has told the outside of a dataset."""

    moves: int  # of its published ref: the `n` of the last one that was told
    keep: int  # how many superseded versions were to stay then; -1: all


class Difference(Record, frozen=True):
    """Where the outside is not what the refs say."""

    dataset: str
    path: str
    kind: Literal["missing", "altered", "foreign"]


class Effect(Record, frozen=True):
    """One line of a publisher trace: what was, or would be, changed outside."""

    seq: int
    method: Literal["write_file", "remove_file", "emit_event", "update_metadata", "publish_release"]
    target: str
    digest: str
    size: int
    key: str
    dry_run: bool


class Checkpoint(Record, frozen=True):
    """What we know of a source from the last time: saves a download, decides nothing."""

    uri: str
    content_hash: str
    size: int
    media_type: str
    etag: str
    last_modified: str
    fetched_ms: int  # last time the bytes themselves were seen
    checked_ms: int


class RefEntry(Record, frozen=True):
    """One line of a ref's history, oldest first."""

    ref: str
    n: int
    before: str
    after: str
    run_id: str
    op: str
    actor: str
    reason: str
    ts: str


ColumnMode = Literal["evolve", "freeze", "discard-row", "discard-value"]
ColumnType = Literal["text", "integer", "number", "boolean", "date", "datetime"]


def _what(text: str) -> msgspec.Meta:
    """Said in the schema and on the page of the configuration."""
    return msgspec.Meta(description=text)


class Column(Record, frozen=True):
    """What a column must be, and what happens to a value that is not."""

    name: Annotated[str, _what("as in the header; in JSON the name of the member")]
    type: Annotated[ColumnType, _what("what every value must be; a value is never changed")] = "text"
    required: Annotated[bool, _what("the column must exist and no value may be blank")] = False
    mode: Annotated[
        ColumnMode,
        _what(
            "what a value that does not fit does: freeze holds the whole source, discard-row its row; "
            "discard-value blanks it, evolve lets it pass"
        ),
    ] = "freeze"
    minimum: Annotated[float | None, _what("of integers and numbers")] = None
    maximum: Annotated[float | None, _what("of integers and numbers")] = None
    pattern: Annotated[str, _what("a regular expression (RE2) the whole value must match")] = ""
    values: Annotated[tuple[str, ...], _what("the only values allowed, if any are named")] = ()
    missing: Annotated[tuple[str, ...], _what('texts that mean "no value", beside the empty one')] = ()
    date_format: Annotated[str, _what("how a date or datetime is written, e.g. %m/%d/%Y; default ISO 8601")] = ""
    unique: Annotated[bool, _what("no value twice; blank ones do not count")] = False


class DataContract(Record, frozen=True):
    """What a source must look like before anything is planned from it."""

    format: Annotated[
        Format, _what("bytes: anything, unchecked; parquet (also GeoParquet) and what follows it: Python alone")
    ] = "bytes"
    columns: Annotated[tuple[Column, ...], _what("the columns, members or properties that are checked")] = ()
    other_columns: Annotated[
        ColumnMode,
        _what("columns not named: evolve lets them through, freeze holds the source, discard-value drops them"),
    ] = "evolve"
    header: Annotated[
        bool, _what("csv: the first row names the columns; without it `columns` does, in their order")
    ] = True
    delimiter: Annotated[str, _what("csv: one character")] = ","
    encoding: Annotated[
        str,
        _what(
            "csv and text: ascii, cp437, cp850, cp1250, cp1251, cp1252, iso-8859-2, iso-8859-15, koi8-r, latin-1, "
            "mac-roman, utf-8, utf-8-sig, utf-16, utf-16-be or utf-16-le; JSON is always UTF-8"
        ),
    ] = "utf-8"
    skip_lines: Annotated[Some, _what("csv: how many lines stand above the table; Python only")] = msgspec.UNSET
    comment: Annotated[Sign, _what("csv: a line that begins with this is no row; Python only")] = msgspec.UNSET
    skip_after_header: Annotated[Some, _what("csv: rows below the header that are none; Python only")] = msgspec.UNSET
    layer: Annotated[Layer, _what("geopackage: the table that is read, if it has several; Python only")] = msgspec.UNSET
    min_rows: Annotated[int, _what("fewer rows than this hold the source")] = 0
    max_held_rows: Annotated[int, _what("more held rows than this hold the source; -1: no limit")] = -1
    max_held_share: Annotated[float, _what("a larger share of held rows than this holds the source; 1: no limit")] = 0.2
    allow_empty: Annotated[bool, _what("false: a source of which no row passes is held")] = False
    shrink_limit: Annotated[
        float,
        _what(
            "a source that lost this share of the rows that passed for the version before, or more, is held; "
            "1: it may lose any"
        ),
    ] = 0.2
    partition_by: Annotated[
        str, _what("a column whose distinct values plan() gets as `partitions`; blank ones name none")
    ] = ""
    json_schema: Annotated[
        dict[str, Any], _what("JSON Schema 2020-12, of a json document or of each record of ndjson, geojson and stac")
    ] = {}
    root: Annotated[
        str,
        _what("json: the member with the list of records; empty: the list at the top, or the document is one record"),
    ] = ""


class FetchRequest(Record, frozen=True):
    """One source to read, with everything that bounds the reading."""

    uri: str
    name: str = ""
    base_dir: str = ""  # relative file paths start here and may not leave it
    roots: tuple[str, ...] = ()  # other folders that absolute file paths may lie in
    allow: tuple[str, ...] = ()  # host or host:port that may be reached although private or on another port
    hosts: tuple[str, ...] = ()  # other hosts a redirect may lead to
    expect_hash: str = ""
    media_type: str = ""
    partition: tuple[str, ...] = ()
    complete: bool = False  # the author says: this source is everything; sealed only if it arrived whole
    max_bytes: int = 1 << 40
    max_ratio: int = 200  # decompressed to compressed
    timeout_ms: int = 30_000  # between two bytes
    total_ms: int = 3_600_000
    revalidate_ms: int = 86_400_000  # after this long the bytes are fetched whole, whatever the validators say
    now_ms: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    address: str = ""  # where to ask, with secrets in its query; never recorded. Empty: at `uri`
    secrets: tuple[str, ...] = ()  # what of headers and address must reach no other origin


class Fetched(Record, frozen=True):
    """What a source answered. `ref.content_hash` is always of bytes that are in the store."""

    ref: SourceRef
    checkpoint: Checkpoint
    not_modified: bool
    bytes_on_wire: int = 0
