/**
 * Journals of ended runs that were compacted: read where their rows are gone. Twin of the reading side of archive.py;
 * `kfm compact` makes them.
 */

import { Corrupt } from "../errors.mjs";
import { integer, record, text } from "../types.mjs";
import { decodeRecord } from "./reading.mjs";

const PIECE = 1 << 20;

/** Where a run's journal lies in an archive object. */
export const Place = record("Place", { object: text, offset: integer, length: integer });

export class Archive {
  #state;
  #objects;

  constructor(state, objects) {
    this.#state = state;
    this.#objects = objects;
    state.archive = (runId) => this.rows(runId);
  }

  /** The archived rows of a run's journal, as they were. */
  *rows(runId) {
    const body = this.#state.tables.get("archived", runId);
    if (body === null) return;
    const place = decodeRecord(body, Place, `archived/${runId}`);
    // Twice: to the end first, so that it is checked whole before any of it is believed.
    const end = place.offset + place.length;
    if (this.#piecesOf(place.object, 0, 0).total < end) {
      throw new Corrupt(`the archived journal of run ${runId} is cut short`, { hint: "restore the objects from a copy" });
    }
    const { pieces } = this.#piecesOf(place.object, place.offset, end);
    for (const line of Buffer.concat(pieces).toString("utf8").split("\n").slice(0, -1)) {
      const [key, value] = JSON.parse(line);
      yield [key, Buffer.from(value, "utf8")];
    }
  }

  /** The bytes from `start` to `end` of an object, read to its end; and how many it has. */
  #piecesOf(name, start, end) {
    const pieces = [];
    let total = 0;
    const file = this.#objects.open(name);
    try {
      for (let piece; (piece = file.read(PIECE)).length; total += piece.length) {
        const [from, to] = [Math.max(start - total, 0), Math.min(end - total, piece.length)];
        if (from < to) pieces.push(piece.subarray(from, to));
      }
    } finally {
      file.close();
    }
    return { pieces, total };
  }
}
