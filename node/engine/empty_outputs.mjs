/** An output that had rows and now has none is not a success: it is quarantined, and the live version stays. */

import { Held } from "../errors.mjs";
import { entriesOf } from "../manifests.mjs";
import { printable } from "../names.mjs";
import { holdsRows } from "../csv_format.mjs";

export function checkEmptied(context, step, inlineMax) {
  const before = entryBefore(context, step);
  if (before === null) return;
  if (before.size <= inlineMax && !holdsRows(before.media_type, context.ports.objects.read(before.digest))) return;
  const what = "has no rows any more: all were filtered out";
  throw new Held(`output ${printable(step.key.join("/"))} ${what}`, {
    hint: "the published version stays; if the output is right, set allow_empty: true for it",
    discreet: `an output ${what}`,
  });
}

/** Outputs without rows are few: the whole version is read for one. */
function entryBefore(context, step) {
  const current = context.ports.state.ref(`processed/${context.dataset}`);
  if (!current || step.key === null) return null;
  const wanted = JSON.stringify(step.key);
  for (const entry of entriesOf(context.ports.objects, current)) {
    if (JSON.stringify(entry.key) === wanted) return entry;
  }
  return null;
}
