/**
 * Opens a file below a directory, following no symbolic link at any component. Node has no openat. On Linux a
 * descriptor can be stepped from by its name in /proc, which is the same; elsewhere each component is looked at before
 * and after, which is as much as can be done. Twin of sources/openat.py.
 */

import fs from "node:fs";

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;

/** The system's own way to say that a link was met. */
function linkMet() {
  return Object.assign(new Error("ELOOP: a symbolic link"), { code: "ELOOP", errno: -40, syscall: "open" });
}

/**
 * A descriptor of the file at `parts` below the directory `root`.
 *
 * Throws errors of the system; ELOOP for a link. `parts` are bytes, none empty, `.` or `..`.
 */
export function openBeneath(root, rootPath, parts, flags) {
  return fs.existsSync(`/proc/self/fd/${root}`)
    ? stepByStep(root, parts, flags | O_NOFOLLOW)
    : lookedAt(rootPath, parts, flags | O_NOFOLLOW);
}

function stepByStep(root, parts, flags) {
  let here = root;
  try {
    for (const part of parts.slice(0, -1)) {
      const below = openDirectory(under(here, part));
      if (here !== root) fs.closeSync(here);
      here = below;
    }
    return fs.openSync(under(here, parts.at(-1)), flags);
  } finally {
    if (here !== root) fs.closeSync(here);
  }
}

const under = (directory, name) => Buffer.concat([Buffer.from(`/proc/self/fd/${directory}/`), name]);

function openDirectory(path) {
  try {
    return fs.openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch (problem) {
    // With O_DIRECTORY a link too is "not a directory"; say which of the two it was.
    if (problem.code === "ENOTDIR" && fs.lstatSync(path).isSymbolicLink()) throw linkMet();
    throw problem;
  }
}

function lookedAt(rootPath, parts, flags) {
  const slash = Buffer.from("/");
  const path = (count) => Buffer.concat([Buffer.from(rootPath), ...parts.slice(0, count).flatMap((part) => [slash, part])]);
  const look = () => {
    for (let count = 1; count < parts.length; count += 1) {
      const info = fs.lstatSync(path(count));
      if (info.isSymbolicLink()) throw linkMet();
    }
  };
  look();
  const descriptor = fs.openSync(path(parts.length), flags);
  try {
    look();
    const [opened, named] = [fs.fstatSync(descriptor), fs.lstatSync(path(parts.length))];
    if (opened.ino !== named.ino || opened.dev !== named.dev) throw linkMet();
  } catch (problem) {
    fs.closeSync(descriptor);
    throw problem;
  }
  return descriptor;
}
