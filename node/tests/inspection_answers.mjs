/** What twin.mjs can be asked about data contracts. Bytes go both ways in base64. */

import { canonicalText } from "../canonical.mjs";
import { dateFormatProblem, dateReader } from "../dates.mjs";
import { encode, encodingOf, opened, Undecodable } from "../encodings.mjs";
import { LIMITS } from "../engine/inspect_text.mjs";
import { contractProblems, inspect } from "../engine/source_check.mjs";
import { KfmError } from "../errors.mjs";
import { compiled, patternFlaw } from "../patterns.mjs";
import { convert, DataContract } from "../records.mjs";

/** A stream as the object store opens it, whose pieces are overwritten as soon as the next one is asked for. */
function streamOf(body) {
  let at = 0;
  let given = Buffer.alloc(0);
  return {
    read(size) {
      given.fill(0x21);
      given = Buffer.from(body.subarray(at, at + size));
      at += given.length;
      return given;
    },
    close() {
      given.fill(0x21);
    },
  };
}

function inspected(asked, encoded, limits) {
  const contract = convert(DataContract, asked);
  const body = Buffer.from(encoded, "base64");
  const accepted = [];
  const held = [];
  try {
    const report = inspect(
      () => streamOf(body),
      contract,
      "stations",
      (chunk) => accepted.push(Buffer.from(chunk)),
      (chunk) => held.push(Buffer.from(chunk)),
      { limits: { ...LIMITS, ...limits } },
    );
    return {
      report: canonicalText(report),
      accepted: report.changed ? Buffer.concat(accepted).toString("base64") : null,
      held: Buffer.concat(held).toString("base64"),
    };
  } catch (problem) {
    if (problem instanceof KfmError) return { error: String(problem), code: problem.code };
    throw problem;
  }
}

function decoded(name, encoded) {
  try {
    const body = Buffer.from(encoded, "base64");
    const { decoder, mark } = opened(name, body);
    return decoder.decode(body.subarray(mark), true);
  } catch (problem) {
    if (problem instanceof Undecodable) return null;
    throw problem;
  }
}

export const ANSWERS = {
  inspect: inspected,
  problems: (asked) => contractProblems(convert(DataContract, asked)),
  decode: decoded,
  encode: (name, text) => encode(name, text)?.toString("base64") ?? null,
  encoding: encodingOf,
  pattern: (pattern, texts) => {
    const problem = patternFlaw(pattern);
    if (problem) return problem;
    const whole = compiled(pattern);
    const some = compiled(pattern, { whole: false });
    return texts.map((text) => [whole(text), some(text)]);
  },
  dates: (format, texts) => {
    const problem = dateFormatProblem(format);
    return problem || texts.map(dateReader(format));
  },
};
