/**
 * What goes wrong with a declaration over data: one line that names the output, the step and the place.
 * Twin of src/kfm/updaters/transforms/transform_errors.py.
 */

import { BadInput } from "../../errors.mjs";
import { printable } from "../../names.mjs";

const NOUN = { integer: "an integer", number: "a number", boolean: "true or false" };
const EXACTLY = "correct the name in kfm.yml; it must match exactly";

export class Place {
  constructor(output, source, number, verb) {
    this.output = output;
    this.source = source;
    this.number = number;
    this.verb = verb;
  }

  toString() {
    return `output ${this.output}, step ${this.number} (${this.verb})`;
  }

  noColumn(column) {
    return new BadInput(`${this}: there is no column ${printable(column)}`, { hint: EXACTLY, column });
  }

  taken(column) {
    return new BadInput(`${this}: there is a column ${printable(column)} already`, {
      hint: "rename or leave out one of the two",
      column,
    });
  }

  unfit(row, column, kind) {
    return new BadInput(
      `${this}: row ${row} of source ${this.source}, column ${printable(column)} is not ${NOUN[kind]}`,
      { hint: "correct the source, or write unfit: blank or unfit: drop next to the cast", row, column },
    );
  }

  noMatch(row, lookup) {
    return new BadInput(`${this}: row ${row} of source ${this.source} has no match in source ${lookup}`, {
      hint: "add it there, or write missing: keep or missing: drop",
      row,
    });
  }

  lookupLacks(lookup, column) {
    return new BadInput(`${this}: source ${lookup} has no column ${printable(column)}`, { hint: EXACTLY, column });
  }

  ambiguous(lookup, first, second) {
    return new BadInput(`${this}: rows ${first} and ${second} of source ${lookup} have the same key`, {
      hint: "a lookup has one row for each key",
      row: second,
    });
  }

  tooMany(lookup, limit) {
    const shown = String(limit).replace(/\B(?=(?:\d{3})+$)/g, ",");
    return new BadInput(`${this}: source ${lookup} has more than ${shown} rows to look up in`, {
      hint: "join the larger source with the smaller one",
    });
  }
}

export function noObject(output, source, row) {
  return new BadInput(`output ${output}: row ${row} of source ${source} is not an object`, {
    hint: "a contract with columns holds such rows back",
    row,
  });
}

export function noFeature(output, source, row, what) {
  return new BadInput(`output ${output}: row ${row} of source ${source} cannot be a feature: ${what}`, {
    hint: "write it as json, or correct the source",
    row,
  });
}
