/** Publishes as releases of a GitHub repository. Twin of src/kfm/sinks/github_releases.py. */

import { createHash } from "node:crypto";

import { canonical } from "../canonical.mjs";
import { Busy, Corrupt, Refused, Unavailable } from "../errors.mjs";
import { checkPath } from "../names.mjs";
import { TracingPublisher } from "./noop.mjs";

export const MOST_ASSETS = 1000; // of a release, says GitHub
const TRY_AGAIN = "`kfm resume` tries again";
const LATER = "the commit is kept; `kfm resume` publishes it later";

export class GitHubPublisher extends TracingPublisher {
  #api;
  #uploads;
  #token;
  #transport;
  #local;
  #openLock;
  #releases = new Map(); // by tag, as last seen
  isLatest = () => false;

  constructor(repository, token, transport, local, lock, options = {}) {
    super({ dryRun: false });
    const { api = "https://api.github.com", uploads = "https://uploads.github.com" } = options;
    this.#api = `${api}/repos/${repository}`;
    this.#uploads = `${uploads}/repos/${repository}`;
    this.#token = token;
    this.#transport = transport;
    this.#local = local;
    this.#openLock = lock;
  }

  // -- the Publisher

  async writeFile(path, digest, size, key, body) {
    checkPath(path);
    const parts = path.split("/");
    if (parts[0] !== "datasets") {
      await this.#local.writeFile(path, digest, size, key, body);
      this.#local.trace.length = 0; // it is in ours
    } else {
      await this.#turn(() => this.#upload(tagOf(parts), assetName(path), digest, size, body));
    }
    this.note("write_file", path, digest, size, key);
  }

  /** Deletes the asset. If its release does not exist, none is created. */
  async removeFile(path, key, check) {
    checkPath(path);
    await this.#turn(async () => {
      check();
      const tag = tagOf(path.split("/"));
      const release = this.#releases.get(tag) ?? (await this.#find(tag));
      const asset = release?.assets.find(({ name }) => name === assetName(path));
      if (asset === undefined) return;
      await this.#ask("DELETE", `${this.#api}/releases/assets/${asset.id}`, null, [204, 404]);
      release.assets.splice(release.assets.indexOf(asset), 1);
      this.#releases.set(tag, release);
    });
    this.note("remove_file", path, "", 0, key);
  }

  async removeRest(folder, check) {
    const tag = tagOf(folder.split("/"));
    await this.#turn(async () => {
      check();
      const release = await this.#find(tag);
      if (release !== null) await this.#ask("DELETE", `${this.#api}/releases/${release.id}`, null, [204, 404]);
      this.#releases.delete(tag);
    });
  }

  /** The pointer. One with a lower `seq` than is there already comes late and is ignored, if not the latest. */
  async updateMetadata(target, value, key) {
    await this.#turn(async () => {
      const { dataset, version } = value;
      if (version) await this.#complete(`${dataset}-${version.replace(/^sha256:/, "").slice(0, 16)}`);
      await this.#point(`${dataset}-current`, value);
    });
    this.noteValue("update_metadata", target, value, key);
  }

  async emitEvent(event, key) {
    const kind = String(event.type ?? "");
    await this.#turn(async () => {
      const payload = { event_type: kind.slice(0, 100), client_payload: { ...event, key } };
      await this.#ask("POST", `${this.#api}/dispatches`, payload, [204]);
    });
    await this.#local.emitEvent(event, key);
    this.#local.trace.length = 0;
    this.noteValue("emit_event", kind, event, key);
  }

  // -- releases

  async #release(tag, text, { again = false } = {}) {
    if (!again && this.#releases.has(tag)) return this.#releases.get(tag);
    let found = await this.#find(tag);
    if (found === null) {
      const wanted = { tag_name: tag, name: tag, body: text, prerelease: true, make_latest: "false" };
      const [status, made] = await this.#ask("POST", `${this.#api}/releases`, wanted, [201, 422]);
      // 422: another process made it meanwhile, or an answer was lost on the way; ask again.
      found = status === 201 ? made : await this.#find(tag);
      if (found === null) throw new Unavailable(`GitHub could not create the release ${tag}`, { hint: TRY_AGAIN });
    }
    this.#releases.set(tag, found);
    return found;
  }

  async #find(tag) {
    const [status, found] = await this.#ask("GET", `${this.#api}/releases/tags/${tag}`, null, [200, 404]);
    if (status === 404) return null;
    const assets = [];
    for (let page = 1; ; page += 1) {
      const url = `${this.#api}/releases/${found.id}/assets?per_page=100&page=${page}`;
      const [, some] = await this.#ask("GET", url, null, [200]);
      assets.push(...some);
      if (some.length < 100) return { ...found, assets };
    }
  }

  async #upload(tag, name, digest, size, body) {
    let release = this.#releases.get(tag) ?? (await this.#find(tag));
    if (release !== null && (await this.#has(release, name, digest, size))) return;
    body = begun(body);
    release ??= await this.#release(tag, "");
    this.#releases.set(tag, release);
    if (release.assets.length >= MOST_ASSETS) {
      throw new Refused(`the release ${tag} would have more than ${MOST_ASSETS} files, and GitHub does not allow that`, {
        hint: "publish to a folder, or produce fewer and larger files",
      });
    }
    const url = `${this.#uploads}/releases/${release.id}/assets?name=${name}`;
    const headers = { "Content-Type": "application/octet-stream", "Content-Length": String(size) };
    const [status, made] = await this.#ask("POST", url, body, [201, 422], headers);
    if (status === 422) {
      // It is there: from an attempt whose answer was lost, or half from one that broke off.
      release = await this.#release(tag, "", { again: true });
      if (!(await this.#has(release, name, digest, size))) {
        throw new Unavailable(`GitHub did not accept ${name}`, { hint: TRY_AGAIN });
      }
      return;
    }
    if (made.state !== "uploaded" || made.size !== size || ![undefined, null, digest].includes(made.digest)) {
      throw new Unavailable(`GitHub did not store ${name} as it was sent`, { hint: TRY_AGAIN });
    }
    release.assets.push(made);
  }

  async #has(release, name, digest, size) {
    const at = release.assets.findIndex((asset) => asset.name === name);
    if (at < 0) return false;
    const asset = release.assets[at];
    if (asset.state !== "uploaded") {
      await this.#ask("DELETE", `${this.#api}/releases/assets/${asset.id}`, null, [204, 404]);
      release.assets.splice(at, 1);
      return false;
    }
    if (asset.size !== size || ![undefined, null, digest].includes(asset.digest)) {
      throw new Corrupt(`the asset ${name} of ${release.tag_name} was altered`, {
        hint: "delete the asset on GitHub, then run `kfm resume`",
      });
    }
    return true;
  }

  async #complete(tag) {
    const release = await this.#release(tag, "");
    if (!release.prerelease) return;
    const wanted = { prerelease: false, make_latest: "true" };
    const [, changed] = await this.#ask("PATCH", `${this.#api}/releases/${release.id}`, wanted, [200]);
    this.#releases.set(tag, { ...release, ...changed, assets: release.assets });
  }

  async #point(tag, value) {
    const text = canonical(value).toString();
    const release = await this.#release(tag, text, { again: true });
    const url = `${this.#api}/releases/${release.id}`;
    const later = seqOf(release.body) < (value.seq ?? 0);
    if (later || (release.body !== text && this.isLatest(value))) {
      await this.#ask("PATCH", url, { body: text, prerelease: !value.version, make_latest: "false" }, [200]);
    } else if (release.prerelease && release.body === text && value.version) {
      await this.#ask("PATCH", url, { prerelease: false }, [200]);
    }
  }

  // -- asking

  async #ask(method, url, value, ok, more = null) {
    const headers = {
      Accept: "application/vnd.github+json",
      Authorization: `Bearer ${this.#token()}`,
      "User-Agent": "kfm",
      "X-GitHub-Api-Version": "2022-11-28",
      ...more,
    };
    let body = value;
    if (value !== null && !more) {
      body = canonical(value);
      Object.assign(headers, { "Content-Type": "application/json", "Content-Length": String(body.length) });
    }
    const [status, answered, answer] = await this.#transport.call(method, url, headers, body);
    const what = `${method} ${url.split("/repos/")[1].split("?")[0]}`;
    if (!ok.includes(status)) throw refusal(status, what, answered);
    try {
      return [status, answer.length && status !== 204 ? JSON.parse(answer.toString()) : {}];
    } catch {
      throw new Unavailable(`GitHub answers ${what} with invalid JSON`, { hint: TRY_AGAIN });
    }
  }

  async #turn(work) {
    const lock = this.#openLock();
    try {
      for (let attempt = 0; !lock.take(); attempt += 1) {
        if (attempt >= 3000) {
          throw new Busy("another process is publishing", {
            hint: "the commit is kept; `kfm resume` publishes it",
          });
        }
        await new Promise((wake) => setTimeout(wake, 10));
      }
      return await work();
    } finally {
      lock.close();
    }
  }
}

function refusal(status, what, headers) {
  const wait = headers["retry-after"] ?? "";
  const spent = headers["x-ratelimit-remaining"] === "0" || headers["retry-after"] !== undefined;
  if ([408, 425, 429].includes(status) || status >= 500 || (status === 403 && spent)) {
    const after = /^[0-9]{1,5}$/.test(wait) ? Number(wait) : null;
    return new Unavailable(`GitHub answers ${status} to ${what}`, { hint: LATER, retry_after_s: after });
  }
  if ([401, 403, 404].includes(status)) {
    return new Refused(`GitHub answers ${status} to ${what}`, {
      hint: "check the repository's name and that the token may write its contents; then run `kfm resume`",
    });
  }
  return new Refused(`GitHub answers ${status} to ${what}`, { hint: "run `kfm resume --verbose` and report the answer" });
}

/** The same pieces; the first is read now, before anything is changed. */
function begun(body) {
  const pieces = body[Symbol.iterator]();
  const first = pieces.next();
  return (function* () {
    if (first.done) return;
    yield first.value;
    yield* { [Symbol.iterator]: () => pieces };
  })();
}

const tagOf = (parts) => `${parts[1]}-${parts[3].replace(/\.ndjson$/, "")}`;

function assetName(path) {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return `${createHash("sha256").update(path).digest("hex").slice(0, 12)}.${name}`;
}

function seqOf(body) {
  try {
    const seq = JSON.parse(body).seq ?? 0;
    return Number.isInteger(seq) ? seq : -1;
  } catch {
    return -1;
  }
}
