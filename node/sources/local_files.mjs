/** Reads a source from a directory into the object store, and from nowhere else. Twin of sources/local_files.py. */

import fs from "node:fs";
import path from "node:path";

import { badUtf8 } from "../canonical.mjs";
import { SystemClock } from "../clock.mjs";
import { BadInput, Refused, Unavailable } from "../errors.mjs";
import { escapedBytes, printable } from "../names.mjs";
import { Checkpoint, Fetched, replace, SourceRef } from "../records.mjs";
import { openBeneath } from "./openat.mjs";
import { checkExpectation, CHUNK, Intake, tooLarge } from "./staging.mjs";

const { O_DIRECTORY, O_NOCTTY, O_NONBLOCK, O_RDONLY } = fs.constants;
const RACY_MS = 2000; // a file changed this shortly before it was read may change again under the same time stamp

export class FileSource {
  #monotonic;

  constructor({ clock = new SystemClock() } = {}) {
    this.#monotonic = () => clock.monotonic();
  }

  async fetch(request, known, objects) {
    checkExpectation(request);
    const deadline = this.#monotonic() + request.total_ms / 1000;
    const base = path.resolve(request.base_dir || ".");
    const parts = partsOf(request.uri, base);
    const shown = printable(parts.join("/"), 200);
    const root = openRoot(base);
    try {
      const place = { root, base, names: parts.map((part) => nameOf(part, shown)), shown };
      const descriptor = open(place);
      try {
        const before = fs.fstatSync(descriptor, { bigint: true });
        if (!before.isFile()) throw notRegular(shown);
        if (known !== null && mayReuse(request, known, before, objects)) return fetched(request, known, before, true);
        if (before.size > BigInt(request.max_bytes)) throw tooLarge(shown, request.max_bytes);
        const intake = new Intake(request, objects, shown);
        let stored;
        try {
          this.#read(descriptor, intake, Number(before.size), deadline, shown);
          checkUnchanged(place, descriptor, before);
          stored = intake.commit();
        } finally {
          intake.close();
        }
        const checkpoint = Checkpoint({
          uri: request.uri,
          content_hash: stored[0],
          size: stored[1],
          media_type: request.media_type,
          etag: validator(before),
          last_modified: "",
          fetched_ms: request.now_ms,
          checked_ms: request.now_ms,
        });
        return fetched(request, checkpoint, before, false);
      } finally {
        fs.closeSync(descriptor);
      }
    } finally {
      fs.closeSync(root);
    }
  }

  #read(descriptor, intake, expected, deadline, shown) {
    for (;;) {
      if (this.#monotonic() >= deadline) {
        throw new Unavailable(`${shown} took too long to read`, {
          hint: "try again later, or raise total_s of this source or of network",
        });
      }
      const room = Buffer.allocUnsafe(Math.min(CHUNK, expected - intake.size + 1));
      let count;
      try {
        count = fs.readSync(descriptor, room, 0, room.length, null);
      } catch (problem) {
        throw unreadable(problem, shown);
      }
      if (!count) break;
      if (intake.size + count > expected) throw changed(shown); // also the end of a file that grows as fast as it is read
      intake.write(room.subarray(0, count));
    }
    if (intake.size !== expected) throw changed(shown);
  }
}

function partsOf(uri, base) {
  let name = /^file:/i.test(uri) ? pathOf(uri.slice(5)) : uri;
  if (name.includes("\0")) throw new BadInput("the path of the source holds a NUL character");
  if (name.startsWith("/")) {
    const prefix = [base, realPath(base)].map((root) => `${root.replace(/\/+$/, "")}/`).find((one) => name.startsWith(one));
    if (prefix === undefined) {
      throw new Refused(`${printable(name, 200)} is outside of the folder of kfm.yml`, {
        hint: "put it there or below, and name it from there",
      });
    }
    name = name.slice(prefix.length);
  }
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (!parts.length || parts.includes("..")) {
    throw new BadInput(`${printable(name, 200)} is not a path to a file in the folder of kfm.yml or below`, {
      hint: "move it there, and name it without '..'",
    });
  }
  return parts;
}

function realPath(name) {
  try {
    return fs.realpathSync(name);
  } catch {
    return name;
  }
}

function pathOf(rest) {
  let name = rest;
  if (name.startsWith("//")) {
    const slash = name.indexOf("/", 2);
    const host = slash < 0 ? name.slice(2) : name.slice(2, slash);
    if (!["", "localhost"].includes(host.toLowerCase()) || slash < 0) {
      throw new BadInput("the file URI names another machine", {
        hint: "write file:///absolute/path or a relative path",
      });
    }
    name = name.slice(slash);
  }
  if (name.includes("?") || name.includes("#")) {
    throw new BadInput("the file URI holds '?' or '#'", { hint: "write them as %3F and %23" });
  }
  if (!name.includes("%")) return name;
  const raw = escapedBytes(name);
  if (raw === null) throw noName(printable(name, 200));
  return textOf(unquoted(raw));
}

function unquoted(raw) {
  const text = raw.toString("latin1");
  return Buffer.from(
    text.replace(/%([0-9a-fA-F]{2})/g, (_, digits) => String.fromCharCode(parseInt(digits, 16))),
    "latin1",
  );
}

/** Bytes as text: what is no UTF-8 becomes halves of surrogate pairs, as Python has it, and comes back as it was. */
function textOf(raw) {
  let text = "";
  let rest = raw;
  for (;;) {
    const bad = badUtf8(rest);
    if (bad < 0) return text + rest.toString("utf8");
    text += rest.toString("utf8", 0, bad) + String.fromCharCode(0xdc00 + rest[bad]);
    rest = rest.subarray(bad + 1);
  }
}

function nameOf(part, shown) {
  const raw = escapedBytes(part);
  if (raw === null) throw noName(shown);
  return raw;
}

const noName = (shown) => new BadInput(`${shown} is not a name a file can have`);

function openRoot(base) {
  try {
    return fs.openSync(base, O_RDONLY | O_DIRECTORY);
  } catch (problem) {
    throw unreadable(problem, `the source's directory ${printable(base, 200)}`);
  }
}

function open({ root, base, names, shown }) {
  try {
    // Not blocking: the other end of a FIFO may never come.
    return openBeneath(root, base, names, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  } catch (problem) {
    throw unreadable(problem, shown);
  }
}

function notRegular(shown) {
  return new Refused(`${shown} is not a regular file`, { hint: "name a file that can be read to its end" });
}

function unreadable(problem, shown) {
  switch (problem.code) {
    case "ENOENT":
    case "ENOTDIR":
      return new Refused(`${shown} does not exist`, { hint: "check the path; published versions stay" });
    case "ELOOP":
    case "EXDEV":
      return new Refused(`${shown} leads through a symbolic link or out of its directory`, {
        hint: "name the file itself",
      });
    case "EACCES":
    case "EPERM":
      return new Refused(`${shown} may not be read by this user`, { hint: "change its permissions" });
    case "ENAMETOOLONG":
    case "EINVAL":
      return noName(shown);
    case "ENXIO":
    case "ENODEV":
    case "EISDIR":
      return notRegular(shown);
  }
  if (typeof problem.errno !== "number") return problem;
  return new Unavailable(`${shown} cannot be read (${problem.code})`, {
    hint: "check the disk, then try again",
    errno: Math.abs(problem.errno),
  });
}

function validator(info) {
  return `"${[info.size, info.mtimeNs, info.ctimeNs, info.ino].map((one) => one.toString(16)).join("-")}"`;
}

function mayReuse(request, known, info, objects) {
  const age = request.now_ms - known.fetched_ms;
  return (
    known.uri === request.uri &&
    known.etag === validator(info) &&
    age >= 0 &&
    age < request.revalidate_ms &&
    milliseconds(info.mtimeNs) + RACY_MS < known.fetched_ms &&
    (request.expect_hash === "" || request.expect_hash === known.content_hash) &&
    objects.has(known.content_hash)
  );
}

/** Rounded down, also before 1970. */
function milliseconds(ns) {
  const whole = ns / 1_000_000n;
  return Number(ns % 1_000_000n < 0n ? whole - 1n : whole);
}

function checkUnchanged(place, descriptor, before) {
  const after = fs.fstatSync(descriptor, { bigint: true });
  if (after.size !== before.size || after.mtimeNs !== before.mtimeNs || after.ctimeNs !== before.ctimeNs) {
    throw changed(place.shown);
  }
  let again;
  try {
    again = open(place);
  } catch (problem) {
    if (problem instanceof Refused) throw changed(place.shown);
    throw problem;
  }
  let now;
  try {
    now = fs.fstatSync(again, { bigint: true });
  } finally {
    fs.closeSync(again);
  }
  if (now.dev !== before.dev || now.ino !== before.ino) throw changed(place.shown);
}

function changed(shown) {
  return new Unavailable(`${shown} changed while it was read`, {
    hint: "try again; the writer should write a temporary file and rename it",
  });
}

function fetched(request, known, info, notModified) {
  return Fetched({
    ref: SourceRef({
      uri: request.uri,
      content_hash: known.content_hash,
      size: known.size,
      name: request.name,
      media_type: request.media_type,
      partition: request.partition,
      complete: request.complete,
    }),
    checkpoint: replace(known, { checked_ms: request.now_ms }),
    not_modified: notModified,
    bytes_on_wire: notModified ? 0 : Number(info.size),
  });
}
