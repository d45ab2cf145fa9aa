/** Gives perform() the accepted bytes of the inputs. */

import { decode } from "../canonical.mjs";
import { BadInput } from "../errors.mjs";
import { Layout } from "../records.mjs";
import { readTable } from "./inspect_rows.mjs";
import { Unreadable } from "./inspect_findings.mjs";
import { ListInJson } from "./inspect_split.mjs";
import { attended } from "./heartbeat.mjs";
import { openScratch } from "./scratch.mjs";
import { linesOf } from "../streams.mjs";

export class StepReader {
  #context;
  #byName;

  constructor(context) {
    this.#context = context;
    this.#byName = new Map(context.inputs.map((ref) => [ref.name, ref]));
  }

  get inputs() {
    return this.#context.inputs;
  }

  /** The accepted bytes as a stream, checked when it was read to its end. */
  open(source) {
    const ref = this.#byName.get(source);
    return attended(this.#context, this.#context.ports.objects.open(ref.accepted_hash || ref.content_hash));
  }

  table(source) {
    return readTable(this.open(source), this.#byName.get(source).layout ?? Layout(), source);
  }

  /**
   * The records of a list in a JSON document, one by one, each read strictly: the list in the member `root`, or
   * the list at the top. A document without such a list is the one record, under a `root` only if it may stand
   * `alone`. Objects are Maps, in the order of the text.
   */
  *records(source, root = "", { alone = false } = {}) {
    const file = this.open(source);
    try {
      const found = new ListInJson(file, root, { alone });
      let number = 0;
      try {
        for (const record of found.records()) {
          number += 1;
          yield decode(record, `${source}, record ${number}`, { maps: true });
        }
      } catch (flaw) {
        throw flaw instanceof Unreadable ? new BadInput(`${source}: ${flaw.message}`) : flaw;
      }
      if (found.alone !== null) yield decode(found.alone, source, { maps: true });
    } finally {
      file.close();
    }
  }

  /** A file for what does not fit into memory: `write(body)` at its end, `readAt(offset, count)`, `size`, `close()`. */
  scratch() {
    return openScratch(this.#context);
  }

  /** Line by line, each read strictly; blank lines are passed over. Objects are Maps. */
  *ndjson(source) {
    const file = this.open(source);
    try {
      let number = 0;
      for (const line of linesOf(file, { bytes: true })) {
        number += 1;
        const text = stripped(line);
        if (text.length) yield decode(text, `${source}, line ${number}`, { maps: true });
      }
    } finally {
      file.close();
    }
  }
}

/** Without the white space of ASCII at its ends. */
function stripped(line) {
  const isSpace = (code) => code === 32 || (code >= 9 && code <= 13);
  let start = 0;
  let end = line.length;
  while (start < end && isSpace(line[start])) start += 1;
  while (end > start && isSpace(line[end - 1])) end -= 1;
  return line.subarray(start, end);
}
