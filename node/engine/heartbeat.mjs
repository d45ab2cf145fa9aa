/**
 * Renews the lease of the current run, so that only a dead or stopped worker is replaced. There is no thread for it:
 * code that reads, sorts or writes in pieces calls `beat` between two pieces, outside of any transaction.
 */

import { Conflict, KfmError } from "../errors.mjs";

export function begin(context) {
  context.beating = true;
}

export function end(context) {
  context.beating = false;
}

/** Renew the lease if a third of its time is over. Asks the clock and no more while it is not. */
export function beat(context) {
  if (!context.beating) return;
  const ttl = context.ports.settings.lease_ms;
  const now = context.ports.clock.nowMs();
  if (context.lease === null || now - context.renewedMs <= Math.floor(ttl / 3)) return;
  try {
    context.ports.state.transaction(context.lease, { durable: false }, (tx) => tx.renew(context.lease, ttl));
    context.renewedMs = now;
  } catch (problem) {
    // Someone is writing just now, or the lease was taken over, which the run will find out by itself.
    if (problem instanceof Conflict) return;
    if (!(problem instanceof KfmError)) throw problem;
    end(context);
  }
}

/** The same pieces, with a beat before each. */
export function* beating(context, pieces) {
  for (const piece of pieces) {
    beat(context);
    yield piece;
  }
}

/** The same stream, with the lease of the run looked after at every piece. */
export function attended(context, file) {
  return {
    read(count) {
      beat(context);
      return file.read(count);
    },
    close() {
      file.close();
    },
  };
}
