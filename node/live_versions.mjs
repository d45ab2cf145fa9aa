/** Which versions of a dataset are public, by the history of its published ref. Twin of src/kfm/projections/live_versions.py. */

/**
 * The versions whose files are public, oldest first; the last is the one the ref is at, if it is anywhere.
 *
 * A promotion supersedes: what was there before stays, up to `keep` versions (-1: all). A rollback takes back: of what
 * came after the version it goes to nothing stays. A withdrawal ends it all.
 */
export function standing(moves, keep) {
  let found = [];
  for (const { after, op } of moves) {
    if (!after) found = [];
    else if (!found.includes(after)) found.push(after);
    else if (op === "rollback") found.length = found.indexOf(after) + 1;
    else found = [...found.filter((version) => version !== after), after];
  }
  return keep < 0 ? found : found.slice(-1 - keep);
}

export function pointerOf({ ref, after, before, run_id, n }) {
  return { dataset: ref.slice("published/".length), version: after, before, run_id, seq: n };
}
