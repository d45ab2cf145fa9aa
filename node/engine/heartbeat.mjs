/**
 * Renews the lease of the current run, so that only a dead or stopped worker is replaced. There is no thread for it:
 * code that reads, sorts or writes in pieces calls `beat` between two pieces, outside of any transaction.
 */

import { Conflict, KfmError } from "../errors.mjs";

export function begin(walk) {
  walk.beating = true;
}

export function end(walk) {
  walk.beating = false;
}

/** Renew the lease if a third of its time is over. Asks the clock and no more while it is not. */
export function beat(walk) {
  if (!walk.beating) return;
  const ttl = walk.ports.settings.lease_ms;
  const now = walk.ports.clock.nowMs();
  if (walk.lease === null || now - walk.renewedMs <= Math.floor(ttl / 3)) return;
  try {
    walk.ports.state.transaction(walk.lease, { durable: false }, (tx) => tx.renew(walk.lease, ttl));
    walk.renewedMs = now;
  } catch (problem) {
    // Someone is writing just now, or the lease was taken over, which the run will find out by itself.
    if (problem instanceof Conflict) return;
    if (!(problem instanceof KfmError)) throw problem;
    end(walk);
  }
}

/** The same pieces, with a beat before each. */
export function* beating(walk, pieces) {
  for (const piece of pieces) {
    beat(walk);
    yield piece;
  }
}

/** The same stream, with the lease of the run looked after at every piece. */
export function attended(walk, file) {
  return {
    read(count) {
      beat(walk);
      return file.read(count);
    },
    close() {
      file.close();
    },
  };
}
