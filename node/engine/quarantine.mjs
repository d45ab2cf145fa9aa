/** Checks every source against its contract before anything is planned from it. */

import { canonical } from "../canonical.mjs";
import { Held } from "../errors.mjs";
import { replace } from "../records.mjs";
import { attended, beat } from "./heartbeat.mjs";
import { earlierSources, had, sourceChange } from "./source_change.mjs";

export async function quarantine(context) {
  context.stage = "QUARANTINE";
  if (context.run !== null && context.run.plan_hash) {
    // resumed: inspected before it was planned
    context.inputs = [...context.run.inputs];
    context.heldReport = context.run.held;
    return;
  }
  const reports = [];
  try {
    for (const i of context.inputs.keys()) {
      context.inputs[i] = await examine(context, i, context.contracts.get(i), reports);
    }
  } finally {
    if (reports.length) {
      context.heldReport = context.ports.objects.put(canonical({ dataset: context.dataset, sources: reports }));
    }
  }
  context.inputs = context.inputs.map((ref) =>
    !ref.accepted_hash && ref.content_hash ? replace(ref, { accepted_hash: ref.content_hash }) : ref,
  );
}

// What a contract may say to a limit that held a source, although it says nothing of it.
const SETTINGS = { "rows.none": "allow_empty: true", "rows.share": "max_held_share", "rows.shrunk": "shrink_limit" };

export async function examine(context, i, contract, reports) {
  const ref = context.inputs[i];
  const before = earlierSources(context, ref).next().value ?? null;
  const change = sourceChange(context, ref, contract, before);
  if (change !== null) {
    context.say("source.inspected", { source: change.source, held: true });
    context.findings.push(change);
    const report = { rows: 0, held_rows: 0, held: true, finding_counts: { [change.rule]: 1 }, findings: [change] };
    reports.push(reportOf(ref, report, ""));
    throw heldBy(context, ref, change);
  }
  if (contract === undefined) return ref;
  const { inspect } = await import("./source_check.mjs"); // only where there is a contract: it is not free to load
  context.ports.progress("check", 0, 0);
  const rows = before ? before.rows - before.held_rows : 0;
  let found = inspected(context, ref, contract, inspect, rows);
  if (found[0].cause?.rule === "rows.shrunk" && had(context, ref)) {
    found[1].abort(); // it returned to bytes that passed before
    found = inspected(context, ref, contract, inspect, 0);
  }
  const [report, accepted, heldHash] = found;
  context.findings.push(...report.findings);
  if (report.held || report.held_rows || report.changed) reports.push(reportOf(ref, report, heldHash));
  const { held_rows, held, partitions } = report;
  const told = { rows: report.rows, held_rows, held, findings: report.finding_counts };
  context.say("source.inspected", { source: ref.name || "source", ...told });
  context.inputs[i] = replace(ref, { rows: report.rows, held_rows }); // reported in any case
  if (held) {
    accepted.abort();
    throw heldBy(context, ref, report.cause ?? report.findings[0]);
  }
  let accepted_hash = ref.content_hash;
  if (report.changed) [accepted_hash] = accepted.commit();
  else accepted.abort();
  return replace(ref, { accepted_hash, rows: report.rows, held_rows, partitions });
}

function inspected(context, ref, contract, inspect, before) {
  const { objects } = context.ports;
  const accepted = objects.stage();
  const held = objects.stage();
  const into = (staging) => (chunk) => {
    beat(context);
    staging.write(chunk);
  };
  try {
    const open = () => attended(context, objects.open(ref.content_hash));
    const report = inspect(open, contract, ref.name || "source", into(accepted), into(held), { before });
    if (report.held_rows) return [report, accepted, held.commit()[0]];
    held.abort();
    return [report, accepted, ""];
  } catch (problem) {
    accepted.abort();
    held.abort();
    throw problem;
  }
}

function heldBy({ dataset }, ref, { rule, row, column, message }) {
  const where = (row ? `, row ${row}` : "") + (column ? `, column ${column}` : "");
  const why = message.replace(/; the source is held$/, "");
  let cure = SETTINGS[rule] ? `if it is right, its contract may set ${SETTINGS[rule]}; ` : "";
  if (rule.startsWith("source.")) cure = `if it is right, \`kfm run ${dataset} --force --reason …\` accepts it; `;
  return new Held(`source ${ref.name || "source"} (${fileOf(ref.uri)}) is held: ${why} (${rule}${where})`, {
    hint: `see \`kfm quarantine ${dataset}\`; ${cure}the published version stays`,
  });
}

const fileOf = (uri) => (uri.includes("://") ? uri.split("?", 1)[0] : uri);

function reportOf(ref, report, heldHash) {
  return {
    source: ref.name || "source",
    content_hash: ref.content_hash,
    rows: report.rows,
    held_rows: report.held_rows,
    held: report.held,
    held_rows_digest: heldHash,
    counts: report.finding_counts,
    findings: report.findings,
  };
}
