/** Checks every source against its contract before anything is planned from it. */

import { canonical } from "../canonical.mjs";
import { Held } from "../errors.mjs";
import { replace } from "../records.mjs";
import { attended, beat } from "./heartbeat.mjs";

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
    for (const [i, contract] of context.contracts) {
      context.inputs[i] = await examine(context, i, contract, reports);
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

export function rowsBefore(context, ref) {
  const { state } = context.ports;
  const current = state.ref(`processed/${context.dataset}`);
  const version = current ? state.datasetVersion(context.dataset, current) : null;
  const run = version !== null ? state.run(version.validated_by || version.run_id) : null;
  const known = ({ name, uri }) => name || uri;
  const before = run?.inputs.find((source) => known(source) === known(ref));
  return before ? before.rows - before.held_rows : 0;
}

export async function examine(context, i, contract, reports) {
  const { inspect } = await import("./source_check.mjs"); // only where there is a contract: it is not free to load
  const ref = context.inputs[i];
  const { objects } = context.ports;
  const name = ref.name || "source";
  context.ports.progress("check", 0, 0);
  const accepted = objects.stage();
  const held = objects.stage();
  const into = (staging) => (chunk) => {
    beat(context);
    staging.write(chunk);
  };
  let report;
  let heldHash = "";
  try {
    const open = () => attended(context, objects.open(ref.content_hash));
    report = inspect(open, contract, name, into(accepted), into(held), { before: rowsBefore(context, ref) });
    if (report.held_rows) [heldHash] = held.commit();
    else held.abort();
  } catch (problem) {
    accepted.abort();
    held.abort();
    throw problem;
  }
  context.findings.push(...report.findings);
  if (report.held || report.held_rows || report.changed) reports.push(reportOf(ref, report, heldHash));
  context.say("source.inspected", {
    source: name,
    rows: report.rows,
    held_rows: report.held_rows,
    held: report.held,
    findings: report.finding_counts,
  });
  context.inputs[i] = replace(ref, { rows: report.rows, held_rows: report.held_rows }); // reported in any case
  if (report.held) {
    accepted.abort();
    const first = report.cause ?? report.findings[0];
    const where = first.row ? `, row ${first.row}` : "";
    const column = first.column ? `, column ${first.column}` : "";
    const why = first.message.replace(/; the source is held$/, "");
    const setting = SETTINGS[first.rule] ? `if it is right, its contract may set ${SETTINGS[first.rule]}; ` : "";
    throw new Held(`source ${name} (${fileOf(ref.uri)}) is held: ${why} (${first.rule}${where}${column})`, {
      hint: `see \`kfm quarantine ${context.dataset}\`; ${setting}the published version stays`,
    });
  }
  let acceptedHash = ref.content_hash;
  if (report.changed) [acceptedHash] = accepted.commit();
  else accepted.abort();
  return replace(ref, {
    accepted_hash: acceptedHash,
    rows: report.rows,
    held_rows: report.held_rows,
    partitions: report.partitions,
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
