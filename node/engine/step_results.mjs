/** The result of every step, by its position: [position, digest, size, media type]. */
export class Results {
  #rows;

  constructor(steps) {
    this.steps = steps;
    this.described = new Map(); // what outputs say of themselves; most say nothing
    this.done = 0;
    this.#rows = new Array(steps).fill(null);
  }

  add(entries) {
    for (const entry of entries) {
      if (this.#rows[entry[0]] === null) this.done += 1;
      this.#rows[entry[0]] = entry;
    }
  }

  isDone(position) {
    return this.#rows[position] !== null;
  }

  get(position) {
    return this.#rows[position];
  }

  totalSize() {
    return this.#rows.reduce((total, entry) => total + (entry?.[2] ?? 0), 0);
  }
}
