/** Publishes into folders: immutable files, and pointers that only ever move forward. Twin of sinks/folder_publisher.py. */

import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";

import { canonical } from "../canonical.mjs";
import { Busy, Corrupt, StorageFailed } from "../errors.mjs";
import { digest as digestOf } from "../keys.mjs";
import { checkPath } from "../names.mjs";
import { isSystemError, REAL } from "../store/fsio.mjs";
import { sleep } from "../store/locks.mjs";
import { strerror } from "../store/system.mjs";
import { TracingPublisher } from "./noop.mjs";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_WRONLY } = fs.constants;

/**
 * `roots` is a Map from the first part of a path to a folder; "" is the folder for all others.
 *
 * Processes that publish take turns at a lock, which `lock` opens: looking at what is there and replacing it is
 * one act, so that a pointer never goes back, however late a slow process wakes up. `isLatest` tells whether a
 * pointer is what the state says last: it is written even if an older state was put back, which counts less.
 */
export class FilesPublisher extends TracingPublisher {
  #roots;
  #openLock;
  #made = new Set();
  isLatest = () => false;

  constructor(roots, lock) {
    super({ dryRun: false });
    this.#roots = roots;
    this.#openLock = lock;
  }

  #place(name) {
    const parts = checkPath(name).split("/");
    return path.join(this.#roots.get(parts[0]) ?? this.#roots.get(""), ...parts);
  }

  #isPrivate(place) {
    const own = this.#roots.get("receipts");
    return own !== undefined && `${place}/`.startsWith(`${own}/`);
  }

  writeFile(name, digest, size, key, body) {
    const target = this.#place(name);
    if (digestOfFile(target) !== digest) {
      this.#turn(() => {
        const found = digestOfFile(target);
        if (found !== digest && REAL.exists(target)) {
          if (!name.startsWith("receipts/") || !found) {
            throw new Corrupt(`published file ${name} was altered`, {
              hint: "check the file and remove it, then run `kfm resume`",
            });
          }
          asStorageFailed(() => fs.renameSync(target, `${target}.set-aside-${found.slice(7, 19)}`));
        }
        if (found !== digest) this.#write(target, body, digest);
      });
    }
    try {
      keepName(target);
    } catch (problem) {
      // A version whose folder is gone was taken back meanwhile, by a process that knew more.
      if (!name.startsWith("datasets/") || problem.cause?.code !== "ENOENT") throw problem;
    }
    this.note("write_file", name, digest, size, key);
  }

  /** Gone for readers at once. That it stays gone is sure when its folder is, see `removeRest`. */
  removeFile(name, key, check) {
    const target = this.#place(name);
    if (REAL.exists(target)) {
      this.#turn(() => {
        check();
        asStorageFailed(() => fs.rmSync(target, { force: true }));
      });
    }
    this.note("remove_file", name, "", 0, key);
  }

  removeRest(folder, check) {
    const target = this.#place(folder);
    this.#turn(() => {
      check();
      asStorageFailed(() => {
        fs.rmSync(target, { recursive: true, force: true });
        fs.rmSync(path.join(path.dirname(target), ".publishing"), { force: true }); // of its manifest
        if (REAL.isDir(path.dirname(target))) REAL.syncDir(path.dirname(target));
      });
    });
  }

  emitEvent(event, key) {
    const body = canonical(event);
    const target = this.#place(`events/${digestOf(Buffer.from(key)).slice(7, 39)}.json`);
    this.#turn(() => {
      if (!REAL.exists(target)) this.#write(target, [body], digestOf(body));
    });
    keepName(target);
    this.note("emit_event", String(event.type ?? ""), digestOf(body), body.length, key);
  }

  /** A pointer. One with a lower `seq` than is there already comes late and is ignored, if not the latest. */
  updateMetadata(target, value, key) {
    const body = canonical(value);
    const name = digestOf(body);
    const place = this.#place(target);
    this.#turn(() => {
      const later = seqOfFile(place) < (value.seq ?? 0);
      if (later || (this.isLatest(value) && digestOfFile(place) !== name)) this.#write(place, [body], name);
    });
    keepName(place);
    this.note("update_metadata", target, name, body.length, key);
  }

  #turn(work) {
    const lock = this.#openLock();
    try {
      let left = 1000;
      while (!asStorageFailed(() => lock.take())) {
        left -= 1;
        if (!left) {
          throw new Busy("another process is publishing", {
            hint: "the commit is kept; `kfm resume` publishes it later",
          });
        }
        sleep(10);
      }
      work();
    } finally {
      lock.close();
    }
  }

  #write(target, body, digest) {
    const folder = path.dirname(target);
    const temporary = path.join(folder, ".publishing");
    asStorageFailed(() => {
      const pieces = body[Symbol.iterator]();
      const first = pieces.next(); // before anything is made here: this is where it is said if it may not be
      try {
        this.#makeDirs(folder);
        if (REAL.exists(temporary)) fs.rmSync(temporary, { force: true });
        const total = createHash("sha256");
        const fd = fs.openSync(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, this.#isPrivate(target) ? 0o600 : 0o644);
        try {
          for (let piece = first; !piece.done; piece = pieces.next()) {
            const chunk = piece.value;
            total.update(chunk);
            REAL.write(fd, chunk);
          }
          fs.fsyncSync(fd);
        } finally {
          fs.closeSync(fd);
        }
        if (`sha256:${total.digest("hex")}` !== digest) {
          throw new Corrupt("the bytes to publish do not have the expected digest", { hint: "run `kfm doctor --deep`" });
        }
        fs.renameSync(temporary, target);
      } catch (problem) {
        try {
          fs.unlinkSync(temporary);
        } catch {
          // it was not there, or the disk says no a second time
        }
        throw problem;
      } finally {
        pieces.return?.();
      }
    });
  }

  #makeDirs(wanted) {
    if (this.#made.has(wanted) && REAL.isDir(wanted)) return; // it may have been removed since
    REAL.makeDirs(wanted, (folder) => (this.#isPrivate(folder) ? 0o700 : 0o755));
    this.#made.add(wanted);
  }
}

function asStorageFailed(work) {
  try {
    return work();
  } catch (problem) {
    if (!isSystemError(problem)) throw problem;
    throw new StorageFailed(`cannot publish a file: ${strerror(problem)}`, {
      hint: "free some space or fix the folder, then run `kfm resume`",
      cause: problem,
    });
  }
}

function keepName(name) {
  asStorageFailed(() => REAL.syncDir(path.dirname(name)));
}

function digestOfFile(name) {
  if (!REAL.exists(name)) return "";
  const total = createHash("sha256");
  try {
    const fd = fs.openSync(name, O_RDONLY | O_NOFOLLOW);
    try {
      const chunk = Buffer.allocUnsafe(1 << 20);
      for (let count; (count = fs.readSync(fd, chunk)); ) total.update(chunk.subarray(0, count));
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return "";
  }
  return `sha256:${total.digest("hex")}`;
}

function seqOfFile(name) {
  try {
    const fd = fs.openSync(name, O_RDONLY | O_NOFOLLOW);
    try {
      const { seq } = JSON.parse(fs.readFileSync(fd, "utf8"));
      return Number.isInteger(seq) ? seq : 0;
    } finally {
      fs.closeSync(fd);
    }
  } catch {
    return 0;
  }
}
