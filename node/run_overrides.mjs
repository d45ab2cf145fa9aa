/** Rules that a person sets aside for one run. Twin of src/kfm/model/run_overrides.py. */

import { strip } from "./characters.mjs";
import { Refused } from "./errors.mjs";
import { Override } from "./records.mjs";

export function overridesOf(trigger) {
  const found = [];
  if (trigger.force) found.push(Override({ rule: "force" }));
  if (abandonsUnfinished(trigger)) found.push(Override({ rule: "abandon" }));
  const limit = deletionsAllowed(trigger);
  if (limit) found.push(Override({ rule: "allow-deletions", limit }));
  return found;
}

export const abandonsUnfinished = (trigger) => trigger.abandon || meantAll(trigger);

export function deletionsAllowed(trigger) {
  return meantAll(trigger) ? Number.MAX_SAFE_INTEGER : (trigger.allow_deletions ?? 0);
}

export function checkReason(trigger) {
  const [first] = overridesOf(trigger);
  if (first && !strip(trigger.reason)) {
    throw new Refused(`--${first.rule} needs a reason`, { hint: "add --reason; it goes into the ledger" });
  }
}

const meantAll = (trigger) => trigger.force && trigger.allow_deletions === null;
