/** The one place that writes files we must not lose. Twin of src/kfm/fsio.py. */

import fs from "node:fs";
import path from "node:path";
import { crc32 } from "node:zlib";

import { compare } from "../characters.mjs";
import { StorageFailed } from "../errors.mjs";
import { WHY } from "../generated/words.mjs";
import { FileLock } from "./locks.mjs";
import { nameOf, numberOf, strerror } from "./system.mjs";

const { O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR } = fs.constants;

export function storageFailed(problem, doing) {
  const [why, hint] = WHY[nameOf(problem)] ?? [strerror(problem), "see the system log"];
  return new StorageFailed(`cannot ${doing}: ${why}`, { hint, cause: problem, errno: numberOf(problem) });
}

/** Whether the system said no: what OSError is in Python. */
export function isSystemError(problem) {
  return problem instanceof Error && typeof problem.errno === "number" && typeof problem.syscall === "string";
}

export function failingAsStorage(doing, work) {
  try {
    return work();
  } catch (problem) {
    throw isSystemError(problem) ? storageFailed(problem, doing) : problem;
  }
}

export class Fs {
  /** An unreadable path is not a folder: creating it then raises the reason. */
  isDir(name) {
    try {
      return fs.statSync(name).isDirectory();
    } catch {
      return false;
    }
  }

  mkdir(name, mode) {
    try {
      fs.mkdirSync(name, mode);
    } catch (problem) {
      if (problem.code !== "EEXIST") throw problem;
    }
  }

  makeDirs(name, modeOf = () => 0o700) {
    const missing = [];
    while (!this.isDir(name)) {
      missing.push(name);
      name = path.dirname(name);
    }
    try {
      this.syncDir(path.dirname(name));
    } catch (problem) {
      // not ours: then it is not of our making either
      if (problem.code !== "EACCES" && problem.code !== "EPERM") throw problem;
    }
    for (const folder of missing.reverse()) {
      this.mkdir(folder, modeOf(folder)); // whatever the umask would allow
      this.syncDir(path.dirname(folder));
    }
  }

  create(name) {
    return fs.openSync(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  }

  openAppend(name) {
    return fs.openSync(name, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, 0o600);
  }

  openWrite(name) {
    return fs.openSync(name, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
  }

  openRead(name) {
    return fs.openSync(name, O_RDONLY | O_NOFOLLOW);
  }

  write(fd, body) {
    for (let at = 0; at < body.length; ) at += fs.writeSync(fd, body, at, body.length - at, null);
  }

  writeAt(fd, body, offset) {
    fs.writeSync(fd, body, 0, body.length, offset);
  }

  readAt(fd, size, offset) {
    const body = Buffer.allocUnsafe(size);
    let at = 0;
    while (at < size) {
      const count = fs.readSync(fd, body, at, size - at, offset + at);
      if (count === 0) break;
      at += count;
    }
    return at === size ? body : body.subarray(0, at);
  }

  size(fd) {
    return fs.fstatSync(fd).size;
  }

  truncate(fd, size) {
    fs.ftruncateSync(fd, size);
  }

  sync(fd) {
    fs.fdatasyncSync(fd);
  }

  close(fd) {
    fs.closeSync(fd);
  }

  syncDir(name) {
    const fd = fs.openSync(name, O_RDONLY | O_DIRECTORY);
    try {
      fs.fsyncSync(fd);
    } finally {
      fs.closeSync(fd);
    }
  }

  link(source, target) {
    try {
      fs.linkSync(source, target);
    } catch (problem) {
      if (problem.code === "EEXIST") return false;
      throw problem;
    }
    return true;
  }

  replace(source, target) {
    fs.renameSync(source, target);
  }

  unlink(name) {
    try {
      fs.unlinkSync(name);
    } catch (problem) {
      if (problem.code !== "ENOENT") throw problem;
    }
  }

  exists(name) {
    try {
      return fs.lstatSync(name, { throwIfNoEntry: false }) !== undefined; // as is usual: an error is not free to make
    } catch {
      return false;
    }
  }

  list(name) {
    try {
      return fs.readdirSync(name).sort(compare);
    } catch (problem) {
      if (problem.code === "ENOENT") return [];
      throw problem;
    }
  }

  lock(name) {
    return new FileLock(name);
  }
}

export const REAL = new Fs();

// -- a note of how far the acknowledgements have come, next to a state. It is written after each sync and not
// synced itself, so it may only be too small; a state that holds less has lost something.

const MARK = 30; // where the note ends
const sumOf = (body) => crc32(body).toString(16).padStart(8, "0");

export function writeNote(files, fd, acked) {
  const body = String(acked).padStart(20, "0");
  files.writeAt(fd, Buffer.from(`${body} ${sumOf(body)}\n`, "latin1"), 0);
}

export function readNote(files, fd) {
  const body = files.readAt(fd, 32, 0).toString("latin1");
  const said = body.slice(0, 20);
  return /^[0-9]{20}$/.test(said) && body.slice(20, 29) === ` ${sumOf(said)}` ? Number(said) : 0;
}

export function writeMark(files, fd, { cutting }) {
  files.writeAt(fd, Buffer.from(cutting ? "!" : " ", "latin1"), MARK);
}

export const readMark = (files, fd) => files.readAt(fd, 1, MARK).toString("latin1") === "!";

export function noteAt(files, name) {
  if (!files.exists(name)) return 0;
  const fd = files.openRead(name);
  try {
    return readNote(files, fd);
  } finally {
    files.close(fd);
  }
}
