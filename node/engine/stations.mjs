/** The stations past admission: loaded together, and only where there is work. A NOOP needs none of them. */

export { execute } from "./execute.mjs";
export { quarantine } from "./quarantine.mjs";
export { trace } from "./trace.mjs";
export { assemble, commit, upsert } from "./upsert.mjs";
