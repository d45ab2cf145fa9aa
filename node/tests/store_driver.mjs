/**
 * The store at the other end of a pipe: a line of JSON asks, a line of JSON answers. tests/node/store_words.py says
 * the same words to Python's store.
 */

import fs from "node:fs";

import { KfmError } from "../errors.mjs";
import { FileLock } from "../store/locks.mjs";
import { JsonlTables } from "../store/jsonl.mjs";
import { MemoryTables } from "../store/memory.mjs";
import { DryObjects, FileObjects } from "../store/objects.mjs";
import { OverlayTables } from "../store/overlay.mjs";
import { SnapshotTables } from "../store/snapshot.mjs";
import { SqliteTables } from "../store/sqlite.mjs";
import { StoredState, holderIsDead, thisProcess } from "../store/state.mjs";
import { mountOf } from "../store/filesystem_check.mjs";

const open = new Map();
const locks = new Map();
let now = 0;

function tablesOf(kind, name) {
  if (kind === "memory") return new MemoryTables();
  if (kind === "sqlite") return new SqliteTables(name);
  if (kind === "jsonl") return new JsonlTables(name);
  if (kind === "overlay-sqlite") return new OverlayTables(new SnapshotTables(name));
  if (kind === "overlay-jsonl") return new OverlayTables(new JsonlTables(name, undefined, { create: false }));
  throw new Error(`no tables are of the kind ${kind}`);
}

/** As it goes through the pipe: bytes as {"b": base64}. */
function asJson(value) {
  if (Buffer.isBuffer(value)) return { b: value.toString("base64") };
  if (value === undefined) return null;
  if (Array.isArray(value)) return value.map(asJson);
  if (value === null || typeof value !== "object") return value;
  if (typeof value.next === "function") return [...value].map(asJson);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, asJson(item)]));
}

/** The reverse. */
function heard(value) {
  if (Array.isArray(value)) return value.map(heard);
  if (value === null || typeof value !== "object") return value;
  const keys = Object.keys(value);
  if (keys.length === 1 && keys[0] === "b") return Buffer.from(value.b, "base64");
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, heard(item)]));
}

const WORDS = {
  open(name, kind, place) {
    const tables = tablesOf(kind, place);
    const state = new StoredState(tables, () => now);
    const objects = new FileObjects(`${place}.objects`, state);
    open.set(name, { tables, state, objects });
    return tables.repairedBytes ?? 0;
  },
  close(name) {
    const { tables } = open.get(name);
    open.delete(name);
    tables.close();
  },
  now(ms) {
    now = ms;
  },
  tables(name, method, ...given) {
    return open.get(name).tables[method](...given);
  },
  ask(name, method, ...given) {
    return open.get(name).state[method](...given);
  },
  objects(name, method, ...given) {
    return open.get(name).objects[method](...given);
  },
  /** Writes: [method, arguments]; `broken` throws at the end, so that nothing of it may stay. */
  write(name, lease, options, steps, broken) {
    return open.get(name).state.transaction(lease, options, (tx) => {
      const answers = steps.map(([method, given]) => tx[method](...given));
      if (broken) throw new KfmError("left on purpose");
      return answers;
    });
  },
  /** A stream into the store, and back. */
  stream(name, chunks) {
    const { objects } = open.get(name);
    const [digest, size] = objects.putStream(chunks);
    return [digest, size, objects.read(digest).equals(Buffer.concat(chunks))];
  },
  take(name) {
    if (!locks.has(name)) locks.set(name, new FileLock(name));
    return locks.get(name).take();
  },
  release(name) {
    locks.get(name).release();
  },
  everything(name, tables) {
    return Object.fromEntries(tables.map((table) => [table, [...open.get(name).tables.scan(table)]]));
  },
  self() {
    return thisProcess();
  },
  dead(holder) {
    return holderIsDead(holder);
  },
  mount(place, table) {
    return mountOf(place, table);
  },
  dry(name, body) {
    const objects = new DryObjects(open.get(name).objects);
    const digest = objects.put(body);
    return [digest, objects.read(digest), objects.has(digest), open.get(name).objects.has(digest)];
  },
};

function answer(line) {
  const [word, ...given] = heard(JSON.parse(line));
  try {
    return { ok: asJson(WORDS[word](...given)) };
  } catch (problem) {
    if (!(problem instanceof KfmError)) return { bug: problem.stack ?? String(problem) };
    const { code, message, hint, fields, exitCode } = problem;
    return { error: { code, message, hint, fields, exit: exitCode } };
  }
}

let rest = "";
const piece = Buffer.alloc(1 << 16);
for (;;) {
  const count = fs.readSync(0, piece);
  if (count === 0) break;
  rest += piece.toString("latin1", 0, count); // a line is JSON in ASCII
  for (let end; (end = rest.indexOf("\n")) >= 0; rest = rest.slice(end + 1)) {
    fs.writeSync(1, JSON.stringify(answer(rest.slice(0, end))) + "\n");
  }
}
