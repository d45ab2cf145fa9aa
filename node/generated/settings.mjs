// Made by `make schemas` from the code of Python; change that, not this file.

import { any, boolean, bounded, choice, integer, list, literal, map, nullable, number, record, text, tuple } from "../types.mjs";
import { DataContract } from "./records.mjs";

export const COLUMNAR = ["parquet", "geopackage", "shapefile", "flatgeobuf"];
export const GRIDS = ["geotiff", "grib2", "netcdf", "zarr"];
export const VECTORS = ["geopackage", "shapefile", "flatgeobuf"];
export const CastType = literal("boolean", "integer", "number", "text");
export const OutputFormat = literal("csv", "geojson", "json", "ndjson", "parquet");
export const TABULAR = ["csv", "json", "ndjson", "geojson", "stac", "parquet", "geopackage", "shapefile", "flatgeobuf"];
export const GEOMETRIES = ["Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection"];
export const VERBS = ["select", "rename", "cast", "filter", "sort", "deduplicate", "join", "mask"];
export const FEATURE_MEMBERS = ["id", "geometry", "bbox"];
export const ITEM_MEMBERS = ["id", "geometry", "bbox", "collection", "links", "assets", "stac_version", "stac_extensions"];
export const FILE_NAMES = ["kfm.yml", "kfm.yaml", "kfm.json"];
export const RESERVED_ENV = ["KFM_ACTOR", "KFM_COLOR", "KFM_CONFIG", "KFM_LOG", "KFM_NOW", "KFM_REASON", "KFM_WORKER_IMAGE"];
export const Signal = literal("logs", "metrics", "traces");
export const Event = literal("burnt", "failed", "held", "late", "published", "review", "withdrawn");
export const SERVERS = ["postgresql", "redis", "rediss", "s3"];
export const Format = literal("bytes", "csv", "flatgeobuf", "geojson", "geopackage", "geotiff", "grib2", "json", "ndjson", "netcdf", "parquet", "shapefile", "stac", "text", "zarr");
export const Zone = literal("processed", "published");
export const CatchUp = literal("all", "last", "none");
export const On = literal("anomaly", "event");
export const Overlap = literal("cancel-older", "queue", "skip");
export const Day = literal("fri", "mon", "sat", "sun", "thu", "tue", "wed");
export const Cadence = literal("annual", "daily", "real-time", "static", "weekly");
export const Level = literal("closed", "generalised", "public", "restricted");
export const SINKS = [["catalog", "catalog"], ["pages", "pages"], ["worker_receipts", "worker-receipts"], ["attest.has_manifests", "manifests"], ["graph", "graph"], ["openlineage.file", "openlineage.file"], ["openlineage.url", "openlineage.http"], ["otel.endpoint", "otel"]];
export const PUBLIC_NAMES = ["datasets"];
export const PRIVATE_NAMES = ["sha256", "aside", "receipts", "events"];

export const ExpectedVariable = record("ExpectedVariable", {
  name: bounded(text, {"min": 1, "max": 1000}),
  dtype: [bounded(text, {"max": 20}), ""],
  units: [bounded(text, {"max": 100}), ""],
  dimensions: [list(text), []],
  shape: [list(integer), []],
  nodata: [nullable(number), null],
  minimum: [nullable(number), null],
  maximum: [nullable(number), null],
  required: [boolean, false],
  mode: [literal("evolve", "freeze"), "freeze"],
});

export const Expected = record("Expected", {
  crs: [bounded(text, {"max": 100}), ""],
  bbox: [list(number), []],
  bands: [bounded(integer, {"ge": 1}), undefined],
  time: [text, undefined],
  variables: [list(ExpectedVariable.type), undefined],
  geometry: [list(text), undefined],
});

export const FilterConfig = record("FilterConfig", {
  column: bounded(text, {"min": 1, "max": 1000}),
  equals: [nullable(choice(text, number, boolean)), null],
  not_equals: [nullable(choice(text, number, boolean)), null],
  in: [list(choice(text, number, boolean)), []],
  above: [nullable(choice(text, number)), null],
  below: [nullable(choice(text, number)), null],
  at_least: [nullable(choice(text, number)), null],
  at_most: [nullable(choice(text, number)), null],
  matches: [text, ""],
  blank: [nullable(boolean), null],
});

export const SortConfig = record("SortConfig", {
  column: bounded(text, {"min": 1, "max": 1000}),
  descending: [boolean, false],
});

export const DeduplicateConfig = record("DeduplicateConfig", {
  by: list(bounded(text, {"min": 1, "max": 1000})),
  keep: [literal("first", "last"), "first"],
});

export const JoinConfig = record("JoinConfig", {
  source: bounded(text, {"min": 1, "max": 1000}),
  on: map(text),
  add: list(bounded(text, {"min": 1, "max": 1000})),
  missing: [literal("drop", "keep", "refuse"), "keep"],
});

export const StepConfig = record("StepConfig", {
  select: [list(bounded(text, {"min": 1, "max": 1000})), []],
  rename: [map(text), {}],
  cast: [map(literal("boolean", "integer", "number", "text")), {}],
  unfit: [nullable(literal("blank", "drop", "refuse")), null],
  filter: [nullable(FilterConfig.type), null],
  sort: [list(choice(text, SortConfig.type)), []],
  deduplicate: [nullable(DeduplicateConfig.type), null],
  join: [nullable(JoinConfig.type), null],
  mask: [any, null],
});

export const OutputConfig = record("OutputConfig", {
  from: bounded(text, {"min": 1, "max": 1000}),
  steps: [list(StepConfig.type), []],
  format: [nullable(literal("csv", "geojson", "json", "ndjson", "parquet")), null],
  partition_by: [text, ""],
  window_by: [text, ""],
  allow_empty: [boolean, false],
});

export const NetworkConfig = record("NetworkConfig", {
  allow: [list(bounded(text, {"min": 1, "max": 4096})), []],
  timeout_s: [bounded(number, {"gt": 0, "le": 31536000}), 30],
  total_s: [bounded(number, {"gt": 0, "le": 31536000}), 3600],
  max_bytes: [bounded(integer, {"ge": 1, "le": 1125899906842624}), 1099511627776],
  revalidate_s: [bounded(number, {"ge": 0, "le": 31536000}), 86400],
  retries: [bounded(integer, {"ge": 0, "le": 20}), 0],
  per_host: [bounded(integer, {"ge": 1, "le": 1000}), 6],
});

export const BucketConfig = record("BucketConfig", {
  endpoint: [bounded(text, {"max": 1000}), ""],
  region: [bounded(text, {"max": 100}), "us-east-1"],
  access_key: [bounded(text, {"max": 1000}), ""],
  secret_key: [bounded(text, {"max": 1000}), ""],
  session_token: [bounded(text, {"max": 1000}), ""],
  identity: [literal("keys", "workload"), "keys"],
});

export const ExecuteConfig = record("ExecuteConfig", {
  threads: [bounded(integer, {"ge": 1, "le": 64}), 4],
  window: [bounded(integer, {"ge": 1, "le": 65536}), 4096],
  lease_s: [bounded(number, {"gt": 0, "le": 86400}), 60],
  cluster: [bounded(text, {"max": 300}), ""],
});

export const WatchConfig = record("WatchConfig", {
  poll_s: [bounded(number, {"ge": 0, "le": 31536000}), 900],
  jitter: [bounded(number, {"ge": 0, "le": 1}), 0.1],
  host_pause_s: [bounded(number, {"ge": 0, "le": 31536000}), 1],
  debounce_s: [bounded(number, {"ge": 0, "le": 31536000}), 2],
});

export const FreshnessConfig = record("FreshnessConfig", {
  max_age: [bounded(text, {"max": 20}), ""],
  by: [bounded(text, {"max": 100}), ""],
});

export const PolicyConfig = record("PolicyConfig", {
  url: [bounded(text, {"max": 4096}), ""],
  timeout_s: [bounded(number, {"gt": 0, "le": 31536000}), 2],
  folder: [bounded(text, {"max": 4096}), ""],
});

export const CustodianConfig = record("CustodianConfig", {
  key: bounded(text, {"min": 1, "max": 4096}),
});

export const LedgerConfig = record("LedgerConfig", {
  sign_with: [text, ""],
  origin: [text, ""],
  every: [bounded(integer, {"ge": 1, "le": 1000000}), 100],
});

export const AttestConfig = record("AttestConfig", {
  sign_with: [text, ""],
  builder: [bounded(text, {"min": 1, "max": 4096}), "urn:kfm:local"],
  manifests: [bounded(text, {"max": 4096}), ".kfm/manifests"],
});

export const WebhookConfig = record("WebhookConfig", {
  datasets: bounded(list(bounded(text, {"min": 1, "max": 4096})), {"min": 1}),
  secrets: bounded(list(bounded(text, {"min": 1, "max": 4096})), {"min": 1, "max": 2}),
  accept: [literal("github", "kfm", "standard"), "kfm"],
  enabled: [boolean, true],
  tolerance_s: [bounded(number, {"gt": 0, "le": 3600}), 300],
});

export const SignInConfig = record("SignInConfig", {
  issuer: [bounded(text, {"max": 2000}), ""],
  client_id: [bounded(text, {"max": 200}), ""],
  client_secret: [bounded(text, {"max": 4096}), ""],
  claim: [bounded(text, {"min": 1, "max": 100}), "preferred_username"],
  scopes: [bounded(list(bounded(text, {"min": 1, "max": 4096})), {"max": 20}), ["openid", "profile", "email"]],
  hours: [bounded(integer, {"ge": 1, "le": 24}), 8],
});

export const GitHubConfig = record("GitHubConfig", {
  token: [bounded(text, {"min": 1, "max": 4096}), "env:GITHUB_TOKEN"],
  api: [bounded(text, {"min": 1, "max": 4096}), "https://api.github.com"],
  uploads: [bounded(text, {"min": 1, "max": 4096}), "https://uploads.github.com"],
  repository: [bounded(text, {"max": 200}), ""],
});

export const Neo4jConfig = record("Neo4jConfig", {
  user: [bounded(text, {"min": 1, "max": 4096}), "env:NEO4J_USERNAME"],
  password: [bounded(text, {"min": 1, "max": 4096}), "env:NEO4J_PASSWORD"],
  database: [bounded(text, {"min": 1, "max": 4096}), "neo4j"],
  timeout_s: [bounded(number, {"gt": 0, "le": 31536000}), 30],
});

export const OpenLineageConfig = record("OpenLineageConfig", {
  file: [bounded(text, {"max": 4096}), ""],
  url: [bounded(text, {"max": 4096}), ""],
  endpoint: [bounded(text, {"min": 1, "max": 4096}), "api/v1/lineage"],
  api_key: [bounded(text, {"max": 4096}), ""],
  timeout_s: [bounded(number, {"gt": 0, "le": 31536000}), 30],
});

export const OtelConfig = record("OtelConfig", {
  endpoint: [bounded(text, {"max": 4096}), ""],
  signals: [list(literal("logs", "metrics", "traces")), ["traces", "metrics", "logs"]],
  headers: [map(bounded(text, {"min": 1, "max": 4096})), {}],
  timeout_s: [bounded(number, {"gt": 0, "le": 31536000}), 10],
});

export const ReceiverConfig = record("ReceiverConfig", {
  url: bounded(text, {"min": 1, "max": 4096}),
  secrets: bounded(list(bounded(text, {"min": 1, "max": 4096})), {"min": 1, "max": 2}),
  on: bounded(list(literal("burnt", "failed", "held", "late", "published", "review", "withdrawn")), {"min": 1}),
  datasets: [list(bounded(text, {"min": 1, "max": 4096})), []],
  timeout_s: [bounded(number, {"gt": 0, "le": 60}), 5],
});

export const RetentionConfig = record("RetentionConfig", {
  grace: [bounded(text, {"max": 6}), "7d"],
  unchanged_runs: [bounded(text, {"max": 6}), ""],
  previews: [bounded(text, {"max": 6}), ""],
});

export const EnergyConfig = record("EnergyConfig", {
  meter: [literal("auto", "cpu", "off", "rapl"), "auto"],
  watts_per_core: [bounded(number, {"gt": 0, "le": 1000}), 12.0],
  region: [bounded(text, {"max": 40}), ""],
  grid: [bounded(text, {"max": 4096}), ""],
  rapl: [bounded(text, {"min": 1, "max": 4096}), "/sys/class/powercap"],
});

export const RunnersConfig = record("RunnersConfig", {
  image: [bounded(text, {"max": 400}), ""],
  kubectl_image: [bounded(text, {"max": 400}), ""],
  folder: [bounded(text, {"min": 1, "max": 4096}), "/kfm"],
  program: [bounded(text, {"min": 1, "max": 4096}), "/usr/local/bin/kfm"],
  user: [bounded(text, {"min": 1, "max": 4096}), "kfm"],
  environment_file: [bounded(text, {"min": 1, "max": 4096}), "/etc/kfm/environment"],
  namespace: [bounded(text, {"min": 1, "max": 4096}), "kfm"],
  service_account: [bounded(text, {"min": 1, "max": 4096}), "kfm"],
  claim: [bounded(text, {"min": 1, "max": 4096}), "kfm"],
  secret: [bounded(text, {"min": 1, "max": 4096}), "kfm"],
  every: [bounded(text, {"min": 1, "max": 4096}), "17 * * * *"],
});

export const ArchiveConfig = record("ArchiveConfig", {
  name: [bounded(text, {"max": 200}), ""],
  description: [bounded(text, {"max": 4096}), ""],
  publisher: [bounded(text, {"max": 200}), ""],
  contact: [bounded(text, {"max": 400}), ""],
  url: [bounded(text, {"max": 2000}), ""],
  namespace: [bounded(text, {"max": 63}), "kfm"],
  outline: [bounded(text, {"max": 4096}), ""],
});

export const PostgresConfig = record("PostgresConfig", {
  password: [bounded(text, {"max": 1000}), ""],
  schema: [text, "kfm"],
  sslmode: [literal("disable", "prefer", "require", "verify-ca", "verify-full"), "prefer"],
  wait_s: [bounded(number, {"ge": 0, "le": 3600}), 30.0],
});

export const RedisConfig = record("RedisConfig", {
  password: [bounded(text, {"max": 1000}), ""],
  name: [text, "kfm"],
});

export const WorkersConfig = record("WorkersConfig", {
  attempts: [bounded(integer, {"ge": 1, "le": 100}), 5],
  sweep_s: [bounded(number, {"gt": 0, "le": 3600}), 5.0],
  backoff_s: [bounded(number, {"ge": 0, "le": 3600}), 1.0],
});

export const SourceConfig = record("SourceConfig", {
  uri: [bounded(text, {"max": 4096}), ""],
  dataset: [bounded(text, {"max": 4096}), ""],
  zone: [literal("processed", "published"), "processed"],
  key: [list(bounded(text, {"min": 1, "max": 4096})), []],
  version: [text, ""],
  format: [nullable(literal("bytes", "csv", "flatgeobuf", "geojson", "geopackage", "geotiff", "grib2", "json", "ndjson", "netcdf", "parquet", "shapefile", "stac", "text", "zarr")), null],
  contract: [DataContract.type, {"format": "bytes", "columns": [], "other_columns": "evolve", "header": true, "delimiter": ",", "encoding": "utf-8", "min_rows": 0, "max_held_rows": -1, "max_held_share": 0.2, "allow_empty": false, "shrink_limit": 0.2, "partition_by": "", "json_schema": {}, "root": ""}],
  expect: [nullable(Expected.type), null],
  complete: [boolean, false],
  expect_hash: [text, ""],
  hosts: [list(bounded(text, {"min": 1, "max": 4096})), []],
  headers: [map(bounded(text, {"min": 1, "max": 4096})), {}],
  query: [map(bounded(text, {"min": 1, "max": 4096})), {}],
  revalidate_s: [nullable(bounded(number, {"ge": 0, "le": 31536000})), null],
  timeout_s: [bounded(number, {"gt": 0, "le": 31536000}), undefined],
  total_s: [bounded(number, {"gt": 0, "le": 31536000}), undefined],
  max_bytes: [bounded(integer, {"ge": 1, "le": 1125899906842624}), undefined],
  media_type: [text, ""],
  unpack: [literal("gzip"), undefined],
  member: [bounded(text, {"min": 1, "max": 1000}), undefined],
  mask: [bounded(text, {"max": 4096}), ""],
  poll_s: [nullable(bounded(number, {"ge": 0, "le": 31536000})), null],
});

export const AnomalyConfig = record("AnomalyConfig", {
  held_share: [nullable(bounded(number, {"ge": 0, "le": 1})), null],
  removed_share: [nullable(bounded(number, {"ge": 0, "le": 1})), null],
  rows_drop: [nullable(bounded(number, {"ge": 0, "le": 1})), null],
});

export const ScheduleConfig = record("ScheduleConfig", {
  cadence: [nullable(literal("annual", "daily", "real-time", "static", "weekly")), null],
  cron: [bounded(text, {"max": 200}), ""],
  after: [list(bounded(text, {"min": 1, "max": 4096})), []],
  on: [nullable(literal("anomaly", "event")), null],
  of: [list(bounded(text, {"min": 1, "max": 4096})), []],
  when: [nullable(AnomalyConfig.type), null],
  timezone: [bounded(text, {"min": 1, "max": 4096}), "UTC"],
  at: [bounded(text, {"max": 5}), "00:00"],
  day: [literal("fri", "mon", "sat", "sun", "thu", "tue", "wed"), "mon"],
  every_min: [bounded(integer, {"ge": 1, "le": 5}), 5],
  overlap: [nullable(literal("cancel-older", "queue", "skip")), null],
  catch_up: [literal("all", "last", "none"), "last"],
  jitter_s: [bounded(integer, {"ge": 0, "le": 86400}), 0],
  start: [text, ""],
  end: [text, ""],
  window: [text, ""],
  pool: [bounded(text, {"max": 63}), ""],
  paused: [boolean, false],
});

export const Extent = record("Extent", {
  bbox: [list(number), []],
  interval: [list(nullable(text)), []],
});

export const DatasetConfig = record("DatasetConfig", {
  updater: [nullable(bounded(text, {"min": 1, "max": 4096})), null],
  job: [bounded(text, {"min": 1, "max": 4096}), undefined],
  parameters: [map(any), undefined],
  version: [text, ""],
  outputs: [map(OutputConfig.type), {}],
  title: [text, ""],
  description: [text, ""],
  license: [text, ""],
  license_text: [bounded(text, {"max": 100000}), undefined],
  sensitivity: [nullable(literal("closed", "generalised", "public", "restricted")), null],
  attribution: [text, ""],
  extent: [nullable(Extent.type), null],
  sources: [map(SourceConfig.type), {}],
  schedule: [nullable(ScheduleConfig.type), null],
  pool: [bounded(text, {"max": 63}), ""],
  freshness: [nullable(FreshnessConfig.type), null],
  promote: [literal("auto", "manual"), "manual"],
  review: [literal("none", "one", "two"), undefined],
  publish_retention: [nullable(bounded(integer, {"ge": -1})), null],
});

export const Config = record("Config", {
  datasets: map(DatasetConfig.type),
  kfm: [literal(1), 1],
  $schema: [text, ""],
  state: [bounded(text, {"min": 1, "max": 4096}), "sqlite:.kfm/state.db"],
  objects: [bounded(text, {"min": 1, "max": 4096}), "file:.kfm/objects"],
  publish: [bounded(text, {"min": 1, "max": 4096}), "file:public"],
  queue: [bounded(text, {"max": 1000}), ""],
  postgres: [PostgresConfig.type, {"password": "", "schema": "kfm", "sslmode": "prefer", "wait_s": 30.0}],
  redis: [RedisConfig.type, {"password": "", "name": "kfm"}],
  workers: [WorkersConfig.type, {"attempts": 5, "sweep_s": 5.0, "backoff_s": 1.0}],
  catalog: [bounded(text, {"max": 4096}), "auto"],
  pages: [boolean, true],
  public_url: [bounded(text, {"max": 2000}), ""],
  archive: [ArchiveConfig.type, {"name": "", "description": "", "publisher": "", "contact": "", "url": "", "namespace": "kfm", "outline": ""}],
  worker_receipts: [bounded(text, {"max": 4096}), ""],
  artifacts: [bounded(text, {"min": 1, "max": 4096}), ".kfm/artifacts"],
  accept_weak_storage: [boolean, false],
  network: [NetworkConfig.type, {"allow": [], "timeout_s": 30, "total_s": 3600, "max_bytes": 1099511627776, "revalidate_s": 86400, "retries": 0, "per_host": 6}],
  s3: [map(BucketConfig.type), {}],
  read_from: [list(bounded(text, {"min": 1, "max": 4096})), []],
  execute: [ExecuteConfig.type, {"threads": 4, "window": 4096, "lease_s": 60, "cluster": ""}],
  github: [GitHubConfig.type, {"token": "env:GITHUB_TOKEN", "api": "https://api.github.com", "uploads": "https://uploads.github.com", "repository": ""}],
  graph: [bounded(text, {"max": 4096}), ""],
  neo4j: [Neo4jConfig.type, {"user": "env:NEO4J_USERNAME", "password": "env:NEO4J_PASSWORD", "database": "neo4j", "timeout_s": 30}],
  openlineage: [OpenLineageConfig.type, {"file": "", "url": "", "endpoint": "api/v1/lineage", "api_key": "", "timeout_s": 30}],
  notify: [map(ReceiverConfig.type), {}],
  otel: [OtelConfig.type, {"endpoint": "", "signals": ["traces", "metrics", "logs"], "headers": {}, "timeout_s": 10}],
  watch: [WatchConfig.type, {"poll_s": 900, "jitter": 0.1, "host_pause_s": 1, "debounce_s": 2}],
  pools: [map(bounded(integer, {"ge": 1, "le": 10000})), {}],
  schedules: [bounded(text, {"min": 1, "max": 4096}), "pipelines/schedules"],
  backfills: [bounded(text, {"min": 1, "max": 4096}), "pipelines/backfills"],
  slos: [bounded(text, {"min": 1, "max": 4096}), "slos"],
  review: [literal("none", "one", "two"), undefined],
  runners: [RunnersConfig.type, {"image": "", "kubectl_image": "", "folder": "/kfm", "program": "/usr/local/bin/kfm", "user": "kfm", "environment_file": "/etc/kfm/environment", "namespace": "kfm", "service_account": "kfm", "claim": "kfm", "secret": "kfm", "every": "17 * * * *"}],
  webhooks: [map(WebhookConfig.type), {}],
  sign_in: [SignInConfig.type, {"issuer": "", "client_id": "", "client_secret": "", "claim": "preferred_username", "scopes": ["openid", "profile", "email"], "hours": 8}],
  labels: [bounded(text, {"max": 4096}), ""],
  custodians: [map(CustodianConfig.type), {}],
  ledger: [LedgerConfig.type, {"sign_with": "", "origin": "", "every": 100}],
  attest: [AttestConfig.type, {"sign_with": "", "builder": "urn:kfm:local", "manifests": ".kfm/manifests"}],
  policy: [PolicyConfig.type, {"url": "", "timeout_s": 2, "folder": ""}],
  publish_retention: [bounded(integer, {"ge": -1}), -1],
  keep_days: [bounded(integer, {"ge": 1, "le": 36500}), 90],
  retention: [RetentionConfig.type, {"grace": "7d", "unchanged_runs": "", "previews": ""}],
  energy: [EnergyConfig.type, {"meter": "auto", "watts_per_core": 12.0, "region": "", "grid": "", "rapl": "/sys/class/powercap"}],
  deletion_budget: [bounded(number, {"ge": 0, "le": 1}), 0.1],
});
