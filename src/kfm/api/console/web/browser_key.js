// The key of a person in this browser: Ed25519 of WebCrypto, kept in IndexedDB. Its private half can be used by the
// pages of this server and read by none: not by the page, not by the server.
import { hexOf, sha256 } from "./bytes.js";

const DATABASE = "kfm";
const STORE = "keys";
const OWN = "own";

function opened() {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.open(DATABASE, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(STORE);
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}

async function stored(mode, work) {
  const database = await opened();
  try {
    const transaction = database.transaction(STORE, mode);
    const asked = work(transaction.objectStore(STORE));
    return await new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(asked.result);
      transaction.onabort = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

/** Why this browser cannot hold a key; empty if it can. */
export function whyNoKey() {
  if (globalThis.crypto?.subtle === undefined) {
    return "a browser signs only over TLS, or on the machine of the server itself";
  }
  return globalThis.indexedDB === undefined ? "this browser keeps nothing for pages" : "";
}

/** The key of this browser: its id, its public half in hex, and the private half to sign with. Null without one. */
export const ownKey = async () => (await stored("readonly", (store) => store.get(OWN))) ?? null;

/** Make a key and keep it. One that is there already is not replaced: then this fails. */
export async function makeKey() {
  const pair = await crypto.subtle.generateKey({ name: "Ed25519" }, false, ["sign", "verify"]);
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const made = { id: hexOf(await sha256(raw)), public: hexOf(raw), privateKey: pair.privateKey };
  await stored("readwrite", (store) => store.add(made, OWN));
  await navigator.storage?.persist?.().catch(() => false); // or a browser that is short of room may drop the key
  return made;
}

export const forgetKey = () => stored("readwrite", (store) => store.delete(OWN));
