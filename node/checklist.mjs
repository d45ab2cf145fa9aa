/**
 * The promotion checklist: what must be there before a version may be published. Any doubt is a no.
 *
 * Twin of src/kfm/policy/checklist.py.
 */

import { canonical } from "./canonical.mjs";
import { strip } from "./characters.mjs";
import { KfmError } from "./errors.mjs";
import { digest as digestOf } from "./keys.mjs";
import { entriesOf } from "./manifests.mjs";
import { isDigest } from "./names.mjs";
import { Decision } from "./records.mjs";

export const GATE = "promotion.checklist";
export const REQUIRED_METADATA = ["title", "license", "sensitivity"];
export const PUBLISHABLE = ["public"]; // what may be read by anyone; other labels wait for their custodian's rules
export const CHECKS = ["metadata", "validation", "licence", "provenance", "checksums", "receipt"];
export const POLICY_DIGEST = digestOf(canonical([GATE, 2, REQUIRED_METADATA, PUBLISHABLE, CHECKS]));

/**
 * May `move.after` be at `published/<dataset>`? Allowed only if every check says a literal yes.
 *
 * `declared` is what the configuration says of the dataset today. It decides what is declared at all; but
 * a version that was made as restricted stays so: an older, more precise one must not come back.
 */
export function promotionGate(state, objects, move, declared = null) {
  const dataset = move.ref.slice(move.ref.indexOf("/") + 1);
  let reasons;
  try {
    const version = state.datasetVersion(dataset, move.after);
    const receipt = version !== null ? state.receipt(version.run_id) : null;
    reasons = problems(version, receipt, move.after, declared);
    if (!reasons.length) reasons = missingBytes(objects, move.after);
  } catch (problem) {
    if (!(problem instanceof KfmError)) throw problem;
    reasons = [`the check itself failed: ${problem.code}`];
  }
  return Decision({
    gate: GATE,
    allow: !reasons.length,
    subject: move.after,
    policy_digest: POLICY_DIGEST,
    reasons,
  });
}

/** Every line of the checklist that does not hold. */
export function problems(version, receipt, digest, declared = null) {
  if (version === null) return ["provenance: no run is known to have made this version"];
  const found = [];
  const metadata = declared ?? version.metadata;
  for (const name of REQUIRED_METADATA) {
    if (typeof metadata[name] !== "string" || !strip(metadata[name])) {
      found.push(`${name === "license" ? "licence" : "metadata"}: ${name} is not declared`);
    }
  }
  if (typeof metadata.sensitivity === "string" && !PUBLISHABLE.includes(metadata.sensitivity)) {
    found.push("metadata: its sensitivity is not public");
  } else if (![null, ...PUBLISHABLE].includes(version.metadata.sensitivity ?? null)) {
    found.push("metadata: this version was made when the sensitivity was not public, and stays so");
  }
  const { validation } = version;
  if ((validation.sources ?? 0) < 1 || (validation.contracts ?? -1) !== validation.sources) {
    found.push("validation: not every source was held against a data contract");
  }
  if (version.digest !== digest || !isDigest(digest)) found.push("checksums: the version record is about other bytes");
  if (!isDigest(version.plan_hash) || !isDigest(version.input_hash) || !version.updater_version) {
    found.push("provenance: plan, inputs or updater version are not recorded");
  }
  if (receipt === null) found.push("receipt: the run that made it has none");
  else if (receipt.status !== "SUCCESS" || receipt.dry_run) {
    found.push("receipt: the run that made it did not succeed");
  } else if (!receipt.outputs.some((item) => item.checksum === digest)) found.push("receipt: it is about other bytes");
  return found;
}

/** Every object the manifest names must be there with its size; the manifest itself is read and checked. */
export function missingBytes(objects, manifest) {
  for (const entry of entriesOf(objects, manifest)) {
    if (!objects.has(entry.digest) || objects.size(entry.digest) !== entry.size) {
      return ["checksums: an object of the version is missing"];
    }
  }
  return [];
}
