/** Connects to a host after judging its addresses. Twin of src/kfm/sources/connect.py. */

import dns from "node:dns";
import fs from "node:fs";
import net from "node:net";

import { Denied, Refused, Unavailable } from "../errors.mjs";
import { refusal } from "./addresses.mjs";
import { brokenOff, named, Tap, wasSilent, within, Wire } from "./http1.mjs";

const MAX_ADDRESSES = 8;

/** Where systems keep the authorities they trust, in one file. */
const BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/pki/tls/cacert.pem",
  "/etc/ssl/cert.pem",
];

export async function systemResolve(host) {
  const found = await dns.promises.lookup(host, { all: true, verbatim: true });
  return [...new Set(found.map((one) => one.address))];
}

/** Returns a connected socket, or the system's error; the caller stops waiting by `signal`. */
export function dialTcp(address, port, signal) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: address, port, noDelay: true, allowHalfOpen: true });
    const stop = () => socket.destroy(new Error("no caller waits for it"));
    signal.addEventListener("abort", stop, { once: true });
    socket.once("error", reject);
    socket.once("connect", () => {
      signal.removeEventListener("abort", stop);
      socket.off("error", reject);
      resolve(socket);
    });
  });
}

/** What a connection is secured with. `certFile` names the authorities; empty: those of the system, else Node's own. */
export function verifyingTls(certFile = "") {
  const options = { ALPNProtocols: ["http/1.1"], minVersion: "TLSv1.2" };
  if (certFile) return { ...options, ca: textOf(certFile) ?? [] };
  const ca = BUNDLES.map(textOf).find((text) => text !== null);
  return ca === undefined ? options : { ...options, ca };
}

function textOf(file) {
  try {
    return fs.readFileSync(file, "latin1");
  } catch {
    return null;
  }
}

/**
 * A wire to `here`, after TLS if its scheme asks for it.
 *
 * The name is resolved once and the very address that was judged is dialled, so that a second, different answer of
 * the name server is never asked for. One bad address condemns the name.
 */
export async function connect(here, allow, budget, { resolve, dial, tls }) {
  const addresses = await resolveInTime(here, budget, resolve);
  for (const address of addresses) judge(here, address, here.port, allow);
  let failure = null;
  for (const address of addresses.slice(0, MAX_ADDRESSES)) {
    const waiting = new AbortController();
    const dialled = dial(address, here.port, waiting.signal).then(
      (socket) => ({ socket }),
      (problem) => ({ problem }),
    );
    const answer = await within(dialled, budget.patience());
    if (wasSilent(answer) || answer.problem?.code === "ETIMEDOUT") {
      waiting.abort();
      dialled.then(({ socket }) => socket?.destroy()); // it connected too late
      failure = budget.silence();
    } else if (answer.problem) {
      const [name, errno] = named(answer.problem);
      failure = new Unavailable(`${budget.shown} cannot be reached (${name})`, { hint: "try again later", errno });
    } else return secured(answer.socket, here, allow, budget, tls);
  }
  throw failure ?? new Unavailable(`${budget.shown} has no address`, { hint: "check the host name" });
}

async function secured(socket, here, allow, budget, tls) {
  try {
    judge(here, socket.remoteAddress ?? "", socket.remotePort ?? 0, allow);
    return here.scheme === "https" ? await handshake(socket, here, budget, tls) : new Wire(socket, budget);
  } catch (problem) {
    socket.destroy();
    throw problem;
  }
}

async function handshake(socket, here, budget, tls) {
  const { connect: connectTls } = await import("node:tls");
  const under = new Tap(socket);
  const patience = budget.patience();
  const secure = connectTls({
    ...tls(),
    socket: under,
    host: here.host,
    servername: net.isIP(here.host) ? "" : here.host,
    rejectUnauthorized: false, // so that we learn what is wrong with a certificate, and not with the connection
  });
  const shaken = new Promise((resolve) => {
    secure.once("secureConnect", () => resolve({}));
    secure.on("error", (problem) => resolve({ problem }));
    under.once("over", () => resolve({ problem: under.failure ?? new Error("it ended") }));
  });
  const answer = await within(shaken, patience);
  if (wasSilent(answer)) {
    secure.destroy();
    throw budget.silence();
  }
  if (answer.problem) {
    secure.destroy();
    if (named(answer.problem)[1] !== null) throw brokenOff(budget.shown, answer.problem);
    throw new Unavailable(`${budget.shown} failed the TLS handshake`, {
      hint: "check scheme and port, then try again later",
    });
  }
  if (!secure.authorized) {
    secure.destroy();
    throw new Refused(`${budget.shown} has a certificate that does not prove its name`, {
      hint: "check it with `openssl s_client`, ask the server's operator, or name the authority in SSL_CERT_FILE",
    });
  }
  return new Wire(secure, budget, under);
}

function judge(here, address, port, allow) {
  const why = refusal(here.host, address, port, allow);
  if (why) {
    throw new Denied(`${here.shown()} may not be reached: ${why}`, {
      hint: `if you want this, add '${here.host}:${here.port}' to network.allow in kfm.yml`,
    });
  }
}

/** Name servers have time limits of their own, longer than ours: a question that does not come back is left behind. */
async function resolveInTime(here, budget, resolve) {
  const asked = (async () => resolve(here.host, here.port))().then(
    (addresses) => ({ addresses }),
    (problem) => ({ problem }),
  );
  const answer = await within(asked, budget.patience());
  if (wasSilent(answer)) throw budget.silence();
  if (!answer.problem) return answer.addresses;
  if (answer.problem.code === undefined) throw answer.problem;
  throw new Unavailable(`the host of ${budget.shown} has no address`, {
    hint: "check the host name and the network, then try again",
  });
}
