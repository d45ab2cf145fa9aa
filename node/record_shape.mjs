/**
 * Turns plain values into a record, or says in one line which key is wrong and what belongs there. The fast way is
 * `convert`; only a refused value is read again, to name the place. Twin of src/kfm/parsing/record_shape.py.
 */

import { dotted } from "./documents.mjs";
import { BadInput } from "./errors.mjs";
import { kind } from "./yaml_scalars.mjs";
import { asType, convert, fits, isInteger, isMapping, meant, Mismatch, within } from "./types.mjs";

const ADD = "add it";

export function into(document, type) {
  try {
    return convert(type, document.value);
  } catch (error) {
    if (!(error instanceof Mismatch)) throw error;
  }
  const found = [...problems(document, asType(type), document.value, [])].map((problem) => ({
    problem,
    last: problem[2] === ADD ? 1 : 0, // a misspelled key explains a missing one, so missing keys come last
    at: document.position(problem[0]),
  }));
  found.sort((a, b) => a.last - b.last || a.at[0] - b.at[0] || a.at[1] - b.at[1]);
  const [path, what, hint] = found[0].problem;
  throw new BadInput(`${document.place(path)}: ${what}`, { hint, key: dotted(path) });
}

function unknownKey(path, known) {
  return [path, `unknown key ${dotted(path)}`, `known here: ${known.join(", ")}`];
}

function* problems(document, type, value, path) {
  if (value === null && (type.nullable || type.kind === "any")) return;
  if (type.kind === "choice") {
    const chosen = meant(type, value);
    if (chosen === null) {
      yield wrong(path, type.types.map((one) => one.kind).join(" or "), value);
      return;
    }
    type = chosen;
  }
  switch (type.kind) {
    case "struct":
      yield* structProblems(document, type, value, path);
      break;
    case "map":
      if (!isMapping(value)) yield wrong(path, "a mapping", value);
      else {
        for (const key of document.keys(path, value)) {
          yield* problems(document, asType(type.item), value[key], [...path, key]);
        }
      }
      break;
    case "list":
      yield* listProblems(document, type, value, path);
      break;
    case "any":
      break;
    default:
      yield* scalarProblems(type, value, path);
  }
}

function* listProblems(document, type, value, path) {
  if (!Array.isArray(value)) {
    yield wrong(path, "a list", value);
    return;
  }
  if (value.length < (type.min ?? 0)) yield [path, `${dotted(path)} is empty`, "give it a value"];
  if (value.length > (type.max ?? Infinity)) {
    yield [path, `${dotted(path)} holds more than ${type.max}`, "remove some"];
  }
  for (const [index, item] of value.entries()) yield* problems(document, asType(type.item), item, [...path, index]);
}

function* structProblems(document, type, value, path) {
  if (!isMapping(value)) {
    yield wrong(path, "a mapping", value);
    return;
  }
  for (const key of document.keys(path, value)) {
    const field = type.fields.get(key);
    if (field) yield* problems(document, field.type, value[key], [...path, key]);
    else yield unknownKey([...path, key], [...type.fields.keys()]);
  }
  for (const field of type.fields.values()) {
    if (field.required && !Object.hasOwn(value, field.name)) {
      yield [path, `${dotted([...path, field.name])} is missing`, ADD];
    }
  }
}

function* scalarProblems(type, value, path) {
  switch (type.kind) {
    case "literal":
      yield* literalProblems(type, value, path);
      break;
    case "boolean":
      if (typeof value !== "boolean") yield wrong(path, "true or false", value);
      break;
    case "integer":
      if (typeof value !== "number" || !isInteger(value)) yield wrong(path, "an integer", value);
      else yield* rangeProblems(type, value, path);
      break;
    case "number":
      if (typeof value !== "number") yield wrong(path, "a number", value);
      else yield* rangeProblems(type, value, path);
      break;
    case "text":
      if (typeof value !== "string") yield wrong(path, "text", value);
      else if (!fits(type, value)) yield [path, `${dotted(path)} is empty, or too long`, ""];
  }
}

function* literalProblems(type, value, path) {
  if (!type.values.includes(value)) yield [path, `${dotted(path)} is not one of ${type.values.join(", ")}`, ""];
}

function* rangeProblems(type, value, path) {
  if (within(type, value)) return;
  const bounds = [["at least", type.ge], ["more than", type.gt], ["at most", type.le], ["less than", type.lt]];
  const wanted = bounds.filter(([, bound]) => bound !== undefined).map(([words, bound]) => `${words} ${bound}`);
  yield [path, `${dotted(path)} must be ${wanted.join(" and ")}`, ""];
}

function wrong(path, expected, value) {
  return [path, `${dotted(path)}: expected ${expected}, found ${kind(value)}`, "correct it, or leave the key out"];
}
