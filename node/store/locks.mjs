/**
 * A lock between processes of any of our languages, given back by the system when its holder dies. Twin of store/locks.py.
 *
 * Node can call neither flock(2) nor fcntl(2), but SQLite takes the same advisory locks on the same bytes of a file in
 * both languages. So a lock is the write lock of an empty database, to which nothing is ever written.
 */

import fs from "node:fs";
import path from "node:path";

import { StorageFailed } from "../errors.mjs";
import { Database } from "./database.mjs";
import { systemError } from "./system.mjs";

const { O_CREAT, O_EXCL, O_RDONLY, O_RDWR, R_OK, W_OK } = fs.constants;

/** Taken by one holder at a time, whether in this process or in another. A system error where the file cannot be had. */
export class FileLock {
  constructor(name) {
    this._name = name;
    this._db = null;
  }

  take() {
    try {
      this._db ??= this._connect();
      this._begin.run();
    } catch (problem) {
      const code = problem.code ?? "";
      if (code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED")) return false;
      this.close();
      if (code.startsWith("SQLITE_NOTADB")) {
        throw new StorageFailed(`${path.basename(this._name)} is not a lock file: it contains bytes`, {
          hint: "remove it while nothing else is at work here",
          cause: problem,
        });
      }
      throw this._why(problem);
    }
    return true;
  }

  release() {
    try {
      this._rollback?.run();
    } catch (problem) {
      this.close();
      throw this._why(problem);
    }
  }

  close() {
    const db = this._db;
    this._db = this._begin = this._rollback = null;
    db?.close();
  }

  _connect() {
    if (fs.lstatSync(this._name, { throwIfNoEntry: false })?.isSymbolicLink()) throw systemError("ELOOP", "open");
    if (!fs.existsSync(this._name)) {
      // nothing here is synced: a lock lives no longer than its holder
      quietlyIfThere(() => fs.mkdirSync(path.dirname(this._name), { recursive: true, mode: 0o700 }));
      quietlyIfThere(() => fs.closeSync(fs.openSync(this._name, O_RDWR | O_CREAT | O_EXCL, 0o600)));
    }
    const db = new Database(this._name, { timeout: 0, fileMustExist: true });
    try {
      db.pragma("journal_mode=MEMORY");
      this._begin = db.prepare("BEGIN IMMEDIATE");
      this._rollback = db.prepare("ROLLBACK");
    } catch (problem) {
      db.close();
      throw problem;
    }
    return db;
  }

  _why(problem) {
    const code = problem.code ?? "";
    if (!code.startsWith("SQLITE_")) return problem;
    if (code.startsWith("SQLITE_CANTOPEN") || code.startsWith("SQLITE_READONLY")) {
      if (fs.statSync(this._name, { throwIfNoEntry: false })?.isDirectory()) return systemError("EISDIR", "open");
      try {
        fs.accessSync(this._name, R_OK | W_OK);
        fs.closeSync(fs.openSync(path.dirname(this._name), O_RDONLY));
      } catch (found) {
        return found;
      }
    }
    return systemError("EIO", "lock", problem.message);
  }
}

function quietlyIfThere(work) {
  try {
    work();
  } catch (problem) {
    if (problem.code !== "EEXIST") throw problem;
  }
}

const sleeper = new Int32Array(new SharedArrayBuffer(4));

/** Wait without doing anything else: for a lock, while nothing is open that others wait for. */
export function sleep(ms) {
  Atomics.wait(sleeper, 0, 0, ms);
}
