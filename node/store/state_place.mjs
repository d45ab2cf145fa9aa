/** The row `meta/place`, with which `kfm move` says where a state is. Twin of src/kfm/app/session/moved_state.py. */

import { Busy, Corrupt, Refused } from "../errors.mjs";
import { isHeld } from "./process_identity.mjs";

const ROW = ["meta", "place"];
const HOME = { status: "home", what: "state", other: "", holder: "", expires_ms: 0, ttl_ms: 0, objects: "" };

function placeIn(body) {
  try {
    return { ...HOME, ...JSON.parse(body.toString("utf8")) };
  } catch (problem) {
    throw new Corrupt(`record meta/place cannot be read: ${problem.message}`, { hint: "restore the state from a copy" });
  }
}

const isCopy = (place) => place.status === "arriving" || place.status === "sealed";

/** Why this state, or the objects that kfm.yml names, may not be written; null if they may. */
function problemOf(place, nowMs, isHere) {
  const { status, other, objects } = place;
  if (status === "moved") {
    return new Refused(`the state was moved to ${other}`, { hint: `change kfm.yml to \`state: ${other}\`` });
  }
  if (isCopy(place)) {
    return new Refused(`the state here is the copy of an unfinished move from ${other}`, {
      hint: `\`kfm move\` it again with \`state: ${other}\` in kfm.yml; or remove this copy`,
    });
  }
  if (status === "leaving" && place.holder && isHeld(place, nowMs)) {
    const what = place.what === "state" ? "state is" : "objects are";
    return new Busy(`the ${what} being moved to ${other}`, { hint: "wait for `kfm move`; nothing was written" });
  }
  if (objects && !isHere(objects)) {
    return new Refused(`the objects were moved to ${objects}`, { hint: `change kfm.yml to \`objects: ${objects}\`` });
  }
  return null;
}

/** Checks a state that is opened. Returns a warning for a session that only reads what was moved. */
export function openedPlace(state, mode, isHere) {
  const body = state.tables.get(...ROW);
  if (body === null) return "";
  const place = placeIn(body);
  const problem = problemOf(place, state.nowMs(), isHere);
  if (problem === null || (mode !== "write" && place.status === "leaving")) return "";
  if (mode === "write" || isCopy(place)) throw problem;
  return `${problem.message}, and what you read here may be old; ${problem.hint}`;
}

/**
 * In a transaction: throws if the state was moved. Returns whether it is in force until another process writes. The
 * claim of a move whose process died is removed, so that it cannot go on if it was only paused.
 */
export function judgedPlace(state, isHere) {
  const body = state.tables.get(...ROW);
  if (body === null) return true;
  const place = placeIn(body);
  const problem = problemOf(place, state.nowMs(), isHere);
  if (problem !== null) throw problem;
  if (place.status !== "leaving") return true;
  if (place.objects) state.tables.put(...ROW, Buffer.from(JSON.stringify({ objects: place.objects })));
  else state.tables.delete(...ROW);
  return false; // this transaction may be rolled back
}
