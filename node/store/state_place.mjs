/**
 * The row `meta/place`: whether a state is in force, and where its objects and published files are.
 * Twin of src/kfm/app/session/moved_state.py.
 */

import fs from "node:fs";
import path from "node:path";

import { canonical } from "../canonical.mjs";
import { Busy, Corrupt, Refused } from "../errors.mjs";
import { isHeld } from "./process_identity.mjs";

const ROW = ["meta", "place"];
const HOME = { status: "home", what: "state", other: "", holder: "", expires_ms: 0, ttl_ms: 0 };
const KNOWN = { objects: "", publish: "", left: [] };

function placeIn(body) {
  try {
    return { ...HOME, ...KNOWN, ...JSON.parse(body.toString("utf8")) };
  } catch (problem) {
    throw new Corrupt(`record meta/place cannot be read: ${problem.message}`, { hint: "restore the state from a copy" });
  }
}

const LEAVING = { state: "state is", objects: "objects are", publish: "published files are" };
const isCopy = (place) => place.status === "arriving" || place.status === "sealed";

/** Why this state may not be written, or not with the places that kfm.yml names; null if it may. */
function problemOf(place, state, resolved) {
  const { status, other } = place;
  if (status === "moved") {
    return new Refused(`the state was moved to ${other}`, { hint: `change kfm.yml to \`state: ${other}\`` });
  }
  if (status === "arriving" && place.move?.startsWith("backup ")) {
    return new Refused(`the state here is an unfinished restore from ${other}`, {
      hint: `type \`kfm restore ${other}\` again; or remove this state`,
    });
  }
  if (isCopy(place)) {
    return new Refused(`the state here is the copy of an unfinished move from ${other}`, {
      hint: `\`kfm move\` it again with \`state: ${other}\` in kfm.yml; or remove this copy`,
    });
  }
  if (status === "leaving" && place.holder && isHeld(place, state.nowMs())) {
    return new Busy(`the ${LEAVING[place.what]} being moved to ${other}`, {
      hint: "wait for `kfm move`; nothing was written",
    });
  }
  for (const setting of ["objects", "publish"]) {
    const [here, there] = [resolved.config[setting], place[setting]];
    if (!there || resolved.location(there).join() === resolved.location(here).join()) continue;
    if (!(setting === "publish" ? hasPublished(state, resolved, there) : hasRun(state))) continue;
    const [what, words] = setting === "objects" ? ["objects", "--to"] : ["published files", "--public --to"];
    const cure = `to move them, type \`kfm move ${words} ${here}\` after that`;
    return new Refused(`the ${what} are at ${there}, and kfm.yml names ${here}`, {
      hint: `change kfm.yml to \`${setting}: ${there}\`; ${cure}`,
    });
  }
  return null;
}

// What a published version has in the folder of its dataset.
const VERSIONED = ["current.json", "versions", "files", "parts"];
const hasRun = (state) => !state.ledger({ limit: 1 }).next().done;

function hasPublished(state, resolved, url) {
  const [scheme, folder] = resolved.location(url);
  if (scheme === "noop" || state.tables.scan("history", "published/", { limit: 1 }).next().done) return false;
  const [here, root] = resolved.location(resolved.config.publish);
  if (scheme !== "file" || here !== "file") return true; // only Python looks into servers
  try {
    if (fs.readdirSync(path.join(folder, "datasets")).length) return true;
  } catch (problem) {
    if (problem.code !== "ENOENT" && problem.code !== "ENOTDIR") return true;
  }
  const isMoved = (ref) => fs.existsSync(path.join(root, "datasets", ref.slice("published/".length), "current.json"));
  return ![...state.tables.scan("refs", "published/")].every(([ref, value]) => !value.length || isMoved(ref));
}

const homeOf = ({ objects, publish }) => canonical({ objects, publish });

/**
 * Checks a state that is opened. Returns a warning for a session that only reads what was moved, and of published
 * files that a move has left.
 */
export function openedPlace(state, mode, resolved) {
  const body = state.tables.get(...ROW);
  if (body === null) {
    checkNotEmpty(state, mode, resolved);
    return "";
  }
  if (body.equals(homeOf(resolved.config))) return "";
  const place = placeIn(body);
  const problem = problemOf(place, state, resolved);
  if (problem === null || (mode !== "write" && place.status === "leaving")) {
    const said = `published files may still be at: ${place.left.join(", ")}`;
    return place.left.length ? `${said}; to remove them, type \`kfm move --public --to ${place.publish}\`` : "";
  }
  if (mode === "write" || isCopy(place)) throw problem;
  return `${problem.message}, and what you read here may be old; ${problem.hint}`;
}

/** Throws if the state is empty and its public folder is not. Twin of check_not_empty in app/session/session.py. */
function checkNotEmpty(state, mode, resolved) {
  const [scheme, folder] = resolved.location(resolved.config.publish);
  if (hasRun(state) || scheme !== "file" || (resolved.config.state === "memory" && mode !== "write")) return;
  let count = 0;
  try {
    const hasVersions = (name) => VERSIONED.some((one) => fs.existsSync(path.join(folder, "datasets", name, one)));
    count = fs.readdirSync(path.join(folder, "datasets")).filter(hasVersions).length;
  } catch {
    return;
  }
  if (!count) return;
  const what = `published files of ${count} dataset${count > 1 ? "s" : ""}`;
  throw new Refused(`the state is empty, and ${what} are at ${resolved.config.publish}`, {
    hint: "check `state` and `postgres.schema` in kfm.yml; a new installation needs a place of its own",
  });
}

/**
 * In a transaction: throws if the state was moved, or kfm.yml names other places. Returns whether it is in force until
 * another process writes. The claim of a move whose process died is removed, so that it cannot go on if it was only
 * paused.
 */
export function judgedPlace(state, resolved) {
  const body = state.tables.get(...ROW);
  const home = homeOf(resolved.config);
  if (body?.equals(home)) return true;
  if (body === null) {
    state.tables.put(...ROW, home);
    return false; // this transaction may be rolled back
  }
  const place = placeIn(body);
  const problem = problemOf(place, state, resolved);
  if (problem !== null) throw problem;
  const { objects, publish } = resolved.config;
  const row = canonical(place.left.length ? { left: place.left, objects, publish } : { objects, publish });
  if (row.equals(body)) return true;
  state.tables.put(...ROW, row);
  return false;
}
