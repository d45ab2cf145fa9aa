/**
 * Which columns there are after each step: known beforehand, so a wrong name is reported early.
 * Twin of src/kfm/updaters/transforms/step_columns.py.
 */

import { sortedKeys, sortKeys } from "../../transform_config.mjs";

/** The columns a step looks at. Those that are keys of a mapping by name: here it has no order. */
export function asked(step) {
  if (step.filter !== null) return [step.filter.column];
  if (step.deduplicate !== null) return step.deduplicate.by;
  if (step.join !== null) return sortedKeys(step.join.on);
  const keys = sortKeys(step).map((key) => key.column);
  return [...step.select, ...sortedKeys(step.rename), ...sortedKeys(step.cast), ...keys];
}

export function after(names, step) {
  if (step.select.length) return [...step.select];
  if (Object.keys(step.rename).length) return names.map((name) => renamed(step.rename, name));
  if (step.join !== null) return [...names, ...step.join.add];
  return names;
}

export const renamed = (rename, name) => Object.hasOwn(rename, name) ? rename[name] : name;

export function check(names, step, place, { pointers }) {
  const there = new Set(names);
  for (const column of asked(step)) {
    if (!there.has(column) && !(pointers && step.select.length && column.startsWith("/"))) throw place.noColumn(column);
  }
  let fresh = [];
  const old = sortedKeys(step.rename);
  if (old.length) fresh = old.map((name) => step.rename[name]).filter((name) => !Object.hasOwn(step.rename, name));
  else if (step.join !== null) fresh = step.join.add;
  for (const name of fresh) if (there.has(name)) throw place.taken(name);
}

export function follow(names, steps, { pointers }) {
  let found = [...names];
  for (const [step, place] of steps) {
    check(found, step, place, { pointers });
    found = after(found, step);
  }
  return found;
}
