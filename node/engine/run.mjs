/** One run from trigger to receipt: its stages in their order. */

import { KfmError } from "../errors.mjs";
import { acquire } from "./acquire.mjs";
import { admit, Duplicate, leave, staysOpen, Stopped } from "./admit.mjs";
import * as heartbeat from "./heartbeat.mjs";
import { measure } from "./telemetry_stage.mjs";
import { checkUnchanged, settlePlan } from "./plan.mjs";
import { fail, record, skip } from "./receipt_stage.mjs";
import { RunContext } from "./run_context.mjs";

/**
 * Runs one trigger and returns its receipt. A failed run has a receipt too.
 *
 * Throws only where no receipt may be written: the disk fails, another worker has the work, a freeze
 * stops it midway, or other code planned it. The run is then left as it is in the journal, to be resumed.
 */
export async function run(trigger, updater, ports) {
  const walk = new RunContext(trigger, updater, ports, ports.clock.nowMs());
  try {
    await acquire(walk);
    const admission = admit(walk);
    if (admission instanceof Duplicate) await checkUnchanged(walk, admission.run);
    if (admission instanceof Duplicate || admission instanceof Stopped) return skip(walk);
    const { assemble, commit, execute, quarantine, trace, upsert } = await import("./work_stages.mjs");
    await quarantine(walk);
    await settlePlan(walk);
    await execute(walk);
    assemble(walk);
    return commit(walk, (tx) => {
      upsert(walk, tx);
      trace(walk, tx);
      measure(walk, tx);
      return record(walk, tx);
    });
  } catch (problem) {
    try {
      if (problem instanceof KfmError && !staysOpen(problem)) return fail(walk, problem);
      throw problem;
    } catch (worse) {
      leave(walk);
      throw worse;
    }
  } finally {
    heartbeat.end(walk);
  }
}
