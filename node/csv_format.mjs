/** Rows of a table as text. Twin of src/kfm/model/csv_format.py. */

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

export function holdsRows(mediaType, body) {
  const text = body.toString("latin1");
  if (!mediaType.startsWith("text/csv")) return !["", "[]", '{"features":[],"type":"FeatureCollection"}'].includes(text);
  let end = 0;
  let quotes = 0;
  for (const line of text.split("\n")) {
    end += line.length + 1;
    quotes += line.split('"').length - 1;
    if (quotes % 2 === 0) break; // here the header ends: a line end inside quotes is one of a name
  }
  return end < text.length;
}
