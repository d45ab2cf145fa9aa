/** Lineage: writes the inputs of the run into the embedded graph, and closes its journal. */

import { append } from "./plan.mjs";
import { inputItems } from "./receipt_stage.mjs";

export function trace(context, tx) {
  context.stage = "LINEAGE";
  tx.lineage(context.run.run_id, inputItems(context));
  const { sinks = [] } = context.ports.settings;
  const payload = { moves: context.moves, ...(sinks.length ? { sinks } : {}) };
  append(context, tx, ["EXECUTE", "UPSERT", "LINEAGE"], { done: context.tail, payload });
}
