/**
 * A read-only look at a SQLite state that writes nothing at all. Opening a WAL-mode database, even read-only, creates
 * side files. So the database and its log are read as plain bytes, the committed pages of the log are laid over the
 * database as SQLite would, and the result is handed to SQLite as a database in memory. Twin of store/snapshot.py.
 */

import fs from "node:fs";

import { Unavailable } from "../errors.mjs";
import { Database } from "./database.mjs";
import { REAL, failingAsStorage, noteAt } from "./fsio.mjs";
import { sleep } from "./locks.mjs";
import { SMALL, SqliteTables } from "./sqlite.mjs";

export class SnapshotTables extends SqliteTables {
  _openFile(name) {
    this._folder = "";
    const { acked, base, log } = failingAsStorage("read the state database", () => ({
      acked: noteAt(REAL, name + ".ack"),
      ...readFiles(name),
    }));
    const image = withLog(base, log);
    this._db = new Database(image.length ? image : ":memory:");
    this._db.pragma("temp_store=MEMORY");
    this._db.pragma("trusted_schema=OFF");
    this._look(name, acked, { small: base.length <= SMALL });
    this._db.pragma("query_only=ON");
  }
}

const EMPTY = Buffer.alloc(0);

const ATTEMPTS = 100;

function readLog(name) {
  const head = read(name, 32);
  if (head.length < 32) return head;
  const frame = head.readUInt32BE(8) + 24;
  if (frame - 24 < 512 || frame - 24 > 65_536) return read(name);
  const salt = head.subarray(16, 24);
  const fd = fs.openSync(name, fs.constants.O_RDONLY);
  try {
    const parts = [head];
    for (let at = 32; ; at += frame * 256) {
      const some = REAL.readAt(fd, frame * 256, at);
      let end = 0;
      while (end < some.length && some.subarray(end + 8, end + 16).equals(salt)) end += frame;
      parts.push(some.subarray(0, Math.min(end, some.length)));
      if (end < frame * 256) return Buffer.concat(parts);
    }
  } finally {
    fs.closeSync(fd);
  }
}

/** The database and its log as of one moment; empty for what does not exist. */
export function readFiles(name) {
  for (let tries = 0; tries < ATTEMPTS; tries += 1) {
    // A writer that restarts its log again and again must end some time.
    if (tries > 3) sleep(tries / 5);
    const before = read(name + "-wal", 32);
    const changed = stamp(name);
    const base = read(name);
    const log = readLog(name + "-wal");
    if (!log.subarray(0, 32).equals(before) || !read(name + "-wal", 32).equals(before)) continue;
    // Without a log nothing can hold the pages that were written while we read.
    if (log.length > 32 || stamp(name) === changed) return { base, log };
  }
  throw new Unavailable("the state is being rewritten too fast to be read", { hint: "try again in a moment" });
}

function read(name, size = -1) {
  let fd;
  try {
    fd = fs.openSync(name, fs.constants.O_RDONLY);
  } catch (problem) {
    if (problem.code === "ENOENT") return EMPTY;
    throw problem;
  }
  try {
    return size >= 0 ? REAL.readAt(fd, size, 0) : fs.readFileSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

function stamp(name) {
  const found = fs.statSync(name, { throwIfNoEntry: false, bigint: true });
  return found === undefined ? "" : `${found.ino} ${found.size} ${found.mtimeNs}`;
}

// -- SQLite's write-ahead log (https://sqlite.org/fileformat2.html#the_write_ahead_log)

const HEADER = 32;
const FRAME = 24;

/** The database as a reader of it and its log sees it: the log's pages up to its last commit laid over. */
export function withLog(base, log) {
  if (!base.length) return base; // without a database SQLite starts an empty one, whatever its log says
  const found = committed(log);
  const image = found === null ? Buffer.from(base) : Buffer.alloc(found.pages * found.size);
  if (found !== null) {
    base.copy(image, 0, 0, image.length);
    for (const [page, at] of found.frames) {
      if (page <= found.pages) log.copy(image, (page - 1) * found.size, at, at + found.size);
    }
  }
  // In memory there is no log: say so where the file says that it has one, or SQLite would look for it.
  for (const at of [18, 19]) if (image[at] === 2) image[at] = 1;
  return image;
}

/** The pages a log holds up to its last commit: their size, how many the database has, and where each lies. */
function committed(log) {
  if (log.length <= HEADER) return null;
  const magic = log.readUInt32BE(0);
  const size = log.readUInt32BE(8);
  if ((magic & ~1) !== 0x377f0682 || size < 512 || size > 65536 || size & (size - 1)) return null;
  const words = magic & 1 ? (at) => log.readUInt32BE(at) : (at) => log.readUInt32LE(at);
  let sums = added([0, 0], words, 0, 24);
  if (sums[0] !== log.readUInt32BE(24) || sums[1] !== log.readUInt32BE(28)) return null;
  if (log.readUInt32BE(4) !== 3007000) throw new Database.SqliteError("unable to open database file", "SQLITE_CANTOPEN");
  const frames = new Map();
  let waiting = [];
  let pages = 0;
  for (let at = HEADER; at + FRAME + size <= log.length; at += FRAME + size) {
    const page = log.readUInt32BE(at);
    if (page === 0 || log.compare(log, 16, 24, at + 8, at + 16) !== 0) break;
    sums = added(added(sums, words, at, at + 8), words, at + FRAME, at + FRAME + size);
    if (sums[0] !== log.readUInt32BE(at + 16) || sums[1] !== log.readUInt32BE(at + 20)) break;
    waiting.push([page, at + FRAME]);
    const total = log.readUInt32BE(at + 4);
    if (total) {
      for (const [number, place] of waiting) frames.set(number, place);
      waiting = [];
      pages = total;
    }
  }
  return pages ? { size, pages, frames } : null;
}

/** SQLite's checksum of these bytes, carried on from `sums`. */
function added([one, two], words, start, end) {
  for (let at = start; at < end; at += 8) {
    one = (one + words(at) + two) >>> 0;
    two = (two + words(at + 4) + one) >>> 0;
  }
  return [one, two];
}
