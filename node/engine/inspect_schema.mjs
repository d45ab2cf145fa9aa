/**
 * A part of JSON Schema 2020-12 that is checked in full; a keyword outside it is refused, never skipped.
 *
 * Twin of src/kfm/validation/json_schema_subset.py. Schemas are plain objects, as the configuration gives them; values are
 * as `decode` gives them with Maps. A break is [JSON pointer, keyword].
 */

import { canonical, canonicalText } from "../canonical.mjs";
import { compare, length } from "../characters.mjs";
import { BadInput } from "../errors.mjs";
import { KNOWN, MAX_MATCHED, NOTES, NUMBERS, SIZES } from "../generated/inspection.mjs";
import { compiled, patternFlaw } from "../patterns.mjs";
import { isLonger } from "./inspect_text.mjs";

export const MAX_BREAKS = 20; // reported per record

const known = new Set([...KNOWN, ...NOTES]);
const TYPES = {
  null: (v) => v === null,
  boolean: (v) => typeof v === "boolean",
  integer: (v) => Number.isInteger(v),
  number: (v) => typeof v === "number",
  string: (v) => typeof v === "string",
  array: (v) => Array.isArray(v),
  object: (v) => v instanceof Map,
};

const isSchemaObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isText = (value) => typeof value === "string";
const own = (owner, name, otherwise) => (Object.hasOwn(owner, name) ? owner[name] : otherwise);

/** What cannot be checked in a schema, or makes no sense in it. */
export function schemaProblems(schema, place = "json_schema") {
  if (typeof schema === "boolean") return [];
  if (!isSchemaObject(schema)) return [`${place} must be an object, true or false`];
  const strange = Object.keys(schema).filter((name) => !known.has(name));
  const problems = strange.sort(compare).map((name) => `${place}: the keyword ${name} is not supported`);
  const wrong = Object.keys(SHAPES).filter((name) => Object.hasOwn(schema, name) && !SHAPES[name](schema[name]));
  problems.push(...wrong.map((name) => `${place}: ${name} does not have the form JSON Schema gives it`));
  if (Object.hasOwn(schema, "pattern") && !wrong.includes("pattern")) {
    const problem = patternFlaw(schema.pattern);
    if (problem) problems.push(`${place}: pattern ${problem}`);
  }
  if (isSchemaObject(own(schema, "properties", null))) {
    for (const [name, inner] of sortedMembers(schema.properties)) {
      problems.push(...schemaProblems(inner, `${place}.properties.${name}`));
    }
  }
  for (const name of ["items", "additionalProperties"]) {
    if (Object.hasOwn(schema, name)) problems.push(...schemaProblems(schema[name], `${place}.${name}`));
  }
  return problems;
}

/** An order of our own: files have none. */
const sortedMembers = (owner) => Object.entries(owner).sort((a, b) => compare(a[0], b[0]));

function isType(value) {
  const names = Array.isArray(value) && value.length ? value : [value];
  return names.every((name) => isText(name) && Object.hasOwn(TYPES, name));
}

function hasForm(value) {
  try {
    canonical(value);
  } catch (problem) {
    if (problem instanceof BadInput) return false;
    throw problem;
  }
  return true;
}

const SHAPES = {
  type: isType,
  enum: (v) => Array.isArray(v) && v.length > 0 && hasForm(v),
  const: hasForm,
  required: (v) => Array.isArray(v) && v.every(isText),
  properties: isSchemaObject,
  pattern: isText,
  ...Object.fromEntries(NUMBERS.map((name) => [name, (v) => Number.isFinite(v)])),
  ...Object.fromEntries(SIZES.map((name) => [name, (v) => Number.isInteger(v) && v >= 0])),
};

/** Compile a schema without problems. The answer is where a value breaks it: at most twenty places. */
export function schemaCheck(schema) {
  const check = compile(schema);
  return (value) => {
    const found = [];
    for (const broken of check(value, "")) {
      found.push(broken);
      if (found.length === MAX_BREAKS) break;
    }
    return found;
  };
}

function compile(schema) {
  if (schema === true || (isSchemaObject(schema) && !Object.keys(schema).length)) return () => [];
  if (schema === false) return (_value, at) => [[at, "false"]];
  const single = [...simple(schema)];
  const inner = [objectCheck(schema), arrayCheck(schema)].filter((part) => part !== null);
  return function* check(value, at) {
    for (const [keyword, fits] of single) if (!fits(value)) yield [at, keyword];
    for (const part of inner) yield* part(value, at);
  };
}

const BOUNDS = [
  ["minimum", TYPES.number, (v, bound) => v >= bound],
  ["maximum", TYPES.number, (v, bound) => v <= bound],
  ["exclusiveMinimum", TYPES.number, (v, bound) => v > bound],
  ["exclusiveMaximum", TYPES.number, (v, bound) => v < bound],
  ["minLength", TYPES.string, (v, bound) => length(v) >= bound],
  ["maxLength", TYPES.string, (v, bound) => length(v) <= bound],
  ["minItems", TYPES.array, (v, bound) => v.length >= bound],
  ["maxItems", TYPES.array, (v, bound) => v.length <= bound],
];

/** Keywords that look at one value only; a value of a type they are not about fits. */
function* simple(schema) {
  if (Object.hasOwn(schema, "type")) {
    const kinds = (Array.isArray(schema.type) ? schema.type : [schema.type]).map((name) => TYPES[name]);
    yield ["type", (v) => kinds.some((fits) => fits(v))];
  }
  for (const keyword of ["enum", "const"]) {
    if (!Object.hasOwn(schema, keyword)) continue;
    const allowed = new Set((keyword === "enum" ? schema.enum : [schema.const]).map(canonicalText));
    yield [keyword, (v) => allowed.has(canonicalText(v))];
  }
  for (const [keyword, applies, fits] of BOUNDS) {
    if (Object.hasOwn(schema, keyword)) yield [keyword, (v) => !applies(v) || fits(v, schema[keyword])];
  }
  if (Object.hasOwn(schema, "pattern")) {
    const some = compiled(schema.pattern, { whole: false });
    yield ["pattern", (v) => typeof v !== "string" || (!isLonger(v, MAX_MATCHED) && some(v))];
  }
}

function objectCheck(schema) {
  const required = own(schema, "required", []);
  const properties = new Map(
    sortedMembers(own(schema, "properties", {})).map(([name, inner]) => [name, [`/${escaped(name)}`, compile(inner)]]),
  );
  const rest = own(schema, "additionalProperties", true);
  const others = compile(rest);
  if (!required.length && !properties.size && rest === true) return null;
  return function* check(value, at) {
    if (!(value instanceof Map)) return;
    for (const name of required) if (!value.has(name)) yield [`${at}/${escaped(name)}`, "required"];
    for (const [name, [step, inner]] of properties) if (value.has(name)) yield* inner(value.get(name), at + step);
    if (rest === true) return;
    for (const [name, inside] of value) {
      if (properties.has(name)) continue;
      if (rest === false) {
        yield [at, "additionalProperties"]; // its name is a value of the source: not reported
        return;
      }
      yield* others(inside, `${at}/*`);
    }
  };
}

function arrayCheck(schema) {
  if (own(schema, "items", true) === true) return null;
  const inner = compile(schema.items);
  return function* check(value, at) {
    if (!Array.isArray(value)) return;
    for (const [position, item] of value.entries()) yield* inner(item, `${at}/${position}`);
  };
}

const escaped = (name) => name.replaceAll("~", "~0").replaceAll("/", "~1");

/**
 * A document's schema as three: for the document with its list emptied, for each item, and the list's size.
 *
 * The document's list is the member `root`, or the document itself. `enum` and `const` on the way to it cannot be
 * split; `splitProblems` says so.
 */
export function splitAtList(schema, root) {
  if (!root) return [withoutItems(schema), own(schema, "items", true), sizeOf(schema)];
  const properties = own(schema, "properties", {});
  const listed = own(properties, root, own(schema, "additionalProperties", true));
  if (!isSchemaObject(listed)) return [schema, true, [0, null]];
  const outer = { ...schema, properties: { ...properties, [root]: withoutItems(listed) } };
  return [outer, own(listed, "items", true), sizeOf(listed)];
}

const sizeOf = (listed) => [own(listed, "minItems", 0), own(listed, "maxItems", null)];

function withoutItems(schema) {
  const kept = Object.entries(schema).filter(([name]) => !["items", "minItems", "maxItems"].includes(name));
  return Object.fromEntries(kept);
}

export function splitProblems(schema, root) {
  const inner = root ? own(own(schema, "properties", {}), root, own(schema, "additionalProperties", null)) : null;
  return ["enum", "const"]
    .filter((keyword) => Object.hasOwn(schema, keyword) || (isSchemaObject(inner) && Object.hasOwn(inner, keyword)))
    .map((keyword) => `json_schema: ${keyword} of the whole document, or of its list of records, is not supported`);
}
