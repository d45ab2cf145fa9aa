/** Names and contents of what is exported for people and other programs. Pure. Twin of src/kfm/projections/artifacts.py. */

import { createHash } from "node:crypto";

import { canonical } from "./canonical.mjs";
import { strip } from "./characters.mjs";
import { isFileName } from "./names.mjs";

const SAFE = /^[a-z0-9][a-z0-9._-]{0,79}$/;
const SUFFIX = new Map([
  ["text/csv", ".csv"], ["text/plain", ".txt"], ["application/json", ".json"], ["application/x-ndjson", ".ndjson"],
  ["application/geo+json", ".geojson"], ["application/vnd.apache.parquet", ".parquet"], ["image/tiff", ".tif"],
  ["application/wmo-GRIB2", ".grib2"], ["application/netcdf", ".nc"], ["application/geopackage+sqlite3", ".gpkg"],
  ["application/vnd.zarr+zip", ".zarr.zip"], ["application/vnd.shp+zip", ".shp.zip"], ["application/vnd.flatgeobuf", ".fgb"],
]);
const NEWLINE = Buffer.from("\n");

export function receiptPath(receipt) {
  const [year, month, day] = receipt.started_at.slice(0, 10).split("-");
  return `receipts/${receipt.job_type}/${year}/${month}/${day}/${receipt.run_id}.json`;
}

export function publishedPath(dataset, version, entry) {
  const folders = entry.key.slice(0, -1);
  const name = entry.key.at(-1);
  const suffix = SUFFIX.get(strip(entry.media_type.split(";")[0])) ?? ".bin";
  const parts = folders.map((part) => (!part.includes(".") && isPlain(part) ? part : hidden(part)));
  parts.push((isPlain(name) ? name : hidden(name)) + suffix);
  return `${versionPath(dataset, version)}/${parts.join("/")}`;
}

export const pointerPath = (dataset) => `datasets/${dataset}/current.json`;

export const versionPath = (dataset, version) => `datasets/${dataset}/versions/${version.slice(7, 23)}`;

const isPlain = (part) => SAFE.test(part) && isFileName(part);

const hidden = (part) => `_${createHash("sha256").update(part).digest("hex").slice(0, 32)}`;

const lines = (values) => Buffer.concat(values.flatMap((value) => [canonical(value), NEWLINE]));

/**
 * run.jsonl: a line a run, its receipt and its telemetry, but for what differs between runners. `runs`:
 * [receipt, telemetry or null].
 */
export function runLines(runs) {
  return lines(
    runs.map(([receipt, telemetry], i) => ({
      seq: i + 1,
      timestamp: receipt.finished_at,
      dry_run: receipt.dry_run,
      receipt,
      telemetry: telemetry === null ? null : alike(telemetry),
    })),
  );
}

const alike = ({ tool_versions: _, ...telemetry }) => telemetry;

export function eventLines(events, dryRun) {
  return lines(events.map((event, i) => ({ ...event, seq: i + 1, dry_run: dryRun })));
}

/** idempotency.json: the ledger row of every run. `runs`: [receipt, its inputs]. */
export function idempotency(runs, dryRun) {
  const rows = runs.map(([receipt, inputs]) => ({
    run_id: receipt.run_id,
    dataset_id: receipt.dataset,
    idempotency_key: receipt.run_key,
    input_hash: receipt.input_hash,
    state: receipt.outcome,
    timestamp: receipt.finished_at,
    source_metadata: inputs.length
      ? inputs.map((ref) => ({
          uri: ref.uri,
          etag: ref.etag,
          last_modified: ref.last_modified,
          content_hash: ref.content_hash,
        }))
      : receipt.inputs.map((item) => ({ uri: item.id, etag: "", last_modified: "", content_hash: item.checksum })),
    pipeline_version: receipt.updater_version,
  }));
  return lines([{ dry_run: dryRun, runs: rows }]);
}

export const traceLines = (effects) => lines(effects);
