/**
 * What a field may hold, said in values, and records made of such fields: what msgspec's structs are to the twin. A
 * record is a plain object with every field present, in the order of its declaration. `convert` reads one from plain
 * values as strictly as msgspec does; shape.mjs says in words what is wrong with those it refuses.
 */

export const text = { kind: "text" };
export const integer = { kind: "integer" };
export const number = { kind: "number" };
export const boolean = { kind: "boolean" };
export const any = { kind: "any" };

/** The same type with bounds: `min` and `max` of the length of a text or list; `ge`, `gt`, `le`, `lt` of a number. */
export const bounded = (type, bounds) => ({ ...type, ...bounds });
export const literal = (...values) => ({ kind: "literal", values });
export const list = (item) => ({ kind: "list", item });
export const tuple = (...items) => ({ kind: "tuple", items });
export const map = (item) => ({ kind: "map", item });
/** One of several types, chosen by the kind of the value: text, number, boolean or a record. */
export const choice = (...types) => ({ kind: "choice", types: types.map(asType) });
export const nullable = (type) => ({ ...type, nullable: true });

/** Thrown by `convert`: the value is not of the type. shape.mjs finds out where and why. */
export class Mismatch extends Error {}

/**
 * A kind of record. `fields` is {name: type} for what must be given, {name: [type, default]} for the rest.
 * The result makes a record from what is given; as a type it is `of(Kind)`.
 */
export function record(name, fields) {
  const declared = Object.entries(fields).map(([field, said]) => {
    const required = !Array.isArray(said);
    const type = asType(required ? said : said[0]);
    return { name: field, type, required, fallback: required ? undefined : said[1] };
  });
  const known = new Map(declared.map((field) => [field.name, field]));
  const make = (given = {}) => {
    const made = {};
    for (const field of declared) {
      const value = given[field.name];
      if (value === undefined && field.required) throw new TypeError(`${name} needs ${field.name}`);
      const kept = value === undefined ? fresh(field.fallback) : value;
      if (kept !== undefined) made[field.name] = kept; // else it is one that is absent where there is nothing to say
    }
    for (const field in given) if (!known.has(field)) throw new TypeError(`${name} has no ${field}`);
    return made;
  };
  Object.defineProperty(make, "name", { value: name });
  make.fields = known;
  make.type = { kind: "struct", name, fields: known, make };
  return make;
}

/** A default is shared by all records of a kind, so each gets its own copy of what could be changed. */
function fresh(value) {
  if (Array.isArray(value)) return value.map(fresh);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fresh(item)]));
}

/** The type itself, or that of a kind of record. */
export const asType = (type) => (typeof type === "function" ? type.type : type);

/** A record with some fields changed; a name it does not have is a mistake. */
export function replace(before, changes) {
  for (const name in changes) if (!(name in before)) throw new TypeError(`a record has no ${name}`);
  return { ...before, ...changes };
}

/** Whether something is what JSON calls an object. */
export function isMapping(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** An integer as msgspec and JSON share it: whole, and one of those a double holds exactly. */
export function isInteger(value) {
  return Number.isInteger(value) && Math.abs(value) <= 2 ** 53;
}

/** A plain value as `type`, with defaults filled in; Mismatch if it is anything else. */
export function convert(type, value) {
  type = asType(type);
  if (value === null && (type.nullable || type.kind === "any")) return null;
  switch (type.kind) {
    case "any":
      return value;
    case "text":
      return kept(typeof value === "string" && fits(type, value), value);
    case "integer":
      return kept(typeof value === "number" && isInteger(value) && within(type, value), value);
    case "number":
      return kept(typeof value === "number" && within(type, value), value);
    case "boolean":
      return kept(typeof value === "boolean", value);
    case "literal":
      return kept(type.values.includes(value), value);
    case "list":
      return kept(Array.isArray(value) && holds(type, value), value).map((item) => convert(type.item, item));
    case "tuple":
      kept(Array.isArray(value) && value.length === type.items.length, value);
      return value.map((item, at) => convert(type.items[at], item));
    case "choice":
      return convert(kept(meant(type, value), meant(type, value)), value);
    case "map":
      return mapped(type, kept(isMapping(value), value));
    case "struct":
      return structured(type, kept(isMapping(value), value));
  }
  throw new TypeError(`no type is of the kind ${type.kind}`);
}

/** Of a choice the type that a value of this kind is meant to be, or null. */
export function meant(type, value) {
  const kinds = {
    string: ["text"],
    number: ["number", "integer"],
    boolean: ["boolean"],
    object: isMapping(value) ? ["struct"] : [],
  }[typeof value] ?? [];
  for (const kind of kinds) for (const one of type.types) if (one.kind === kind) return one;
  return null;
}

function kept(right, value) {
  if (!right) throw new Mismatch();
  return value;
}

function mapped(type, value) {
  const made = Object.create(null);
  for (const key of Object.keys(value)) made[key] = convert(type.item, value[key]);
  return made;
}

function structured(type, value) {
  const made = {};
  let found = 0;
  for (const field of type.fields.values()) {
    if (Object.hasOwn(value, field.name)) {
      made[field.name] = convert(field.type, value[field.name]);
      found += 1;
    } else if (field.required) throw new Mismatch();
    else if (field.fallback !== undefined) made[field.name] = fresh(field.fallback);
  }
  if (found !== Object.keys(value).length) throw new Mismatch();
  return made;
}

/** Whether a list is as long as it may be. */
export function holds(type, value) {
  return value.length >= (type.min ?? 0) && value.length <= (type.max ?? Infinity);
}

/** Whether a text is as long as it may be. */
export function fits(type, value) {
  if (type.min === undefined && type.max === undefined) return true;
  const count = [...value].length;
  return count >= (type.min ?? 0) && count <= (type.max ?? Infinity);
}

/** Whether a number is within its bounds. */
export function within(type, value) {
  return (
    (type.ge === undefined || value >= type.ge) &&
    (type.gt === undefined || value > type.gt) &&
    (type.le === undefined || value <= type.le) &&
    (type.lt === undefined || value < type.lt)
  );
}
