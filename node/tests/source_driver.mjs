/**
 * Fetches what the other language asks for, a line of JSON each, and tells what came of it.
 *
 * {id, request, known, session, ways, kind} to {id, fetched | error, stored, open, chunks}. `session` names a store that is
 * kept between questions. `ways` may replace how names are resolved and addresses dialled:
 * {resolve: {host: [addresses] | null | "never"}, dial: {address: [host, port, peer address, peer port] | code}, certFile}.
 */

import { createHash } from "node:crypto";
import net from "node:net";
import readline from "node:readline";

import { KfmError } from "../errors.mjs";
import { convert, Checkpoint, FetchRequest } from "../records.mjs";
import { dialTcp, systemResolve, verifyingTls } from "../sources/connect.mjs";
import { FileSource } from "../sources/local_files.mjs";
import { HttpSource } from "../sources/http.mjs";

/** The object store's port in memory, which also knows what was left half-done. */
class MemoryObjects {
  stored = new Map();
  openStagings = 0;
  chunkSizes = [];

  stage() {
    const parts = [];
    let open = true;
    this.openStagings += 1;
    const close = () => {
      if (!open) throw new Error("closed twice");
      open = false;
      this.openStagings -= 1;
    };
    return {
      write: (chunk) => {
        if (!open || !Buffer.isBuffer(chunk)) throw new Error("not now, or not bytes");
        this.chunkSizes.push(chunk.length);
        parts.push(Buffer.from(chunk));
      },
      commit: () => {
        close();
        const body = Buffer.concat(parts);
        const digest = `sha256:${createHash("sha256").update(body).digest("hex")}`;
        this.stored.set(digest, body);
        return [digest, body.length];
      },
      abort: close,
    };
  }

  has(digest) {
    return this.stored.has(digest);
  }
}

const sessions = new Map();

function sourceOf(kind, ways, dialled) {
  if (kind === "file") return new FileSource();
  const resolve = async (host, port) => {
    if (!Object.hasOwn(ways.resolve ?? {}, host)) return systemResolve(host, port);
    const report = ways.resolve[host];
    if (report === "never") return new Promise(() => {});
    if (report === null) throw Object.assign(new Error("no such name"), { code: "ENOTFOUND" });
    if (Array.isArray(report[0])) return report.shift(); // one answer after another
    return report;
  };
  const dial = async (address, port, signal) => {
    dialled.push(`${address}:${port}`);
    const report = ways.dial?.[address];
    if (report === undefined) return dialTcp(address, port, signal);
    if (typeof report === "string") throw Object.assign(new Error(report), { code: report, errno: -111 });
    const socket = await dialTcp(report[0], report[1], signal);
    if (report.length > 2) {
      Object.defineProperty(socket, "remoteAddress", { value: report[2] });
      Object.defineProperty(socket, "remotePort", { value: report[3] });
    }
    return socket;
  };
  return new HttpSource({ resolve, dial, tls: () => verifyingTls(ways.certFile ?? "") });
}

async function answer({ id, request, known = null, session = "", ways = {}, kind = "http", forget = false }) {
  if (forget || !sessions.has(session)) sessions.set(session, new MemoryObjects());
  const objects = sessions.get(session);
  const dialled = [];
  const report = { id };
  try {
    const source = sourceOf(kind, ways, dialled);
    report.fetched = await source.fetch(convert(FetchRequest, request), known && convert(Checkpoint, known), objects);
  } catch (problem) {
    if (!(problem instanceof KfmError)) report.bug = String(problem.stack);
    report.error = {
      kind: problem.name, message: problem.message, hint: problem.hint, fields: problem.fields, code: problem.code,
    };
  }
  report.stored = [...objects.stored.keys()];
  report.open = objects.openStagings;
  report.dialled = dialled;
  return report;
}

net.setDefaultAutoSelectFamily?.(false);

for await (const line of readline.createInterface({ input: process.stdin })) {
  answer(JSON.parse(line)).then((report) => process.stdout.write(`${JSON.stringify(report)}\n`));
}
process.exit(0);
