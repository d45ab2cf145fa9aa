/** Lineage: the graph facts of the run, into the journal and the outbox of the same transaction. */

import { LineageBatch } from "../records.mjs";
import { append } from "./plan.mjs";
import { inputItems, outputItems } from "./record.mjs";

export function trace(walk, tx) {
  walk.stage = "LINEAGE";
  const { run, plan } = walk;
  const batch = LineageBatch({
    run_id: run.run_id,
    updater_id: run.updater_id,
    updater_version: run.updater_version,
    trigger: walk.trigger.kind,
    started_at: run.started_at,
    inputs: inputItems(walk),
    outputs: outputItems(walk),
    plan_hash: plan.planHash,
  });
  const { token } = walk.lease;
  tx.enqueue("lineage", `lineage/${run.run_id}`, batch, token);
  for (const move of walk.moves) {
    if (isPublished(move)) {
      const payload = { ...move, dataset: walk.dataset, run_id: run.run_id };
      tx.enqueue("publish", `${move.ref}/${run.run_id}`, payload, token);
    }
  }
  // The last segment of the run: its last steps, the moves and the lineage are done, all or none.
  append(walk, tx, ["EXECUTE", "UPSERT", "LINEAGE"], { done: walk.tail, payload: { moves: walk.moves } });
}

export function isPublished(move) {
  return move.ref.startsWith("published/");
}
