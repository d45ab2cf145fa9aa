/**
 * Performs a step of a declaration: reads, transforms, writes. The second half of
 * src/kfm/updaters/transforms/transform_updater.py, loaded only where there is something to perform.
 */

import { formatFrom, verbsOf } from "../../transform_config.mjs";
import { holdsRows } from "../../csv_format.mjs";
import { after } from "./step_columns.mjs";
import { Lookup } from "./join.mjs";
import { Place } from "./transform_errors.mjs";
import { Members, Properties, rowsOf, tableRows } from "./json_rows.mjs";
import { RecordPipeline, TablePipeline } from "./table_steps.mjs";
import { LIMITS } from "./external_sort.mjs";
import { textOf } from "./step_values.mjs";
import * as writing from "./output_bytes.mjs";

const INLINE_MAX = 64 * 1024; // outputs up to this size are handed over whole

export class Performing {
  #sources;
  #outputs;
  #contracts;
  #limits;
  #lookups = new Map(); // the last ones, which the next partition will ask for again

  constructor(sources, outputs, contracts, limits) {
    this.#sources = sources;
    this.#outputs = outputs;
    this.#contracts = contracts;
    this.#limits = limits ?? LIMITS;
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
    const body = writing.whole(writing.gathered(parts), INLINE_MAX);
    const mediaType = writing.MEDIA_TYPES[format];
    const empty = Buffer.isBuffer(body) && !output.allow_empty && !holdsRows(mediaType, body);
    return { body, media_type: mediaType, rows: empty ? 0 : null };
  }

  #lookup(read, step, place) {
    const ref = read.inputs[this.#sources.indexOf(step.join.source)];
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
