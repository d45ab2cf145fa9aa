// A real OpenID Connect provider for tests, on loopback. Its clock stands still.
//
//   node oidc_provider.mjs '{"now": MS, "client_id": …, "client_secret": …, "redirect_uris": […], "alg": "RS256"}'
//
// It prints its issuer when it listens, and ends with its standard input. Everybody may sign in under any name.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";

const given = JSON.parse(process.argv[2]);
const Real = Date;
globalThis.Date = class extends Real {
  constructor(...parts) {
    super(...(parts.length ? parts : [given.now]));
  }
  static now() {
    return given.now;
  }
};

const { default: Provider } = await import("oidc-provider"); // after its clock was stopped

const pairs = {
  RS256: () => generateKeyPairSync("rsa", { modulusLength: 2048 }),
  PS256: () => generateKeyPairSync("rsa", { modulusLength: 2048 }),
  ES256: () => generateKeyPairSync("ec", { namedCurve: "P-256" }),
  EdDSA: () => generateKeyPairSync("ed25519"),
};
const jwks = {
  keys: Object.entries(pairs)
    .filter(([alg]) => alg === given.alg)
    .map(([alg, make]) => ({ ...make().privateKey.export({ format: "jwk" }), use: "sig", alg, kid: alg })),
};

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    jwks,
    clients: [
      {
        client_id: given.client_id,
        client_secret: given.client_secret,
        redirect_uris: given.redirect_uris,
        id_token_signed_response_alg: given.alg,
      },
    ],
    claims: { openid: ["sub"], profile: ["preferred_username"], email: ["email", "email_verified"] },
    features: { introspection: { enabled: true }, revocation: { enabled: true }, devInteractions: { enabled: true } },
    enabledJWA: { idTokenSigningAlgValues: ["RS256", "PS256", "ES256", "EdDSA"] },
    cookies: { keys: ["of-a-test"] },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, email: `${id}@example.org`, email_verified: true }),
    }),
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
