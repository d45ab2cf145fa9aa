/**
 * Performs the steps: intent durable first, then the effect, then DONE, sharing as few syncs as can be.
 *
 * Each durable write says which steps are done and which are about to begin; steps by the hundred share one.
 * Small outputs are rows of the same transaction as their DONE. Outputs are immutable and named by their digest, so
 * performing a step a second time after a crash changes nothing.
 *
 * The Python runner shares a window among threads; here its steps run one after another. Which steps share
 * a write may therefore differ between the two, as it does between two runs of either; what a run leaves
 * behind besides its journal does not.
 */

import { createHash } from "node:crypto";

import { Broken, KfmError } from "../errors.mjs";
import { checkEmptied } from "./empty_outputs.mjs";
import { beat } from "./heartbeat.mjs";
import { append, writePlan } from "./plan.mjs";
import { Results } from "./step_results.mjs";
import { INLINE_MAX } from "./run_context.mjs";

const REMEMBERED = 4096; // digests of small outputs
const FLUSH_S = 0.25; // finished steps wait at most about this long for their DONE while others still run
const BRISK_S = 0.1; // a full window that takes less than this lets the next one be larger
const FIRST_WINDOW = 512;
const MOST_READ = 1 << 20; // bytes of a document that is read for what it says of itself
const CLOSING = ["UPSERT", "LINEAGE"]; // what the commit does
const CARRIED = 4096; // finished steps of an earlier run in one segment

export async function execute(context) {
  context.stage = "EXECUTE";
  context.results = new Results(context.plan.steps);
  const planned = context.admission === "resume" ? replay(context, context.results) : false;
  if (!planned) carryOver(context, context.results);
  const { StepReader } = await import("./step_reader.mjs"); // only where there is something to do: it is not free to load
  await context.updater.prepare();
  const { readFrom } = await import("./output_description.mjs");
  const crew = new Crew(context, new StepReader(context), readFrom);
  context.tail = await workOff(context, crew, planned);
  context.tailRows = crew.takeRows();
}

async function workOff(context, crew, planned) {
  let finished = [];
  const { results } = context;
  const { clock, settings } = context.ports;
  const left = undone(context.plan, results);
  const largest = settings.window;
  let window = Math.min(FIRST_WINDOW, largest);
  while (true) {
    const batch = next(left, window - crew.inFlight);
    if (!batch.length && !crew.inFlight) break;
    if (batch.length || finished.length) {
      // The last steps of all get their DONE from the commit itself, one sync less.
      write(context, crew, finished, batch, !planned);
      planned = true;
    }
    const begun = clock.monotonic();
    finished = await crew.perform(batch);
    if (batch.length === window && window < largest && clock.monotonic() - begun < BRISK_S) {
      window = Math.min(2 * window, largest);
    }
    results.add(finished);
    if (crew.failures.length) giveUp(context, crew, finished);
    context.ports.progress("execute", results.done, results.steps);
  }
  if (!planned) {
    // a plan without steps to perform
    context.ports.state.transaction(context.lease, { switches: context.switches }, (tx) => {
      appendPlan(context, tx, ["PLAN"], [], CLOSING);
    });
  }
  return finished;
}

function carryOver(context, results) {
  const { continues } = context.run;
  if (!continues) return;
  const kept = new Map();
  for (const [segment] of context.ports.state.segments(continues)) {
    if (segment.plan_hash !== context.plan.planHash) continue;
    for (const done of segment.done) kept.set(done[0], done);
    for (const [at, said] of segment.described) results.described.set(at, said);
  }
  const { objects } = context.ports;
  context.carried = [...kept.values()].sort((a, b) => a[0] - b[0]).filter(([, name]) => objects.has(name));
  results.add(context.carried);
  context.say("run.continued", { continues, steps: context.carried.length });
}

function appendPlan(context, tx, phases, intent, then) {
  const payload = writePlan(context, tx);
  const { carried } = context;
  context.carried = [];
  let at = 0;
  for (; carried.length - at > CARRIED; at += CARRIED) {
    // a large plan is cut as its windows were
    const done = carried.slice(at, at + CARRIED);
    append(context, tx, at ? ["EXECUTE"] : phases, { done, payload: at ? {} : payload });
  }
  append(context, tx, at ? ["EXECUTE"] : phases, { done: carried.slice(at), intent, payload: at ? {} : payload, then });
}

function replay(context, results) {
  for (const [segment, name] of context.ports.state.segments(context.run.run_id)) {
    results.add(segment.done);
    for (const [at, said] of segment.described) results.described.set(at, said);
    context.segments = segment.n + 1;
    context.lastSegment = name;
  }
  return context.segments > 0;
}

function write(context, crew, finished, batch, planRecord) {
  const { clock, settings, state } = context.ports;
  state.transaction(context.lease, { switches: context.switches }, (tx) => {
    const rows = crew.takeRows();
    if (rows.length) tx.objects(rows);
    const last = batch.length && context.results.done + crew.inFlight + batch.length === context.results.steps;
    const [intent, then] = [ranges(batch), last ? CLOSING : []];
    if (planRecord) appendPlan(context, tx, ["PLAN", "EXECUTE"], intent, then);
    else append(context, tx, ["EXECUTE"], { done: finished, intent, then });
    const now = clock.nowMs();
    if (now - context.renewedMs > Math.floor(settings.lease_ms / 3)) {
      tx.renew(context.lease, settings.lease_ms);
      context.renewedMs = now;
    }
  });
}

function giveUp(context, crew, finished) {
  const failures = crew.failures.sort((a, b) => a[0] - b[0]);
  for (const [, problem] of failures) if (problem instanceof Broken) throw problem;
  context.ports.state.transaction(context.lease, {}, (tx) => {
    tx.objects(crew.takeRows());
    const failed = failures.map(([position, problem]) => [position, problem.code]);
    append(context, tx, ["EXECUTE"], { done: finished, failed });
  });
  throw failures[0][1];
}

export function ranges(batch) {
  const found = [];
  let start = -1;
  let end = -1;
  for (const [position] of batch) {
    if (position !== end) {
      if (end >= 0) found.push([start, end]);
      start = position;
    }
    end = position + 1;
  }
  if (end >= 0) found.push([start, end]);
  return found;
}

/** The next steps that are left to be done, at most so many, each with its position. */
function next(left, room) {
  const batch = [];
  for (let one; batch.length < room && !(one = left.next()).done; ) batch.push(one.value);
  return batch;
}

function* undone(plan, results) {
  for (const [position, step] of plan.all.entries()) if (!results.isDone(position)) yield [position, step];
}

/** Who performs: this process, a step after the other. */
class Crew {
  #context;
  #reader;
  #readFrom;
  #todo = [];
  #rows = [];
  #given = new Set(); // digests among the rows, and among those taken not long before

  constructor(context, reader, readFrom) {
    this.#context = context;
    this.#reader = reader;
    this.#readFrom = readFrom;
    this.failures = [];
    this.inFlight = 0;
  }

  takeRows() {
    const rows = this.#rows;
    this.#rows = [];
    return rows;
  }

  /** Begin these; return what is finished, at the latest when all is, or after a short while if some is. */
  async perform(batch) {
    const { breathe, clock, settings } = this.#context.ports;
    const flushes = settings.threads > 1; // one thread in Python works off its whole window, too
    this.#todo.push(...batch);
    this.inFlight += batch.length;
    if (this.#given.size > REMEMBERED) this.#given.clear();
    const finished = [];
    await breathe();
    const begun = clock.monotonic();
    let at = 0;
    for (; at < this.#todo.length && !this.failures.length; at += 1) {
      beat(this.#context);
      this.#one(...this.#todo[at], finished);
      if (flushes && clock.monotonic() - begun > FLUSH_S && at + 1 < this.#todo.length) {
        at += 1;
        break;
      }
    }
    this.#todo.splice(0, at);
    this.inFlight -= finished.length;
    return finished;
  }

  #one(position, step, finished) {
    try {
      const { body, media_type: mediaType, rows } = this.#context.updater.perform(step, this.#reader);
      if (rows === 0) checkEmptied(this.#context, step, INLINE_MAX);
      const describes = mediaType.split(";")[0].trim() === "application/geo+json";
      if (Buffer.isBuffer(body) && body.length <= INLINE_MAX) {
        if (describes) this.#say(position, body);
        const digest = `sha256:${createHash("sha256").update(body).digest("hex")}`;
        // Many steps may give the same bytes: one row is enough.
        if (!this.#given.has(digest)) this.#rows.push([digest, body]);
        this.#given.add(digest);
        finished.push([position, digest, body.length, mediaType]);
      } else {
        const [digest, size] = this.#store(position, body, describes);
        finished.push([position, digest, size, mediaType]);
      }
    } catch (problem) {
      if (!(problem instanceof KfmError)) throw problem;
      this.failures.push([position, problem]);
    }
  }

  *#pieces(body) {
    for (const piece of Buffer.isBuffer(body) ? [body] : body) {
      beat(this.#context);
      yield piece;
    }
  }

  #store(position, body, describes) {
    const { objects } = this.#context.ports;
    const [digest, size] = objects.putStream(this.#pieces(body));
    const kept = [];
    const file = objects.open(digest);
    try {
      for (let piece; (piece = file.read(1 << 20)).length; ) {
        beat(this.#context);
        if (describes && size <= MOST_READ) kept.push(piece);
      }
    } finally {
      file.close();
    }
    if (kept.length) this.#say(position, Buffer.concat(kept));
    return [digest, size];
  }

  #say(position, body) {
    const said = this.#readFrom(body);
    if (Object.keys(said).length) this.#context.results.described.set(position, said);
  }
}
