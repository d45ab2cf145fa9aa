/** How a version's manifest is cut into parts, and how it is read. Twin of src/kfm/model/manifests.py. */

import { createHash } from "node:crypto";

import { chunksOf, linesOf } from "./streams.mjs";

export const WHOLE = 128; // entries that are one object, whatever their keys say
export const LEAST = 16; // lines a part has at least, the last of its level excepted
export const MOST = 128; // and at most
const ODDS = 16; // of 256: how often a key closes its part
const NAMES_PARTS = '{"depth":'; // how every line of a part begins that names parts; no entry does

export const closes = (key, level) => createHash("sha256").update(JSON.stringify(key)).digest()[level % 32] < ODDS;

function namedBy(objects, name) {
  const file = objects.open(name);
  const named = [];
  try {
    for (const line of linesOf(file)) {
      if (!line.startsWith(NAMES_PARTS)) return null;
      named.push(JSON.parse(line));
    }
  } finally {
    file.close();
  }
  return named.length ? named : null;
}

/** The objects that the manifest itself is made of, as [digest, whether its lines are entries], in their order. */
export function* partsOf(objects, version) {
  yield* below(objects, version, namedBy(objects, version));
}

function* below(objects, name, named) {
  yield [name, named === null];
  for (const part of named ?? []) {
    if (part.depth) yield* below(objects, part.digest, namedBy(objects, part.digest));
    else yield [part.digest, true];
  }
}

export function* larger(objects, version, size) {
  const named = namedBy(objects, version);
  if (named === null) {
    for (const entry of entriesOf(objects, version)) if (entry.size > size) yield entry;
  }
  for (const part of named ?? []) if (part.size > size) yield* larger(objects, part.digest, size);
}

/** The lines of all entries, sorted by key; Corrupt at the latest when all are read, if they are not those named. */
export function* entryLines(objects, version) {
  for (const [name, isLeaf] of partsOf(objects, version)) {
    if (!isLeaf) continue;
    const file = objects.open(name);
    try {
      yield* linesOf(file);
    } finally {
      file.close();
    }
  }
}

/** All entries, sorted by key. */
export function* entriesOf(objects, version) {
  for (const line of entryLines(objects, version)) yield JSON.parse(line);
}

export function* listingOf(objects, version) {
  for (const [name, isLeaf] of partsOf(objects, version)) if (isLeaf) yield* chunksOf(objects, name);
}
