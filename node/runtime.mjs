/** Opens a session: the one file that knows which backend was chosen. Twin of src/kfm/app/session/session.py. */

import fs from "node:fs";
import path from "node:path";

import * as artifacts from "./artifacts.mjs";
import { canonical } from "./canonical.mjs";
import { compare, isPrintable, length, roundHalfEven } from "./characters.mjs";
import { rfc3339, SystemClock } from "./clock.mjs";
import { dataContract, metadata as metadataOf } from "./config.mjs";
import { checkWindow } from "./transform_config.mjs";
import { deliver, PUBLIC, RECEIPTS } from "./engine/public_files.mjs";
import { run } from "./engine/run.mjs";
import { Ports, Settings } from "./engine/run_context.mjs";
import { BadInput, Refused } from "./errors.mjs";
import { SINKS } from "./generated/settings.mjs";
import { digest } from "./keys.mjs";
import { EventLog, human, jsonl, NullLog, tracebacks } from "./log.mjs";
import { datasetId, isSemantic, printable } from "./names.mjs";
import { FilesPublisher } from "./sinks/folder_publisher.mjs";
import { NoopPublisher } from "./sinks/noop.mjs";
import { DataContract, FetchRequest, PYTHON_ALONE, replace } from "./records.mjs";
import { referring, revealed } from "./secret_refs.mjs";
import { openSource } from "./sources/index.mjs";
import { failingAsStorage, REAL } from "./store/fsio.mjs";
import { FileLock } from "./store/locks.mjs";
import { DryObjects, FileObjects } from "./store/objects.mjs";
import { StoredState, thisProcess } from "./store/state.mjs";
import { judgedPlace, openedPlace } from "./store/state_place.mjs";
import { asked } from "./triggers.mjs";
import { loadDeclared } from "./updaters/transforms/index.mjs";
import { interval } from "./time_windows.mjs";

/**
 * An open installation. `write` may change it, `read` only reads it, `dry` runs without anything that could change
 * it. `actor` is the default actor, `certFile` holds the authorities for https (empty: those of the system).
 */
export class Session {
  #progress;
  #actor;
  #certFile;
  #env; // where references to secrets are looked up
  #updaters = new Map();
  #stopped = null;

  constructor(resolved, mode, tables, publisher, options = {}) {
    const { log = null, progress = null, clock = null, actor = "", certFile = "", env = {} } = options;
    this.resolved = resolved;
    this.config = resolved.config;
    this.mode = mode;
    this.clock = clock ?? new SystemClock();
    this.log = log ?? new NullLog();
    this.#progress = progress ?? (() => {});
    this.#actor = actor;
    this.#certFile = certFile;
    this.#env = env;
    this.tables = tables;
    this.state = new StoredState(tables, () => this.clock.nowMs());
    if (mode === "write") this.state.judgePlace = () => judgedPlace(this.state, resolved);
    this.moved = openedPlace(this.state, mode, resolved); // a warning about its places
    this.objects = this.#openObjects();
    this.publisher = publisher;
    publisher.isLatest = (pointer) => this.#isLatest(pointer);
    this.undelivered = []; // by the last `settle`, with the dataset where it is one's
  }

  close() {
    this.state.close();
  }

  #isLatest({ dataset, run_id: runId, version }) {
    const [last] = this.state.history(`published/${dataset}`, { reverse: true, limit: 1 });
    return last?.run_id === runId && last.after === version;
  }

  /** How many superseded versions of it stay public; -1: all. */
  #retention(name) {
    const own = Object.hasOwn(this.config.datasets, name) ? this.config.datasets[name].publish_retention : null;
    return own ?? this.config.publish_retention;
  }

  /** Leave what is being done at the next occasion: `problem` is thrown there, and the run can be resumed. */
  stop(problem) {
    this.#stopped = problem;
  }

  #openObjects() {
    const real = new FileObjects(this.resolved.location(this.config.objects)[1], this.state);
    return this.mode === "write" ? real : new DryObjects(real);
  }

  // -- what is installed

  datasets() {
    return Object.keys(this.config.datasets).sort(compare);
  }

  dataset(name) {
    const id = datasetId(name);
    if (!Object.hasOwn(this.config.datasets, id)) {
      const known = this.datasets().join(", ") || "none";
      throw new BadInput(`no dataset is called ${id}`, { hint: `kfm.yml names: ${known}` });
    }
    return this.config.datasets[id];
  }

  /** The dataset's updater, loaded once. Only what is declared in the configuration: Python code needs Python. */
  updater(name) {
    const id = datasetId(name);
    if (!this.#updaters.has(id)) {
      const declared = this.dataset(id);
      if (declared.updater !== null) {
        throw new BadInput(`dataset ${id} is updated by Python code, which this runner does not run`, {
          hint: `run it with \`python -m updater run ${id}\`, or declare \`outputs\` instead`,
        });
      }
      const python = { hint: `run it with \`python -m updater run ${id}\`` };
      if (declared.job) throw new BadInput(`dataset ${id} is made by a job, and this runner does none`, python);
      const { custodians, ledger, attest, policy } = this.config;
      const signs = ledger.sign_with || attest.sign_with || declared.promote === "auto";
      const message = "kfm.yml asks for signatures, policies, promote: auto or a pool, and this runner has none of them";
      if (signs || policy.url || policy.folder || declared.pool) throw new BadInput(message, python);
      const said = Object.values(declared.sources).map((source) => ({ ...source, ...dataContract(source) }));
      const alone = PYTHON_ALONE.find((name) => said.some((source) => source[name] || source.format === name));
      const beyond = alone ? `has a source with ${alone}` : said.some((source) => source.dataset) && "reads other datasets";
      if (beyond) throw new BadInput(`dataset ${id} ${beyond}, and this runner reads none`, python);
      const known = [...this.tables.scan("standings", "", { limit: 1 })].length;
      const hidden = this.#speaksOfProtected() || known || Object.keys(custodians).length > 0;
      const undeclared = `dataset ${id} is not declared public, and this runner runs no other`;
      const why = hidden ? "this installation has protected data, and this runner cannot protect it" : undeclared;
      const hint = hidden ? python.hint : `${python.hint}, or say \`sensitivity: public\``;
      if (hidden || declared.sensitivity !== "public") throw new BadInput(why, { hint });
      this.#updaters.set(id, loadDeclared(id, declared));
    }
    return this.#updaters.get(id);
  }

  /** Labels and masks of any dataset have to fit together, which only Python knows. */
  #speaksOfProtected() {
    const sources = Object.values(this.config.datasets).flatMap((declared) => Object.values(declared.sources));
    return this.config.labels !== "" || sources.some((source) => source.mask);
  }

  /** The reader of a source; its secrets are read when it is fetched. */
  #openSource(declared, uri) {
    const reader = openSource(uri, { certFile: this.#certFile });
    return {
      fetch: async (request, known, objects) => {
        const source = declared !== null && Object.hasOwn(declared.sources, request.name) && declared.sources[request.name];
        const asks = source && Object.keys(source.headers).length + Object.keys(source.query).length > 0;
        const read = (reference) => this.resolved.secret(reference, this.#env, { shortest: 1 });
        const asking = asks ? replace(request, revealed(source, request, read)) : request;
        return reader.fetch(asking, known, objects);
      },
    };
  }

  ports(name) {
    const { network, execute } = this.config;
    const request = FetchRequest({
      uri: "",
      base_dir: this.resolved.root,
      allow: network.allow,
      max_bytes: network.max_bytes,
      timeout_ms: milliseconds(network.timeout_s),
      total_ms: milliseconds(network.total_s),
      revalidate_ms: milliseconds(network.revalidate_s),
    });
    const declared = Object.hasOwn(this.config.datasets, name) ? this.config.datasets[name] : null;
    const config = declared !== null ? canonical(declared) : null;
    const metadata = declared !== null ? metadataOf(declared) : {};
    const sources = new Map();
    for (const [sourceName, source] of Object.entries(declared?.sources ?? {})) {
      const contract = dataContract(source);
      const asking = replace(request, {
        uri: referring(source),
        name: sourceName,
        hosts: source.hosts,
        expect_hash: source.expect_hash,
        media_type: source.media_type,
        complete: source.complete,
        revalidate_ms: source.revalidate_s === null ? request.revalidate_ms : milliseconds(source.revalidate_s),
      });
      sources.set(sourceName, [asking, saysNothing(contract) ? null : contract]);
    }
    return Ports({
      state: this.state,
      objects: this.objects,
      clock: this.clock,
      log: this.log,
      openSource: (uri) => this.#openSource(declared, uri),
      settings: Settings({
        threads: execute.threads,
        window: execute.window,
        lease_ms: milliseconds(execute.lease_s),
        deletion_budget: this.config.deletion_budget,
        holder: thisProcess(),
        dry_run: this.mode === "dry",
        sinks: SINKS.filter(([at]) => at.split(".").reduce((part, key) => part[key], this.config)).map((each) => each[1]),
      }),
      sources,
      request,
      metadata,
      configHash: config !== null ? digest(config) : "",
      config,
      progress: this.#progress,
      breathe: () => this.#breathe(),
    });
  }

  async #breathe() {
    await new Promise((resume) => setImmediate(resume));
    if (this.#stopped !== null) throw this.#stopped;
  }

  // -- what can be done

  trigger(dataset, said = {}) {
    const id = datasetId(dataset);
    const declared = this.dataset(id);
    const window = said.window ? interval(said.window, rfc3339(this.clock.nowMs()).slice(0, 10)) : "";
    if (window) checkWindow(id, declared.outputs);
    const updater = this.updater(id);
    if (!isSemantic(updater.version)) {
      throw new BadInput(`version ${printable(updater.version)} of updater ${id} is not a semantic version`, {
        hint: 'write one like "1.0.0" (semver.org); finish unfinished runs with `kfm resume` before you change it',
      });
    }
    return asked(updater, id, this.clock, { ...said, window, actor: said.actor || this.#actor });
  }

  async run(trigger) {
    return run(trigger, this.updater(trigger.dataset), this.ports(trigger.dataset));
  }

  // -- what can be seen

  /** The artifacts of these runs: a Map of file name to bytes. */
  artifacts(receipts, effects, events) {
    const dry = this.mode === "dry";
    const inputs = (receipt) => this.state.run(receipt.run_id)?.inputs ?? [];
    return new Map([
      ["run.jsonl", artifacts.runLines(receipts.map((r) => [r, this.state.telemetry(r.run_id)]))],
      ["event_log.jsonl", artifacts.eventLines(events, dry)],
      ["idempotency.json", artifacts.idempotency(receipts.map((r) => [r, inputs(r)]), dry)],
      ["publisher_trace.jsonl", artifacts.traceLines(effects)],
    ]);
  }

  async settle() {
    this.undelivered = [];
    this.undelivered = await deliver(this.state, this.objects, this.publisher, this.log, {
      sync: this.mode === "write",
      retention: (name) => this.#retention(name),
      waits: this.#speaksOfProtected(), // Python delivers what was committed there
    });
    const effects = [...this.publisher.trace];
    this.publisher.trace.length = 0; // a session that stays open must not keep every effect
    if (this.undelivered.length) throw this.undelivered[0][1];
    return effects;
  }

  /** Whether public files wait, or the receipt of a run that changed something. */
  isChangePending() {
    const unexported = [...this.state.ledger({ after: this.state.cursor(RECEIPTS) })];
    const isRecord = (entry) => entry.moves.every((move) => move.ref.startsWith("maintenance/")); // a backup, a repair
    return (
      !this.state.due(PUBLIC).next().done || unexported.some((entry) => entry.outcome === "done" && !isRecord(entry))
    );
  }
}

const milliseconds = (seconds) => roundHalfEven(seconds * 1000);

const NOTHING = canonical(DataContract());

const saysNothing = (contract) => canonical(contract).equals(NOTHING);

export async function openHouse(resolved, { mode = "write", env = {}, ...options } = {}) {
  if (mode === "write" && !resolved.config.accept_weak_storage) {
    const { examine } = await import("./store/filesystem_check.mjs");
    for (const [what, folder] of folders(resolved)) {
      const [kind, why] = examine(folder);
      if (!why) continue;
      throw new Refused(`${what} lies on ${kind}: ${why}`, {
        hint: "put it on a local disk, or set accept_weak_storage: true (KFM_ACCEPT_WEAK_STORAGE=true)",
      });
    }
  }
  const publisher = await openPublisher(resolved, mode, env);
  return new Session(resolved, mode, await openTables(resolved, mode), publisher, { ...options, env });
}

async function openPublisher(resolved, mode, env) {
  const [scheme, place] = resolved.location(resolved.config.publish);
  if (mode !== "write" || scheme === "noop") return new NoopPublisher({ dryRun: mode !== "write" });
  const own = resolved.at(".kfm");
  const roots = new Map([["", scheme === "github" ? own : place], ["receipts", own], ["events", own]]);
  const lock = () => new FileLock(path.join(own, "publish.lock"));
  const files = new FilesPublisher(roots, lock);
  if (scheme !== "github") return files;
  const { GitHubPublisher } = await import("./sinks/github_releases.mjs");
  const { HttpTransport } = await import("./sinks/http_transport.mjs");
  const { token, api, uploads } = resolved.config.github;
  const secret = () => resolved.secret(token, env, { shortest: 1 }).toString("latin1");
  const repository = resolved.config.publish.slice("github:".length);
  return new GitHubPublisher(repository, secret, new HttpTransport(), files, lock, { api, uploads });
}

function* folders(resolved) {
  const [scheme, place] = resolved.location(resolved.config.state);
  if (scheme !== "memory") yield ["state", path.dirname(place)];
  yield ["objects", resolved.location(resolved.config.objects)[1]];
}

export async function openTables(resolved, mode) {
  const [scheme, place] = resolved.location(resolved.config.state);
  if (scheme === "sqlite" && mode === "write") {
    const { SqliteTables } = await import("./store/sqlite.mjs");
    return new SqliteTables(place);
  }
  const { OverlayTables } = await import("./store/overlay.mjs");
  const { MemoryTables } = await import("./store/memory.mjs");
  if (scheme === "memory") return new MemoryTables();
  if (scheme === "jsonl") {
    const { JsonlTables } = await import("./store/jsonl.mjs");
    if (mode === "write") return new JsonlTables(place);
    return new OverlayTables(fs.existsSync(place) ? new JsonlTables(place, REAL, { create: false }) : new MemoryTables());
  }
  const { SnapshotTables } = await import("./store/snapshot.mjs");
  return new OverlayTables(new SnapshotTables(place));
}

/**
 * Events as lines on a stream, for people or for programs, and into a list for the artifacts.
 *
 * `causes` gets the stack of what lay behind an error, with the values in it.
 */
export function openLog(stream, clock, { lines = "human", events = null, causes = null } = {}) {
  const sinks = events === null ? [] : [(line) => events.push(line)];
  if (stream !== null) sinks.push(lines === "human" ? human(stream) : jsonl(stream));
  return new EventLog(clock, sinks, { causes: causes !== null ? tracebacks(causes) : null });
}

/** Into a folder, over those of the run before. Exports: made again from the state, so not synced. */
export function writeArtifacts(folder, files) {
  failingAsStorage("write the artifacts", () => {
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    for (const [name, body] of files) {
      const target = path.join(folder, name);
      const temporary = `${target}.${process.pid}.tmp`;
      REAL.unlink(temporary);
      const fd = REAL.create(temporary);
      try {
        REAL.write(fd, body);
      } finally {
        REAL.close(fd);
      }
      REAL.replace(temporary, target);
    }
  });
}

export function defaultActor(env) {
  const said = env.KFM_ACTOR ?? "";
  if (!isPrintable(said) || length(said) > 1000) {
    throw new BadInput("KFM_ACTOR must be one line of at most 1000 characters", { hint: "shorten it" });
  }
  for (const name of [said, env.USER ?? "", env.LOGNAME ?? ""]) {
    if (name && isPrintable(name) && length(name) <= 1000) return name;
  }
  return `uid:${process.getuid()}`;
}
