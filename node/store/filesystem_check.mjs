/** Can this place keep the promise? Reads the mount table. Twin of store/filesystem_check.py; `kfm doctor` tries it out. */

import fs from "node:fs";
import path from "node:path";

import { WEAK, WEAK_OPTIONS } from "../generated/words.mjs";
import { REAL } from "./fsio.mjs";

export function mountOf(name, table = "/proc/self/mountinfo") {
  const place = fs.realpathSync(name);
  let best = "";
  let found = ["unknown", ""];
  let lines;
  try {
    lines = fs.readFileSync(table, "utf8").split("\n");
  } catch {
    return found;
  }
  for (const line of lines) {
    const middle = line.indexOf(" - ");
    if (middle < 0) continue;
    const fields = line.slice(0, middle).split(/\s+/);
    const tail = line.slice(middle + 3).trim().split(/\s+/);
    const point = fields[4].replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(parseInt(octal, 8)));
    const inside = place === point || place.startsWith(point.replace(/\/+$/, "") + "/");
    if (inside && point.length >= best.length) {
      best = point;
      found = [tail[0], `${fields[5]},${tail.at(-1)}`];
    }
  }
  return found;
}

/** The kind of file system a folder lies on, and what is wrong with that; empty if nothing is. */
export function examine(folder) {
  while (!REAL.isDir(folder)) folder = path.dirname(folder) || "/";
  const [kind, options] = mountOf(folder);
  const set = options.split(",");
  const why = WEAK[kind] ?? WEAK_OPTIONS[Object.keys(WEAK_OPTIONS).find((option) => set.includes(option))] ?? "";
  return [kind, why];
}
