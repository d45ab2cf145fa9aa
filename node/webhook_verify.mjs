/** updater webhook verify: would KFM accept a request now, and if not, why? Twin of src/kfm/cli/schedule/webhooks.py. */

import fs from "node:fs";

import { compare, roundHalfEven, strip } from "./characters.mjs";
import { fromEnvironment, rfc3339 } from "./clock.mjs";
import { BadInput, Denied } from "./errors.mjs";
import { escapedBytes, printable } from "./names.mjs";
import { settings } from "./command_session.mjs";
import { strerror } from "./store/system.mjs";
import { Rejected, standardKey, verify as verified } from "./webhook_requests.mjs";

const MOST = 256 * 1024;

export async function verify(options, screen, env) {
  const resolved = await settings(options, env);
  if (!Object.hasOwn(resolved.config.webhooks, options.source)) {
    const known = Object.keys(resolved.config.webhooks).sort(compare).join(", ") || "none";
    throw new BadInput(`no webhook is called ${printable(options.source)}`, {
      hint: `the configuration names: ${known}`,
    });
  }
  const verdict = judge(resolved, options.source, headersOf(options.header), bodyOf(options.body), env);
  if (screen.json) screen.data(verdict);
  else screen.fields(Object.entries(verdict));
  return verdict.accepted ? 0 : Denied.exitCode;
}

function judge(resolved, source, headers, body, env) {
  const said = resolved.config.webhooks[source];
  const hook = {
    source_id: source,
    secrets: said.secrets.map((reference) => resolved.secret(reference, env)),
    accept: said.accept,
    tolerance_ms: roundHalfEven(said.tolerance_s * 1000),
    enabled: said.enabled,
  };
  if (hook.accept === "standard") hook.secrets.forEach(standardKey);
  try {
    const message = verified(hook, headers, body, fromEnvironment(env).nowMs());
    return {
      accepted: true,
      source_id: message.source_id,
      scheme: message.scheme,
      trigger: message.trigger,
      event_type: message.event_type,
      sent_at: message.sent_ms === null ? null : rfc3339(message.sent_ms),
    };
  } catch (refusal) {
    if (!(refusal instanceof Rejected)) throw refusal;
    return { accepted: false, reason: refusal.reason, status: refusal.status };
  }
}

function bodyOf(name) {
  let body;
  try {
    body = readUpTo(name === "-" ? 0 : fs.openSync(escapedBytes(name) ?? name, "r"), MOST + 1);
  } catch (problem) {
    if (name === "-") throw problem;
    const reason = problem.code === "ERR_INVALID_ARG_VALUE" ? "not a file name" : strerror(problem).toLowerCase();
    throw new BadInput(`${printable(name)} cannot be read: ${reason}`, { hint: "name a file, or - for stdin" });
  }
  if (body.length > MOST) throw new BadInput("the body is larger than 256 KiB", { hint: "no webhook takes more" });
  return body;
}

function readUpTo(descriptor, most) {
  const body = Buffer.alloc(most);
  let size = 0;
  for (let count = -1; count !== 0 && size < most; size += count) {
    count = fs.readSync(descriptor, body, size, most - size, null);
  }
  return body.subarray(0, size);
}

/** A header each, or several in one: a line each, as `kfm webhooks sign` writes them. */
function headersOf(given) {
  const lines = given.flatMap((text) => text.split(/\r\n|\r|\n/)).filter((line) => strip(line) !== "");
  return lines.map((text) => {
    const colon = text.indexOf(":");
    const name = strip(text.slice(0, Math.max(colon, 0)));
    if (colon < 0 || !name) throw new BadInput("--header is not a header", { hint: "write it as 'Name: value'" });
    const said = strip(text.slice(colon + 1));
    return [name.toLowerCase(), Buffer.from(escapedBytes(said) ?? said)];
  });
}
