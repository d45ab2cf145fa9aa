/** What the stations of one run share: the ports they are handed, and how far the run has come. */

import { rfc3339 } from "../clock.mjs";
import { Conflict } from "../errors.mjs";
import { GENESIS } from "../keys.mjs";
import { FetchRequest } from "../records.mjs";

/** What an installation may tune. */
export function Settings(given = {}) {
  return {
    threads: 4, // of the Python runner; here steps run one after another
    window: 4096, // most steps in flight at once: what a crash can leave in doubt
    lease_ms: 60_000,
    deletion_budget: 0.1, // share of a version's keys that one run may delete
    holder: "", // who we are, to other workers
    dry_run: false,
    ...given,
  };
}

/** The world, as this run may see it. `sources` is a Map of name → [FetchRequest, DataContract or null]. */
export function Ports(given) {
  return {
    settings: Settings(),
    sources: new Map(),
    request: FetchRequest({ uri: "" }), // limits for sources without a name
    metadata: {},
    progress: () => {},
    breathe: async () => {}, // lets the process hear its signals; throws if it was told to stop
    ...given,
  };
}

/** A plan that was made twice, alike, and is in the journal or about to be. */
export class SettledPlan {
  constructor({ planHash, steps, complete, hasNeeds, chunks, batches = null, hasMoves = false }) {
    this.planHash = planHash;
    this.steps = steps;
    this.complete = complete;
    this.hasNeeds = hasNeeds;
    this.chunks = chunks; // its bytes, while it is small enough to keep; else null
    this.batches = batches; // its steps, likewise
    this.hasMoves = hasMoves;
  }

  /** Its steps, a batch at a time: from memory, or from the journal. */
  *each(state) {
    if (this.batches !== null) {
      yield* this.batches;
      return;
    }
    let first = true;
    for (const body of this.chunks ?? state.planChunks(this.planHash)) {
      // Our own canonical lines: they were checked when they were made. The first one is the header.
      const lines = (first ? body.subarray(body.indexOf(10) + 1) : body).toString("utf8").split("\n");
      lines.pop();
      first = false;
      yield lines.map((line) => JSON.parse(line));
    }
  }
}

/** Freeze and thaw work the switches. A withdrawal only takes away: what must not be public goes, frozen or not. */
function heedsNoSwitch(updater, trigger) {
  return ["freeze", "thaw"].includes(updater.op) || (updater.op === "rollback" && trigger.params.to === "nothing");
}

/** Plainly so: of anything else no name, key or message is told that may have been made from data. */
export function isPublic(walk) {
  return walk.ports.metadata.sensitivity === "public";
}

/** The progress of one run. */
export class Walk {
  constructor(trigger, updater, ports, startedMs, unfinished = null) {
    this.trigger = trigger;
    this.updater = updater;
    this.ports = ports;
    this.startedMs = startedMs;
    this.unfinished = unfinished; // the run this one takes up again
    this.stage = "ADMIT";
    this.admission = "fresh";
    this.inputs = [];
    this.contracts = new Map(); // position of an input → its contract
    this.checkpoints = [];
    this.findings = [];
    this.heldReport = ""; // digest of the report on what was held back; empty: nothing was
    this.bytesIn = 0;
    this.inputHash = "";
    this.runKey = "";
    this.claimKey = "";
    this.run = null;
    this.lease = null;
    this.renewedMs = 0;
    this.beating = false; // whether the lease is renewed while we work
    this.plan = null;
    this.segments = 0;
    this.lastSegment = GENESIS;
    this.results = null;
    this.tail = []; // the last finished steps: the commit itself writes their DONE
    this.tailRows = [];
    this.carried = []; // finished by the run this one continues, not journaled yet
    this.stepMoves = [];
    this.version = null;
    this.moves = [];
    this.decisions = [];
    this.replays = 0;
    this.log = ports.log.bind({
      job_type: updater.job_type,
      correlation_id: trigger.trigger_id || null,
      dataset_ids: [this.dataset],
      updater_id: updater.id,
      policy_label: ports.metadata.sensitivity ?? null,
      dry_run: ports.settings.dry_run,
    });
    // The switches that can stop this run.
    this.switches = heedsNoSwitch(updater, trigger) ? [] : ["switch/global", `switch/dataset/${this.dataset}`];
  }

  get dataset() {
    return this.trigger.dataset;
  }

  /** One line of the event log, with what the run is about on it. */
  say(event, fields) {
    this.log.event(event, fields);
  }

  /** From here on every line names the run. */
  bind(runId) {
    this.log = this.log.bind({ run_id: runId, job_id: this.claimKey.slice(0, 32) });
  }

  /**
   * Inside a transaction: is the unfinished run, or the kept trigger, that we took up still to be done?
   *
   * Once it has ended it must not be done again: what it did may have been undone since, on purpose. Nor
   * may a trigger be ended while a run of it is open; who claims it needs the lease, and learns it there.
   */
  checkWanted({ claiming = false } = {}) {
    const { state } = this.ports;
    const triggerId = this.trigger.trigger_id;
    let wanted;
    if (this.unfinished !== null) {
      wanted = state.run(this.unfinished.run_id)?.status === "RUNNING";
    } else {
      wanted = !triggerId || state.keptTrigger(triggerId) !== null;
    }
    if (!wanted) throw new Conflict("another worker has ended this work meanwhile", { hint: "nothing is left to do" });
    if (!triggerId || this.unfinished !== null || claiming) return;
    for (const run of state.openRuns()) {
      if (run.trigger.trigger_id === triggerId) {
        throw new Conflict(`run ${run.run_id} is at this work already`, { hint: "wait for it, or `kfm resume`" });
      }
    }
  }

  elapsedMs() {
    return Math.max(0, this.ports.clock.nowMs() - this.startedMs);
  }

  now() {
    return rfc3339(this.ports.clock.nowMs());
  }
}
