/** What Node makes of a declaration and its sources. Twin of tests/conformance/transforms.py, which says what a case is. */

import { compare } from "../characters.mjs";
import { checkOutputs } from "../transform_config.mjs";
import { OutputConfig } from "../generated/settings.mjs";
import { read } from "../documents.mjs";
import { inspect } from "../engine/source_check.mjs";
import { layoutOf } from "../engine/acquire.mjs";
import { StepReader } from "../engine/step_reader.mjs";
import { KfmError } from "../errors.mjs";
import { digest } from "../keys.mjs";
import { DataContract, SourceRef } from "../records.mjs";
import * as shape from "../record_shape.mjs";
import { map, record } from "../types.mjs";
import { DeclaredUpdater } from "../updaters/transforms/index.mjs";

const Declared = record("Declared", { contracts: map(DataContract), outputs: map(OutputConfig) });

/** What both languages must say. */
export async function answer(given, limits = undefined) {
  try {
    return { made: await made(given, limits) };
  } catch (problem) {
    if (!(problem instanceof KfmError)) throw problem;
    // The position in a line depends on the program that wrote the line.
    return { refused: String(problem).replace(/^case\.json:1:[0-9]+: /, "case.json: ") };
  }
}

async function made(given, limits) {
  const contracts = Object.fromEntries(Object.entries(given.sources).map(([name, source]) => [name, source.contract]));
  const text = JSON.stringify({ contracts, outputs: given.outputs });
  const document = read(Buffer.from(text, "utf8"), "case.json", { json: true });
  const declared = shape.into(document, Declared);
  checkOutputs(document, [], declared.outputs, declared.contracts);
  const updater = new DeclaredUpdater("case", "1", declared.outputs, declared.contracts, limits);
  await updater.prepare();
  const objects = new Map();
  const inputs = updater.sources.map((name) =>
    examined(name, bodyOf(given.sources[name]), declared.contracts[name], objects),
  );
  const context = {
    inputs,
    lease: null,
    ports: { objects: { open: (name) => stream(objects.get(name)) }, settings: { dry_run: true } },
  };
  const reader = new StepReader(context, null, null);
  const found = [];
  for (const step of updater.plan(inputs).steps) {
    const { body } = updater.perform(step, reader);
    found.push([step.key.join("/"), (Buffer.isBuffer(body) ? body : Buffer.concat([...body])).toString("utf8")]);
  }
  return Object.fromEntries(found.sort((a, b) => compare(a[0], b[0])));
}

function bodyOf(source) {
  return "hex" in source ? Buffer.from(source.hex, "hex") : Buffer.from(source.text, "utf8");
}

function stream(body) {
  let at = 0;
  return {
    read(count) {
      const piece = body.subarray(at, at + count);
      at += piece.length;
      return piece;
    },
    close() {},
  };
}

/** The source as a run passes it on: checked against its contract. */
function examined(name, body, contract, objects) {
  const accepted = [];
  const report = inspect(
    () => stream(body), contract, name, (piece) => accepted.push(Buffer.from(piece)), () => {},
  );
  if (report.held) {
    const first = report.cause ?? report.findings[0];
    throw new KfmError(
      `source ${name} is held: ${first.message} (${first.rule}, row ${first.row}, column ${first.column})`,
    );
  }
  const passed = report.changed ? Buffer.concat(accepted) : body;
  objects.set(digest(passed), passed);
  return SourceRef({
    uri: name,
    name,
    content_hash: digest(body),
    size: body.length,
    accepted_hash: digest(passed),
    layout: layoutOf(contract),
    partitions: report.partitions,
  });
}
