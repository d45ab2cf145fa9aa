/** Inside GitHub Actions: the summary of the job, and outputs that later steps may use. Twin of sinks/github_actions.py. */

import fs from "node:fs";

import { StorageFailed } from "../errors.mjs";
import { strerror } from "../store/system.mjs";

const CHANGES = ["added", "changed", "removed", "keys"];

export function report(env, receipts) {
  if (env.GITHUB_ACTIONS !== "true" || !receipts.length) return;
  append(env.GITHUB_STEP_SUMMARY ?? "", summary(receipts));
  append(env.GITHUB_OUTPUT ?? "", outputs(receipts));
}

export function summary(receipts) {
  const heads = ["dataset", "status", "outcome", ...CHANGES, "held", "rows", "run"];
  const lines = [`| ${heads.join(" | ")} |`, `${"|---".repeat(heads.length)}|`];
  for (const { dataset, status, outcome, changes, rows, held_rows: held, run_id: run } of receipts) {
    const counts = [...CHANGES.map((name) => changes[name] ?? "-"), held, rows || "-"].join(" | ");
    lines.push(`| \`${dataset}\` | ${status} | ${outcome} | ${counts} | \`${run}\` |`);
  }
  return `${lines.join("\n")}\n`;
}

export function outputs(receipts) {
  const changed = receipts.filter((receipt) => receipt.outcome === "done").map((receipt) => receipt.dataset);
  const ids = receipts.map((receipt) => receipt.run_id);
  return `changed=${changed.length > 0}\ndatasets=${changed.join(",")}\nrun_ids=${ids.join(",")}\n`;
}

function append(path, text) {
  if (!path) return;
  try {
    fs.appendFileSync(path, text);
  } catch (problem) {
    throw new StorageFailed(`the summary of the job cannot be written: ${strerror(problem)}`, {
      hint: "the run itself is done",
      cause: problem,
    });
  }
}
