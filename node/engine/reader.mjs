/** What perform() reads: the accepted bytes of the inputs, and the outputs of the steps it needs. */

import { decode } from "../canonical.mjs";
import { BadInput, Refused } from "../errors.mjs";
import { printable } from "../names.mjs";
import { Layout } from "../records.mjs";
import { readTable } from "./inspect_rows.mjs";
import { Unreadable } from "./inspect_findings.mjs";
import { ListInJson } from "./inspect_split.mjs";
import { openScratch } from "./scratch.mjs";
import { attended, linesOf } from "./streams.mjs";

export class StepReader {
  #walk;
  #inputs;
  #index;
  #results;
  #byName = new Map();

  constructor(walk, index, results) {
    this.#walk = walk;
    this.#inputs = Object.freeze([...walk.inputs]);
    this.#index = index;
    this.#results = results;
    for (const ref of walk.inputs) if (ref.name) this.#byName.set(ref.name, ref);
  }

  get inputs() {
    return this.#inputs;
  }

  #input(source) {
    if (typeof source === "string") return this.#byName.get(source) ?? null;
    if (!(source >= 0 && source < this.#inputs.length)) {
      throw new Refused(`there is no input ${source}`, { hint: `the run has ${this.#inputs.length}, counted from 0` });
    }
    return this.#inputs[source];
  }

  #digest(source) {
    if (typeof source !== "string" && !Number.isInteger(source)) {
      throw new Refused("perform() reads what is neither the number nor the name of an input", {
        hint: "e.g. read.csv(0)",
      });
    }
    const ref = this.#input(source);
    if (ref !== null) return ref.accepted_hash || ref.content_hash;
    const position = this.#index?.get(source) ?? -1;
    if (position < 0 || !this.#results.isDone(position)) {
      throw new Refused(`${printable(source)} is neither an input nor a finished step`, {
        hint: "name the step in `needs` to read its output",
        discreet: "perform() reads what is neither an input nor a finished step",
      });
    }
    return this.#results.get(position)[1];
  }

  #layout(source) {
    return this.#input(source)?.layout ?? Layout();
  }

  /** Whole, checked against its digest. An input by position or name, or a needed step by id. */
  bytes(source) {
    return this.#walk.ports.objects.read(this.#digest(source));
  }

  /** The same as a stream, checked when it was read to its end. */
  open(source) {
    return attended(this.#walk, this.#walk.ports.objects.open(this.#digest(source)));
  }

  /** The names of the columns of a csv, and its rows block by block. */
  table(source) {
    return readTable(this.open(source), this.#layout(source), String(source));
  }

  /**
   * The records of a list in a JSON document, one by one, each read strictly: the list in the member `root`, or
   * the list at the top. A document without such a list is the one record, under a `root` only if it may stand
   * `alone`. Objects are Maps, in the order of the text.
   */
  *records(source, root = "", { alone = false } = {}) {
    const file = this.open(source);
    try {
      const found = new ListInJson(file, root, { alone });
      let number = 0;
      try {
        for (const record of found.records()) {
          number += 1;
          yield decode(record, `${source}, record ${number}`, { maps: true });
        }
      } catch (flaw) {
        throw flaw instanceof Unreadable ? new BadInput(`${source}: ${flaw.message}`) : flaw;
      }
      if (found.alone !== null) yield decode(found.alone, String(source), { maps: true });
    } finally {
      file.close();
    }
  }

  /** A file for what does not fit into memory: `write(body)` at its end, `readAt(offset, count)`, `size`, `close()`. */
  scratch() {
    return openScratch(this.#walk);
  }

  /** Whole, read strictly: a key twice, NaN or half a surrogate pair is refused. Objects are Maps. */
  json(source) {
    return decode(this.bytes(source), String(source), { maps: true });
  }

  /** Line by line, each read strictly; blank lines are passed over. Objects are Maps. */
  *ndjson(source) {
    const file = this.open(source);
    try {
      let number = 0;
      for (const line of linesOf(file, { bytes: true })) {
        number += 1;
        const text = stripped(line);
        if (text.length) yield decode(text, `${source}, line ${number}`, { maps: true });
      }
    } finally {
      file.close();
    }
  }
}

/** Without the white space of ASCII at its ends. */
function stripped(line) {
  const isSpace = (code) => code === 32 || (code >= 9 && code <= 13);
  let start = 0;
  let end = line.length;
  while (start < end && isSpace(line[start])) start += 1;
  while (end > start && isSpace(line[end - 1])) end -= 1;
  return line.subarray(start, end);
}
