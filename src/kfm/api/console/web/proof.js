// Checks in the browser that an entry is in the ledger of a signed head: SHA-256 and Ed25519 of WebCrypto, nothing else.
import { bytesOf, bytesOf64, hexOf, sha256, utf8 } from "./bytes.js";

const place = document.getElementById("check");

// RFC 9162, 2.1.3.2: the root that follows from a leaf and the hashes on its way; null if there are too many or too few.
async function rootOf(leaf, index, size, hashes) {
  let at = index;
  let last = size - 1;
  let root = leaf;
  for (const hash of hashes) {
    if (last === 0) return null;
    if (at % 2 === 1 || at === last) {
      root = await sha256([1], hash, root);
      while (at % 2 === 0 && at !== 0) {
        at = Math.floor(at / 2);
        last = Math.floor(last / 2);
      }
    } else {
      root = await sha256([1], root, hash);
    }
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  return last === 0 ? root : null;
}

async function isSigned(note, keys) {
  const end = note.lastIndexOf("\n\n");
  const text = utf8(note.slice(0, end + 1));
  for (const line of note.slice(end + 2).split("\n")) {
    const [, name, signed] = line.split(" ");
    if (signed === undefined) continue;
    const raw = bytesOf64(signed);
    for (const key of keys) {
      const [keyName, hint, ...rest] = key.split("+");
      const known = bytesOf64(rest.join("+"));
      if (keyName !== name || hint !== hexOf(raw.slice(0, 4)) || known[0] !== 1) continue;
      const used = await crypto.subtle.importKey("raw", known.slice(1), { name: "Ed25519" }, false, ["verify"]);
      if (await crypto.subtle.verify("Ed25519", used, raw.slice(4), text)) return true;
    }
  }
  return false;
}

async function check(proof) {
  const leaf = bytesOf(proof.leaf);
  if (proof.stored) {
    const own = await sha256([0], utf8(proof.stored));
    if (hexOf(own) !== proof.leaf) return "the hash is not that of the entry";
  }
  const lines = proof.checkpoint.split("\n");
  const size = Number(lines[1]);
  const root = await rootOf(leaf, proof.entry.index - 1, size, proof.hashes.map(bytesOf));
  if (root === null || hexOf(root) !== hexOf(bytesOf64(lines[2]))) return "the hashes do not lead to the signed root";
  if (!(await isSigned(proof.checkpoint, proof.keys))) return "no key that this server trusts signed the head";
  return "";
}

function tell(kind, text) {
  place.className = `check ${kind}`;
  place.textContent = text;
}

if (place !== null) {
  try {
    const answer = await fetch(place.dataset.proof);
    const wrong = await check(await answer.json());
    if (wrong) tell("bad", `The proof does not hold: ${wrong}.`);
    else tell("good", "Your browser has checked this proof: the entry is in the ledger of the signed head.");
  } catch {
    tell("", "This browser cannot check the proof. These commands do:");
  }
}
