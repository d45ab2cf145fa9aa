/** Pins the inputs: every source becomes bytes in the store, known by their digest. Changes nothing else. */

import { canonical } from "../canonical.mjs";
import { compare } from "../characters.mjs";
import { BadInput, KfmError, placeOf, Refused, StepFailed } from "../errors.mjs";
import { digest } from "../keys.mjs";
import { checkRef, printable } from "../names.mjs";
import { DataContract, Layout, replace, SourceRef } from "../records.mjs";

export async function acquire(walk) {
  walk.stage = "ADMIT";
  if (walk.unfinished !== null && (walk.unfinished.plan_hash || walk.updater.moves_only)) {
    walk.inputs = [...walk.unfinished.inputs];
    return;
  }
  const pinner = new Pinner(walk);
  let refs;
  try {
    refs = await walk.updater.inputs(walk.trigger, pinner);
  } catch (problem) {
    throw asAuthors(walk, "inputs", problem);
  }
  if (!Array.isArray(refs) || !refs.every((ref) => pinner.vouchesFor(ref))) {
    throw new Refused(`inputs() of ${walk.updater.id} gave something that is not a list of SourceRef`, {
      hint: "return what sources.pin() gave",
    });
  }
  walk.inputs = [...refs];
  refs.forEach((ref, i) => {
    const contract = pinner.contracts.get(ref);
    if (contract !== undefined) walk.contracts.set(i, contract);
  });
}

/** The Sources an updater is handed. */
export class Pinner {
  #walk;
  #ports;
  #given = new Set();

  constructor(walk) {
    this.#walk = walk;
    this.#ports = walk.ports;
    this.contracts = new Map(); // by identity of the ref we gave
  }

  async pin(
    source,
    { partition = [], partitionBy = "", contract = null, complete = null, expectHash = "" } = {},
  ) {
    const ports = this.#ports;
    const named = ports.sources.get(source);
    if (named === undefined && !/[/:.]/.test(source)) {
      const known = [...ports.sources.keys()].sort(compare).join(", ") || "none";
      throw new BadInput(`no source is called ${printable(source)}`, { hint: `the configuration names: ${known}` });
    }
    const [base, declared] = named ?? [replace(ports.request, { uri: source }), null];
    const request = replace(base, {
      now_ms: ports.clock.nowMs(),
      partition: partition.length ? [...partition] : base.partition,
      complete: complete === null ? base.complete : complete,
      expect_hash: expectHash || base.expect_hash,
    });
    let held = contract ?? declared;
    if (partitionBy) held = replace(held ?? DataContract({ format: "csv" }), { partition_by: partitionBy });
    ports.progress("fetch", 0, 0);
    const opened = await ports.openSource(request.uri);
    const fetched = await opened.fetch(request, ports.state.checkpoint(request.uri), ports.objects);
    this.#walk.checkpoints.push(fetched.checkpoint);
    this.#walk.bytesIn += fetched.bytes_on_wire;
    this.#walk.say("source.pinned", {
      source: request.name || "unnamed",
      not_modified: fetched.not_modified,
      size: fetched.ref.size,
    });
    let ref = { ...fetched.ref }; // an object of its own: two sources may be answered by the same one
    if (held !== null) {
      ref = replace(ref, { contract_hash: digest(canonical(held)), layout: layoutOf(held) });
      this.contracts.set(ref, held);
    }
    this.#given.add(ref);
    return ref;
  }

  /** The digest a ref points to now; an empty content_hash if it does not exist. */
  ref(name) {
    checkRef(name);
    return SourceRef({ uri: `kfm://ref/${name}`, content_hash: this.#ports.state.ref(name), size: 0, name });
  }

  history(name) {
    checkRef(name);
    return [...this.#ports.state.history(name)];
  }

  /** One that we gave, or that an updater made of it: then its bytes are here. */
  vouchesFor(ref) {
    if (this.#given.has(ref)) return true;
    if (ref === null || typeof ref !== "object" || typeof ref.uri !== "string") return false;
    return ref.uri.startsWith("kfm://ref/") || this.#ports.objects.has(ref.content_hash);
  }
}

/** How perform() must read the source: kept with the input, so that a resumed run reads it the same. */
export function layoutOf(contract) {
  const columns = contract.header ? [] : contract.columns.map((column) => column.name);
  const layout = Layout({ encoding: contract.encoding, delimiter: contract.delimiter, columns });
  const plain = Layout();
  const same = layout.encoding === plain.encoding && layout.delimiter === plain.delimiter && !columns.length;
  return same ? null : layout;
}

/** Run an updater's method; whatever it throws becomes one line that names the place, not the data. */
export function authorCall(walk, method, call) {
  try {
    return call();
  } catch (problem) {
    throw asAuthors(walk, method, problem);
  }
}

function asAuthors(walk, method, problem) {
  if (problem instanceof KfmError || !(problem instanceof Error)) return problem;
  const failure = new StepFailed(
    `${method}() of ${walk.updater.id} raised ${problem.constructor.name} at ${placeOf(problem)}`,
    { hint: "fix the updater (KFM_LOG=debug shows the traceback); nothing was published" },
  );
  failure.cause = problem;
  return failure;
}
