/** What every step gave. A large plan is kept in flat arrays, forty-odd bytes a step. */

export const SMALL = 1 << 16;

/** Positions to what was made there, as [position, digest, size, media type]. Small plans keep these as they are. */
export class Results {
  #rows = null;
  #seen;
  #digests;
  #sizes;
  #media;
  #mediaIndex = new Map();
  #mediaNames = [];

  constructor(steps) {
    this.steps = steps;
    this.described = new Map(); // what outputs say of themselves; most say nothing
    this.done = 0;
    if (steps <= SMALL) {
      this.#rows = new Array(steps).fill(null);
      return;
    }
    this.#seen = new Uint8Array(steps);
    this.#digests = Buffer.alloc(32 * steps);
    this.#sizes = new Float64Array(steps); // exact up to 2^53
    this.#media = new Uint16Array(steps);
  }

  /** Each position is added once in a run; a journal replayed before it may have had it too. */
  add(entries) {
    const rows = this.#rows;
    for (const entry of entries) {
      const position = entry[0];
      if (rows !== null) {
        if (rows[position] === null) this.done += 1;
        rows[position] = entry;
        continue;
      }
      const [, digest, size, mediaType] = entry;
      this.#digests.write(digest.slice(7), 32 * position, "hex");
      this.#sizes[position] = size;
      let index = this.#mediaIndex.get(mediaType);
      if (index === undefined) {
        index = this.#mediaNames.push(mediaType) - 1;
        this.#mediaIndex.set(mediaType, index);
      }
      this.#media[position] = index;
      if (!this.#seen[position]) {
        this.#seen[position] = 1;
        this.done += 1;
      }
    }
  }

  isDone(position) {
    return this.#rows !== null ? this.#rows[position] !== null : this.#seen[position] === 1;
  }

  get(position) {
    if (this.#rows !== null) return this.#rows[position];
    const digest = `sha256:${this.#digests.toString("hex", 32 * position, 32 * position + 32)}`;
    return [position, digest, this.#sizes[position], this.#mediaNames[this.#media[position]]];
  }

  totalSize() {
    let total = 0;
    if (this.#rows !== null) {
      for (const entry of this.#rows) if (entry !== null) total += entry[2];
      return total;
    }
    for (const size of this.#sizes) total += size;
    return total;
  }
}
