/** What the system said of a failed call. */

import os from "node:os";
import { getSystemErrorMap } from "node:util";

const NUMBERS = os.constants.errno;

/** The name of what went wrong; libuv has none for some, such as a quota that is used up. */
export function nameOf(problem) {
  const number = numberOf(problem);
  return Object.keys(NUMBERS).find((name) => NUMBERS[name] === number) ?? problem.code;
}

/** The words for a failed call. */
export function strerror(problem) {
  return getSystemErrorMap().get(-numberOf(problem))?.[1] ?? problem.message ?? "unknown error";
}

/** The number of a failed call, as C counts them. */
export const numberOf = (problem) => Math.abs(problem.errno);

/** An error as a failed call throws it. */
export function systemError(code, syscall, words = "") {
  const errno = -(NUMBERS[code] ?? 0);
  return Object.assign(new Error(words || strerror({ errno })), { code, errno, syscall });
}
