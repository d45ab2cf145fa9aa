/**
 * The state, at the height of intent: claims, leases, refs, receipts, over any Tables. Twin of store/state.py.
 *
 * Every rule that must hold in the same transaction as its effect is here, once: fencing, freezing,
 * compare-and-swap of refs, write-once receipts, the chain of the ledger. A backend only keeps bytes.
 */

import { canonical } from "../canonical.mjs";
import { compare } from "../characters.mjs";
import { Busy, Conflict, Corrupt, Fenced, Frozen, Moved } from "../errors.mjs";
import { GENESIS, digest } from "../keys.mjs";
import { isDigest } from "../names.mjs";
import {
  Checkpoint, DatasetVersion, EndedTrigger, Governed, Lease, LedgerEntry, Receipt, RefEntry, Run,
  RunTelemetry, Segment, SinkPosition, Trigger, replace,
} from "../records.mjs";
import { integer, map } from "../types.mjs";
import { wholeRow } from "./receipt_rows.mjs";
import { ASIDE, asideBody } from "./aside_rows.mjs";
import { madeRow, usedRow } from "./state_formats.mjs";
import { isHeld } from "./process_identity.mjs";
import { decodeRecord } from "./codec.mjs";

export { holderIsDead, thisProcess } from "./process_identity.mjs";

// How often leases or refs were written through these tables, by whichever StoredState stands on them.
const writes = new WeakMap();

const COUNTERS = map(integer);
const padded = (number, width) => String(number).padStart(width, "0");
const asText = (body) => (body === null ? "" : body.toString("utf8"));

export class StoredState {
  #checked = null;
  #placed = null; // when the state was last found to be in force
  #writes;

  constructor(tables, nowMs) {
    this.tables = tables;
    this.nowMs = nowMs;
    this.judgePlace = null; // throws if the state was moved; returns whether that holds until another process writes
    if (!writes.has(tables)) writes.set(tables, { count: 0 });
    this.#writes = writes.get(tables);
  }

  // -- one transaction

  /**
   * Begins, checks the guards, hands `work` what can be written, and ends as one: all of the writes, or none.
   * Returns what `work` returns. With a lease: refused (Fenced) if it was taken over. With switches: Frozen if
   * one is set.
   */
  transaction(lease, { durable = true, switches = [] }, work) {
    this.tables.begin(durable);
    try {
      if (this.judgePlace !== null) this.#checkPlace();
      if (lease !== null || switches.length) this.check(lease, switches);
    } catch (problem) {
      this.tables.rollback();
      throw problem;
    }
    let answer;
    try {
      const tx = new StoredTx(this, this.nowMs);
      answer = work(tx);
      if (typeof answer?.then === "function") throw new TypeError("a transaction waits for nothing");
      tx.flush();
    } catch (problem) {
      this.recheck();
      this.tables.rollback();
      throw problem;
    }
    this.tables.commit();
    return answer;
  }

  #checkPlace() {
    const foreign = this.tables.foreign();
    if (foreign !== this.#placed && this.judgePlace()) this.#placed = foreign;
  }

  check(lease, switches) {
    const asked = JSON.stringify([lease, switches, this.tables.foreign(), this.#writes.count]);
    if (asked === this.#checked) return;
    this.#checked = null;
    if (lease !== null) this.#checkFence(lease);
    for (const name of switches) {
      const value = this.ref(name);
      // whatever is not plainly open is frozen
      if (value !== "" && value !== "open") {
        const spoken = name.replace(/^switch\/(dataset\/)?/, "");
        const thaw = name === "switch/global" ? "kfm thaw --reason …" : `kfm thaw ${spoken} --reason …`;
        throw new Frozen(`${spoken} is frozen`, { hint: `see \`kfm refs history ${name}\`; \`${thaw}\` opens it` });
      }
    }
    this.#checked = asked;
  }

  /** Leases or refs are being written: what anyone checked before no longer counts. */
  recheck() {
    this.#writes.count += 1;
  }

  #checkFence(lease) {
    const current = this.lease(lease.scope);
    // The holder as well: a token handed out in a transaction that was rolled back is handed out again.
    if (current === null || current.token !== lease.token || current.holder !== lease.holder) {
      throw new Fenced(`the lease on ${lease.scope} was taken over by another worker`, {
        hint: "nothing was written; the other worker carries on",
        token: lease.token,
      });
    }
  }

  sync() {
    this.transaction(null, {}, (tx) => tx.touch());
  }

  // -- leases

  lease(scope) {
    return this.#one("leases", scope, Lease);
  }

  acquire(scope, holder, ttlMs) {
    return this.transaction(null, { durable: false }, (tx) => tx.acquire(scope, holder, ttlMs));
  }

  release(lease) {
    this.transaction(null, { durable: false }, (tx) => tx.release(lease));
  }

  // -- reading

  #one(table, key, kind) {
    const body = this.tables.get(table, key);
    return body === null ? null : decodeRecord(body, kind, `${table}/${key}`);
  }

  *#many(table, kind, prefix = "", { reverse = false, limit = -1 } = {}) {
    for (const [key, body] of this.tables.scan(table, prefix, { reverse, limit })) {
      yield decodeRecord(body, kind, `${table}/${key}`);
    }
  }

  meta(key) {
    return asText(this.tables.get("meta", key));
  }

  counters() {
    const body = this.tables.get("meta", "counters");
    return body === null ? {} : decodeRecord(body, COUNTERS, "meta/counters");
  }

  run(runId) {
    return this.#one("runs", runId, Run);
  }

  /** Runs of a dataset that were claimed and have not ended. */
  *openRuns(dataset) {
    for (const [key] of [...this.tables.scan("open_runs", `${dataset}/`)]) {
      const run = this.run(key.slice(key.lastIndexOf("/") + 1));
      if (run !== null) yield run;
    }
  }

  claimed(claimKey) {
    const runId = this.tables.get("claims", claimKey);
    return runId === null ? null : this.run(asText(runId));
  }

  *segments(runId) {
    let previous = GENESIS;
    let expected = 0;
    for (const [key, body] of this.tables.scan("segments", `${runId}/`)) {
      const segment = decodeRecord(body, Segment, `segments/${key}`);
      if (segment.n !== expected || segment.prev !== previous) {
        throw new Corrupt(`record ${expected} of the journal of run ${runId} is missing or altered`, {
          hint: "restore the state from a copy; nothing was replayed",
          record: expected,
        });
      }
      previous = digest(body);
      yield [segment, previous];
      expected += 1;
    }
  }

  *planChunks(planHash) {
    for (const [, body] of this.tables.scan("plans", planHash + "/")) yield body;
  }

  lockedPlan(lockKey) {
    const body = this.tables.get("plan_locks", lockKey);
    return body === null ? null : asText(body);
  }

  ref(name) {
    return asText(this.tables.get("refs", name));
  }

  history(name, { reverse = false, limit = -1 } = {}) {
    return this.#many("history", RefEntry, name + "@", { reverse, limit });
  }

  datasetVersion(dataset, version) {
    return this.#one("versions", `${dataset}@${version}`, DatasetVersion);
  }

  receipt(runId) {
    const body = this.receiptBody(runId);
    return body === null ? null : decodeRecord(body, Receipt, `receipts/${runId}`);
  }

  receiptBody(runId) {
    return wholeRow(this.tables, "receipts", this.tables.get("receipts", runId));
  }

  telemetry(runId) {
    const body = wholeRow(this.tables, "telemetry", this.tables.get("telemetry", runId));
    return body === null ? null : decodeRecord(body, RunTelemetry, `telemetry/${runId}`);
  }

  *ledger({ after = 0, reverse = false, limit = -1 } = {}) {
    const start = after ? padded(after, 12) : "";
    for (const [key, body] of this.tables.scan("ledger", "", { after: start, reverse, limit })) {
      yield decodeRecord(body, LedgerEntry, `ledger/${key}`);
    }
  }

  cursor(sink) {
    return Number(this.meta(`cursor/${sink}`) || 0);
  }

  *due(sink) {
    for (const [key] of this.tables.scan("outbox", `due/${sink}/`)) yield key.slice(key.lastIndexOf("/") + 1);
  }

  told(sink, dataset) {
    return this.#one("outbox", `told/${sink}/${dataset}`, SinkPosition);
  }

  acknowledge(sink, told) {
    this.transaction(null, { durable: false }, (tx) => {
      for (const [dataset, howFar] of told) tx.told(howFar, sink, dataset);
    });
  }

  /** The triggers of a dataset that wait, in the order in which they came. */
  inbox(dataset) {
    return this.#many("inbox", Trigger, `${dataset}/`);
  }

  keptTrigger(trigger) {
    return this.#one("inbox", `${trigger.dataset}/${trigger.trigger_id}`, Trigger);
  }

  checkpoint(uri) {
    return this.#one("checkpoints", uri, Checkpoint);
  }

  inlineObject(name) {
    return this.tables.get("objects", name);
  }

  asideObject(name) {
    const row = this.tables.get("objects", `${ASIDE}/${name}`);
    return row === null ? null : { body: asideBody(row) };
  }

  close() {
    this.tables.close();
  }
}

export class StoredTx {
  #state;
  #tables;
  #nowMs;
  #counters = null;

  constructor(state, nowMs) {
    this.#state = state;
    this.#tables = state.tables;
    this.#nowMs = nowMs;
  }

  #put(table, key, body) {
    this.#tables.put(table, key, body);
  }

  #next(counter) {
    this.#counters ??= this.#state.counters();
    this.#counters[counter] = (this.#counters[counter] ?? 0) + 1;
    return this.#counters[counter];
  }

  flush() {
    if (this.#counters !== null) this.#put("meta", "counters", canonical(this.#counters));
  }

  touch() {
    this.#put("meta", "synced", Buffer.alloc(0));
  }

  // -- runs

  claim(run) {
    const latest = this.#state.claimed(run.claim_key);
    if ((latest?.n ?? -1) !== run.n - 1 || latest?.status === "RUNNING") {
      throw new Conflict("another worker claimed the same work", { hint: "run the command again", run_id: run.run_id });
    }
    this.#put("claims", run.claim_key, Buffer.from(run.run_id));
    this.#put("open_runs", `${run.dataset}/${run.run_id}`, Buffer.from("{}"));
    this.saveRun(run);
  }

  saveRun(run) {
    if (run.status !== "RUNNING") this.#tables.delete("open_runs", `${run.dataset}/${run.run_id}`);
    this.#put("runs", run.run_id, canonical(run));
  }

  /**
   * Append to a run's journal; returns the digest the next segment must name. Write once: the same bytes
   * again are the same segment, and other bytes under its number are corruption.
   */
  segment(runId, segment) {
    const body = canonical(segment);
    const key = `${runId}/${padded(segment.n, 8)}`;
    const before = this.#tables.get("segments", key);
    if (before === null) this.#put("segments", key, body);
    else if (!body.equals(before)) throw otherBytes(runId, segment.n);
    return digest(body);
  }

  planChunk(planHash, n, body) {
    this.#put("plans", `${planHash}/${padded(n, 8)}`, body);
  }

  lockPlan(lockKey, planHash) {
    this.#put("plan_locks", lockKey, Buffer.from(planHash));
  }

  unlockPlan(lockKey) {
    this.#tables.delete("plan_locks", lockKey);
  }

  objects(rows) {
    // in the order of the table: neighbours share pages
    this.#tables.putMany("objects", [...rows].sort((one, two) => compare(one[0], two[0])));
  }

  // -- leases

  acquire(scope, holder, ttlMs) {
    const now = this.#nowMs();
    const parts = [...this.#tables.scan("leases", `${scope}/`)].map(([key]) => this.#state.lease(key));
    const current = [this.#state.lease(scope), ...parts].find((lease) => lease !== null && isHeld(lease, now));
    if (current !== undefined) {
      const left = current.expires_ms - now;
      const seconds = Math.floor((Math.min(left, current.ttl_ms || left) + 999) / 1000);
      const slash = scope.indexOf("/");
      const dataset = scope.slice(slash + 1);
      const work = scope.slice(0, slash) === dataset ? dataset : scope; // most updaters are named for their dataset
      throw new Busy(`another worker is at work on ${work} (its lease ends in ${seconds} s)`, {
        hint: "wait for it, or stop it and try again",
      });
    }
    this.#state.recheck();
    for (const part of parts) this.#tables.delete("leases", part.scope); // fences off who held it
    const lease = Lease({ scope, token: this.#next("token"), holder, expires_ms: now + ttlMs, ttl_ms: ttlMs });
    this.#put("leases", scope, canonical(lease));
    return lease;
  }

  renew(lease, ttlMs) {
    const current = this.#state.lease(lease.scope);
    if (current !== null && current.expires_ms) {
      this.#put("leases", lease.scope, canonical(replace(current, { expires_ms: this.#nowMs() + ttlMs, ttl_ms: ttlMs })));
    }
  }

  release(lease) {
    this.#state.recheck();
    const current = this.#state.lease(lease.scope);
    if (current !== null && current.token === lease.token) {
      this.#put("leases", lease.scope, canonical(replace(current, { expires_ms: 0 })));
    }
  }

  // -- the commit

  move(move, { runId, op, actor, reason, ts }) {
    this.#state.recheck();
    const current = this.#state.ref(move.ref);
    if (current !== move.before) {
      throw new Moved(`${move.ref} is at ${current || "nothing"}, not at ${move.before || "nothing"} as planned`, {
        hint: "another run moved it: run the command again",
      });
    }
    if (move.after) this.#put("refs", move.ref, Buffer.from(move.after));
    else this.#tables.delete("refs", move.ref);
    const last = this.#tables.scan("history", move.ref + "@", { reverse: true, limit: 1 }).next().value;
    const n = last ? Number(last[0].slice(last[0].lastIndexOf("@") + 1)) + 1 : 1;
    const { ref, before, after } = move;
    const entry = RefEntry({ ref, n, before, after, run_id: runId, op, actor, reason, ts });
    this.#put("history", `${ref}@${padded(n, 10)}`, canonical(entry));
  }

  /** The first maker of a version stays its maker: a version never changes. */
  version(version) {
    const key = `${version.dataset}@${version.digest}`;
    const body = this.#tables.get("versions", key);
    const first = body === null ? null : decodeRecord(body, DatasetVersion, `versions/${key}`);
    const { validation, run_id: validated_by, code_hash } = version;
    if (first && first.run_id !== version.run_id) this.#put("lineage", ...madeRow(this.nextIndex(), version.run_id, key));
    const known = first && replace(first, { validation, validated_by, code_hash });
    this.#put("versions", key, canonical(known ?? version));
  }

  receipt(receipt, { op, sinks = [] }) {
    const body = canonical(receipt);
    const before = wholeRow(this.#tables, "receipts", this.#tables.get("receipts", receipt.run_id));
    if (before?.equals(body)) return;
    const hint = "receipts are never rewritten; report this as a bug";
    if (before) throw new Corrupt(`run ${receipt.run_id} already has another receipt`, { hint });
    this.#put("receipts", receipt.run_id, body);
    const index = this.#next("ledger");
    const lineage = receipt.inputs.map(({ checksum }) => checksum).filter(isDigest);
    const findings = receipt.errors.map(({ code }) => code);
    const link = canonical(LedgerEntry({
      index,
      prev: this.#state.meta("ledger_head") || GENESIS,
      op_type: op,
      run_id: receipt.run_id,
      wal_ids: receipt.plan_hash ? [receipt.run_id] : [],
      dataset: receipt.dataset,
      outcome: receipt.outcome,
      reason: receipt.reason,
      operator: receipt.actor,
      receipt_digest: digest(body),
      moves: receipt.moves,
      ts: receipt.finished_at,
      overrides: receipt.overrides,
      governed: Governed({ lineage, findings, care: "open", review: "none", withheld: [] }), // without labels and gates
    }));
    this.#put("ledger", padded(index, 12), link);
    this.#put("ended_runs", `${receipt.dataset}/${padded(index, 12)}`, Buffer.from("{}"));
    this.#put("meta", "ledger_head", Buffer.from(digest(link)));
    if (!sinks.length) return;
    const { run_id, dataset, finished_at: since } = receipt;
    const pending = { index, run_id, dataset, receipt: digest(body), sinks, since, followed: [] };
    this.#put("outbox", `pending/${padded(index, 12)}`, canonical(pending));
  }

  lineage(runId, inputs) {
    for (const item of inputs) this.#put("lineage", ...usedRow(this.nextIndex(), runId, item));
  }

  nextIndex() {
    this.#counters ??= this.#state.counters();
    return (this.#counters.ledger ?? 0) + 1;
  }

  telemetry(telemetry) {
    this.#put("telemetry", telemetry.run_id, canonical(telemetry));
  }

  // -- outbox, inbox, checkpoints

  /** Only ever forward: a slow process must not undo what a faster one has noted. */
  advance(sink, index) {
    if (index > this.#state.cursor(sink)) this.#put("meta", `cursor/${sink}`, Buffer.from(String(index)));
  }

  owe(sink, dataset) {
    this.#put("outbox", `due/${sink}/${dataset}`, Buffer.from("{}"));
  }

  told(told, sink, dataset) {
    const known = this.#state.told(sink, dataset);
    if (known === null || known.moves < told.moves || (known.moves === told.moves && known.keep !== told.keep)) {
      this.#put("outbox", `told/${sink}/${dataset}`, canonical(told));
    }
    const [last] = this.#state.history(`published/${dataset}`, { reverse: true, limit: 1 });
    if (last === undefined || last.n <= told.moves) this.#tables.delete("outbox", `due/${sink}/${dataset}`);
  }

  checkpoint(checkpoint) {
    this.#put("checkpoints", checkpoint.uri, canonical(checkpoint));
  }

  keepTrigger(trigger) {
    const kept = trigger.trigger_id ? trigger : replace(trigger, { trigger_id: padded(this.#next("trigger"), 12) });
    this.#put("inbox", `${kept.dataset}/${kept.trigger_id}`, canonical(kept));
    return kept;
  }

  finishTrigger(answered, runId) {
    const trigger = answered.trigger_id ? this.#state.keptTrigger(answered) : null;
    if (trigger === null) return;
    this.#tables.delete("inbox", `${trigger.dataset}/${trigger.trigger_id}`);
    this.#put("triggers", trigger.trigger_id, canonical(EndedTrigger({ trigger, run_id: runId })));
  }
}

function otherBytes(runId, n) {
  return new Corrupt(`record ${n} of the journal of run ${runId} is already stored with other bytes`, {
    hint: "restore the state from a copy; nothing was written",
    record: n,
  });
}
