/**
 * The records: plain objects with the fields of src/kfm/contract/records.py, in their order, defaults filled in.
 *
 * `SourceRef({...})` makes one; `convert(SourceRef, value)` reads one strictly from plain values;
 * `replace(record, changes)` makes a changed copy. A record is never changed in place.
 */

import { any, boolean, integer, list, literal, map, nullable, number, record, text, tuple } from "./types.mjs";

export { convert, Mismatch, replace } from "./types.mjs";

const strings = list(text);
const data = map(any);

export const Status = literal("SUCCESS", "FAILED", "PARTIAL", "SKIPPED");
export const Phase = literal("PLAN", "EXECUTE", "UPSERT", "LINEAGE");
export const StepStatus = literal("PENDING", "IN_PROGRESS", "DONE", "FAILED");
export const Stage = literal("ADMIT", "QUARANTINE", "PLAN", "EXECUTE", "UPSERT", "LINEAGE");
export const Zone = literal("raw", "quarantine", "processed", "published");
export const TriggerKind = literal("manual", "schedule", "webhook", "poll", "job", "operation");

/** Fields that two runs of the same work may differ in; everything else is compared byte for byte. */
export const NONDET = new Set([
  "ts", "started_at", "finished_at", "duration_ms", "attempt", "retries",
  "wal_replay_count", "host", "pid", "energy_kwh", "co2e_g", "trace_id",
]);

/** A fact that asks for a run. */
export const Trigger = record("Trigger", {
  kind: TriggerKind,
  updater_id: text,
  dataset: text,
  trigger_id: [text, ""],
  window: [text, ""],
  params: [map(text), {}],
  reason: [text, ""],
  actor: [text, ""],
  force: [boolean, false],
  abandon: [boolean, false],
  allow_deletions: [nullable(integer), null],
  received_at: [text, ""],
});

/** A rule that was set aside for one run, named by the flag that did it. */
export const Override = record("Override", {
  rule: literal("force", "abandon", "allow-deletions"),
  limit: [integer, 0],
});

/** A trigger that was kept, and the run that answered it. */
export const EndedTrigger = record("EndedTrigger", { trigger: Trigger.type, run_id: text });

/** One request of a webhook that was taken: the same one again begins nothing. */
export const Delivery = record("Delivery", {
  source_id: text,
  delivery_id: text,
  trigger_ids: strings,
  received_ms: integer,
  expires_ms: integer,
});

/** How the text of a source is written, as its contract says. */
export const Layout = record("Layout", {
  encoding: [text, "utf-8"],
  delimiter: [text, ","],
  columns: [strings, []],
});

/** One input, pinned to its bytes. */
export const SourceRef = record("SourceRef", {
  uri: text,
  content_hash: text,
  size: integer,
  name: [text, ""],
  media_type: [text, ""],
  partition: [strings, []],
  partitions: [strings, []],
  etag: [text, ""],
  last_modified: [text, ""],
  complete: [boolean, false],
  contract_hash: [text, ""],
  layout: [nullable(Layout.type), null],
  accepted_hash: [text, ""],
  rows: [integer, 0],
  held_rows: [integer, 0],
});

/** A compare-and-swap of a named ref. Empty text means the ref does not exist. */
export const RefMove = record("RefMove", { ref: text, before: text, after: text });

/** One unit of work. `key` is the business key of its output; null: an intermediate result. */
export const Step = record("Step", {
  id: text,
  key: [nullable(strings), null],
  params: [data, {}],
  needs: [strings, []],
  move: [nullable(RefMove.type), null],
});

/** Where a step's bytes are and what they are. */
export const OutputRef = record("OutputRef", { digest: text, size: integer, media_type: text });

/** One line of a version's manifest; the lines are sorted by key. */
export const ManifestEntry = record("ManifestEntry", { key: strings, digest: text, size: integer, media_type: text });

/** An immutable version. Its digest is that of its manifest: same content, same version. */
export const DatasetVersion = record("DatasetVersion", {
  dataset: text,
  digest: text,
  entries: integer,
  size: integer,
  supersedes: text,
  run_id: text,
  updater_id: text,
  updater_version: text,
  plan_hash: text,
  input_hash: text,
  metadata: data,
  validation: map(integer),
  deleted: [integer, 0],
  created_at: [text, ""],
});

/** One line of the write-ahead log, as exported. */
export const WalRecord = record("WalRecord", {
  wal_id: text,
  seq: integer,
  phase: Phase,
  step_id: text,
  updater_id: text,
  updater_version: text,
  input_hash: text,
  payload: data,
  status: StepStatus,
  ts: text,
});

/** What one durable write says about a run: these steps are done, those are about to begin. */
export const Segment = record("Segment", {
  n: integer,
  prev: text,
  plan_hash: text,
  phases: list(Phase),
  done: [list(tuple(integer, text, integer, text)), []],
  intent: [list(tuple(integer, integer)), []],
  failed: [list(tuple(integer, text)), []],
  payload: [data, {}],
  ts: [text, ""],
});

export const Lease = record("Lease", { scope: text, token: integer, holder: text, expires_ms: integer });

/** A gate's answer. Only a literal true on exactly these digests opens it. */
export const Decision = record("Decision", {
  gate: text,
  allow: boolean,
  subject: text,
  policy_digest: text,
  reasons: [strings, []],
});

/** Why something was held. Names the place, never the value. */
export const Finding = record("Finding", {
  source: text,
  rule: text,
  message: text,
  row: [integer, 0],
  column: [text, ""],
  held: [boolean, true],
});

/** An input or output in a receipt. */
export const Item = record("Item", {
  kind: literal("dataset", "file", "uri", "ref"),
  id: text,
  checksum: text,
  zone: [text, ""],
});

export const ErrorNote = record("ErrorNote", { code: text, message: text });

/** The audit record of one run: written once, never changed. */
export const Receipt = record("Receipt", {
  run_id: text,
  job_id: text,
  job_type: text,
  dataset: text,
  updater_id: text,
  updater_version: text,
  status: Status,
  outcome: text,
  trigger: TriggerKind,
  actor: text,
  reason: text,
  run_key: text,
  input_hash: text,
  plan_hash: text,
  started_at: text,
  finished_at: text,
  dry_run: boolean,
  inputs: list(Item.type),
  outputs: list(Item.type),
  moves: list(RefMove.type),
  steps: integer,
  held_rows: integer,
  provenance: data,
  policy_decisions: list(Decision.type),
  errors: list(ErrorNote.type),
  overrides: [list(Override.type), []],
});

export const RunTelemetry = record("RunTelemetry", {
  run_id: text,
  updater_id: text,
  version: text,
  dataset: text,
  source_id: text,
  trigger: TriggerKind,
  status: Status,
  failure_stage: nullable(Stage),
  idempotency_state: text,
  duration_ms: integer,
  latency_ms: integer,
  retries: integer,
  wal_replay_count: integer,
  inputs_count: integer,
  outputs_count: integer,
  artifact_count: integer,
  bytes_in: integer,
  bytes_out: integer,
  energy_kwh: nullable(number),
  co2e_g: nullable(number),
  energy_method: text,
  slo_target_latency_ms: integer,
  slo_ok: boolean,
  error_budget_burn: number,
  dry_run: boolean,
  errors: strings,
});

/** What all runs cost that one version of KFM made: `releases/<version>/updater-telemetry.json`. */
export const TelemetryBundle = record("TelemetryBundle", {
  version: text,
  runs: list(RunTelemetry.type),
  by_status: map(integer),
});

/** A run's row: the claim on its key, and where it stands. */
export const Run = record("Run", {
  run_id: text,
  claim_key: text,
  n: integer,
  run_key: text,
  input_hash: text,
  updater_id: text,
  updater_version: text,
  dataset: text,
  trigger: Trigger.type,
  status: literal("RUNNING", "COMMITTED", "FAILED", "SKIPPED"),
  started_at: text,
  inputs: list(SourceRef.type),
  plan_hash: [text, ""],
  steps: [integer, 0],
  attempt: [integer, 1],
  held: [text, ""],
  version_digest: [text, ""],
  moves: [list(RefMove.type), []],
  metadata: [data, {}],
});

/** One link of the governance ledger: commits to everything before it. */
export const LedgerEntry = record("LedgerEntry", {
  index: integer,
  prev: text,
  op_type: text,
  run_id: text,
  wal_ids: strings,
  dataset: text,
  outcome: text,
  reason: text,
  operator: text,
  receipt_digest: text,
  moves: list(RefMove.type),
  ts: text,
  overrides: [list(Override.type), []],
});

/** Something to tell the outside, in order, until it is acknowledged. */
export const OutboxItem = record("OutboxItem", {
  seq: integer,
  topic: literal("publish", "receipt", "lineage", "event"),
  key: text,
  token: integer,
  payload: data,
});

/** One line of a publisher trace: what was, or would be, changed outside. */
export const Effect = record("Effect", {
  seq: integer,
  method: literal("write_file", "emit_event", "update_metadata", "publish_release"),
  target: text,
  digest: text,
  size: integer,
  key: text,
  dry_run: boolean,
});

/** What we know of a source from the last time: saves a download, decides nothing. */
export const Checkpoint = record("Checkpoint", {
  uri: text,
  content_hash: text,
  size: integer,
  media_type: text,
  etag: text,
  last_modified: text,
  fetched_ms: integer,
  checked_ms: integer,
});

/** The graph facts of one run; sinks turn it into their own grammar. */
export const LineageBatch = record("LineageBatch", {
  run_id: text,
  updater_id: text,
  updater_version: text,
  trigger: TriggerKind,
  started_at: text,
  inputs: list(Item.type),
  outputs: list(Item.type),
  plan_hash: text,
});

/** One line of a ref's history, oldest first. */
export const RefEntry = record("RefEntry", {
  ref: text,
  n: integer,
  before: text,
  after: text,
  run_id: text,
  op: text,
  actor: text,
  reason: text,
  ts: text,
});

export const ColumnMode = literal("evolve", "freeze", "discard-row", "discard-value");
export const ColumnType = literal("text", "integer", "number", "boolean", "date", "datetime");

/** What a column must be, and what happens to a value that is not. */
export const Column = record("Column", {
  name: text,
  type: [ColumnType, "text"],
  required: [boolean, false],
  mode: [ColumnMode, "freeze"],
  minimum: [nullable(number), null],
  maximum: [nullable(number), null],
  pattern: [text, ""],
  values: [strings, []],
  missing: [strings, []],
  date_format: [text, ""],
  unique: [boolean, false],
});

/** What a source must look like before anything is planned from it. */
export const DataContract = record("DataContract", {
  format: [literal("csv", "json", "ndjson", "geojson", "stac", "text", "bytes"), "bytes"],
  columns: [list(Column.type), []],
  other_columns: [ColumnMode, "evolve"],
  header: [boolean, true],
  delimiter: [text, ","],
  encoding: [text, "utf-8"],
  min_rows: [integer, 0],
  max_held_rows: [integer, -1],
  partition_by: [text, ""],
  json_schema: [data, {}],
  root: [text, ""],
});

/** One source to read, with everything that bounds the reading. */
export const FetchRequest = record("FetchRequest", {
  uri: text,
  name: [text, ""],
  base_dir: [text, ""],
  allow: [strings, []],
  hosts: [strings, []],
  expect_hash: [text, ""],
  media_type: [text, ""],
  partition: [strings, []],
  complete: [boolean, false],
  max_bytes: [integer, 2 ** 40],
  max_ratio: [integer, 200],
  timeout_ms: [integer, 30_000],
  total_ms: [integer, 3_600_000],
  revalidate_ms: [integer, 86_400_000],
  now_ms: [integer, 0],
  headers: [list(tuple(text, text)), []],
});

/** What a source answered. `ref.content_hash` is always of bytes that are in the store. */
export const Fetched = record("Fetched", {
  ref: SourceRef.type,
  checkpoint: Checkpoint.type,
  not_modified: boolean,
  bytes_on_wire: [integer, 0],
});
