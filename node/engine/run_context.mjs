/** The shared state of the stages of one run: the ports, and how far the run has come. */

import { rfc3339 } from "../clock.mjs";
import { correlationId, GENESIS } from "../keys.mjs";
import { FetchRequest, replace } from "../records.mjs";

export const INLINE_MAX = 64 * 1024; // objects up to this size live in the state and share its commit

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
    breathe: async () => {}, // lets the process handle signals; throws if it must stop
    ...given,
  };
}

export class RunContext {
  constructor(trigger, updater, ports, startedMs) {
    this.trigger = replace(trigger, { correlation_id: correlationId(trigger) }); // of a run by hand
    this.updater = updater;
    this.ports = ports;
    this.startedMs = startedMs;
    this.stage = "ADMIT";
    this.admission = "fresh";
    this.inputs = [];
    this.contracts = new Map(); // position of an input → its contract
    this.checkpoints = [];
    this.findings = [];
    this.heldReport = ""; // digest of the report on what was quarantined; empty: nothing was
    this.bytesIn = 0;
    this.inputHash = "";
    this.runKey = "";
    this.claimKey = "";
    this.codeChanged = false; // since the version there is now was made, under the same version of the updater
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
    this.version = null;
    this.changes = {}; // as in the receipt
    this.moves = [];
    this.replays = 0;
    this.superseded = []; // [run, note] of those that this one ended
    this.log = ports.log.bind({
      job_type: updater.job_type,
      correlation_id: this.trigger.correlation_id,
      dataset_ids: [this.dataset],
      updater_id: updater.id,
      policy_label: ports.metadata.sensitivity ?? null,
      dry_run: ports.settings.dry_run,
    });
    this.switches = ["switch/global", `switch/dataset/${this.dataset}`]; // those that can stop this run
  }

  get dataset() {
    return this.trigger.dataset;
  }

  say(event, fields) {
    this.log.event(event, fields);
  }

  bind(runId) {
    const { correlation_id } = this.trigger;
    this.log = this.log.bind({ run_id: runId, job_id: this.claimKey.slice(0, 32), correlation_id });
  }

  elapsedMs() {
    return Math.max(0, this.ports.clock.nowMs() - this.startedMs);
  }

  now() {
    return rfc3339(this.ports.clock.nowMs());
  }
}
