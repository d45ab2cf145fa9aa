/** May this address be reached? Decided on numbers, never on names. Twin of src/kfm/sources/addresses.py. */

import net from "node:net";

import { DENIED_V4, DENIED_V6 } from "../generated/words.mjs";

export const WEB_PORTS = new Set([80, 443]);

const compile = (number, width, rows) =>
  rows.map(([network, prefix, why]) => [number(network) >> BigInt(width - prefix), BigInt(width - prefix), why]);

const V4 = compile(numberOfV4, 32, DENIED_V4);
const V6 = compile(numberOfV6, 128, DENIED_V6);

/**
 * Why `address:port`, which `host` resolved to, may not be reached; empty if it may.
 *
 * `host` is as the URL names it. Only the name can be allowed: an entry for 127.0.0.1 does not open `127.1` or a
 * public name that happens to resolve there.
 */
export function refusal(host, address, port, allow = []) {
  if (isAllowed(host, port, allow)) return "";
  const why = notGlobal(address);
  if (why) return `the address is ${why}`;
  return WEB_PORTS.has(port) ? "" : `port ${port} is neither 80 nor 443`;
}

export function isAllowed(host, port, allow) {
  const named = host.toLowerCase();
  const spelled = named.includes(":") ? [named, `[${named}]`, `[${named}]:${port}`] : [named, `${named}:${port}`];
  return allow.some((entry) => spelled.includes(entry.toLowerCase()));
}

export function notGlobal(address) {
  const text = address.split("%", 1)[0];
  if (!text.includes(":")) return net.isIPv4(text) ? search(V4, numberOfV4(text)) : "unreadable";
  if (!net.isIPv6(text)) return "unreadable";
  const number = numberOfV6(text);
  if (number >> 32n === 0xffffn) return search(V4, number & 0xffffffffn); // an IPv4 address in disguise
  return search(V6, number) || (number >> 125n === 1n ? "" : "outside the global range");
}

function search(table, number) {
  for (const [network, shift, why] of table) if (number >> shift === network) return why;
  return "";
}

function numberOfV4(text) {
  return text.split(".").reduce((number, part) => (number << 8n) | BigInt(part), 0n);
}

function numberOfV6(text) {
  let plain = text;
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  if (dotted) {
    const low = numberOfV4(dotted[2]);
    plain = `${dotted[1]}${(low >> 16n).toString(16)}:${(low & 0xffffn).toString(16)}`;
  }
  const [before, after] = plain.split("::");
  const head = before ? before.split(":") : [];
  const tail = after ? after.split(":") : [];
  const gap = plain.includes("::") ? new Array(8 - head.length - tail.length).fill("0") : [];
  return [...head, ...gap, ...tail].reduce((number, part) => (number << 16n) | BigInt(`0x${part}`), 0n);
}
