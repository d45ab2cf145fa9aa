/** updater run: runs datasets from the command line. Twin of src/kfm/cli/work/run.py. */

import fs from "node:fs";
import path from "node:path";

import { decode } from "./canonical.mjs";
import { compare, strip } from "./characters.mjs";
import { BadInput, Broken, KfmError } from "./errors.mjs";
import { printable } from "./names.mjs";
import { codeOf, knownDataset, oneLine, opened, person, settings, together } from "./command_session.mjs";
import { short, size } from "./render.mjs";
import { defaultActor, writeArtifacts } from "./runtime.mjs";

/** What became of several runs: receipts, and the errors of those that left none. */
class Tally {
  #codes = [];
  #screen;

  constructor(screen) {
    this.#screen = screen;
    this.receipts = [];
    this.errors = [];
  }

  /** One run. Its failure does not keep the others from running, unless the ground itself gave way. */
  async take(name, work, { tellNoop = false } = {}) {
    this.#screen.subject = name;
    let receipt;
    try {
      receipt = await work();
    } catch (problem) {
      if (problem instanceof Broken || !(problem instanceof KfmError)) throw problem;
      this.fail(name, problem);
      return;
    }
    this.note(receipt, { tellNoop });
  }

  fail(name, problem) {
    this.#codes.push(problem.exitCode);
    this.errors.push({ dataset: name, code: problem.code, message: problem.message, hint: problem.hint });
    this.#screen.fail(about(name, String(problem)));
  }

  note(receipt, { tellNoop = false } = {}) {
    this.receipts.push(receipt);
    this.#codes.push(codeOf(receipt, { tellNoop }));
    for (const note of receipt.errors) this.#screen.fail(about(receipt.dataset, note.message));
    for (const note of receipt.warnings) this.#screen.say(about(receipt.dataset, note.message));
  }

  /**
   * The run is durable, but not delivered. What another command left undelivered is not a failure of this one. Without
   * `isChange` only records of runs that changed nothing are pending.
   */
  undelivered(problems, isChange) {
    const ours = new Set(this.receipts.map((receipt) => receipt.dataset));
    const told = new Set();
    for (const [dataset, problem] of problems) {
      const line = `${dataset} ${problem}`;
      const committed = Boolean(dataset) || isChange;
      if (told.has(line)) continue;
      told.add(line);
      if (!dataset || ours.has(dataset)) this.#codes.unshift(problem.exitCode); // worse than what became of a run
      const prefix = committed
        ? "committed, but not delivered yet, do not repeat it"
        : "every change is delivered, only records of runs are not yet";
      const message = `${prefix}: ${problem.message}`;
      this.errors.push({ dataset, code: problem.code, message, hint: problem.hint });
      this.#screen.fail(`${dataset ? `${dataset}: ` : ""}${message}; ${problem.hint}`);
    }
  }

  get code() {
    return together(this.#codes);
  }
}

function about(name, message) {
  return message.startsWith(`${name} `) || message.startsWith(`run ${name} `) ? message : `${name}: ${message}`;
}

function setAside(options, reason) {
  const text = options.allow_deletions;
  if (text !== null && (!/^[0-9]{1,15}$/.test(text) || !Number(text))) {
    throw new BadInput(`--allow-deletions ${printable(text)} is not a number of keys`, {
      hint: "give a whole number, 1 or more",
    });
  }
  const asked = { force: options.force, abandon: options.abandon, allow_deletions: Number(text ?? 0) };
  for (const [name, given] of Object.entries(asked)) {
    if (given && !strip(reason)) {
      throw new BadInput(`--${name.replace("_", "-")} needs a reason`, {
        hint: "add --reason; it goes into the ledger",
      });
    }
  }
  return asked;
}

export async function run(options, screen, env, work) {
  const command = { options, screen, env, work };
  const who = person(options);
  const window = oneLine("--window", options.window);
  const overrides = setAside(options, who.reason);
  const resolved = await settings(options, env);
  const named = [];
  for (const name of options.dataset) named.push(await knownDataset(command, resolved, name));
  const names = named.length ? named : Object.keys(resolved.config.datasets).sort(compare);
  if (!names.length) throw new BadInput("the configuration names no dataset", { hint: "add one under `datasets:`" });
  const folder = artifactsFolder(options, resolved);
  const events = [];
  return opened(command, options.dry_run ? "dry" : "write", resolved, events, async (session) => {
    const tally = new Tally(screen);
    for (const name of new Set(names)) {
      const one = () => {
        session.updater(name);
        const actor = who.actor || defaultActor(env);
        return session.run(session.trigger(name, { window, ...overrides, reason: who.reason, actor }));
      };
      await tally.take(name, one, { tellNoop: options.exit_code });
    }
    const effects = await settled(session, screen, tally);
    try {
      if (folder) writeArtifacts(folder, session.artifacts(tally.receipts, effects, events));
    } catch (problem) {
      if (!(problem instanceof KfmError) || options.dry_run) throw problem;
      const isChange = tally.receipts.some((receipt) => receipt.outcome === "done");
      tally.undelivered([["", problem]], isChange);
    }
    if (env.GITHUB_ACTIONS === "true" && !options.dry_run) {
      const { report } = await import("./sinks/github_actions.mjs");
      report(env, tally.receipts);
    }
    showRuns(session, screen, tally, effects);
    return tally.code;
  });
}

function artifactsFolder(options, resolved) {
  if (options.artifacts === null) return options.dry_run ? "" : resolved.at(resolved.config.artifacts);
  const folder = path.resolve(oneLine("--artifacts", options.artifacts, 4000));
  const found = fs.lstatSync(folder, { throwIfNoEntry: false });
  if (!options.artifacts || (found && !isFolder(folder))) {
    throw new BadInput(`--artifacts ${printable(options.artifacts)} is not a folder`, {
      hint: "name a folder to write to",
    });
  }
  return folder;
}

const isFolder = (name) => fs.statSync(name, { throwIfNoEntry: false })?.isDirectory() ?? false;

async function settled(session, screen, tally) {
  screen.subject = "";
  screen.progress("publish", 0, 0);
  try {
    return await session.settle();
  } catch (problem) {
    if (!session.undelivered.length) throw problem;
    tally.undelivered(session.undelivered, session.isChangePending());
    return [];
  }
}

const CHANGES = ["added", "changed", "removed", "keys"]; // of the keys of a version, and how many it has

function showRuns(session, screen, tally, effects) {
  if (screen.json) {
    screen.data({ receipts: tally.receipts, errors: tally.errors, effects });
    return;
  }
  if (tally.receipts.length) {
    screen.table(
      ["dataset", "status", "outcome", ...CHANGES, "held", "rows", "version", "run"],
      tally.receipts.map((r) => {
        const held = r.outcome === "held" ? "all" : String(r.held_rows);
        const counts = [...CHANGES.map((name) => r.changes[name] ?? null), held, r.rows || null];
        return [r.dataset, r.status, r.outcome, ...counts, short(versionOf(session, r)), r.run_id];
      }),
    );
  }
  if (session.mode === "dry") {
    showFindings(session, screen, tally.receipts);
    showEffects(screen, tally.receipts, effects);
    return;
  }
  for (const receipt of tally.receipts) {
    if (receipt.held_rows && receipt.outcome !== "held") { // that was said as an error, of all its rows
      const rows = receipt.held_rows === 1 ? "1 row" : `${receipt.held_rows} rows`;
      screen.say(`${receipt.dataset}: ${rows} quarantined, see \`kfm quarantine ${receipt.dataset}\``);
    }
    if (receipt.outcome === "frozen") screen.say(`${receipt.dataset}: ${frozenBy(session, receipt.dataset)}`);
  }
}

function showFindings(session, screen, receipts) {
  const sources = [];
  for (const receipt of receipts) {
    const report = session.state.ref(`quarantine/${receipt.dataset}`);
    if (!report || !(receipt.held_rows || receipt.outcome === "held")) continue;
    for (const source of decode(session.objects.read(report), "the report").sources) {
      sources.push({ ...source, source: `${receipt.dataset}/${source.source}` });
    }
  }
  if (!sources.length) return;
  screen.line();
  screen.table(["would hold", "column", "rule", "times", "rows", "what"], findingRows(sources));
}

function findingRows(sources) {
  const table = [];
  for (const source of sources) {
    const kinds = new Map();
    const listed = new Map();
    for (const { column, rule, message, held, row } of source.findings) {
      const key = JSON.stringify([column, rule, message, held]);
      if (!kinds.has(key)) kinds.set(key, { column, rule, message, held, rows: [] });
      kinds.get(key).rows.push(row);
      listed.set(rule, (listed.get(rule) ?? 0) + 1);
    }
    const ordered = [...kinds.values()].sort((a, b) => Number(b.held) - Number(a.held) || a.rows[0] - b.rows[0]);
    for (const { column, rule, message, rows } of ordered) {
      const more = listed.get(rule) < (source.counts[rule] ?? 0) ? "+" : "";
      const places = rows.filter((row) => row);
      const cut = places.length > 3 || (places.length && more) ? " …" : "";
      table.push([source.source, column, rule, `${rows.length}${more}`, places.slice(0, 3).join(", ") + cut, message]);
    }
  }
  return table;
}

function versionOf(session, receipt) {
  if (receipt.outcome === "noop") return session.state.ref(`processed/${receipt.dataset}`);
  for (const kind of ["dataset", "ref"]) {
    const item = receipt.outputs.find((output) => output.kind === kind);
    if (item) return item.checksum;
  }
  return "";
}

function frozenBy(session, dataset) {
  for (const name of ["switch/global", `switch/dataset/${dataset}`]) {
    if (session.state.ref(name) === "frozen") {
      const last = [...session.state.history(name)].at(-1);
      const why = last.reason ? ` (${last.reason})` : "";
      const thaw = name === "switch/global" ? "kfm thaw --reason …" : `kfm thaw ${dataset} --reason …`;
      const since = `frozen since ${last.ts.slice(0, 16)}Z by ${last.actor}${why}`;
      return `${since}; its trigger is kept: \`${thaw}\`, then \`kfm resume\``;
    }
  }
  return "it was frozen; its trigger is kept: `kfm resume`";
}

function showEffects(screen, receipts, effects) {
  const moves = receipts.flatMap((receipt) => receipt.moves).map((m) => [m.ref, short(m.before), short(m.after)]);
  if (moves.length) {
    screen.line();
    screen.table(["would move", "from", "to"], moves);
  }
  if (effects.length) {
    screen.line();
    const rows = effects.map((effect) => [effect.target, effect.method, size(effect.size), short(effect.digest)]);
    screen.table(["would write", "by", "size", "digest"], rows);
  }
  screen.say("dry run: nothing was changed");
}
