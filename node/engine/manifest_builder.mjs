/** The entries a run has made, sorted by key, and the version they give together with the version before. */

import { canonicalText } from "../canonical.mjs";
import { compare } from "../characters.mjs";
import { Refused } from "../errors.mjs";
import { digest } from "../keys.mjs";
import { closes, entryLines, LEAST, MOST, partsOf, WHOLE } from "../manifests.mjs";
import { beat } from "./heartbeat.mjs";
import { INLINE_MAX } from "./run_context.mjs";

const FLUSH = 4 << 20; // bytes of parts that wait in memory for the commit

export class Tally {
  old = 0;
  deleted = 0;
  superseded = 0;
  capitals = false;
}

/**
 * The manifest of the new version as {digest, entries, size}, and what became of the old entries. It is stored, or
 * will be with the commit: parts that the version before has are not written again. All its entries are read.
 */
export function writeManifest(context, before, sealed) {
  const tally = new Tally();
  const added = distinct(newEntries(context), tally);
  const lines = before ? merged(oldEntries(context, before), added, sealed, tally) : added;
  const shelf = new Shelf(context, before);
  const made = plant(shelf, lines);
  context.tailRows.push(...shelf.rows);
  return [made, tally];
}

/** The tree of these lines, each as [key, text, entries, size], sorted by key. */
export function plant(shelf, lines) {
  const whole = []; // the texts, while they are few enough to be one object
  let parts = [...cut(shelf, 0, lines, whole)];
  const [entries, size] = [sum(parts, 2), sum(parts, 3)];
  if (entries <= WHOLE) {
    shelf.rows = [];
    return { digest: shelf.put(Buffer.from(whole.join(""))), entries, size };
  }
  for (let level = 1; parts.length > 1; level += 1) parts = [...cut(shelf, level, parts, [])];
  return { digest: parts[0][4], entries, size };
}

const sum = (lines, at) => lines.reduce((total, line) => total + line[at], 0);

/** Cuts the lines of one level into parts; yields the lines that name them, each with its digest. */
function* cut(shelf, level, lines, whole) {
  let held = [];
  const close = () => {
    const name = shelf.put(Buffer.from(held.map((line) => line[1]).join("")));
    const [key, entries, size] = [held.at(-1)[0], sum(held, 2), sum(held, 3)];
    held = [];
    const named = `"digest":"${name}","entries":${entries},"key":${JSON.stringify(key)},"size":${size}`;
    return [key, `{"depth":${level},${named}}\n`, entries, size, name];
  };
  for (const line of lines) {
    held.push(line);
    if (whole.length <= WHOLE) whole.push(line[1]);
    if (held.length >= LEAST && (held.length >= MOST || closes(line[0], level))) yield close();
  }
  if (held.length) yield close();
}

/** Where new parts lie: small ones wait for the commit, large ones are files at once. */
class Shelf {
  rows = [];
  #context;
  #known;
  #waiting = 0;

  constructor(context, before) {
    this.#context = context;
    this.#known = new Set(before ? [...partsOf(context.ports.objects, before)].map(([name]) => name) : []);
  }

  put(body) {
    const { objects, state } = this.#context.ports;
    beat(this.#context);
    const name = digest(body);
    if (this.#known.has(name)) return name;
    if (body.length > INLINE_MAX) return objects.put(body);
    this.rows.push([name, body]);
    this.#waiting += body.length;
    if (this.#waiting > FLUSH) {
      state.transaction(this.#context.lease, { durable: false }, (tx) => tx.objects(this.rows));
      this.rows = [];
      this.#waiting = 0;
    }
    return name;
  }
}

/** [key, its line of the manifest, 1 entry, size of the object], sorted by key. */
function newEntries(context) {
  const { plan, results } = context;
  beat(context);
  const entries = plan.all.map((step, position) => {
    const [, name, size, mediaType] = results.get(position);
    const said = results.described.get(position);
    if (said !== undefined) {
      const entry = { digest: name, key: step.key, media_type: mediaType, size, ...said };
      return [step.key, `${canonicalText(entry)}\n`, 1, size];
    }
    // A canonical line by hand: members in order, and texts that are written canonically.
    const key = JSON.stringify(step.key);
    const line = `{"digest":"${name}","key":${key},"media_type":${JSON.stringify(mediaType)},"size":${size}}\n`;
    return [step.key, line, 1, size];
  });
  return entries.sort((a, b) => byParts(a[0], b[0]));
}

/** Keys in order: the first part that differs decides. */
export function byParts(a, b) {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i += 1) {
    const order = compare(a[i], b[i]);
    if (order) return order;
  }
  return a.length - b.length;
}

function* oldEntries(context, manifest) {
  for (const line of entryLines(context.ports.objects, manifest)) {
    const entry = JSON.parse(line);
    yield [entry.key, `${line}\n`, 1, entry.size];
  }
}

function* distinct(added, tally) {
  let previous = null;
  for (const line of added) {
    if (previous !== null && byParts(line[0], previous) === 0) throw twice(line[0]);
    previous = line[0];
    tally.capitals ||= previous.some((part) => /[A-Z]/.test(part));
    yield line;
  }
}

/** Old lines with the new ones among them; sealed: only those. */
function* merged(old, added, sealed, tally) {
  const following = (lines) => lines.next().value ?? null;
  let change = following(added);
  for (const line of old) {
    tally.old += 1;
    for (; change !== null && byParts(change[0], line[0]) < 0; change = following(added)) yield change;
    if (change !== null && byParts(change[0], line[0]) === 0) {
      if (change[1] !== line[1]) tally.superseded += 1;
      yield change;
      change = following(added);
    } else if (sealed) {
      tally.deleted += 1;
    } else {
      yield line;
    }
  }
  for (; change !== null; change = following(added)) yield change;
}

function twice(key) {
  return new Refused(`two steps write the key ${key.join("/")}`, {
    hint: "a key names one output; give each its own",
  });
}
