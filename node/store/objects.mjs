/** Immutable bytes by digest: small ones are rows of the state, large ones files. Twin of store/objects.py. */

import { createHash } from "node:crypto";
import path from "node:path";
import { threadId } from "node:worker_threads";

import { first } from "../characters.mjs";
import { BadInput, Corrupt, KfmError, StorageFailed } from "../errors.mjs";
import { digest as digestOf } from "../keys.mjs";
import { isDigest } from "../names.mjs";
import { REAL, isSystemError, storageFailed } from "./fsio.mjs";
import { pythonRepr } from "./python_text.mjs";
import { ASIDE } from "./aside_rows.mjs";
import { holderIsDead, thisProcess } from "./state.mjs";

export const INLINE_MAX = 64 * 1024; // objects up to this size live in the state and share its commit
const KEPT = "sha256"; // the folder of large objects
const PIECE = 1 << 20;

export class FileObjects {
  constructor(root, state, files = REAL) {
    this._root = root;
    this._state = state;
    this._fs = files;
    this._made = new Set();
    this._scratch = "";
  }

  put(body) {
    const staging = this.stage();
    staging.write(body);
    return staging.commit()[0];
  }

  putStream(chunks) {
    const staging = this.stage();
    try {
      for (const chunk of chunks) staging.write(chunk);
    } catch (problem) {
      staging.abort();
      throw problem;
    }
    return staging.commit();
  }

  stage() {
    return new FileStaging(this);
  }

  read(digest) {
    const body = this._state.inlineObject(digest) ?? wholeOf(this._raw(digest));
    if (digestOf(body) !== digest) throw damaged(digest);
    return body;
  }

  /** A stream whose `read` throws Corrupt at its end if the bytes were not the ones named. */
  open(digest) {
    if (this._state.inlineObject(digest) !== null) return new MemoryStream(this.read(digest));
    return new VerifiedStream(this._raw(digest), digest);
  }

  size(digest) {
    const body = this._state.inlineObject(digest);
    if (body !== null) return body.length;
    const file = this._raw(digest);
    try {
      return file.size();
    } finally {
      file.close();
    }
  }

  has(digest) {
    if (!isDigest(digest)) return false;
    return this._state.inlineObject(digest) !== null || this._fs.exists(this.path(digest));
  }

  path(digest, folder = KEPT) {
    if (!isDigest(digest)) {
      throw new BadInput(`${pythonRepr(first(digest, 80))} is not a digest`, {
        hint: "a digest looks like sha256:<64 hex digits>",
      });
    }
    return path.join(this._root, folder, digest.slice(7, 9), digest.slice(9));
  }

  _raw(digest) {
    const name = this.path(digest);
    try {
      return new RawStream(this._fs, this._fs.openRead(name), digest);
    } catch (problem) {
      if (!isSystemError(problem)) throw problem;
      if (problem.code !== "ENOENT") throw storageFailed(problem, "read an object");
      return this.#setAside(digest, problem);
    }
  }

  /** An object that was set aside, or came back meanwhile. */
  #setAside(digest, problem) {
    const aside = this._state.asideObject(digest);
    const body = aside === null ? this._state.inlineObject(digest) : aside.body;
    if (body !== null) return new MemoryStream(body);
    for (const folder of aside === null ? [] : [ASIDE, KEPT]) {
      try {
        return new RawStream(this._fs, this._fs.openRead(this.path(digest, folder)), digest);
      } catch (other) {
        if (other.code !== "ENOENT") throw storageFailed(other, "read an object");
      }
    }
    throw missing(digest, problem);
  }

  folder(name) {
    if (!this._made.has(name)) {
      this._fs.makeDirs(name);
      this._made.add(name);
    }
    return name;
  }

  scratch() {
    if (!this._scratch) {
      const folder = this.folder(path.join(this._root, "tmp"));
      for (const name of this._fs.list(folder)) {
        if (holderIsDead(name.split("-").slice(0, -2).join("-"))) this._fs.unlink(path.join(folder, name));
      }
      this._scratch = path.join(folder, thisProcess());
    }
    return this._scratch;
  }

  adopt(temporary, digest) {
    const target = this.path(digest);
    const folder = this.folder(path.dirname(target));
    if (!this._fs.link(temporary, target) && !this.#isWhole(digest)) this._fs.replace(temporary, target);
    this._fs.unlink(temporary);
    this._fs.syncDir(folder);
  }

  #isWhole(digest) {
    try {
      const file = new VerifiedStream(this._raw(digest), digest);
      try {
        while (file.read(PIECE).length);
      } finally {
        file.close();
      }
    } catch (problem) {
      if (!(problem instanceof Corrupt)) throw problem;
      return false;
    }
    return true;
  }

  inline(digest, body) {
    // Not synced by itself: whatever commit names it later is durable, and covers it.
    this._state.transaction(null, { durable: false }, (tx) => tx.objects([[digest, body]]));
  }
}

export class FileStaging {
  constructor(objects) {
    this._objects = objects;
    this._fs = objects._fs;
    this._small = [];
    this._size = 0;
    this._fd = -1;
    this._path = "";
    this._hash = createHash("sha256");
  }

  write(chunk) {
    this._size += chunk.length;
    if (this._fd >= 0) {
      this._append(chunk);
      return;
    }
    this._small.push(Buffer.from(chunk)); // a copy: the caller may reuse its buffer
    if (this._size > INLINE_MAX) this._spill();
  }

  _spill() {
    const held = Buffer.concat(this._small);
    this._small = [];
    try {
      const scratch = this._objects.scratch();
      for (let n = 0; this._fd < 0; n += 1) {
        this._path = `${scratch}-${threadId}-${n}`;
        try {
          this._fd = this._fs.create(this._path);
        } catch (problem) {
          if (problem.code !== "EEXIST") throw problem;
        }
      }
    } catch (problem) {
      throw this._failed(problem);
    }
    this._append(held);
  }

  _append(chunk) {
    this._hash.update(chunk);
    try {
      this._fs.write(this._fd, chunk);
    } catch (problem) {
      throw this._failed(problem);
    }
  }

  commit() {
    if (this._fd < 0) {
      const body = Buffer.concat(this._small);
      const digest = digestOf(body);
      this._objects.inline(digest, body);
      return [digest, body.length];
    }
    try {
      this._fs.sync(this._fd);
      const digest = `sha256:${this._hash.digest("hex")}`;
      if (this._fs.size(this._fd) !== this._size) {
        throw new StorageFailed("the staged file is shorter than what was written", { hint: "check the disk" });
      }
      const fd = this._fd;
      this._fd = -2; // gone even if closing fails: its number may be another file's by then
      this._fs.close(fd);
      this._objects.adopt(this._path, digest);
      return [digest, this._size];
    } catch (problem) {
      if (problem instanceof KfmError) this.abort();
      throw this._failed(problem);
    }
  }

  abort() {
    const fd = this._fd;
    this._fd = -2;
    if (fd >= 0) quietly(() => this._fs.close(fd));
    if (this._path) quietly(() => this._fs.unlink(this._path));
  }

  _failed(problem) {
    if (!isSystemError(problem)) return problem;
    this.abort();
    return storageFailed(problem, "store an object");
  }
}

function quietly(work) {
  try {
    work();
  } catch (problem) {
    if (!isSystemError(problem)) throw problem;
  }
}

/** What `open` gives: `read(count)` answers up to that many bytes, none at the end; all of them without a count. */
class MemoryStream {
  constructor(body) {
    this._body = body;
    this._at = 0;
  }

  read(count = -1) {
    const start = this._at;
    this._at = count < 0 ? this._body.length : Math.min(this._body.length, start + count);
    return this._body.subarray(start, this._at);
  }

  size() {
    return this._body.length;
  }

  close() {}
}

class RawStream {
  constructor(files, fd, digest) {
    this._fs = files;
    this._fd = fd;
    this._digest = digest;
    this._at = 0;
  }

  read(count = -1) {
    if (count < 0) return wholeOf(this, false);
    try {
      const body = this._fs.readAt(this._fd, count, this._at);
      this._at += body.length;
      return body;
    } catch (problem) {
      if (!isSystemError(problem)) throw problem;
      throw problem.code === "EISDIR" ? noFile(this._digest, problem) : storageFailed(problem, "read an object");
    }
  }

  size() {
    return this._fs.size(this._fd);
  }

  close() {
    const fd = this._fd;
    this._fd = -1;
    if (fd >= 0) this._fs.close(fd);
  }
}

class VerifiedStream {
  constructor(file, digest) {
    this._file = file;
    this._digest = digest;
    this._hash = createHash("sha256");
    this._ended = false;
  }

  read(count = -1) {
    if (count < 0) return wholeOf(this, false);
    const body = this._ended || count === 0 ? EMPTY : this._file.read(count);
    if (body.length) this._hash.update(body);
    else if (count !== 0 && !this._ended) {
      this._ended = true;
      if (`sha256:${this._hash.digest("hex")}` !== this._digest) throw damaged(this._digest);
    }
    return body;
  }

  close() {
    this._file.close();
  }
}

const EMPTY = Buffer.alloc(0);

function wholeOf(file, closing = true) {
  try {
    const pieces = [];
    for (let piece; (piece = file.read(PIECE)).length; ) pieces.push(piece);
    return pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
  } finally {
    if (closing) file.close();
  }
}

export class DryObjects {
  constructor(real) {
    this._real = real;
    this._new = new Map();
  }

  put(body) {
    const digest = digestOf(body);
    this._new.set(digest, body);
    return digest;
  }

  putStream(chunks) {
    const body = Buffer.concat([...chunks].map((chunk) => Buffer.from(chunk)));
    return [this.put(body), body.length];
  }

  stage() {
    return new DryStaging(this);
  }

  read(digest) {
    if (this._new.has(digest)) return this._new.get(digest);
    if (this._real === null) throw missing(digest);
    return this._real.read(digest);
  }

  open(digest) {
    if (this._new.has(digest) || this._real === null) return new MemoryStream(this.read(digest));
    return this._real.open(digest);
  }

  size(digest) {
    if (this._new.has(digest) || this._real === null) return this.read(digest).length;
    return this._real.size(digest);
  }

  has(digest) {
    return this._new.has(digest) || (this._real !== null && this._real.has(digest));
  }
}

/** Memory only. A source larger than memory cannot be dry-run; its limit is `network.max_bytes`. */
export class DryStaging {
  constructor(objects) {
    this._objects = objects;
    this._chunks = [];
  }

  write(chunk) {
    this._chunks.push(Buffer.from(chunk));
  }

  commit() {
    const body = Buffer.concat(this._chunks);
    return [this._objects.put(body), body.length];
  }

  abort() {
    this._chunks = [];
  }
}

function missing(digest, cause = undefined) {
  return new Corrupt(`object ${digest} is missing`, { hint: "restore the objects folder from a copy", cause });
}

function damaged(digest) {
  return new Corrupt(`object ${digest} is damaged: its bytes have another digest`, { hint: "restore it from a copy" });
}

function noFile(digest, cause) {
  return new Corrupt(`object ${digest} is damaged: there is a folder in its place`, {
    hint: "restore it from a copy",
    cause,
  });
}
