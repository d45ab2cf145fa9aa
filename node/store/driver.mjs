/** What the store adds to the driver of SQLite: which errors mean what, and a way to let go without a trace. */

import fs from "node:fs";
import path from "node:path";
import { crc32 } from "node:zlib";

import { Corrupt } from "../errors.mjs";
import { printable } from "../names.mjs";
import { Database } from "./database.mjs";
import { isSystemError } from "./fsio.mjs";
import { asPythonText } from "./python_text.mjs";

// Our statements are always the same and right: where SQLite finds one wrong, or a row impossible, the file is.
export const DAMAGE = new Set([
  "SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_TOOBIG", "SQLITE_MISMATCH", "SQLITE_FORMAT",
]);

/** The sum of a row. Node's crc32 forgets what it was to carry on from where there are no bytes. */
export const sumOf = (table, key, value) => {
  const start = crc32(`${table}/${key}`);
  return value.length ? crc32(value, start) : start;
};
export const hex = (sum) => sum.toString(16).padStart(8, "0");
export const mayBeNoText = (text) => typeof text === "string" && text.includes("\ufffd");
export const isSqliteError = (problem) => problem instanceof Database.SqliteError;

/** The kind of an error of SQLite without its particulars: SQLITE_IOERR of SQLITE_IOERR_FSYNC. */
export const primary = (problem) => /^SQLITE_[A-Z]+/.exec(problem.code ?? "")?.[0] ?? "";

/** The driver trims names of files: one that would be changed by it is not opened under another name. */
export function connect(name, options) {
  if (name.trim() !== name) throw new Database.SqliteError("unable to open database file", "SQLITE_CANTOPEN");
  return new Database(name, options);
}

const abandoned = new Set();

/**
 * A connection that must not be closed: closing moves its log into the database and removes it, and the driver
 * has no switch for that. It is let go of with the process, which then ends without closing anything either.
 */
export function leaveOpen(db) {
  if (db.inTransaction) {
    try {
      db.exec("ROLLBACK"); // so that others need not wait for us
    } catch (problem) {
      if (!isSqliteError(problem)) throw problem;
    }
  }
  if (!abandoned.size) process.on("exit", (code) => process.exit(code));
  abandoned.add(db);
}

export function isFull(folder) {
  try {
    const place = fs.statfsSync(folder || ".");
    return place.bavail * place.bsize < 1 << 16;
  } catch (problem) {
    if (isSystemError(problem)) return false;
    throw problem;
  }
}

export function damaged(what, cause = undefined) {
  return new Corrupt(`the state database is damaged: ${what}`, {
    hint: "restore it from a copy; nothing was changed",
    cause,
  });
}

export function lost(commits, name) {
  const base = path.basename(name);
  return new Corrupt(`the last ${commits} acknowledged commits are missing from the state database`, {
    hint: `restore ${base} together with ${base}-wal; if an older copy was put back on purpose, remove ${base}.ack`,
    missing: commits,
  });
}

export function isRight(table, key, value, total) {
  return Buffer.isBuffer(value) && typeof key === "string" && sumOf(table, key, value) === total;
}

export function checkRow(table, key, value, total) {
  if (isRight(table, key, value, total)) return;
  const text = asPythonText(key);
  throw new Corrupt(`record ${table}/${printable(text).slice(1, -1)} is damaged`, {
    hint: "restore the state from a copy; nothing was changed",
    record: text,
  });
}
