/** Names and contents of what is exported for people and other programs. Pure. Twin of src/kfm/projections/artifacts.py. */

import { createHash } from "node:crypto";

import { canonical } from "./canonical.mjs";
import { strip } from "./characters.mjs";
import { KEEPS_CASE, SUFFIXES } from "./generated/words.mjs";
import { isFileName } from "./names.mjs";

const SAFE = /^[a-z0-9][a-z0-9._-]{0,79}$/;
const CASED = /^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$/;
const SUFFIX = new Map(Object.entries(SUFFIXES));
const NEWLINE = Buffer.from("\n");

export function receiptPath(receipt) {
  const [year, month, day] = receipt.started_at.slice(0, 10).split("-");
  return `receipts/${receipt.job_type}/${year}/${month}/${day}/${receipt.run_id}.json`;
}

export function publishedPath(dataset, version, entry, twins) {
  const names = namesOf(entry.key, twins === null ? SAFE : CASED);
  const parts = names.map((name, at) => (twins?.has(folded(names, at)) ? `${name}~${hidden(name).slice(1, 17)}` : name));
  const suffix = SUFFIX.get(entry.media_type) ?? SUFFIX.get(strip(entry.media_type.split(";")[0])) ?? ".bin";
  return `${versionPath(dataset, version)}/${parts.join("/")}${suffix}`;
}

export function twinsOf(made, entries) {
  if (made?.validation[KEEPS_CASE] === undefined) return null;
  const [spelled, twins] = [new Map(), new Set()];
  for (const { key } of entries) {
    namesOf(key, CASED).forEach((name, at, names) => {
      const fold = folded(names, at);
      if ((spelled.get(fold) ?? name) !== name) twins.add(fold);
      else spelled.set(fold, name);
    });
  }
  return twins;
}

const folded = (names, at) => names.slice(0, at + 1).join("/").toLowerCase();

export const pointerPath = (dataset) => `datasets/${dataset}/current.json`;

export const versionPath = (dataset, version) => `datasets/${dataset}/versions/${version.slice(7, 23)}`;

function namesOf(key, plain) {
  const isPlain = (part, at) => plain.test(part) && isFileName(part) && (at === key.length - 1 || !part.includes("."));
  return key.map((part, at) => (isPlain(part, at) ? part : hidden(part)));
}

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
