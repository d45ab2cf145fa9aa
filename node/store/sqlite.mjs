/** Tables over SQLite: WAL mode, synchronous=FULL, a bundled SQLite without the WAL-reset bug. Twin of store/sqlite.py. */

import { isUtf8 } from "node:buffer";
import fs from "node:fs";
import path from "node:path";
import { crc32 } from "node:zlib";

import { Busy, Refused, StorageFailed } from "../errors.mjs";
import { VITAL } from "../generated/catalogue.mjs";
import {
  DAMAGE, checkRow, connect, damaged, hex, isFull, isRight, isSqliteError, leaveOpen, lost, mayBeNoText, primary, sumOf,
} from "./driver.mjs";
import { REAL, isSystemError, noteAt, storageFailed, writeNote } from "./fsio.mjs";
import { tooNew, upgrade } from "./state_formats.mjs";
import { sleep } from "./locks.mjs";
import { RuntimeError, checkKey, successor } from "./memory.mjs";
import { pythonRepr } from "./python_text.mjs";

export const APPLICATION_ID = 0x4b464d31; // "KFM1"
const SQL = new URL("../../src/kfm/store/sql/", import.meta.url); // one description of the tables for both languages
const AGAIN =
  "ON CONFLICT(key) DO UPDATE SET value=excluded.value, sum=excluded.sum " +
  "WHERE sum IS NOT excluded.sum OR value IS NOT excluded.value";
export const SMALL = 1 << 20; // a database up to this size is checked whole whenever it is opened; a larger one where vital
const PAGE = 500;

export function migrations() {
  const found = [];
  for (const name of fs.readdirSync(SQL).sort()) {
    const number = /^([0-9]+)_.*\.sql$/.exec(name)?.[1];
    if (number) found.push([Number(number), fs.readFileSync(new URL(name, SQL), "utf8")]);
  }
  return found;
}

export class SqliteTables {
  constructor(name, { busyMs = 10_000 } = {}) {
    this._wrote = false;
    this._failed = null;
    this._durable = true;
    this._open = false;
    this._folder = path.dirname(name);
    this._note = -1;
    this._db = null;
    this._statements = new Map();
    this._seen = 0; // PRAGMA data_version inside the open transaction, once it was asked for
    this._counted = [0, 0]; // that number at our last full commit, and what it was counted as
    this._opening(() => this._openFile(name, busyMs));
  }

  _openFile(name, busyMs) {
    const acked = noteAt(REAL, name + ".ack");
    const there = fs.statSync(name, { throwIfNoEntry: false });
    const fresh = !there?.size;
    // SQLite would start an empty database, and remove the log that may still hold everything
    if (fresh && acked) throw lost(acked, name);
    if (fresh) REAL.makeDirs(this._folder);
    this._note = REAL.openWrite(name + ".ack");
    this._db = connect(name, { timeout: busyMs });
    if (fresh) fs.chmodSync(name, 0o600);
    if (fresh) this._db.exec("PRAGMA page_size=1024");
    this._keepALog(busyMs);
    this._db.exec("PRAGMA synchronous=FULL");
    this._db.exec(`PRAGMA wal_autocheckpoint=${4_096_000 / this._value("PRAGMA page_size")}`);
    this._db.exec("PRAGMA cache_size=-8192");
    this._db.exec("PRAGMA trusted_schema=OFF");
    this._look(name, acked, { small: fs.statSync(name).size <= SMALL });
  }

  _keepALog(busyMs) {
    for (let left = Math.floor(busyMs / 10); ; left -= 1) {
      try {
        this._db.pragma("journal_mode=WAL");
        return;
      } catch (problem) {
        if (left <= 0 || primary(problem) !== "SQLITE_BUSY") throw problem;
        sleep(10);
      }
    }
  }

  _opening(work) {
    try {
      work();
    } catch (problem) {
      if (isSqliteError(problem)) {
        const failure = this._fail(problem);
        this._abandon();
        throw failure;
      }
      this._abandon();
      throw isSystemError(problem) ? storageFailed(problem, "open the state database") : problem;
    }
  }

  _look(name, acked, { small }) {
    const lookedAt = small ? [""] : VITAL;
    const version = this._version();
    if (version) for (const table of lookedAt) this._checkStructure(table);
    const have = version ? Number(this._guarded("commits")) : 0;
    if (have < acked) throw lost(acked - have, name);
    this._migrate();
    if (version) for (const table of lookedAt) this._checkRows(table);
  }

  _migrate() {
    const steps = migrations();
    const newest = steps.at(-1)[0];
    const found = this._version();
    if (found > newest) throw tooNew("the state database", found);
    if (found === newest) return;
    this._db.exec("BEGIN IMMEDIATE");
    try {
      const have = this._version();
      for (const [number, text] of steps) if (number > have) this._db.exec(`${text};PRAGMA user_version=${number}`);
      if (have) upgrade(this, have);
      this._db.exec(`PRAGMA application_id=${APPLICATION_ID}`);
      this._guard("schema", this._schema());
      if (!have) {
        this._guard("commits", Buffer.from("0"));
        if (this._folder) {
          // the file's name, before anything is in it that could be missed
          REAL.makeDirs(this._folder);
          REAL.syncDir(this._folder);
        }
      }
    } catch (problem) {
      this._db.exec("ROLLBACK");
      throw problem;
    }
    this._db.exec("COMMIT");
  }

  _version() {
    if (!this._value("SELECT count(*) FROM sqlite_schema")) return 0;
    const mark = this._value("PRAGMA application_id");
    let seal;
    try {
      seal = this._guarded("schema");
    } catch (problem) {
      if (mark === APPLICATION_ID || primary(problem) !== "SQLITE_ERROR") throw problem;
      throw new Refused("the state file is a database of another program", { hint: "point `state:` elsewhere" });
    }
    if (!seal.equals(this._schema())) throw damaged("its description of the tables was altered");
    return this._value("PRAGMA user_version");
  }

  _schema() {
    const rows = this._db.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name").raw().all();
    if (rows.flat().some(mayBeNoText)) {
      const texts = "SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(tbl_name AS BLOB), CAST(sql AS BLOB)";
      const bodies = this._db.prepare(`${texts} FROM sqlite_schema`).raw().all().flat();
      if (!bodies.every((body) => body === null || isUtf8(body))) throw damaged("a name in it is not text");
    }
    const listed = rows.map((row) => `(${row.map(pythonRepr).join(", ")})`).join(", ");
    const marks = [this._value("PRAGMA user_version"), this._value("PRAGMA application_id")];
    return Buffer.from(hex(crc32(`([${listed}], (${marks.join(", ")}))`)));
  }

  _guard(key, value) {
    this._prepared("INSERT OR REPLACE INTO guard VALUES(?,?,?)").run(key, value, sumOf("guard", key, value));
  }

  _guarded(key) {
    const row = this._prepared("SELECT value, sum FROM guard WHERE key=?").get(key);
    if (row === undefined) throw damaged(`record guard/${key} is missing`);
    checkRow("guard", key, ...row);
    return row[0];
  }

  _abandon() {
    if (this._db !== null) {
      leaveOpen(this._db);
      this._db = null;
      this._statements.clear();
    }
    if (this._note >= 0) {
      try {
        REAL.close(this._note);
      } catch (problem) {
        if (!isSystemError(problem)) throw problem;
      }
      this._note = -1;
    }
  }

  _prepared(query) {
    let statement = this._statements.get(query);
    if (statement === undefined) {
      statement = this._db.prepare(query);
      if (statement.reader) statement.raw();
      this._statements.set(query, statement);
    }
    return statement;
  }

  _value(query) {
    return this._prepared(query).get()?.[0] ?? null;
  }

  settings() {
    const names = ["OFF", "NORMAL", "FULL", "EXTRA"];
    return {
      sqlite: this._value("SELECT sqlite_version()"),
      journal_mode: String(this._value("PRAGMA journal_mode")),
      synchronous: names[this._value("PRAGMA synchronous")],
      wal_autocheckpoint: String(this._value("PRAGMA wal_autocheckpoint")),
    };
  }

  _checkStructure(table = "") {
    const problem = this._db.prepare(`PRAGMA integrity_check(${table || 1})`).raw().get()?.[0] ?? null;
    if (problem !== "ok") throw damaged(String(problem ?? "None").replace(/\n$/, "").split("\n").at(-1));
  }

  _checkRows(only = "") {
    let count = 0;
    const listed = "SELECT name FROM sqlite_schema WHERE type='table'";
    const tables = only ? [only] : this._db.prepare(listed).pluck().all();
    for (const table of tables) {
      for (const [key, value, total] of this._db.prepare(`SELECT key, value, sum FROM ${table}`).raw().iterate()) {
        if (mayBeNoText(key) && !isRight(table, key, value, total)) this._checkKeys(table);
        checkRow(table, key, value, total);
        count += 1;
      }
    }
    return count;
  }

  // -- reading

  get(table, key) {
    checkKey(key);
    const row = this._asking(() => this._prepared(`SELECT value, sum FROM ${table} WHERE key=?`).get(key));
    if (row === undefined) return null;
    checkRow(table, key, ...row);
    return row[0];
  }

  *scan(table, prefix = "", { after = "", reverse = false, limit = -1 } = {}) {
    while (limit !== 0) {
      const page = limit < 0 ? PAGE : Math.min(limit, PAGE);
      const rows = this._page(table, prefix, after, reverse, page);
      for (const [key, value, total] of rows) {
        checkRow(table, key, value, total);
        yield [key, value];
      }
      after = rows.length === page ? rows.at(-1)[0] : "";
      if (!after) return; // the last row, or the one before which there can be none
      if (limit > 0) limit -= page;
    }
  }

  _page(table, prefix, after, reverse, page) {
    checkKey(prefix + after);
    const end = successor(prefix);
    const where = ["key >= ?"];
    const values = [prefix];
    if (end) {
      where.push("key < ?");
      values.push(end);
    }
    if (after) {
      where.push(reverse ? "key < ?" : "key > ?");
      values.push(after);
    }
    const order = reverse ? "DESC" : "ASC";
    const query = `SELECT key, value, sum FROM ${table} WHERE ${where.join(" AND ")} ORDER BY key ${order} LIMIT ?`;
    return this._asking(() => {
      const rows = this._prepared(query).all(...values, BigInt(page));
      for (const [key, value, total] of rows) {
        if (mayBeNoText(key) && !isRight(table, key, value, total)) this._checkKeys(table);
      }
      return rows;
    });
  }

  /** Asked where a key has a replacement character: the driver puts one in for bytes that are no text. */
  _checkKeys(table) {
    for (const body of this._db.prepare(`SELECT CAST(key AS BLOB) FROM ${table}`).pluck().all()) {
      if (body !== null && !isUtf8(body)) throw damaged(`a key of ${table} is not text`);
    }
  }

  _asking(work) {
    if (this._failed) throw this._failed;
    try {
      return work();
    } catch (problem) {
      throw isSqliteError(problem) ? this._fail(problem) : problem;
    }
  }

  // -- writing

  begin(durable = true) {
    if (this._failed) throw this._failed;
    if (this._open) throw new RuntimeError("a transaction is open already");
    this._asking(() => {
      if (durable !== this._durable) {
        // cannot be changed inside a transaction
        this._prepared(durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL").run();
        this._durable = durable;
      }
      this._prepared("BEGIN IMMEDIATE").run();
      this._open = true;
      this._seen = 0;
    });
  }

  put(table, key, value) {
    checkKey(key);
    const total = sumOf(table, key, value);
    this._asking(() => this._prepared(`INSERT INTO ${table} VALUES(?,?,?) ${AGAIN}`).run(key, value, total));
  }

  putMany(table, rows) {
    for (const [key, value] of rows) this.put(table, key, value);
  }

  delete(table, key) {
    checkKey(key);
    this._asking(() => this._prepared(`DELETE FROM ${table} WHERE key=?`).run(key));
  }

  commit() {
    this._wrote = true;
    try {
      if (this._durable) {
        const acked = this._commits() + 1;
        const body = Buffer.from(String(acked));
        this._prepared("UPDATE guard SET value=?, sum=? WHERE key='commits'").run(body, sumOf("guard", "commits", body));
        this._prepared("COMMIT").run();
        this._counted = [this._seen, acked];
        writeNote(REAL, this._note, acked);
      } else this._prepared("COMMIT").run();
    } catch (problem) {
      if (isSqliteError(problem)) throw this._fail(problem);
      if (!isSystemError(problem)) throw problem;
      this._failed = storageFailed(problem, "note what was committed");
      this._abandon();
      throw this._failed;
    } finally {
      this._end();
    }
  }

  rollback() {
    this._end();
  }

  _end() {
    this._open = false;
    if (!this._failed && this._db.inTransaction) this._asking(() => this._prepared("ROLLBACK").run());
  }

  foreign() {
    return this._asking(() => {
      if (!this._seen) this._seen = this._value("PRAGMA data_version"); // once a transaction: no other writes
      return this._seen;
    });
  }

  _commits() {
    if (this._counted[0] === this.foreign()) return this._counted[1];
    return Number(this._guarded("commits"));
  }

  close() {
    if (this._failed || this._db === null) return;
    try {
      if (this._wrote) {
        // SQLite would do it on closing anyway, and not say a word if it failed
        this._wrote = false;
        this._db.pragma("wal_checkpoint(PASSIVE)");
      }
    } catch (problem) {
      if (!isSqliteError(problem)) throw problem;
      const full = primary(problem) === "SQLITE_FULL" || isFull(this._folder);
      this._failed = new StorageFailed(
        `cannot close the state database: ${full ? "the disk is full" : problem.message}`,
        {
          hint: "what was acknowledged is safe in its log; " + (full ? "make room" : "check the disk"),
          cause: problem,
        },
      );
      this._abandon();
      throw this._failed;
    }
    const [db, note] = [this._db, this._note];
    this._db = null;
    this._note = -1;
    this._statements.clear();
    db.close();
    try {
      if (note >= 0) REAL.close(note);
    } catch (problem) {
      throw isSystemError(problem) ? storageFailed(problem, "close the state database") : problem;
    }
  }

  _fail(problem) {
    if (this._failed) return this._failed;
    const kind = primary(problem);
    if (kind === "SQLITE_BUSY" || kind === "SQLITE_LOCKED") {
      return new Busy("another process is writing to the state database", {
        hint: "try again when it is done",
        cause: problem,
      });
    }
    if (DAMAGE.has(kind)) return damaged(problem.message, problem);
    this._failed = this._giveUp(problem);
    return this._failed;
  }

  _giveUp(problem) {
    this._abandon();
    const failed = (message, hint) => new StorageFailed(message, { hint, cause: problem });
    const kind = primary(problem);
    if (kind === "SQLITE_FULL" || isFull(this._folder)) {
      return failed("cannot write the state: the disk is full", "free some space, then `kfm resume`");
    }
    if (kind === "SQLITE_CANTOPEN") {
      return failed(
        "cannot open the state database",
        "check that its folder exists and may be written, and ulimit -n",
      );
    }
    if (kind === "SQLITE_READONLY") {
      return failed("cannot write the state: it is read-only", "check the owner and mode of the file");
    }
    return failed(`cannot write the state: ${problem.message}`, "check the disk before anything else, then `kfm resume`");
  }
}
