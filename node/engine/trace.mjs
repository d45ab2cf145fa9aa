/** Lineage: closes the journal of the run. Its facts are those of the receipt; whoever tells them follows the ledger. */

import { append } from "./plan.mjs";

export function trace(walk, tx) {
  walk.stage = "LINEAGE";
  // The last segment of the run: its last steps, the moves and the lineage are done, all or none.
  append(walk, tx, ["EXECUTE", "UPSERT", "LINEAGE"], { done: walk.tail, payload: { moves: walk.moves } });
}
