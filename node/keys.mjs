/** Digests and the keys everything is known by. Pure. Twin of src/kfm/model/keys.py. */

import { createHash } from "node:crypto";

import { canonical } from "./canonical.mjs";
import { BadInput } from "./errors.mjs";

export const GENESIS = "sha256:" + "0".repeat(64); // what the first link of any chain names as the one before it

const sha256 = (body) => createHash("sha256").update(body);

export function digest(body) {
  return "sha256:" + sha256(body).digest("hex");
}

export function runKey(sourceUrl, etag, window, pipelineVersion) {
  const fields = [sourceUrl, etag, window, pipelineVersion];
  const joined = fields.map((field) => field.replace(/[\\|]/g, "\\$&")).join("|");
  if (!joined.isWellFormed()) {
    throw new BadInput("the source, its validator, the window or the version holds half a surrogate pair", {
      hint: "remove it: it is not a character",
    });
  }
  return sha256(Buffer.from(joined, "utf8")).digest("hex");
}

export function runKeyOf(inputs, window, version) {
  const refs = [...inputs];
  return runKey(
    refs.map((ref) => ref.uri).join("\n"),
    refs.map((ref) => ref.etag || ref.content_hash).join("\n"),
    window,
    version,
  );
}

export function inputHash(inputs) {
  return digest(canonical([...inputs].map((ref) => [ref.uri, ref.content_hash, ref.partition, ref.contract_hash])));
}

export function claimKey(updaterId, version, dataset, window, inputs, params) {
  return sha256(canonical(["claim/1", updaterId, version, dataset, window, inputs, params])).digest("hex");
}

export function runId(claim, n) {
  return uuid(["run/1", claim, n]);
}

export function correlationId(trigger) {
  const { updater_id: updater, dataset, window, params, received_at: at } = trigger;
  return uuid(["correlation/1", updater, dataset, window, params, at]);
}

function uuid(value) {
  const raw = sha256(canonical(value)).digest().subarray(0, 16);
  raw[6] = (raw[6] & 0x0f) | 0x80;
  raw[8] = (raw[8] & 0x3f) | 0x80;
  const text = raw.toString("hex");
  return [text.slice(0, 8), text.slice(8, 12), text.slice(12, 16), text.slice(16, 20), text.slice(20)].join("-");
}

export function outputKey(updaterId, version, businessKey, contentHash) {
  return digest(canonical([updaterId, version, businessKey, contentHash]));
}
