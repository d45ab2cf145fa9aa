/**
 * Checks a source against its data contract, before anything is planned from it. Twin of
 * src/kfm/validation/source_check.py: the same accepted bytes, findings, held rows, counts and words.
 */

import { compare, strip } from "../characters.mjs";
import { dateFormatProblem } from "../dates.mjs";
import { isDelimiter } from "../encodings.mjs";
import { BadInput } from "../errors.mjs";
import { patternFlaw } from "../patterns.mjs";
import { replace } from "../records.mjs";
import { ColumnCheck } from "./inspect_columns.mjs";
import { inspectCsv } from "./inspect_csv.mjs";
import { Outcome } from "./inspect_findings.mjs";
import { inspectJson } from "./inspect_json.mjs";
import { schemaProblems, splitProblems } from "./inspect_schema.mjs";
import { encodingProblem, inspectText, LIMITS } from "./inspect_text.mjs";

const RECORDS = ["json", "ndjson", "geojson", "stac"];
const ROWS = ["csv", ...RECORDS, "parquet", "geopackage", "shapefile", "flatgeobuf"];

/**
 * Judge the source that `openBody` opens, each time from its first byte: `read(n)` gives up to n bytes, none at the
 * end; `close()` ends it.
 *
 * `accept` is called only once something was discarded: from then on it gets the whole accepted source in pieces.
 * `hold` gets each held row as a line of canonical JSON: row, reasons, data. `before` is how many rows of it passed
 * for the version there is now; 0: none are known.
 */
export function inspect(openBody, contract, source, accept, hold, { limits = LIMITS, before = 0 } = {}) {
  const problems = contractProblems(contract);
  if (problems.length) {
    throw new BadInput(`the data contract of ${source} cannot be used: ${problems[0]}`, { hint: "correct the contract" });
  }
  const out = new Outcome(source, hold);
  if (contract.format === "csv") inspectCsv(openBody, contract, out, accept, limits);
  else if (RECORDS.includes(contract.format)) inspectJson(openBody, contract, out, accept, limits);
  else if (contract.format === "text") inspectText(openBody, contract, out, limits);
  out.finish(contract, before);
  return {
    rows: out.rows,
    held_rows: out.heldRows,
    held: out.held,
    cause: out.cause(),
    changed: out.changed && !out.held,
    findings: out.listed(),
    finding_counts: Object.fromEntries([...out.counts].sort((a, b) => compare(a[0], b[0]))),
    partitions: [...out.partitions].sort(compare),
  };
}

export function contractProblems(contract) {
  return [...formatProblems(contract), ...rowProblems(contract), ...columnsProblems(contract)];
}

function* formatProblems(contract) {
  const kind = contract.format;
  const schema = Object.keys(contract.json_schema).length > 0;
  const given = [
    ["columns", contract.columns.length > 0, ROWS],
    ["other_columns", contract.other_columns !== "evolve", ROWS],
    ["partition_by", contract.partition_by !== "", ROWS],
    ["min_rows", contract.min_rows !== 0, ROWS],
    ["max_held_rows", contract.max_held_rows !== -1, ROWS],
    ["max_held_share", contract.max_held_share !== 0.2, ROWS],
    ["allow_empty", contract.allow_empty, ROWS],
    ["shrink_limit", contract.shrink_limit !== 0.2, ROWS],
    ["header", !contract.header, ["csv"]],
    ["delimiter", contract.delimiter !== ",", ["csv"]],
    ["encoding", contract.encoding !== "utf-8", ["csv", "text"]],
    ["json_schema", schema, RECORDS],
    ["root", contract.root !== "", ["json"]],
  ];
  for (const [name, set, formats] of given) {
    if (set && !formats.includes(kind)) {
      yield `${name} has no meaning for the format ${kind}; it is for ${formats.join(", ")}`;
    }
  }
  const problem = encodingProblem(contract.encoding);
  if (problem) yield `encoding ${problem}`;
  if (kind === "csv") {
    if (!isDelimiter(contract.delimiter)) {
      yield "delimiter must be one character, and neither a quote nor a line ending";
    }
    if (!contract.header && !contract.columns.length) {
      yield "without a header the columns must be named, in their order";
    }
  }
  if (RECORDS.includes(kind) && schema) {
    const problems = schemaProblems(contract.json_schema);
    yield* problems;
    if (kind === "json" && !problems.length) yield* splitProblems(contract.json_schema, contract.root);
  }
}

function* rowProblems(contract) {
  if (contract.min_rows < 0) yield "min_rows cannot be negative";
  if (contract.max_held_rows < -1) yield "max_held_rows is -1 (no limit), 0 or more";
  for (const name of ["max_held_share", "shrink_limit"]) {
    if (!(contract[name] >= 0 && contract[name] <= 1)) yield `${name} is a share: a number from 0 to 1`;
  }
  if (contract.allow_empty && contract.min_rows > 0) yield "allow_empty and min_rows contradict each other; keep one";
  if (contract.other_columns === "discard-row") {
    yield "other_columns cannot be discard-row, which would hold every row; use freeze or discard-value";
  } else if (contract.other_columns !== "evolve" && !contract.columns.length) {
    yield `other_columns is ${contract.other_columns}, but no column is named that could stay`;
  }
  const names = new Set(contract.columns.map((column) => column.name));
  const openEnded = contract.header && contract.other_columns === "evolve"; // it may be one of the others
  if (contract.partition_by && names.size && !openEnded && !names.has(contract.partition_by)) {
    yield "partition_by is not one of the columns";
  }
}

function* columnsProblems(contract) {
  const seen = new Set();
  for (const [at, column] of contract.columns.entries()) {
    if (!strip(column.name)) yield `column ${at + 1} has no name`;
    else if (seen.has(column.name)) yield `column ${column.name} is named twice`;
    seen.add(column.name);
    for (const problem of columnProblems(column)) yield `column ${column.name}: ${problem}`;
  }
}

function* columnProblems(column) {
  const bounds = [column.minimum, column.maximum].filter((bound) => bound !== null);
  if (bounds.length && column.type !== "integer" && column.type !== "number") {
    yield `minimum and maximum are for integer and number, not for ${column.type}`;
  }
  if (!bounds.every(Number.isFinite)) yield "minimum and maximum must be finite";
  else if (bounds.length === 2 && bounds[0] > bounds[1]) yield "minimum is above maximum";
  if (column.required && column.mode === "discard-value") {
    yield "a required value cannot be blanked; use discard-row or freeze";
  }
  let broken = column.pattern ? patternFlaw(column.pattern) : "";
  if (broken) yield `the pattern ${broken}`;
  if (column.date_format) {
    if (column.type !== "date" && column.type !== "datetime") {
      yield `date_format is for date and datetime, not for ${column.type}`;
    } else {
      const problem = dateFormatProblem(column.date_format);
      if (problem) {
        broken = problem;
        yield `date_format ${problem}`;
      }
    }
  }
  if (column.values.length && !broken) {
    const check = new ColumnCheck(replace(column, { unique: false, required: true }));
    if (column.values.some((text) => check.brokenRule(text))) {
      yield "one of the values is blank, or breaks the column's own type, range or pattern";
    }
  }
}
