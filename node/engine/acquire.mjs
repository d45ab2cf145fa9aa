/** Pins the inputs: every source becomes bytes in the store, known by their digest. Changes nothing else. */

import { canonical } from "../canonical.mjs";
import { digest } from "../keys.mjs";
import { Layout, replace } from "../records.mjs";

export async function acquire(context) {
  context.stage = "ADMIT";
  const inputs = []; // a run that does not get them all has none
  for (const name of context.updater.sources) {
    const [ref, contract] = await pinned(context, name);
    if (contract !== null) context.contracts.set(inputs.length, contract);
    inputs.push(ref);
  }
  context.inputs = inputs;
}

/** A source of the configuration by its name: what it is now, and the contract it must keep. */
async function pinned(context, name) {
  const { ports } = context;
  const [base, contract] = ports.sources.get(name);
  const request = replace(base, { now_ms: ports.clock.nowMs(), partition: context.updater.windowed(context.trigger) });
  ports.progress("fetch", 0, 0);
  const source = await ports.openSource(request.uri);
  const known = context.trigger.force ? null : ports.state.checkpoint(request.uri);
  const fetched = await source.fetch(request, known, ports.objects);
  context.checkpoints.push(fetched.checkpoint);
  context.bytesIn += fetched.bytes_on_wire;
  context.say("source.pinned", { source: name, not_modified: fetched.not_modified, size: fetched.ref.size });
  if (contract === null) return [fetched.ref, null];
  return [replace(fetched.ref, { contract_hash: digest(canonical(contract)), layout: layoutOf(contract) }), contract];
}

export function layoutOf(contract) {
  const columns = contract.header ? [] : contract.columns.map((column) => column.name);
  const layout = Layout({ encoding: contract.encoding, delimiter: contract.delimiter, columns });
  const plain = Layout();
  const same = layout.encoding === plain.encoding && layout.delimiter === plain.delimiter && !columns.length;
  return same ? null : layout;
}
