/** Reads everything that was ever promised and checks it. */

import { canonical } from "../canonical.mjs";
import { Corrupt } from "../errors.mjs";
import { digest, GENESIS } from "../keys.mjs";
import { entriesOf, partsOf } from "../manifests.mjs";
import { isDigest } from "../names.mjs";
import { chunksOf } from "./streams.mjs";

/** Corrupt at the first thing that is not as it was stored; else how many entries and objects there are. */
export function verify(state, objects) {
  const entries = ledger(state);
  const seen = new Set();
  const look = (name, target) => {
    if (!isDigest(target)) return;
    object(objects, target, seen);
    if (/^(?:processed|published)\//.test(name)) version(objects, target, seen);
  };
  for (const [name, target] of state.refs()) look(name, target);
  // also where no ref leads any more: it can be rolled back to
  for (const entry of state.histories()) look(entry.ref, entry.after);
  return { entries, objects: seen.size };
}

/** Others may write to it meanwhile: entries that came after we had read the last one are read as well. */
function ledger(state) {
  let previous = GENESIS;
  let count = 0;
  for (let first = true; ; first = false) {
    const before = count;
    for (const entry of state.ledger({ after: count })) {
      count += 1;
      if (entry.index !== count || entry.prev !== previous) {
        throw new Corrupt(`ledger entry ${count} is missing or altered`, {
          hint: "restore the state from a copy",
          record: count,
        });
      }
      const receipt = state.receipt(entry.run_id);
      if (receipt === null || digest(canonical(receipt)) !== entry.receipt_digest) {
        throw new Corrupt(`the receipt of ledger entry ${count} is missing or altered`, {
          hint: "restore the state from a copy",
        });
      }
      previous = digest(canonical(entry));
    }
    if (state.ledgerHead() === (count ? previous : "")) return count;
    if (!first && count === before) {
      throw new Corrupt(`the ledger ends before its head, after entry ${count}`, {
        hint: "restore the state from a copy",
      });
    }
  }
}

function object(objects, name, seen) {
  if (seen.has(name)) return;
  for (const _ of chunksOf(objects, name));
  seen.add(name);
}

function version(objects, manifest, seen) {
  for (const [part] of partsOf(objects, manifest)) object(objects, part, seen);
  for (const entry of entriesOf(objects, manifest)) object(objects, entry.digest, seen);
}
