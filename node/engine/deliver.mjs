/** After the commit: tells the outside, at least once, from the outbox and the ledger. All of it can be told again. */

import { createHash } from "node:crypto";

import { publishedPath, receiptPath, versionPath } from "../artifacts.mjs";
import { canonical } from "../canonical.mjs";
import { Corrupt, Frozen, KfmError } from "../errors.mjs";
import { digest, outputKey } from "../keys.mjs";
import { replace } from "../records.mjs";

export const BATCH = 256; // receipts that are noted as exported together

/**
 * Make durable what is waiting, then deliver it. Lineage waits in the outbox for its sinks. What others commit
 * meanwhile waits for the next time: nobody has made it durable for us.
 *
 * Throws only before anything is durable. What cannot be delivered after that stays in the outbox and is returned,
 * with its dataset where it is one's own fault. One whose bytes are damaged strands no other, and is given up once
 * its dataset has moved on: nobody needs it any more.
 *
 * While a switch is set nothing is told that adds or changes anything; a withdrawal is.
 */
export async function deliver(state, objects, publisher, log, { sync }) {
  const waiting = [...state.outbox("publish")];
  const newest = [...state.ledger({ reverse: true, limit: 1 })][0]?.index ?? 0;
  if (sync) state.sync();
  const problems = [];
  const latest = new Map(waiting.map((item) => [item.payload.dataset, item]));
  const withdrawn = new Map(waiting.filter((item) => !item.payload.after).map((item) => [item.payload.dataset, item.seq]));
  const done = [];
  try {
    for (const item of waiting) {
      const { dataset } = item.payload;
      if (item.seq < (withdrawn.get(dataset) ?? 0)) {
        done.push(item); // nobody was told of it, and it may not be public any more
        continue;
      }
      try {
        await publish(state, objects, publisher, item);
      } catch (problem) {
        if (!(problem instanceof KfmError)) throw problem;
        if (problem instanceof Frozen) continue; // it waits for the thaw
        if (!(problem instanceof Corrupt)) {
          problems.push(["", problem]); // the place itself: the others would fare no better
          break;
        }
        if (item === latest.get(dataset)) {
          problems.push([dataset, problem]);
          continue;
        }
        log.event("publish.abandoned", { dataset_ids: [dataset], error: problem });
      }
      done.push(item);
    }
    if (done.length) state.acknowledge(done);
    await exportReceipts(state, publisher, newest);
  } catch (problem) {
    if (!(problem instanceof KfmError)) throw problem;
    problems.push(["", problem]);
  }
  return problems;
}

async function publish(state, objects, publisher, item) {
  const { dataset, after: version, before, run_id: runId } = item.payload;
  if (version) {
    const { chunksOf } = await import("./streams.mjs");
    const { entriesOf, listingOf } = await import("../manifests.mjs");
    const made = state.datasetVersion(dataset, version);
    for (const entry of entriesOf(objects, version)) {
      checkOpen(state, dataset);
      const key = outputKey(made?.updater_id ?? "", made?.updater_version ?? "", entry.key, entry.digest);
      const path = publishedPath(dataset, version, entry);
      await publisher.writeFile(path, entry.digest, entry.size, key, chunksOf(objects, entry.digest));
    }
    // What it consists of, for those who see only the files.
    const [name, size] = listed(listingOf(objects, version));
    const path = `${versionPath(dataset, version)}.ndjson`;
    checkOpen(state, dataset);
    await publisher.writeFile(path, name, size, `${item.key}/manifest`, listingOf(objects, version));
    checkOpen(state, dataset);
  }
  const current = { dataset, version, before, run_id: runId, seq: item.seq };
  await publisher.updateMetadata(`datasets/${dataset}/current.json`, current, item.key);
  const type = version ? "org.kfm.dataset.published.v1" : "org.kfm.dataset.withdrawn.v1";
  await publisher.emitEvent({ type, dataset, version, run_id: runId }, item.key);
}

/** Digest and size of what comes in pieces. */
function listed(pieces) {
  const total = createHash("sha256");
  let size = 0;
  for (const piece of pieces) {
    total.update(piece);
    size += piece.length;
  }
  return [`sha256:${total.digest("hex")}`, size];
}

/** Asked before every single effect: one that others freeze meanwhile gets no further. */
function checkOpen(state, dataset) {
  for (const name of ["switch/global", `switch/dataset/${dataset}`]) {
    if (!["", "open"].includes(state.ref(name))) {
      throw new Frozen(`${dataset} is frozen`, { hint: "what was committed is kept; a thaw publishes it" });
    }
  }
}

async function exportReceipts(state, publisher, newest) {
  let last = 0;
  for (const entry of state.ledger({ after: state.exported() })) {
    if (entry.index > newest) break;
    const receipt = state.receipt(entry.run_id);
    if (receipt !== null) await exportReceipt(publisher, receipt, state.receiptBody(entry.run_id));
    last = entry.index;
    if (last % BATCH === 0) state.markExported(last);
  }
  if (last) state.markExported(last);
}

/** As it is stored. A dry run foretells the receipt that the real run would leave, to the byte. */
async function exportReceipt(publisher, receipt, stored) {
  const body = receipt.dry_run ? canonical(replace(receipt, { dry_run: false })) : stored;
  await publisher.writeFile(receiptPath(receipt), digest(body), body.length, `receipt/${receipt.run_id}`, [body]);
}
