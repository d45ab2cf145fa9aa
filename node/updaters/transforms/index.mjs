/**
 * The updater that does what the configuration says: a step for each output, or for each of its partitions.
 * Twin of src/kfm/updaters/transforms/transform_updater.py.
 */

import { canonical } from "../../canonical.mjs";
import { compare } from "../../characters.mjs";
import { declaration, formatFrom, sortedKeys } from "../../transform_config.mjs";
import { BadInput } from "../../errors.mjs";
import { digest } from "../../keys.mjs";
import { printable } from "../../names.mjs";
import { replace, Step } from "../../records.mjs";
import { within } from "../../time_windows.mjs";

/** The updater of a dataset that has outputs instead of code; `config` is its part of the configuration. */
export function loadDeclared(name, config) {
  const contracts = Object.create(null);
  for (const source of Object.keys(config.sources)) {
    const { contract, format } = config.sources[source];
    contracts[source] = format === null ? contract : replace(contract, { format });
  }
  return new DeclaredUpdater(name, config.version, config.outputs, contracts);
}

export class DeclaredUpdater {
  dataset = "";
  op = "ingest";
  job_type = "ingest.pull_source";
  slo_target_latency_ms = 900_000;
  #outputs;
  #contracts;
  #limits;
  #performing = null;

  constructor(name, version, outputs, contracts, limits = null) {
    this.id = name;
    this.version = version;
    this.#outputs = outputs;
    this.#contracts = contracts;
    this.#limits = limits;
    const said = sortedKeys(outputs).map((output) => [output, this.#declared(outputs[output])]);
    this.code_hash = digest(canonical({ declared: 1, outputs: Object.fromEntries(said) }));
    const used = new Set();
    for (const output of Object.values(outputs)) {
      used.add(output.from);
      for (const step of output.steps) if (step.join !== null) used.add(step.join.source);
    }
    this.sources = [...used].sort(compare); // what it reads, in this order
  }

  windowed({ window }) {
    return window && Object.values(this.#outputs).every((output) => output.window_by) ? [window] : [];
  }

  /** All there is; or, in a window, the partitions that lie in it, and the others are carried over. */
  plan(inputs) {
    return { steps: this.#steps(inputs), complete: !inputs.some((source) => source.partition.length) };
  }

  *#steps(inputs) {
    for (const name of sortedKeys(this.#outputs)) {
      const output = this.#outputs[name];
      const params = { output: name, declared: this.#declared(output) };
      if (!output.partition_by) {
        yield Step({ id: name, key: [name], params });
        continue;
      }
      const { partition, partitions } = inputs[this.sources.indexOf(output.from)];
      const inside = (value) => liesWithin(partition[0], value, name, output);
      const found = partition.length ? partitions.filter(inside) : partitions;
      for (const [n, value] of found.entries()) {
        // The declaration is said once: a plan of many partitions stays small.
        const said = n === 0 ? params : { output: name };
        yield Step({ id: `${name}/${n}`, key: [name, value], params: { ...said, partition: value } });
      }
    }
  }

  #declared(output) {
    const said = declaration(output);
    said.format = formatFrom(output, this.#contracts[output.from].format);
    delete said.allow_empty; // it says what is held, not what is made
    return said;
  }

  /** Before the first step: what it takes to perform one is not free to load, and a NOOP performs none. */
  async prepare() {
    const { Performing } = await import("./step_runner.mjs");
    this.#performing ??= new Performing(this.sources, this.#outputs, this.#contracts, this.#limits);
  }

  perform(step, read) {
    return this.#performing.perform(step, read);
  }
}

function liesWithin(window, value, name, output) {
  const found = within(window, value);
  if (found === null) {
    throw new BadInput(`output ${name}: a value of ${printable(output.window_by)} is not a day, month, year or instant`, {
      hint: "write them in ISO 8601, such as 2026-01-31, or leave --window out",
    });
  }
  return found;
}
