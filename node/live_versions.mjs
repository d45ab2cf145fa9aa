/** Which versions of a dataset are public, by the history of its published ref. Twin of src/kfm/projections/live_versions.py. */

/**
 * The versions whose files are public, oldest first; the last is the one the ref is at, if it is anywhere.
 *
 * A promotion supersedes: what was there before stays, up to `keep` versions (-1: all). A rollback takes back: of what
 * was promoted after the version it goes to nothing stays. A withdrawal ends it all.
 */
export function standing(moves, keep) {
  let found = [];
  const since = {}; // the number of the last promotion of each
  for (const { after, op, n } of moves) {
    if (op !== "rollback") since[after] = n;
    found = after ? [...found.filter((version) => version !== after && since[version] < since[after]), after] : [];
  }
  return keep < 0 ? found : found.slice(-1 - keep);
}

export function pointerOf({ ref, after, before, run_id, n }) {
  return { dataset: ref.slice("published/".length), version: after, before, run_id, seq: n };
}
