/** One row of each key, within a bound of memory. Twin of src/kfm/updaters/transforms/deduplication.py. */

import { compare } from "../../characters.mjs";
import { byNumber, Sorter } from "./external_sort.mjs";

/** The rows of a stream that stay. `keyOf(row)` is a text, or null for a row without a key, which stays. */
export function* deduplicated(stream, keep, keyOf, form, room) {
  const seen = new Set();
  const last = keep === "last";
  let byKey = null;
  let count = 0;
  try {
    for (const [number, row] of stream) {
      const key = keyOf(row);
      if (!last && seen.size <= room.keys) {
        if (key === null) yield [number, row];
        else if (!seen.has(key)) {
          seen.add(key);
          yield [number, row];
        }
        continue;
      }
      byKey ??= new Sorter((other) => [keyOf(other)], [compare], [false], form, room);
      if (key === null || !seen.has(key)) byKey.add(row, [count, number]);
      count += 1;
    }
    if (byKey !== null) yield* inOrder(chosen(byKey, last), form, room);
  } finally {
    byKey?.close();
  }
}

function* chosen(byKey, last) {
  let before = null;
  for (const entry of byKey.entries()) {
    const ends = before !== null && (entry.keys[0] === null || before.keys[0] !== entry.keys[0]);
    if (last && ends) yield before;
    if (!last && (ends || before === null)) yield entry;
    before = entry;
  }
  if (last && before !== null) yield before;
}

function* inOrder(entries, form, room) {
  const byCount = new Sorter((_row, tags) => [tags[0]], [byNumber], [false], form, room);
  try {
    for (const { row, tags } of entries) byCount.add(row, tags);
    for (const { row, tags } of byCount.entries()) yield [tags[1], row];
  } finally {
    byCount.close();
  }
}
