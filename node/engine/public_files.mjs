/** After the commit: delivers to the outside, at least once. Twin of src/kfm/delivery/public_files.py. */

import { pointerPath, publishedPath, receiptPath, twinsOf, versionPath } from "../artifacts.mjs";
import { canonical } from "../canonical.mjs";
import { Corrupt, Frozen, KfmError, Moved } from "../errors.mjs";
import { digest, outputKey } from "../keys.mjs";
import { replace, SinkPosition } from "../records.mjs";
import { pointerOf, standing } from "../live_versions.mjs";

export const PUBLIC = "publish"; // the sinks
export const RECEIPTS = "receipts";
export const BATCH = 256; // receipts that are noted as exported together

/**
 * Makes all pending messages durable, then delivers them. Messages of later commits wait for the next call.
 *
 * Throws only before they are durable. A message that cannot be delivered stays pending and is returned, with its
 * dataset if the dataset is at fault: a frozen or damaged dataset does not delay others.
 */
export async function deliver(state, objects, publisher, log, { sync, retention = () => -1, waits = false }) {
  let [newest, due] = [0, []];
  state.transaction(null, { durable: sync }, (tx) => {
    newest = follow(state, tx);
    due = [...state.due(PUBLIC)].map((dataset) => [dataset, [...state.history(`published/${dataset}`)]]);
  });
  const [problems, done] = [[], new Map()];
  try {
    for (const [dataset, moves] of due) {
      const telling = new Telling({ state, objects, publisher, log, dataset, moves, keep: retention(dataset), waits });
      try {
        await telling.all();
      } catch (problem) {
        if (!(problem instanceof KfmError)) throw problem;
        if (problem instanceof Corrupt) problems.push([dataset, problem]);
        else if (!(problem instanceof Frozen || problem instanceof Moved)) {
          problems.push(["", problem]); // the place itself: the others would fare no better
          break;
        } // otherwise it waits for the thaw, or another tells what came after
      } finally {
        done.set(dataset, telling.told);
      }
    }
    if (done.size) state.acknowledge(PUBLIC, done);
    await exportReceipts(state, publisher, newest);
  } catch (problem) {
    if (!(problem instanceof KfmError)) throw problem;
    problems.push(["", problem]);
  }
  return problems;
}

function follow(state, tx) {
  const newest = [...state.ledger({ reverse: true, limit: 1 })][0]?.index ?? 0;
  for (const entry of state.ledger({ after: state.cursor(PUBLIC) })) {
    for (const dataset of concerned(entry)) tx.owe(PUBLIC, dataset);
  }
  tx.advance(PUBLIC, newest);
  tx.touch();
  return newest;
}

function concerned(entry) {
  const published = entry.moves.filter((move) => move.ref.startsWith("published/"));
  const found = new Set(published.map((move) => move.ref.slice("published/".length)));
  if (["promote", "rollback"].includes(entry.op_type) && ["noop", "unchanged"].includes(entry.outcome)) {
    found.add(entry.dataset);
  }
  return found;
}

class Telling {
  constructor(given) {
    Object.assign(this, given);
    this.told = this.state.told(PUBLIC, this.dataset) ?? SinkPosition({ moves: 0, keep: this.keep });
  }

  async all() {
    const { moves } = this;
    for (const version of new Set(moves.map((move) => move.after))) {
      if (version && (await this.#isLarge(version))) {
        throw new Frozen(`${this.dataset} waits for Python`, { hint: "it has files that versions share: `kfm resume`" });
      }
    }
    const withdrawn = moves.reduce((last, move) => (move.after ? last : move.n), 0);
    if (withdrawn && (withdrawn > this.told.moves || withdrawn === moves.length)) {
      await this.#tell(moves.slice(0, withdrawn));
    }
    if (withdrawn < moves.length) {
      this.#check();
      await this.#tell(moves);
    }
  }

  async #isLarge(version) {
    const { entriesOf, WHOLE } = await import("../manifests.mjs");
    let [files, bytes] = [0, 0];
    try {
      for (const { size } of entriesOf(this.objects, version)) {
        if ((files += 1) > WHOLE || (bytes += size) > 1 << 26) return true;
      }
    } catch (problem) {
      if (!(problem instanceof Corrupt)) throw problem; // a damaged one is told as before
    }
    return false;
  }

  async #tell(moves) {
    const stay = standing(moves, this.keep);
    const last = moves.at(-1);
    const outside = standing(moves.slice(0, this.told.moves), this.told.keep);
    for (const version of stay.slice(0, -1)) {
      if (outside.includes(version)) continue;
      try {
        await this.#write(version);
      } catch (problem) {
        if (!(problem instanceof Corrupt)) throw problem;
        // Dropped: its dataset has a newer version, which replaces it.
        this.log.event("publish.abandoned", { dataset_ids: [this.dataset], error: problem });
      }
    }
    if (stay.length) {
      await this.#write(stay.at(-1));
      this.#check();
    }
    const key = `${last.ref}/${last.run_id}`;
    await this.publisher.updateMetadata(pointerPath(this.dataset), pointerOf(last), key);
    const fresh = moves.slice(this.told.moves);
    for (const move of fresh) if (!move.after || stay.includes(move.after)) await this.#announce(move);
    for (const version of new Set([...outside, ...fresh.map((move) => move.after)])) {
      if (version && !stay.includes(version)) await this.#remove(version, key);
    }
    this.told = SinkPosition({ moves: last.n, keep: this.keep });
  }

  async #write(version) {
    const { dataset, objects, publisher } = this;
    const { chunksOf } = await import("../streams.mjs");
    const { entriesOf, listingOf } = await import("../manifests.mjs");
    const made = this.state.datasetVersion(dataset, version);
    const twins = twinsOf(made, entriesOf(objects, version));
    for (const entry of entriesOf(objects, version)) {
      const key = outputKey(made?.updater_id ?? "", made?.updater_version ?? "", entry.key, entry.digest);
      const body = this.#checked(chunksOf(objects, entry.digest));
      await publisher.writeFile(publishedPath(dataset, version, entry, twins), entry.digest, entry.size, key, body);
    }
    // What it consists of, for those who see only the files. It is one object, because the version is small.
    const path = `${versionPath(dataset, version)}.ndjson`;
    const whole = Buffer.concat([...listingOf(objects, version)]);
    const key = `published/${dataset}/${version}/manifest`;
    await publisher.writeFile(path, digest(whole), whole.length, key, this.#checked([whole]));
  }

  async #announce(move) {
    if (move.after) this.#check();
    const type = `org.kfm.dataset.${move.after ? "published" : "withdrawn"}.v1`;
    const event = { type, dataset: this.dataset, version: move.after, run_id: move.run_id };
    await this.publisher.emitEvent(event, `${move.ref}/${move.run_id}`);
  }

  async #remove(version, key) {
    const folder = versionPath(this.dataset, version);
    const check = () => this.#checkLast();
    try {
      const { entriesOf } = await import("../manifests.mjs");
      const twins = twinsOf(this.state.datasetVersion(this.dataset, version), entriesOf(this.objects, version));
      for (const entry of entriesOf(this.objects, version)) {
        await this.publisher.removeFile(publishedPath(this.dataset, version, entry, twins), key, check);
      }
    } catch (problem) {
      if (!(problem instanceof Corrupt)) throw problem;
      // What it consisted of cannot be read any more; it goes nevertheless.
      this.log.event("publish.unlisted", { dataset_ids: [this.dataset], error: problem });
    }
    await this.publisher.removeFile(`${folder}.ndjson`, key, check);
    await this.publisher.removeRest(folder, check);
  }

  *#checked(body) {
    this.#check();
    yield* body;
  }

  #check() {
    for (const name of ["switch/global", `switch/dataset/${this.dataset}`]) {
      if (!["", "open"].includes(this.state.ref(name))) {
        throw new Frozen(`${this.dataset} is frozen`, { hint: "what was committed is kept; a thaw publishes it" });
      }
    }
    if (this.waits) throw new Frozen(`${this.dataset} waits for Python`, { hint: "`kfm resume` tells it" });
    this.#checkLast();
  }

  #checkLast() {
    const [last] = this.state.history(`published/${this.dataset}`, { reverse: true, limit: 1 });
    if (last.n !== this.moves.length) {
      throw new Moved(`${last.ref} has moved on`, { hint: "the command that moved it publishes it" });
    }
  }
}

async function exportReceipts(state, publisher, newest) {
  let last = 0;
  for (const entry of state.ledger({ after: state.cursor(RECEIPTS) })) {
    if (entry.index > newest) break;
    const receipt = state.receipt(entry.run_id);
    if (receipt !== null) await exportReceipt(publisher, receipt, state.receiptBody(entry.run_id));
    last = entry.index;
    if (last % BATCH === 0) noteExported(state, last);
  }
  if (last) noteExported(state, last);
}

function noteExported(state, index) {
  state.transaction(null, { durable: false }, (tx) => tx.advance(RECEIPTS, index));
}

async function exportReceipt(publisher, receipt, stored) {
  const body = receipt.dry_run ? canonical(replace(receipt, { dry_run: false })) : stored;
  await publisher.writeFile(receiptPath(receipt), digest(body), body.length, `receipt/${receipt.run_id}`, [body]);
}
