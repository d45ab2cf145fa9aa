/** Secrets of a source: referred to in the configuration, shown as references, never in clear. Twin of model/secret_refs.py. */

import { compare, isPrintable } from "./characters.mjs";
import { printable } from "./names.mjs";
import { isKey } from "./redaction.mjs";

export function keyInClear(uri) {
  if (!uri.includes("://")) return "";
  const base = uri.split("#", 1)[0];
  const mark = base.indexOf("?");
  for (const pair of mark < 0 ? [] : base.slice(mark + 1).split(/[&;]/)) {
    const equals = pair.indexOf("=");
    if (equals >= 0 && equals < pair.length - 1 && isKey(decoded(pair.slice(0, equals)))) {
      return decoded(pair.slice(0, equals));
    }
  }
  return "";
}

export function percent(body) {
  const encoded = (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
  return body.toString("latin1").replace(/[^A-Za-z0-9._~-]/g, encoded);
}

export function decoded(text) {
  return text.replace(/%([0-9a-fA-F]{2})/g, (_, byte) => String.fromCharCode(parseInt(byte, 16)));
}

export function withQuery(uri, pairs) {
  const base = uri.split("#", 1)[0];
  const more = pairs.map(([name, value]) => `${name}=${value}`).join("&");
  const mark = !more || /[?&]$/.test(base) ? "" : base.includes("?") ? "&" : "?";
  return base + mark + more;
}

export function referring({ uri, headers, query }) {
  const names = Object.keys(query).sort(compare);
  const asked = Object.entries(headers).map(([name, reference]) => [name.toLowerCase(), braced(reference)]);
  if (!names.length && !asked.length) return uri;
  const shown = withQuery(uri, names.map((name) => [percent(Buffer.from(name)), braced(query[name])]));
  const rest = asked.sort(([one], [two]) => compare(one, two)).map(([name, reference]) => `${name}=${reference}`);
  return shown + (rest.length ? `#${rest.join("&")}` : "");
}

function braced(reference) {
  const colon = reference.indexOf(":");
  return `{${reference.slice(0, colon)}:${percent(Buffer.from(reference.slice(colon + 1)))}}`;
}

/** Reads the secret headers and query values of a source now; returns changes for a FetchRequest. */
export function revealed(source, request, read) {
  const texts = Object.entries(source.headers).map(([name, reference]) => [name, read(reference).toString("latin1")]);
  const names = Object.keys(source.query).sort(compare);
  const values = names.map((name) => read(source.query[name]));
  const pairs = names.map((name, index) => [percent(Buffer.from(name)), percent(values[index])]);
  return {
    address: withQuery(source.uri, pairs),
    headers: [...request.headers, ...texts],
    secrets: [...texts.flatMap(([, text]) => text.split(" ")), ...values.map((value) => value.toString("latin1"))],
  };
}

export function checkSecrets(document, at, { uri, headers, query }) {
  const key = keyInClear(uri);
  if (key) {
    document.refuse(
      [...at, "uri"],
      `holds a key in clear, as the parameter ${printable(key, 40)}`,
      "receipts record the URL: move the key to `query:` and write a reference to it",
    );
  }
  for (const [kind, given] of [["headers", headers], ["query", query]]) {
    const seen = new Set();
    for (const [name, reference] of Object.entries(given)) {
      if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/.test(name) || name.includes("\n") || seen.has(name.toLowerCase())) {
        document.refuse([...at, kind, name], "is not a valid name, or is given twice", "use letters, digits, - and _");
      }
      if (kind === "headers") seen.add(name.toLowerCase());
      checkReference(document, [...at, kind, name], reference);
    }
    const isSafe = /^(?:https:\/\/|http:\/\/(?:127\.0\.0\.1|localhost)(?::[0-9]+)?(?:\/|$))/.test(uri);
    if (Object.keys(given).length && !isSafe) {
      document.refuse([...at, kind], "would be sent unencrypted, or not at all", "use an https URL");
    }
  }
}

export function checkReference(document, at, reference) {
  const colon = reference.indexOf(":");
  const rest = reference.slice(colon + 1);
  if (!["env", "file"].includes(reference.slice(0, Math.max(colon, 0))) || !rest || !isPrintable(rest)) {
    document.refuse(at, "is not a reference", "write env:NAME or file:PATH");
  }
}
