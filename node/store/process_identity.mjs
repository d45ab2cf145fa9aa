/** Says which process holds a lease or a scratch file, and whether it still runs. Twin of src/kfm/store/process_identity.py. */

import fs from "node:fs";
import os from "node:os";

let ourselves = null; // every run names it: the system is asked once

export function thisProcess() {
  ourselves ??= `${os.hostname()}:${process.pid}:${started(process.pid)}:${namespace()}:${boot()}`;
  return ourselves;
}

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
  // A killed process whose parent has not waited for it is still listed: it is gone.
  return fields[0] === "Z" || fields[0] === "X" ? "" : (fields[19] ?? "");
}

export const holderIsDead = (holder) => isAlive(holder) === false;

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
  if (since && since !== boot()) return boot() ? false : null; // the machine was restarted
  if (within && within !== namespace()) return null;
  return started(Number(pid)) === start;
}
