/** Parses a URL strictly: a URL that two readers could understand differently is refused. Twin of sources/urls.py. */

import { hex, length } from "../characters.mjs";
import { BadInput } from "../errors.mjs";
import { printable } from "../names.mjs";

export const DEFAULT_PORTS = { http: 80, https: 443 };
const MAX_URL = 8192;
const LABEL = /^[a-z0-9_-]{1,63}$/;

export class Location {
  /** `host` is in lower case, without the brackets of an IPv6 literal; `target` is path and query as they go on the wire. */
  constructor(scheme, host, port, target) {
    this.scheme = scheme;
    this.host = host;
    this.port = port;
    this.target = target;
  }

  get origin() {
    return `${this.scheme}|${this.host}|${this.port}`;
  }

  get authority() {
    const name = this.host.includes(":") ? `[${this.host}]` : this.host;
    return this.port === DEFAULT_PORTS[this.scheme] ? name : `${name}:${this.port}`;
  }

  shown() {
    const path = partition(this.target, "?")[0];
    return `${this.scheme}://${this.authority}${path.length <= 120 ? path : `${path.slice(0, 119)}…`}`;
  }

  follow(reference) {
    if (!reference) throw new BadInput("the URL is empty");
    checkCharacters(reference);
    const ascii = reference.replace(/[^\x00-\x7f]/gu, (c) => `%${hex(c.codePointAt(0), 2).toUpperCase()}`);
    return parse(resolved(this, partition(ascii, "#")[0]));
  }
}

/** [before, separator, after], as str.partition has it. */
function partition(text, separator) {
  const at = text.indexOf(separator);
  return at < 0 ? [text, "", ""] : [text.slice(0, at), separator, text.slice(at + separator.length)];
}

function resolved(base, reference) {
  if (/^[A-Za-z][A-Za-z0-9+.-]*:/.test(reference)) return reference;
  if (reference.startsWith("//")) return `${base.scheme}:${reference}`;
  let [path, mark, query] = partition(reference, "?");
  const [here, ownMark, ownQuery] = partition(base.target, "?");
  if (!path) {
    path = here;
    if (!mark) [mark, query] = [ownMark, ownQuery];
  } else if (!path.startsWith("/")) path = here.slice(0, here.lastIndexOf("/") + 1) + path;
  return `${base.scheme}://${base.authority}${withoutDots(path)}${mark}${query}`;
}

function withoutDots(path) {
  const kept = [];
  const segments = path.split("/").slice(1);
  for (const segment of segments) {
    if (segment === "..") kept.pop();
    else if (segment !== ".") kept.push(segment);
  }
  if (segments.at(-1) === "." || segments.at(-1) === "..") kept.push("");
  return `/${kept.join("/")}`;
}

export function parse(url) {
  checkCharacters(url);
  let [scheme, separator, rest] = partition(url, "://");
  scheme = scheme.toLowerCase();
  if (!separator || !Object.hasOwn(DEFAULT_PORTS, scheme)) {
    const named = url.includes(":") ? printable(partition(url, ":")[0], 20) : "none";
    throw new BadInput(`the URL's scheme is not http or https but ${named}`, { hint: "give http://… or https://…" });
  }
  [rest] = partition(rest, "#");
  const cut = rest.search(/[/?]/);
  const authority = cut < 0 ? rest : rest.slice(0, cut);
  let target = cut < 0 ? "" : rest.slice(cut);
  if (authority.includes("@")) {
    throw new BadInput("the URL holds a user name or password", {
      hint: "remove it, and give it as a reference under the source's `headers:`",
    });
  }
  // Before toLowerCase: some letters past ASCII have an ASCII letter as their small one.
  const plain = /^[\x00-\x7f]*$/.test(authority) ? authority.toLowerCase() : authority;
  const [host, port] = hostAndPort(plain, DEFAULT_PORTS[scheme]);
  if (!target.startsWith("/")) target = `/${target}`;
  return new Location(scheme, host, port, encoded(target));
}

function checkCharacters(url) {
  if (length(url) > MAX_URL) throw new BadInput(`the URL is longer than ${MAX_URL} characters`);
  if (/[\x00-\x20\\\x7f]/.test(url)) {
    throw new BadInput("the URL holds a space, backslash or control character", {
      hint: "percent-encode it, e.g. %20 for a space",
    });
  }
}

function hostAndPort(authority, otherwise) {
  let host;
  let digits;
  if (authority.startsWith("[")) {
    let bracket;
    let after;
    [host, bracket, after] = partition(authority.slice(1), "]");
    if (!bracket || (after && !after.startsWith(":")) || !host.includes(":") || !/^[0-9a-f:.]*$/.test(host)) {
      throw new BadInput("the URL's IPv6 address cannot be read", { hint: "write it as http://[2001:db8::1]:8080/" });
    }
    digits = after.slice(1);
  } else {
    [host, , digits] = partition(authority, ":");
    if (host.endsWith(".")) host = host.slice(0, -1);
    if (host.length > 253 || !host.split(".").every((label) => LABEL.test(label))) {
      throw new BadInput("the URL's host name cannot be read", {
        hint: "use letters, digits, '-' and '.'; write others as xn--…",
      });
    }
  }
  if (!digits) return [host, otherwise];
  if (!/^[0-9]{1,5}$/.test(digits) || Number(digits) < 1 || Number(digits) > 65535) {
    throw new BadInput("the URL's port is not a number between 1 and 65535");
  }
  return [host, Number(digits)];
}

function encoded(target) {
  if (/^[\x00-\x7f]*$/.test(target)) return target;
  if (!target.isWellFormed()) throw new BadInput("the URL holds a character that is not Unicode text");
  return target.replace(/[^\x00-\x7f]/gu, (c) =>
    [...Buffer.from(c, "utf8")].map((byte) => `%${hex(byte, 2).toUpperCase()}`).join(""),
  );
}
