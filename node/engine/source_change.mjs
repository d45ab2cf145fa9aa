/** Compares a source with the bytes that the current version was made from: is it still the same kind of file? */

import { Corrupt } from "../errors.mjs";
import { KINDS } from "../generated/inspection.mjs";
import { Finding } from "../records.mjs";

const EARLIER = 20;
const HEAD = 1 << 16;
const UNRECOGNISED = "text or a table";
const DOCUMENTS = ["json", "geojson", "stac"];

/** This source as the versions had it, the current one first; null where a version did not. */
export function* earlierSources({ dataset, ports: { state } }, ref) {
  let at = state.ref(`processed/${dataset}`);
  for (let n = 0; at && n < EARLIER; n++) {
    const version = state.datasetVersion(dataset, at);
    if (version === null) return;
    const inputs = state.run(version.validated_by || version.run_id)?.inputs ?? [];
    yield inputs.find((each) => (each.name || each.uri) === (ref.name || ref.uri)) ?? null;
    at = version.supersedes;
  }
}

export const had = (context, ref) =>
  [...earlierSources(context, ref)].some((each) => each?.content_hash === ref.content_hash);

export function sourceChange(context, ref, contract, before) {
  if (before === null || before.content_hash === ref.content_hash) return null;
  if (before.contract_hash !== ref.contract_hash) return null; // a person declared it differently
  const source = ref.name || "source";
  const [said, was] = [ref.media_type, before.media_type];
  if (said !== was) context.say("source.relabelled", { source, before: was, after: said });
  const [now, then] = [ref, before].map((each) => headOf(context.ports.objects, each.content_hash));
  const change = now !== null && then !== null ? changeOf(now, then, contract) : null;
  if (change === null || context.trigger.force || had(context, ref)) return null;
  return Finding({ source, rule: change[0], message: `${change[1]}; the source is held` });
}

function changeOf(now, then, contract) {
  const [kind, was] = [now, then].map(kindOf);
  if (kind === UNRECOGNISED && DOCUMENTS.includes(contract?.format)) return null; // its reader says where and why
  if (kind !== was) return ["source.kind", `it is ${kind} now, and was ${was}`];
  const free = contract?.format === "csv" && contract.header && !contract.columns.length;
  if (!free || headerOf(now) === headerOf(then)) return null;
  return ["source.header", "its header has changed, and its contract names no columns"];
}

function kindOf(head) {
  const text = head.slice(0, 200).replace(/^\xef\xbb\xbf/, "").replace(BLANKS, "").toLowerCase();
  return KINDS.find(([, begin]) => text.startsWith(begin))?.[0] ?? UNRECOGNISED;
}

const BLANKS = /[\t-\r\x1c- \x85\xa0]/g; // as Python's split(): the letters are those of Latin-1
const headerOf = (head) => head.split("\n", 1)[0].replace(/^\xef\xbb\xbf/, "").replaceAll('"', "").trim();

function headOf(objects, digest) {
  try {
    const file = objects.open(digest);
    try {
      return Buffer.from(file.read(HEAD)).toString("latin1");
    } finally {
      file.close();
    }
  } catch (problem) {
    if (problem instanceof Corrupt) return null;
    throw problem;
  }
}
