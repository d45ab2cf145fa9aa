/** The commit point: refs move here, and only here, in one transaction with everything that proves it. */

import { roundHalfEven } from "../characters.mjs";
import { Denied } from "../errors.mjs";
import { deletionsAllowed } from "../run_overrides.mjs";
import { DatasetVersion, RefMove, replace } from "../records.mjs";
import { writeManifest } from "./manifest_builder.mjs";
import { outcomeOf, quarantineMoves, zonesIn, zonesOut } from "./receipt_stage.mjs";

export function assemble(walk) {
  walk.stage = "UPSERT";
  const { plan, run } = walk;
  walk.ports.progress("commit", 0, 0);
  const ref = `processed/${walk.dataset}`;
  const before = walk.ports.state.ref(ref);
  const sealed = plan.complete && walk.inputs.length > 0 && walk.inputs.every((source) => source.complete);
  const [made, tally] = writeManifest(walk, before, sealed);
  checkDeletions(walk, tally);
  const sum = (of) => walk.inputs.reduce((total, source) => total + of(source), 0);
  walk.version = DatasetVersion({
    dataset: walk.dataset,
    digest: made.digest,
    entries: made.entries,
    size: made.size,
    supersedes: before !== made.digest ? before : "",
    run_id: run.run_id,
    updater_id: run.updater_id,
    updater_version: run.updater_version,
    plan_hash: plan.planHash,
    input_hash: run.input_hash,
    metadata: run.metadata,
    validation: {
      rows: sum((source) => source.rows),
      held_rows: sum((source) => source.held_rows),
      contracts: sum((source) => (source.contract_hash ? 1 : 0)),
      sources: walk.inputs.length,
    },
    deleted: tally.deleted,
    created_at: run.started_at,
    code_hash: run.code_hash,
  });
  walk.changes = {
    added: made.entries - (tally.old - tally.deleted),
    changed: tally.superseded,
    removed: tally.deleted,
    keys: made.entries,
  };
  walk.moves = zoneMoves(walk, ref, before, made.digest);
}

function zoneMoves(walk, ref, before, after) {
  const { state } = walk.ports;
  const moves = [];
  walk.inputs.forEach((source, i) => {
    const name = `raw/${walk.dataset}/${i}`;
    if (state.ref(name) !== source.content_hash && source.content_hash) {
      moves.push(RefMove({ ref: name, before: state.ref(name), after: source.content_hash }));
    }
  });
  moves.push(...quarantineMoves(walk));
  if (before !== after) moves.push(RefMove({ ref, before, after }));
  return moves;
}

function checkDeletions(walk, tally) {
  const budget = walk.ports.settings.deletion_budget;
  if (tally.deleted > Math.max(budget * tally.old, deletionsAllowed(walk.trigger))) {
    throw new Denied(
      `this run would delete ${tally.deleted} of ${tally.old} keys of ${walk.dataset}, ` +
        `more than the deletion budget of ${roundHalfEven(budget * 100)}%`,
      {
        hint:
          "check the source; if it is right: " +
          `\`kfm run ${walk.dataset} --allow-deletions ${tally.deleted} --reason …\``,
      },
    );
  }
}

export function commit(walk, work) {
  const answer = walk.ports.state.transaction(walk.lease, { switches: walk.switches }, (tx) => {
    if (walk.tailRows.length) tx.objects(walk.tailRows);
    const made = work(tx);
    tx.release(walk.lease);
    return made;
  });
  walk.say("run.committed", {
    status: "succeeded",
    outcome: outcomeOf(walk),
    duration_ms: walk.elapsedMs(),
    zone_in: zonesIn(walk),
    zone_out: zonesOut(walk),
  });
  return answer;
}

export function upsert(walk, tx) {
  const { run, trigger } = walk;
  tx.version(walk.version);
  const ts = walk.now();
  for (const move of walk.moves) {
    tx.move(move, { runId: run.run_id, op: walk.updater.op, actor: trigger.actor, reason: trigger.reason, ts });
  }
  walk.run = replace(run, { status: "COMMITTED", moves: walk.moves, version_digest: walk.version.digest });
  tx.saveRun(walk.run);
  tx.finishTrigger(trigger, run.run_id);
}
