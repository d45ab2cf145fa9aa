/** Reads a source over HTTP into the object store. Twin of src/kfm/sources/http.py. */

import { parseInstant, SystemClock } from "../clock.mjs";
import { BadInput, Denied, Refused, Unavailable } from "../errors.mjs";
import { OURS } from "../generated/words.mjs";
import { Checkpoint, Fetched, replace, SourceRef } from "../records.mjs";
import { decoded as decodedText } from "../secret_refs.mjs";
import { isAllowed } from "./addresses.mjs";
import { connect, dialTcp, systemResolve, verifyingTls } from "./connect.mjs";
import { checkExpectation, Intake, tooLarge } from "./staging.mjs";
import { parse } from "./urls.mjs";
import { Budget } from "./http1.mjs";

export const MAX_REDIRECTS = 5;
export const MAX_RETRY_AFTER_S = 3600;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const TRY_LATER = new Set([408, 425, 429]);
const GONE = new Set([404, 410]);
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const HTTP_DATE = new RegExp(
  `^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), ([0-9]{2}) (${MONTHS.join("|")}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT$`,
);
const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;

export class HttpSource {
  #resolve;
  #dial;
  #tls;
  #clock;

  constructor({ resolve = systemResolve, dial = dialTcp, tls = verifyingTls, clock = new SystemClock() } = {}) {
    this.#resolve = resolve;
    this.#dial = dial;
    this.#tls = tls;
    this.#clock = clock;
  }

  /** `known`: what the last fetch of this URI left; used only to ask whether anything is new. */
  async fetch(request, known, objects) {
    const first = parse(request.address || request.uri);
    let here = first;
    checkExpectation(request);
    checkHeaders(request);
    const condition = known !== null && mayAsk(request, known, objects) ? known : null;
    const budget = new Budget({
      timeoutMs: request.timeout_ms,
      totalMs: request.total_ms,
      wireBytes: request.max_bytes + Math.floor(request.max_bytes / 8) + (1 << 20), // room for heads and chunk sizes
      monotonic: () => this.#clock.monotonic(),
    });
    const ways = { resolve: this.#resolve, dial: this.#dial, tls: this.#tls };
    for (let hop = 0; hop <= MAX_REDIRECTS; hop += 1) {
      budget.shown = here.shown();
      const wire = await connect(here, request.allow, budget, ways);
      try {
        const head = await wire.ask(here.target, question(here, first, request, condition));
        if (REDIRECTS.has(head.status)) {
          budget.read += head.headSize;
          here = nextHop(first, here, head, request);
          continue;
        }
        if (head.status === 304) {
          budget.read += head.headSize;
          return unchanged(request, condition, budget);
        }
        checkStatus(head, request, budget.shown);
        return await receive(request, head, objects, budget);
      } finally {
        wire.close();
      }
    }
    throw new Refused(`${first.shown()} redirects more than ${MAX_REDIRECTS} times`, {
      hint: "give the final address as the source",
    });
  }
}

export function mayAsk(request, known, objects) {
  const age = request.now_ms - known.fetched_ms;
  return (
    known.uri === request.uri &&
    age >= 0 && // a clock that went back is no reason to trust
    age < request.revalidate_ms &&
    (request.expect_hash === "" || request.expect_hash === known.content_hash) &&
    conditionLine(known) !== "" &&
    objects.has(known.content_hash)
  );
}

export function conditionLine(known) {
  if (known.etag && isEtag(known.etag)) return `If-None-Match: ${known.etag}`;
  if (known.last_modified && isPlain(known.last_modified)) return `If-Modified-Since: ${known.last_modified}`;
  return "";
}

function question(here, first, request, condition) {
  const own = here.origin === first.origin ? request.headers : [];
  const given = new Set(own.map(([name]) => name.toLowerCase()));
  const lines = [["Host", here.authority], ...own];
  if (!given.has("user-agent")) lines.push(["User-Agent", "kfm"]);
  if (!given.has("accept")) {
    lines.push(["Accept", isPlain(request.media_type) ? `${request.media_type}, */*;q=0.1` : "*/*"]);
  }
  if (condition !== null) lines.push(conditionLine(condition).split(/: (.*)/, 2));
  lines.push(["Accept-Encoding", "gzip, identity"], ["Connection", "close"]);
  return lines.flat();
}

function checkHeaders(request) {
  for (const [name, value] of request.headers) {
    if (!NAME.test(lowered(name)) || OURS.includes(lowered(name))) {
      throw new BadInput("the source sets a header that KFM sets itself", { hint: `remove ${OURS.join(", ")}` });
    }
    if (/[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]/.test(value)) {
      throw new BadInput(`the value of header ${name} holds a character that a header cannot carry`);
    }
  }
}

/** In lower case, of ASCII alone: some letters past it have an ASCII letter as their small one. */
const lowered = (name) => (/^[\x00-\x7f]*$/.test(name) ? name.toLowerCase() : "");

function nextHop(first, here, head, request) {
  const shown = here.shown();
  if (!head.one("location")) {
    throw new Refused(`${shown} redirects without one clear Location`, { hint: "ask the server's operator" });
  }
  let there;
  try {
    there = here.follow(head.one("location"));
  } catch (problem) {
    if (!(problem instanceof BadInput)) throw problem;
    throw new Refused(`${shown} redirects to an address that is refused: ${problem.message}`, {
      hint: "give the final address as the source",
    });
  }
  if (there.host !== first.host && !isAllowed(there.host, there.port, [...request.hosts, ...request.allow])) {
    throw new Denied(`${shown} redirects to ${there.host}, a host that this source does not allow`, {
      hint: `if you want this, add '${there.host}' to the source's \`hosts:\``,
    });
  }
  if (here.scheme === "https" && there.scheme === "http") {
    throw new Denied(`${shown} redirects from https to http`, {
      hint: "if you want this, give the http address as the source",
    });
  }
  if (there.origin !== first.origin && givesAway(there.target, request.secrets)) {
    throw new Denied(`${shown} redirects to ${there.host} with a secret of this source in the address`, {
      hint: "ask the server's operator; if this is meant, give the final address as the source",
    });
  }
  return there;
}

function givesAway(target, secrets) {
  const seen = [target, decodedText(target)];
  return secrets.some((secret) => secret.length >= 8 && seen.some((text) => text.includes(secret)));
}

function checkStatus(head, request, shown) {
  const { status } = head;
  if (status === 200) return;
  if (status >= 500 || TRY_LATER.has(status)) {
    const wait = retryAfter(head.one("retry-after"), request.now_ms);
    throw new Unavailable(`${shown} answers ${status}`, { hint: "try again later", status, retry_after_s: wait });
  }
  if (GONE.has(status)) {
    const hint = "published versions stay; correct the address, or remove the source from kfm.yml";
    throw new Refused(`${shown} answers ${status}: the source is gone`, { hint, status });
  }
  if (status === 401 || status === 403 || status === 407) {
    const hint = "check what the source's `headers:` and `query:` refer to";
    throw new Refused(`${shown} answers ${status}: access is denied`, { hint, status });
  }
  throw new Refused(`${shown} answers ${status}, which carries no data`, {
    hint: "check the address of the source",
    status,
  });
}

function retryAfter(text, nowMs) {
  if (/^[0-9]+$/.test(text)) return Math.min(Number(text.slice(0, 9)), MAX_RETRY_AFTER_S);
  const found = HTTP_DATE.exec(text);
  if (found === null) return null;
  const [, day, month, year, ...time] = found;
  const number = String(MONTHS.indexOf(month) + 1).padStart(2, "0");
  let moment;
  try {
    moment = parseInstant(`${year}-${number}-${day}T${time.join(":")}Z`, "the date");
  } catch (problem) {
    if (problem instanceof BadInput) return null;
    throw problem;
  }
  return Math.min(Math.max(Math.floor((moment - nowMs) / 1000), 0), MAX_RETRY_AFTER_S);
}

function unchanged(request, condition, budget) {
  if (condition === null) {
    throw new Unavailable(`${budget.shown} answers 304 to an unconditional request`, {
      hint: "try again later; a cache of this server is broken",
      status: 304,
    });
  }
  // The validators stay those of the answer that carried the bytes, whatever this 304 says.
  const checkpoint = replace(condition, { checked_ms: request.now_ms });
  return Fetched({
    // Validators are kept only of bodies that came whole (see receive), so this one did.
    ref: refOf(request, checkpoint, request.complete),
    checkpoint,
    not_modified: true,
    bytes_on_wire: budget.read,
  });
}

async function receive(request, head, objects, budget) {
  const { shown } = budget;
  const { length, hasEnd, chunks: framed } = head.body(shown);
  let mediaType = head.one("content-type");
  if (!isPlain(mediaType)) mediaType = "";
  checkMediaType(request, mediaType, shown);
  const { codingOf, decoded } = await import("./content_encoding.mjs"); // a 304 has nothing to decode
  const coding = codingOf(head.all("content-encoding").join(","), shown);
  if (length > request.max_bytes) throw tooLarge(shown, request.max_bytes);
  const chunks = coding === "identity" ? framed : decoded(framed, coding, request.max_ratio, shown);
  const intake = new Intake(request, objects, shown, (start) => checkNotHtml(request, start, shown));
  let stored;
  try {
    for await (const chunk of chunks) intake.write(chunk);
    if (intake.size === 0 && !request.expect_hash) {
      throw new Refused(`${shown} answers 200 with an empty body`, {
        hint: "if it may be empty, set expect_hash to the SHA-256 of no bytes",
      });
    }
    stored = intake.commit();
  } finally {
    intake.close();
  }
  const [contentHash, size] = stored;
  // A body without a declared end may have been cut: no validator is kept, so the next fetch reads it whole.
  const etag = head.one("etag");
  const lastModified = head.one("last-modified");
  const checkpoint = Checkpoint({
    uri: request.uri,
    content_hash: contentHash,
    size,
    media_type: mediaType,
    etag: hasEnd && isEtag(etag) ? etag : "",
    last_modified: hasEnd && isPlain(lastModified) ? lastModified : "",
    fetched_ms: request.now_ms,
    checked_ms: request.now_ms,
  });
  return Fetched({
    ref: refOf(request, checkpoint, request.complete && hasEnd),
    checkpoint,
    not_modified: false,
    bytes_on_wire: budget.read + head.size(length),
  });
}

function refOf(request, checkpoint, complete) {
  return SourceRef({
    uri: request.uri,
    content_hash: checkpoint.content_hash,
    size: checkpoint.size,
    name: request.name,
    media_type: request.media_type || checkpoint.media_type,
    partition: request.partition,
    etag: checkpoint.etag,
    last_modified: checkpoint.last_modified,
    complete,
  });
}

function checkMediaType(request, mediaType, shown) {
  const essence = mediaType.split(";", 1)[0].trim().toLowerCase();
  const isHtml = essence === "text/html" || essence === "application/xhtml+xml";
  if (isHtml && request.media_type && !request.media_type.includes("html")) throw html(shown);
}

function checkNotHtml(request, start, shown) {
  if (!request.media_type || request.media_type.includes("html") || request.media_type.includes("xml")) return;
  const text = start.toString("latin1").replace(/^\xef\xbb\xbf/, "").replace(/^[\t-\r ]+/, "").slice(0, 16);
  if (/^(?:<!doctype html|<html)/i.test(text)) throw html(shown);
}

function html(shown) {
  return new Refused(`${shown} answers with a web page, not with data`, {
    hint: "open it in a browser to see what it says",
  });
}

const isPlain = (text) => /^[\x20-\x7e]{1,200}$/.test(text);

export function isEtag(text) {
  if (!text || text.length > 1024 || /[\x00-\x20\x7f]/.test(text)) return false;
  const opaque = text.startsWith("W/") ? text.slice(2) : text;
  if (opaque.startsWith('"')) return opaque.length >= 2 && opaque.endsWith('"') && !opaque.slice(1, -1).includes('"');
  return text !== "*" && !text.includes(",") && !text.includes('"');
}
