/** Lineage: writes the inputs of the run into the embedded graph, and closes its journal. */

import { append } from "./plan.mjs";
import { inputItems } from "./receipt_stage.mjs";

export function trace(walk, tx) {
  walk.stage = "LINEAGE";
  tx.lineage(walk.run.run_id, inputItems(walk));
  // The last segment of the run: its last steps, the moves and the lineage are done, all or none.
  append(walk, tx, ["EXECUTE", "UPSERT", "LINEAGE"], { done: walk.tail, payload: { moves: walk.moves } });
}
