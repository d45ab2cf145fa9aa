// Made by `make schemas` from the code of Python; change that, not this file.

import { any, boolean, bounded, choice, integer, list, literal, map, nullable, number, record, text, tuple } from "../types.mjs";

export const PYTHON_ALONE = ["comment", "flatgeobuf", "geopackage", "geotiff", "grib2", "layer", "max_bytes", "member", "netcdf", "parquet", "shapefile", "skip_after_header", "skip_lines", "timeout_s", "total_s", "unpack", "zarr"];
export const Format = literal("bytes", "csv", "flatgeobuf", "geojson", "geopackage", "geotiff", "grib2", "json", "ndjson", "netcdf", "parquet", "shapefile", "stac", "text", "zarr");
export const Status = literal("FAILED", "PARTIAL", "SKIPPED", "SUCCESS");
export const Phase = literal("EXECUTE", "LINEAGE", "PLAN", "UPSERT");
export const StepStatus = literal("DONE", "FAILED", "IN_PROGRESS", "PENDING");
export const Stage = literal("ADMIT", "EXECUTE", "LINEAGE", "PLAN", "QUARANTINE", "UPSERT");
export const Zone = literal("processed", "published", "quarantine", "raw");
export const Level = literal("closed", "generalised", "public", "restricted");
export const TriggerKind = literal("anomaly", "event", "job", "manual", "operation", "poll", "schedule", "webhook");
export const NONDET = ["attempt", "co2e_g", "duration_ms", "energy_kwh", "energy_method", "error_budget_burn", "finished_at", "host", "latency_ms", "pid", "pool_wait_ms", "retries", "slo_ok", "started_at", "tool_versions", "trace_id", "ts", "wal_replay_count"];
export const ColumnMode = literal("discard-row", "discard-value", "evolve", "freeze");
export const ColumnType = literal("boolean", "date", "datetime", "integer", "number", "text");

export const Trigger = record("Trigger", {
  kind: literal("anomaly", "event", "job", "manual", "operation", "poll", "schedule", "webhook"),
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
  correlation_id: [text, ""],
  partition: [text, ""],
  pool: [text, ""],
  low: [boolean, false],
});

export const Override = record("Override", {
  rule: literal("abandon", "allow-deletions", "force"),
  limit: [integer, 0],
});

export const EndedTrigger = record("EndedTrigger", {
  trigger: Trigger.type,
  run_id: text,
});

export const Delivery = record("Delivery", {
  source_id: text,
  delivery_id: text,
  trigger_ids: list(text),
  received_ms: integer,
  expires_ms: integer,
});

export const Layout = record("Layout", {
  encoding: [text, "utf-8"],
  delimiter: [text, ","],
  columns: [list(text), []],
});

export const Classification = record("Classification", {
  level: literal("closed", "generalised", "public", "restricted"),
  care: [text, "open"],
  access: [text, "open"],
  expires: [text, ""],
  resolution: [nullable(integer), null],
  custodians: [list(text), []],
  authorities: [list(text), []],
  community_labels: [list(text), []],
  rules: [list(text), []],
});

export const SourceRef = record("SourceRef", {
  uri: text,
  content_hash: text,
  size: integer,
  name: [text, ""],
  media_type: [text, ""],
  partition: [list(text), []],
  partitions: [list(text), []],
  etag: [text, ""],
  last_modified: [text, ""],
  complete: [boolean, false],
  contract_hash: [text, ""],
  layout: [nullable(Layout.type), null],
  accepted_hash: [text, ""],
  rows: [integer, 0],
  held_rows: [integer, 0],
  standing: [nullable(Classification.type), null],
  sealed_with: [text, ""],
});

export const RefMove = record("RefMove", {
  ref: text,
  before: text,
  after: text,
});

export const Step = record("Step", {
  id: text,
  key: [nullable(list(text)), null],
  params: [map(any), {}],
  needs: [list(text), []],
  move: [nullable(RefMove.type), null],
});

export const ManifestEntry = record("ManifestEntry", {
  key: list(text),
  digest: text,
  size: integer,
  media_type: text,
  bbox: [list(number), []],
  datetime: [text, ""],
  stac_id: [text, ""],
});

export const ManifestPart = record("ManifestPart", {
  depth: integer,
  digest: text,
  entries: integer,
  key: list(text),
  size: integer,
});

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
  metadata: map(any),
  validation: map(integer),
  deleted: [integer, 0],
  created_at: [text, ""],
  validated_by: [text, ""],
  code_hash: [text, ""],
  standing: [nullable(Classification.type), null],
});

export const WalRecord = record("WalRecord", {
  wal_id: text,
  seq: integer,
  phase: literal("EXECUTE", "LINEAGE", "PLAN", "UPSERT"),
  step_id: text,
  updater_id: text,
  updater_version: text,
  input_hash: text,
  payload: map(any),
  status: literal("DONE", "FAILED", "IN_PROGRESS", "PENDING"),
  ts: text,
});

export const Segment = record("Segment", {
  n: integer,
  prev: text,
  plan_hash: text,
  phases: list(literal("EXECUTE", "LINEAGE", "PLAN", "UPSERT")),
  done: [list(tuple(integer, text, integer, text)), []],
  intent: [list(tuple(integer, integer)), []],
  failed: [list(tuple(integer, text)), []],
  described: [list(tuple(integer, map(any))), []],
  payload: [map(any), {}],
  ts: [text, ""],
  then: [list(literal("EXECUTE", "LINEAGE", "PLAN", "UPSERT")), []],
});

export const Lease = record("Lease", {
  scope: text,
  token: integer,
  holder: text,
  expires_ms: integer,
  ttl_ms: [integer, 0],
});

export const Obligation = record("Obligation", {
  do: literal("mask", "throttle", "withhold"),
  resolution: [nullable(integer), null],
  field: [text, ""],
  per_minute: [nullable(integer), null],
});

export const Decision = record("Decision", {
  gate: text,
  allow: boolean,
  subject: text,
  policy_digest: text,
  reasons: [list(text), []],
  id: [text, ""],
  subjects: [list(text), []],
  rules: [list(text), []],
  warnings: [list(text), []],
  obligations: [list(Obligation.type), []],
  label_epoch: [integer, 0],
  engine: [text, ""],
});

export const Finding = record("Finding", {
  source: text,
  rule: text,
  message: text,
  row: [integer, 0],
  column: [text, ""],
  held: [boolean, true],
});

export const Item = record("Item", {
  kind: literal("dataset", "file", "ref", "uri"),
  id: text,
  checksum: text,
  zone: [text, ""],
});

export const ErrorNote = record("ErrorNote", {
  code: text,
  message: text,
});

export const Receipt = record("Receipt", {
  run_id: text,
  job_id: text,
  job_type: text,
  dataset: text,
  updater_id: text,
  updater_version: text,
  status: literal("FAILED", "PARTIAL", "SKIPPED", "SUCCESS"),
  outcome: text,
  trigger: literal("anomaly", "event", "job", "manual", "operation", "poll", "schedule", "webhook"),
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
  provenance: map(any),
  policy_decisions: list(Decision.type),
  errors: list(ErrorNote.type),
  overrides: [list(Override.type), []],
  rows: [integer, 0],
  changes: [map(integer), {}],
  correlation_id: [text, ""],
  code_hash: [text, ""],
  warnings: [list(ErrorNote.type), []],
  partition: [text, ""],
  config_hash: [text, ""],
});

export const RunTelemetry = record("RunTelemetry", {
  run_id: text,
  updater_id: text,
  version: text,
  dataset: text,
  source_id: text,
  trigger: literal("anomaly", "event", "job", "manual", "operation", "poll", "schedule", "webhook"),
  status: literal("FAILED", "PARTIAL", "SKIPPED", "SUCCESS"),
  failure_stage: nullable(literal("ADMIT", "EXECUTE", "LINEAGE", "PLAN", "QUARANTINE", "UPSERT")),
  idempotency_state: text,
  duration_ms: nullable(integer),
  latency_ms: integer,
  retries: integer,
  wal_replay_count: integer,
  inputs_count: integer,
  outputs_count: integer,
  artifact_count: integer,
  bytes_in: nullable(integer),
  bytes_out: integer,
  energy_kwh: nullable(number),
  co2e_g: nullable(number),
  energy_method: text,
  slo_target_latency_ms: integer,
  slo_ok: nullable(boolean),
  error_budget_burn: nullable(number),
  dry_run: boolean,
  errors: list(text),
  correlation_id: [text, ""],
  tool_versions: [map(text), {}],
  pool_wait_ms: [integer, 0],
});

export const TelemetryBundle = record("TelemetryBundle", {
  version: text,
  runs: list(RunTelemetry.type),
  by_status: map(integer),
});

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
  status: literal("COMMITTED", "FAILED", "RUNNING", "SKIPPED"),
  started_at: text,
  inputs: list(SourceRef.type),
  plan_hash: [text, ""],
  steps: [integer, 0],
  attempt: [integer, 1],
  held: [text, ""],
  version_digest: [text, ""],
  moves: [list(RefMove.type), []],
  metadata: [map(any), {}],
  continues: [text, ""],
  locked_plan: [boolean, false],
  code_hash: [text, ""],
});

export const Governed = record("Governed", {
  lineage: list(text),
  findings: list(text),
  care: text,
  review: text,
  withheld: list(text),
  committed: [map(text), {}],
  sealed_with: [text, ""],
});

export const LedgerEntry = record("LedgerEntry", {
  index: integer,
  prev: text,
  op_type: text,
  run_id: text,
  wal_ids: list(text),
  dataset: text,
  outcome: text,
  reason: text,
  operator: text,
  receipt_digest: text,
  moves: list(RefMove.type),
  ts: text,
  overrides: [list(Override.type), []],
  governed: [Governed.type, undefined],
});

export const SinkPosition = record("SinkPosition", {
  moves: integer,
  keep: integer,
});

export const Difference = record("Difference", {
  dataset: text,
  path: text,
  kind: literal("altered", "foreign", "missing"),
});

export const Effect = record("Effect", {
  seq: integer,
  method: literal("emit_event", "publish_release", "remove_file", "update_metadata", "write_file"),
  target: text,
  digest: text,
  size: integer,
  key: text,
  dry_run: boolean,
});

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

export const Column = record("Column", {
  name: text,
  type: [literal("boolean", "date", "datetime", "integer", "number", "text"), "text"],
  required: [boolean, false],
  mode: [literal("discard-row", "discard-value", "evolve", "freeze"), "freeze"],
  minimum: [nullable(number), null],
  maximum: [nullable(number), null],
  pattern: [text, ""],
  values: [list(text), []],
  missing: [list(text), []],
  date_format: [text, ""],
  unique: [boolean, false],
});

export const DataContract = record("DataContract", {
  format: [literal("bytes", "csv", "flatgeobuf", "geojson", "geopackage", "geotiff", "grib2", "json", "ndjson", "netcdf", "parquet", "shapefile", "stac", "text", "zarr"), "bytes"],
  columns: [list(Column.type), []],
  other_columns: [literal("discard-row", "discard-value", "evolve", "freeze"), "evolve"],
  header: [boolean, true],
  delimiter: [text, ","],
  encoding: [text, "utf-8"],
  skip_lines: [bounded(integer, {"ge": 0, "le": 1000000}), undefined],
  comment: [bounded(text, {"min": 1, "max": 8}), undefined],
  skip_after_header: [bounded(integer, {"ge": 0, "le": 1000000}), undefined],
  layer: [bounded(text, {"min": 1, "max": 200}), undefined],
  min_rows: [integer, 0],
  max_held_rows: [integer, -1],
  max_held_share: [number, 0.2],
  allow_empty: [boolean, false],
  shrink_limit: [number, 0.2],
  partition_by: [text, ""],
  json_schema: [map(any), {}],
  root: [text, ""],
});

export const FetchRequest = record("FetchRequest", {
  uri: text,
  name: [text, ""],
  base_dir: [text, ""],
  roots: [list(text), []],
  allow: [list(text), []],
  hosts: [list(text), []],
  protected: [list(text), []],
  expect_hash: [text, ""],
  media_type: [text, ""],
  partition: [list(text), []],
  complete: [boolean, false],
  max_bytes: [integer, 1099511627776],
  max_ratio: [integer, 200],
  timeout_ms: [integer, 30000],
  total_ms: [integer, 3600000],
  revalidate_ms: [integer, 86400000],
  now_ms: [integer, 0],
  headers: [list(tuple(text, text)), []],
  address: [text, ""],
  secrets: [list(text), []],
});

export const Fetched = record("Fetched", {
  ref: SourceRef.type,
  checkpoint: Checkpoint.type,
  not_modified: boolean,
  bytes_on_wire: [integer, 0],
});
