/**
 * The updater that does what the configuration says: a step for each output, or for each of its partitions.
 * Twin of src/kfm/updaters/declared/updater.py.
 */

import { compare } from "../../characters.mjs";
import { declaration, formatFrom, sortedKeys, verbsOf } from "../../declared.mjs";
import { replace, Step } from "../../records.mjs";
import { after } from "./columns.mjs";
import { Lookup } from "./lookups.mjs";
import { Place } from "./problems.mjs";
import { Members, Properties, rowsOf, tableRows } from "./reading.mjs";
import { RecordPipeline, TablePipeline } from "./steps.mjs";
import { LIMITS } from "./sorting.mjs";
import { textOf } from "./values.mjs";
import * as writing from "./writing.mjs";

const INLINE_MAX = 64 * 1024; // outputs up to this size are handed over whole

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
  declared = true;
  moves_only = false;
  slo_target_latency_ms = 900_000;
  #outputs;
  #contracts;
  #limits;
  #lookups = new Map(); // the last ones, which the next partition will ask for again

  constructor(name, version, outputs, contracts, limits = LIMITS) {
    this.id = name;
    this.version = version;
    this.#outputs = outputs;
    this.#contracts = contracts;
    this.#limits = limits;
    const used = new Set();
    for (const output of Object.values(outputs)) {
      used.add(output.from);
      for (const step of output.steps) if (step.join !== null) used.add(step.join.source);
    }
    this.sources = [...used].sort(compare); // what it reads, in this order
  }

  async inputs(_trigger, sources) {
    const refs = [];
    for (const name of this.sources) refs.push(await sources.pin(name));
    return refs;
  }

  plan(inputs) {
    return { steps: this.#steps(inputs), complete: true };
  }

  *#steps(inputs) {
    for (const name of sortedKeys(this.#outputs)) {
      const output = this.#outputs[name];
      const params = { output: name, declared: this.#declared(output) };
      if (!output.partition_by) {
        yield Step({ id: name, key: [name], params });
        continue;
      }
      const { partitions } = inputs[this.sources.indexOf(output.from)];
      for (const [n, value] of partitions.entries()) {
        // The declaration is said once: a plan of many partitions stays small.
        const said = n === 0 ? params : { output: name };
        yield Step({ id: `${name}/${n}`, key: [name, value], params: { ...said, partition: value } });
      }
    }
  }

  #declared(output) {
    const said = declaration(output);
    said.format = formatFrom(output, this.#contracts[output.from].format);
    return said;
  }

  perform(step, read) {
    const name = step.params.output;
    const output = this.#outputs[name];
    const contract = this.#contracts[output.from];
    const format = formatFrom(output, contract.format);
    const steps = output.steps.map((one, n) => [one, new Place(name, output.from, n + 1, verbsOf(one)[0])]);
    const lookup = (one, place) => this.#lookup(read, one, place);
    const room = { ...this.#limits, scratch: () => read.scratch() };
    const partition = step.params.partition ?? null;
    const parts =
      contract.format === "csv"
        ? ofTable(output, partition, read, steps, lookup, room, format)
        : ofRecords(name, output, partition, read, contract, steps, lookup, room, format);
    return { body: writing.whole(writing.gathered(parts), INLINE_MAX), media_type: writing.MEDIA_TYPES[format] };
  }

  /** Read once for all partitions; a run reads the same bytes throughout. */
  #lookup(read, step, place) {
    const ref = read.inputs[this.sources.indexOf(step.join.source)];
    const key = `${place} ${ref.accepted_hash || ref.content_hash}`;
    if (!this.#lookups.has(key)) {
      const found = new Lookup(read, step.join, this.#contracts[step.join.source], place);
      while (this.#lookups.size >= 4) this.#lookups.delete(this.#lookups.keys().next().value);
      this.#lookups.set(key, found);
    }
    return this.#lookups.get(key);
  }
}

function ofTable(output, partition, read, steps, lookup, room, format) {
  const table = read.table(output.from);
  const pipeline = new TablePipeline(table.names, steps, lookup, room);
  const key = table.names.indexOf(output.partition_by);
  const rows = pipeline.run(only(tableRows(table), partition, (row) => row[key]));
  if (format === "csv") return writing.asCsv(pipeline.names, rows, writing.tableFields);
  return writing.around(writing.tableAsJson(pipeline.names, pipeline.types, rows), format);
}

function ofRecords(name, output, partition, read, contract, steps, lookup, room, format) {
  const members = new Members();
  const properties = new Properties(contract.format);
  const pipeline = new RecordPipeline(members, steps, lookup, room);
  const geographic = contract.format === "geojson" || contract.format === "stac";
  const key = geographic ? properties.column(output.partition_by) : output.partition_by;
  const rows = pipeline.run(only(rowsOf(read, name, output.from, contract, members), partition, (row) => row.get(key)));
  if (format === "csv") {
    const names = output.steps.reduce(after, []);
    return writing.asCsv(names, rows, writing.recordFields(names));
  }
  if (format === "geojson") {
    return writing.around(writing.recordsAsFeatures(rows, properties, name, output.from), format);
  }
  return writing.around(writing.recordsAsJson(rows), format);
}

/** The rows of one partition, or all. */
function* only(stream, partition, valueOf) {
  for (const entry of stream) if (partition === null || textOf(valueOf(entry[1])) === partition) yield entry;
}
