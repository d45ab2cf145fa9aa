/** Stages foreign bytes: counts and hashes them, and drops them unless all is well. Twin of sources/staging.py. */

import { createHash } from "node:crypto";

import { BadInput, Refused } from "../errors.mjs";
import { isDigest } from "../names.mjs";

export const CHUNK = 1 << 20;

/** Stages a body in pieces of at least 1 MiB. `abort` after anything but `commit`: it drops everything. */
export class Intake {
  #limit;
  #expect;
  #shown;
  #inspect;
  #small = [];
  #smallSize = 0;
  #own = null;
  #done = false;
  #staging;

  constructor(request, objects, shown, inspect = null) {
    checkExpectation(request);
    this.size = 0;
    this.#limit = request.max_bytes;
    this.#expect = request.expect_hash;
    this.#shown = shown;
    this.#inspect = inspect;
    // The staging tells its digest only by committing, and what is not as expected must not be stored.
    if (this.#expect) this.#own = createHash("sha256");
    this.#staging = objects.stage();
  }

  write(chunk) {
    this.size += chunk.length;
    if (this.size > this.#limit) throw tooLarge(this.#shown, this.#limit);
    if (chunk.length >= CHUNK && !this.#small.length) {
      this.#passOn(chunk);
      return;
    }
    this.#small.push(chunk);
    this.#smallSize += chunk.length;
    if (this.#smallSize >= CHUNK) this.#flush();
  }

  commit() {
    this.#flush();
    if (this.#own !== null && `sha256:${this.#own.digest("hex")}` !== this.#expect) {
      throw new Refused(`${this.#shown} does not have the expected hash`, {
        hint: "check the source, then update expect_hash if the new content is right",
        expected: this.#expect,
      });
    }
    const stored = this.#staging.commit();
    this.#done = true;
    return stored;
  }

  #flush() {
    if (!this.#small.length) return;
    const chunk = this.#small.length === 1 ? this.#small[0] : Buffer.concat(this.#small);
    this.#small = [];
    this.#smallSize = 0;
    this.#passOn(chunk);
  }

  #passOn(chunk) {
    if (this.#inspect !== null) {
      this.#inspect(chunk.subarray(0, 1024));
      this.#inspect = null;
    }
    this.#own?.update(chunk);
    this.#staging.write(chunk);
  }

  /** Drops what was not committed; nothing otherwise. */
  close() {
    if (!this.#done) this.#staging.abort();
  }
}

export function checkExpectation(request) {
  if (request.expect_hash && !isDigest(request.expect_hash)) {
    throw new BadInput("expect_hash is not a digest", { hint: "give sha256: and 64 lower-case hex digits" });
  }
}

export function tooLarge(shown, limit) {
  return new Refused(`${shown} is larger than the ${limit} bytes allowed`, {
    hint: "raise max_bytes of this source or of network if it should be that large",
    max_bytes: limit,
  });
}
