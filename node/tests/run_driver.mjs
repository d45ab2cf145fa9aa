/** A small world for the engine in memory, and an updater whose plan and steps a test chooses. */

import { Ports, Settings } from "../engine/run_context.mjs";
import { EventLog } from "../log.mjs";
import { Checkpoint, Fetched, FetchRequest, SourceRef, Step } from "../records.mjs";
import { MemoryTables } from "../store/memory.mjs";
import { DryObjects } from "../store/objects.mjs";
import { StoredState } from "../store/state.mjs";
import { asked } from "../triggers.mjs";

/** Thrown in place of a death: nothing that runs afterwards may count. */
export class Died extends Error {}

/** Tables that die at the n-th commit, before or after it took effect, and answer nothing any more. */
export class DyingTables {
  #real;
  #left;
  #before;
  #dead = false;
  commits = 0;

  constructor(real, left, { before = false } = {}) {
    this.#real = real;
    this.#left = left;
    this.#before = before;
  }

  #alive() {
    if (this.#dead) throw new Died();
  }

  get(...asked) {
    this.#alive();
    return this.#real.get(...asked);
  }

  scan(...asked) {
    this.#alive();
    return this.#real.scan(...asked);
  }

  begin(durable) {
    this.#alive();
    this.#real.begin(durable);
  }

  put(...row) {
    this.#real.put(...row);
  }

  putMany(...rows) {
    this.#real.putMany(...rows);
  }

  delete(...row) {
    this.#real.delete(...row);
  }

  commit() {
    this.commits += 1;
    this.#left -= 1;
    if (this.#left > 0) return this.#real.commit();
    this.#dead = true;
    if (this.#before) this.#real.rollback();
    else this.#real.commit();
    throw new Died();
  }

  rollback() {
    if (!this.#dead) this.#real.rollback();
  }

  foreign() {
    return 0;
  }
}

/** Time stands still until someone moves it. */
class FixedClock {
  #nowMs = 1_767_225_600_000;

  nowMs() {
    return this.#nowMs;
  }

  monotonic() {
    return this.#nowMs / 1000;
  }

  advance(ms) {
    this.#nowMs += ms;
  }
}

export class World {
  constructor({ tables = new MemoryTables(), settings = {} } = {}) {
    this.tables = tables;
    this.clock = new FixedClock();
    this.events = [];
    this.log = new EventLog(this.clock, [(line) => this.events.push(line)]);
    this.kept = new DryObjects(null); // objects outlive every death
    this.body = Buffer.from("one\ntwo\n");
    this.settings = settings;
  }

  ports({ tables = this.tables, holder = "here:1:1" } = {}) {
    const state = new StoredState(tables, () => this.clock.nowMs());
    const { kept } = this;
    const objects = {
      put: (body) => kept.put(body),
      putStream: (chunks) => kept.putStream(chunks),
      stage: () => kept.stage(),
      read: (name) => state.inlineObject(name) ?? kept.read(name),
      open: (name) => stream(state.inlineObject(name) ?? kept.read(name)),
      size: (name) => (state.inlineObject(name) ?? kept.read(name)).length,
      has: (name) => state.inlineObject(name) !== null || kept.has(name),
    };
    const source = {
      fetch: async (request, _known, into) => {
        const [name, size] = into.putStream([this.body]);
        const { uri } = request;
        return Fetched({
          ref: SourceRef({ uri, content_hash: name, size, name: request.name }),
          checkpoint: Checkpoint({
            uri, content_hash: name, size, media_type: "", etag: "", last_modified: "", fetched_ms: 0, checked_ms: 0,
          }),
          not_modified: false,
          bytes_on_wire: size,
        });
      },
    };
    return Ports({
      state,
      objects,
      clock: this.clock,
      log: this.log,
      openSource: () => source,
      settings: Settings({ holder, ...this.settings }),
      sources: new Map([["words", [FetchRequest({ uri: "words.txt", name: "words" }), null]]]),
      metadata: { title: "Words", sensitivity: "public" },
    });
  }

  trigger(updater, options = {}) {
    return asked(updater, "words", this.clock, { actor: "tester", ...options });
  }
}

function stream(body) {
  let at = 0;
  return {
    read(count = -1) {
      const start = at;
      at = count < 0 ? body.length : Math.min(body.length, at + count);
      return body.subarray(start, at);
    },
    close() {},
  };
}

/** Steps `step-0` … of which each says its number; `more` replaces any of it. */
export function counting(steps, more = {}) {
  return {
    id: "words",
    version: "1.0.0",
    dataset: "words",
    op: "ingest",
    job_type: "ingest.pull_source",
    slo_target_latency_ms: 900_000,
    performed: [],
    sources: ["words"],
    async prepare() {},
    windowed: () => [],
    plan() {
      const all = Array.from({ length: steps }, (_, n) =>
        Step({ id: `step-${n}`, key: ["part", String(n)], params: { n } }),
      );
      return { steps: all, complete: false };
    },
    perform(step, read) {
      this.performed.push(step.id);
      const body = Buffer.concat([read.open("words").read(1000), Buffer.from(step.id)]);
      return { body, media_type: "text/plain" };
    },
    ...more,
  };
}
