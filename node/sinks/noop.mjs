/** A publisher that changes nothing and keeps the same trace as one that does. Twin of src/kfm/sinks/noop.py. */

import { canonical } from "../canonical.mjs";
import { digest as digestOf } from "../keys.mjs";
import { Effect } from "../records.mjs";

export class TracingPublisher {
  #dryRun;

  constructor({ dryRun }) {
    this.#dryRun = dryRun;
    this.trace = [];
  }

  note(method, target, digest, size, key) {
    this.trace.push(
      Effect({ seq: this.trace.length + 1, method, target, digest, size, key, dry_run: this.#dryRun }),
    );
  }

  noteValue(method, target, value, key) {
    const body = canonical(value);
    this.note(method, target, digestOf(body), body.length, key);
  }
}

export class NoopPublisher extends TracingPublisher {
  constructor({ dryRun = true } = {}) {
    super({ dryRun });
  }

  writeFile(path, digest, size, key, _body) {
    this.note("write_file", path, digest, size, key);
  }

  removeFile(path, key, _check) {
    this.note("remove_file", path, "", 0, key);
  }

  removeRest(_folder, _check) {
    // nothing is there
  }

  emitEvent(event, key) {
    this.noteValue("emit_event", String(event.type ?? ""), event, key);
  }

  updateMetadata(target, value, key) {
    this.noteValue("update_metadata", target, value, key);
  }
}
