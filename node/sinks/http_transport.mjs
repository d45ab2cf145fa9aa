/**
 * HTTP for publishers: to the one place that is configured, without redirects, proxies or patience without end.
 * Twin of src/kfm/sinks/http_transport.py.
 */

import { once } from "node:events";
import http from "node:http";
import https from "node:https";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

import { KfmError, Unavailable } from "../errors.mjs";

const TIMEOUT_MS = 60_000; // between two bytes
const LATER = "the commit is kept; `kfm resume` publishes it later";
const MOST = 16 << 20; // bytes of an answer

export class HttpTransport {
  async call(method, url, headers, body) {
    const { hostname } = new URL(url);
    try {
      return await exchange(method, url, headers, body);
    } catch (problem) {
      if (problem instanceof KfmError) throw problem;
      throw new Unavailable(`${hostname} does not answer (${problem.code ?? problem.name})`, {
        hint: LATER,
        cause: problem,
      });
    }
  }
}

async function exchange(method, url, headers, body) {
  const client = url.startsWith("https:") ? https : http;
  const request = client.request(url, { method, headers, agent: false, timeout: TIMEOUT_MS });
  request.on("timeout", () => request.destroy(Object.assign(new Error("timeout"), { code: "ETIMEDOUT" })));
  request.on("error", () => {}); // the promise below rejects
  const answered = once(request, "response");
  answered.catch(() => {});
  const chunks = body === null ? [] : Buffer.isBuffer(body) ? [body] : body;
  pipeline(Readable.from(chunks), request).catch(() => {}); // an answer may come before all was sent
  const [answer] = await answered;
  const parts = [];
  let size = 0;
  for await (const part of answer) {
    size += part.length;
    if (size > MOST) throw new Unavailable(`${request.host} answers with more than 16 MiB`, { hint: LATER });
    parts.push(part);
  }
  return [answer.statusCode, answer.headers, Buffer.concat(parts)];
}
