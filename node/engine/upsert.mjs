/** The commit point: refs move here, and only here, in one transaction with everything that proves it. */

import { roundHalfEven } from "../characters.mjs";
import { Denied } from "../errors.mjs";
import { KEEPS_CASE } from "../generated/words.mjs";
import { deletionsAllowed } from "../run_overrides.mjs";
import { DatasetVersion, RefMove, replace } from "../records.mjs";
import { writeManifest } from "./manifest_builder.mjs";
import { outcomeOf, quarantineMoves, zonesIn, zonesOut } from "./receipt_stage.mjs";

export function assemble(context) {
  context.stage = "UPSERT";
  const { plan, run } = context;
  context.ports.progress("commit", 0, 0);
  const ref = `processed/${context.dataset}`;
  const before = context.ports.state.ref(ref);
  const sealed = plan.complete && context.inputs.length > 0 && context.inputs.every((source) => source.complete);
  const [made, tally] = writeManifest(context, before, sealed);
  checkDeletions(context, tally);
  const sum = (of) => context.inputs.reduce((total, source) => total + of(source), 0);
  context.version = DatasetVersion({
    dataset: context.dataset,
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
      sources: context.inputs.length,
      ...namesMark(context, tally, sealed ? "" : before, made.digest),
    },
    deleted: tally.deleted,
    created_at: run.started_at,
    code_hash: run.code_hash,
  });
  context.changes = {
    added: made.entries - (tally.old - tally.deleted),
    changed: tally.superseded,
    removed: tally.deleted,
    keys: made.entries,
  };
  context.moves = zoneMoves(context, ref, before, made.digest);
}

function namesMark({ dataset, ports }, tally, carried, digest) {
  const keeps = (version) => ports.state.datasetVersion(dataset, version)?.validation[KEEPS_CASE] !== undefined;
  if (!tally.capitals && !(carried && keeps(carried))) return {};
  return keeps(digest) || ports.state.datasetVersion(dataset, digest) === null ? { [KEEPS_CASE]: 1 } : {};
}

function zoneMoves(context, ref, before, after) {
  const { state } = context.ports;
  const moves = [];
  context.inputs.forEach((source, i) => {
    const name = `raw/${context.dataset}/${i}`;
    if (state.ref(name) !== source.content_hash && source.content_hash) {
      moves.push(RefMove({ ref: name, before: state.ref(name), after: source.content_hash }));
    }
  });
  moves.push(...quarantineMoves(context));
  if (before !== after) moves.push(RefMove({ ref, before, after }));
  return moves;
}

function checkDeletions(context, tally) {
  const budget = context.ports.settings.deletion_budget;
  if (tally.deleted > Math.max(budget * tally.old, deletionsAllowed(context.trigger))) {
    throw new Denied(
      `this run would delete ${tally.deleted} of ${tally.old} keys of ${context.dataset}, ` +
        `more than the deletion budget of ${roundHalfEven(budget * 100)}%`,
      {
        hint:
          "check the source; if it is right: " +
          `\`kfm run ${context.dataset} --allow-deletions ${tally.deleted} --reason …\``,
      },
    );
  }
}

export function commit(context, work) {
  const answer = context.ports.state.transaction(context.lease, { switches: context.switches }, (tx) => {
    if (context.tailRows.length) tx.objects(context.tailRows);
    const made = work(tx);
    tx.release(context.lease);
    return made;
  });
  context.say("run.committed", {
    status: "succeeded",
    outcome: outcomeOf(context),
    duration_ms: context.elapsedMs(),
    zone_in: zonesIn(context),
    zone_out: zonesOut(context),
  });
  return answer;
}

export function upsert(context, tx) {
  const { run, trigger } = context;
  tx.version(context.version);
  const ts = context.now();
  for (const move of context.moves) {
    tx.move(move, { runId: run.run_id, op: context.updater.op, actor: trigger.actor, reason: trigger.reason, ts });
  }
  context.run = replace(run, { status: "COMMITTED", moves: context.moves, version_digest: context.version.digest });
  tx.saveRun(context.run);
  tx.finishTrigger(trigger, run.run_id);
}
