/** Stored bytes as the record they are, or what is wrong with them, in the words of the other language. */

import { Corrupt } from "../errors.mjs";
import { asType, convert, isInteger, isMapping, Mismatch } from "../types.mjs";

/** `kind` is a kind of record, or a type of types.mjs. */
export function decodeRecord(body, kind, where) {
  const type = asType(kind);
  let value;
  try {
    value = JSON.parse(body.toString("utf8"));
  } catch (problem) {
    throw unreadable(where, malformed(problem, body), problem);
  }
  try {
    return convert(type, value);
  } catch (problem) {
    if (!(problem instanceof Mismatch)) throw problem;
    const [what, place] = firstProblem(type, value, "$") ?? ["the value is not of its type", "$"];
    throw unreadable(where, place === "$" ? what : `${what} - at \`${place}\``, problem);
  }
}

function unreadable(where, what, cause) {
  return new Corrupt(`record ${where} cannot be read: ${what}`, { hint: "restore the state from a copy", cause });
}

function malformed(problem, body) {
  const at = /at position (\d+)/.exec(problem.message)?.[1];
  if (at === undefined || !body.length || /end of JSON input/.test(problem.message)) return "Input data was truncated";
  return `JSON is malformed: invalid character (byte ${at})`;
}

function firstProblem(type, value, place) {
  if (type.kind === "any" || (value === null && type.nullable)) return null;
  if (type.kind === "literal" && typeof value === "string") {
    return type.values.includes(value) ? null : [`Invalid enum value '${value}'`, place];
  }
  const found = nameOf(value, type);
  const wanted = wantedOf(type);
  if (found !== wanted && !(wanted === "float" && found === "int")) {
    return [`Expected \`${wanted}${type.nullable ? " | null" : ""}\`, got \`${found}\``, place];
  }
  if (type.kind === "struct") return structProblem(type, value, place);
  if (type.kind === "map") return firstOf(Object.values(value), () => type.item, `${place}[...]`);
  if (type.kind === "list") return firstOf(value, () => type.item, `${place}[...]`);
  if (type.kind === "tuple") {
    if (value.length !== type.items.length) return [`Expected \`array\` of length ${type.items.length}`, place];
    for (const [at, item] of value.entries()) {
      const problem = firstProblem(asType(type.items[at]), item, `${place}[${at}]`);
      if (problem) return problem;
    }
  }
  return null;
}

function firstOf(items, typeOf, place) {
  for (const item of items) {
    const problem = firstProblem(asType(typeOf(item)), item, place);
    if (problem) return problem;
  }
  return null;
}

function structProblem(type, value, place) {
  for (const [name, item] of Object.entries(value)) {
    const field = type.fields.get(name);
    if (field === undefined) return [`Object contains unknown field \`${name}\``, place];
    const problem = firstProblem(asType(field.type), item, `${place}.${name}`);
    if (problem) return problem;
  }
  for (const field of type.fields.values()) {
    if (field.required && !Object.hasOwn(value, field.name)) {
      return [`Object missing required field \`${field.name}\``, place];
    }
  }
  return null;
}

function wantedOf(type) {
  const names = { text: "str", literal: "str", integer: "int", number: "float", boolean: "bool", list: "array", tuple: "array" };
  return names[type.kind] ?? "object";
}

function nameOf(value, type) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (isMapping(value)) return "object";
  if (typeof value === "string") return "str";
  if (typeof value === "boolean") return "bool";
  return isInteger(value) && type.kind !== "number" ? "int" : "float";
}
