/**
 * The manifest of a version: a line a key, sorted by key, so that two versions are compared by reading both once.
 *
 * New lines win over those of the version before. A key that only the old version has is carried over;
 * it is a deletion only when the plan is complete and every source was sealed.
 */

import { compare } from "../characters.mjs";
import { Refused } from "../errors.mjs";
import { digest } from "../keys.mjs";
import { INLINE_MAX } from "./execute.mjs";
import { beat } from "./heartbeat.mjs";
import { linesOf } from "./streams.mjs";

/** What went into a manifest, counted on the way. */
export class Tally {
  entries = 0;
  size = 0;
  old = 0;
  deleted = 0;
}

/** Store the manifest and return its digest. A small one becomes a row of the commit itself. */
export function writeManifest(walk, before, sealed) {
  const tally = new Tally();
  const added = newEntries(walk);
  const lines = before ? merged(oldEntries(walk, before), added, sealed, tally) : first(added, tally);
  const blocks = blocksOf(walk, lines);
  const head = blocks.next().value ?? Buffer.alloc(0);
  const { done, value: rest } = blocks.next();
  if (done && head.length <= INLINE_MAX) {
    const name = digest(head);
    walk.tailRows.push([name, head]);
    return [name, tally];
  }
  const pieces = (function* () {
    yield head;
    if (!done) yield rest;
    yield* blocks;
  })();
  return [walk.ports.objects.putStream(pieces)[0], tally];
}

/** [key, its line of the manifest, size of the object], sorted by key. */
function newEntries(walk) {
  const { plan, results } = walk;
  const entries = [];
  let position = -1;
  for (const batch of plan.each(walk.ports.state)) {
    beat(walk);
    for (const step of batch) {
      position += 1;
      if (step.key === null) continue;
      const [, name, size, mediaType] = results.get(position);
      // A canonical line by hand: members in order, and texts that are written canonically.
      const key = JSON.stringify(step.key);
      const line = `{"digest":"${name}","key":${key},"media_type":${JSON.stringify(mediaType)},"size":${size}}\n`;
      entries.push([step.key, line, size]);
    }
  }
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

function* oldEntries(walk, manifest) {
  const file = walk.ports.objects.open(manifest);
  try {
    for (const line of linesOf(file)) {
      const entry = JSON.parse(line);
      yield [entry.key, `${line}\n`, entry.size];
    }
  } finally {
    file.close();
  }
}

/** There is no version before: every line is new. */
function* first(added, tally) {
  let previous = null;
  for (const [key, line, size] of added) {
    if (previous !== null && byParts(key, previous) === 0) throw twice(key);
    previous = key;
    tally.entries += 1;
    tally.size += size;
    yield line;
  }
}

function* merged(old, added, sealed, tally) {
  let previous = null;
  const following = () => old.next().value ?? null;
  let kept = following();
  for (const entry of [...added, null]) {
    // null: past the last new line, only old ones are left
    const key = entry === null ? null : entry[0];
    if (key !== null && previous !== null && byParts(key, previous) === 0) throw twice(key);
    while (kept !== null && (key === null || byParts(kept[0], key) < 0)) {
      tally.old += 1;
      if (sealed) {
        tally.deleted += 1;
      } else {
        tally.entries += 1;
        tally.size += kept[2];
        yield kept[1];
      }
      kept = following();
    }
    if (entry === null) return;
    if (kept !== null && byParts(kept[0], key) === 0) {
      // the new line takes its place
      tally.old += 1;
      kept = following();
    }
    previous = key;
    tally.entries += 1;
    tally.size += entry[2];
    yield entry[1];
  }
}

function twice(key) {
  return new Refused(`two steps give the key ${key.join("/")}`, {
    hint: "a key names one output; give each its own",
    discreet: "two steps give the same key",
  });
}

function* blocksOf(walk, lines) {
  let held = [];
  let size = 0;
  for (const line of lines) {
    held.push(line);
    size += line.length;
    if (size > INLINE_MAX) {
      beat(walk);
      yield Buffer.from(held.join(""));
      held = [];
      size = 0;
    }
  }
  if (held.length) yield Buffer.from(held.join(""));
}
