/** The stages after admission, loaded together and only if there is work: a NOOP needs none of them. */

export { execute } from "./execute.mjs";
export { quarantine } from "./quarantine.mjs";
export { trace } from "./lineage_stage.mjs";
export { assemble, commit, upsert } from "./upsert.mjs";
