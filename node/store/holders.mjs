/** Who holds a lease or a scratch file, and is that process still there? Twin of src/kfm/store/holders.py. */

import fs from "node:fs";
import os from "node:os";

let ourselves = null; // every run names it: the system is asked once

/**
 * host:pid:start:namespace:boot, so that a dead holder on this host is recognised, and neither a recycled pid nor one
 * that means another process to whoever looks.
 */
export function thisProcess() {
  ourselves ??= `${os.hostname()}:${process.pid}:${started(process.pid)}:${namespace()}:${boot()}`;
  return ourselves;
}

/** Whose numbers of processes are ours: a container may have its own. */
function namespace() {
  try {
    return fs.readlinkSync("/proc/self/ns/pid").replace(/[^0-9]/g, "");
  } catch {
    return "";
  }
}

function boot() {
  try {
    return fs.readFileSync("/proc/sys/kernel/random/boot_id", "latin1").slice(0, 8);
  } catch {
    return "";
  }
}

function started(pid) {
  let stat;
  try {
    stat = fs.readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return "";
  }
  const fields = stat.slice(stat.lastIndexOf(")") + 1).trim().split(/\s+/);
  // A killed process that nobody has waited for is still listed: as good as gone.
  return fields[0] === "Z" || fields[0] === "X" ? "" : (fields[19] ?? "");
}

/** True only if it is certain: same host, and that very process is gone. */
export function holderIsDead(holder) {
  return isAlive(holder) === false;
}

/**
 * Its time is not over, and its holder may be at work. One that runs longer than it was given for was written before
 * the clock was set back: it counts only if its holder is seen.
 */
export function isHeld(lease, nowMs) {
  if (lease.expires_ms <= nowMs) return false;
  const alive = isAlive(lease.holder);
  const tooLong = lease.ttl_ms && lease.expires_ms - nowMs > lease.ttl_ms;
  return tooLong ? alive === true : alive !== false;
}

/** null: it cannot be known from here. */
function isAlive(holder) {
  const [host, pid = "", start = "", within = "", since = ""] = holder.split(":");
  if (host !== os.hostname() || !/^[0-9]+$/.test(pid) || !start) return null;
  if (since && since !== boot()) return boot() ? false : null; // the machine was started anew
  if (within && within !== namespace()) return null;
  return started(Number(pid)) === start;
}
