/** What the system said, in the words in which Python passes it on: libuv has words of its own. */

import os from "node:os";

// As the C library of Linux writes them.
const WORDS = {
  __proto__: null,
  EPERM: "Operation not permitted",
  ENOENT: "No such file or directory",
  EINTR: "Interrupted system call",
  EIO: "Input/output error",
  ENXIO: "No such device or address",
  EBADF: "Bad file descriptor",
  EAGAIN: "Resource temporarily unavailable",
  ENOMEM: "Cannot allocate memory",
  EACCES: "Permission denied",
  EBUSY: "Device or resource busy",
  EEXIST: "File exists",
  EXDEV: "Invalid cross-device link",
  ENODEV: "No such device",
  ENOTDIR: "Not a directory",
  EISDIR: "Is a directory",
  EINVAL: "Invalid argument",
  ENFILE: "Too many open files in system",
  EMFILE: "Too many open files",
  ETXTBSY: "Text file busy",
  EFBIG: "File too large",
  ENOSPC: "No space left on device",
  ESPIPE: "Illegal seek",
  EROFS: "Read-only file system",
  EMLINK: "Too many links",
  EPIPE: "Broken pipe",
  ENAMETOOLONG: "File name too long",
  ENOSYS: "Function not implemented",
  ENOTEMPTY: "Directory not empty",
  ELOOP: "Too many levels of symbolic links",
  ENODATA: "No data available",
  EOVERFLOW: "Value too large for defined data type",
  EILSEQ: "Invalid or incomplete multibyte or wide character",
  ENOTSUP: "Operation not supported",
  EOPNOTSUPP: "Operation not supported",
  ETIMEDOUT: "Connection timed out",
  ESTALE: "Stale file handle",
  EDQUOT: "Disk quota exceeded",
};

/** The name of what went wrong; libuv has none for some, such as a quota that is used up. */
export function nameOf(problem) {
  if (problem.code in WORDS) return problem.code;
  const number = numberOf(problem);
  return Object.keys(WORDS).find((name) => os.constants.errno[name] === number) ?? problem.code;
}

/** The words for a failed call, as `strerror` has them. */
export function strerror(problem) {
  return WORDS[nameOf(problem)] ?? problem.message ?? "unknown error";
}

/** The number of a failed call, as C counts them. */
export function numberOf(problem) {
  return Math.abs(problem.errno);
}

/** An error as a failed call throws it. */
export function systemError(code, syscall, words = strerror({ code })) {
  const errno = -(os.constants.errno[code] ?? 0);
  return Object.assign(new Error(words), { code, errno, syscall });
}
