/** Readers of sources: HTTP with validators, and files. The scheme of a URI chooses one. Twin of sources/__init__.py. */

import { BadInput } from "../errors.mjs";

export const KNOWN_SCHEMES = ["http", "https", "file"];

/**
 * The reader for a URI; a path without a scheme is a file. Loads what it needs when it is first asked to fetch.
 *
 * `certFile`: where the authorities lie that https trusts, as in SSL_CERT_FILE; empty: those of the system.
 */
export function openSource(uri, { certFile = "" } = {}) {
  const scheme = schemeOf(uri);
  if (scheme === "http" || scheme === "https") {
    return {
      async fetch(request, known, objects) {
        const [{ HttpSource }, { verifyingTls }] = await Promise.all([import("./http.mjs"), import("./connect.mjs")]);
        return new HttpSource({ tls: () => verifyingTls(certFile) }).fetch(request, known, objects);
      },
    };
  }
  if (scheme === "file" || scheme === "") {
    return {
      async fetch(request, known, objects) {
        const { FileSource } = await import("./local_files.mjs");
        return new FileSource().fetch(request, known, objects);
      },
    };
  }
  throw new BadInput(`KFM cannot read a source with the scheme '${scheme}'`, {
    hint: `known are ${KNOWN_SCHEMES.join(", ")}`,
  });
}

export function schemeOf(uri) {
  const found = /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(uri);
  return found === null ? "" : found[1].toLowerCase();
}
