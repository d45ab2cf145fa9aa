/** Files for data that do not fit into memory: without a name, gone when closed or when the process ends. */

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { randomUUID } from "node:crypto";

import { failingAsStorage } from "../store/fsio.mjs";
import { beat } from "./heartbeat.mjs";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR } = fs.constants;

/** A file of its own; a dry run gets memory instead: it writes nothing. */
export function openScratch(context) {
  return context.ports.settings.dry_run ? new MemoryScratch() : new FileScratch(context);
}

class FileScratch {
  #context;
  #fd;

  constructor(context) {
    this.#context = context;
    this.size = 0;
    const name = path.join(os.tmpdir(), `kfm-${randomUUID()}`);
    failingAsStorage("lay something aside", () => {
      this.#fd = fs.openSync(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
      fs.unlinkSync(name);
    });
  }

  /** At the end; returns where it begins. */
  write(body) {
    beat(this.#context);
    const begin = this.size;
    failingAsStorage("lay something aside", () => {
      for (let at = 0; at < body.length; ) at += fs.writeSync(this.#fd, body, at, body.length - at, begin + at);
    });
    this.size += body.length;
    return begin;
  }

  readAt(offset, count) {
    beat(this.#context);
    const body = Buffer.allocUnsafe(Math.max(0, Math.min(count, this.size - offset)));
    failingAsStorage("read what was laid aside", () => {
      for (let at = 0; at < body.length; ) at += fs.readSync(this.#fd, body, at, body.length - at, offset + at);
    });
    return body;
  }

  close() {
    const fd = this.#fd;
    this.#fd = -1;
    if (fd >= 0) fs.closeSync(fd);
  }
}

class MemoryScratch {
  #body = Buffer.alloc(1 << 16);
  size = 0;

  write(body) {
    const begin = this.size;
    if (begin + body.length > this.#body.length) {
      const larger = Buffer.alloc(Math.max(2 * this.#body.length, begin + body.length));
      this.#body.copy(larger, 0, 0, begin);
      this.#body = larger;
    }
    body.copy(this.#body, begin);
    this.size += body.length;
    return begin;
  }

  readAt(offset, count) {
    return this.#body.subarray(offset, Math.min(this.size, offset + count));
  }

  close() {
    this.#body = Buffer.alloc(0);
  }
}
