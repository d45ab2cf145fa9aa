/**
 * Tables as a journal of lines: one framed, checksummed, hash-chained line is one transaction. Twin of store/jsonl.py.
 *
 *     <length of body> <sha256 of body> <body>\n        body: [digest before, bytes synced before, writes]
 *
 * The line from which on the journal is of another format says so with a fourth part.
 *
 * A write is `[table, key, value]`, value null for a deletion. The tables themselves are folded from the lines
 * when the file is opened. Every line says how much of the journal was synced when it was written, and next to
 * the journal `<path>.ack` says the same after the last sync (unsynced itself, so it may only be too small).
 * This separates a torn tail, never acknowledged, which is cut off and reported, from a damaged record.
 */

import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import path from "node:path";

import { Busy, Corrupt, KfmError } from "../errors.mjs";
import { b85decode, b85encode } from "./base85.mjs";
import { REAL, isSystemError, noteAt, readMark, readNote, storageFailed, writeMark, writeNote } from "./fsio.mjs";
import { FORMAT, tooNew, upgrade } from "./state_formats.mjs";
import { sleep } from "./locks.mjs";
import { MemoryTables, RuntimeError } from "./memory.mjs";
import { systemError } from "./system.mjs";

const sha256 = (body) => createHash("sha256").update(body).digest("hex");

export const GENESIS = sha256("kfm jsonl journal 1");
const SECTOR = 512; // what a disk writes whole or not at all
const BLOCK = 1 << 22;
const UNSAID = 3; // the format of a journal that says none

export class JsonlTables {
  constructor(name, files = REAL, { create = true } = {}) {
    this._fs = files;
    this._path = name;
    this._rows = new MemoryTables();
    this._head = GENESIS;
    this._end = 0;
    this._count = 0;
    this._format = 0; // 0 while there is no line
    this._written = 0; // of these by us
    this._acked = 0;
    this._open = false;
    this._pending = [];
    this._durable = true;
    this._failed = null;
    this.repairedBytes = 0; // length of a torn tail that was cut off on opening
    this._ack = -1;
    this._fd = -1;
    this._turn = files.lock(name + ".lock");
    try {
      if (create) this._openToWrite(path.dirname(name));
      else {
        this._fd = files.openRead(name);
        this._acked = noteAt(files, name + ".ack");
        this._catchUp({ repair: false });
        if (this._isOlder()) upgrade(this._rows, this._format); // in memory only: who looks writes nothing
      }
    } catch (problem) {
      this.close();
      throw isSystemError(problem) ? storageFailed(problem, "open the journal") : problem;
    }
  }

  _openToWrite(folder) {
    const files = this._fs;
    if (!files.exists(this._path)) files.makeDirs(folder);
    this._fd = files.openAppend(this._path);
    this._ack = files.openWrite(this._path + ".ack");
    this._takeTurn();
    if (!files.size(this._fd)) {
      // new, or left by a process that died before it made the name durable
      files.makeDirs(folder);
      files.syncDir(folder);
    }
    this._acked = readNote(files, this._ack);
    this._catchUp({ repair: true });
    // complete lines that were not acknowledged yet: keep them
    if (this._acked < this._end) this._sync();
    this._turn.release();
    if (this._isOlder()) {
      this.begin();
      this.commit();
    }
  }

  _isOlder() {
    return this._format > 0 && this._format < FORMAT;
  }

  // -- reading

  get(table, key) {
    this._lookAgain();
    return this._rows.get(table, key);
  }

  scan(table, prefix = "", options = {}) {
    this._lookAgain();
    return this._rows.scan(table, prefix, options);
  }

  _lookAgain() {
    if (this._failed) throw this._failed;
    if (this._open || this._ack < 0) return; // in our own transaction no other process writes; a reader sees one moment
    try {
      const size = this._fs.size(this._fd);
      if (size > this._end) this._fold(size);
    } catch (problem) {
      throw isSystemError(problem) ? this._fail(problem, "read the journal") : problem;
    }
  }

  _catchUp({ repair }) {
    const size = this._fs.size(this._fd);
    if (this._end <= size && size < this._acked) {
      this._fold(size); // to know how many records are whole
      throw new Corrupt(
        `the journal is ${this._acked - size} bytes shorter than what was acknowledged: ` +
          `record ${this._count + 1} is damaged or missing`,
        {
          hint: `restore it from a copy made with ${path.basename(this._path)}.ack; nothing was changed`,
          record: this._count + 1,
        },
      );
    }
    if (size < this._end) {
      throw new Corrupt(`the journal shrank while in use, after record ${this._count}`, {
        hint: "restore it from a copy; nothing was changed",
        record: this._count,
      });
    }
    const rest = this._fold(size);
    if (rest.length) this._judgeTail(rest, repair);
    else if (repair && readMark(this._fs, this._ack)) this._endCutting(); // who cut was killed before the sync
  }

  _fold(size) {
    while (this._end < size) {
      const block = this._fs.readAt(this._fd, Math.min(size - this._end, BLOCK), this._end);
      let consumed = this._foldBlock(block);
      if (!consumed) {
        const rest = this._fs.readAt(this._fd, size - this._end, this._end);
        consumed = this._foldBlock(rest);
        if (!consumed) return rest;
      }
      this._end += consumed;
    }
    return Buffer.alloc(0);
  }

  _foldBlock(block) {
    let start = 0;
    for (;;) {
      const stop = block.indexOf(10, start);
      if (stop < 0) return start;
      const line = unframe(block.subarray(start, stop));
      if (line === null || line.content[0] !== this._head) return start;
      const said = line.content[3] ?? 0;
      if (said > FORMAT) throw tooNew("the journal", said);
      this._format = said || this._format || UNSAID;
      for (const [table, key, value, coded] of line.content[2]) {
        if (coded !== undefined) this._rows.put(table, key, b85decode(coded));
        else if (value === null) this._rows.delete(table, key);
        else this._rows.put(table, key, Buffer.from(value, "utf8"));
      }
      this._head = line.digest;
      this._count += 1;
      start = stop + 1;
    }
  }

  _judgeTail(rest, repair) {
    if (this._end < this._acked || !isTorn(rest, this._end)) {
      throw new Corrupt(`record ${this._count + 1} of the journal is damaged (byte ${this._end})`, {
        hint: "restore it from a copy; nothing was changed and nothing after it was read",
        record: this._count + 1,
      });
    }
    if (repair) {
      // never acknowledged, so no caller relies on it
      writeMark(this._fs, this._ack, { cutting: true });
      this._fs.truncate(this._fd, this._end);
      this._endCutting();
      this.repairedBytes += rest.length;
    }
  }

  _endCutting() {
    this._fs.sync(this._fd);
    writeMark(this._fs, this._ack, { cutting: false });
  }

  // -- writing

  begin(durable = true) {
    if (this._failed) throw this._failed;
    if (this._open) throw new RuntimeError("a transaction is open already");
    try {
      this._takeTurn();
      try {
        this._acked = Math.max(this._acked, readNote(this._fs, this._ack));
        this._catchUp({ repair: true });
      } catch (problem) {
        if (problem instanceof KfmError) this._turn.release();
        throw problem;
      }
    } catch (problem) {
      throw isSystemError(problem) ? this._fail(problem, "read the journal") : problem;
    }
    this._pending = [];
    this._durable = durable;
    this._open = true;
    this._rows.begin();
    if (this._isOlder()) upgrade(this, this._format);
  }

  _takeTurn() {
    if (this._turn.take()) return;
    for (let tries = 0; tries < 500; tries += 1) {
      sleep(10);
      if (this._turn.take()) return;
    }
    throw new Busy("another process is writing to the journal", { hint: "try again when it is done" });
  }

  put(table, key, value) {
    this._rows.put(table, key, value);
    if (isUtf8(value)) this._pending.push([table, key, value.toString("utf8")]);
    else this._pending.push([table, key, null, b85encode(value)]);
  }

  putMany(table, rows) {
    for (const [key, value] of rows) this.put(table, key, value);
  }

  delete(table, key) {
    this._rows.delete(table, key);
    this._pending.push([table, key, null]);
  }

  commit() {
    try {
      if (this._pending.length || this._isOlder()) {
        const said = this._format === FORMAT ? [] : [FORMAT];
        const body = Buffer.from(JSON.stringify([this._head, this._acked, this._pending, ...said]), "utf8");
        const head = sha256(body);
        const line = Buffer.concat([Buffer.from(`${body.length} ${head} `, "latin1"), body, Buffer.from("\n")]);
        this._fs.write(this._fd, line);
        this._head = head;
        this._format = FORMAT;
        this._end += line.length;
        this._count += 1;
        this._written += 1;
      }
      if (this._durable && this._acked < this._end) this._sync();
      this._turn.release();
    } catch (problem) {
      if (isSystemError(problem)) throw this._fail(problem, "write to the journal");
      // Interrupted between the line and our knowledge of it: only the file knows now.
      this._fail(systemError("EINTR", "write", "interrupted"), "write to the journal");
      throw problem;
    } finally {
      this._pending = [];
      this._open = false;
      this._rows.commit();
    }
  }

  _sync() {
    this._fs.sync(this._fd);
    this._acked = this._end;
    writeNote(this._fs, this._ack, this._end);
  }

  _fail(problem, doing) {
    // What reached the disk is unknown now: this object answers nothing any more.
    this._failed = storageFailed(problem, doing);
    if (problem.code !== "EBADF") {
      try {
        this.close();
      } catch (also) {
        if (!(also instanceof KfmError)) throw also;
      }
    }
    return this._failed;
  }

  rollback() {
    this._pending = [];
    this._open = false;
    this._rows.rollback();
    if (!this._failed && this._fd >= 0) this._turn.release();
  }

  foreign() {
    return this._count - this._written;
  }

  close() {
    const fds = [this._fd, this._ack];
    this._fd = this._ack = -1;
    let failed = null;
    for (const fd of fds) {
      try {
        if (fd >= 0) this._fs.close(fd);
      } catch (problem) {
        if (!isSystemError(problem)) throw problem;
        failed = problem;
      }
    }
    this._turn.close();
    if (failed !== null) throw storageFailed(failed, "close the journal");
  }
}

function unframe(line) {
  const first = line.indexOf(32);
  const second = first < 0 ? -1 : line.indexOf(32, first + 1);
  if (second < 0) return null;
  const body = line.subarray(second + 1);
  if (line.toString("latin1", 0, first) !== String(body.length)) return null;
  const digest = sha256(body);
  if (line.toString("latin1", first + 1, second) !== digest) return null;
  const content = contentOf(body);
  return content === null ? null : { digest, content };
}

/** What a body says: [digest before, bytes synced before, writes], with a format perhaps; null if it is anything else. */
function contentOf(body) {
  if (!isUtf8(body)) return null;
  let content;
  try {
    content = JSON.parse(body.toString("utf8"));
  } catch {
    return null;
  }
  const isWrite = (write) =>
    Array.isArray(write) && write.every((part) => part === null || typeof part === "string");
  const right =
    Array.isArray(content) &&
    (content.length === 3 || (content.length === 4 && Number.isInteger(content[3]))) &&
    typeof content[0] === "string" &&
    Number.isInteger(content[1]) &&
    Array.isArray(content[2]) &&
    content[2].every(isWrite);
  return right ? content : null;
}

function isTorn(rest, start) {
  for (const line of linesOf(rest)) {
    const framed = unframe(line);
    if (framed !== null && framed.content[1] > start) return false;
  }
  const hole = rest.indexOf(0);
  if (hole >= 0) {
    let after = hole;
    while (after < rest.length && rest[after] === 0) after += 1;
    return after === rest.length || (start + after) % SECTOR === 0 || beginsALine(rest.subarray(after));
  }
  if (rest.includes(10)) return false;
  const space = rest.indexOf(32);
  const length = rest.toString("latin1", 0, space < 0 ? rest.length : space);
  const tail = space < 0 ? 0 : rest.length - space - 1;
  return !(/^[0-9]+$/.test(length) && tail > 65 + Number(length)); // whole, with something else for its newline
}

function* linesOf(rest) {
  for (let start = 0; ; ) {
    const stop = rest.indexOf(10, start);
    if (stop < 0) {
      yield rest.subarray(start);
      return;
    }
    yield rest.subarray(start, stop);
    start = stop + 1;
  }
}

function beginsALine(rest) {
  const text = rest.toString("latin1", 0, 100).split("\0", 1)[0];
  const space = text.indexOf(" ");
  const length = space < 0 ? text : text.slice(0, space);
  const digest = space < 0 ? "" : text.slice(space + 1, space + 65);
  return /^[0-9]+$/.test(length) && /^[0-9a-f]*$/.test(digest);
}
