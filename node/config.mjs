/** `kfm.yml` describes an installation: strict, with a published schema. Twin of src/kfm/config. */

import fs from "node:fs";
import path from "node:path";

import { compare, isPrintable, length, strip } from "./characters.mjs";
import { parseInstant } from "./clock.mjs";
import { checkOutputs } from "./transform_config.mjs";
import * as documents from "./documents.mjs";
import { BadInput } from "./errors.mjs";
import { Config, FILE_NAMES, RESERVED_ENV } from "./generated/settings.mjs";
import { checkId, escapedBytes, isDigest, isIdentifier, printable } from "./names.mjs";
import { DataContract, replace } from "./records.mjs";
import { checkReference, checkSecrets } from "./secret_refs.mjs";
import { kind } from "./yaml_scalars.mjs";
import { into } from "./record_shape.mjs";
import { strerror } from "./store/system.mjs";
import { isInteger, isMapping } from "./types.mjs";

const SHORTEST = 32; // bytes of a secret
const USUAL = DataContract(); // what need not be looked at closely

const PYTHON_ONLY = ["postgresql", "s3"]; // servers, which the Node runner does not reach
const SCHEMES = { state: ["sqlite", "jsonl", "memory"], objects: ["file"], publish: ["file", "github", "noop"] };

/** The contract of a source with its format in it. */
export function dataContract(source) {
  return source.format === null ? source.contract : replace(source.contract, { format: source.format });
}

/** What each source of a dataset must look like, by its name. */
export function contracts(dataset) {
  const found = Object.create(null);
  for (const name of Object.keys(dataset.sources)) found[name] = dataContract(dataset.sources[name]);
  return found;
}

/** What was declared of a dataset, and only that. */
export function metadata(dataset) {
  const { title, description, license, license_text, sensitivity, attribution, extent } = dataset;
  const said = { title, description, license, license_text, sensitivity, attribution };
  const kept = Object.fromEntries(Object.entries(said).filter(([, value]) => value));
  return extent === null ? kept : { ...kept, extent: { bbox: extent.bbox, interval: extent.interval } };
}

/** A configuration, and the folder its paths start at. */
export class Resolved {
  constructor(config, file, document) {
    this.config = config;
    this.path = file;
    this.root = path.dirname(file);
    this.document = document;
  }

  at(name) {
    return absolute(this.root, name);
  }

  location(url) {
    const [scheme, rest] = parted(url, ":");
    const place = rest.startsWith("///") ? rest.slice(2) : rest;
    return [scheme, place ? this.at(place) : ""];
  }

  secret(reference, env, { shortest = SHORTEST } = {}) {
    const [from, name] = parted(reference, ":");
    const value = from === "env" ? Buffer.from(env[name] ?? "", "utf8") : readSecret(this.at(name), reference);
    if (value.length < shortest) {
      throw new BadInput(`the secret ${reference} is ${value.length ? `shorter than ${shortest} bytes` : "empty"}`, {
        hint: shortest < SHORTEST ? "set it" : "create one with `openssl rand -hex 32`",
      });
    }
    return value;
  }
}

function absolute(root, name) {
  if (name.startsWith("/")) return normal(name);
  return normal(root.endsWith("/") ? root + name : `${root}/${name}`);
}

/** `os.path.normpath`: a path that begins with two slashes keeps them, as POSIX has it. */
function normal(name) {
  const plain = path.posix.normalize(name).replace(/(.)\/$/, "$1");
  return /^\/\/(?!\/)/.test(name) ? `/${plain}` : plain;
}

function parted(whole, mark) {
  const at = whole.indexOf(mark);
  return at < 0 ? [whole, "", false] : [whole.slice(0, at), whole.slice(at + mark.length), true];
}

export async function load(name, env) {
  const file = name || env.KFM_CONFIG || find(process.cwd(), env);
  const where = isPrintable(file) && length(file) <= 200 ? file : printable(file);
  const document = documents.read(readFile(file, where), where, { json: file.endsWith(".json") });
  if (!isMapping(document.value)) {
    document.refuse([], `must be a mapping, found ${kind(document.value)}`, "`kfm init` writes an example");
  }
  const format = document.value.kfm;
  if ((typeof format === "number" && isInteger(format) && format !== 1) || format === false) {
    document.refuse(["kfm"], "is a newer format than this version reads", "install a newer kfm, or write kfm: 1");
  }
  for (const one of Object.keys(env).filter((key) => key.startsWith("KFM_") && !isReserved(key)).sort(compare)) {
    const { apply } = await import("./environment.mjs");
    apply(document, Config, one, env[one], { fixed: ["kfm", "$schema"] });
  }
  const config = withDefaults(into(document, Config));
  await check(config, document);
  return new Resolved(config, absolute(process.cwd(), file), document);
}

function withDefaults(config) {
  const isFolder = config.publish.startsWith("file:");
  const inside = isFolder ? `${config.publish.replace(/\/+$/, "")}/catalog` : ""; // Python leaves it out where it is taken
  return { ...config, catalog: config.catalog === "auto" ? inside : config.catalog, pages: isFolder && config.pages };
}

const isReserved = (name) => RESERVED_ENV.includes(name) || name.startsWith("KFM_SECRET_");

function find(start, env) {
  for (let folder = start; ; folder = path.dirname(folder)) {
    for (const name of FILE_NAMES.map((file) => path.join(folder, file))) {
      if (!leadsNowhere(name)) continue; // passing over it would take another installation
      throw new BadInput(`${path.relative(start, name)} is a broken link`, {
        hint: "repair or remove it, or name another file with --config",
      });
    }
    const here = FILE_NAMES.filter((name) => isFile(path.join(folder, name)));
    if (here.length > 1) {
      throw new BadInput(`${here[0]} and ${here[1]} are both here`, { hint: "keep one, or name it with --config" });
    }
    if (here.length) {
      const found = path.relative(start, path.join(folder, here[0]));
      if (folder !== start) checkOwner(folder, path.join(folder, here[0]), found, env);
      return found;
    }
    if (path.dirname(folder) === folder) {
      throw new BadInput("no kfm.yml here or in a folder above", {
        hint: "write one with `kfm init`, or name it with --config",
      });
    }
  }
}

/** What is found in a folder above names what to read and where to write: only ours, or the administrator's. */
function checkOwner(folder, name, shown, env) {
  const ours = new Set([0, process.geteuid()]);
  if (process.geteuid() === 0 && /^[0-9]+$/.test(env.SUDO_UID ?? "")) ours.add(Number(env.SUDO_UID));
  if ([fs.lstatSync(folder), fs.lstatSync(name), fs.statSync(name)].every(({ uid }) => ours.has(uid))) return;
  throw new BadInput(`${isPrintable(shown) && length(shown) <= 200 ? shown : printable(shown)}, in a folder above, belongs to another user`, {
    hint: "it names code that would run as you; if you trust it, name it with --config",
  });
}

function leadsNowhere(name) {
  try {
    if (!fs.lstatSync(name).isSymbolicLink()) return false;
  } catch {
    return false;
  }
  return !fs.existsSync(name);
}

function isFile(name) {
  try {
    return fs.statSync(name).isFile();
  } catch {
    return false;
  }
}

function readFile(file, where) {
  let descriptor;
  try {
    // Without O_NONBLOCK a named pipe would keep us waiting for a writer.
    descriptor = fs.openSync(escapedBytes(file) ?? file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  } catch (problem) {
    if (problem.code === "ENOENT") {
      throw new BadInput(`${where} does not exist`, { hint: "write one with `kfm init`, or correct --config" });
    }
    const reason = problem.code === "ERR_INVALID_ARG_VALUE" ? "not a file name" : strerror(problem).toLowerCase();
    throw new BadInput(`${where} cannot be read: ${reason}`, { hint: "check the path and its permissions" });
  }
  try {
    if (!fs.fstatSync(descriptor).isFile()) {
      throw new BadInput(`${where} is not a file`, { hint: "name a YAML or JSON file with --config" });
    }
    const body = Buffer.allocUnsafe(documents.MAX_BYTES + 1); // of which only what was read is looked at
    let size = 0;
    for (let count = -1; count !== 0 && size < body.length; size += count) {
      count = fs.readSync(descriptor, body, size, body.length - size, null);
    }
    return body.subarray(0, size);
  } finally {
    fs.closeSync(descriptor);
  }
}

function readSecret(file, reference) {
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = fs.constants;
  let descriptor;
  try {
    descriptor = fs.openSync(escapedBytes(file) ?? file, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  } catch (problem) {
    const reason = strerror(problem).toLowerCase();
    throw new BadInput(`the secret ${reference} cannot be read: ${reason}`, { hint: "check the path" });
  }
  try {
    const found = fs.fstatSync(descriptor);
    if (!found.isFile() || found.mode & 0o077 || ![0, process.geteuid()].includes(found.uid)) {
      throw new BadInput(`the secret ${reference} is open to others`, { hint: "chmod 600 it; it must be your own file" });
    }
    const body = Buffer.alloc(4097);
    let size = fs.readSync(descriptor, body, 0, body.length, null);
    while (size > 0 && (body[size - 1] === 10 || body[size - 1] === 13)) size -= 1;
    return body.subarray(0, size);
  } finally {
    fs.closeSync(descriptor);
  }
}

// ------------------------------------------------------------------- what the types alone cannot say

async function check(config, document) {
  for (const [key, schemes] of Object.entries(SCHEMES)) checkLocation(document, key, config[key], schemes);
  checkGithub(document, config);
  const plain = (key) => isPrintable(config[key]) || document.refuse([key], "holds a control character", "use a plain path");
  ["artifacts", "labels"].forEach(plain);
  config.network.allow.forEach((host, index) => checkHost(document, ["network", "allow", index], host));
  for (const name of document.keys(["datasets"], config.datasets)) {
    await checkDataset(document, ["datasets", name], config.datasets[name]);
  }
  for (const name of document.keys(["webhooks"], config.webhooks)) {
    checkWebhook(document, ["webhooks", name], config.webhooks[name], config.datasets);
  }
}

function checkName(document, at, what) {
  try {
    checkId(at.at(-1), what);
  } catch (error) {
    throw new BadInput(`${document.place(at)}: ${error.message}`, { hint: error.hint, key: `${what}s` });
  }
}

async function checkDataset(document, at, dataset) {
  checkName(document, at, "dataset");
  if (at.at(-1) === "global") {
    document.refuse(at, "is the name of the freeze flag over all datasets", "choose another name");
  }
  checkWork(document, at, dataset);
  if (dataset.extent !== null) checkExtent(document, [...at, "extent"], dataset.extent);
  for (const key of document.keys([...at, "sources"], dataset.sources)) {
    await checkSource(document, [...at, "sources", key], dataset.sources[key]);
  }
  if (Object.keys(dataset.outputs).length) checkOutputs(document, at, dataset.outputs, contracts(dataset));
}

function checkWebhook(document, at, hook, datasets) {
  checkName(document, at, "webhook");
  hook.datasets.forEach((name, index) => {
    if (!Object.hasOwn(datasets, name)) {
      document.refuse([...at, "datasets", index], "is not a dataset of this file", "correct it");
    }
  });
  hook.secrets.forEach((reference, index) => {
    checkReference(document, [...at, "secrets", index], reference);
  });
}

function checkLocation(document, key, url, schemes) {
  const [scheme, rest, colon] = parted(url, ":");
  const pathless = ["memory", "noop"];
  const known = schemes.map((name) => (pathless.includes(name) ? name : `${name}:PATH`)).join(" or ");
  if (PYTHON_ONLY.includes(scheme)) {
    document.refuse([key], `is ${scheme}, which the Node runner does not reach`, "run it with `kfm run`");
  }
  if (!schemes.includes(scheme) || !(colon || pathless.includes(scheme))) {
    document.refuse([key], "is not a storage location that this version knows", `use ${known}`);
  }
  if (pathless.includes(scheme)) {
    if (rest) document.refuse([key], `has text after ${scheme}:`, "nothing belongs there");
  } else if (!/[^/.]/.test(rest) || !isPrintable(rest) || (rest.startsWith("//") && !rest.startsWith("///"))) {
    document.refuse([key], "has no usable path", `write ${scheme}:some/path, or ${scheme}:///absolute/path`);
  }
}

function checkGithub(document, config) {
  const [scheme, repository] = parted(config.publish, ":");
  if (scheme === "github" && !/^[A-Za-z0-9._-]+\/[A-Za-z0-9._-]+$/.test(repository)) {
    document.refuse(["publish"], "is not a repository", "write github:OWNER/REPOSITORY");
  }
  if (!/^(?:env|file):/.test(config.github.token)) {
    document.refuse(["github", "token"], "is not a reference", "write env:NAME or file:PATH");
  }
  for (const key of ["api", "uploads"]) {
    const url = config.github[key];
    if (!/^https?:\/\/[A-Za-z0-9.:[\]-]+(?:\/[A-Za-z0-9._/-]*)?$/.test(url) || url.endsWith("/")) {
      document.refuse(["github", key], "is not an address", "write https://api.github.com");
    }
    if (url.startsWith("http://") && !/^http:\/\/(?:127\.0\.0\.1|localhost)(?::[0-9]+)?(?:\/|$)/.test(url)) {
      document.refuse(["github", key], "is not encrypted", "use https: a token is sent there");
    }
  }
}

function checkHost(document, at, host) {
  if (!/^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$/.test(host)) {
    document.refuse(at, "is not a host", "write example.org, or 127.0.0.1:8931 with a port");
  }
}

function checkWork(document, at, dataset) {
  const isDeclared = Object.keys(dataset.outputs).length > 0;
  if (dataset.updater === null) {
    if (dataset.job) return; // Python checks it, this runner refuses to run it
    if (!isDeclared) {
      document.refuse(at, "has neither an updater nor outputs", "add updater: file.py:Class, or outputs");
    }
    if (!dataset.version) document.refuse(at, "has outputs and no version", 'add a line like version: "1.0.0"');
    if (length(dataset.version) > 100 || !isPrintable(dataset.version)) {
      document.refuse([...at, "version"], "is not a short printable text", 'write one like "1.0.0"');
    }
    return;
  }
  checkUpdater(document, [...at, "updater"], dataset.updater);
  if (isDeclared) document.refuse([...at, "outputs"], "cannot be combined with an updater", "keep one of the two");
  if (dataset.version) {
    document.refuse([...at, "version"], "cannot be combined with an updater, whose class has its own", "remove it");
  }
}

function checkUpdater(document, at, spec) {
  const colon = spec.lastIndexOf(":");
  const module = colon < 0 ? "" : spec.slice(0, colon);
  const named = isIdentifier(spec.slice(colon + 1));
  if (!named || !isPrintable(module) || !(module.endsWith(".py") || module.split(".").every(isIdentifier))) {
    document.refuse(at, "does not name an updater", "write updaters/stations.py:Stations");
  }
}

function checkExtent(document, at, extent) {
  if (extent.bbox.length) {
    if (extent.bbox.length !== 4) {
      document.refuse([...at, "bbox"], "must hold four numbers", "west, south, east, north");
    }
    const [west, south, east, north] = extent.bbox;
    const onGlobe = Math.abs(west) <= 180 && Math.abs(east) <= 180 && -90 <= south && south <= north && north <= 90;
    if (!onGlobe) document.refuse([...at, "bbox"], "is not on the globe", "west, south, east, north in degrees");
  }
  if (!extent.interval.length) return;
  if (extent.interval.length !== 2) {
    document.refuse([...at, "interval"], "must hold two instants", "first and last; null for an open end");
  }
  extent.interval.forEach((instant, index) => {
    try {
      parseInstant(instant ?? "0", "");
    } catch (error) {
      document.refuse([...at, "interval", index], "is not an instant", error.hint);
    }
  });
}

async function checkSource(document, at, source) {
  const name = at.at(-1);
  if (!name || !isPrintable(name) || length(name) > 63) {
    document.refuse(at, "is not a name for a source", "use a short plain name");
  }
  const { uri, dataset } = source;
  if (!uri === !dataset) document.refuse(at, "needs one of uri and dataset", "write uri: https://… or dataset: NAME");
  if (!isPrintable(uri) || uri !== strip(uri)) {
    document.refuse([...at, "uri"], "holds a space or control character at an edge", "use a plain URL or path");
  }
  const [scheme, rest, isUrl] = parted(uri, "://");
  if (isUrl && !["http", "https", "file", "s3"].includes(scheme)) {
    document.refuse([...at, "uri"], "has a scheme that this version cannot read", "use http, https or a file path");
  }
  if (isUrl && parted(rest, "/")[0].includes("@")) {
    document.refuse([...at, "uri"], "holds a user name or password", "give them as references under `headers:`");
  }
  checkSecrets(document, at, source);
  if (source.expect_hash && !isDigest(source.expect_hash)) {
    document.refuse([...at, "expect_hash"], "is not a digest", "write sha256: and 64 hex digits");
  }
  source.hosts.forEach((host, index) => checkHost(document, [...at, "hosts", index], host));
  const twice = given(document.value, [...at, "contract", "format"]);
  if (source.format !== null && twice && source.contract.format !== source.format) {
    document.refuse([...at, "format"], "and contract.format differ", "say it once");
  }
  await checkContract(document, [...at, "contract"], source.contract);
}

async function checkContract(document, at, contract) {
  if (contract.encoding !== USUAL.encoding || contract.delimiter !== USUAL.delimiter) {
    const { encodingOf, isDelimiter } = await import("./encodings.mjs");
    if (!encodingOf(contract.encoding)) {
      document.refuse([...at, "encoding"], "is not an encoding", "see the guide to data contracts");
    }
    if (!isDelimiter(contract.delimiter)) {
      document.refuse([...at, "delimiter"], "must be one character", 'write "," or "\\t" in double quotes');
    }
  }
  const seen = new Set();
  for (const [index, column] of contract.columns.entries()) {
    const here = [...at, "columns", index];
    if (!column.name || seen.has(column.name)) {
      document.refuse([...here, "name"], "is empty or given twice", "name each column once");
    }
    seen.add(column.name);
    const flaw = column.pattern ? (await import("./patterns.mjs")).patternFlaw(column.pattern) : "";
    if (flaw) document.refuse([...here, "pattern"], flaw, "correct it; test it on one value");
    if (column.minimum !== null && column.maximum !== null && column.minimum > column.maximum) {
      document.refuse([...here, "minimum"], "is above maximum", "swap them");
    }
  }
}

function given(raw, at) {
  for (const part of at) {
    const inList = Array.isArray(raw) && typeof part === "number" && part < raw.length;
    if (!inList && !(isMapping(raw) && Object.hasOwn(raw, part))) return false;
    raw = raw[part];
  }
  return true;
}
