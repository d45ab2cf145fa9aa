/**
 * The steps over rows, one by one: [number in the source, row]. The row of a table is a list of texts, found by their
 * place. The row of JSON is a Map, and a member it lacks is null. Twin of src/kfm/updaters/transforms/table_steps.py and
 * updaters/transforms/json_steps.py.
 */

import { canonicalText, decodeText } from "../../canonical.mjs";
import { compare } from "../../characters.mjs";
import { sortedKeys, sortKeys } from "../../transform_config.mjs";
import { lineOf } from "../../csv_format.mjs";
import { after, follow, renamed } from "./step_columns.mjs";
import { testOf } from "./filter_conditions.mjs";
import { deduplicated } from "./deduplication.mjs";
import { byNumber, Sorter } from "./external_sort.mjs";
import { cast, castText, comparePlaces, identity, isBlank, place as placeOf, textOf, UNFIT } from "./step_values.mjs";

// How rows are laid aside.
const TEXTS = {
  pack: (row) => row,
  unpack: (row) => row,
  sizeOf: (row) => row.reduce((size, text) => size + text.length, 0),
};
const RECORDS = {
  pack: (row) => canonicalText(row),
  unpack: (text) => decodeText(text, "a row", { maps: true }),
  sizeOf: (row) => canonicalText(row).length,
};

function* filtered(stream, test) {
  for (const entry of stream) if (test(entry[1])) yield entry;
}

export class TablePipeline {
  #ops = [];
  #room;

  constructor(names, steps, lookup, room) {
    this.names = [...names];
    this.types = names.map(() => "text");
    this.#room = room;
    follow(names, steps, { pointers: false }); // all names first
    for (const [step, place] of steps) {
      const op = this.#compile(step, place, lookup);
      if (op !== null) this.#ops.push(op);
    }
  }

  run(stream) {
    return this.#ops.reduce((rows, op) => op(rows), stream);
  }

  #compile(step, place, lookup) {
    const at = new Map(this.names.map((name, i) => [name, i]));
    if (step.filter !== null) {
      const test = testOf(step.filter);
      const i = at.get(step.filter.column);
      return (stream) => filtered(stream, (row) => test(row[i]));
    }
    const casts = sortedKeys(step.cast).map((name) => [at.get(name), name, step.cast[name]]);
    if (casts.length) {
      for (const [i, , kind] of casts) this.types[i] = kind;
      return (stream) => castTexts(stream, casts, step.unfit ?? "refuse", place);
    }
    if (step.join !== null) {
      const found = lookup(step, place);
      const on = sortedKeys(step.join.on).map((name) => at.get(name));
      this.names = after(this.names, step);
      this.types = [...this.types, ...step.join.add.map(() => "text")];
      return (stream) => joinedTexts(stream, on, found, step.join, place);
    }
    if (step.select.length) {
      const places = step.select.map((name) => at.get(name));
      this.types = places.map((i) => this.types[i]);
      this.names = [...step.select];
      return (stream) => picked(stream, places);
    }
    if (Object.keys(step.rename).length) {
      this.names = after(this.names, step);
      return null;
    }
    if (step.deduplicate !== null) {
      const by = step.deduplicate.by.map((name) => at.get(name));
      return (stream) =>
        deduplicated(stream, step.deduplicate.keep, (row) => textKey(by, row), TEXTS, this.#room);
    }
    const keys = sortKeys(step);
    const by = keys.map((key) => at.get(key.column));
    const numeric = by.map((i) => this.types[i] === "integer" || this.types[i] === "number");
    return (stream) =>
      sorted(
        stream,
        (row) => by.map((i, n) => (numeric[n] ? (row[i] === "" ? null : Number(row[i])) : isBlank(row[i]) ? null : row[i])),
        numeric.map((is) => (is ? byNumber : compare)),
        keys.map((key) => key.descending),
        TEXTS,
        this.#room,
      );
  }
}

function* castTexts(stream, casts, unfit, place) {
  next: for (const [number, row] of stream) {
    const found = [...row];
    for (const [i, name, kind] of casts) {
      let text = castText(kind, row[i]);
      if (text === UNFIT) {
        if (unfit === "refuse") throw place.unfit(number, name, kind);
        if (unfit === "drop") continue next;
        text = "";
      }
      found[i] = text;
    }
    yield [number, found];
  }
}

function* joinedTexts(stream, on, lookup, join, place) {
  for (const [number, row] of stream) {
    const found = lookup.get(on.map((i) => row[i]));
    if (found === null && join.missing === "refuse") throw place.noMatch(number, join.source);
    if (found === null && join.missing === "drop") continue;
    yield [number, [...row, ...(found === null ? join.add.map(() => "") : found.map(textOf))]];
  }
}

function* picked(stream, places) {
  for (const [number, row] of stream) yield [number, places.map((i) => row[i])];
}

function textKey(by, row) {
  const parts = by.map((i) => (isBlank(row[i]) ? "" : row[i]));
  if (parts.every((part) => part === "")) return null;
  return parts.length === 1 ? parts[0] : lineOf(parts);
}

function* sorted(stream, keysOf, compares, descending, form, room) {
  const sorter = new Sorter(keysOf, compares, descending, form, room);
  try {
    for (const [number, row] of stream) sorter.add(row, [number]);
    for (const { row, tags } of sorter.entries()) yield [tags[0], row];
  } finally {
    sorter.close();
  }
}

// ------------------------------------------------------------------------------------------- JSON

export class RecordPipeline {
  #members;
  #steps;
  #room;
  #ops;
  #pointers = [];

  constructor(members, steps, lookup, room) {
    this.#members = members;
    this.#steps = steps;
    this.#room = room;
    this.#ops = steps.map(([step, at]) => this.#compile(step, at, lookup));
  }

  *run(stream) {
    yield* this.#ops.reduce((rows, op) => op(rows), stream);
    if (!this.#members.any) return;
    follow([...this.#members.names].sort(compare), this.#steps, { pointers: true });
    for (const [at, columns, pointers] of this.#pointers) {
      for (const column of columns) if (pointers.any && !pointers.found.has(column)) throw at.noColumn(column);
    }
  }

  #compile(step, at, lookup) {
    if (step.filter !== null) {
      const test = testOf(step.filter);
      const { column } = step.filter;
      return (stream) => filtered(stream, (row) => test(row.get(column)));
    }
    const casts = sortedKeys(step.cast);
    if (casts.length) return (stream) => castValues(stream, casts, step.cast, step.unfit ?? "refuse", at);
    if (step.join !== null) {
      const found = lookup(step, at);
      const on = sortedKeys(step.join.on);
      return (stream) => joinedValues(stream, on, found, step.join, at);
    }
    if (step.select.length) {
      const pointers = { any: false, found: new Set() };
      this.#pointers.push([at, step.select.filter((name) => name.startsWith("/")), pointers]);
      return (stream) => selected(stream, step.select, pointers);
    }
    if (Object.keys(step.rename).length) return (stream) => renamedValues(stream, step.rename, at);
    if (step.deduplicate !== null) {
      const { by, keep } = step.deduplicate;
      return (stream) => deduplicated(stream, keep, (row) => recordKey(by, row), RECORDS, this.#room);
    }
    const keys = sortKeys(step);
    return (stream) =>
      sorted(
        stream,
        (row) => keys.map((key) => placeOf(row.get(key.column))),
        keys.map(() => comparePlaces),
        keys.map((key) => key.descending),
        RECORDS,
        this.#room,
      );
  }
}

function* selected(stream, columns, pointers) {
  for (const [number, row] of stream) {
    pointers.any = true;
    yield [number, new Map(columns.map((column) => [column, pickedValue(row, column, pointers)]))];
  }
}

function pickedValue(row, column, pointers) {
  if (row.has(column)) {
    if (column.startsWith("/")) pointers.found.add(column);
    return row.get(column);
  }
  if (!column.startsWith("/")) return null;
  let value = row;
  for (const raw of column.slice(1).split("/")) {
    const part = raw.replaceAll("~1", "/").replaceAll("~0", "~");
    if (value instanceof Map && value.has(part)) value = value.get(part);
    else if (Array.isArray(value) && /^(?:0|[1-9][0-9]{0,8})$/.test(part) && Number(part) < value.length) {
      value = value[Number(part)];
    } else return null;
  }
  pointers.found.add(column);
  return value;
}

function* renamedValues(stream, rename, at) {
  const targets = sortedKeys(rename)
    .map((name) => rename[name])
    .filter((name) => !Object.hasOwn(rename, name));
  for (const [number, row] of stream) {
    checkFree(row, targets, at);
    const found = new Map();
    for (const [name, value] of row) found.set(renamed(rename, name), value);
    yield [number, found];
  }
}

function checkFree(row, names, at) {
  for (const name of names) if (row.has(name)) throw at.taken(name);
}

function* castValues(stream, columns, kinds, unfit, at) {
  next: for (const [number, row] of stream) {
    const found = new Map(row);
    for (const column of columns) {
      if (!row.has(column)) continue;
      let value = cast(kinds[column], row.get(column));
      if (value === UNFIT) {
        if (unfit === "refuse") throw at.unfit(number, column, kinds[column]);
        if (unfit === "drop") continue next;
        value = null;
      }
      found.set(column, value);
    }
    yield [number, found];
  }
}

function* joinedValues(stream, on, lookup, join, at) {
  for (const [number, row] of stream) {
    checkFree(row, join.add, at);
    const added = lookup.get(on.map((column) => row.get(column) ?? null));
    if (added === null && join.missing === "refuse") throw at.noMatch(number, join.source);
    if (added === null && join.missing === "drop") continue;
    const found = new Map(row);
    join.add.forEach((name, n) => found.set(name, added === null ? null : added[n]));
    yield [number, found];
  }
}

function recordKey(by, row) {
  const parts = by.map((column) => identity(row.get(column)));
  return parts.every((part) => part === null) ? null : canonicalText(parts);
}
