/** The formats of a state, and what makes one of ours out of an older one. Twin of src/kfm/store/state_formats.py. */

import { Refused } from "../errors.mjs";

export const FORMAT = 10;

const STEPS = [[4, followTheLedger], [4, keyByDataset], [6, drawTheGraph]];

export function upgrade(tables, have) {
  for (const [number, step] of STEPS) if (have < number) step(tables);
}

function followTheLedger(tables) {
  const waiting = new Map(); // by dataset: the run whose move waits longest
  for (const [key, body] of [...tables.scan("outbox")]) {
    const { payload } = JSON.parse(body);
    if (key.startsWith("publish/") && !waiting.has(payload.dataset)) waiting.set(payload.dataset, payload.run_id);
    tables.delete("outbox", key);
  }
  const moved = new Map();
  const pending = new Set();
  for (const [key, body] of [...tables.scan("history", "published/")]) {
    const name = key.slice("published/".length, key.lastIndexOf("@"));
    if (waiting.has(name) && JSON.parse(body).run_id === waiting.get(name)) pending.add(name);
    moved.set(name, pending.has(name) ? (moved.get(name) ?? 0) : Number(key.slice(key.lastIndexOf("@") + 1)));
  }
  for (const [name, moves] of moved) {
    tables.put("outbox", `told/publish/${name}`, Buffer.from(`{"keep":-1,"moves":${moves}}`));
  }
  for (const name of pending) tables.put("outbox", `due/publish/${name}`, Buffer.from("{}"));
  for (const [index] of [...tables.scan("ledger", "", { reverse: true, limit: 1 })]) {
    tables.put("meta", "cursor/publish", Buffer.from(String(Number(index))));
  }
  const exported = tables.get("meta", "exported");
  if (exported !== null) {
    tables.put("meta", "cursor/receipts", exported);
    tables.delete("meta", "exported");
  }
}

function keyByDataset(tables) {
  const datasetOf = (body) => JSON.parse(body).dataset;
  for (const [runId, body] of [...tables.scan("open_runs")]) {
    const run = tables.get("runs", runId);
    tables.delete("open_runs", runId);
    if (run !== null) tables.put("open_runs", `${datasetOf(run)}/${runId}`, body);
  }
  for (const [triggerId, body] of [...tables.scan("inbox")]) {
    tables.delete("inbox", triggerId);
    tables.put("inbox", `${datasetOf(body)}/${triggerId}`, body);
  }
  for (const [index, body] of [...tables.scan("ledger")]) {
    tables.put("ended_runs", `${datasetOf(body)}/${index}`, Buffer.from("{}"));
  }
}

/** Twin of used_rows and made_row in src/kfm/store/lineage_index.py. */
export const usedRow = (index, runId, { id, checksum }) => row(`used/${id}#${checksum}`, index, runId);
export const madeRow = (index, runId, version) => row(`made/${version}`, index, runId);
const row = (what, index, runId) => [`${what}@${String(index).padStart(12, "0")}`, Buffer.from(runId)];

function drawTheGraph(tables) {
  for (const [index, body] of [...tables.scan("ledger")]) {
    const written = tables.get("receipts", JSON.parse(body).run_id) ?? "{}";
    const { dataset, inputs, moves, outputs, run_id, status } = JSON.parse(written);
    const made = outputs?.find((item) => item.kind === "dataset")?.checksum;
    const own = made ? [] : moves?.map((move) => `kfm://ref/${move.ref}`);
    if (status !== "SUCCESS" || !(made || moves.some((move) => /^(?:processed|published)\//.test(move.ref)))) continue;
    for (const item of inputs) if (!own.includes(item.id)) tables.put("lineage", ...usedRow(index, run_id, item));
    const version = `${dataset}@${made}`;
    const first = tables.get("versions", version);
    if (first && JSON.parse(first).run_id !== run_id) tables.put("lineage", ...madeRow(index, run_id, version));
  }
}

export function tooNew(what, found) {
  return new Refused(`${what} has format ${found}, this kfm knows up to ${FORMAT}`, {
    hint: "use the newer kfm that wrote it",
    code_hint: "version.too_new",
  });
}
