/**
 * What can be typed at the runners' door: `node updater.mjs …` here, `python -m updater …` there, the same words.
 *
 * src/kfm/cli/runner.py line by line. What is typed means what it means to `kfm`.
 */

import { EXIT_CODES, KfmError } from "./errors.mjs";
import { printable } from "./names.mjs";
import { nearest } from "./shape.mjs";

/** The command line itself is wrong. */
export class Usage extends KfmError {
  static code = "usage";
  static exitCode = 2;
}

/** Help was asked for: nothing else is done. */
export class Told extends Error {}

export const EXIT_TEXT = {
  done: "done; a NOOP too, unless --exit-code is given",
  failed: "the run failed, or an internal error",
  usage: "the command line is wrong",
  refused: "the input, the data or the plan is refused: fix it",
  denied: "a gate says no: ask someone",
  frozen: "a switch is set: wait for the thaw",
  busy: "another worker has it, or the world moved: look again",
  noop: "nothing changed (only with --exit-code)",
  corrupt: "stored bytes are not what was stored",
  unavailable: "a source or service does not answer: retry later",
  storage: "the disk said no; nothing more was acknowledged",
};

export const DEFAULTS = { config: null, json: false, quiet: false, no_color: false, verbose: false };

/** `--name`, `--name VALUE` ("one"), or `--name VALUE` any number of times ("many"). */
const flag = (name, takes = "nothing", fallback = false) => ({ name, takes, fallback });

const HELP_FLAGS = ["-h", "--help"];
const EVERYWHERE = [
  flag("--config", "one", null), flag("--json"), flag("--quiet"), flag("--no-color"), flag("--verbose"),
];
const FLAGS = {
  "": [flag("--version"), ...EVERYWHERE],
  "run": [
    flag("--dry-run"), flag("--window", "one", ""), flag("--force"),
    flag("--allow-deletions", "one", null), flag("--abandon"), flag("--artifacts", "one", null),
    flag("--exit-code"), flag("--reason", "one", ""), flag("--actor", "one", null), ...EVERYWHERE,
  ],
  "webhook": EVERYWHERE,
  "webhook verify": [flag("--body", "one", "-"), flag("--header", "many", []), ...EVERYWHERE],
};
const COMMANDS = { "": ["run", "webhook"], "webhook": ["verify"] };

const EVERYWHERE_TEXT = `\
everywhere:
  -h, --help        show this help
  --config FILE     kfm.yml to use (default: the nearest one upward)
  --json            write JSON to stdout
  --quiet           nothing on stderr but errors
  --no-color        no colours (NO_COLOR works too)
  --verbose         a line on stderr for every event
`;
const CODES = Object.entries(EXIT_CODES)
  .map(([name, code]) => `  ${String(code).padStart(3)}  ${EXIT_TEXT[name]}\n`)
  .join("");
export const HELP = {
  "": `\
usage: updater [--version] COMMAND ...

Runs what kfm.yml declares: fetch, check, plan, execute, commit.

commands:
  run               update datasets
  webhook           look at what a webhook sends

options:
  --version         print the version

${EVERYWHERE_TEXT}
exit codes:
${CODES}
stdout is data, stderr is for people; --json makes the data JSON.
`,
  "run": `\
usage: updater run [DATASET ...] [options]

Update datasets: fetch, check, plan, execute, commit.
A run over unchanged inputs is a NOOP. What it makes is processed, not published: see \`kfm promote\`.

  DATASET           its name in kfm.yml (default: all)

options:
  --dry-run         do the work, change nothing, tell what would change
  --window W        the part of time meant, e.g. 2026-01-01/2026-01-31
  --force           run again although nothing changed; needs --reason
  --allow-deletions N  let at most N keys go, whatever the deletion budget; needs --reason
  --abandon         end an unfinished run of the same work and begin anew; needs --reason
  --artifacts DIR   write the artifacts of the run here
  --exit-code       exit 10 if nothing changed
  --reason TEXT     why; goes into the ledger
  --actor NAME      who; default KFM_ACTOR or the user's name

${EVERYWHERE_TEXT}`,
  "webhook": `\
usage: updater webhook COMMAND ...

Look at what a webhook sends.

commands:
  verify            tell whether the door would take a request now, and why not

${EVERYWHERE_TEXT}`,
  "webhook verify": `\
usage: updater webhook verify SOURCE [options]

Tell whether the door would take a request now, and why not.

  SOURCE            its name under \`webhooks:\`

options:
  --body FILE       the raw body (default: stdin)
  --header H        'Name: value'; may be repeated

${EVERYWHERE_TEXT}`,
};

/** What was typed. Flags for everywhere may stand before or after the command; for --help it throws Told. */
export function parse(argv) {
  return new Typed(argv).all();
}

const keyOf = (name) => name.slice(2).replaceAll("-", "_");

const cut = (word) => {
  const at = word.indexOf("=");
  return at < 0 ? [word, "", false] : [word.slice(0, at), word.slice(at + 1), true];
};

/** The words, one after the other. `scope` is the command so far. */
class Typed {
  constructor(argv) {
    this.words = argv;
    this.at = 0;
    this.scope = "";
    this.found = { ...DEFAULTS, version: false, command: null };
    this.plain = []; // words that are neither flags nor commands
    this.unknown = [];
  }

  all() {
    let onlyPlain = false;
    while (this.at < this.words.length) {
      const word = this.words[this.at];
      this.at += 1;
      if (word === "--" && !onlyPlain) onlyPlain = true;
      else if (onlyPlain || !this.isFlag(word)) this.takePlain(word);
      else this.takeFlag(word);
    }
    this.complete();
    return { ...this.found, scope: this.scope, help_text: HELP[this.scope] };
  }

  refuse(message, hint = "") {
    throw new Usage(message, { hint: hint || `see \`${this.door()} --help\`` });
  }

  door() {
    return this.scope ? `updater ${this.scope}` : "updater";
  }

  known(name) {
    return FLAGS[this.scope].find((one) => one.name === name);
  }

  /** A dash and a number is a value, and so is what begins with a dash and holds a space. */
  isFlag(word) {
    if (!word.startsWith("-") || word.length === 1) return false;
    if (HELP_FLAGS.includes(word) || this.known(cut(word)[0])) return true;
    return !/^-(?:[0-9]+|[0-9]*\.[0-9]+)$/.test(word) && !word.includes(" ");
  }

  takeFlag(word) {
    if (HELP_FLAGS.includes(word)) throw new Told(HELP[this.scope]);
    const [name, given, equals] = cut(word);
    const known = this.known(name);
    if (known === undefined) {
      this.unknown.push(word);
      return;
    }
    if (known.takes === "nothing") {
      if (equals) this.refuse(`argument ${name}: ignored explicit argument ${printable(given)}`);
      this.found[keyOf(name)] = true;
      return;
    }
    let text = given;
    if (!equals) {
      const next = this.words[this.at];
      if (next === undefined || next === "--" || this.isFlag(next)) {
        this.refuse(`argument ${name}: expected one argument`);
      }
      text = next;
      this.at += 1;
    }
    this.found[keyOf(name)] = known.takes === "one" ? text : [...this.found[keyOf(name)], text];
  }

  takePlain(word) {
    const known = COMMANDS[this.scope];
    if (known === undefined) {
      this.plain.push(word);
      return;
    }
    if (!known.includes(word)) {
      const close = nearest(word, known);
      this.refuse(`${this.door()} has no command ${printable(word, 40)}`, close ? `did you mean ${close}?` : "");
    }
    this.found[this.scope ? "subcommand" : "command"] = word;
    this.scope = this.scope ? `${this.scope} ${word}` : word;
    for (const { name, takes, fallback } of FLAGS[this.scope]) {
      this.found[keyOf(name)] ??= takes === "many" ? [...fallback] : fallback;
    }
  }

  complete() {
    if (this.scope === "webhook") this.refuse("the following arguments are required: COMMAND");
    if (this.scope === "webhook verify") {
      if (!this.plain.length) this.refuse("the following arguments are required: SOURCE");
      this.found.source = this.plain[0];
      this.unknown.push(...this.plain.slice(1));
    }
    if (this.unknown.length) this.unrecognized();
    if (this.scope === "run") this.found.dataset = this.plain;
  }

  unrecognized() {
    const flags = new Map(FLAGS[this.scope].map(({ name }) => [keyOf(name), name]));
    flags.set("help", "--help");
    const words = this.unknown.filter((word) => word.startsWith("-")).map((word) => cut(word)[0].replace(/^-+/, ""));
    const close = words.length ? nearest(words[0], [...flags.keys()].sort()) : "";
    this.refuse(
      `unrecognized arguments: ${printable(this.unknown.join(" "), 100).slice(1, -1)}`,
      close ? `did you mean ${flags.get(close)}?` : "",
    );
  }
}
