// What a person signs: the digest of a request, whole, as kfm/crypto/approvals.py signs it.
import { base64Of, hexOf, joined, sha256, utf8 } from "./bytes.js";
import { formOf } from "./canonical_form.js";

export const ACT = "application/vnd.kfm.act+json";

/** The digest of a value: the SHA-256 of its canonical JSON. */
export const digestOf = async (value) => `sha256:${hexOf(await sha256(utf8(formOf(value))))}`;

/** The bytes to sign. Their type is part of them (DSSE). */
export function typed(type, body) {
  return joined(utf8(`DSSEv1 ${utf8(type).length} ${type} ${body.length} `), body);
}

/** Sign a request in one of the kinds request, approve and reject, at a time of the server's clock. */
export async function signAct(kind, request, key, at) {
  const said = { kind, request: await digestOf(request), request_id: request.id, key: key.id, at };
  const message = typed(ACT, utf8(formOf(said)));
  const signature = new Uint8Array(await crypto.subtle.sign("Ed25519", key.privateKey, message));
  return { key: key.id, at, signature: base64Of(signature) };
}
