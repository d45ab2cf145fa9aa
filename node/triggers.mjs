/** Triggers request a run. Twin of src/kfm/scheduling/triggers.py. */

import { rfc3339 } from "./clock.mjs";
import { datasetId } from "./names.mjs";
import { Trigger } from "./records.mjs";

export function asked(updater, dataset, clock, said) {
  return Trigger({
    kind: "manual",
    updater_id: updater.id,
    dataset: datasetId(dataset),
    allow_deletions: 0,
    ...said,
    received_at: rfc3339(clock.nowMs()),
  });
}
