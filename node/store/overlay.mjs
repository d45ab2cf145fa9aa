/** Reads the real tables, writes to memory: what a dry run is handed instead of a store. Twin of store/overlay.py. */

import { compare } from "../characters.mjs";
import { MemoryTables } from "./memory.mjs";

const GONE = Buffer.from("deleted here"); // an object of its own, known by identity: any bytes may be a value

export class OverlayTables {
  constructor(base) {
    this._base = base;
    this._top = new MemoryTables();
  }

  get(table, key) {
    const value = this._top.get(table, key);
    if (value === null) return this._base.get(table, key);
    return value === GONE ? null : value;
  }

  *scan(table, prefix = "", { after = "", reverse = false, limit = -1 } = {}) {
    if (limit === 0) return;
    const ours = this._top.scan(table, prefix, { after, reverse });
    const theirs = this._base.scan(table, prefix, { after, reverse });
    for (const [key, value] of merged(ours, theirs, reverse ? -1 : 1)) {
      if (value === GONE) continue;
      yield [key, value];
      limit -= 1;
      if (limit === 0) return;
    }
  }

  begin(durable = true) {
    this._top.begin(durable);
  }

  put(table, key, value) {
    this._top.put(table, key, value);
  }

  putMany(table, rows) {
    this._top.putMany(table, rows);
  }

  delete(table, key) {
    this._top.put(table, key, GONE);
  }

  commit() {
    this._top.commit();
  }

  rollback() {
    this._top.rollback();
  }

  foreign() {
    return 0;
  }

  close() {
    this._base.close();
  }
}

/** Both in one order; where both have a key, our row hides theirs. */
function* merged(ours, theirs, sign) {
  let one = ours.next();
  let two = theirs.next();
  while (!one.done || !two.done) {
    const side = one.done ? 1 : two.done ? -1 : sign * compare(one.value[0], two.value[0]);
    if (side <= 0) {
      yield one.value;
      if (side === 0) two = theirs.next();
      one = ours.next();
    } else {
      yield two.value;
      two = theirs.next();
    }
  }
}
