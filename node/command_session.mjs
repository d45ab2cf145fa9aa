/** What every command does first and last. Twin of src/kfm/cli/session.py. */

import { compare, isPrintable, length } from "./characters.mjs";
import { fromEnvironment } from "./clock.mjs";
import { load } from "./config.mjs";
import { BadInput, EXIT_CODE_OF, EXIT_CODES } from "./errors.mjs";
import { datasetId, printable } from "./names.mjs";
import { writeAll } from "./render.mjs";
import { openHouse, openLog } from "./runtime.mjs";

const STDERR = { write: (text) => writeAll(2, Buffer.from(text, "utf8")) };

export const settings = (options, env) => load(options.config, env);

/**
 * Calls `use` with an open session of a configuration, and closes it again. Opening it to write creates the store,
 * so the caller checks the command line first. `work` holds the session while it is open, to be stopped.
 */
export async function opened({ options, screen, env, work }, mode, resolved, events, use) {
  const clock = fromEnvironment(env);
  const loud = options.verbose && !options.quiet;
  const causes = env.KFM_LOG === "debug" ? STDERR : null;
  let log = null;
  if (loud || events !== null || causes !== null) {
    const lines = env.KFM_LOG === "jsonl" ? "jsonl" : "human";
    log = openLog(loud ? STDERR : null, clock, { lines, events, causes });
  }
  const progress = (stage, done, total) => screen.progress(stage, done, total);
  const session = await openHouse(resolved, { mode, log, progress, clock, certFile: env.SSL_CERT_FILE ?? "", env });
  work.session = session;
  if (session.moved) screen.say(session.moved);
  try {
    const result = await use(session);
    screen.finish(); // what was said is durable; that closing fails is another matter
    return result;
  } finally {
    work.session = null;
    session.close();
  }
}

export async function knownDataset(command, resolved, text) {
  const name = datasetId(text);
  const known = Object.keys(resolved.config.datasets).sort(compare);
  if (known.includes(name)) return name;
  const zones = ["processed", "published", "switch/dataset"];
  const stayed = await opened(command, "read", resolved, null, (session) => {
    return zones.some((zone) => session.state.ref(`${zone}/${name}`));
  });
  if (stayed) return name;
  throw new BadInput(`there is no dataset ${printable(name)}`, {
    hint: `the configuration names ${known.slice(0, 20).join(", ") || "none"}`,
  });
}

export function person(options) {
  const said = { reason: options.reason, actor: options.actor || "" };
  for (const [name, text] of Object.entries(said)) oneLine(`--${name}`, text, 1000);
  return said;
}

export function oneLine(flag, text, limit = 200) {
  if (!isPrintable(text) || length(text) > limit) {
    throw new BadInput(`${flag} must be one line of at most ${limit} characters`, { hint: "shorten it" });
  }
  return text;
}

export function codeOf(receipt, { tellNoop = false } = {}) {
  if (["noop", "unchanged"].includes(receipt.outcome)) return tellNoop ? EXIT_CODES.noop : EXIT_CODES.done;
  if (receipt.outcome === "frozen") return EXIT_CODES.frozen;
  if (receipt.status === "SUCCESS") return EXIT_CODES.done;
  if (!receipt.errors.length) return EXIT_CODES.failed;
  return EXIT_CODE_OF[receipt.errors[0].code] ?? EXIT_CODES.failed;
}

export function together(codes) {
  const failure = codes.find((code) => code !== EXIT_CODES.done && code !== EXIT_CODES.noop);
  if (failure !== undefined) return failure;
  return codes.length && codes.every((code) => code === EXIT_CODES.noop) ? EXIT_CODES.noop : EXIT_CODES.done;
}
