/**
 * Puts rows in order within a bound of memory: more than fits is sorted in parts that lie aside meanwhile. An entry is
 * {row, tags, keys}: tags are whole numbers that go with the row, keys what it is sorted by, null being blank. Twin of
 * src/kfm/updaters/transforms/external_sort.py.
 */

/** How much a step may hold: bytes of rows, about, and keys. */
export const LIMITS = Object.freeze({ budget: 256 << 20, keys: 1 << 20 });
export const ROW = 192; // bytes that a row and its key count for besides their characters
const FRAME = 2048; // rows that are laid aside together

/** How rows are measured and laid aside: `pack` gives a text, `unpack` the row of it. */
export class Sorter {
  #keysOf;
  #order;
  #form;
  #room;
  #entries = [];
  #held = 0;
  #file = null;
  #parts = [];

  /**
   * `keysOf(row, tags)` reads the keys; `compares` is for each of them a comparison of two that are not blank, and
   * `descending` whether the largest comes first. `form` is {pack, unpack, sizeOf}, `room` what may be held and
   * where more is laid aside: {budget, keys, scratch}.
   */
  constructor(keysOf, compares, descending, form, room) {
    this.#keysOf = keysOf;
    this.#order = orderOf(compares, descending);
    this.#form = form;
    this.#room = room;
  }

  add(row, tags) {
    this.#entries.push({ row, tags, keys: this.#keysOf(row, tags) });
    this.#held += this.#form.sizeOf(row) + ROW;
    if (this.#held > this.#room.budget) this.#layAside();
  }

  /** All entries in order. */
  *entries() {
    if (!this.#parts.length) {
      this.#entries.sort(this.#order);
      yield* this.#entries;
      return;
    }
    this.#layAside();
    yield* merged(this.#parts.map(([begin, end]) => this.#part(begin, end)), this.#order);
  }

  close() {
    this.#file?.close();
    this.#file = null;
    this.#entries = [];
  }

  #layAside() {
    if (!this.#entries.length) return;
    this.#file ??= this.#room.scratch();
    const begin = this.#file.size;
    this.#entries.sort(this.#order);
    for (let start = 0; start < this.#entries.length; start += FRAME) {
      const some = this.#entries.slice(start, start + FRAME);
      const body = Buffer.from(JSON.stringify(some.map(({ row, tags }) => [this.#form.pack(row), tags])), "utf8");
      const head = Buffer.alloc(8);
      head.writeBigUInt64BE(BigInt(body.length));
      this.#file.write(head);
      this.#file.write(body);
    }
    this.#parts.push([begin, this.#file.size]);
    this.#entries = [];
    this.#held = 0;
  }

  *#part(begin, end) {
    while (begin < end) {
      const size = Number(this.#file.readAt(begin, 8).readBigUInt64BE());
      const body = JSON.parse(this.#file.readAt(begin + 8, size).toString("utf8"));
      begin += 8 + size;
      for (const [packed, tags] of body) {
        const row = this.#form.unpack(packed);
        yield { row, tags, keys: this.#keysOf(row, tags) };
      }
    }
  }
}

/** Blank ones last, whichever way the others go. */
function orderOf(compares, descending) {
  return (a, b) => {
    for (let n = 0; n < compares.length; n += 1) {
      const x = a.keys[n];
      const y = b.keys[n];
      if (x === null || y === null) {
        if (x === y) continue;
        return x === null ? 1 : -1;
      }
      const order = compares[n](x, y);
      if (order) return descending[n] ? -order : order;
    }
    return 0;
  };
}

/** Streams that are each in order, as one; of entries that are alike the one of the earlier stream comes first. */
function* merged(streams, order) {
  const heap = [];
  const before = (a, b) => (order(a.entry, b.entry) || a.n - b.n) < 0;
  const sink = (at) => {
    for (;;) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < heap.length && before(heap[child], heap[least])) least = child;
      }
      if (least === at) return;
      [heap[at], heap[least]] = [heap[least], heap[at]];
      at = least;
    }
  };
  streams.forEach((stream, n) => {
    const { done, value } = stream.next();
    if (!done) heap.push({ entry: value, n, stream });
  });
  for (let at = heap.length >> 1; at >= 0; at -= 1) sink(at);
  while (heap.length) {
    yield heap[0].entry;
    const { done, value } = heap[0].stream.next();
    if (done) {
      const last = heap.pop();
      if (heap.length) heap[0] = last;
    } else heap[0].entry = value;
    sink(0);
  }
}

export const byNumber = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
