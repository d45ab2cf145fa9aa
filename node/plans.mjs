/** Two plans side by side, for a person. Twin of src/kfm/projections/plans.py. */

import { canonicalText } from "./canonical.mjs";
import { compare, first, length } from "./characters.mjs";

/** What changed, step by step: one line each, at most `limit`. */
export function planDiff(old, now, limit = 20) {
  const [headBefore, before] = stepsOf(old);
  const [headAfter, after] = stepsOf(now);
  const found = [];
  for (const key of [...new Set([...Object.keys(headBefore), ...Object.keys(headAfter)])].sort(compare)) {
    const [was, is] = [headBefore[key] ?? null, headAfter[key] ?? null];
    if (!same(was, is)) found.push(`~ ${key}: ${short(was)} → ${short(is)}`);
  }
  for (const name of before.keys()) if (!after.has(name)) found.push(`- step ${name}`);
  for (const [name, step] of after) {
    const was = before.get(name);
    if (was === undefined) {
      found.push(`+ step ${name}`);
      continue;
    }
    for (const field of Object.keys(step).sort(compare)) {
      if (!same(was[field] ?? null, step[field])) {
        found.push(`~ step ${name}: ${field} ${short(was[field] ?? null)} → ${short(step[field])}`);
      }
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

function same(a, b) {
  return canonicalText(a) === canonicalText(b);
}

function short(value) {
  const text = canonicalText(value);
  return length(text) <= 60 ? text : `${first(text, 57)}…`;
}
