// Bytes as hex and base64, text as UTF-8, and SHA-256 of WebCrypto.
export const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
export const bytesOf64 = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
export const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
export const base64Of = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
export const utf8 = (text) => new TextEncoder().encode(text);
export const joined = (...parts) => Uint8Array.from(parts.flatMap((part) => Array.from(part)));
export const sha256 = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", joined(...parts)));
