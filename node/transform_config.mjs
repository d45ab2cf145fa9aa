/**
 * A refresh described in the configuration alone: which source, which steps, what comes out. Twin of
 * src/kfm/model/transform_config.py: the records, and `checkOutputs` for what their types alone cannot say.
 */

import { compare, strip } from "./characters.mjs";
import { BadInput } from "./errors.mjs";
import { GRIDS, SortConfig, TABULAR, VERBS } from "./generated/settings.mjs";
import { checkId, printable } from "./names.mjs";
import { isMapping } from "./types.mjs";

/** The verbs a step has. */
export const verbsOf = (step) => VERBS.filter((verb) => !isNothing(step[verb]));

function isNothing(value) {
  if (value === null) return true;
  if (Array.isArray(value)) return !value.length;
  return isMapping(value) && !Object.keys(value).length;
}

/** The format of an output whose source has this one. */
export const formatFrom = (output, source) => output.format ?? (source === "stac" ? "json" : source);

export function checkWindow(dataset, outputs) {
  for (const name of Object.keys(outputs).sort(compare)) {
    if (outputs[name].window_by) continue;
    throw new BadInput(`--window has no meaning for ${dataset}: its output ${name} declares no window_by`, {
      hint: "add window_by with a column of time that the output is partitioned by, or leave --window out",
    });
  }
}

export function declaration(value) {
  if (Array.isArray(value)) return value.map(declaration);
  if (!isMapping(value)) return value;
  const found = Object.create(null);
  for (const key of Object.keys(value)) {
    const item = declaration(value[key]);
    if (item !== "" && !isNothing(item)) found[key] = item;
  }
  return found;
}

export function globParts(pattern) {
  const parts = [[""]];
  const put = (sign) => {
    const last = parts.at(-1);
    last[last.length - 1] += sign;
  };
  for (let at = 0; at < pattern.length; at += 1) {
    const sign = pattern[at];
    if (sign === "\\") {
      at += 1;
      if (at >= pattern.length || !"*?\\".includes(pattern[at])) return null;
      put(pattern[at]);
    } else if (sign === "*") parts.push([""]);
    else if (sign === "?") parts.at(-1).push("");
    else put(sign);
  }
  return parts;
}

export function sortKeys(step) {
  return step.sort.map((key) => (typeof key === "string" ? SortConfig({ column: key }) : key));
}

/** The keys of a mapping, by their characters: an order that every language has. */
export const sortedKeys = (mapping) => Object.keys(mapping).sort(compare);

// ------------------------------------------------------------------- what the types alone cannot say

export function checkOutputs(document, path, outputs, contracts) {
  const used = new Set();
  for (const name of sortedKeys(outputs)) {
    const output = outputs[name];
    const here = [...path, "outputs", name];
    try {
      checkId(name, "output");
    } catch (error) {
      if (!(error instanceof BadInput)) throw error;
      throw new BadInput(`${document.place(here)}: ${error.message}`, { hint: error.hint, key: "outputs" });
    }
    new Check(document, here, output, contracts).all();
    used.add(output.from);
    for (const step of output.steps) if (step.join !== null) used.add(step.join.source);
  }
  for (const name of sortedKeys(contracts)) {
    if (!used.has(name)) {
      document.refuse(
        [...path, "sources", name], "is used by no output", "name it in `from` or in a join, or remove it",
      );
    }
  }
}

/**
 * One output. Follows the columns through the steps as far as they are known: from a `select` on, or where the
 * contract names the columns of a table without a header.
 */
class Check {
  constructor(document, path, output, contracts) {
    this.document = document;
    this.path = path;
    this.output = output;
    this.contracts = contracts;
    this.columns = null;
    this.pointers = false;
  }

  refuse(path, what, hint = "") {
    this.document.refuse([...this.path, ...path], what, hint);
  }

  source(name, path) {
    const contract = Object.hasOwn(this.contracts, name) ? this.contracts[name] : null;
    if (contract === null) {
      const known = sortedKeys(this.contracts).join(", ") || "none";
      this.refuse(path, "names no source of this dataset", `its sources: ${known}`);
    }
    if (!TABULAR.includes(contract.format) && !(GRIDS.includes(contract.format) && path[0] === "from")) {
      this.refuse(
        path, `names a source of the format ${contract.format}, which has no rows`, `give it a format: ${TABULAR.join(", ")}`,
      );
    }
    return contract;
  }

  all() {
    const { output } = this;
    const contract = this.source(output.from, ["from"]);
    if (contract.format === "csv" && !contract.header) this.columns = contract.columns.map(({ name }) => name);
    this.pointers = contract.format !== "csv";
    output.steps.forEach((step, number) => this.step(["steps", number], step));
    if (output.partition_by && output.partition_by !== contract.partition_by) {
      this.refuse(
        ["partition_by"],
        "is not the partition_by of its source's contract",
        "name the same column in the contract's partition_by",
      );
    }
    if (output.window_by && output.window_by !== output.partition_by) {
      this.refuse(
        ["window_by"],
        "is not the partition_by of the output",
        "name the same column in partition_by; keys outside the window are carried over",
      );
    }
    if (contract.columns.some((column) => column.name === output.window_by && column.date_format)) {
      this.refuse(["window_by"], "names a column with a date_format", "only ISO 8601 is read here");
    }
    this.format(contract.format, formatFrom(output, contract.format));
  }

  format(source, wanted) {
    const at = this.output.format !== null ? ["format"] : [];
    if (wanted === "csv" && source !== "csv" && this.columns === null) {
      this.refuse(at, `is csv, but no select says which columns of the ${source} it has`, "add a select");
    }
    if (wanted === "geojson" && source === "csv") {
      this.refuse(at, "is geojson, but a csv has no geometry", "use csv, json or ndjson");
    }
    if (wanted === "geojson" && this.columns !== null && !this.columns.includes("geometry")) {
      this.refuse(at, "is geojson, but its columns have no geometry", "add geometry to the select");
    }
  }

  step(path, step) {
    const verbs = verbsOf(step);
    if (step.mask !== null) {
      this.refuse(
        [...path, "mask"], "requests masking, which this version does not have", "leave the column out with a select",
      );
    }
    if (verbs.length !== 1) {
      this.refuse(path, verbs.length ? "must be one step" : "is empty", `give one of ${VERBS.slice(0, -1).join(", ")}`);
    }
    if (step.unfit !== null && verbs[0] !== "cast") {
      this.refuse([...path, "unfit"], "has no meaning here", "use it together with cast");
    }
    this[verbs[0]]([...path, verbs[0]], step);
  }

  known(path, columns) {
    const seen = new Set();
    for (const column of columns) {
      if (!column || seen.has(column)) this.refuse(path, "names a column twice, or none", "name each column once");
      seen.add(column);
      if (this.columns !== null && !this.columns.includes(column) && !this.leads(path, column)) {
        this.refuse(
          path,
          `names the column ${printable(column)}, which does not exist at this step`,
          `its columns: ${this.columns.map((name) => printable(name)).join(", ")}`,
        );
      }
    }
  }

  leads(path, column) {
    return path.at(-1) === "select" && this.pointers && column.startsWith("/");
  }

  select(path, step) {
    this.known(path, step.select);
    this.columns = [...step.select];
  }

  rename(path, step) {
    const old = sortedKeys(step.rename);
    this.known(path, old);
    const fresh = old.map((name) => step.rename[name]);
    if (fresh.includes("") || new Set(fresh).size < fresh.length) {
      this.refuse(path, "gives two columns one name, or one an empty name", "give each its own");
    }
    if (this.columns !== null) {
      for (const name of fresh) if (this.columns.includes(name) && !old.includes(name)) this.taken(path, name);
      this.columns = this.columns.map((name) => (old.includes(name) ? step.rename[name] : name));
    }
  }

  taken(path, name) {
    this.refuse(path, `would give the name ${printable(name)} to a second column`, "rename one of them");
  }

  cast(path, step) {
    this.known(path, sortedKeys(step.cast));
  }

  filter(path, { filter: said }) {
    this.known([...path, "column"], [said.column]);
    const values = [said.equals, said.not_equals, said.above, said.below, said.at_least, said.at_most, ...said.in];
    if (!(said.matches || said.blank !== null || values.some((value) => value !== null))) {
      this.refuse(path, "has no condition", "for example equals, in, at_least or blank");
    }
    if (values.some((value) => typeof value === "string" && !strip(value))) {
      this.refuse(path, "compares with a blank text", "write blank: true, or blank: false");
    }
    if (globParts(said.matches) === null) {
      this.refuse(
        [...path, "matches"],
        "ends in a backslash, or has one before another character",
        "write \\* \\? or \\\\ for the character itself",
      );
    }
  }

  sort(path, step) {
    this.known(path, sortKeys(step).map((key) => key.column));
  }

  deduplicate(path, { deduplicate: { by } }) {
    if (!by.length) this.refuse([...path, "by"], "is empty", "name the columns that are the key");
    this.known([...path, "by"], by);
  }

  join(path, { join }) {
    const contract = this.source(join.source, [...path, "source"]);
    const ours = sortedKeys(join.on);
    if (!ours.length || !join.add.length) {
      this.refuse(path, "has no key, or adds nothing", "give on: {column: column} and add: [column]");
    }
    this.known([...path, "on"], ours);
    const theirs = ours.map((name) => join.on[name]);
    if (theirs.includes("") || new Set(theirs).size < theirs.length || new Set(join.add).size < join.add.length) {
      this.refuse(path, "names a column of its source twice, or none", "name each once");
    }
    if (contract.format === "csv" && !contract.header) {
      const there = contract.columns.map(({ name }) => name);
      for (const column of [...theirs, ...join.add]) {
        if (!there.includes(column)) {
          this.refuse(
            path,
            `names the column ${printable(column)}, which ${join.source} does not have`,
            `its columns: ${there.map((name) => printable(name)).join(", ")}`,
          );
        }
      }
    }
    if (this.columns !== null) {
      for (const name of join.add) if (this.columns.includes(name)) this.taken([...path, "add"], name);
      this.columns.push(...join.add);
    }
  }
}
