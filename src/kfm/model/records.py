"""The records: frozen, strict, and each with one canonical form (see canonical.py).

A field comment says what the type cannot. Where bytes are compared, only a bbox holds floats. Nothing here reads a
clock: the caller passes every ``*_at`` and ``ts``.
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
# How open data is, from open to closed; labels.py explains the words.
Level = Literal["public", "generalised", "restricted", "closed"]
TriggerKind = Literal["manual", "schedule", "webhook", "poll", "event", "anomaly", "job", "operation"]

# Fields that may differ between two runs of the same work; all others must be equal byte for byte.
NONDET = frozenset(
    {
        "ts", "started_at", "finished_at", "duration_ms", "latency_ms", "slo_ok", "attempt", "retries", "tool_versions",
        "wal_replay_count", "pool_wait_ms", "host", "pid", "energy_kwh", "co2e_g", "energy_method",
        "error_budget_burn", "trace_id",
    }
)  # fmt: skip

JOULES_PER_KWH = 3_600_000
KEEP_MS = 86_400_000  # the id of a delivery is kept at least this long after the delivery expires


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base class of all records."""


class Trigger(Record, frozen=True):
    """A fact that requests a run."""

    kind: TriggerKind
    updater_id: str
    dataset: str
    trigger_id: str = ""  # set by the inbox; empty for a run that a person started
    window: str = ""  # first and last day, as 2026-01-01/2026-01-31; part of the run key. Empty: all days
    params: dict[str, str] = {}  # the parameters of an operation
    reason: str = ""
    actor: str = ""
    force: bool = False  # run again although nothing changed, under the same output keys
    abandon: bool = False  # end an unfinished run of the same work and start again
    allow_deletions: int | None = None  # None: an older trigger, in which `force` meant all three
    received_at: str = ""
    correlation_id: str = ""  # the same on everything this request caused; set when its run begins
    partition: str = ""  # the requested partition; part of the run key. Empty: the whole dataset
    pool: str = ""  # the pool its run takes a slot of; empty: the pool of its dataset, if any
    low: bool = False  # all other waiting runs take a slot first: set for backfills


class Override(Record, frozen=True):
    """A rule that was overridden for one run, named like the flag."""

    rule: Literal["force", "abandon", "allow-deletions"]
    limit: int = 0  # how many keys may be deleted


class EndedTrigger(Record, frozen=True):
    """A stored trigger and the run that it started."""

    trigger: Trigger
    run_id: str


class Delivery(Record, frozen=True):
    """An accepted webhook request: the same request again starts nothing."""

    source_id: str
    delivery_id: str  # digest of the sender's id, or of the body
    trigger_ids: tuple[str, ...]
    received_ms: int
    expires_ms: int  # after this the signed time of a replay is stale; 0: never


class Layout(Record, frozen=True):
    """How the text of a source is written, by its contract."""

    encoding: str = "utf-8"
    delimiter: str = ","
    columns: tuple[str, ...] = ()  # of a table without a header row


class Classification(Record, frozen=True):
    """What the labels mean on a given day. `rules` names every reason why it is not more open."""

    level: Level
    care: str = "open"  # the most closed word of CARE; an unknown word counts as the last
    access: str = "open"  # likewise, of ACCESS
    expires: str = ""  # the last day of the consent that ends first; empty: no consent ends
    resolution: int | None = None  # the finest allowed; None: no label sets one
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
    name: str = ""  # its name in the configuration, if any
    media_type: str = ""
    partition: tuple[str, ...] = ()  # declared partition keys (date, tile, station …)
    partitions: tuple[str, ...] = ()  # distinct values found in the `partition_by` column, sorted
    etag: str = ""  # as the server sent it, W/ included; it decides nothing
    last_modified: str = ""
    complete: bool = False  # everything the source has is here, so a missing key may be a deletion
    contract_hash: str = ""  # digest of the data contract it was checked against
    layout: Layout | None = None  # None: UTF-8; tables have commas and a header row
    accepted_hash: str = ""  # of the accepted rows; equal to content_hash if all were accepted
    rows: int = 0
    held_rows: int = 0
    standing: Classification | None = None  # its classification by labels and state; None: unclassified
    sealed_with: str = ""  # the id of the custodian's key; the digests are then of encrypted bytes


class RefMove(Record, frozen=True):
    """A compare-and-swap of a named ref. An empty text means that the ref does not exist."""

    ref: str
    before: str
    after: str


class Step(Record, frozen=True):
    """One unit of work. ``key`` is the key of its output in the dataset; None: an intermediate result."""

    id: str
    key: tuple[str, ...] | None = None
    params: dict[str, Any] = {}
    needs: tuple[str, ...] = ()
    move: RefMove | None = None  # in an operation: nothing to perform; the ref moves at the commit


class ManifestEntry(Record, frozen=True, omit_defaults=True):
    """One line of a version's manifest; the lines are sorted by key. Fields without a value are left out."""

    key: tuple[str, ...]
    digest: str
    size: int
    media_type: str
    bbox: tuple[float, ...] = ()  # west, south, east, north in degrees; six numbers with heights
    datetime: str = ""  # RFC 3339 in UTC, or an interval start/end with .. for an open side
    stac_id: str = ""


class ManifestPart(Record, frozen=True):
    """One line of a manifest part that lists other parts: it names one of them. The lines are sorted by key."""

    depth: int  # levels of parts below it; 0: its lines are entries
    digest: str
    entries: int  # count of entries in it and below
    key: tuple[str, ...]  # the last key in it
    size: int  # total bytes of the outputs that the entries name


class DatasetVersion(Record, frozen=True):
    """An immutable version. Its digest is that of its manifest: same content, same version.

    `run_id` stays the first run that made it. The latest validation of its sources is evidence about the version and
    not part of it: a later run with the same content updates it.
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
    metadata: dict[str, Any]  # title, license, sensitivity and so on, as declared when it was made
    validation: dict[str, int]  # rows, held_rows, findings
    deleted: int = 0  # count of keys that only the superseded version has
    created_at: str = ""
    validated_by: str = ""  # the last run that made it, which `validation` is about; empty: the first
    code_hash: str = ""  # from the receipt of that run
    standing: Classification | None = None  # of everything it was made of; None: all unclassified


class WalRecord(Record, frozen=True):
    """One line of the write-ahead log, as exported."""

    wal_id: str  # the run: the same after every kill and resume
    seq: int  # 1, 2, 3 … without a gap, in the order of durable writes
    phase: Phase  # the phase of the run
    step_id: str  # the step of the plan, or the sink that follows the run; empty: the run as a whole
    updater_id: str  # the updater that made the plan
    updater_version: str  # the version of that updater
    input_hash: str  # digest of the content of everything it read
    payload: dict[str, Any]  # the intent or the outcome, by phase and status
    status: StepStatus  # IN_PROGRESS and PENDING are the intent, durable before the effect; the others the outcome
    ts: str  # when it was made durable, RFC 3339; `seq` gives the order


class Segment(Record, frozen=True):
    """One durable write of a run's journal: these steps are done, those are about to begin.

    Stored packed; ``State.wal`` unfolds segments into WalRecords.
    """

    n: int  # 0, 1, 2 … without a gap
    prev: str  # digest of the segment before it, which reveals a missing or altered one
    plan_hash: str
    phases: list[Phase]  # phases that it ends or continues; the last segment ends all at once, but for its sinks
    done: list[tuple[int, str, int, str]] = []  # position in the plan, digest, size, media type
    intent: list[tuple[int, int]] = []  # half-open ranges of positions
    failed: list[tuple[int, str]] = []  # position, error code
    described: list[tuple[int, dict[str, Any]]] = []  # position, bbox, datetime and stac_id of its output
    payload: dict[str, Any] = {}
    ts: str = ""
    then: list[Phase] = []  # the phases after the steps it intends, intended with the last of them


class Lease(Record, frozen=True):
    scope: str
    token: int  # strictly greater than every earlier token of any scope
    holder: str  # host:pid:start:namespace:boot, so that other processes on this host recognise a dead holder
    expires_ms: int  # 0: released
    ttl_ms: int = 0  # its duration; more time than this is left only if the clock was set back


class Obligation(Record, frozen=True):
    """A condition of an allowing decision: the caller must fulfil it or stop."""

    do: Literal["mask", "withhold", "throttle"]
    resolution: int | None = None  # mask: the finest H3 resolution that may be shown
    field: str = ""  # withhold: this column
    per_minute: int | None = None  # throttle: the most requests per minute


class Decision(Record, frozen=True):
    """A gate's decision. Only a literal true about exactly these digests opens the gate."""

    gate: str
    allow: bool
    subject: str  # the digest that the decision is about
    policy_digest: str
    reasons: list[str] = []
    id: str = ""  # also in the log lines
    subjects: list[str] = []  # every digest in the question
    rules: list[str] = []  # the rules that were broken
    warnings: list[str] = []
    obligations: list[Obligation] = []
    label_epoch: int = 0  # the epoch of the labels at the decision
    engine: str = ""


class Finding(Record, frozen=True):
    """The reason why a source or row was quarantined. It names the place and never the value."""

    source: str
    rule: str
    message: str
    row: int = 0  # data row, from 1; 0: the whole file
    column: str = ""
    held: bool = True  # False: only noted; nothing was quarantined


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
    """The audit record of one run: written once and never changed."""

    run_id: str
    job_id: str
    job_type: str
    dataset: str
    updater_id: str
    updater_version: str
    status: Status
    outcome: str  # done | noop | frozen | held | denied | failed …: the reason for the status
    trigger: TriggerKind
    actor: str
    reason: str
    run_key: str
    input_hash: str
    plan_hash: str
    started_at: str  # logical start: a resume keeps it, so the path of the receipt never changes
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
    overrides: list[Override] = []  # the overridden rules; `reason` gives the reason
    rows: int = 0  # rows that were read, including quarantined ones
    changes: dict[str, int] = {}  # counts of keys added, changed, removed and present; empty: no version was made
    correlation_id: str = ""  # a resume keeps it; also in the log and the telemetry
    code_hash: str = ""  # of the updater's code and its package versions, or of its declaration
    warnings: list[ErrorNote] = []  # what an operator should look at although nothing failed
    partition: str = ""  # the requested partition; empty: the whole dataset
    config_hash: str = ""  # of the dataset's resolved settings, which refer to secrets and do not contain them


class RunTelemetry(Record, frozen=True):
    run_id: str  # as in its receipt
    updater_id: str  # the updater that ran
    version: str  # of the updater
    dataset: str  # the dataset that it ran for
    source_id: str  # the name of its first source; empty: it read none
    trigger: TriggerKind  # the kind of its trigger
    status: Status  # as in its receipt
    failure_stage: Stage | None  # where it failed; None: it did not
    idempotency_state: str  # fresh | resume | duplicate | frozen | merged
    duration_ms: int | None  # of this attempt; None: unknown, because another process ended the run
    latency_ms: int  # since the request
    retries: int  # repeated attempts of steps
    wal_replay_count: int  # how often it was resumed after a kill
    inputs_count: int  # sources that it read
    outputs_count: int  # keys of the version it made; 0: it made none
    artifact_count: int  # steps with an output
    bytes_in: int | None  # over the network; None as above
    bytes_out: int  # total size of its steps' outputs
    energy_kwh: float | None  # None: unknown, which is not 0
    co2e_g: float | None  # the same
    energy_method: str  # measured, estimated, reported (by its updater) or unknown; how, and with which grid factor
    slo_target_latency_ms: int  # the target latency
    slo_ok: bool | None  # it succeeded or had nothing to do within the target; None: frozen, so undecided
    error_budget_burn: float | None  # spent share of the error budget; None: no objective, or it cannot be read
    dry_run: bool  # True: nothing was changed
    errors: list[str]  # codes, never messages, because messages may name data
    correlation_id: str = ""  # the same on everything one request caused
    tool_versions: dict[str, str] = {}  # of the runner; not in the receipt, which every runner writes alike
    pool_wait_ms: int = 0  # wait for a slot of a pool before it began


class TelemetryBundle(Record, frozen=True):
    """The telemetry of all runs of one version of KFM: `releases/<version>/updater-telemetry.json`."""

    version: str  # of KFM
    runs: list[RunTelemetry]  # in the order of the ledger
    by_status: dict[str, int]  # count of runs by status


class Run(Record, frozen=True):
    """A row of the table of runs: the claim on its key, and its status."""

    run_id: str
    claim_key: str  # identifies the work; see keys.claim_key
    n: int  # count of earlier runs of this claim
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
    held: str = ""  # digest of the report on the quarantine of its sources
    version_digest: str = ""  # the version that it committed
    moves: list[RefMove] = []
    metadata: dict[str, Any] = {}
    continues: str = ""  # a failed run of the same work; this run reuses its finished steps
    locked_plan: bool = False  # it was the first to plan this work; if it fails without an output, the plan is unlocked
    code_hash: str = ""  # of the updater that began it


class Governed(Record, frozen=True):
    """What the ledger adds about a run: rules and digests, never values."""

    lineage: list[str]  # digests of the inputs; of encrypted inputs, of the encrypted bytes
    findings: list[str]  # the rules that keep the data from being more open; of public data also codes of errors
    care: str  # the most closed word of CARE
    review: str  # the result of the gates: approved | denied | none
    withheld: list[str]  # fields that are empty here because they are protected; of public data none
    committed: dict[str, str] = {}  # salted commitments to them; `ledger_private` holds the encrypted openings
    sealed_with: str = ""  # the id of the custodian's key; empty: no key was available, so nothing can be opened


class LedgerEntry(Record, frozen=True):
    """One entry of the governance ledger; it commits to all entries before it."""

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
    governed: Governed | msgspec.UnsetType = msgspec.UNSET  # absent if it is about no data, or if that has no label yet


class SinkPosition(Record, frozen=True):
    """How far a sink has reported the versions of a dataset."""

    moves: int  # the `n` of the last move of its published ref that was reported
    keep: int  # how many superseded versions were kept then; -1: all


class Difference(Record, frozen=True):
    """A published file that does not match the refs."""

    dataset: str
    path: str
    kind: Literal["missing", "altered", "foreign"]


class Effect(Record, frozen=True):
    """One line of a publisher trace: an outside change that was made, or would be made."""

    seq: int
    method: Literal["write_file", "remove_file", "emit_event", "update_metadata", "publish_release"]
    target: str
    digest: str
    size: int
    key: str
    dry_run: bool


class Checkpoint(Record, frozen=True):
    """What is known of a source from its last fetch. It can save a download and decides nothing."""

    uri: str
    content_hash: str
    size: int
    media_type: str
    etag: str
    last_modified: str
    fetched_ms: int  # when the bytes were last fetched
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
    """Return the description of a setting, for its schema and for the reference page of the configuration."""
    return msgspec.Meta(description=text)


class Column(Record, frozen=True):
    """What the values of a column must be, and what happens to a value that does not fit."""

    name: Annotated[str, _what("as in the header; in JSON the member's name")]
    type: Annotated[ColumnType, _what("the type of every value; values are never changed")] = "text"
    required: Annotated[bool, _what("the column must exist and no value may be blank")] = False
    mode: Annotated[
        ColumnMode,
        _what(
            "a value that does not fit: freeze quarantines the whole source, discard-row quarantines its row, "
            "discard-value blanks the value, evolve accepts it"
        ),
    ] = "freeze"
    minimum: Annotated[float | None, _what("of integers and numbers")] = None
    maximum: Annotated[float | None, _what("of integers and numbers")] = None
    pattern: Annotated[str, _what("a regular expression (RE2) the whole value must match")] = ""
    values: Annotated[tuple[str, ...], _what("the only values allowed, if any are named")] = ()
    missing: Annotated[tuple[str, ...], _what('texts that mean "no value", in addition to the empty text')] = ()
    date_format: Annotated[str, _what("how a date or datetime is written, e.g. %m/%d/%Y; default ISO 8601")] = ""
    unique: Annotated[bool, _what("no value may repeat; blanks do not count")] = False


class DataContract(Record, frozen=True):
    """What a source must look like before a run plans from it."""

    format: Annotated[
        Format, _what("bytes: any content, unchecked; parquet (also GeoParquet) and the formats after it: Python only")
    ] = "bytes"
    columns: Annotated[tuple[Column, ...], _what("the columns, members or properties that are checked")] = ()
    other_columns: Annotated[
        ColumnMode,
        _what("columns not named: evolve accepts them, freeze quarantines the source, discard-value drops them"),
    ] = "evolve"
    header: Annotated[bool, _what("csv: the first row names the columns; if false, `columns` names them in order")] = (
        True
    )
    delimiter: Annotated[str, _what("csv: one character")] = ","
    encoding: Annotated[
        str,
        _what(
            "csv and text: ascii, cp437, cp850, cp1250, cp1251, cp1252, iso-8859-2, iso-8859-15, koi8-r, latin-1, "
            "mac-roman, utf-8, utf-8-sig, utf-16, utf-16-be or utf-16-le; JSON is always UTF-8"
        ),
    ] = "utf-8"
    skip_lines: Annotated[Some, _what("csv: the count of lines above the table; Python only")] = msgspec.UNSET
    comment: Annotated[Sign, _what("csv: a line that begins with this is skipped; Python only")] = msgspec.UNSET
    skip_after_header: Annotated[Some, _what("csv: rows to skip below the header; Python only")] = msgspec.UNSET
    layer: Annotated[Layer, _what("geopackage: the table to read, if it has several; Python only")] = msgspec.UNSET
    min_rows: Annotated[int, _what("fewer rows than this quarantine the source")] = 0
    max_held_rows: Annotated[int, _what("more quarantined rows than this quarantine the source; -1: no limit")] = -1
    max_held_share: Annotated[float, _what("a larger share of quarantined rows than this does so; 1: no limit")] = 0.2
    allow_empty: Annotated[bool, _what("false: a source without an accepted row is quarantined")] = False
    shrink_limit: Annotated[
        float,
        _what(
            "a source with this share, or more, fewer accepted rows than for the version before is quarantined; "
            "1: no limit"
        ),
    ] = 0.2
    partition_by: Annotated[
        str, _what("a column whose distinct values plan() gets as `partitions`, without blanks")
    ] = ""
    json_schema: Annotated[
        dict[str, Any], _what("JSON Schema 2020-12 of a json document, or of each record of ndjson, geojson and stac")
    ] = {}
    root: Annotated[
        str,
        _what("json: the member with the list of records; empty: the list at the top, or the document is one record"),
    ] = ""


class FetchRequest(Record, frozen=True):
    """A request to fetch one source, with all its limits."""

    uri: str
    name: str = ""
    base_dir: str = ""  # relative file paths start here and must stay in it
    roots: tuple[str, ...] = ()  # other folders that absolute file paths may be in
    allow: tuple[str, ...] = ()  # host or host:port that is allowed although it is private or on another port
    hosts: tuple[str, ...] = ()  # other hosts a redirect may lead to
    protected: tuple[str, ...] = ()  # addresses under a label, to which no redirect of this source may lead
    expect_hash: str = ""
    media_type: str = ""
    partition: tuple[str, ...] = ()
    complete: bool = False  # the author declares the source complete; it counts only if all of it arrived
    max_bytes: int = 1 << 40
    max_ratio: int = 200  # decompressed to compressed
    timeout_ms: int = 30_000  # between two bytes
    total_ms: int = 3_600_000
    revalidate_ms: int = 86_400_000  # after this time the bytes are fetched even if the validators are unchanged
    now_ms: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    address: str = ""  # the address with secrets in its query; never recorded. Empty: `uri`
    secrets: tuple[str, ...] = ()  # values of headers and address that no other origin may receive


class Fetched(Record, frozen=True):
    """The result of a fetch. `ref.content_hash` is always the digest of stored bytes."""

    ref: SourceRef
    checkpoint: Checkpoint
    not_modified: bool
    bytes_on_wire: int = 0
