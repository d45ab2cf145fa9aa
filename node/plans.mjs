/** Two plans side by side, for a person. Twin of src/kfm/projections/plans.py. */

import { canonicalText } from "./canonical.mjs";
import { compare, first, length } from "./characters.mjs";
import { isMapping } from "./types.mjs";

/** What changed, step by step: one line each, at most `limit`. */
export function planDiff(old, now, limit = 20) {
  const [headBefore, before] = stepsOf(old);
  const [headAfter, after] = stepsOf(now);
  const found = [];
  for (const [key, was, is] of changes(headBefore, headAfter, "")) found.push(`~ ${key}: ${short(was)} → ${short(is)}`);
  for (const name of before.keys()) if (!after.has(name)) found.push(`- step ${name}`);
  for (const [name, step] of after) {
    const was = before.get(name);
    if (was === undefined) {
      found.push(`+ step ${name}`);
      continue;
    }
    for (const [path, one, other] of changes(was, step, "")) {
      found.push(`~ step ${name}: ${path} ${short(one)} → ${short(other)}`);
    }
  }
  if (!found.length && !same([...before.keys()], [...after.keys()])) found.push("~ the order of the steps");
  if (found.length > limit) found.splice(limit, Infinity, `… and ${found.length - limit} more`);
  return found.join("\n");
}

function stepsOf(body) {
  const [header, ...rest] = body.toString("utf8").split("\n");
  const steps = rest.filter((line) => line).map((line) => JSON.parse(line));
  return [JSON.parse(header), new Map(steps.map((step) => [step.id, step]))];
}

/** The innermost parts that differ. Of lists, what stands between a common beginning and a common end. */
function* changes(was, now, path) {
  if (isMapping(was) && isMapping(now)) {
    for (const key of [...new Set([...Object.keys(was), ...Object.keys(now)])].sort(compare)) {
      yield* changes(member(was, key), member(now, key), path ? `${path}.${key}` : key);
    }
  } else if (Array.isArray(was) && Array.isArray(now)) {
    const [begin, end] = alike(was, now);
    const wasNot = was.slice(begin, was.length - end);
    const isNow = now.slice(begin, now.length - end);
    const found = [];
    for (let at = 0; at < Math.max(wasNot.length, isNow.length); at += 1) {
      found.push(...changes(wasNot[at] ?? null, isNow[at] ?? null, `${path}[${begin + at}]`));
    }
    // if there is none, one has a null more
    yield* found.length || was.length === now.length ? found : [[path, was, now]];
  } else if (!same(was, now)) {
    yield [path, was, now];
  }
}

/**
 * How many are the same at the beginning, and after those at the end. Of lists of one length nothing is: there
 * each is held against its own.
 */
function alike(was, now) {
  if (was.length === now.length) return [0, 0];
  const shorter = Math.min(was.length, now.length);
  let begin = 0;
  while (begin < shorter && same(was[begin], now[begin])) begin += 1;
  let end = 0;
  while (end < shorter - begin && same(was.at(-1 - end), now.at(-1 - end))) end += 1;
  return [begin, end];
}

function member(value, key) {
  return Object.hasOwn(value, key) ? value[key] : null;
}

function same(a, b) {
  return canonicalText(a) === canonicalText(b);
}

function short(value) {
  const text = canonicalText(value);
  return length(text) <= 60 ? text : `${first(text, 57)}…`;
}
