/** The command line: parses, calls, and turns every error into one line and an exit code. Twin of src/kfm/cli/main.py. */

import fs from "node:fs";

import { KfmError, placeOf, StorageFailed, Unavailable } from "./errors.mjs";
import { DEFAULTS, VERSION } from "./generated/words.mjs";
import { BrokenPipe, Screen } from "./render.mjs";
import { parse, HelpRequest, Usage } from "./runner.mjs";
import { strerror } from "./store/system.mjs";

/** A signal: unwinds, so that leases are freed and nothing is half done. */
export class Stopped extends Error {
  constructor(word, code) {
    super(word);
    this.code = code;
  }
}

const SIGNALS = { SIGINT: ["interrupted", 130], SIGTERM: ["terminated", 143] };
const PATIENCE_MS = 1000; // for work that cannot look up; what it holds is freed as that of a dead process

/** The exit code of what was typed. */
export async function main(argv, env) {
  const flags = { ...DEFAULTS, json: argv.includes("--json"), no_color: argv.includes("--no-color") };
  let screen = new Screen(flags, env);
  try {
    let options;
    try {
      options = parse(argv);
    } catch (problem) {
      if (!(problem instanceof HelpRequest)) throw problem;
      screen.text(problem.message);
      screen.finish();
      return 0;
    }
    screen = new Screen(options, env);
    return await guarded(options, screen, env);
  } catch (problem) {
    if (problem instanceof BrokenPipe) return 141; // the reader of the output has gone
    if (problem instanceof KfmError) return tell(screen, problem);
    throw problem;
  }
}

async function guarded(options, screen, env) {
  const resumable = options.command === "run" ? "; a run that was begun is left resumable: `kfm resume`" : "";
  const work = { session: null }; // the open session, so that it can be stopped
  let giveUp;
  const stopped = new Promise((_, reject) => {
    giveUp = reject;
  });
  stopped.catch(() => {});
  const listeners = Object.entries(SIGNALS).map(([signal, [word, code]]) => {
    const listener = () => {
      const problem = new Stopped(word, code);
      work.session?.stop(problem);
      setTimeout(() => giveUp(problem), work.session ? PATIENCE_MS : 0);
    };
    process.on(signal, listener);
    return [signal, listener];
  });
  try {
    const code = await Promise.race([call(options, screen, env, work), stopped]);
    screen.finish();
    return code;
  } catch (problem) {
    if (!(problem instanceof Stopped)) throw problem;
    screen.fail(problem.message + resumable);
    return problem.code;
  } finally {
    for (const [signal, listener] of listeners) process.off(signal, listener);
  }
}

async function call(options, screen, env, work) {
  try {
    if (options.version) {
      if (screen.json) screen.data({ version: VERSION });
      else screen.line(`kfm ${VERSION}`);
      return 0;
    }
    if (options.command === null) {
      if (screen.json) throw new Usage("no command given", { hint: "see `updater --help`" });
      screen.words(options.help_text);
      return 2;
    }
    if (options.scope === "webhook verify") {
      const { verify } = await import("./webhook_verify.mjs");
      return await verify(options, screen, env);
    }
    const { run } = await import("./run_command.mjs");
    return await run(options, screen, env, work);
  } catch (problem) {
    if (problem instanceof KfmError || problem instanceof BrokenPipe || problem instanceof Stopped) throw problem;
    if (typeof problem?.syscall === "string") {
      const what = strerror(problem).toLowerCase();
      throw new StorageFailed(problem.path ? `${problem.path}: ${what}` : what, {
        hint: "check the disk, then run the command again",
        cause: problem,
      });
    }
    if (isMissing(problem)) {
      throw new Unavailable("the packages of the Node runner are not installed, or not for this Node", {
        hint: "in the folder of kfm: `make node-packages`, or `npm ci` in its folder node/",
        cause: problem,
      });
    }
    if (env.KFM_LOG === "debug") throw problem;
    throw new KfmError(`internal error (${problem?.constructor?.name} at ${placeOf(problem)})`, {
      hint: "please report it; set KFM_LOG=debug to see the traceback",
      cause: problem,
    });
  }
}

/** A package that is not there, or its compiled part. Of a file of our own it would be our mistake. */
function isMissing(problem) {
  const said = String(problem?.message);
  return (
    (/MODULE_NOT_FOUND$/.test(problem?.code) && !/(?:module|package) '(?:[./]|file:)/.test(said)) ||
    problem?.code === "ERR_DLOPEN_FAILED" ||
    said.startsWith("Could not locate the bindings file")
  );
}

function tell(screen, problem) {
  if (screen.json) {
    const fields = Object.fromEntries(Object.entries(problem.fields).filter(([, value]) => value !== null));
    try {
      screen.data({ error: { code: problem.code, message: problem.message, hint: problem.hint, ...fields } });
      screen.finish();
    } catch {
      // stderr is left
    }
  }
  screen.fail(String(problem));
  return problem.exitCode;
}

/**
 * What was typed, and the environment. Node reads bytes that are no UTF-8 as U+FFFD; here they are halves of
 * surrogate pairs, as in Python, so that they are refused with the same words, or name the same file.
 */
export function asGiven(argv, env) {
  const lost = (text) => text.includes("\ufffd");
  const words = argv.some(lost) ? raw("cmdline").slice(-argv.length) : argv;
  if (!Object.entries(env).some(([name, value]) => lost(name) || lost(value))) return [words, env];
  const entries = raw("environ").map((entry) => [entry, entry.indexOf("=")]);
  return [words, Object.fromEntries(entries.map(([entry, at]) => [entry.slice(0, at), entry.slice(at + 1)]))];
}

function raw(name) {
  const found = [];
  const body = fs.readFileSync(`/proc/self/${name}`);
  for (let start = 0, end = body.indexOf(0); end >= 0; start = end + 1, end = body.indexOf(0, start)) {
    found.push(escapedBytes(body.subarray(start, end)));
  }
  return found;
}

function escapedBytes(body) {
  let out = "";
  for (let at = 0; at < body.length; ) {
    const width = body[at] < 0x80 ? 1 : body[at] >= 0xf0 ? 4 : body[at] >= 0xe0 ? 3 : 2;
    const text = body.subarray(at, at + width).toString("utf8");
    const isOne = [...text].length === 1 && Buffer.byteLength(text) === width && !text.includes("\ufffd");
    const said = isOne || (text === "\ufffd" && body.subarray(at, at + 3).equals(Buffer.from("\ufffd")));
    out += said ? text : String.fromCharCode(0xdc00 + body[at]);
    at += said ? width : 1;
  }
  return out;
}
