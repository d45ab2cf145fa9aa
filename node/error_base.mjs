/** What every error is made of; the kinds are generated from src/kfm/errors.py, which draws their tree. */

export class KfmError extends Error {
  static code = "error";
  static exitCode = 1;

  /**
   * `cause` is what lay behind it. Everything else in the options is a field, in its order.
   */
  constructor(message, { hint = "", cause = undefined, ...fields } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.hint = hint;
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

  /** As `str(error)` in Python: what happened, then what to do. */
  toString() {
    return this.hint ? `${this.message}; ${this.hint}` : this.message;
  }
}

/** File and line at which an error rose. */
export function placeOf(problem) {
  const frame = /(?:\(|at )(?:file:\/\/)?([^()\n]*):(\d+):\d+\)?$/m.exec(problem?.stack ?? "");
  return frame ? `${frame[1].split("/").pop()}:${frame[2]}` : "an unknown place";
}
