/**
 * Promote, roll back, freeze, thaw: updaters whose plan is a move of a ref, and nothing to perform.
 *
 * They are begun by the Python commands; here they are finished, if one was left unfinished. Twin of
 * src/kfm/operations/moves.py.
 */

import { BadInput, Moved, Refused } from "./errors.mjs";
import { datasetId, isDigest } from "./names.mjs";
import { RefMove, replace, Step } from "./records.mjs";

export const NOTHING = "nothing";

/** Plans one move: from where the ref is to where the input says it shall be. */
class MoveUpdater {
  version = "1.0.0";
  dataset = "";
  moves_only = true;
  slo_target_latency_ms = 900_000;

  inputs(trigger, sources) {
    const aimed = this.aim(trigger, sources);
    const { before } = trigger.params;
    if (before === undefined && trigger.trigger_id) {
      throw new Refused("it is not known any more what this was to move", { hint: "order it anew" });
    }
    if (before !== undefined && before !== (aimed.content_hash || NOTHING)) {
      throw new Moved(`${aimed.name} has moved since this was ordered`, {
        hint: `look at \`kfm refs history ${aimed.name}\`, and order it anew if it is still wanted`,
      });
    }
    return [aimed];
  }

  /** What was ordered is decided when it is ordered: done later, it is this move or none. */
  kept(trigger, [aimed]) {
    const pinned = { before: aimed.content_hash || NOTHING, to: aimed.partition[0] || NOTHING };
    return replace(trigger, { params: { ...trigger.params, ...pinned } });
  }

  plan(inputs) {
    const moved = inputs.filter((ref) => ref.content_hash !== ref.partition[0]);
    return {
      complete: false,
      steps: moved.map((ref) =>
        Step({
          id: `move-${ref.name}`,
          move: RefMove({ ref: ref.name, before: ref.content_hash, after: ref.partition[0] }),
        }),
      ),
    };
  }

  perform() {
    throw new Refused("a move has nothing to perform");
  }
}

/** The ref as an input, with where it shall go as its partition key. */
function aim(ref, target) {
  return replace(ref, { partition: [target] });
}

/** The version at processed/<dataset> becomes the one at published/<dataset>, the same digest. */
export class Promote extends MoveUpdater {
  id = "kfm-promote";
  op = "promote";
  job_type = "operation.promote";

  aim(trigger, sources) {
    const name = datasetId(trigger.dataset);
    const target = trigger.params.to || sources.ref(`processed/${name}`).content_hash;
    if (!target) {
      throw new Refused(`${name} has no processed version to promote`, { hint: `run it first: \`kfm run ${name}\`` });
    }
    checkDigest(target);
    return aim(sources.ref(`published/${name}`), target);
  }
}

/**
 * Undo the last move of a ref, or move it to a version it had before. What a rollback did is never undone by another
 * that names nothing. To `nothing`: withdraw it; that is asked for by name too.
 */
export class Rollback extends MoveUpdater {
  id = "kfm-rollback";
  op = "rollback";
  job_type = "operation.rollback";

  aim(trigger, sources) {
    const name = datasetId(trigger.dataset);
    const ref = trigger.params.ref || `published/${name}`;
    if (ref !== `published/${name}` && ref !== `processed/${name}`) {
      throw new Refused(`${ref} is not a ref of ${name} that can be rolled back`);
    }
    const entries = sources.history(ref);
    if (!entries.length) throw new Refused(`${ref} has no history to go back to`, { hint: "see `kfm refs list`" });
    const last = entries.at(-1);
    if (!trigger.params.to && last.op === this.op) {
      const option = ref.startsWith("published/") ? "" : ` --ref ${ref}`;
      throw new Refused(
        `${ref} was rolled back already, from ${last.before || "nothing"} to ${last.after || "nothing"}`,
        {
          hint:
            `${last.before ? "to go forward again" : "to withdraw it again"}: ` +
            `\`kfm rollback ${name}${option} --to ${last.before.slice(0, 23) || "nothing"}\`; ` +
            `any other version is named with --to as well, see \`kfm refs history ${ref}\``,
        },
      );
    }
    const target = trigger.params.to || last.before;
    if (!target) {
      const withdrawn = entries.some((entry) => entry.before);
      throw new Refused(
        withdrawn ? `${ref} was withdrawn before this version` : `${ref} had no version before this one`,
        {
          hint:
            (withdrawn ? `name the version, see \`kfm refs history ${ref}\`; ` : "") +
            `to withdraw it altogether: \`kfm rollback ${name} --to nothing\``,
        },
      );
    }
    if (target === NOTHING) {
      if (!ref.startsWith("published/")) throw new Refused(`${ref} is not published, so it cannot be withdrawn`);
      return aim(sources.ref(ref), "");
    }
    checkDigest(target);
    if (entries.every((entry) => target !== entry.before && target !== entry.after)) {
      throw new Refused(`${ref} was never at ${target}`, { hint: `see \`kfm refs history ${ref}\`` });
    }
    return aim(sources.ref(ref), target);
  }
}

/** Stop all effects of a dataset, or of everything. */
export class Freeze extends MoveUpdater {
  id = "kfm-freeze";
  op = "freeze";
  job_type = "operation.freeze";
  target = "frozen";

  aim(trigger, sources) {
    const name = trigger.params.scope || trigger.dataset;
    const switched = name === "global" ? "switch/global" : `switch/dataset/${datasetId(name)}`;
    return aim(sources.ref(switched), this.target);
  }
}

export class Thaw extends Freeze {
  id = "kfm-thaw";
  op = "thaw";
  job_type = "operation.thaw";
  target = "open";
}

export const OPERATIONS = { promote: Promote, rollback: Rollback, freeze: Freeze, thaw: Thaw };

function checkDigest(text) {
  if (!isDigest(text)) {
    throw new BadInput("the version is not a digest", { hint: "a digest looks like sha256:<64 hex digits>" });
  }
}
