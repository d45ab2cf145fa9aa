// Is this request what its sender signed, now, for the first time? The twin of scheduling/webhook_requests.py.
//
// Order: one signature header, of the kind the source accepts; the HMAC over the raw bytes; only then is the body
// read; its own signed time must be fresh; its id must be new (the caller asks the state that).

import { createHash, createHmac, timingSafeEqual } from "node:crypto";

import { decode } from "./canonical.mjs";
import { parseInstant } from "./clock.mjs";
import { BadInput } from "./errors.mjs";
import { isMapping } from "./types.mjs";

const SIGNATURE_OF = new Map([
  ["x-kfm-signature", "kfm"],
  ["x-hub-signature-256", "github"],
  ["webhook-signature", "standard"],
]);
export const KEEP_MS = 86_400_000; // how long an id is kept beyond the time its message is fresh
const WORD = /^[A-Za-z0-9._:/-]{1,100}$/;
const NO_SECRET = Buffer.from("nobody+has+this+one/it+is+for+comparison+on=");
const KNOWN_KEYS = new Set(["source_id", "trigger", "event_type", "sent_at", "integrity", "metadata"]);

export class Rejected extends Error {
  constructor(reason, status = 403) {
    super(reason);
    this.reason = reason;
    this.status = status;
  }
}

/**
 * Returns the message of a request whose signature is right and whose time is now; throws Rejected otherwise.
 *
 * hook: {source_id, secrets: [Buffer], accept, tolerance_ms, enabled}, or null for an unknown source, which is
 * compared with a dummy secret, so that the response time reveals nothing. headers: [[lower-case name, Buffer]].
 */
export function verify(hook, headers, body, nowMs) {
  const [scheme, sealed] = sealedOf(headers);
  // Another scheme's secret may be no key of this one; the answer is no in any case.
  const secrets = hook !== null && hook.accept === scheme ? hook.secrets : [NO_SECRET];
  const genuine = GENUINE[scheme](secrets, headers, sealed, body);
  if (hook === null) throw new Rejected("source.unknown");
  if (!hook.enabled) throw new Rejected("source.disabled");
  if (scheme !== hook.accept) throw new Rejected("scheme.refused");
  if (!genuine) throw new Rejected("signature.mismatch");
  const message = MESSAGE[scheme](hook, headers, objectOf(body), body);
  if (message.sent_ms !== null && Math.abs(nowMs - message.sent_ms) > hook.tolerance_ms) {
    throw new Rejected("time.stale");
  }
  return message;
}

export function signature(scheme, secret, body, { messageId = "", timestamp = "" } = {}) {
  if (scheme !== "standard") return "sha256=" + createHmac("sha256", secret).update(body).digest("hex");
  const mac = standardMac(secret, Buffer.from(messageId), Buffer.from(timestamp), body);
  return "v1," + mac.toString("base64");
}

// -- signatures

function sealedOf(headers) {
  const found = headers.filter(([name]) => SIGNATURE_OF.has(name));
  if (found.length !== 1) throw new Rejected(found.length ? "signature.ambiguous" : "signature.missing");
  return [SIGNATURE_OF.get(found[0][0]), found[0][1]];
}

function one(headers, name) {
  const found = headers.filter(([key]) => key === name);
  if (found.length > 1) throw new Rejected("header.twice");
  return found.length ? found[0][1] : null;
}

function same(expected, offered) {
  // Of different lengths they are compared too, each with itself, so that the time does not tell.
  const alike = expected.length === offered.length;
  return timingSafeEqual(expected, alike ? offered : expected) && alike;
}

function hexadecimal(secrets, _headers, sealed, body) {
  if (sealed.subarray(0, 7).toString("latin1") !== "sha256=" || sealed.length !== 71) {
    throw new Rejected("signature.malformed");
  }
  let genuine = false;
  for (const secret of secrets) {
    // All of them, always: which one fits must not show in the time it takes.
    const expected = Buffer.from("sha256=" + createHmac("sha256", secret).update(body).digest("hex"));
    genuine = same(expected, sealed) || genuine;
  }
  return genuine;
}

function standard(secrets, headers, sealed, body) {
  const messageId = one(headers, "webhook-id");
  const timestamp = one(headers, "webhook-timestamp");
  if (messageId === null || messageId.length === 0 || messageId.length > 256 || timestamp === null) {
    throw new Rejected("header.missing");
  }
  const parts = sealed.toString("latin1").split(" ");
  const offered = parts.filter((part) => part.startsWith("v1,")).map((part) => Buffer.from(part.slice(3), "latin1"));
  if (offered.length === 0 || offered.length > 16) throw new Rejected("signature.malformed");
  let genuine = false;
  for (const secret of secrets) {
    const expected = Buffer.from(standardMac(secret, messageId, timestamp, body).toString("base64"));
    for (const text of offered) genuine = same(expected, text) || genuine;
  }
  return genuine;
}

function standardMac(secret, messageId, timestamp, body) {
  const dot = Buffer.from(".");
  return createHmac("sha256", standardKey(secret)).update(Buffer.concat([messageId, dot, timestamp, dot, body])).digest();
}

export function standardKey(secret) {
  const text = secret.toString("latin1").replace(/^whsec_/, "");
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) {
    throw new BadInput("a Standard Webhooks secret is not base64", {
      hint: "copy it whole, with or without its whsec_",
    });
  }
  return Buffer.from(text, "base64");
}

const GENUINE = { kfm: hexadecimal, github: hexadecimal, standard };

// -- bodies

const member = (value, key) => (Object.hasOwn(value, key) ? value[key] : undefined);

function objectOf(body) {
  let value;
  try {
    value = decode(body, "the body");
  } catch (problem) {
    if (problem instanceof BadInput) throw new Rejected("body.malformed", 400);
    throw problem;
  }
  if (!isMapping(value)) throw new Rejected("body.malformed", 400);
  return value;
}

function word(value) {
  if (typeof value !== "string" || !WORD.test(value) || value.includes("\n")) throw new Rejected("body.incomplete", 400);
  return value;
}

function instant(value) {
  if (typeof value !== "string" || !/^[0-9]/.test(value) || /^[0-9]*$/.test(value) || [...value].length > 40) {
    throw new Rejected("body.incomplete", 400);
  }
  try {
    return parseInstant(value, "sent_at");
  } catch (problem) {
    if (problem instanceof BadInput) throw new Rejected("body.incomplete", 400);
    throw problem;
  }
}

const idOf = (kind, text) => createHash("sha256").update(`${kind}:${text}`).digest("hex");
const bodyId = (body) => idOf("body", createHash("sha256").update(body).digest("hex"));

function fromKfm(hook, _headers, said, body) {
  let known;
  if (Object.hasOwn(said, "specversion")) known = cloudEvent(said);
  else if (Object.hasOwn(said, "Records")) known = objectStore(said, body);
  else known = unified(hook, said, body);
  const [trigger, eventType, sent, ids] = known;
  return {
    source_id: hook.source_id,
    scheme: "kfm",
    trigger,
    event_type: eventType,
    sent_ms: sent,
    delivery_ids: ids,
    expires_ms: sent + hook.tolerance_ms + KEEP_MS,
    wanted: true,
  };
}

function unified(hook, said, body) {
  const integrity = member(said, "integrity");
  const metadata = Object.hasOwn(said, "metadata") ? said.metadata : {};
  if (!isMapping(integrity) || member(integrity, "version") !== "v1" || !isMapping(metadata)) {
    throw new Rejected("body.incomplete", 400);
  }
  if (!Object.keys(said).every((key) => KNOWN_KEYS.has(key))) throw new Rejected("body.unknown_key", 400);
  if (member(said, "source_id") !== hook.source_id) throw new Rejected("source.mismatch");
  const ownId = member(metadata, "delivery_id");
  const ids = [typeof ownId === "string" && ownId ? idOf("id", ownId) : bodyId(body)];
  const trigger = word(member(said, "trigger"));
  const eventType = word(member(said, "event_type"));
  return [trigger, eventType, instant(member(said, "sent_at")), ids];
}

function cloudEvent(said) {
  const source = member(said, "source");
  const eventId = member(said, "id");
  if (said.specversion !== "1.0" || typeof source !== "string" || typeof eventId !== "string" || !eventId) {
    throw new Rejected("body.incomplete", 400);
  }
  const ids = [idOf("id", `${[...source].length}:${source}${eventId}`)];
  const type = word(member(said, "type"));
  return ["cloudevent", type, instant(member(said, "time")), ids];
}

function objectStore(said, body) {
  const records = said.Records;
  if (!Array.isArray(records) || records.length === 0 || !records.every(isMapping)) {
    throw new Rejected("body.incomplete", 400);
  }
  if (!records.every((each) => isMapping(member(each, "s3")))) throw new Rejected("body.incomplete", 400);
  let sent = -Infinity;
  for (const each of records) sent = Math.max(sent, instant(member(each, "eventTime")));
  return ["object-store", word(member(records[0], "eventName")), sent, [bodyId(body)]];
}

function fromGithub(hook, headers, _said, body) {
  const event = (one(headers, "x-github-event") ?? Buffer.alloc(0)).toString("latin1");
  const delivery = (one(headers, "x-github-delivery") ?? Buffer.alloc(0)).toString("latin1");
  return {
    source_id: hook.source_id,
    scheme: "github",
    trigger: "github",
    event_type: word(event),
    sent_ms: null,
    delivery_ids: delivery ? [bodyId(body), idOf("id", delivery)] : [bodyId(body)],
    expires_ms: 0,
    wanted: event !== "ping",
  };
}

function fromStandard(hook, headers, said) {
  const messageId = one(headers, "webhook-id") ?? Buffer.alloc(0);
  const timestamp = (one(headers, "webhook-timestamp") ?? Buffer.alloc(0)).toString("latin1");
  if (!/^[0-9]{1,11}$/.test(timestamp) || timestamp.includes("\n")) throw new Rejected("time.malformed");
  const sent = Number(timestamp) * 1000;
  const kind = Object.hasOwn(said, "event_type") ? said.event_type : Object.hasOwn(said, "type") ? said.type : "message";
  return {
    source_id: hook.source_id,
    scheme: "standard",
    trigger: "standard-webhook",
    event_type: word(kind),
    sent_ms: sent,
    delivery_ids: [idOf("id", messageId.toString("latin1"))],
    expires_ms: sent + hook.tolerance_ms + KEEP_MS,
    wanted: true,
  };
}

const MESSAGE = { kfm: fromKfm, github: fromGithub, standard: fromStandard };
