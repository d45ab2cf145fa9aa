/** The command line of the runners: accepts and refuses what src/kfm/cli/parser.py does for `python -m updater`. */

import { KfmError } from "./errors.mjs";
import { COMMANDS, DEFAULTS, FLAGS, HELP } from "./generated/words.mjs";
import { printable } from "./names.mjs";

export class Usage extends KfmError {
  static code = "usage";
  static exitCode = 2;
}

/** Help was asked for: nothing else is done. */
export class HelpRequest extends Error {}

const HELP_FLAGS = ["-h", "--help"];

/** The options that were typed. Global flags may stand before or after the command; for --help it throws HelpRequest. */
export function parse(argv) {
  return new Typed(argv).all();
}

const keyOf = (name) => name.slice(2).replaceAll("-", "_");

const cut = (word) => {
  const at = word.indexOf("=");
  return at < 0 ? [word, "", false] : [word.slice(0, at), word.slice(at + 1), true];
};

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
      else if (onlyPlain || !this.isFlag(word)) this.takePlain(word, onlyPlain);
      else this.takeFlag(word);
    }
    this.complete();
    return { ...this.found, scope: this.scope, help_text: HELP[this.scope] };
  }

  refuse(message, hint = "") {
    throw new Usage(message, { hint: hint || `see \`${this.command()} --help\`` });
  }

  command() {
    return this.scope ? `updater ${this.scope}` : "updater";
  }

  known(name) {
    return FLAGS[this.scope].find((one) => one.name === name);
  }

  isFlag(word) {
    if (!word.startsWith("-") || word.length === 1) return false;
    if (HELP_FLAGS.includes(word) || this.known(cut(word)[0])) return true;
    return !/^-(?:[0-9]+|[0-9]*\.[0-9]+)$/.test(word) && !word.includes(" ");
  }

  takeFlag(word) {
    if (HELP_FLAGS.includes(word)) throw new HelpRequest(HELP[this.scope]);
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

  takePlain(word, onlyPlain) {
    const known = COMMANDS[this.scope];
    if (known === undefined) {
      this.plain.push(word);
      return;
    }
    if (onlyPlain || !known.includes(word)) {
      this.refuse(`${this.command()} has no command ${printable(word, 40)}`, `its commands are ${known.join(", ")}`);
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
    if (this.unknown.length) this.refuse(`unrecognized arguments: ${printable(this.unknown.join(" "), 100)}`);
    if (this.scope === "run") this.found.dataset = this.plain;
  }
}
