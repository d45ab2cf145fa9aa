/** What perform() reads: the accepted bytes of the inputs, and the outputs of the steps it needs. */

import { decode } from "../canonical.mjs";
import { Refused } from "../errors.mjs";
import { printable } from "../names.mjs";
import { Layout } from "../records.mjs";
import { attended } from "./streams.mjs";

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

  /** Whole, checked against its digest. An input by position or name, or a needed step by id. */
  bytes(source) {
    return this.#walk.ports.objects.read(this.#digest(source));
  }

  /** The same as a stream, checked when it was read to its end. */
  open(source) {
    return attended(this.#walk, this.#walk.ports.objects.open(this.#digest(source)));
  }

  /** How the text of an input is written, as its contract says. */
  layout(source) {
    return this.#input(source)?.layout ?? Layout();
  }

  /** Whole, read strictly: a key twice, NaN or half a surrogate pair is refused. */
  json(source) {
    return decode(this.bytes(source), String(source));
  }
}
