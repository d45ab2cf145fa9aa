/**
 * Rows of a table as text: comma-separated, `\n` at the end of each, quotes only where they are needed.
 *
 * A field is quoted if it holds a comma, a quote or a line ending; quotes inside are doubled. A row of one empty
 * field is `""`, so that it is not a blank line. Twin of src/kfm/contract/tables.py.
 */

const SIGNS = /[,"\r\n]/;

/** A row as a line, without its ending. */
export function lineOf(row) {
  if (row.length === 1 && row[0] === "") return '""';
  let out = "";
  for (let at = 0; at < row.length; at += 1) {
    const field = row[at];
    if (at) out += ",";
    out += SIGNS.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
  }
  return out;
}
