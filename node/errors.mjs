/**
 * Every error a caller can meet, sorted by what the caller does next. Twin of src/kfm/errors.py.
 *
 *     KfmError
 *     ├── Refused          the request or the data is wrong: fix it
 *     │   ├── BadInput         a file, name or value that cannot be read as what it should be
 *     │   ├── PlanImpure       plan() reached for the clock, files, network, randomness, environment
 *     │   ├── PlanChanged      same inputs and version, other plan: bump the version
 *     │   ├── PlanDrift        the journaled plan is not the one this code makes: never guessed over
 *     │   ├── Held             the source is in quarantine: look at the findings
 *     │   └── StepFailed       perform() raised or gave something that is not an Output
 *     ├── Denied           a rule says no: ask someone
 *     ├── Frozen           a switch is set: wait for the thaw
 *     ├── Conflict         the world moved: look again
 *     │   ├── Busy             another live worker holds the lease
 *     │   ├── Fenced           our lease was taken over; nothing of ours may be written any more
 *     │   └── Moved            a ref is not where the plan expected it
 *     ├── Unavailable      a source or service does not answer: wait, retryable
 *     └── Broken           the ground under us
 *         ├── Corrupt          stored bytes are not what was stored
 *         └── StorageFailed    the disk said no (full, I/O error): nothing more is acknowledged
 *
 * A message says what happened with its values, then what to do. It never quotes a value of the data.
 */

/** Base of all errors meant for people; anything else reaching a door is a bug. */
export class KfmError extends Error {
  static code = "error";
  static exitCode = 1;

  /**
   * `discreet` is the message without the names an author may have made from data: step ids, keys.
   * `cause` is what lay behind it. Everything else in the options is a field, in its order.
   */
  constructor(message, { hint = "", discreet = "", cause = undefined, ...fields } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.hint = hint;
    this.discreet = discreet;
    this.fields = fields;
  }

  get name() {
    return this.constructor.name;
  }

  get code() {
    return this.constructor.code;
  }

  get exitCode() {
    return this.constructor.exitCode;
  }

  /** The same error as it may be told of data that is not public. */
  withoutNames() {
    if (!this.discreet) return this;
    const told = new this.constructor(this.discreet, { hint: this.hint, cause: this.cause });
    told.fields = this.fields;
    return told;
  }

  /** As `str(error)` in Python: what happened, then what to do. */
  toString() {
    return this.hint ? `${this.message}; ${this.hint}` : this.message;
  }
}

export class Refused extends KfmError {
  static code = "refused";
  static exitCode = 3;
}

export class BadInput extends Refused {
  static code = "input.bad";
}

export class PlanImpure extends Refused {
  static code = "plan.impure";
}

export class PlanChanged extends Refused {
  static code = "plan.changed";
}

export class PlanDrift extends Refused {
  static code = "plan.drift";
}

export class Held extends Refused {
  static code = "source.held";
}

export class StepFailed extends Refused {
  static code = "step.failed";
  static exitCode = 1;
}

export class Denied extends KfmError {
  static code = "denied";
  static exitCode = 4;
}

export class Frozen extends KfmError {
  static code = "frozen";
  static exitCode = 5;
}

export class Conflict extends KfmError {
  static code = "conflict";
  static exitCode = 6;
}

export class Busy extends Conflict {
  static code = "lease.busy";
}

export class Fenced extends Conflict {
  static code = "lease.fenced";
}

export class Moved extends Conflict {
  static code = "ref.moved";
}

export class Unavailable extends KfmError {
  static code = "unavailable";
  static exitCode = 69;
}

export class Broken extends KfmError {
  static code = "broken";
  static exitCode = 74;
}

export class Corrupt extends Broken {
  static code = "corrupt";
  static exitCode = 65;
}

export class StorageFailed extends Broken {
  static code = "storage.failed";
  static exitCode = 74;
}

/** Every class there is, the base first. */
export const KINDS = [
  KfmError, Refused, BadInput, PlanImpure, PlanChanged, PlanDrift, Held, StepFailed, Denied, Frozen,
  Conflict, Busy, Fenced, Moved, Unavailable, Broken, Corrupt, StorageFailed,
];

export const EXIT_CODES = {
  done: 0,
  failed: 1,
  usage: 2,
  refused: Refused.exitCode,
  denied: Denied.exitCode,
  frozen: Frozen.exitCode,
  busy: Conflict.exitCode,
  noop: 10, // only with --exit-code; otherwise a NOOP is a success and exits 0
  corrupt: Corrupt.exitCode,
  unavailable: Unavailable.exitCode,
  storage: StorageFailed.exitCode,
};

/** File and line at which an error rose. */
export function placeOf(problem) {
  const frame = /(?:\(|at )(?:file:\/\/)?([^()\n]*):(\d+):\d+\)?$/m.exec(problem?.stack ?? "");
  return frame ? `${frame[1].split("/").pop()}:${frame[2]}` : "an unknown place";
}
