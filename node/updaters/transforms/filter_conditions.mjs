/** What a filter asks of a value. Twin of src/kfm/updaters/transforms/filter_conditions.py. */

import { compare } from "../../characters.mjs";
import { globParts } from "../../transform_config.mjs";
import { isBlank, numberOf, textOf, truthOf } from "./step_values.mjs";

const COMPARE = {
  equals: (order) => order === 0,
  above: (order) => order > 0,
  below: (order) => order < 0,
  at_least: (order) => order >= 0,
  at_most: (order) => order <= 0,
};

export function testOf(said) {
  const tests = [];
  for (const name of Object.keys(COMPARE)) if (said[name] !== null) tests.push(compared(name, said[name]));
  if (said.not_equals !== null) {
    const same = compared("equals", said.not_equals);
    tests.push((value) => !same(value));
  }
  if (said.in.length) {
    const any = said.in.map((operand) => compared("equals", operand));
    tests.push((value) => any.some((test) => test(value)));
  }
  if (said.matches) {
    const glob = new Glob(said.matches);
    tests.push((value) => !isBlank(value) && glob.fits(textOf(value)));
  }
  if (said.blank !== null) tests.push((value) => isBlank(value) === said.blank);
  return tests.length === 1 ? tests[0] : (value) => tests.every((test) => test(value));
}

function compared(name, operand) {
  const answer = COMPARE[name];
  const kind = typeof operand;
  const read = kind === "boolean" ? truthOf : kind === "string" ? textOf : numberOf;
  if (kind === "string") return (value) => !isBlank(value) && answer(compare(read(value), operand));
  return (value) => {
    if (isBlank(value)) return false;
    const found = read(value);
    return found !== null && answer(found < operand ? -1 : found > operand ? 1 : 0);
  };
}

export class Glob {
  constructor(pattern) {
    const parts = globParts(pattern);
    this.single = parts.length === 1;
    this.first = new Part(parts[0]);
    this.last = new Part(parts.at(-1));
    this.between = parts
      .slice(1, -1)
      .map((pieces) => new Part(pieces))
      .filter((part) => part.size);
  }

  fits(text) {
    const signs = Array.from(text); // characters, where JavaScript counts halves of some
    if (this.single) return signs.length === this.first.size && this.first.at(signs, 0);
    const end = signs.length - this.last.size;
    if (end < this.first.size || !this.first.at(signs, 0) || !this.last.at(signs, end)) return false;
    let position = this.first.size;
    for (const part of this.between) {
      while (position + part.size <= end && !part.at(signs, position)) position += 1;
      if (position + part.size > end) return false;
      position += part.size;
    }
    return true;
  }
}

class Part {
  constructor(pieces) {
    this.signs = [];
    pieces.forEach((piece, n) => {
      if (n) this.signs.push(null);
      this.signs.push(...piece);
    });
    this.size = this.signs.length;
  }

  at(signs, position) {
    for (let n = 0; n < this.size; n += 1) {
      if (this.signs[n] !== null && this.signs[n] !== signs[position + n]) return false;
    }
    return true;
  }
}
