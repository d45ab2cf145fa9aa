/** Hides what looks like a secret. A second line of defence: the first is that secrets are only referred to. */

const WORDS = [
  "secret", "password", "passwd", "token", "credential", "authorization", "api_key", "apikey", "private_key",
];
const QUERY = ["key", "sig", "auth", "signature", "x_amz_signature", "x_goog_signature"];

const plain = (name) => name.toLowerCase().replaceAll("-", "_");

export function isSecretName(name) {
  const folded = plain(name);
  return WORDS.some((word) => folded.includes(word));
}

export function redacted(value, name = "") {
  if (typeof value === "string") {
    if (!isSecretName(name)) return redactedUrl(value);
    return value === "" || value.startsWith("env:") || value.startsWith("file:") ? value : "***";
  }
  if (Array.isArray(value)) return value.map((item) => redacted(item, name));
  if (value === null || typeof value !== "object") return value;
  const shown = Object.create(null);
  for (const key of Object.keys(value)) shown[key] = redacted(value[key], key);
  return shown;
}

export function redactedUrl(text) {
  const mark = text.indexOf("://");
  if (mark < 0) return text;
  const rest = text.slice(mark + 3);
  const end = rest.search(/[/?#]/);
  let authority = end < 0 ? rest : rest.slice(0, end);
  const tail = end < 0 ? "" : rest.slice(end);
  if (authority.includes("@")) authority = "***@" + authority.slice(authority.lastIndexOf("@") + 1);
  const question = tail.indexOf("?");
  const address = question < 0 ? tail : tail.slice(0, question + 1);
  const query = question < 0 ? "" : tail.slice(question + 1);
  return text.slice(0, mark + 3) + authority + address + query.split("&").map(parameter).join("&");
}

function parameter(pair) {
  const equals = pair.indexOf("=");
  const name = equals < 0 ? pair : pair.slice(0, equals);
  return equals >= 0 && equals < pair.length - 1 && isKey(name) ? `${name}=***` : pair;
}

export const isKey = (name) => isSecretName(name) || QUERY.includes(plain(name));
