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
  const context = new RunContext(trigger, updater, ports, ports.clock.nowMs());
  try {
    await acquire(context);
    const admission = admit(context);
    if (admission instanceof Duplicate) await checkUnchanged(context, admission.run);
    if (admission instanceof Duplicate || admission instanceof Stopped) return skip(context);
    const { assemble, commit, execute, quarantine, trace, upsert } = await import("./work_stages.mjs");
    await quarantine(context);
    await settlePlan(context);
    await execute(context);
    assemble(context);
    return commit(context, (tx) => {
      upsert(context, tx);
      trace(context, tx);
      measure(context, tx);
      return record(context, tx);
    });
  } catch (problem) {
    try {
      if (problem instanceof KfmError && !staysOpen(problem)) return fail(context, problem);
      throw problem;
    } catch (worse) {
      leave(context);
      throw worse;
    }
  } finally {
    heartbeat.end(context);
  }
}
