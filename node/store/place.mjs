/** Can this place keep the promise? What the mount table says of it. Twin of place.py; `kfm doctor` tries it out. */

import fs from "node:fs";
import path from "node:path";

import { REAL } from "./durable.mjs";

// File systems that keep nothing over a power cut, or whose locks and syncs cannot be relied on.
const IN_MEMORY = "it lives in memory: a power cut loses everything";
const NETWORK = "locks and syncs of network file systems cannot be relied on";
const HOST = "syncs may stop at the host's cache";
const WEAK = {
  __proto__: null,
  tmpfs: IN_MEMORY,
  ramfs: IN_MEMORY,
  nfs: NETWORK,
  nfs4: NETWORK,
  cifs: NETWORK,
  smb3: NETWORK,
  "9p": HOST,
  vboxsf: HOST,
  "fuse.sshfs": NETWORK,
};
const WEAK_OPTIONS = {
  nobarrier: "mounted with nobarrier: the disk may reorder what was synced",
  "barrier=0": "mounted with barrier=0: the disk may reorder what was synced",
  "data=writeback": "mounted with data=writeback: a crash may leave stale bytes in files",
};

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

export function examine(folder, what) {
  while (!REAL.isDir(folder)) folder = path.dirname(folder) || "/";
  const [kind, options] = mountOf(folder);
  const set = options.split(",");
  const why = WEAK[kind] ?? WEAK_OPTIONS[Object.keys(WEAK_OPTIONS).find((option) => set.includes(option))] ?? "";
  const hint = why ? `${why}; put it on a local disk, or accept the risk with --i-accept` : "";
  return [{ check: `${what}.filesystem`, ok: !why, found: kind, why: hint }];
}
