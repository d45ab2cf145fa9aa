/** Twin of store/retention/aside_rows.py: objects that `kfm gc` set aside. They are only read here. */

const HEAD = 30; // the time and the size, 14 digits each, and the spaces behind them

export const ASIDE = "aside";

/** The bytes of a small object; null for a large one. */
export function asideBody(row) {
  const rest = row.subarray(HEAD);
  return rest.toString("latin1") === "large" ? null : rest.subarray("small ".length);
}
