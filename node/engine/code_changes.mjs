/** Reports a declaration that changed although its version did not. Twin of src/kfm/engine/changes/code_changes.py. */

import { ErrorNote } from "../records.mjs";

/** Is this another declaration than made the version there is now, under the same version? Not so if it is not known. */
export function codeChanged(state, updater, dataset) {
  const current = state.ref(`processed/${dataset}`);
  const version = current ? state.datasetVersion(dataset, current) : null;
  if (version === null || ["", updater.code_hash].includes(version.code_hash)) return false;
  const last = state.run(version.validated_by || version.run_id);
  return last !== null && last.updater_id === updater.id && last.updater_version === updater.version;
}

export function codeWarnings({ version }, outcome) {
  let effect = "made what is there; nothing is run again until `version` changes (or use --force)";
  if (["done", "unchanged"].includes(outcome)) {
    effect = `made what was there, and this run is of version ${version} too; change \`version\` with the declaration`;
  } else if (outcome !== "noop") {
    return [];
  }
  return [ErrorNote({ code: "code.changed", message: `the declaration changed since version ${version} ${effect}` })];
}
