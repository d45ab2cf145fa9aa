/** Reading what the object store opens: `read(n)` gives up to n bytes, none at the end; `close()` ends it. */

const PIECE = 1 << 20;

/** An object in pieces, checked when it was read to its end. */
export function* chunksOf(objects, name) {
  const file = objects.open(name);
  try {
    for (let chunk; (chunk = file.read(PIECE)).length; ) yield chunk;
  } finally {
    file.close();
  }
}

/** The lines of a stream, without their ends, as text or as `bytes`. The last one may have no end. */
export function* linesOf(file, { bytes = false } = {}) {
  const joined = (pieces) => {
    const line = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
    return bytes ? line : line.toString("utf8");
  };
  let rest = [];
  for (let chunk; (chunk = file.read(PIECE)).length; ) {
    let start = 0;
    for (let end; (end = chunk.indexOf(10, start)) >= 0; start = end + 1) {
      rest.push(chunk.subarray(start, end));
      yield joined(rest);
      rest = [];
    }
    if (start < chunk.length) rest.push(chunk.subarray(start));
  }
  if (rest.length) yield joined(rest);
}
