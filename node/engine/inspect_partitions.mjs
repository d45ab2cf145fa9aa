/** The distinct values of the column a contract partitions by. Twin of src/kfm/validation/partition_values.py. */

import { BadInput } from "../errors.mjs";
import { Column } from "../records.mjs";
import { ColumnCheck } from "./inspect_columns.mjs";
import { grouped } from "./inspect_findings.mjs";

export const MAX_PARTITIONS = 100_000;

/** Collects into `Outcome.partitions`. Blank values name no partition; values are kept as they were written. */
export class Partitions {
  #check;
  #name;
  #found;

  constructor(contract, out) {
    const named = contract.columns.find((column) => column.name === contract.partition_by);
    this.#check = new ColumnCheck(named ?? Column({ name: contract.partition_by }));
    this.#name = contract.partition_by;
    this.#found = out.partitions;
  }

  add(value) {
    if (this.#found.has(value) || this.#check.blank(value)) return;
    this.#found.add(value);
    if (this.#found.size > MAX_PARTITIONS) {
      throw new BadInput(`column ${this.#name} has more than ${grouped(MAX_PARTITIONS)} distinct values`, {
        hint: "partition by a column with fewer, or not at all",
      });
    }
  }
}
