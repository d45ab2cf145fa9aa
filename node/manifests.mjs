/**
 * Reading what a version consists of. Who wants entries asks here, and knows no format.
 *
 * Twin of src/kfm/contract/manifests.py.
 */

import { chunksOf, linesOf } from "./engine/streams.mjs";

/** All entries, sorted by key; Corrupt at the latest when all are read, if the bytes are not those named. */
export function* entriesOf(objects, version) {
  const file = objects.open(version);
  try {
    for (const line of linesOf(file)) yield JSON.parse(line);
  } finally {
    file.close();
  }
}

/** The digests of the objects that the manifest itself is made of. */
export function* partsOf(_objects, version) {
  yield version;
}

/** A line an entry, sorted by key, in pieces: what is published beside the files of a version. */
export function listingOf(objects, version) {
  return chunksOf(objects, version);
}
